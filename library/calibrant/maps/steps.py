"""Binnings as maps: steps, bins of unit slope, BBQ and scaling-binning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import expit, gammaln

from calibrant.core.binning import (
    BinnedCells,
    Binning,
    cross_validated_scores,
    equal_mass,
    equal_mass_borders,
    equal_width_of_cells,
    sweep_count,
    width_sweep_count,
)
from calibrant.core.cells import Cells, Floats, take
from calibrant.core.errors import InvalidDocument
from calibrant.core.reductions import Event
from calibrant.core.validation import TOLERANCE, simplest
from calibrant.maps.curves import check_outcomes, mean_logit
from calibrant.maps.parameters import (
    AT_LOGITS,
    LARGEST,
    Knots,
    LogitShift,
    LogitSlope,
    Parameter,
    Parametric,
    Probability,
)
from calibrant.maps.platt import Platt, fit_platt

# --- Binnings as maps: steps, and bins of unit slope, which shift all predictions of a bin equally

#: ``flat``: the observed frequency of the bin. ``unit``: the prediction plus the gap of the bin.
Slope = Literal["flat", "unit"]
#: Cross-validation of the number of bins as in the paper: folds, most bins, seed of the folds.
_FOLDS, _MOST, _SEED = 10, 40, 1


def bin_of(starts: Floats, p: Floats) -> npt.NDArray[np.int64]:
    """Return the bin of each ``p (n,)``: the last one that starts at or below it, or the first. O(n log b)."""
    return np.maximum(np.searchsorted(starts, p, side="right") - 1, 0)


def _bin_of_logits(starts: Floats, at_logits: Floats | None, z: Floats) -> npt.NDArray[np.int64]:
    """Return the bin of each logit ``z (n,)`` by the logits of the starts, or without these by its probability."""
    return bin_of(starts, expit(z)) if at_logits is None else bin_of(at_logits, z)


@dataclass(frozen=True)
class _Starts(Knots):
    """Ascending starts of bins, the first at 0."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:
        """Read the starts."""
        starts = super().read(parameters, name, sizes)
        if starts[0] != 0.0:
            raise InvalidDocument.at(f"/parameters/{name}/0", "must be 0")
        return starts


_STARTS = _Starts("lower ends of the bins", shape="t", order="increasing")
_HEIGHTS = Probability("calibrated probabilities of the bins", shape="t")


@dataclass(frozen=True)
class Steps(Parametric):
    """c(p) = heights[k] for starts[k] <= p < starts[k + 1], the last bin up to 1. Neither monotone nor differentiable.

    ``starts (b,)`` ascend in [0, 1] from 0; ``heights (b,)`` in [0, 1]. ``at_logits (b,)`` are the logits of starts
    that depend on given logits.
    """

    family: ClassVar[str] = "steps"
    formula: ClassVar[str] = "the height of the last start at or below p"
    starts: Annotated[Floats, _STARTS]
    heights: Annotated[Floats, _HEIGHTS]
    at_logits: Annotated[Floats | None, AT_LOGITS] = None

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n log b)."""
        return self.heights[bin_of(self.starts, p)]

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(n log b)."""
        return self.heights[_bin_of_logits(self.starts, self.at_logits, z)]


@dataclass(frozen=True)
class Roofs(Parametric):
    """c(p) = p + shifts[k] for starts[k] <= p < starts[k + 1], the last bin up to 1; values may be outside [0, 1].

    ``starts (b,)`` and ``at_logits (b,)`` are as for steps; ``shifts (b,)`` in [-1, 1]. Monotone only within bins.
    """

    family: ClassVar[str] = "roofs"
    formula: ClassVar[str] = "p plus the shift of the last start at or below p"
    starts: Annotated[Floats, _STARTS]
    shifts: Annotated[Floats, Parameter("shifts of the bins", "probability", "t", low=-1.0, high=1.0)]
    at_logits: Annotated[Floats | None, AT_LOGITS] = None

    def __call__(self, p: Floats) -> Floats:
        """Return each ``p (n,)`` in [0, 1] plus the shift of its bin, not clipped. O(n log b)."""
        return p + self.shifts[bin_of(self.starts, p)]

    def of_logits(self, z: Floats) -> Floats:
        """Return the probability of each logit ``z (n,)`` plus the shift of its bin, not clipped. O(n log b)."""
        moved: Floats = expit(z) + self.shifts[_bin_of_logits(self.starts, self.at_logits, z)]
        return moved


