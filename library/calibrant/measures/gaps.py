"""Differences of a measure between groups: the largest, its interval and its p-value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibrant.core.cells import Floats
from calibrant.core.choices import Of
from calibrant.core.progress import check, muted, report, step
from calibrant.core.reductions import Classes, Subject
from calibrant.measures.intervals import NO_WIDTH, Integers, Resampling, has_width
from calibrant.measures.measure import Extent, MeasureRequest, MeasureResult, answers, extent
from calibrant.measures.repeated import repeated, repeats

#: No interval is computed if its resamples are estimated to take longer than this, in seconds.
MAX_SECONDS = 600.0
#: Resamples without a value are left out, up to this fraction.
_LOST = 0.1
#: Estimated seconds per group and resample, even for few rows.
_GROUP = 4e-5
#: Rows of resamples that are measured at once.
_AT_ONCE = 1 << 19
#: Estimated seconds per row of resamples that are measured at once, and per measure; measures share the resamples.
_RESAMPLED_ROW = 2e-8


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
    of: Of = "value"
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    problem: str | None = None


def largest_gaps(
    requests: Sequence[MeasureRequest],
    subject: Subject,
    members: Mapping[str, Integers],
    by_group: Mapping[str, Mapping[str, MeasureResult]],
    resampling: Resampling,
) -> dict[str, Gap]:
    """Return the largest gap of each measure, from the results ``by_group``; ``members`` are the rows of each group.

    Debiased values are compared if every group has one, since plain values are larger in smaller groups. The p-value
    is (1 + #) / (B + 1) for # of B permutations of the group labels with at least this gap. The interval resamples rows
    within the groups, subtracts the bias that resampling adds to the value of each group, and adds and subtracts a
    quantile of the range of the deviations (triangle inequality). For measures whose bias changes with their size, such
    as binned errors, the interval is what the intervals of the G groups allow, each at level 1 - (1 - level) / G. It
    starts at 0 if the p-value does not reject equal groups. O(2 resamples x the measures); all measures have the same
    resamples, without rows of weight 0. Rows in clusters have no p-value, since they cannot be permuted, and all
    intervals are those that the intervals of the groups allow.
    """
    gaps, values = {}, {}
    for request in requests:
        results = {name: answered[request.key] for name, answered in by_group.items()}
        gaps[request.key], values[request.key] = gap_of(results)
    if resampling.level is None:
        return gaps
    if subject.clusters is not None:
        for request in requests:
            apart = [subject.rows(members[name]) for name in values[request.key]]
            gaps[request.key] = _between_clusters(request, gaps[request.key], apart, resampling)
        return gaps
    plain = replace(resampling, level=None)
    # Measures with values in the same groups are measured together.
    together: dict[tuple[str, ...], list[MeasureRequest]] = {}
    for request in requests:
        seconds = request.seconds(extent(subject), plain) * 2 * resampling.resamples
        if gaps[request.key].value is None:
            continue
        if request.measure.own_interval or seconds > MAX_SECONDS:
            problem = "no interval and no p-value: the resamples would take too long"
            gaps[request.key] = replace(gaps[request.key], problem=problem)
        else:
            together.setdefault(tuple(values[request.key]), []).append(request)
    for i, (names, several) in enumerate(together.items()):
        groups = _Groups(subject, [members[name] for name in names], resampling)
        debiased = {request.key: gaps[request.key].of == "debiased" for request in several}
        with step(2 * i, 2 * len(together)):
            shuffled = groups.resampled(several, debiased, shuffled=True)
        with step(2 * i + 1, 2 * len(together)):
            drawn = groups.resampled(
                [request_of_several for request_of_several in several if not _is_binned(request_of_several)],
                debiased,
                shuffled=False,
            )
        for request in several:
            key, known = request.key, np.array(list(values[request.key].values()))
            gaps[key] = groups.with_interval(request, gaps[key], known, shuffled[key], drawn.get(key))
    return gaps


def _between_clusters(request: MeasureRequest, gap: Gap, groups: Sequence[Subject], resampling: Resampling) -> Gap:
    """Return the gap of rows in clusters with the interval that those of the groups allow, which may share clusters."""
    if gap.value is None:
        return gap
    ends = between_intervals(request, groups, resampling)
    problem = "no p-value: rows of a cluster may depend on each other"
    if ends is None:
        return replace(gap, problem=f"{problem}; no interval: the measure has none in a group")
    return replace(gap, interval=(min(ends[0], gap.value), max(ends[1], gap.value)), problem=problem)


def gap_of(results: Mapping[str, MeasureResult]) -> tuple[Gap, dict[str, float]]:
    """Return the gap without an interval, and the values of the groups that have one."""
    of: Of = "debiased" if all(r.debiased is not None for r in results.values()) else "value"
    numbers = {name: getattr(result, of) for name, result in results.items()}
    known = {name: float(value) for name, value in numbers.items() if value is not None}
    if len(known) < 2:
        return Gap(None, None, of, problem="no gap: fewer than two groups have a value"), known
    ranked = sorted(known, key=known.__getitem__)
    low, high = ranked[0], ranked[-1]
    return Gap((low, high), known[high] - known[low], of), known


def _is_binned(request: MeasureRequest) -> bool:
    """Return whether the measure's bias changes with its size."""
    return request.measure.distance is not None and not request.measure.triangle


def _counted(subject: Subject) -> npt.NDArray[np.bool_]:
    """Return whether each row has a weight above 0."""
    rows = subject.vector if isinstance(subject, Classes) else subject
    n = len(rows) // rows.per_row
    return np.ones(n, np.bool_) if rows.w is None else rows.w[:: rows.per_row] > 0


class _Groups:
    """Resamples of groups of rows."""

    def __init__(self, subject: Subject, rows: Sequence[Integers], resampling: Resampling) -> None:
        self.subject, self.resampling = subject, resampling
        # In a canonical order, so that draws do not depend on the order of the rows.
        order = subject.order()
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        # Of a resample that has only rows of weight 0, no measure has a value.
        counted = _counted(subject)
        rows = [own[counted[own]] for own in rows]
        self.ordered = np.concatenate([own[np.argsort(rank[own])] for own in rows])
        self.sizes = np.array([len(own) for own in rows])
        self.ends = np.cumsum(self.sizes)[:-1]

    def _rows(self, *, shuffled: bool) -> Iterator[Integers]:
        """Yield rows ``(resamples, n)`` in chunks: the groups' labels permuted, or rows drawn within the groups."""
        resamples, n = self.resampling.resamples, len(self.ordered)
        random = np.random.default_rng([self.resampling.seed, 2 + shuffled])
        chunk = max(1, _AT_ONCE // n)
        first, size = (np.repeat(of, self.sizes) for of in (np.r_[0, self.ends], self.sizes))
        for i in range(0, resamples, chunk):
            report(i, resamples, "resamples")
            some = min(chunk, resamples - i)
            if shuffled:
                yield random.permuted(np.tile(self.ordered, (some, 1)), axis=1)
            else:
                yield self.ordered[first + (random.random((some, n)) * size).astype(np.int64)]

    def resampled(
        self, requests: Sequence[MeasureRequest], debiased: Mapping[str, bool], *, shuffled: bool
    ) -> dict[str, Floats | None]:
        """Return each measure's values ``(resamples, groups)``; None if too many resamples have none."""
        if not requests:
            return {}
        fast, slow = repeated(requests, self.subject, debiased)
        drawn: dict[str, list[Floats]] = {request.key: [] for request in requests}
        for rows in self._rows(shuffled=shuffled):
            parts = np.split(rows, self.ends, axis=1)
            measured = [fast(part) for part in parts]
            for key in measured[0]:
                drawn[key].append(np.stack([values[key] for values in measured], axis=1))
            if slow:
                for key, values in self._one_at_a_time(slow, parts, debiased).items():
                    drawn[key].append(values)
        finite = {key: np.concatenate(values) for key, values in drawn.items()}
        finite = {key: values[np.isfinite(values).all(axis=1)] for key, values in finite.items()}
        least = (1.0 - _LOST) * self.resampling.resamples
        return {key: values if len(values) >= least else None for key, values in finite.items()}

    def _one_at_a_time(
        self, requests: Sequence[MeasureRequest], parts: Sequence[Integers], debiased: Mapping[str, bool]
    ) -> dict[str, Floats]:
        plain = replace(self.resampling, level=None)
        values_by_key = {request.key: np.full((len(parts[0]), len(parts)), np.nan) for request in requests}
        for place in np.ndindex(len(parts[0]), len(parts)):
            check()
            with muted():
                results = answers(requests, self.subject.rows(parts[place[1]][place[0]]), plain)
            for key, result in results.items():
                value = result.debiased if debiased[key] else result.value
                values_by_key[key][place] = np.nan if value is None else value
        return values_by_key

    def with_interval(
        self, request: MeasureRequest, gap: Gap, known: Floats, shuffled: Floats | None, drawn: Floats | None
    ) -> Gap:
        """Return the gap with interval and p-value, from the values of its groups and their resamples."""
        level = 0.0 if self.resampling.level is None else self.resampling.level
        if shuffled is None or (drawn is None and not _is_binned(request)):
            return replace(gap, problem="no interval and no p-value: too many resamples of a group have no value")
        seen = gap.value or 0.0
        reached = int(np.count_nonzero(shuffled.max(axis=1) - shuffled.min(axis=1) >= seen - 1e-12))
        p_value = (1 + reached) / (len(shuffled) + 1)
        equal = p_value > 1.0 - level
        if drawn is None:
            groups = [self.subject.rows(own) for own in np.split(self.ordered, self.ends)]
            between = between_intervals(request, groups, self.resampling)
            if between is None:
                return replace(gap, p_value=p_value, problem="no interval: the measure has none in a group")
            least, most = between
            return _with_ends(gap, 0.0 if equal else min(least, seen), max(most, seen), p_value)
        off = drawn - drawn.mean(axis=0)
        reach = float(np.quantile(off.max(axis=1) - off.min(axis=1), level))
        # Basic bootstrap: a resample deviates from the observed value about as that does from the truth.
        corrected = 2.0 * known - drawn.mean(axis=0)
        centre = float(corrected.max() - corrected.min())
        least = 0.0 if equal else max(min(centre - reach, seen), 0.0)
        return _with_ends(gap, least, max(centre + reach, seen), p_value)


def _with_ends(gap: Gap, least: float, most: float, p_value: float) -> Gap:
    if not has_width((least, most)):
        return replace(gap, p_value=p_value, problem=f"no interval: {NO_WIDTH}")
    return replace(gap, interval=(least, most), p_value=p_value)


def grouped_seconds(
    request: MeasureRequest, size: Extent, groups: int, resampling: Resampling, *, together: bool = False
) -> float:
    """Estimate the seconds of the measure of each group and of ``largest_gaps``; ``size`` is that of all groups.

    ``together`` if the rows have no weights and one event each per class, so that resamples may be measured at once.
    """
    part = size._replace(rows=-(-size.rows // max(groups, 1)))
    plain = replace(resampling, level=None)
    of_groups = groups * request.seconds(part, resampling)
    if resampling.level is None or request.measure.own_interval:
        return of_groups
    # Resamples are measured without intervals. Binned errors are only permuted, and use the intervals of the groups.
    binned = request.measure.distance is not None and not request.measure.triangle
    again = resampling.resamples * groups * (request.seconds(part, plain) + _GROUP * size.events)
    if together and repeats(request):
        again = _RESAMPLED_ROW * resampling.resamples * size.rows * size.events
    return 2.0 * of_groups + again if binned else of_groups + 2.0 * again


def between_intervals(
    request: MeasureRequest, groups: Sequence[Subject], resampling: Resampling
) -> tuple[float, float] | None:
    """Return the smallest and largest difference that the intervals of the groups allow, by Bonferroni."""
    level = 1.0 - (1.0 - (resampling.level or 0.0)) / len(groups)
    intervals = [request.compute(group, replace(resampling, level=level)).interval for group in groups]
    lows, highs = ([ends[i] for ends in intervals if ends is not None] for i in (0, 1))
    if len(lows) < len(groups):
        return None
    return max(max(lows) - min(highs), 0.0), max(highs) - min(lows)
