"""Differences of a measure between groups: the largest, its interval and its p-value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from calibrant.cells import Floats
from calibrant.measures.intervals import Integers, Resampling
from calibrant.measures.measure import Extent, MeasureRequest, MeasureResult, answers, extent
from calibrant.measures.repeated import repeated, repeats
from calibrant.progress import check, muted
from calibrant.reductions import Subject

#: No interval is computed if its resamples are estimated to take longer than this, in seconds.
MAX_SECONDS = 600.0
#: Resamples without a value are left out, up to this fraction.
_LOST = 0.1
#: Estimated seconds per group and resample, even for few rows.
_GROUP = 4e-5
#: Rows of resamples that are measured at once.
_AT_ONCE = 1 << 19
#: Estimated seconds per row of resamples that are measured at once.
_RESAMPLED_ROW = 8e-8


@dataclass(frozen=True)
class Gap:
    """Largest difference of a measure between two groups.

    Attributes
    ----------
    between : tuple of str or None
        Groups with the smallest and the largest value; None if fewer than two groups have a value.
    value : float or None
        Difference of the two values, at least 0.
    of : {"value", "debiased"}
        Which values were compared: debiased ones if every group has one.
    interval : tuple of float or None
        Confidence interval; None if no level was given or no interval is defined.
    p_value : float or None
        P-value of the hypothesis that the groups do not differ; None if no level was given or there is none.
    problem : str or None
        Why a part of the result is missing.

    See Also
    --------
    evaluate : Computes gaps if ``groups`` are given.

    Examples
    --------
    >>> import calibrant
    >>> groups = ["a", "a", "b", "b"]
    >>> report = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1], measures=["brier"], groups=groups)
    >>> report.gaps["brier"].between, round(report.gaps["brier"].value, 3)
    (('b', 'a'), 0.1)
    """

    between: tuple[str, str] | None
    value: float | None
    of: Literal["value", "debiased"] = "value"
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    problem: str | None = None


def largest_gap(
    request: MeasureRequest,
    subject: Subject,
    members: Mapping[str, Integers],
    results: Mapping[str, MeasureResult],
    resampling: Resampling,
) -> Gap:
    """Return the largest gap of a measure, from its ``results`` by group; ``members`` are the rows of each group.

    Debiased values are compared if every group has one, since plain values are larger in smaller groups. The p-value
    is (1 + #) / (B + 1) for # of B permutations of the group labels with at least this gap. The interval resamples rows
    within the groups, subtracts the bias that resampling adds to the value of each group, and adds and subtracts a
    quantile of the range of the deviations (triangle inequality). For measures whose bias changes with their size, such
    as binned errors, the interval is what the intervals of the G groups allow, each at level 1 - (1 - level) / G. It
    starts at 0 if the p-value does not reject equal groups. O(2 resamples x the measure).
    """
    debiased = all(r.debiased is not None for r in results.values())
    of: Literal["value", "debiased"] = "debiased" if debiased else "value"
    found = {name: getattr(result, of) for name, result in results.items()}
    known = {name: float(value) for name, value in found.items() if value is not None}
    if len(known) < 2:
        return Gap(None, None, of, problem="no gap: fewer than two groups have a value")
    ranked = sorted(known, key=known.__getitem__)
    low, high = ranked[0], ranked[-1]
    gap = Gap((low, high), known[high] - known[low], of)
    if resampling.level is None:
        return gap
    plain = replace(resampling, level=None)
    if request.measure.own_interval or request.seconds(extent(subject), plain) * 2 * resampling.resamples > MAX_SECONDS:
        return replace(gap, problem="no interval and no p-value: the resamples would take too long")
    rows = [members[name] for name in known]
    random = resampling.generator()
    # In a canonical order, so that draws do not depend on the order of the rows.
    order = subject.order()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    ordered = np.concatenate([own[np.argsort(rank[own])] for own in rows])
    ends = np.cumsum([len(own) for own in rows])[:-1]

    parts, at_once = np.split(ordered, ends), repeated(request, subject, debiased=debiased)
    chunk = 1 if at_once is None else max(1, _AT_ONCE // len(ordered))

    def values(parts: Sequence[Integers]) -> Floats:
        """Measure rows ``(resamples, m)`` of each group: ``(resamples, groups)``."""
        check()
        if at_once is not None:
            return np.stack([at_once(own) for own in parts], axis=1)
        with muted():
            drawn = [getattr(answers([request], subject.rows(own[0]), plain)[request.key], of) for own in parts]
        return np.array([[np.nan if value is None else value for value in drawn]])

    def resampled(draw: Callable[[], Integers]) -> Floats | None:
        starts = range(0, resampling.resamples, chunk)
        rows = (np.stack([draw() for _ in range(min(chunk, resampling.resamples - i))]) for i in starts)
        found = np.concatenate([values(np.split(several, ends, axis=1)) for several in rows])
        kept = found[np.isfinite(found).all(axis=1)]
        return kept if len(kept) >= (1.0 - _LOST) * resampling.resamples else None

    binned = request.measure.distance is not None and not request.measure.triangle

    def redrawn() -> Integers:
        # The draws of ``random.choice``, which spends most of its time on checks.
        return np.concatenate([own[random.integers(0, len(own), len(own))] for own in parts])

    drawn = None if binned else resampled(redrawn)
    shuffled = resampled(lambda: random.permutation(ordered))
    if shuffled is None or (drawn is None and not binned):
        return replace(gap, problem="no interval and no p-value: too many resamples of a group have no value")
    seen = gap.value or 0.0
    reached = int(np.count_nonzero(shuffled.max(axis=1) - shuffled.min(axis=1) >= seen - 1e-12))
    p_value = (1 + reached) / (len(shuffled) + 1)
    equal = p_value > 1.0 - resampling.level
    if drawn is None:
        between = between_intervals(request, [subject.rows(own) for own in parts], resampling)
        if between is None:
            return replace(gap, p_value=p_value, problem="no interval: the measure has none in a group")
        least, most = between
        return replace(gap, interval=(0.0 if equal else min(least, seen), max(most, seen)), p_value=p_value)
    off = drawn - drawn.mean(axis=0)
    reach = float(np.quantile(off.max(axis=1) - off.min(axis=1), resampling.level))
    # Basic bootstrap: a resample deviates from the observed value about as that does from the truth.
    corrected = 2.0 * np.array(list(known.values())) - drawn.mean(axis=0)
    centre = float(corrected.max() - corrected.min())
    least = 0.0 if equal else max(min(centre - reach, seen), 0.0)
    return replace(gap, interval=(least, max(centre + reach, seen)), p_value=p_value)


def grouped_seconds(
    request: MeasureRequest, size: Extent, groups: int, resampling: Resampling, *, together: bool = False
) -> float:
    """Estimate the seconds of the measure of each group and of ``largest_gap``; ``size`` is that of all groups.

    ``together`` if the rows have no weights and one event each per class, so that resamples may be measured at once.
    """
    part = size._replace(rows=-(-size.rows // max(groups, 1)))
    plain = replace(resampling, level=None)
    each = groups * request.seconds(part, resampling)
    if resampling.level is None or request.measure.own_interval:
        return each
    # Resamples are measured without intervals. Binned errors are only permuted, and use the intervals of the groups.
    binned = request.measure.distance is not None and not request.measure.triangle
    again = resampling.resamples * groups * (request.seconds(part, plain) + _GROUP * size.events)
    if together and repeats(request):
        again = _RESAMPLED_ROW * resampling.resamples * size.rows * size.events
    return 2.0 * each + again if binned else each + 2.0 * again


def between_intervals(
    request: MeasureRequest, groups: Sequence[Subject], resampling: Resampling
) -> tuple[float, float] | None:
    """Return the smallest and largest difference that the intervals of the groups allow, by Bonferroni."""
    level = 1.0 - (1.0 - (resampling.level or 0.0)) / len(groups)
    found = [request.compute(group, replace(resampling, level=level)).interval for group in groups]
    lows, highs = ([ends[i] for ends in found if ends is not None] for i in (0, 1))
    if len(lows) < len(groups):
        return None
    return max(max(lows) - min(highs), 0.0), max(highs) - min(lows)