def midway(p: Floats) -> Floats:
    """Return starts of bins whose first predictions are ``p (m,)``: 0, then midpoints between neighbours. O(m).

    If there is no double between two neighbours, the start is the upper one.
    """
    middle = p[:-1] + (p[1:] - p[:-1]) / 2.0
    return np.append(0.0, np.where(middle > p[:-1], middle, p[1:]))


def _midway_logits(z: Floats) -> Floats:
    """Return the logits of ``midway`` for the ascending logits ``z (m,)`` of predictions, the first below all. O(m)."""
    pairs = np.repeat(z, 2)[1:-1]
    middle = mean_logit(pairs, np.ones(len(pairs)), np.arange(0, len(pairs), 2)) if len(pairs) else pairs
    return np.append(-LARGEST, np.where(middle > z[:-1], middle, z[1:]))


def _ends(cells: Cells) -> tuple[Floats, Floats | None]:
    """Return ``midway`` for cells, and its logits, if the cells have logits."""
    return midway(cells.p), None if cells.logit is None else _midway_logits(cells.logit)


def steps(starts: Floats, heights: Floats, at_logits: Floats | None = None) -> Steps:
    """Return the step function with neighbouring bins of equal height merged. O(b)."""
    changes = np.append(True, heights[1:] != heights[:-1])
    return Steps(starts[changes], heights[changes], take(at_logits, changes))


def _roofs(starts: Floats, shifts: Floats, at_logits: Floats | None = None) -> Roofs:
    changes = np.append(True, shifts[1:] != shifts[:-1])
    return Roofs(starts[changes], shifts[changes], take(at_logits, changes))


def fit_histogram(cells: Cells, binning: Binning, n_bins: int, slope: Slope) -> Steps | Roofs:
    """Fit histogram binning (Zadrozny & Elkan 2001), or bins of unit slope (Kangsepp et al. 2022). O(m + b log m).

    ``flat`` is the observed frequency of the bin; ``unit`` is p plus observed frequency minus mean prediction. Equal-
    mass bins start at a prediction of the fit and end at the start of the next (``core.binning.equal_mass``); the first
    starts at 0. At given logits they start midway to the previous one, as the log-odds of a class are rounded in other
    ways by other programs. Equal-width bins start at the doubles i / n_bins; one without rows has the height of the
    nearest bin with rows, the lower one of ties, and with unit slope does not change p. Raises ``OneClass`` if all
    labels are equal.
    """
    check_outcomes(cells)
    if binning == "equal-mass":
        return _of_equal_mass(cells, equal_mass(cells, n_bins), slope)
    return _of_equal_width(equal_width_of_cells(cells, n_bins), n_bins, slope)


def fit_sweep(event: Event, binning: Binning, slope: Slope) -> tuple[Steps | Roofs, int]:
    """Fit ES_sweep or EW_sweep (Roelofs et al. 2022), bins from a monotonic sweep; also return their number.

    See ``sweep_count`` and ``width_sweep_count`` of ``calibrant.core.binning``. With ``flat`` slope the heights are
    non-decreasing. Raises ``OneClass``.
    """
    check_outcomes(event.cells)
    count = sweep_count(event.cells) if binning == "equal-mass" else width_sweep_count(event)
    return fit_histogram(event.cells, binning, count, slope), count


def fit_cross_validated(
    event: Event, binning: Binning, slope: Slope, tolerance: float = TOLERANCE
) -> tuple[Steps | Roofs, int, Floats]:
    """Fit ES_CV or EW_CV (Kangsepp et al. 2022, section 2.2): a binning with 1 to 40 bins.

    The number of bins minimises the squared error on held-out rows of 10 folds, drawn with seed 1, or is the fewest
    within ``tolerance``, by default 0.1 %, of the minimum. Errors use unit slope for any ``slope`` of the map. Returns
    the map, the number of bins and the held-out mean squared errors ``(40,)``. Raises ``OneClass``, and ``TooFewRows``
    below 10 rows.
    O(10 (n + 1600 log n)).
    """
    check_outcomes(event.cells)
    losses = cross_validated_scores(event, binning, folds=_FOLDS, most=_MOST, seed=_SEED)
    counts = tuple(range(1, _MOST + 1))
    count = counts[simplest(counts, losses, tolerance)]
    return fit_histogram(event.cells, binning, count, slope), count, losses


