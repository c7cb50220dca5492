"""Reliability diagrams: observed frequencies of bins as flat bars, with diagonal filling, and on logit axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from scipy.special import expit, ndtri

from calibrant.core.binning import (
    BinnedCells,
    Closed,
    adaptive,
    cross_validated_count,
    equal_mass,
    equal_width,
    sweep_count,
    width_sweep_count,
)
from calibrant.core.cells import Floats, cells_of
from calibrant.core.choices import AxesScale
from calibrant.core.errors import CalibrationError, InvalidOption, MissingExtra
from calibrant.core.reductions import Event, naming_reductions
from calibrant.diagrams.diagram import Picture, no_intervals
from calibrant.maps.curves import PROBABILITY_CLIP, Curve, clipped_logit
from calibrant.maps.platt import Platt, fit_platt
from calibrant.measures.binned import expected_calibration_error
from calibrant.measures.fitted import fitted_error
from calibrant.measures.intervals import Resampling

BinningName = Literal["equal-mass", "equal-width", "adaptive"]
Count = Literal["fixed", "sweep", "cross-validated"]
#: An event with a smaller observed frequency is rare: on linear axes its bins would crowd at 0.
RARE = 0.05
#: The most bins and bars.
MAX_BARS = 200
#: Candidates and folds of a cross-validated number of bins.
_MOST, _FOLDS = 40, 10
#: Points of a curve on logit axes.
_CURVE = 201


@dataclass(frozen=True)
class Histogram(Picture):
    """A histogram of the predictions: ``share`` (b,) of the mass and ``count`` (b,) of rows at ``edges`` (b + 1,)."""

    edges: Floats
    count: Floats
    share: Floats


@dataclass(frozen=True)
class Reliability(Picture):
    """Data of a reliability diagram: non-empty bins in ascending order, arrays of shape (b,).

    A flat diagram has bars of height ``observed_frequency``. A diagram with diagonal filling has the line p + gap in
    each bin, from ``roof_start`` to ``roof_end``, not clipped to [0, 1]: the best calibration map with slope 1. Its
    mean distance from the diagonal over the rows is ``ece``.

    Attributes
    ----------
    start, end : ndarray
        Smallest and largest prediction of each bin.
    count : ndarray
        Number of rows in each bin.
    rows : ndarray
        Effective number of rows in each bin.
    share : ndarray
        Fraction of the rows in each bin.
    mean_prediction : ndarray
        Weighted mean of the predictions.
    observed_frequency : ndarray
        Weighted fraction of positive labels.
    gap : ndarray
        Observed frequency minus mean prediction.
    low, high : ndarray or None
        Ends of the interval of Wilson for the observed frequency; None if the rows of a bin are dependent.
    roof_start, roof_end : ndarray
        Values of the line of slope 1 at the ends of the bin.
    ece : float
        Expected calibration error of the bins.
    ece_debiased : float or None
        Its debiased value.
    histogram : Histogram
        Histogram of the predictions.
    axes : {"linear", "logit"}
        How the diagram is drawn.
    """

    start: Floats
    end: Floats
    count: Floats
    rows: Floats
    share: Floats
    mean_prediction: Floats
    observed_frequency: Floats
    gap: Floats
    low: Floats | None
    high: Floats | None
    roof_start: Floats
    roof_end: Floats
    ece: float
    ece_debiased: float | None
    histogram: Histogram
    axes: AxesScale


@dataclass(frozen=True)
class LogitReliability(Picture):
    """Data of a reliability diagram on logit axes, arrays of shape (b,), with the line of Platt scaling.

    Attributes
    ----------
    x : ndarray
        Logit of the mean prediction.
    y, low, high : ndarray
        Logit of (k + 1/2) / (m + 1) for k positives of m effective rows, and its interval.
    count, share : ndarray
        Rows and fraction of the mass.
    slope, intercept : float or None
        The line ``slope`` x + ``intercept`` of Platt scaling; None for another method, or if it cannot be fitted.
    curve_x, curve_y : ndarray or None
        Logits of 201 predictions, evenly spaced, and of the fitted map there; None if it cannot be fitted.
    start_slope, end_slope : float or None
        Slopes of the first and the last piece of the curve; None if all predictions are equal.
    clipped : int
        Rows whose prediction is clipped at 2^-52 or 1 - 2^-52.
    """

    x: Floats
    y: Floats
    low: Floats | None
    high: Floats | None
    count: Floats
    share: Floats
    slope: float | None
    intercept: float | None
    curve_x: Floats | None
    curve_y: Floats | None
    start_slope: float | None
    end_slope: float | None
    clipped: int


def reliability(
    event: Event,
    resampling: Resampling,
    *,
    level: float,
    histogram: int,
    closed: Closed,
    axes: AxesScale | Literal["auto"] = "auto",
    **cut: Any,
) -> Reliability:
    """Compute the reliability diagram of an event, with the diagonal filling of Kangsepp, Valk & Kull (2022).

    By their theorem 2, the line of slope 1 through (mean prediction, observed frequency) of each bin minimizes the
    Brier score among such lines, and its mean distance from the diagonal over the rows is the ECE of the bins.
    Intervals are Wilson's (1927) at ``level`` with the effective rows. ``auto`` axes depend on the labels alone, so
    that they are the same before and after a map. Raises ``InvalidOption`` and ``TooFewRows``. O(n log n).
    """
    bins, ends = _cut(event, resampling, closed=closed, **cut)
    if axes == "auto":
        axes = "logit" if float(bins.mass @ bins.mean_y / bins.mass.sum()) < RARE else "linear"
    start = ends[0]
    gap = bins.mean_y - bins.mean_p
    few = float(bins.rows.min()) < 1.0
    plain, debiased = expected_calibration_error(replace(bins, rows=np.ones(len(bins))) if few else bins, 1)
    low, high = wilson(bins.mean_y, bins.rows, level)
    dependent = no_intervals(event)
    return Reliability(
        start,
        ends[1],
        counts(event, bins),
        bins.rows,
        bins.mass / bins.mass.sum(),
        bins.mean_p,
        bins.mean_y,
        gap,
        None if dependent else low,
        None if dependent else high,
        start + gap,
        ends[1] + gap,
        plain,
        None if few or event.clusters is not None else debiased,
        _histogram(event, histogram),
        axes,
        problem=dependent,
    )


def logit_reliability(
    event: Event,
    resampling: Resampling,
    *,
    level: float,
    method: str,
    folds: int,
    options: Mapping[str, Any] = MappingProxyType({}),
    **cut: Any,
) -> LogitReliability:
    """Compute the reliability diagram on logit axes, which spread out the ends and make Platt scaling a line.

    Half a row of each label is added to a bin (Haldane 1956; Anscombe 1956), so that its logit is finite. The interval
    is y -+ z (1 / (k + 1/2) + 1 / (m - k + 1/2))^(1/2) (Gart & Zweifel 1967). Beta calibration
    with parameters a and b has slope a at the lower and b at the upper end, and PL3 is piecewise linear (Kangsepp, Valk
    & Kull 2022, E.2). O(n log n) and the fit of ``method`` with its ``options``.
    """
    bins, _ = _cut(event, resampling, **cut)
    positives, negatives = bins.rows * bins.mean_y + 0.5, bins.rows * (1.0 - bins.mean_y) + 0.5
    y = np.log(positives) - np.log(negatives)
    reach = float(ndtri((1.0 + level) / 2.0)) * np.sqrt(1.0 / positives + 1.0 / negatives)
    curve, problem = _fitted(event, method, folds, options)
    line = curve if isinstance(curve, Platt) else None
    x, over_x = None, None
    if curve is not None:
        x, over_x = on_logit_axes(curve, float(event.p.min()), float(event.p.max()))
    start_slope, end_slope = (None, None) if x is None or over_x is None else end_slopes(x, over_x)
    dependent = no_intervals(event)
    outside = (event.p < PROBABILITY_CLIP) | (event.p > 1.0 - PROBABILITY_CLIP)
    return LogitReliability(
        clipped_logit(bins.mean_p),
        y,
        None if dependent else y - reach,
        None if dependent else y + reach,
        counts(event, bins),
        bins.mass / bins.mass.sum(),
        None if line is None else line.slope,
        None if line is None else line.intercept,
        x,
        over_x,
        start_slope,
        end_slope,
        int(np.count_nonzero(outside)),
        problem="; ".join(part for part in (dependent, problem) if part) or None,
    )


def on_logit_axes(curve: Curve, low: float, high: float) -> tuple[Floats, Floats]:
    """Return 201 evenly spaced logits of predictions from ``low`` to ``high``, and the logits of the curve there."""
    start, end = clipped_logit(np.array([low, high])).tolist()
    x = np.linspace(start, end, _CURVE)
    return x, clipped_logit(curve(expit(x)))


def end_slopes(x: Floats, y: Floats) -> tuple[float, float] | tuple[None, None]:
    """Return the slopes of the first and the last piece of a curve."""
    if x[0] == x[-1]:
        return None, None
    rise = np.diff(y) / np.diff(x)
    return float(rise[0]), float(rise[-1])


def wilson(share: Floats, rows: Floats, level: float) -> tuple[Floats, Floats]:
    """Return Wilson's (1927) interval, in [0, 1], of a probability with frequency ``share`` in ``rows`` > 0 rows."""
    z = float(ndtri((1.0 + level) / 2.0))
    centre = (rows * share + z * z / 2.0) / (rows + z * z)
    reach = z * np.sqrt(rows * share * (1.0 - share) + z * z / 4.0) / (rows + z * z)
    # For a frequency of 0 or 1, an end equals it except for rounding.
    return np.clip(centre - reach, 0.0, share), np.clip(centre + reach, share, 1.0)


