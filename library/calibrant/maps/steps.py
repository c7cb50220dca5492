"""Binnings as maps: steps, roofs of slope 1, BBQ and scaling-binning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from calibrant.binning import (
    Binning,
    Bins,
    cross_validated_scores,
    equal_mass,
    equal_mass_borders,
    equal_width_of_cells,
    sweep_count,
)
from calibrant.cells import Cells, Floats
from calibrant.errors import InvalidDocument
from calibrant.maps.curves import Numbers, check_outcomes, read_array, read_number
from calibrant.maps.platt import Platt, fit_platt
from calibrant.reductions import Event
from calibrant.validation import simplest

# --- Binnings as maps: steps, and roofs of slope 1 that shift all predictions of a bin equally

#: ``flat``: the bin's share of positives. ``unit``: the prediction moved by the bin's gap.
Slope = Literal["flat", "unit"]
#: The paper's cross-validation of the number of bins: folds, the most bins, the seed of the folds.
_FOLDS, _MOST, _SEED = 10, 40, 1


def bin_of(starts: Floats, p: Floats) -> npt.NDArray[np.int64]:
    """The bin of each ``p (n,)``: the last that starts at or below it, before the first the first. O(n log b)."""
    return np.maximum(np.searchsorted(starts, p, side="right") - 1, 0)


@dataclass(frozen=True)
class Steps(Numbers):
    """c(p) = heights[k] for starts[k] <= p < starts[k + 1], the last bin up to 1. Neither monotone nor differentiable.

    ``starts (b,)`` ascend in [0, 1] from 0; ``heights (b,)`` in [0, 1].
    """

    family: ClassVar[str] = "steps"
    starts: Floats
    heights: Floats

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probability of each ``p (n,)`` in [0, 1]. O(n log b)."""
        return self.heights[bin_of(self.starts, p)]

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read a document's numbers, each checked."""
        starts = read_starts(parameters)
        return cls(starts, read_array(parameters, "heights", numeric=True, low=0.0, high=1.0, length=len(starts)))


@dataclass(frozen=True)
class Roofs(Numbers):
    """c(p) = p + shifts[k] for starts[k] <= p < starts[k + 1], the last bin up to 1; it may leave [0, 1].

    ``starts (b,)`` ascend in [0, 1] from 0; ``shifts (b,)`` in [-1, 1]. Monotone inside of bins only.
    """

    family: ClassVar[str] = "roofs"
    starts: Floats
    shifts: Floats

    def __call__(self, p: Floats) -> Floats:
        """Each ``p (n,)`` in [0, 1] moved by its bin's shift, not clipped. O(n log b)."""
        moved: Floats = p + self.shifts[bin_of(self.starts, p)]
        return moved

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read a document's numbers, each checked."""
        starts = read_starts(parameters)
        return cls(starts, read_array(parameters, "shifts", numeric=True, low=-1.0, high=1.0, length=len(starts)))


def read_starts(parameters: dict[str, Any]) -> Floats:
    """Read where bins start: strictly increasing in [0, 1], the first at 0."""
    starts = read_array(parameters, "starts", numeric=True, low=0.0, high=1.0, increasing=True)
    if starts[0] != 0.0:
        raise InvalidDocument.at("/parameters/starts/0", "must be 0")
    return starts


def midway(p: Floats) -> Floats:
    """Where a bin that begins at each of ``p (m,)``, ascending, starts: 0, then half-way from the one before. O(m).

    Between neighbouring doubles there is no half-way: there it is the upper of them, as a bin begins at its start.
    """
    middle = p[:-1] + (p[1:] - p[:-1]) / 2.0
    return np.append(0.0, np.where(middle > p[:-1], middle, p[1:]))


def steps(starts: Floats, heights: Floats) -> Steps:
    """The step function of bins that may have equal neighbours, which become one bin. O(b)."""
    kept = np.append(True, heights[1:] != heights[:-1])
    return Steps(starts[kept], heights[kept])


def _roofs(starts: Floats, shifts: Floats) -> Roofs:
    kept = np.append(True, shifts[1:] != shifts[:-1])
    return Roofs(starts[kept], shifts[kept])


def fit_histogram(cells: Cells, binning: Binning, n_bins: int, slope: Slope) -> Steps | Roofs:
    """Histogram binning (Zadrozny & Elkan 2001), or its roofs of slope 1 (Kangsepp et al. 2022). O(m + b log m).

    ``flat``: each bin's share of positives; ``unit``: p plus share less mean prediction of the bin. Equal-mass bins
    begin at a prediction of the fit and end where the next begins (``calibrant.binning.equal_mass``); the first begins
    at 0. Equal-width bins begin at the doubles i / n_bins; one without rows has the height of the nearest bin with
    rows, the lower of two as near, and as a roof leaves p as it is. Raises ``OneClass`` where all labels are equal.
    """
    check_outcomes(cells)
    if binning == "equal-mass":
        return _of_equal_mass(equal_mass(cells, n_bins), slope)
    return _of_equal_width(equal_width_of_cells(cells, n_bins), n_bins, slope)


