"""The canonical calibration error by Dirichlet kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from calibrant.core.cells import Floats
from calibrant.core.errors import TooFewRows
from calibrant.core.options import Option
from calibrant.core.reductions import Event, Vector
from calibrant.maps.curves import PROBABILITY_CLIP
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import Measure, MeasureResult

Bandwidth = float | Literal["likelihood", "cross-validated"]

#: Candidate bandwidths, as in the published code.
BANDWIDTHS = (*np.logspace(-5.0, -1.0, 15).tolist(), 0.2, 0.4, 0.6, 0.8, 1.0)
#: Pairs of rows that are in memory at once.
_AREA = 1 << 21
#: A row whose estimate depends on a single neighbour gets no correction for noise.
_ALONE = 1e-9


@dataclass(frozen=True)
class CanonicalError:
    """E |E[y | p] - p|_r^r, plain and, for r = 2, debiased; the bandwidth used."""

    power: float
    debiased_power: float | None
    bandwidth: float


def canonical_error(vector: Vector, norm: int, bandwidth: Bandwidth = "likelihood") -> CanonicalError:
    """Estimate E |E[y | p] - p|_r^r with a kernel estimate of E[y | p] (Popordanoska, Sayer & Blaschko 2022).

    m_j = sum_{i != j} k(p_j; p_i) e_{y_i} / sum_{i != j} k(p_j; p_i), with k the density at p_j of the Dirichlet
    distribution with parameters p_i / h + 1. The value is the mean of |m_j - p_j|_r^r with r = ``norm``, in [0, 2],
    without a root; smaller is better. Logarithms clip probabilities at 2^-52. The bandwidth h is given or one of
    ``BANDWIDTHS``. ``likelihood``, the paper's, maximises the leave-one-out log likelihood sum_j log((1 / (n - 1))
    sum_{i != j} k(p_j; p_i)) of the predictions. (The published code divides this density by h again, although the
    kernel integrates to 1.) It ignores the labels, and is usually so small that each m_j follows a few labels and the
    error is far too large. ``cross-validated`` minimises the leave-one-out Brier score sum_j |m_j - e_{y_j}|^2.

    Debiased, for r = 2: each |m_j - p_j|^2 minus sum_i u_ji^2 |e_{y_i} - m_j|^2 / (1 - sum_i u_ji^2) with u_ji the
    normalised kernel, which is the correction of Kumar et al. (2019) if the weights are equal. It removes the noise of
    the labels but not the effect of smoothing, which dominates if K is large and n is small. It may be below 0.

    For a row of frequency weight w, leaving out one row leaves w - 1 copies. Raises ``TooFewRows`` if no bandwidth has
    a finite likelihood. O(n^2 (K + bandwidths)) time, linear memory.
    """
    rows = _SortedRows.of(vector)
    if bandwidth == "likelihood":
        bandwidth = rows.likeliest()
    elif bandwidth == "cross-validated":
        bandwidth = rows.best_predicting()
    return rows.error(norm, float(bandwidth))


@dataclass(frozen=True)
class _SortedRows:
    """Rows with weight, sorted by label; ``own`` is the weight of each row after leaving one copy out."""

    p: Floats
    labels: npt.NDArray[np.int64]
    w: Floats
    own: Floats
    counts: bool

    @classmethod
    def of(cls, vector: Vector) -> _SortedRows:
        w = np.ones(len(vector)) if vector.w is None else vector.w
        weighted = np.flatnonzero(w > 0.0)
        order = weighted[np.lexsort((w[weighted], vector.p[weighted].max(axis=1), vector.labels[weighted]))]
        counts = vector.kind == "frequency"
        own = np.maximum(w[order] - 1.0, 0.0) if counts else np.zeros(len(order))
        return cls(vector.p[order], vector.labels[order], w[order], own, counts)

    def likeliest(self) -> float:
        """Return the bandwidth with the largest leave-one-out likelihood, the smallest one of ties."""
        scales = [self.log_scale(h) for h in BANDWIDTHS]
        likelihoods = np.zeros(len(BANDWIDTHS))
        with np.errstate(divide="ignore"):
            for rows, products in self.blocks():
                for i, (h, scale) in enumerate(zip(BANDWIDTHS, scales, strict=True)):
                    kernel, top = self.kernel(products, rows, h, scale)
                    likelihoods[i] += self.w[rows] @ (np.log(kernel.sum(axis=1)) + top)
        likelihoods[~np.isfinite(likelihoods)] = -np.inf
        best = int(likelihoods.argmax())
        if likelihoods[best] == -np.inf:
            raise TooFewRows("no bandwidth has a finite leave-one-out likelihood")
        return float(BANDWIDTHS[best])

    def best_predicting(self) -> float:
        """Return the bandwidth with the smallest leave-one-out Brier score, the smallest one of ties."""
        scales = [self.log_scale(h) for h in BANDWIDTHS]
        losses = np.zeros(len(BANDWIDTHS))
        for rows, products in self.blocks():
            at = np.arange(len(products))
            for i, (h, scale) in enumerate(zip(BANDWIDTHS, scales, strict=True)):
                means = self.means(self.normalised(products, rows, h, scale))
                losses[i] += self.w[rows] @ ((means**2).sum(axis=1) - 2.0 * means[at, self.labels[rows]])
        return float(BANDWIDTHS[int(losses.argmin())])

    def error(self, norm: int, h: float) -> CanonicalError:
        """Return the mean over the rows for one bandwidth."""
        scale = self.log_scale(h)
        present, starts = self.classes
        power = noise = 0.0
        for rows, products in self.blocks():
            kernel = self.normalised(products, rows, h, scale)
            means = self.means(kernel)
            off = np.abs(means - self.p[rows])
            power += float(self.w[rows] @ (off**norm).sum(axis=1))
            if norm == 2:
                squares = np.add.reduceat(self.squared(kernel, rows), starts, axis=1)
                total = squares.sum(axis=1)
                spread = total * (1.0 + (means**2).sum(axis=1)) - 2.0 * (means[:, present] * squares).sum(axis=1)
                left = 1.0 - total
                noise += float(self.w[rows] @ np.divide(spread, left, out=np.zeros_like(left), where=left > _ALONE))
        mass_of_rows = float(self.w.sum())
        return CanonicalError(power / mass_of_rows, (power - noise) / mass_of_rows if norm == 2 else None, h)

    @cached_property
    def classes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The classes of the labels, and the first row of each."""
        present, starts = np.unique(self.labels, return_index=True)
        return present, starts

    def means(self, kernel: Floats) -> Floats:
        """Return m_j, the sums of normalised kernels by class: ``(block, K)``."""
        present, starts = self.classes
        means = np.zeros((len(kernel), self.p.shape[1]))
        means[:, present] = np.add.reduceat(kernel, starts, axis=1)
        return means

    def normalised(self, products: Floats, rows: slice, h: float, scale: Floats) -> Floats:
        """Return kernels that sum to 1 over the other rows; raises ``TooFewRows`` if there are none."""
        kernel, _ = self.kernel(products, rows, h, scale)
        mass = kernel.sum(axis=1, keepdims=True)
        if not mass.all():
            raise TooFewRows("there must be at least two rows with weight")
        kernel /= mass
        return kernel

    def log_scale(self, h: float) -> Floats:
        """Return the logarithm of the constant of each kernel times the weight of its row: ``(n,)``."""
        logs = np.empty(len(self.p))
        size = max(1, _AREA // self.p.shape[1])
        for start in range(0, len(logs), size):
            alpha = self.p[start : start + size].astype(np.float64) / h + 1.0
            logs[start : start + size] = gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1)
        return logs + np.log(self.w)

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield for blocks of rows j the sums over classes of p_i log p_j: ``(block, n)``."""
        n = len(self.p)
        size = max(1, _AREA // max(n, self.p.shape[1]))
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            logs = np.log(np.maximum(self.p[rows].astype(np.float64), PROBABILITY_CLIP))
            products = np.empty((len(logs), n))
            for other in range(0, n, 4096):
                columns = slice(other, other + 4096)
                products[:, columns] = logs @ self.p[columns].astype(np.float64).T
            yield rows, products

    def kernel(self, products: Floats, rows: slice, h: float, scale: Floats) -> tuple[Floats, Floats]:
        """Return the weighted kernels of other rows, divided by e^top, and top ``(block,)``."""
        kernels = products / h + scale
        at = np.arange(len(kernels))
        own = self.own[rows]
        with np.errstate(divide="ignore"):
            kernels[at, rows.start + at] += np.log(own) - np.log(self.w[rows])
        top = kernels.max(axis=1)
        top[top == -np.inf] = 0.0
        kernels -= top[:, None]
        np.exp(kernels, out=kernels)
        return kernels, top

    def squared(self, kernel: Floats, rows: slice) -> Floats:
        """Return the squared weights; w copies of a row count as w squares of one."""
        squares = kernel**2
        if self.counts:
            at = np.arange(len(kernel))
            own = squares[at, rows.start + at]
            squares /= self.w
            left = self.own[rows]
            squares[at, rows.start + at] = np.divide(own, left, out=np.zeros_like(own), where=left > 0.0)
        return squares


# --- Entries of the catalogue


#: The problem of a value with the default bandwidth.
_BIASED = (
    "biased: the bandwidth likelihood is usually too small for this error, whose value is then too large; "
    "prefer the bandwidth cross-validated"
)


def _of_vector(vector: Vector, _: Resampling, *, norm: int, bandwidth: Bandwidth) -> MeasureResult:
    estimate = canonical_error(vector, norm, bandwidth)
    parts: dict[str, Any] = {"power": estimate.power}
    debiased = None
    if estimate.debiased_power is not None:
        parts["debiased_power"] = estimate.debiased_power
        debiased = max(estimate.debiased_power, 0.0) ** 0.5
    definition = {"bandwidth_used": estimate.bandwidth}
    problem = _BIASED if bandwidth == "likelihood" else None
    return MeasureResult(estimate.power ** (1.0 / norm), debiased, parts=parts, definition=definition, problem=problem)


def _of_event(event: Event, resampling: Resampling, **options: Any) -> MeasureResult:
    columns = np.stack([1.0 - event.p, event.p], axis=1)
    vector = Vector(columns, event.y.astype(np.int64), event.w, event.kind, clusters=event.clusters)
    return _of_vector(vector, resampling, **options)


def _seconds(n: int, n_classes: int, options: Mapping[str, Any]) -> float:
    passes = 1 if isinstance(options["bandwidth"], float | int) else len(BANDWIDTHS) + 1
    return 1e-8 * n * n * passes + 1e-10 * n * n * max(n_classes, 2)


MEASURES = (
    Measure(
        "kde-ce",
        "Canonical calibration error CE_p by Dirichlet kernels",
        "Canonical calibration errors",
        "(mean |m_j - p_j|_r^r)^(1/r), with r the norm, m_j = sum_{i != j} k(p_j; p_i) e_{y_i} / sum_{i != j} k(p_j; "
        "p_i) and k(.; p_i) the Dirichlet density with parameters p_i / h + 1. The bandwidth h is given or from a grid "
        "from 1e-5 to 1. likelihood maximises the leave-one-out likelihood of the predictions, as in the paper; it is "
        "usually so small that the value is far too large. cross-validated minimises the leave-one-out Brier score of "
        "m. Logarithms clip p at 2^-52. power: without the root. Debiased (norm 2): the root of the mean of |m_j - "
        "p_j|^2 - sum_i u_ji^2 |e_{y_i} - m_j|^2 / (1 - sum_i u_ji^2), with u the normalised kernel, or 0 if that is "
        "negative. For an event, the vector is (1 - p, p)",
        "Popordanoska, Sayer & Blaschko (2022); Kumar, Liang & Ma (2019)",
        0.0,
        2.0,
        "O(n^2 (K + bandwidths)), linear memory",
        event=_of_event,
        vector=_of_vector,
        needs="at least two rows",
        options={
            "norm": Option(2, choices=(1, 2)),
            "bandwidth": Option(
                "likelihood", choices=("likelihood", "cross-validated"), low=1e-6, high=100.0, real=True
            ),
        },
        seconds=_seconds,
        resampled=False,
    ),
)
