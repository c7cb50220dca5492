"""Kernel calibration errors: residuals of labels and predictions, correlated over like predictions.

Sums over all pairs of rows are never made for an event: the Laplacian kernel adds up in one pass over sorted cells, the
Gaussian one through the terms of its series. Pairs of vectors are made in blocks, so that memory stays linear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import gammaincc, gammaln

from calibrant.binning import bins_between, equal_mass_borders
from calibrant.cells import Cells, Floats
from calibrant.errors import TooFewRows
from calibrant.measures.intervals import Distance, Integers, row_scale
from calibrant.measures.smooth import squares_tail
from calibrant.reductions import Event, Vector

Kernel = Literal["gaussian", "laplacian"]
#: Cells of equal mass on which a test and an interval look at an event.
_CELLS = 128
#: Rows of a block of pairs, few enough for the processor's cache.
_BLOCK = 512
#: Eigenvectors with less than this share of the largest eigenvalue are left out of an interval.
_LEAST_EIGENVALUE = 1e-9
#: Terms of the Gaussian's series are left out when they are smaller than this.
_LEAST_TERM = 1e-18


@dataclass(frozen=True)
class PairSums:
    """Sums over pairs of rows of w_i w_j k(p_i, p_j) r_i . r_j: ``all`` of them, and those of a row with itself.

    ``mass`` is the sum of the weights and ``same`` the mass of a row's pairs with itself: the sum of squared weights,
    of frequency weights the sum of weights.
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
        """Mean over the pairs of different rows: may be below 0. Raises ``TooFewRows`` for a single row."""
        pairs = self.mass**2 - self.same
        if pairs <= 1e-12 * self.mass**2:
            raise TooFewRows("an unbiased estimate needs at least two rows")
        return (self.all - self.own) / pairs


def kernel_of_squares(square: Floats, kernel: Kernel, bandwidth: float) -> Floats:
    """exp(-d^2 / 2 h^2), or exp(-d / h), of squared distances d^2."""
    scaled: Floats = square * (-0.5 / bandwidth**2) if kernel == "gaussian" else np.sqrt(square) / -bandwidth
    return np.exp(scaled, out=scaled)


def event_sums(cells: Cells, kernel: Kernel, bandwidth: float) -> PairSums:
    """The sums of an event with r = y - p. O(m), the Gaussian O(m + m / h^2); exact to rounding for h from 0.05."""
    residual = cells.wy - cells.w * cells.p
    w2, w2y = (cells.w, cells.wy) if cells.kind == "frequency" else (cells.w2, cells.w2y)
    own = float(w2y @ (1.0 - cells.p) ** 2 + (w2 - w2y) @ cells.p**2)
    if kernel == "gaussian":
        total = sum(float(residual @ term) ** 2 for term in _gaussian_terms(cells.p, bandwidth))
    else:
        # exp(-(p - q) / h) is a product, so that what lies below p adds up on the way.
        grown = np.exp((cells.p - 0.5) / bandwidth)
        below = np.concatenate(([0.0], np.cumsum(residual * grown)[:-1])) / grown
        total = float(residual @ residual + 2.0 * (residual @ below))
    return PairSums(total, own, cells.mass, float(w2.sum()))


def _gaussian_terms(p: Floats, bandwidth: float) -> Iterator[Floats]:
    """Features of the Gaussian kernel: exp(-(p - q)^2 / 2 h^2) = sum_t f_t(p) f_t(q).

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
    """The sums of a vector, and the ``p_value`` of those of all pairs.

    ``w (n,)`` the weights, ``by_row (n,)`` the sums of w_j k_ij r_i . r_j over j, ``own_by_row`` their terms of j = i,
    of a frequency weight one row's.
    """

    w: Floats
    by_row: Floats
    own_by_row: Floats
    p_value: float

    def influence(self, *, unbiased: bool) -> Floats:
        """By how much each row moves the estimate: 2 (its mean over other rows - the estimate), of weighted mean 0.

        Near calibration these are mostly noise, and intervals come out wide rather than narrow (Serfling 1980,
        section 5.5).
        """
        others = self.by_row - self.own_by_row * unbiased
        moved = 2.0 * others / self.mass
        centred: Floats = moved - float(self.w @ moved) / self.mass
        return centred


def vector_sums(vector: Vector, kernel: Kernel, bandwidth: float) -> VectorSums:
    """The sums of the whole vector with r = e_y - p and Euclidean distances, and their p-value under calibration.

    O(n^2 K) in blocks of 512 rows: memory O(n K). For the p-value see ``_moments_tail``.
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
    p_value = _moments_tail(total, float(w2 @ (1.0 - length)), 2.0 * spread)
    own_by_row = own if vector.kind == "frequency" else w * own
    return VectorSums(total, float(w2 @ own), float(w.sum()), float(w2.sum()), w, by_row, own_by_row, p_value)


def _residuals(p: Floats, labels: Integers) -> Floats:
    residual = -p
    residual[np.arange(len(p)), labels] += 1.0
    return residual


def _moments_tail(total: float, mean: float, variance: float) -> float:
    """P(sum of all pairs > total) for labels drawn from the predictions, by a gamma law of the same mean and variance.

    The sum tends to a weighted sum of squares of normals, as a degenerate V-statistic (Serfling 1980, section 6.4). Its
    mean is sum w_i^2 (1 - |p_i|^2) and its variance 2 sum_ij w_i^2 w_j^2 k_ij^2 tr(S_i S_j), S = diag(p) - p p'.
    """
    if variance <= 0.0:  # every vector is certain
        return 1.0 if total <= 0.0 else 0.0
    return float(gammaincc(mean * mean / variance, max(total, 0.0) * mean / variance))