def fit_sweep(cells: Cells, slope: Slope) -> tuple[Steps | Roofs, int]:
    """ES_sweep (Roelofs et al. 2022): as many equal-mass bins as can be before shares fall, and how many those are.

    See ``calibrant.binning.sweep_count``. With ``flat`` slope the heights never fall. Raises ``OneClass``.
    """
    check_outcomes(cells)
    count = sweep_count(cells)
    return fit_histogram(cells, "equal-mass", count, slope), count


def fit_cross_validated(event: Event, binning: Binning, slope: Slope) -> tuple[Steps | Roofs, int, Floats]:
    """ES_CV and EW_CV (Kangsepp et al. 2022, section 2.2): a binning fitted to all rows, and its number of bins.

    And the mean squared errors on held-out rows ``(40,)`` by which the number was chosen.

    Of 1 to 40 bins those of least squared error on held-out rows, 10 folds drawn with seed 1, or fewer within 0.1 % of
    it; scored as roofs of slope 1, whatever the ``slope`` of the map. Raises ``OneClass``, and ``TooFewRows`` below 10
    rows. O(10 (n + 1600 log n)).
    """
    check_outcomes(event.cells)
    losses = cross_validated_scores(event, binning, folds=_FOLDS, most=_MOST, seed=_SEED)
    counts = tuple(range(1, _MOST + 1))
    count = counts[simplest(counts, losses)]
    return fit_histogram(event.cells, binning, count, slope), count, losses


def _of_equal_mass(bins: Bins, slope: Slope) -> Steps | Roofs:
    starts = np.append(0.0, bins.start[1:])
    return steps(starts, bins.mean_y) if slope == "flat" else _roofs(starts, bins.mean_y - bins.mean_p)


def _of_equal_width(bins: Bins, n_bins: int, slope: Slope) -> Steps | Roofs:
    every = np.arange(n_bins)
    full = np.round(bins.start * n_bins).astype(np.int64)  # starts are the doubles i / b
    if slope == "flat":
        half_way = (full[:-1] + full[1:]) // 2 + 1
        return steps(every / n_bins, bins.mean_y[np.searchsorted(half_way, every, side="right")])
    shifts = np.zeros(n_bins)
    shifts[full] = bins.mean_y - bins.mean_p
    return _roofs(every / n_bins, shifts)


# --- BBQ: Bayesian binning into quantiles, an average over equal-mass binnings

#: The prior of a binning is worth so many rows, shared out equally among its bins.
_PRIOR_ROWS = 2.0
#: Binnings that hold less than this of the posterior together are left out.
_NEGLIGIBLE = 1e-9
#: A prior mean is at least so far from 0 and 1.
_PRIOR_CLIP = 2.0**-52


def fit_bbq(cells: Cells) -> tuple[Steps, dict[str, int]]:
    """Average of equal-mass binnings, each weighed by its marginal likelihood (Naeini, Cooper & Hauskrecht 2015).

    Binnings of max(1, floor(n^(1/3) / 10)) to min(ceil(n / 5), ceil(10 n^(1/3))) bins, equally likely beforehand; of
    those that ties make the same one stands for all. In a binning of B bins the share of positives of a bin from a to
    b has the prior Beta(N' m / B, N' (1 - m) / B), N' = 2 and m = (a + b) / 2, and its posterior mean is the bin's
    height. Borders lie half-way between neighbouring predictions, the outer ones at 0 and 1. Counts of importance
    weights sum to (sum w)^2 / sum w^2, which is also n. The average is one step function. Binnings that together hold
    less than 1e-9 of the posterior are left out.

    Returns the map, and how many ``models`` it averages and the number of ``bins`` of the likeliest. O(m + B^2 log m)
    for the largest B. Raises ``OneClass`` where all labels are equal.
    """
    check_outcomes(cells)
    scale = 1.0 if cells.kind == "frequency" else cells.mass / float(cells.w2.sum())
    positives, negatives = scale * cells.cumulative_wy, scale * np.append(0.0, np.cumsum(cells.w - cells.wy))
    half_way = np.append(midway(cells.p), 1.0)
    binnings: dict[bytes, tuple[Floats, Floats, float]] = {}
    for count in _counts(scale * cells.mass):
        at = np.unique(equal_mass_borders(cells, np.array(count), np.arange(count + 1)))
        if (key := at.tobytes()) not in binnings:
            edges = half_way[at]
            binnings[key] = (edges[:-1], *_posterior(edges, np.diff(positives[at]), np.diff(negatives[at])))
    evidence = np.array([found[2] for found in binnings.values()])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    kept = order[: int(np.searchsorted(np.cumsum(weights[order]), 1.0 - _NEGLIGIBLE)) + 1]
    models = list(binnings.values())
    starts = np.unique(np.concatenate([models[i][0] for i in kept]))
    heights = np.zeros(len(starts))
    for i in kept:
        heights += weights[i] * models[i][1][bin_of(models[i][0], starts)]
    heights = np.clip(heights / weights[kept].sum(), 0.0, 1.0)
    return steps(starts, heights), {"models": len(kept), "bins": len(models[order[0]][0])}