def _of_equal_mass(cells: Cells, bins: BinnedCells, slope: Slope) -> Steps | Roofs:
    starts, at_logits = np.append(0.0, bins.start[1:]), None
    if cells.logit is not None and bins.start_logit is not None:
        at_logits = _midway_logits(cells.logit)[np.searchsorted(cells.logit, bins.start_logit)]
        at_logits[0] = -LARGEST
    if slope == "flat":
        return steps(starts, bins.mean_y, at_logits)
    return _roofs(starts, bins.mean_y - bins.mean_p, at_logits)


def _of_equal_width(bins: BinnedCells, n_bins: int, slope: Slope) -> Steps | Roofs:
    every = np.arange(n_bins)
    full = np.round(bins.start * n_bins).astype(np.int64)  # starts are the doubles i / b
    if slope == "flat":
        half_way = (full[:-1] + full[1:]) // 2 + 1
        return steps(every / n_bins, bins.mean_y[np.searchsorted(half_way, every, side="right")])
    shifts = np.zeros(n_bins)
    shifts[full] = bins.mean_y - bins.mean_p
    return _roofs(every / n_bins, shifts)


# --- BBQ: Bayesian binning into quantiles, an average over equal-mass binnings

#: The weight of the prior of a binning in rows, divided equally among its bins.
_PRIOR_ROWS = 2.0
#: Binnings with less than this total posterior probability are left out.
_NEGLIGIBLE = 1e-9
#: Prior means are clipped here.
_PRIOR_CLIP = 2.0**-52


def fit_bbq(cells: Cells) -> tuple[Steps, dict[str, int]]:
    """Fit an average of equal-mass binnings, weighted by marginal likelihood (Naeini, Cooper & Hauskrecht 2015).

    Binnings with max(1, floor(n^(1/3) / 10)) to min(ceil(n / 5), ceil(10 n^(1/3))) bins have equal prior probability;
    binnings that ties make identical count once. In a binning of B bins, the frequency in a bin from a to b has the
    prior Beta(N' m / B, N' (1 - m) / B), N' = 2 and m = (a + b) / 2, and its posterior mean is the height of the bin.
    Borders are midpoints between neighbouring predictions, and the outer ones are 0 and 1. For importance weights n is
    (sum w)^2 / sum w^2. The average is one step function. Binnings with a total posterior probability below 1e-9 are
    left out.

    Returns the map, the number of averaged ``models`` and the number of ``bins`` of the most probable one.
    O(m + B^2 log m) for the largest B. Raises ``OneClass`` if all labels are equal.
    """
    check_outcomes(cells)
    scale = cells.rows_per_weight
    positives, negatives = scale * cells.cumulative_wy, scale * np.append(0.0, np.cumsum(cells.w - cells.wy))
    starts, at_logits = _ends(cells)
    half_way = np.append(starts, 1.0)
    binnings: dict[bytes, tuple[npt.NDArray[np.int64], Floats, float]] = {}
    for count in _counts(scale * cells.mass):
        at = np.unique(equal_mass_borders(cells, np.array(count), np.arange(count + 1)))
        if (key := at.tobytes()) not in binnings:
            binnings[key] = (at[:-1], *_posterior(half_way[at], np.diff(positives[at]), np.diff(negatives[at])))
    evidence = np.array([binning[2] for binning in binnings.values()])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    chosen = order[: int(np.searchsorted(np.cumsum(weights[order]), 1.0 - _NEGLIGIBLE)) + 1]
    models = list(binnings.values())
    first = np.unique(np.concatenate([models[i][0] for i in chosen]))
    heights = np.zeros(len(first))
    for i in chosen:
        heights += weights[i] * models[i][1][np.searchsorted(models[i][0], first, side="right") - 1]
    heights = np.clip(heights / weights[chosen].sum(), 0.0, 1.0)
    return steps(starts[first], heights, take(at_logits, first)), {
        "models": len(chosen),
        "bins": len(models[order[0]][0]),
    }


def _counts(n: float) -> range:
    """Return the candidate numbers of bins, robust to rounding of cube roots and weights."""
    root = float(np.cbrt(n))
    most = max(1, int(min(np.ceil(n / 5.0 - 1e-6), np.ceil(10.0 * root - 1e-6))))
    return range(min(max(1, int(root / 10.0 + 1e-6)), most), most + 1)