def counts(event: Event, bins: BinnedCells) -> Floats:
    """Return the number of rows with weight in each bin. O(m log b)."""
    return np.bincount(bins.index_of(event.cells), event.cells.rows, len(bins)).astype(np.float64)


def _cut(
    event: Event, resampling: Resampling, *, binning: BinningName, count: Count, n_bins: int, closed: Closed = "left"
) -> tuple[BinnedCells, tuple[Floats, Floats]]:
    """Return the bins and their ranges; equal-mass and adaptive bins cover all of [0, 1]."""
    if count != "fixed":
        n_bins = _chosen(event, binning, count, resampling)
    if binning == "equal-width":
        bins = equal_width(event, n_bins, closed)
        end = (np.floor(bins.start * n_bins + 0.5) + 1.0) / n_bins  # starts are the doubles i / b
        return bins, (bins.start, end)
    bins = equal_mass(event.cells, n_bins) if binning == "equal-mass" else adaptive(event.cells, n_bins)
    return bins, (np.append(0.0, bins.start[1:]), np.append(bins.start[1:], 1.0))


def _chosen(event: Event, binning: BinningName, count: Count, resampling: Resampling) -> int:
    if binning == "adaptive":
        raise InvalidOption("adaptive bins need count fixed")
    if count == "cross-validated":
        return cross_validated_count(event, binning, folds=_FOLDS, most=_MOST, seed=resampling.seed + 1)
    swept = sweep_count(event.cells) if binning == "equal-mass" else width_sweep_count(event)
    return min(swept, MAX_BARS)


def _histogram(event: Event, n_bars: int) -> Histogram:
    bins = equal_width(event, n_bars)
    place = np.floor(bins.start * n_bars + 0.5).astype(np.int64)
    count, share = np.zeros(n_bars), np.zeros(n_bars)
    count[place], share[place] = counts(event, bins), bins.mass / bins.mass.sum()
    return Histogram(np.arange(n_bars + 1) / n_bars, count, share)


def _fitted(event: Event, method: str, folds: int, options: Mapping[str, Any]) -> tuple[Curve | None, str | None]:
    try:
        with naming_reductions(event, classwise=False):
            if method != "platt":
                return fitted_error(event, method, norm=1, folds=folds, level=None, options=options).curve, None
            # Platt's smoothed targets use the number of rows; effective rows do not depend on the scale of the weights.
            cells = event.cells if event.kind == "frequency" else cells_of(event.counted_rows)
            return fit_platt(cells, **options), None
    except MissingExtra:
        raise
    except CalibrationError as error:
        return None, f"no {'line' if method == 'platt' else 'curve'}: {error.detail}"