@dataclass(frozen=True)
class _Compressed:
    """An event on at most 128 cells: residual sums, kernel matrix, and the variance of the residuals by chance."""

    residual: Floats
    gram: Floats
    chance: Floats
    start: Floats


def _compressed(cells: Cells, kernel: Kernel, bandwidth: float) -> _Compressed:
    at = np.arange(len(cells) + 1)
    if len(cells) > _CELLS:
        at = np.unique(equal_mass_borders(cells, np.array(_CELLS), np.arange(_CELLS + 1)))
    bins = bins_between(cells, at)
    w2 = cells.w if cells.kind == "frequency" else cells.w2
    gram = kernel_of_squares((bins.mean_p[:, None] - bins.mean_p) ** 2, kernel, bandwidth)
    residual = bins.mass * (bins.mean_y - bins.mean_p)
    return _Compressed(residual, gram, np.add.reduceat(w2 * cells.p * (1.0 - cells.p), at[:-1]), bins.start)


def event_p_value(cells: Cells, kernel: Kernel, bandwidth: float) -> float:
    """Probability that a calibrated classifier shows at least this kernel error. O(m + 128^3).

    With labels drawn from the predictions the sum over all pairs tends to a sum of squares of normals, weighted by the
    eigenvalues of the kernel between cells, scaled by the standard deviations of their residuals.
    """
    seen = _compressed(cells, kernel, bandwidth)
    root = np.sqrt(seen.chance)
    statistic = float(seen.residual @ seen.gram @ seen.residual)
    if not root.any():  # every prediction is 0 or 1
        return 1.0 if statistic <= 1e-24 * float(cells.mass) ** 2 else 0.0
    weights = np.linalg.eigvalsh(root[:, None] * seen.gram * root)
    return squares_tail(max(statistic, 0.0), np.maximum(weights, 0.0))


def kernel_distance(event: Event, kernel: Kernel, bandwidth: float, factor: float, *, root: bool) -> Distance:
    """The residuals on at most 128 cells along the kernel's eigenvectors, and their length, squared unless ``root``.

    Along the leading ones the residuals are smooth, and stand out from their noise, as in single cells they do not.
    """
    cells = event.cells
    seen = _compressed(cells, kernel, bandwidth)
    values, vectors = np.linalg.eigh(seen.gram)
    kept = values > _LEAST_EIGENVALUE * values[-1]
    factors = vectors[:, kept] * np.sqrt(values[kept] * factor)

    def noise(group: Integers, groups: int) -> Floats:
        place = np.maximum(np.searchsorted(seen.start, event.p, side="right") - 1, 0)
        n_cells, off = len(seen.start), (event.y - event.p) * row_scale(event.w, event.kind)
        sums = np.bincount(group * n_cells + place, off, groups * n_cells).reshape(groups, n_cells)
        projected: Floats = sums @ factors / cells.mass
        return projected

    def size(u: Floats) -> Floats:
        square: Floats = np.sum(u * u, axis=-1)
        return np.sqrt(square) if root else square

    return Distance(seen.residual @ factors / cells.mass, noise, size)


def block_means(
    rows: int, kernel_block: Callable[[Integers], Floats], block_size: int, order: Integers
) -> tuple[float, float, int]:
    """Mean over blocks of the unbiased estimate within each, its standard error, and how many blocks there are.

    ``order (n,)`` says which rows make a block: the first ``block_size``, the next ones, and so on; a rest is left out.
    ``kernel_block`` gives w_i w_j k_ij r_i . r_j of rows ``(blocks, size)``: ``(blocks, size, size)``. O(n block_size).
    """
    blocks = rows // block_size
    if blocks < 1 or block_size < 2:
        raise TooFewRows("a block estimate needs as many rows as a block, of at least two")
    chosen = order[: blocks * block_size].reshape(blocks, block_size)
    most = max(1, (_BLOCK * _BLOCK) // block_size**2)
    found = []
    for start in range(0, blocks, most):
        pairs = kernel_block(chosen[start : start + most])
        own = np.einsum("bii->b", pairs)
        found.append((pairs.sum(axis=(1, 2)) - own) / (block_size * (block_size - 1)))
    means = np.concatenate(found)
    error = float(means.std(ddof=1)) / math.sqrt(blocks) if blocks > 1 else math.nan
    return float(means.mean()), error, blocks


def event_pairs(event: Event, kernel: Kernel, bandwidth: float) -> Callable[[Integers], Floats]:
    """k(p_i, p_j) (y_i - p_i)(y_j - p_j) within blocks of rows."""
    residual = event.y - event.p

    def pairs(rows: Integers) -> Floats:
        p, r = event.p[rows], residual[rows]
        k = kernel_of_squares((p[:, :, None] - p[:, None, :]) ** 2, kernel, bandwidth)
        return k * r[:, :, None] * r[:, None, :]

    return pairs


def vector_pairs(vector: Vector, kernel: Kernel, bandwidth: float) -> Callable[[Integers], Floats]:
    """k(p_i, p_j) (e_yi - p_i) . (e_yj - p_j) within blocks of rows."""

    def pairs(rows: Integers) -> Floats:
        p = vector.p[rows].astype(np.float64)
        r = _residuals(p.reshape(-1, p.shape[2]), vector.labels[rows].ravel()).reshape(p.shape)
        square = np.sum((p[:, :, None, :] - p[:, None, :, :]) ** 2, axis=-1)
        return kernel_of_squares(square, kernel, bandwidth) * (r @ np.swapaxes(r, 1, 2))

    return pairs
