"""Binned calibration errors, plain and debiased, and their values for calibrated predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from calibrant.core.binning import (
    BinnedCells,
    Closed,
    adaptive,
    cross_validated_count,
    equal_mass,
    equal_width,
    exact,
    sweep_count,
    width_sweep_count,
)
from calibrant.core.cells import Floats
from calibrant.core.clusters import number_of_clusters
from calibrant.core.errors import CalibrationError, EmptyBatch, TooFewRows
from calibrant.core.options import Option
from calibrant.core.reductions import Event
from calibrant.measures.intervals import GROUPS, Distance, Integers, Resampling, row_scale
from calibrant.measures.measure import Measure, MeasureResult

Norm = Literal[1, 2]
#: Estimated seconds per resample and bin, and how much longer it takes in a norm that needs powers.
_BIN, _POWERS = 5e-7, 3.0
#: The most of the rows that may be alone in their bins, where deviations from the mean of the bin are 0.
_ALONE = 0.1
#: The least share of a bin that is not of one cluster, for the scale of its deviations.
_LEAST_REST = 0.1
#: The variance within a bin counts as many more rows with the variance that the other bins predict.
_PRIOR_ROWS = 10.0
#: The least variance that others are divided by without overflow.
_LEAST = float(np.finfo(np.float64).tiny)


def expected_calibration_error(bins: BinnedCells, norm: Norm) -> tuple[float, float]:
    """Return the plain and debiased mean distance between observed frequency and mean prediction of the bins.

    Plain, in [0, 1], smaller is better: sum_k (m_k / m) |pbar_k - ybar_k|^norm, without a root
    for ``norm`` 2 (Kangsepp et al. 2022, section 2.2). The plain value is biased upward by the noise
    in ybar_k. The debiased value is not truncated and may be negative.

    Norm 1: 2 ECE - (1/m) sum m_k E|pbar_k - R_k| with R_k ~ N(ybar_k, ybar_k (1 - ybar_k) / n_k)
    (same paper, appendix C.5, which integrates numerically; the folded normal has a closed form).
    Norm 2: each term minus ybar_k (1 - ybar_k) / (n_k - 1) (Kumar et al. 2019); a bin of one row
    is not corrected. O(b).
    """
    share = bins.mass / bins.mass.sum()
    plain, debiased = expected_calibration_errors(share, bins.rows, bins.mean_p, bins.mean_y, norm)
    return float(plain), float(debiased)


def expected_calibration_errors(
    share: Floats, rows: Floats, mean_p: Floats, mean_y: Floats, norm: Norm
) -> tuple[Floats, Floats]:
    """Return plain and debiased errors ``(...,)`` of several sets of bins ``(..., b)``; ``share`` sums to 1."""
    gap = mean_p - mean_y
    variance = mean_y * (1.0 - mean_y)
    if norm == 1:
        plain = np.sum(share * np.abs(gap), axis=-1)
        return plain, 2.0 * plain - np.sum(share * folded_normal_mean(gap, np.sqrt(variance / rows)), axis=-1)
    correction = np.divide(variance, rows - 1.0, out=np.zeros_like(variance), where=rows > 1.0)
    return np.sum(share * gap**2, axis=-1), np.sum(share * (gap**2 - correction), axis=-1)


def folded_normal_mean(mean: Floats, deviation: Floats) -> Floats:
    """Return E|X| for X ~ N(mean, deviation^2), which is |mean| if the deviation is 0.

    s sqrt(2/pi) exp(-m^2 / 2 s^2) + m (1 - 2 Phi(-m / s)), Leone, Nelson & Nottingham (1961).
    """
    # The tail of the normal distribution is 0 beyond 40; a tiny deviation would overflow.
    ratio = np.divide(mean, np.maximum(deviation, np.abs(mean) / 40.0), out=np.zeros_like(mean), where=deviation > 0)
    folded = deviation * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * ratio**2) + mean * (1.0 - 2.0 * ndtr(-ratio))
    return np.where(deviation > 0, folded, np.abs(mean))


def chance_error(event: Event, bins: BinnedCells) -> tuple[float, float]:
    """Return the expected error (norm 1) of calibrated predictions in these bins, and its plug-in estimate.

    mu = sum_k (m_k / m) E|N(mu_k, sigma_k^2)| (Gruber & Buettner 2022, eq. 22). For calibrated predictions mu_k = 0 and
    sigma_k^2 = sum p (1 - p) / n_k^2. The plug-in uses mu_k = pbar_k - ybar_k and sigma_k^2 = (V(p) + V(y)) / n_k of
    the bin (eq. 24); it counts the noise of the observed gaps as error and is larger. O(n).
    """
    share = bins.mass / bins.mass.sum()
    place = bins.index_of(event)
    w = np.ones(len(event)) if event.w is None else event.w
    chance = np.bincount(place, w * event.p * (1.0 - event.p), len(bins)) / bins.mass
    spread = np.bincount(place, w * (event.p - bins.mean_p[place]) ** 2, len(bins)) / bins.mass
    calibrated = folded_normal_mean(np.zeros(len(bins)), np.sqrt(chance / bins.rows))
    deviation = np.sqrt((spread + bins.mean_y * (1.0 - bins.mean_y)) / bins.rows)
    plug_in = folded_normal_mean(bins.mean_p - bins.mean_y, deviation)
    return float(share @ calibrated), float(share @ plug_in)


def squared_bias(event: Event, bins: BinnedCells) -> float:
    """Return the bias of the plain squared error: (1/n) sum of V(p - y) over bins (Minderer et al. 2021, Lemma 1).

    V(p - y) = a (1 - a) (1 - 2 d) + V(p), with a the observed frequency of the bin and d the mean prediction of its
    positives minus that of its negatives. The lemma has (1 - d) by mistake; its derivation has (1 - 2 d). O(n).
    """
    return float((bins.mass / bins.mass.sum()) @ (_spread_in_bins(event, bins) / bins.rows))


def unbiased_square(event: Event, bins: BinnedCells) -> float:
    """Return the unbiased estimate of the squared error, sum_k (m_k / m) (gap_k^2 - V_k / (n_k - 1)).

    gap_k and V_k are the mean and the variance of y - p in a bin, so a term is the mean of (y_i - p_i)(y_j - p_j) over
    pairs of different rows. Its expectation is the square of the true gap, for calibrated predictions 0, and it may be
    negative. With V_k = ybar_k (1 - ybar_k) (Broecker 2012; Ferro & Fricker 2012; Kumar et al. 2019), predictions that
    differ within a bin are corrected by too much. Bins of one row are left out. Raises ``TooFewRows``. O(n).
    """
    paired = bins.rows > 1.0 + 1e-9
    if not paired.any():
        raise TooFewRows("every bin has a single row, whose noise is unknown; use fewer bins")
    square = (bins.mean_y - bins.mean_p)[paired] ** 2
    noise = _spread_in_bins(event, bins)[paired] / (bins.rows[paired] - 1.0)
    return float(bins.mass[paired] @ (square - noise) / bins.mass[paired].sum())


def _spread_in_bins(event: Event, bins: BinnedCells) -> Floats:
    """Return the variance of y - p in each bin, with the number of rows as its divisor."""
    place = bins.index_of(event)
    off = event.p - event.y - (bins.mean_p - bins.mean_y)[place]
    return np.bincount(place, off**2 if event.w is None else event.w * off**2, len(bins)) / bins.mass


def binned_distance(event: Event, bins: BinnedCells, order: float, *, root: bool) -> Distance:
    """Return the gaps of the bins with their norm of this order (infinite: the largest) as the size.

    The variance of labels is that under the true gap, as in the interval of a frequency of Wilson (1927), or the
    observed one if that is larger: of rare events, the observed variance is smallest where positives are fewest by
    chance. The noise raises ``TooFewRows`` if more than a tenth of the rows are alone in their bins.
    """
    share = bins.mass / bins.mass.sum()
    gap = bins.mean_y - bins.mean_p

    @cache
    def place() -> Integers:
        return bins.index_of(event)

    @cache
    def variances() -> tuple[Floats, Floats]:
        return _variances(event, bins, place())

    def noise(group: Integers, groups: int) -> Floats:
        alone = int(np.count_nonzero(bins.rows <= 1.0 + 1e-9))
        if alone and share[bins.rows <= 1.0 + 1e-9].sum() > _ALONE:
            raise TooFewRows(f"{alone} of {len(bins)} bins have a single row, whose noise is unknown; use fewer bins")
        off = _deviations(event, bins, place(), variances()[0])
        if event.clusters is None:
            off *= row_scale(event)
        else:
            off *= of_clusters()[0] if event.w is None else event.w * of_clusters()[0]
        sums = np.bincount(group * len(bins) + place(), off, groups * len(bins))
        return sums.reshape(groups, len(bins)) / bins.mass

    @cache
    def of_clusters() -> tuple[Floats, float]:
        return _of_clusters(event, bins, place(), variances()[0])

    def spread(u: Floats) -> Floats:
        observed, within = variances()
        rate = np.minimum(np.maximum(bins.mean_p + u, 0.0), 1.0)
        ratio = (rate * (1.0 - rate) - within) / np.maximum(observed, _LEAST)
        return np.sqrt(np.maximum(ratio, 1.0))

    def size(u: Floats) -> Floats:
        if np.isinf(order):
            largest: Floats = np.abs(u).max(axis=-1)
            return largest
        power: Floats = np.abs(u) @ share if order == 1 else np.abs(u) ** order @ share
        return power ** (1.0 / order) if root else power

    deviation = np.sqrt(bins.mean_y * (1.0 - bins.mean_y) / np.maximum(bins.rows, 1.0))

    def debiased(u: Floats) -> Floats:
        corrected: Floats = 2.0 * size(u) - folded_normal_mean(u, np.broadcast_to(deviation, u.shape)) @ share
        return corrected

    # For norm 2 the correction is a constant and does not change deviations.
    corrected = debiased if order == 1 and not root else None
    freedom = None if event.clusters is None else lambda: of_clusters()[1]
    return Distance(gap, noise, size, corrected, spread, freedom=freedom)


def _of_clusters(event: Event, bins: BinnedCells, place: Integers, variance: Floats) -> tuple[Floats, float]:
    """Return the scale of the deviation of each row ``(n,)`` and the degrees of freedom, of CR2 (``core.clusters``).

    Each bin has its own mean, in which a cluster has the leverage of its share of the rows. The degrees of freedom are
    those of the sum over the bins. Raises ``TooFewRows`` if more than a tenth of the rows are in bins of one cluster.
    """
    from scipy.sparse import csr_array

    cluster, _ = number_of_clusters(np.asarray(event.clusters))
    pairs, pair = np.unique(cluster * len(bins) + place, return_inverse=True)
    own, column = np.divmod(pairs, len(bins))
    mass = np.bincount(pair, event.w).astype(np.float64, copy=False)
    leverage = mass / bins.mass[column]
    alone = leverage > 1.0 - 1e-9
    if mass[alone].sum() > _ALONE * bins.mass.sum():
        raise TooFewRows(f"{int(alone.sum())} of {len(bins)} bins have rows of a single cluster; use fewer bins")
    scale = 1.0 / np.sqrt(np.maximum(1.0 - leverage, _LEAST_REST))
    overlap = scale * mass * np.sqrt(variance[column] / bins.mass[column])
    squared, shared = np.bincount(own, scale**2 * mass * variance[column]), np.bincount(own, overlap**2)
    table = csr_array((overlap, (own, column)))
    squares = ((squared - shared) ** 2).sum() + (table.T @ table).power(2).sum() - (shared**2).sum()
    return scale[pair], float((squared - shared).sum() ** 2 / max(float(squares), 1e-300))


def _variances(event: Event, bins: BinnedCells, place: Integers) -> tuple[Floats, Floats]:
    """Return estimates of the variance of y - p in each bin, and the variance of p in it.

    If few rows share a bin, the variance of y - p among them is smallest where their gap is largest by chance, as for
    labels that are all equal. It is therefore averaged with that of ``_PRIOR_ROWS`` more rows, whose variance is
    p (1 - p) times the ratio of the two over all bins, and at most 1/4 as of any label.
    """

    def mean(values: Floats) -> Floats:
        return np.bincount(place, values if event.w is None else event.w * values, len(bins)) / bins.mass

    gap = bins.mean_y - bins.mean_p
    squares = bins.rows * mean((event.y - event.p - gap[place]) ** 2)
    # Deviations from the mean of a bin lose one degree of freedom.
    freedom = np.maximum(bins.rows - 1.0, 0.0)
    calibrated = mean(event.p * (1.0 - event.p))
    expected = float(freedom @ calibrated)
    # The ratio itself overflows for predictions close to 0.
    prior = np.minimum(calibrated / expected * squares.sum(), 0.25) if expected > 0.0 else calibrated
    observed = (squares + _PRIOR_ROWS * prior) / (freedom + _PRIOR_ROWS)
    return observed, mean((event.p - bins.mean_p[place]) ** 2)


def _deviations(event: Event, bins: BinnedCells, place: Integers, variance: Floats) -> Floats:
    """Return deviations of the rows, ``(n,)``, with this variance in each bin."""
    # Not exactly the mean is subtracted, so that equal labels have deviations that can be scaled.
    off = event.y - event.p - ((bins.mean_y - bins.mean_p) * bins.rows / (bins.rows + 1.0))[place]
    weighted = off**2 if event.w is None else event.w * off**2
    second_moment = np.bincount(place, weighted, len(bins)) / bins.mass
    scale = np.sqrt(np.divide(variance, second_moment, out=np.zeros_like(second_moment), where=second_moment > 0.0))
    return off * scale[place]


def bins_seconds(n: int, options: Mapping[str, Any]) -> float:
    """Estimate the seconds of a resample of the gaps of bins, in a norm that may need powers."""
    bins = min(n, GROUPS if options.get("binning") == "exact" else int(options.get("n_bins", 15)))
    norm = options.get("norm", options.get("p", 1))
    return bins * _BIN * (1.0 if norm in (1, 2, "max") else _POWERS)


# --- Entries of the catalogue


_FAMILY = "Binned calibration errors"


def _cut(event: Event, *, binning: str, n_bins: int, closed: Closed = "left") -> BinnedCells:
    if binning == "equal-width":
        return equal_width(event, n_bins, closed)
    if binning == "exact":
        return exact(event.cells)
    return adaptive(event.cells, n_bins) if binning == "adaptive" else equal_mass(event.cells, n_bins)


def _swept_count(event: Event, *, binning: str) -> int:
    return width_sweep_count(event) if binning == "equal-width" else sweep_count(event.cells)


def _above(event: Event, threshold: float) -> Event:
    """Return the event on the rows with predictions above the threshold; a threshold of 0 keeps all rows."""
    if threshold == 0.0:
        return event
    above = np.flatnonzero(event.p > threshold)
    if not len(above) or (event.w is not None and not event.w[above].any()):
        raise EmptyBatch("no row with weight has a prediction above the threshold")
    return replace(event, per_row=1).rows(above)


def _answer(bins: BinnedCells, norm: int | str, **definition: int) -> MeasureResult:
    definition["bins_used"] = len(bins)
    if norm == "max":
        return MeasureResult(float(np.abs(bins.mean_p - bins.mean_y).max()), definition=definition)
    order: Norm = 1 if norm == 1 else 2
    few = float(bins.rows.min()) < 1.0
    # The plain value does not depend on the number of rows, but the noise of less than one row is not defined.
    plain, debiased = expected_calibration_error(replace(bins, rows=np.ones(len(bins))) if few else bins, order)
    if few:
        problem = "no debiased value: the weights of a bin sum to less than 1; use weights_kind importance"
        return MeasureResult(plain, definition=definition, problem=problem)
    return MeasureResult(plain, debiased, definition=definition)


def _order(norm: int | str) -> float:
    return np.inf if norm == "max" else float(norm)


def ece(event: Event, _: Resampling, *, norm: int | str, **cut: Any) -> MeasureResult:
    """Compute the expected calibration error."""
    return _answer(_cut(event, **cut), norm)


def ece_distance(event: Event, _: Resampling, *, norm: int | str, **cut: Any) -> Distance:
    """Return the gaps of which the expected calibration error is the size."""
    return binned_distance(event, _cut(event, **cut), _order(norm), root=False)


def _counted(count: Callable[..., int]) -> tuple[Callable[..., MeasureResult], Callable[..., Distance]]:
    """Return functions for the error with the number of bins chosen by ``count``, and for its distance."""

    def compute(event: Event, resampling: Resampling, *, norm: int | str, binning: str, **how: int) -> MeasureResult:
        how = {**how, "seed": resampling.seed + 1} if how else how
        n_bins = count(event, binning=binning, **how)
        return _answer(_cut(event, binning=binning, n_bins=n_bins), norm, n_bins=n_bins)

    def distance(event: Event, resampling: Resampling, *, norm: int | str, binning: str, **how: int) -> Distance:
        n_bins = count(event, binning=binning, **({**how, "seed": resampling.seed + 1} if how else how))
        return binned_distance(event, _cut(event, binning=binning, n_bins=n_bins), _order(norm), root=False)

    return compute, distance


def _rooted(event: Event, _: Resampling, *, p: float, **cut: Any) -> MeasureResult:
    bins = _cut(event, **cut)
    distance = binned_distance(event, bins, p, root=True)
    return MeasureResult(float(distance.size(distance.gap)), definition={"bins_used": len(bins)})


def _rooted_distance(event: Event, _: Resampling, *, p: float, **cut: Any) -> Distance:
    return binned_distance(event, _cut(event, **cut), p, root=True)


def _rmsce(event: Event, _: Resampling, **cut: Any) -> MeasureResult:
    bins = _cut(event, **cut)
    plain, debiased = expected_calibration_error(bins, 2)
    parts = {"debiased_square": debiased}
    return MeasureResult(plain**0.5, max(debiased, 0.0) ** 0.5, parts=parts, definition={"bins_used": len(bins)})


def _square(event: Event, _: Resampling, **cut: Any) -> MeasureResult:
    bins = _cut(event, **cut)
    plain = expected_calibration_error(replace(bins, rows=np.ones(len(bins))), 2)[0]
    return MeasureResult(plain, unbiased_square(event, _rows_enough(bins)), definition={"bins_used": len(bins)})


def _cwce(event: Event, _: Resampling, *, p: float, form: str, **cut: Any) -> MeasureResult:  # noqa: ARG001
    bins = _cut(event, **cut)
    distance = binned_distance(event, bins, p, root=False)
    return MeasureResult(float(distance.size(distance.gap)), definition={"bins_used": len(bins)})


def _cwce_distance(event: Event, _: Resampling, *, p: float, form: str, **cut: Any) -> Distance:  # noqa: ARG001
    return binned_distance(event, _cut(event, **cut), p, root=False)


def _cwce_over_classes(values: Floats, options: Mapping[str, Any]) -> Floats:
    total: Floats = values.sum(axis=-1) if options["form"] == "sum" else values.mean(axis=-1)
    return total ** (1.0 / float(options["p"]))


def _fixed(event: Event, _: Resampling, *, binning: str, norm: int, n_bins: int, threshold: float) -> MeasureResult:
    return _answer(_cut(_above(event, threshold), binning=binning, n_bins=n_bins), norm)


def _fixed_distance(event: Event, _: Resampling, *, binning: str, norm: int, n_bins: int, threshold: float) -> Distance:
    rows_above = _above(event, threshold)
    distance = binned_distance(rows_above, _cut(rows_above, binning=binning, n_bins=n_bins), float(norm), root=False)
    above = np.flatnonzero(event.p > threshold) if threshold > 0.0 else slice(None)
    return replace(distance, noise=lambda group, groups: distance.noise(group[above], groups))


def _rows_enough(bins: BinnedCells) -> BinnedCells:
    if float(bins.rows.min()) < 1.0:
        raise TooFewRows("the weights of a bin sum to less than 1; use weights_kind importance")
    return bins


def _chance(event: Event, _: Resampling, **cut: Any) -> MeasureResult:
    _refuse_clusters(event)
    bins = _rows_enough(_cut(event, **cut))
    calibrated, plugged = chance_error(event, bins)
    return MeasureResult(calibrated, parts={"plug_in": plugged}, definition={"bins_used": len(bins)})


def _refuse_clusters(event: Event) -> None:
    if event.clusters is not None:
        raise CalibrationError("it is the effect of the noise of independent rows")


def _squared_bias(event: Event, _: Resampling, **cut: Any) -> MeasureResult:
    _refuse_clusters(event)
    bins = _rows_enough(_cut(event, **cut))
    return MeasureResult(squared_bias(event, bins), definition={"bins_used": len(bins)})


def _validation_seconds(n: int, _classes: int, options: Mapping[str, Any]) -> float:
    return float(options["folds"]) * (1e-7 * n + 1e-4 * float(options["most"]))


_SWEEP, _SWEEP_DISTANCE = _counted(_swept_count)
_VALIDATED, _VALIDATED_DISTANCE = _counted(cross_validated_count)
_NORM = Option(1, choices=(1, 2, "max"))
_EITHER = Option("equal-mass", choices=("equal-mass", "equal-width"))
_BINNING = Option("equal-mass", choices=("equal-mass", "equal-width", "adaptive", "exact"))
_CLOSED = Option("left", choices=("left", "right"))
_ORDER = Option(2, low=1, high=64, real=True)
_CUT = {"binning": _BINNING, "n_bins": Option(15), "closed": _CLOSED}
_CUTS = (
    "Bins: equal-mass, with borders between distinct predictions; equal-width, [i/b, (i+1)/b) with the last one "
    "closed, or closed on the right; adaptive, starting at ranks round(i n / b); exact, one per distinct prediction"
)
_FEW_WEIGHTS = "Intervals with unequal importance weights cover less than their level"
_KANGSEPP = "Kangsepp, Valk & Kull (2022)"


def _entry(name: str, title: str, definition: str, source: str, **rest: Any) -> Measure:
    common = {"lowest": 0.0, "highest": 1.0, "resample_seconds": bins_seconds, "is_error": True}
    return Measure(name, title, _FAMILY, definition, source, **{**common, **rest})


#: The options of ``ece``.
ECE_OPTIONS = {**_CUT, "norm": _NORM}

MEASURES = (
    _entry(
        "ece",
        "Expected calibration error",
        "sum_k (n_k / n) |pbar_k - ybar_k|^norm over bins, without a root; with norm max the largest gap. Debiased "
        "with the folded normal distribution (norm 1) or by subtracting ybar_k (1 - ybar_k) / (n_k - 1) (norm 2). "
        f"{_CUTS}",
        f"{_KANGSEPP}, sections 2.2 and C.5; Kumar, Liang & Ma (2019); Naeini, Cooper & Hauskrecht (2015)",
        meaning=(
            "Mean absolute difference between observed frequency and prediction over bins of rows; 0 is perfect. The "
            "debiased value excludes a part of what is due to random variation."
        ),
        cost="O(n log n); equal-width O(n)",
        event=ece,
        distance=ece_distance,
        options=ECE_OPTIONS,
    ),
    _entry(
        "ece-sweep",
        "Expected calibration error (monotonic sweep)",
        "ece with the largest b such that 1, ..., b bins all have non-decreasing observed frequencies (equal-width: at "
        "most 4,096 bins, ignoring empty ones)",
        "Roelofs et al. (2022)",
        meaning=(
            "Calibration error with the largest number of bins for which the observed frequencies increase with the "
            "predictions."
        ),
        cost="O(n log n + b^2)",
        event=_SWEEP,
        distance=_SWEEP_DISTANCE,
        options={"binning": _EITHER, "norm": _NORM},
    ),
    _entry(
        "ece-cv",
        "Expected calibration error with the number of bins from cross-validation (ES_CV, EW_CV)",
        "ece with the number of bins, from 1 to most, that minimises the squared error of p + ybar_k - pbar_k on "
        "held-out folds; the fewest bins within 0.1 % of the minimum. Intervals ignore that this number was chosen by "
        "the same labels, and cover less than their level",
        f"{_KANGSEPP}, sections 2.2 and C.2",
        cost="O(n log n + folds (n + most^2 log n))",
        event=_VALIDATED,
        distance=_VALIDATED_DISTANCE,
        options={"binning": _EITHER, "norm": _NORM, "most": Option(40, high=200), "folds": Option(10, low=2, high=100)},
        seconds=_validation_seconds,
    ),
    _entry(
        "mce",
        "Maximum calibration error",
        f"max_k |pbar_k - ybar_k| over bins. {_CUTS}",
        "Naeini, Cooper & Hauskrecht (2015)",
        meaning="The largest gap of any bin; sensitive to random variation in small bins.",
        cost="O(n log n); equal-width O(n)",
        event=partial(ece, norm="max"),
        distance=partial(ece_distance, norm="max"),
        options=_CUT,
    ),
    _entry(
        "rmsce",
        "Root mean squared calibration error",
        f"(sum_k (n_k / n) (pbar_k - ybar_k)^2)^(1/2) over bins; debiased: the root of the debiased square, or 0 if "
        f"that is negative. {_CUTS}",
        "Nixon et al. (2019); Kumar, Liang & Ma (2019)",
        meaning="Like the calibration error, but large gaps count more.",
        cost="O(n log n)",
        event=_rmsce,
        distance=partial(_rooted_distance, p=2.0),
        options={**_CUT, "n_bins": Option(30)},
    ),
    _entry(
        "squared-ece",
        "Squared calibration error, with its unbiased estimate",
        "sum_k (n_k / n) gap_k^2 over bins, with gap_k the mean of y - p. Debiased: sum_k (n_k / n) (gap_k^2 - V_k / "
        "(n_k - 1)), with V_k the variance of y - p in the bin, over bins of two rows or more. It is unbiased, so it "
        f"may be negative, and it is 0 on average for calibrated predictions. {_FEW_WEIGHTS}. {_CUTS}",
        "Kumar, Liang & Ma (2019); Broecker (2012); Ferro & Fricker (2012)",
        is_error=False,
        cost="O(n log n)",
        event=_square,
        distance=partial(ece_distance, norm=2),
        options=_CUT,
    ),
    _entry(
        "tce",
        "Top-label calibration error TCE_p, binned",
        f"(sum_k (n_k / n) |pbar_k - ybar_k|^p)^(1/p) over bins; top-label under the reduction confidence. {_CUTS}",
        "Gruber & Buettner (2022), appendix C; Kumar, Liang & Ma (2019)",
        cost="O(n log n)",
        event=_rooted,
        distance=_rooted_distance,
        options={**_CUT, "p": _ORDER},
    ),
    _entry(
        "cwce",
        "Class-wise calibration error CWCE_p, binned",
        "(sum over classes k of E|f_k - P(Y = k | f_k)|^p)^(1/p), at most 2^(1/p), over bins of each class; form mean "
        f"divides by K before the root. For one event, its term E|.|^p. {_CUTS}",
        "Gruber & Buettner (2022), appendix C",
        is_error=False,
        cost="O(K n log n)",
        highest=2.0,
        of_classes=True,
        event=_cwce,
        distance=_cwce_distance,
        over_classes=_cwce_over_classes,
        options={**_CUT, "p": _ORDER, "form": Option("sum", choices=("sum", "mean"))},
    ),
    _entry(
        "sce",
        "Static calibration error",
        "Under classwise: mean over classes of sum_k (n_k / n) |pbar_k - ybar_k| over equal-width bins of each class",
        "Nixon et al. (2019)",
        cost="O(K n)",
        of_classes=True,
        event=partial(_fixed, binning="equal-width", norm=1, threshold=0.0),
        distance=partial(_fixed_distance, binning="equal-width", norm=1, threshold=0.0),
        options={"n_bins": Option(15)},
    ),
    _entry(
        "ace",
        "Adaptive calibration error",
        "Under classwise: mean over classes of sum_k (n_k / n) |pbar_k - ybar_k| over adaptive bins of each class, "
        "which start at ranks round(i n / b)",
        "Nixon et al. (2019)",
        cost="O(K n log n)",
        of_classes=True,
        event=partial(_fixed, binning="adaptive", norm=1, threshold=0.0),
        distance=partial(_fixed_distance, binning="adaptive", norm=1, threshold=0.0),
        options={"n_bins": Option(15)},
    ),
    _entry(
        "tace",
        "Thresholded adaptive calibration error",
        "ace on the rows with predictions above the threshold; classes without such rows are left out (the released "
        "code ignores its threshold)",
        "Nixon et al. (2019)",
        cost="O(K n log n)",
        of_classes=True,
        event=partial(_fixed, binning="adaptive", norm=1),
        distance=partial(_fixed_distance, binning="adaptive", norm=1),
        options={"n_bins": Option(15), "threshold": Option(0.01, low=0.0, high=1.0, real=True)},
    ),
    _entry(
        "ece-by-chance",
        "Expected calibration error of a calibrated model with these predictions",
        "sum_k (n_k / n) E|N(0, sigma_k^2)|, sigma_k^2 = sum p (1 - p) / n_k^2; plug_in: with the observed gaps and "
        f"the variances of predictions and labels in each bin. {_FEW_WEIGHTS}. {_CUTS}",
        "Gruber & Buettner (2022), eq. 22",
        is_error=False,
        cost="O(n log n)",
        event=_chance,
        better="neither",
        resampled=True,
        options=_CUT,
    ),
    _entry(
        "l2-bias",
        "Sampling bias of the squared calibration error",
        "(1/n) sum over non-empty bins of V(p - y) = a (1 - a) (1 - 2 d) + V(p), with a the observed frequency and d "
        f"the mean prediction of positives minus that of negatives (the lemma has 1 - d by mistake). "
        f"{_FEW_WEIGHTS}. {_CUTS}",
        "Minderer et al. (2021), appendix C, Lemma 1",
        is_error=False,
        cost="O(n log n)",
        event=_squared_bias,
        better="neither",
        resampled=True,
        options=_CUT,
    ),
)