def _posterior(edges: Floats, positives: Floats, negatives: Floats) -> tuple[Floats, float]:
    """Return posterior means of the frequencies in the bins ``(b,)``, and the log marginal likelihood."""
    rows = _PRIOR_ROWS / len(positives)
    centre = np.clip((edges[:-1] + edges[1:]) / 2.0, _PRIOR_CLIP, 1.0 - _PRIOR_CLIP)
    a, b = rows * centre, rows * (1.0 - centre)
    likelihood = gammaln(positives + a) - gammaln(a) + gammaln(negatives + b) - gammaln(b)
    evidence = float(np.sum(likelihood + gammaln(rows) - gammaln(positives + negatives + rows)))
    return (positives + a) / (positives + negatives + rows), evidence


# --- Scaling-binning: Platt scaling, then the mean of its outputs over bins of equal mass


@dataclass(frozen=True)
class ScalingBinning(Parametric):
    """c(p) = heights[k] for starts[k] <= q < starts[k + 1], q = logistic(slope logit(p) + intercept).

    Probabilities are clipped at 2^-52; the last bin extends to 1. ``starts (b,)`` ascend in [0, 1] from 0, and
    ``heights (b,)`` ascend in [0, 1], so that the map is monotone for slope > 0. ``at_logits (b,)`` are the logits of
    the starts, if logits were given, which are not clipped.
    """

    family: ClassVar[str] = "scaling-binning"
    formula: ClassVar[str] = (
        "the height of the last start at or below q = logistic(slope logit(p) + intercept), or of the first start"
    )
    slope: LogitSlope
    intercept: LogitShift
    starts: Annotated[Floats, replace(_STARTS, meaning="lower ends of the bins of q")]
    heights: Annotated[Floats, _HEIGHTS]
    at_logits: Annotated[
        Floats | None, replace(AT_LOGITS, meaning="logits of a map of logits, with which that of q is compared")
    ] = None

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n log b)."""
        return self.heights[bin_of(self.starts, Platt(self.slope, self.intercept)(p))]

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(n log b)."""
        q = Platt(self.slope, self.intercept).line(z)
        return self.heights[_bin_of_logits(self.starts, self.at_logits, q)]


def fit_scaling_binning(cells: Cells, *, n_bins: int, target_smoothing: bool = True) -> ScalingBinning:
    """Fit Platt scaling, and bin its outputs on the same rows (Kumar, Liang & Ma 2019). O(m).

    The height of a bin is the mean output of its rows. Bins have equal mass, with ties in one bin; borders are
    midpoints between neighbouring outputs. Without ``target_smoothing``, as in the released code, separable data raise
    ``NotConverged``. Raises ``OneClass`` if all labels are equal.
    """
    platt = fit_platt(cells, target_smoothing=target_smoothing)
    outputs = _outputs(cells, platt)
    bins = equal_mass(outputs, n_bins)
    at = np.searchsorted(outputs.key, bins.start if bins.start_logit is None else bins.start_logit)
    starts, at_logits = _ends(outputs)
    heights = np.clip(bins.mean_p, 0.0, 1.0)
    return ScalingBinning(platt.slope, platt.intercept, starts[at], heights, take(at_logits, at))


def _outputs(cells: Cells, platt: Platt) -> Cells:
    """Return the cells of the outputs of the curve, in ascending order and without ties."""
    order = slice(None, None, -1 if platt.slope < 0.0 else 1)
    logit = None if cells.logit is None else platt.line(cells.logit[order])
    q = platt(cells.p[order]) if logit is None else expit(logit)
    # The curve is monotone up to rounding.
    np.maximum.accumulate(q, out=q)
    key = q if logit is None else logit
    starts = np.flatnonzero(np.append(True, key[1:] > key[:-1]))

    def merged(values: Floats) -> Floats:
        return np.add.reduceat(values[order], starts)

    rows = merged(cells.rows)
    unweighted = cells.w is cells.rows
    w = rows if unweighted else merged(cells.w)
    w2 = w if unweighted else merged(cells.w2)
    return Cells(q[starts], rows, w, w2, merged(cells.wy), merged(cells.w2y), cells.kind, take(logit, starts))
