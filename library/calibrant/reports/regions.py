"""Ranges of predictions with significant miscalibration, and the largest error that the rows cannot exclude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv

from calibrant.reports import lookup, numbers

# --- Ranges of bins with significant miscalibration

Floats = npt.NDArray[np.float64]

#: The probability that any range is found for calibrated predictions is at most this.
ALPHA = 0.05


@dataclass(frozen=True)
class Region:
    """A range of adjacent bins with significant miscalibration.

    Attributes
    ----------
    start, end : float
        The predictions of the range.
    lowest, highest : bool
        Whether the range reaches the smallest and the largest prediction.
    share : float
        Fraction of all rows.
    least, most : float
        Mean predictions of the first and the last bin.
    mean_prediction, observed_frequency : float
        Of all rows of the range.
    low, high : float
        Interval of ``observed_frequency - mean_prediction``, simultaneous over all ranges.
    """

    start: float
    end: float
    lowest: bool
    highest: bool
    share: float
    least: float
    most: float
    mean_prediction: float
    observed_frequency: float
    low: float
    high: float

    @property
    def gap(self) -> float:
        """Observed frequency minus mean prediction; below 0, predictions are too high."""
        return self.observed_frequency - self.mean_prediction


def find_regions(reliability: Mapping[str, Any], *, alpha: float = ALPHA) -> tuple[Region, ...]:
    """Find the ranges of bins of a reliability diagram with significant miscalibration, in ascending order.

    For each of the b (b + 1) / 2 ranges of adjacent bins, the binomial tail probability of the positives, given the
    mean prediction, is compared with ``alpha`` divided by the number of ranges (Bonferroni). For predictions that vary
    within a range, the binomial tail is conservative (Hoeffding 1956), so the probability of finding any range for
    calibrated predictions is at most ``alpha``. The most significant range is selected first, then ranges on its left
    and right; adjacent ranges of the same sign are merged, which gives another of the compared ranges. Intervals are
    those of Clopper & Pearson at the same level. O(b^2).
    """
    rows, p, y = (
        np.asarray(reliability[name], dtype=np.float64) for name in ("rows", "mean_prediction", "observed_frequency")
    )
    if len(rows) == 0:
        return ()
    level = alpha / (len(rows) * (len(rows) + 1) / 2.0)
    ranges = _joined(_search(rows, p, y, level, 0, len(rows)), rows * (y - p))
    return tuple(_region(reliability, rows, p, y, level, first, end) for first, end in ranges)


def _search(rows: Floats, p: Floats, y: Floats, level: float, first: int, end: int) -> list[tuple[int, int]]:
    """Return the most significant range of the bins from ``first`` to before ``end``, and those on both sides."""
    if first >= end:
        return []
    starts, stops = (places + first for places in np.triu_indices(end - first))
    m, mp, k = (_summed(values, starts, stops + 1) for values in (rows, rows * p, rows * y))
    clear = _tail(k, m, mp / m) < level
    if not clear.any():
        return []
    spread = np.sqrt(np.maximum(mp * (1.0 - mp / m), 1e-300))
    best = int(np.argmax(np.where(clear, np.abs(k - mp) / spread, -1.0)))
    at, to = int(starts[best]), int(stops[best]) + 1
    left, right = _search(rows, p, y, level, first, at), _search(rows, p, y, level, to, end)
    return [*left, (at, to), *right]


def _tail(k: Floats, m: Floats, p: Floats) -> Floats:
    """Twice the smaller binomial tail probability of k of m, including k; k and m may be fractional."""
    above = np.where(k > 0.0, betainc(np.maximum(k, 1e-12), m - k + 1.0, p), 1.0)
    below = np.where(k < m, betainc(np.maximum(m - k, 1e-12), k + 1.0, 1.0 - p), 1.0)
    return 2.0 * np.minimum(above, below)


def _joined(ranges: list[tuple[int, int]], off: Floats) -> list[tuple[int, int]]:
    whole: list[tuple[int, int]] = []
    for first, end in ranges:
        sign = np.sign(off[first:end].sum())
        if whole and whole[-1][1] == first and np.sign(off[slice(*whole[-1])].sum()) == sign:
            whole[-1] = (whole[-1][0], end)
        else:
            whole.append((first, end))
    return whole


def _region(
    reliability: Mapping[str, Any], rows: Floats, p: Floats, y: Floats, level: float, first: int, end: int
) -> Region:
    own = slice(first, end)
    m = float(rows[own].sum())
    mean_p, mean_y = float(rows[own] @ p[own]) / m, float(rows[own] @ y[own]) / m
    k = m * mean_y
    low = float(betaincinv(k, m - k + 1.0, level / 2.0)) if k > 0.0 else 0.0
    high = float(betaincinv(k + 1.0, m - k, 1.0 - level / 2.0)) if k < m else 1.0
    return Region(
        float(reliability["start"][first]),
        float(reliability["end"][end - 1]),
        first == 0,
        end == len(rows),
        m / float(rows.sum()),
        float(p[first]),
        float(p[end - 1]),
        mean_p,
        mean_y,
        low - mean_p,
        high - mean_p,
    )


def _summed(values: Floats, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Floats:
    total = np.append(0.0, np.cumsum(values))
    summed: Floats = total[ends] - total[starts]
    return summed


# --- Ranges as text: overconfident, underconfident, too high, too low

#: A range is on one side of 1/2 if it extends at most this far beyond, and its mean is at least this far from it.
_BEYOND = 0.05
#: A border this close to 1 is hard to read: the text gives the fraction of rows below it instead.
_NEXT_TO_1 = 1e-4
#: Probabilities up to this are compared by their ratio too, if it is at least that: points say little of a rare event.
_RARE, _LEAST_FACTOR = 0.1, 1.1
#: Smaller differences are not given in points.
_LEAST_POINTS = 5e-4


def direction(regions: Sequence[Region], reduction: str) -> str:
    """Describe the direction, size and place of the ranges: ``Too high by a factor of 2 (0.9 points) above 0.0047``.

    Confidences, such as those of ``confidence``, are over- or underconfident. Probabilities of an event are too high or
    too low, except if those on both sides of 1/2 are too far from it, which is overconfident, or too close to it.
    """
    kinds = _kinds(regions, reduction)
    phrases = []
    for i, region in enumerate(regions):
        kind = "" if i and kinds[i] == kinds[i - 1] else f"{kinds[i]} "
        amount = size(region.mean_prediction, region.observed_frequency, reduction)
        phrases.append(f"{kind}by {amount} {place(region)}")
    text = " and ".join(phrases)
    return text[0].upper() + text[1:]


def size(predicted: float, observed: float, reduction: str) -> str:
    """Describe the difference of two probabilities in points, and also as a ratio if the event is rare."""
    points = numbers.points(observed - predicted)
    least, most = sorted((predicted, observed))
    if lookup.of_claims(reduction) or most > _RARE or least <= 0.0 or most < _LEAST_FACTOR * least:
        return points
    factor = f"a factor of {numbers.ratio(most / least)}"
    return factor if most - least < _LEAST_POINTS else f"{factor} ({points})"


def is_shift(regions: Sequence[Region], reduction: str) -> bool:
    """Whether the error is a shift and not over- or underconfidence; a temperature cannot correct a shift."""
    if lookup.of_claims(reduction):
        return False
    sides = [_side(region) for region in regions]
    outward = {(region.gap < 0.0) == (side > 0) for region, side in zip(regions, sides, strict=True)}
    return set(sides) != {-1, 1} or len(outward) > 1


def risk(gap: float) -> str:
    """Return the direction of an observed frequency minus a prediction."""
    return "too high" if gap < 0.0 else "too low"


def _kinds(regions: Sequence[Region], reduction: str) -> list[str]:
    """Return the kind of miscalibration of each range."""
    if is_shift(regions, reduction):
        return [risk(region.gap) for region in regions]
    claims = lookup.of_claims(reduction)
    extreme = ((region.gap < 0.0) == (claims or _side(region) > 0) for region in regions)
    return ["overconfident" if beyond else "underconfident" for beyond in extreme]


def _side(region: Region) -> int:
    """Return 1 for a range above 1/2, -1 below it, 0 on both sides."""
    if region.least >= 0.5 - _BEYOND and region.mean_prediction >= 0.5 + _BEYOND:
        return 1
    return -1 if region.most <= 0.5 + _BEYOND and region.mean_prediction <= 0.5 - _BEYOND else 0


def place(region: Region) -> str:
    """Describe the place: ``above 0.70``, ``below 0.30``, ``between 0.40 and 0.60``, ``throughout`` or ``at 0``."""
    if region.lowest and region.highest:
        return "throughout"
    if region.highest:
        return "at 1" if region.start == 1.0 else f"above {numbers.prediction(region.start)}"
    if region.lowest and region.most == 0.0:
        return "at 0"
    if region.lowest and region.end > 1.0 - _NEXT_TO_1:
        return f"in the lower {numbers.percent(region.share)} of rows"
    if region.lowest:
        return f"below {numbers.prediction(region.end)}"
    return "between {} and {}".format(*numbers.places(region.start, region.end))


def region_sentence(region: Region, reduction: str) -> str:
    """Describe a range with its numbers, in one sentence."""
    where = "Overall" if region.lowest and region.highest else f"{place(region).capitalize()}"
    frequency_of = "accuracy" if lookup.of_claims(reduction) else "observed frequency"
    low, high = sorted((abs(region.low), abs(region.high)))
    average = numbers.percent(region.mean_prediction)
    rows = (
        ""
        if "rows" in where or (region.lowest and region.highest)
        else f" ({numbers.percent(region.share)} of the rows)"
    )
    frequency = numbers.percent(region.observed_frequency)
    return (
        f"{where}{rows}, the mean prediction is {average} and the {frequency_of} is {frequency}: "
        f"{numbers.points(region.gap)} {risk(region.gap)} (simultaneous interval {numbers.points_between(low, high)})."
    )


# --- The largest calibration error that the rows of a report cannot exclude

#: Rows vary too little for an interval if this fraction is in bins with a single label.
_ALIKE = 0.99
#: Bisection steps for the largest shift.
_HALVINGS = 50


def could_hide(side: Mapping[str, Any]) -> float | None:
    """Return the largest mean calibration error that these rows cannot exclude; None if that is unknown.

    It is the larger of the upper end of the interval of the error and of ``largest_shift`` at the same level: if the
    rows vary little, so do the resamples, and the interval is too narrow.
    """
    answer = lookup.measure(side, "ece", norm=1)
    if answer is None or answer["definition"].get("interval") is None:
        return None
    ends, shift = error_interval(side), shift_of(side)
    known = [size for size in (None if ends is None else ends[1], shift) if size is not None]
    return max(known, default=None)


def error_interval(side: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the interval of the mean calibration error; None if there is none or the rows vary too little.

    In a bin with a single label, resampled labels do not vary. If nearly all rows are in such bins, the interval is too
    narrow.
    """
    ends = lookup.interval(lookup.measure(side, "ece", norm=1))
    shown = lookup.diagram(side, "reliability")
    if ends is None or shown is None:
        return ends
    share, y = (np.asarray(shown[name], dtype=np.float64) for name in ("share", "observed_frequency"))
    return None if float(share[(y <= 0.0) | (y >= 1.0)].sum()) >= _ALIKE else ends