def _counts(n: float) -> range:
    """The numbers of bins tried; cube roots and weights round, which must not move them."""
    root = float(np.cbrt(n))
    most = max(1, int(min(np.ceil(n / 5.0 - 1e-6), np.ceil(10.0 * root - 1e-6))))
    return range(min(max(1, int(root / 10.0 + 1e-6)), most), most + 1)


def _posterior(edges: Floats, positives: Floats, negatives: Floats) -> tuple[Floats, float]:
    """Posterior means of the bins' shares ``(b,)``, and the logarithm of the binning's marginal likelihood."""
    rows = _PRIOR_ROWS / len(positives)
    centre = np.clip((edges[:-1] + edges[1:]) / 2.0, _PRIOR_CLIP, 1.0 - _PRIOR_CLIP)
    a, b = rows * centre, rows * (1.0 - centre)
    likelihood = gammaln(positives + a) - gammaln(a) + gammaln(negatives + b) - gammaln(b)
    evidence = float(np.sum(likelihood + gammaln(rows) - gammaln(positives + negatives + rows)))
    return (positives + a) / (positives + negatives + rows), evidence


# --- Scaling-binning: Platt scaling, then the mean of its outputs over bins of equal mass


@dataclass(frozen=True)
class ScalingBinning(Numbers):
    """c(p) = heights[k] for starts[k] <= q < starts[k + 1], q = logistic(slope logit(p) + intercept).

    The logit clips at 2^-52; the last bin goes up to 1. ``starts (b,)`` ascend in [0, 1] from 0, ``heights (b,)`` do
    in [0, 1]: monotone for slope > 0, in steps.
    """

    family: ClassVar[str] = "scaling-binning"
    slope: float
    intercept: float
    starts: Floats
    heights: Floats

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probability of each ``p (n,)`` in [0, 1]. O(n log b)."""
        return self.heights[bin_of(self.starts, Platt(self.slope, self.intercept)(p))]

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read a document's numbers, each checked."""
        slope, intercept = read_number(parameters, "slope"), read_number(parameters, "intercept")
        starts = read_starts(parameters)
        heights = read_array(parameters, "heights", numeric=True, low=0.0, high=1.0, length=len(starts))
        return cls(slope, intercept, starts, heights)


def fit_scaling_binning(cells: Cells, *, n_bins: int, target_smoothing: bool = True) -> ScalingBinning:
    """Fit Platt scaling, and bin its outputs on the same rows (Kumar, Liang & Ma 2019). O(m).

    A bin's height is the mean output of its rows, whatever their labels. Bins hold equal mass, ties together; borders
    lie half-way between neighbouring outputs. The released code fits without ``target_smoothing``, and so then does
    this: ``NotConverged`` on separable data. Raises ``OneClass`` where all labels are equal.
    """
    platt = fit_platt(cells, target_smoothing=target_smoothing)
    outputs = _outputs(cells, platt)
    bins = equal_mass(outputs, n_bins)
    at = np.searchsorted(outputs.p, bins.start)
    return ScalingBinning(platt.slope, platt.intercept, midway(outputs.p)[at], np.clip(bins.mean_p, 0.0, 1.0))


def _outputs(cells: Cells, platt: Platt) -> Cells:
    """The cells of the curve's outputs: in descending order of predictions where it falls, of equal outputs one."""
    order = slice(None, None, -1 if platt.slope < 0.0 else 1)
    q = platt(cells.p[order])
    # The curve is monotone but for its rounding.
    np.maximum.accumulate(q, out=q)
    starts = np.flatnonzero(np.append(True, q[1:] > q[:-1]))

    def merged(values: Floats) -> Floats:
        sums: Floats = np.add.reduceat(values[order], starts)
        return sums

    rows = merged(cells.rows)
    unweighted = cells.w is cells.rows
    w = rows if unweighted else merged(cells.w)
    w2 = w if unweighted else merged(cells.w2)
    return Cells(q[starts], rows, w, w2, merged(cells.wy), merged(cells.w2y), cells.kind)
