"""Cumulative calibration errors: cumulative differences between labels and predictions, sorted by prediction."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from calibrant.core.cells import Cells, Floats
from calibrant.core.options import Option
from calibrant.core.reductions import Classes, Event, Vector
from calibrant.measures.chance import Kind, classes_p_value, event_p_value, parts_p_value, size_of
from calibrant.measures.intervals import Distance, Integers, Resampling, joined, row_scale
from calibrant.measures.measure import Measure, MeasureResult

#: Mean errors below this are rounding errors; one wrong row in a billion gives more.
_ROUNDING = 1e-12
#: Terms of the series below; for x from 0.02 to 1.5 the remainder is below 1e-16.
_TERMS = np.arange(64)
#: The most blocks for resampling the cumulative difference.
_BLOCKS = 512
#: Grid points of the distribution of a sum of suprema, and its extent in standard deviations above the mean.
_GRID, _REACH = 1 << 15, 12.0
#: Mean and variance of the supremum, and a value with tail probability 0 in double precision.
_MEAN, _VARIANCE, _FARTHEST = math.sqrt(math.pi / 2.0), 1.8319311883544380 - math.pi / 2.0, 8.5


def ks_error(cells: Cells) -> float:
    """Return the largest absolute cumulative difference between predictions and labels, in [0, 1].

    max_i |D_i|, D_i = (1/m) sum_{j<=i} w_j (y_j - p_j) over rows sorted by prediction (Gupta et
    al. 2021, eq. 6). Smaller is better, 0 is best. Only the ends of ties count, as in the published code,
    since D inside a tie depends on the order of the rows. O(m).
    """
    path = cells.cumulative_wy - cells.cumulative_wp
    return float(max(path.max(), -path.min())) / cells.mass


def kuiper_error(cells: Cells) -> float:
    """Return the range of the cumulative difference, max_i D_i - min_i D_i with D_0 = 0, in [0, 1]. O(m).

    Unlike ``ks_error`` it is the largest gap over any interval of predictions, which detects errors that cancel (Kuiper
    1960; Tygert 2021 for calibration).
    """
    path = cells.cumulative_wy - cells.cumulative_wp
    return float(path.max() - path.min()) / cells.mass


def end_value(cells: Cells) -> float:
    """Return mean label minus mean prediction, the end of the cumulative difference."""
    return float(cells.cumulative_wy[-1] - cells.cumulative_wp[-1]) / cells.mass


def chance_spread(cells: Cells) -> float:
    """Return the standard deviation of ``end_value`` under calibration."""
    return float(np.sqrt(cells.chance.sum())) / cells.mass


def ks_p_value(cells: Cells, error: float) -> float:
    """Return the asymptotic probability that calibrated predictions have at least this KS error.

    Under calibration the scaled cumulative difference converges to a Brownian motion in the time
    sum w^2 p (1 - p), so the statistic m D / sqrt(sum w^2 p (1 - p)) has the distribution
    of sup |B|: 1 - (4/pi) sum_k (-1)^k / (2k + 1) exp(-(2k + 1)^2 pi^2 / (8 x^2)) (Erdos & Kac
    1946). Kolmogorov's distribution is that of a Brownian bridge and does not apply. O(m).
    """
    return tail(error, chance_spread(cells), supremum_tail)


def kuiper_p_value(cells: Cells, error: float) -> float:
    """Return the asymptotic p-value of the Kuiper error, from the range of Brownian motion."""
    return tail(error, chance_spread(cells), range_tail)


def tail(error: float, spread: float, law: Callable[[float], float]) -> float:
    """Return the tail probability of error / spread under ``law``; if the spread is 0, any error rejects."""
    if spread == 0.0:  # every prediction is 0 or 1: any gap beyond rounding rejects
        return 1.0 if error <= _ROUNDING else 0.0
    return float(law(error / spread))


def supremum_tail(x: float) -> float:
    """Return P(sup over [0, 1] of |B| > x) for a Brownian motion B.

    1 minus the series of Erdos & Kac; beyond 1.5 by reflection, 4 sum_k (-1)^k (1 - Phi((2k + 1) x)), which has a small
    relative error.
    """
    return float(supremum_tails(np.array([x]))[0])


def supremum_tails(x: Floats) -> Floats:
    """Return ``supremum_tail`` for each of ``x (k,)``."""
    tails, odd = np.ones(len(x)), 2 * _TERMS + 1
    far, middle = x > 1.5, (x >= 0.02) & (x <= 1.5)
    tails[far] = 4.0 * (ndtr(-np.outer(x[far], odd[:8])) @ (-1.0) ** _TERMS[:8])
    decay = np.exp(-((odd * np.pi) ** 2) / (8.0 * x[middle, None] ** 2))
    tails[middle] = np.clip(1.0 - (4.0 / np.pi) * (decay @ ((-1.0) ** _TERMS / odd)), 0.0, 1.0)
    return tails


def sum_of_suprema_tail(scales: Floats, x: float) -> float:
    """Return P(sum_k scales_k sup|B_k| > x) for independent Brownian motions, accurate to about 1e-4.

    The suprema are rounded to a grid of N = 32,768 values up to 12 standard deviations of the sum above its mean, and
    their distributions are convolved by Fourier transforms. Probabilities below 1e-13 are not resolved.
    O(N log N + K N).
    """
    largest, total = float(scales.max()), float(scales.sum())
    if np.count_nonzero(scales) == 1:
        return supremum_tail(x / largest)
    reach = _MEAN * total + _REACH * math.sqrt(_VARIANCE * float(scales @ scales)) + _FARTHEST * largest
    step = min(reach, _FARTHEST * total) / (_GRID // 2)
    law = np.ones(_GRID // 2 + 1, dtype=np.complex128)
    for scale in scales[scales > 0.0].tolist():
        borders = (np.arange(math.ceil(_FARTHEST * scale / step) + 1) + 0.5) * step / scale
        law *= np.fft.rfft(-np.diff(supremum_tails(borders), prepend=1.0), _GRID)
    beyond = np.cumsum(np.fft.irfft(law, _GRID)[::-1])[::-1]  # P(rounded sum >= j) is the tail at j - 1/2
    return float(np.clip(np.interp(x / step, np.arange(_GRID) - 0.5, beyond, right=0.0), 0.0, 1.0))


def range_tail(x: float) -> float:
    """Return P(max - min over [0, 1] of B > x) for a Brownian motion B.

    The density of the range is 8 sum_k (-1)^(k - 1) k^2 phi(k x) (Feller 1951, eq. 3.6), so the tail is
    8 sum_k (-1)^(k - 1) k (1 - Phi(k x)); below 0.3 it is 1 in double precision.
    """
    if x < 0.3:
        return 1.0
    k = np.arange(1, int(40.0 / x) + 2)
    return float(np.clip(8.0 * np.sum(np.where(k % 2 == 1, 1.0, -1.0) * k * ndtr(-k * x)), 0.0, 1.0))


def ks_by_predicted_class(vector: Vector) -> tuple[float, list[float | None]]:
    """Return KS(f) = E[KS(f, C)], the mean KS error of the confidence by predicted class, and that of each class.

    Gruber & Buettner (2022), appendix C. It is not the top-label KS error (``ks`` under confidence), and unlike that it
    is not bounded by the top-label TCE_1. The error of a class that is never predicted is None. O(n log n + n K).
    """
    total = 0.0
    errors: list[float | None] = [None] * vector.n_classes
    for k, share, own in predicted_classes(vector):
        errors[k] = error = ks_error(own.cells)
        total += share * error
    return total, errors


def predicted_classes(vector: Vector) -> list[tuple[int, float, Event]]:
    """Return each predicted class with the fraction of its rows and their confidence."""
    event = vector.confidence()
    return [(k, share, event.rows(own)) for k, share, own in _rows_predicted(vector)]


def _rows_predicted(vector: Vector) -> list[tuple[int, float, Integers]]:
    """Return each predicted class with the fraction of its rows and their numbers."""
    w = np.ones(len(vector)) if vector.w is None else vector.w
    mass = float(w.sum())
    rows = ((k, np.flatnonzero(vector.predicted == k)) for k in np.unique(vector.predicted).tolist())
    return [(k, float(w[own].sum()) / mass, own) for k, own in rows if w[own].any()]


def ks_by_predicted_class_p_value(vector: Vector) -> float:
    """Return the asymptotic probability that calibrated predictions have at least this KS(f).

    The rows of the classes are disjoint, so their suprema are independent under calibration. The statistic is a sum of
    independent suprema, scaled by the fraction and spread of each class. It needs many rows of each predicted class.
    """
    parts = [(share, own.cells) for _, share, own in predicted_classes(vector)]
    errors = np.array([share * ks_error(cells) for share, cells in parts])
    scales = np.array([share * chance_spread(cells) for share, cells in parts])
    if errors[scales == 0.0].any():  # predictions of 0 or 1 that are wrong
        return 0.0
    return sum_of_suprema_tail(scales, float(errors.sum())) if scales.any() else 1.0


def by_class_distance(vector: Vector) -> Distance:
    """Return the cumulative differences of all predicted classes; the size is the weighted sum of their sizes."""
    classes, event = _rows_predicted(vector), vector.confidence()
    parts = [_on_rows(cumulative_distance(event.rows(own), "ks"), own) for _, _, own in classes]
    shares = np.array([share for _, share, _ in classes])
    return joined(parts, lambda sizes: sizes @ shares)


def _on_rows(distance: Distance, rows: Integers) -> Distance:
    return replace(distance, noise=lambda group, groups: distance.noise(group[rows], groups))


def cumulative_distance(event: Event, kind: Kind) -> Distance:
    """Return the cumulative difference at the ends of at most 512 blocks of equal mass.

    |sup |D| - sup |D_true|| is at most sup |D - D_true|, so the interval is conservative.
    """
    cells = event.cells
    ends = np.unique(np.searchsorted(cells.cumulative_w, cells.mass * np.arange(1, _BLOCKS + 1) / _BLOCKS))
    ends = np.unique(np.append(np.clip(ends, 1, len(cells)), len(cells)))
    path = (cells.cumulative_wy - cells.cumulative_wp) / cells.mass
    last = cells.key[ends - 1]

    def noise(group: Integers, groups: int) -> Floats:
        place = np.searchsorted(last, event.key, side="left")
        off = (event.y - event.p) * row_scale(event)
        sums = np.bincount(group * len(ends) + place, off, groups * len(ends)).reshape(groups, len(ends))
        return np.cumsum(sums, axis=1) / cells.mass

    def size(u: Floats) -> Floats:
        return size_of(u.max(axis=-1), u.min(axis=-1), u[..., -1], kind)

    return Distance(path[ends], noise, size)


# --- Entries of the catalogue


Law = Literal["asymptotic", "resampling"]

_FAMILY = "Cumulative calibration errors"


def _compute(kind: Kind) -> Any:
    error, p_value = (ks_error, ks_p_value) if kind == "ks" else (kuiper_error, kuiper_p_value)

    def compute(event: Event, resampling: Resampling, *, law: Law) -> MeasureResult:
        value = error(event.cells)
        if law == "resampling":
            return MeasureResult(value, p_value=event_p_value(event, kind, value, resampling))
        return MeasureResult(value, p_value=p_value(event.cells, value))

    return compute


def _end(event: Event, resampling: Resampling, *, law: Law) -> MeasureResult:
    value = end_value(event.cells)
    if law == "resampling":
        return MeasureResult(value, p_value=event_p_value(event, "end", abs(value), resampling))
    return MeasureResult(
        value, p_value=tail(abs(value), chance_spread(event.cells), lambda x: math.erfc(x / math.sqrt(2.0)))
    )


def _over_classes(kind: Kind) -> Any:
    def p_value(classes: Classes, resampling: Resampling, *, law: Law) -> float | None:
        return classes_p_value(classes, kind, resampling) if law == "resampling" else None

    return p_value


def _distance(kind: Kind) -> Callable[..., Distance]:
    def distance(event: Event, _: Resampling, *, law: Law) -> Distance:  # noqa: ARG001 - of the p-value
        return cumulative_distance(event, kind)

    return distance


def _end_influence(event: Event, _: Resampling, *, law: Law) -> Floats:  # noqa: ARG001 - of the p-value
    off = event.y - event.p
    return off - (off.mean() if event.w is None else np.average(off, weights=event.w))


def _by_class(vector: Vector, resampling: Resampling, *, law: Law) -> MeasureResult:
    value, errors = ks_by_predicted_class(vector)
    if law == "resampling":
        apart = [(share, own) for _, share, own in predicted_classes(vector)]
        p_value = parts_p_value(apart, "ks", value, resampling)
    else:
        p_value = ks_by_predicted_class_p_value(vector)
    return MeasureResult(value, p_value=p_value, parts={"classes": errors})


def _by_class_distance(vector: Vector, _: Resampling, *, law: Law) -> Distance:  # noqa: ARG001 - of the p-value
    return by_class_distance(vector)


def _chance_seconds(rows: int, options: Mapping[str, Any], resampling: Resampling) -> float:
    return 0.0 if options["law"] == "asymptotic" else resampling.resamples * (1e-5 + 1e-7 * rows)


_LAW = {"law": Option("asymptotic", choices=("asymptotic", "resampling"))}
_PATH = "D_i = sum_{j<=i} (y_j - p_j) / n over rows sorted by prediction, at the end of each tie"

MEASURES = (
    Measure(
        "ks",
        "Kolmogorov-Smirnov calibration error",
        _FAMILY,
        f"max_i |D_i|, {_PATH}. The p-value is from the distribution of the supremum of |Brownian motion|, or from "
        "labels drawn from p",
        "Gupta et al. (2021), eq. 6; Erdos & Kac (1946) for the distribution",
        0.0,
        1.0,
        "O(n log n); law resampling O(n resamples)",
        meaning=(
            "The largest difference between cumulative predictions and cumulative labels, from the lowest prediction "
            "upwards; no bins needed. Errors of opposite sign partly cancel."
        ),
        event=_compute("ks"),
        over_classes_p_value=_over_classes("ks"),
        options=_LAW,
        chance_seconds=_chance_seconds,
        distance=_distance("ks"),
        triangle=True,
        is_error=True,
    ),
    Measure(
        "kuiper",
        "Kuiper calibration error",
        _FAMILY,
        f"max_i D_i - min_i D_i, D_0 = 0, {_PATH}. The p-value is from the distribution of the range of Brownian "
        "motion, or from labels drawn from p",
        "Kuiper (1960); Arrieta-Ibarra et al. (2022); Feller (1951) for the distribution",
        0.0,
        1.0,
        "O(n log n); law resampling O(n resamples)",
        meaning="Like the Kolmogorov-Smirnov error, but equally sensitive to differences in any range of predictions.",
        event=_compute("kuiper"),
        over_classes_p_value=_over_classes("kuiper"),
        options=_LAW,
        chance_seconds=_chance_seconds,
        distance=_distance("kuiper"),
        triangle=True,
        is_error=True,
    ),
    Measure(
        "ks-end",
        "Mean label minus mean prediction",
        _FAMILY,
        "D_n, the end of the cumulative difference: mean label minus mean prediction. Below 0 predictions are too high "
        "overall. The p-value of |D_n| is from the normal distribution under calibration, or from labels drawn from p",
        "Gupta et al. (2021), section 4.1",
        -1.0,
        1.0,
        "O(n log n); law resampling O(n resamples)",
        meaning="Below 0, predictions are too high overall; above 0, too low.",
        event=_end,
        over_classes_p_value=_over_classes("end"),
        options=_LAW,
        chance_seconds=_chance_seconds,
        better="neither",
        influence=_end_influence,
    ),
    Measure(
        "ks-by-predicted-class",
        "Kolmogorov-Smirnov calibration error by predicted class, KS(f) = E[KS(f, C)]",
        _FAMILY,
        "sum_k P(C = k) times the ks of the confidence among the rows with predicted class k. It is not the top-label "
        "ks and not bounded by TCE_1. The p-value is from the distribution of a sum of independent suprema of "
        "|Brownian motion|, or from labels drawn from p",
        "Gruber & Buettner (2022), appendix C",
        0.0,
        1.0,
        "O(n log n + n K); law resampling O(n resamples)",
        vector=_by_class,
        needs="the whole vector",
        options=_LAW,
        chance_seconds=_chance_seconds,
        distance=_by_class_distance,
        triangle=True,
        is_error=True,
    ),
)
