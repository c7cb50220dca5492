"""Kernel calibration errors: correlations of residuals at similar predictions.

For an event no pairs of rows are computed: the Laplacian kernel needs one pass over sorted cells, and the Gaussian
kernel uses a series. Pairs of vectors are computed in blocks, with linear memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import gammaincc, gammaln, ndtr

from calibrant.core.binning import BinnedCells, bins_between, equal_mass_borders
from calibrant.core.cells import Cells, Floats, sandwich
from calibrant.core.errors import InvalidOption, TooFewRows
from calibrant.core.options import Option
from calibrant.core.reductions import Event, Vector
from calibrant.measures.hypothesis_tests import squares_tail
from calibrant.measures.intervals import Distance, Integers, Resampling, influence_interval, row_scale
from calibrant.measures.measure import Measure, MeasureResult

Kernel = Literal["gaussian", "laplacian"]
#: The most cells of a test and an interval of an event.
_CELLS = 128
#: Rows of a block of pairs, which fits in the processor cache.
_BLOCK = 512
#: Eigenvectors with less than this fraction of the largest eigenvalue are left out of an interval.
_LEAST_EIGENVALUE = 1e-9
#: Terms of the series of the Gaussian kernel that are smaller than this are left out.
_LEAST_TERM = 1e-18


@dataclass(frozen=True)
class PairSums:
    """Sums over pairs of rows of w_i w_j k(p_i, p_j) r_i . r_j: over ``all`` pairs, and over each row with itself.

    ``mass`` is the sum of the weights and ``same`` the mass of the pairs of a row with itself: the sum of squared
    weights, or of frequency weights.
    """

    all: float
    own: float
    mass: float
    same: float

    @property
    def biased(self) -> float:
        """Mean over all pairs, at least 0."""
        return max(self.all, 0.0) / self.mass**2

    @property
    def unbiased(self) -> float:
        """Mean over the pairs of different rows, which may be below 0. Raises ``TooFewRows`` for a single row."""
        pairs = self.mass**2 - self.same
        if pairs <= 1e-12 * self.mass**2:
            raise TooFewRows("an unbiased estimate needs at least two rows")
        return (self.all - self.own) / pairs


def kernel_of_squares(square: Floats, kernel: Kernel, bandwidth: float) -> Floats:
    """Return exp(-d^2 / 2 h^2), or exp(-d / h), for squared distances d^2."""
    scaled: Floats = square * (-0.5 / bandwidth**2) if kernel == "gaussian" else np.sqrt(square) / -bandwidth
    return np.exp(scaled, out=scaled)


def event_sums(cells: Cells, kernel: Kernel, bandwidth: float) -> PairSums:
    """Return the sums of an event with r = y - p, exact for h >= 0.05. O(m); O(m + m / h^2) for the Gaussian."""
    residual = cells.wy - cells.w * cells.p
    w2, w2y = (cells.w, cells.wy) if cells.kind == "frequency" else (cells.w2, cells.w2y)
    own = float(w2y @ (1.0 - cells.p) ** 2 + (w2 - w2y) @ cells.p**2)
    if kernel == "gaussian":
        total = sum(float(residual @ term) ** 2 for term in _gaussian_terms(cells.p, bandwidth))
    else:
        # exp(-(p - q) / h) factorises, so that one cumulative sum is enough.
        grown = np.exp((cells.p - 0.5) / bandwidth)
        below = np.concatenate(([0.0], np.cumsum(residual * grown)[:-1])) / grown
        total = float(residual @ residual + 2.0 * (residual @ below))
    return PairSums(total, own, cells.mass, float(w2.sum()))


def _gaussian_terms(p: Floats, bandwidth: float) -> Iterator[Floats]:
    """Yield features of the Gaussian kernel: exp(-(p - q)^2 / 2 h^2) = sum_t f_t(p) f_t(q).

    f_t(p) = exp(-x^2 / 2) x^t / sqrt(t!), x = (p - 1/2) / h, from the series of exp(x x'); |x| is at most 1 / 2h.
    """
    x = (p - 0.5) / bandwidth
    far = 0.25 / bandwidth**2
    term, t = np.exp(-0.5 * x * x), 0
    while t < far or t * math.log(far) - gammaln(t + 1.0) > math.log(_LEAST_TERM):
        yield term
        t += 1
        term = term * x / math.sqrt(t)


@dataclass(frozen=True)
class VectorSums(PairSums):
    """The sums of a vector, and the ``p_value`` of the sum over all pairs.

    ``w (n,)`` are the weights, ``by_row (n,)`` the sums of w_j k_ij r_i . r_j over j, and ``own_by_row`` their terms
    with j = i, for one copy of a row with a frequency weight.
    """

    w: Floats
    by_row: Floats
    own_by_row: Floats
    p_value: float

    def influence(self, *, unbiased: bool) -> Floats:
        """Return the influence of each row: 2 (its mean over other rows - the estimate), weighted mean 0.

        Near calibration the influence is mostly noise, and intervals are too wide rather than too narrow (Serfling
        1980, section 5.5).
        """
        others = self.by_row - self.own_by_row * unbiased
        moved = 2.0 * others / self.mass
        return moved - float(self.w @ moved) / self.mass


def vector_sums(vector: Vector, kernel: Kernel, bandwidth: float) -> VectorSums:
    """Return the sums of the whole vector with r = e_y - p and Euclidean distances, and their p-value.

    O(n^2 K) time in blocks of 512 rows, O(n K) memory. For the p-value see ``_moments_tail``.
    """
    p = vector.p.astype(np.float64, copy=False)
    w = np.ones(len(vector)) if vector.w is None else vector.w
    w2 = w if vector.kind == "frequency" else w * w
    residual, squared, length = _residuals(p, vector.labels), p * p, np.einsum("nk,nk->n", p, p)
    by_row, spread = np.zeros(len(p)), 0.0
    both, swapped = np.hstack([p, squared]), np.hstack([squared, p])
    for i in range(0, len(p), _BLOCK):
        a = slice(i, i + _BLOCK)
        for j in range(i, len(p), _BLOCK):
            b = slice(j, j + _BLOCK)
            inner = p[a] @ p[b].T
            apart = inner * -2.0
            apart += length[a, None]
            apart += length[b]
            np.maximum(apart, 0.0, out=apart)
            if i == j:
                np.fill_diagonal(apart, 0.0)
            k = kernel_of_squares(apart, kernel, bandwidth)
            twice = 1.0 if i == j else 2.0
            pairs = residual[a] @ residual[b].T
            pairs *= k
            by_row[a] += pairs @ w[b]
            if i < j:
                by_row[b] += w[a] @ pairs
            traces = inner * inner
            traces += inner
            traces -= both[a] @ swapped[b].T
            traces *= np.square(k, out=k)
            spread += twice * float(w2[a] @ traces @ w2[b])
    own, total = np.einsum("nk,nk->n", residual, residual), float(w @ by_row)
    model = w2 * (1.0 - length)
    mean, variance = float(model.sum()), 2.0 * spread
    if vector.kind == "importance" and mean > 0.0:
        noise = 4.0 * w2**2 * (np.einsum("nk,nk->n", squared, p) - length**2)
        inflation = float(sandwich(model, w2 * own, noise).sum()) / mean
        mean, variance = inflation * mean, inflation**2 * variance
    p_value = _moments_tail(total, mean, variance)
    own_by_row = own if vector.kind == "frequency" else w * own
    return VectorSums(total, float(w2 @ own), float(w.sum()), float(w2.sum()), w, by_row, own_by_row, p_value)


def _residuals(p: Floats, labels: Integers) -> Floats:
    residual = -p
    residual[np.arange(len(p)), labels] += 1.0
    return residual


def _moments_tail(total: float, mean: float, variance: float) -> float:
    """Return P(sum of all pairs > total) under calibration, from a gamma distribution with equal mean and variance.

    As a degenerate V-statistic the sum converges to a weighted sum of squares of normal variables (Serfling 1980,
    section 6.4). Its mean is sum w_i^2 (1 - |p_i|^2) and its variance 2 sum_ij w_i^2 w_j^2 k_ij^2 tr(S_i S_j),
    S = diag(p) - p p'. For importance weights, which may depend on the label, both are scaled by ``sandwich``.
    """
    if variance <= 0.0:  # every vector is a unit vector
        return 1.0 if total <= 0.0 else 0.0
    return float(gammaincc(mean * mean / variance, max(total, 0.0) * mean / variance))


@dataclass(frozen=True)
class _Compressed:
    """An event on at most 128 cells: residual sums, kernel matrix, and variances of the residuals under calibration."""

    residual: Floats
    gram: Floats
    chance: Floats
    bins: BinnedCells


def _compressed(cells: Cells, kernel: Kernel, bandwidth: float) -> _Compressed:
    at = np.arange(len(cells) + 1)
    if len(cells) > _CELLS:
        at = np.unique(equal_mass_borders(cells, np.array(_CELLS), np.arange(_CELLS + 1)))
    bins = bins_between(cells, at)
    gram = kernel_of_squares((bins.mean_p[:, None] - bins.mean_p) ** 2, kernel, bandwidth)
    residual = bins.mass * (bins.mean_y - bins.mean_p)
    return _Compressed(residual, gram, np.add.reduceat(cells.chance, at[:-1]), bins)


def event_p_value(cells: Cells, kernel: Kernel, bandwidth: float) -> float:
    """Return the asymptotic probability that calibrated predictions have at least this kernel error. O(m + 128^3).

    Under calibration the sum over all pairs converges to a sum of squares of normal variables, weighted by the
    eigenvalues of the kernel matrix of the cells, scaled by the standard deviations of their residuals.
    """
    compressed = _compressed(cells, kernel, bandwidth)
    root = np.sqrt(compressed.chance)
    statistic = float(compressed.residual @ compressed.gram @ compressed.residual)
    if not root.any():  # every prediction is 0 or 1
        return 1.0 if statistic <= 1e-24 * float(cells.mass) ** 2 else 0.0
    weights = np.linalg.eigvalsh(root[:, None] * compressed.gram * root)
    return squares_tail(max(statistic, 0.0), np.maximum(weights, 0.0))


def kernel_distance(event: Event, kernel: Kernel, bandwidth: float, factor: float, *, root: bool) -> Distance:
    """Return the residuals on at most 128 cells along the eigenvectors of the kernel, with their (squared) length.

    The signal-to-noise ratio is larger along the leading eigenvectors than in single cells.
    """
    cells = event.cells
    compressed = _compressed(cells, kernel, bandwidth)
    values, vectors = np.linalg.eigh(compressed.gram)
    positive = values > _LEAST_EIGENVALUE * values[-1]
    factors = vectors[:, positive] * np.sqrt(values[positive] * factor)

    def noise(group: Integers, groups: int) -> Floats:
        place = compressed.bins.index_of(event)
        n_cells, off = len(compressed.bins), (event.y - event.p) * row_scale(event)
        sums = np.bincount(group * n_cells + place, off, groups * n_cells).reshape(groups, n_cells)
        projected: Floats = sums @ factors / cells.mass
        return projected

    def size(u: Floats) -> Floats:
        square: Floats = np.sum(u * u, axis=-1)
        return np.sqrt(square) if root else square

    return Distance(compressed.residual @ factors / cells.mass, noise, size)


def block_means(
    rows: int, kernel_block: Callable[[Integers], Floats], block_size: int, order: Integers
) -> tuple[float, float, int]:
    """Return the mean over blocks of the unbiased estimate within each, its standard error, and the number of blocks.

    Blocks are consecutive rows of ``order (n,)``; a remainder is left out. ``kernel_block`` returns w_i w_j k_ij r_i .
    r_j for rows ``(blocks, size)``: ``(blocks, size, size)``. O(n block_size).
    """
    blocks = rows // block_size
    if blocks < 1 or block_size < 2:
        raise TooFewRows("a block estimate needs at least block_size rows")
    chosen = order[: blocks * block_size].reshape(blocks, block_size)
    most = max(1, (_BLOCK * _BLOCK) // block_size**2)
    parts = []
    for start in range(0, blocks, most):
        pairs = kernel_block(chosen[start : start + most])
        own = np.einsum("bii->b", pairs)
        parts.append((pairs.sum(axis=(1, 2)) - own) / (block_size * (block_size - 1)))
    means = np.concatenate(parts)
    error = float(means.std(ddof=1)) / math.sqrt(blocks) if blocks > 1 else math.nan
    return float(means.mean()), error, blocks


def event_pairs(event: Event, kernel: Kernel, bandwidth: float) -> Callable[[Integers], Floats]:
    """Return a function for k(p_i, p_j) (y_i - p_i)(y_j - p_j) within blocks of rows."""
    residual = event.y - event.p

    def pairs(rows: Integers) -> Floats:
        p, r = event.p[rows], residual[rows]
        k = kernel_of_squares((p[:, :, None] - p[:, None, :]) ** 2, kernel, bandwidth)
        return k * r[:, :, None] * r[:, None, :]

    return pairs


def vector_pairs(vector: Vector, kernel: Kernel, bandwidth: float) -> Callable[[Integers], Floats]:
    """Return a function for k(p_i, p_j) (e_yi - p_i) . (e_yj - p_j) within blocks of rows."""

    def pairs(rows: Integers) -> Floats:
        p = vector.p[rows].astype(np.float64)
        r = _residuals(p.reshape(-1, p.shape[2]), vector.labels[rows].ravel()).reshape(p.shape)
        square = np.sum((p[:, :, None, :] - p[:, None, :, :]) ** 2, axis=-1)
        return kernel_of_squares(square, kernel, bandwidth) * (r @ np.swapaxes(r, 1, 2))

    return pairs


# --- Entries of the catalogue


_FAMILY = "Kernel calibration errors"
#: Factor of the label kernel for binary labels: white, (e_y - e_p) . (e_y' - e_p'), or Gaussian on {0, 1}.
_FACTOR = {"white": 2.0, "gaussian": 2.0 - 2.0 * math.exp(-0.5)}
#: Default bandwidth of MMCE.
_MMCE = 0.4


def _mmce(event: Event, _: Resampling, *, bandwidth: float) -> MeasureResult:
    sums = event_sums(event.cells, "laplacian", bandwidth)
    return MeasureResult(math.sqrt(sums.biased), p_value=event_p_value(event.cells, "laplacian", bandwidth))


def _of_vector(
    vector: Vector, resampling: Resampling, kernel: Kernel, bandwidth: float, estimator: str
) -> MeasureResult:
    """Return the estimate with its interval, since both use the same sums over pairs."""
    sums = vector_sums(vector, kernel, bandwidth)
    estimate = _estimated(sums, 1.0, estimator, sums.p_value)
    if resampling.level is None or estimate.value is None:
        return estimate
    influence = sums.influence(unbiased=estimator == "unbiased")
    low, high = influence_interval(estimate.value, influence, vector, resampling)
    return replace(estimate, interval=(max(low, 0.0), max(high, 0.0)))


def _estimated(sums: PairSums, factor: float, estimator: str, p_value: float | None) -> MeasureResult:
    value = sums.unbiased if estimator == "unbiased" else sums.biased
    return MeasureResult(factor * value, p_value=p_value)


def _blocks(
    subject: Event | Vector, resampling: Resampling, kernel: Kernel, bandwidth: float, size: int
) -> MeasureResult:
    if subject.w is not None and len(np.unique(subject.w)) > 1:
        raise InvalidOption("the block estimator needs equal weights; use the estimator unbiased or biased")
    ordered = subject.in_order()
    order = np.random.default_rng([resampling.seed, 2]).permutation(len(ordered))
    of = (
        event_pairs(ordered, kernel, bandwidth)
        if isinstance(ordered, Event)
        else vector_pairs(ordered, kernel, bandwidth)
    )
    mean, error, blocks = block_means(len(ordered), of, size, order)
    p_value = float(ndtr(-mean / error)) if error > 0.0 else None
    return MeasureResult(mean, p_value=p_value, parts={"blocks": blocks})


def _skce(
    subject: Event | Vector, resampling: Resampling, *, estimator: str, kernel: Kernel, bandwidth: float, **rest: Any
) -> MeasureResult:
    squared = _squared(subject, resampling, estimator=estimator, kernel=kernel, bandwidth=bandwidth, **rest)
    # Gruber & Buettner (2022), (50) and (53): neither entropy nor sharpness, since pairs of rows are independent.
    terms = {"entropy": 0.0, "calibration": squared.value, "sharpness": 0.0}
    return replace(squared, parts={**squared.parts, **terms})


def _squared(
    subject: Event | Vector,
    resampling: Resampling,
    *,
    estimator: str,
    kernel: Kernel,
    bandwidth: float,
    label_kernel: str,
    block_size: int,
) -> MeasureResult:
    if isinstance(subject, Vector) and label_kernel != "white":
        raise InvalidOption("the label_kernel for the whole vector must be white")
    factor = _FACTOR[label_kernel] if isinstance(subject, Event) else 1.0
    if estimator == "block":
        of_blocks = _blocks(subject, resampling, kernel, bandwidth, block_size)
        return MeasureResult((of_blocks.value or 0.0) * factor, p_value=of_blocks.p_value, parts=of_blocks.parts)
    if isinstance(subject, Vector):
        return _of_vector(subject.in_order() if resampling.level else subject, resampling, kernel, bandwidth, estimator)
    p_value = event_p_value(subject.cells, kernel, bandwidth)
    return _estimated(event_sums(subject.cells, kernel, bandwidth), factor, estimator, p_value)


def _skce_distance(
    event: Event | Vector,
    _: Resampling,
    *,
    estimator: str,  # noqa: ARG001 - they have one expectation
    kernel: Kernel,
    bandwidth: float,
    label_kernel: str,
    block_size: int,  # noqa: ARG001 - of the estimator block
) -> Distance:
    if isinstance(event, Vector):
        raise InvalidOption("the interval of the block estimator is defined only for events")
    return kernel_distance(event, kernel, bandwidth, _FACTOR[label_kernel], root=False)


def _skce_seconds(n: int, K: int, options: Mapping[str, Any]) -> float:
    if options["estimator"] == "block":
        return n * float(options["block_size"]) * (5e-8 + 1e-8 * K)
    if K > 1:
        return n * n * (7e-9 + 2e-10 * K)
    return 3e-6 * min(n, 1000) + n * (3.6e-7 + 2e-9 / float(options["bandwidth"]) ** 2)


_H = Option(1.0, low=0.05, high=100.0, real=True)
_LAW = "The p-value is from the distribution of a weighted sum of squares of normal variables, on at most 128 cells"

MEASURES = (
    Measure(
        "mmce",
        "Maximum mean calibration error",
        _FAMILY,
        "(sum_ij w_i w_j k(p_i, p_j) (y_i - p_i) (y_j - p_j) / (sum w)^2)^(1/2), k = exp(-|p - q| / bandwidth). The "
        f"paper defines it for the confidence. {_LAW}",
        "Kumar, Sarawagi & Jain (2018)",
        0.0,
        1.0,
        "O(n log n)",
        event=_mmce,
        options={"bandwidth": Option(_MMCE, low=0.05, high=100.0, real=True)},
        seconds=lambda n, _classes, _options: 6e-6 * min(n, 1000) + 3e-7 * n,
        distance=lambda event, _, *, bandwidth: kernel_distance(event, "laplacian", bandwidth, 1.0, root=True),
        triangle=True,
    ),
    Measure(
        "skce",
        "Squared kernel calibration error",
        _FAMILY,
        "Mean over pairs of rows of k(p, q) (e_y - p) . (e_y' - q). Estimators: unbiased, over pairs of different rows "
        "(may be below 0); biased, over all pairs; block, the mean of the unbiased estimates within random blocks of "
        "rows. Kernels: gaussian exp(-d^2 / 2 h^2) or laplacian exp(-d / h), with h the bandwidth and d the Euclidean "
        "distance between vectors, or |p - q| for an event. For an event the factor of the label_kernel is 2 (white) "
        f"or 2 - 2 exp(-1/2) (gaussian on 0 and 1, as in Kangsepp et al. 2022). {_LAW}; for the whole vector from a "
        "gamma distribution with the same mean and variance, and for blocks from the normal distribution. Parts: as a "
        "proper U-score of pairs of rows it is entropy + calibration - sharpness, whose entropy and sharpness are 0",
        "Widmann, Lindsten & Zachariah (2019); Gruber & Buettner (2022), appendix F",
        None,
        2.0,
        "O(n log n) for an event; O(n^2 K) for the vector, memory O(n K); block O(n block_size K)",
        event=_skce,
        vector=_skce,
        options={
            "estimator": Option("unbiased", choices=("unbiased", "biased", "block")),
            "kernel": Option("gaussian", choices=("gaussian", "laplacian")),
            "bandwidth": _H,
            "label_kernel": Option("white", choices=("white", "gaussian")),
            "block_size": Option(2, low=2, high=1000),
        },
        seconds=_skce_seconds,
        distance=_skce_distance,
        clustered=("interval",),
    ),
)
