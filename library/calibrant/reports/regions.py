"""Where on the axis of predictions labels and predictions part, and how large an error the rows do not exclude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv

from calibrant.reports import lookup, numbers

# --- Ranges of bins whose miscalibration chance does not explain

Floats = npt.NDArray[np.float64]

#: The chance that calibrated predictions show any range at all is at most this.
ALPHA = 0.05


@dataclass(frozen=True)
class Region:
    """A range of neighbouring bins: predictions from ``start`` to ``end``, ``share`` of all rows.

    ``lowest`` and ``highest`` say whether it reaches the smallest and the largest prediction; ``least`` and ``most``
    are the mean predictions of its first and its last bin. ``low`` and ``high`` are the interval of
    ``observed_frequency - mean_prediction``, which holds for all ranges at once.
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
        """Label share less mean prediction: below 0 predictions are too high."""
        return self.observed_frequency - self.mean_prediction


def find_regions(reliability: Mapping[str, Any], *, alpha: float = ALPHA) -> tuple[Region, ...]:
    """The ranges of a reliability diagram's bins in which labels and predictions differ, in ascending order.

    Of each of the b (b + 1) / 2 ranges the binomial tail of its positives, given its mean prediction, is compared
    with ``alpha`` over their number (Bonferroni): however rows are distributed within a range, the binomial tail is the
    larger one beyond the mean (Hoeffding 1956), so that calibrated predictions show any range at most with probability
    alpha. The clearest range is taken, then those beside it; neighbours of one sign are joined, which makes another of
    the ranges compared. Intervals are those of Clopper & Pearson at the same level. O(b^2).
    """
    rows, p, y = (
        np.asarray(reliability[name], dtype=np.float64) for name in ("rows", "mean_prediction", "observed_frequency")
    )
    if len(rows) == 0:
        return ()
    level = alpha / (len(rows) * (len(rows) + 1) / 2.0)
    found = _joined(_search(rows, p, y, level, 0, len(rows)), rows * (y - p))
    return tuple(_region(reliability, rows, p, y, level, first, end) for first, end in found)


def _search(rows: Floats, p: Floats, y: Floats, level: float, first: int, end: int) -> list[tuple[int, int]]:
    """The clearest range of the bins from ``first`` to before ``end``, and those on its left and right."""
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
    """Twice the smaller binomial tail of k of m, k itself included; k and m need not be whole."""
    above = np.where(k > 0.0, betainc(np.maximum(k, 1e-12), m - k + 1.0, p), 1.0)
    below = np.where(k < m, betainc(np.maximum(m - k, 1e-12), k + 1.0, 1.0 - p), 1.0)
    tail: Floats = 2.0 * np.minimum(above, below)
    return tail


def _joined(found: list[tuple[int, int]], off: Floats) -> list[tuple[int, int]]:
    whole: list[tuple[int, int]] = []
    for first, end in found:
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

#: A range lies on one side of 1/2 if it goes beyond it by no more than this, and its mean is at least as far from it.
_BEYOND = 0.05
#: A border this near to 1 is hard to read: the text gives the share of rows below it instead.
_NEXT_TO_1 = 1e-4


def direction(regions: Sequence[Region], reduction: str) -> str:
    """How far off and where, one phrase: ``Overconfident by 4.1 points above 0.7``.

    Of a claim too high is overconfident. Of a probability overconfident is what lies too far from 1/2, and
    underconfident what lies too near, where all ranges lie on one side of 1/2 each and not all are too high, or all too
    low, on both sides: that is a shift, and called too high or too low.
    """
    kinds = _kinds(regions, reduction)
    phrases = [f"{kinds[0].capitalize()} by {numbers.points(regions[0].gap)} {place(regions[0])}"]
    for i, region in enumerate(regions[1:], 1):
        kind = "" if kinds[i] == kinds[i - 1] else f"{kinds[i]} "
        phrases.append(f"{kind}by {numbers.points(region.gap)} {place(region)}")
    return " and ".join(phrases)


def is_shift(regions: Sequence[Region], reduction: str) -> bool:
    """Whether the ranges are too high or too low, and not over- or underconfident: no temperature repairs that."""
    if lookup.of_claims(reduction):
        return False
    sides, signs = {_side(region) for region in regions}, {region.gap < 0.0 for region in regions}
    return 0 in sides or (len(signs) == 1 and len(sides) > 1)


def _kinds(regions: Sequence[Region], reduction: str) -> list[str]:
    """What is wrong with each range."""
    if is_shift(regions, reduction):
        return ["too high" if region.gap < 0.0 else "too low" for region in regions]
    claims = lookup.of_claims(reduction)
    extreme = ((region.gap < 0.0) == (claims or _side(region) > 0) for region in regions)
    return ["overconfident" if beyond else "underconfident" for beyond in extreme]