def shift_of(side: Mapping[str, Any]) -> float | None:
    """Return ``largest_shift`` for the reliability diagram; None without one or if the rows are dependent."""
    shown = lookup.diagram(side, "reliability")
    return None if shown is None or shown["low"] is None else largest_shift(shown, lookup.level(side))


def largest_shift(reliability: Mapping[str, Any], level: float) -> float:
    """Return the largest mean error in one direction that the number of events does not exclude at ``level``.

    The true probability is assumed to be p + e (1 - p), or p (1 - e), in all bins or in a single bin. The largest e is
    the one for which so few, or so many, events have the probability (1 - level) / 2 under the binomial distribution of
    the same mean and variance. For a single prediction this is the bound of Clopper & Pearson (1934); for no event
    among m rows, the "rule of three". Without resampling, it is valid for any rows. The result is in [0, 1]. O(b^2).
    """
    rows, share, p, y = (
        np.asarray(reliability[name], dtype=np.float64)
        for name in ("rows", "share", "mean_prediction", "observed_frequency")
    )
    if len(rows) == 0:
        return 1.0
    tail = (1.0 - level) / 2.0
    return max(_upwards(rows, share, p, y, tail), _upwards(rows, share, 1.0 - p, 1.0 - y, tail))


def _upwards(rows: Floats, share: Floats, p: Floats, y: Floats, tail: float) -> float:
    """Return the largest mean error of predictions that are too low."""
    # A prediction of 1 cannot be too low.
    families = np.vstack([np.ones(len(rows)), np.eye(len(rows))]) * (p < 1.0)
    m, k = families * rows, families @ (rows * y)

    def possible(e: Floats) -> npt.NDArray[np.bool_]:
        chance = p + e[:, None] * (1.0 - p)
        mean, square = (m * chance).sum(axis=1), (m * chance**2).sum(axis=1)
        # The binomial distribution with this mean and variance; exact if all probabilities are equal.
        alike = np.where(mean > 0.0, square / np.maximum(mean, 1e-300), 0.0)
        of = np.where(square > 0.0, mean**2 / np.maximum(square, 1e-300), m.sum(axis=1))
        few = betainc(np.maximum(of - k, 1e-12), k + 1.0, 1.0 - alike)
        return np.where(k < of, few, 1.0) >= tail

    low, high = np.zeros(len(m)), np.ones(len(m))
    none = ~possible(low) | (m.sum(axis=1) <= 0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        is_possible = possible(middle)
        low, high = np.where(is_possible, middle, low), np.where(is_possible, high, middle)
    return float(np.where(none, 0.0, low * (families @ (share * (1.0 - p)))).max())