def _side(region: Region) -> int:
    """1 above 1/2, -1 below it, 0 on both sides or about it."""
    if region.least >= 0.5 - _BEYOND and region.mean_prediction >= 0.5 + _BEYOND:
        return 1
    return -1 if region.most <= 0.5 + _BEYOND and region.mean_prediction <= 0.5 - _BEYOND else 0


def place(region: Region) -> str:
    """Where: ``above 0.70``, ``below 0.30``, ``between 0.40 and 0.60``, ``throughout``, ``at 0``; next to 1 in rows."""
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
    """The figures of a range in a sentence."""
    where = "In the whole range" if region.lowest and region.highest else f"{place(region).capitalize()}"
    happened = "decisions were right" if lookup.of_claims(reduction) else "the event happened"
    low, high = sorted((abs(region.low), abs(region.high)))
    way = "high" if region.gap < 0.0 else "low"
    average = numbers.percent(region.mean_prediction)
    rows = (
        ""
        if "rows" in where or (region.lowest and region.highest)
        else f" ({numbers.percent(region.share)} of the rows)"
    )
    frequency = numbers.percent(region.observed_frequency)
    return (
        f"{where}{rows} predictions average {average} "
        f"and {happened} in {frequency} of cases: {numbers.points(region.gap)} too {way} "
        f"({numbers.points_between(low, high)}, an interval that holds for all ranges at once)."
    )


# --- The largest calibration error that the rows of a report do not exclude

#: Rows are too alike for an interval where so large a share lies in bins of one label.
_ALIKE = 0.99
#: Halvings in which the largest shift is found.
_HALVINGS = 50


def could_hide(side: Mapping[str, Any]) -> float | None:
    """The largest mean calibration error that is known not to be excluded by these rows; None where nothing is known.

    It is the larger of the upper end of the error's interval and of ``largest_shift`` at the same level: resampled rows
    vary no more than the rows do, so that where these are all alike their interval says nothing.
    """
    answer = lookup.measure(side, "ece", norm=1)
    if answer is None or answer["definition"].get("interval") is None:
        return None
    ends, shift = error_interval(side), shift_of(side)
    known = [size for size in (None if ends is None else ends[1], shift) if size is not None]
    return max(known, default=None)


def error_interval(side: Mapping[str, Any]) -> tuple[float, float] | None:
    """The interval of the mean calibration error; None where there is none, and where the rows are too alike for one.

    Resampled labels vary in no bin whose labels are all one: where nearly all rows lie in such bins, what comes out is
    narrow whatever the truth.
    """
    ends = lookup.interval(lookup.measure(side, "ece", norm=1))
    shown = lookup.diagram(side, "reliability")
    if ends is None or shown is None:
        return ends
    share, y = (np.asarray(shown[name], dtype=np.float64) for name in ("share", "observed_frequency"))
    return None if float(share[(y <= 0.0) | (y >= 1.0)].sum()) >= _ALIKE else ends


def shift_of(side: Mapping[str, Any]) -> float | None:
    """``largest_shift`` of the side's reliability diagram; None without one, and where its rows hang together."""
    shown = lookup.diagram(side, "reliability")
    return None if shown is None or shown["low"] is None else largest_shift(shown, lookup.level(side))


def largest_shift(reliability: Mapping[str, Any], level: float) -> float:
    """The largest mean error of one direction that the number of events does not exclude at ``level``; in [0, 1].

    The chance of an event is held to be p + e (1 - p), or p (1 - e), in all bins or in one alone. The largest e is that
    at which so few events, or so many, have a probability of (1 - level) / 2, the binomial's of the same mean and
    variance. Of one prediction that is the bound of Clopper & Pearson (1934), of no event among m rows the "rule of
    three". It needs no resamples, and so holds for any rows. O(b^2).
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
    """The largest mean error of predictions that are too low."""
    # Where an event is certain there is no room above.
    families = np.vstack([np.ones(len(rows)), np.eye(len(rows))]) * (p < 1.0)
    m, k = families * rows, families @ (rows * y)

    def possible(e: Floats) -> npt.NDArray[np.bool_]:
        chance = p + e[:, None] * (1.0 - p)
        mean, square = (m * chance).sum(axis=1), (m * chance**2).sum(axis=1)
        # The binomial law of this mean and variance; of one chance it is that of the rows.
        alike = np.where(mean > 0.0, square / np.maximum(mean, 1e-300), 0.0)
        of = np.where(square > 0.0, mean**2 / np.maximum(square, 1e-300), m.sum(axis=1))
        few = betainc(np.maximum(of - k, 1e-12), k + 1.0, 1.0 - alike)
        at_least: npt.NDArray[np.bool_] = np.where(k < of, few, 1.0) >= tail
        return at_least

    low, high = np.zeros(len(m)), np.ones(len(m))
    none = ~possible(low) | (m.sum(axis=1) <= 0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        kept = possible(middle)
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return float(np.where(none, 0.0, low * (families @ (share * (1.0 - p)))).max())
