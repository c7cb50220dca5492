"""Subgroups: between which two of them a measure differs most, and whether chance explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from calibrant.cells import Floats
from calibrant.measures.intervals import Integers, Resampling
from calibrant.measures.measure import MeasureRequest, MeasureResult, answers
from calibrant.reductions import Event, Subject, extent

#: More seconds than this the resamples of one measure may not be estimated to take.
MAX_SECONDS = 600.0


@dataclass(frozen=True)
class Gap:
    """The largest difference of a measure between two groups.

    ``between`` the group of the smallest and that of the largest value, of the ``of`` the two; None where fewer than
    two groups have one. ``interval`` and ``p_value`` are there where an interval was asked for.
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
    """The largest gap of a measure, from its ``results`` by group; ``members`` are the rows of each group.

    Debiased values are compared where every group has one: plain ones are larger where a group is smaller. The
    interval resamples rows within the groups and gives or takes a quantile of the range of the groups' deviations,
    which the triangle inequality makes valid for the largest gap. The p-value permutes the group labels over the rows:
    the share (1 + #) / (B + 1) of permutations with at least this gap. O(2 resamples x the measure).
    """
    debiased = all(r.debiased is not None for r in results.values())
    of: Literal["value", "debiased"] = "debiased" if debiased else "value"
    found = {name: getattr(result, of) for name, result in results.items()}
    known = {name: float(value) for name, value in found.items() if value is not None}
    if len(known) < 2:
        return Gap(None, None, of, problem="no gap: fewer than two groups have a value")
    low, high = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    gap = Gap((low, high), known[high] - known[low], of)
    if resampling.level is None:
        return gap
    plain = replace(resampling, level=None)
    if request.measure.own_interval or request.seconds(extent(subject), plain) * 2 * resampling.resamples > MAX_SECONDS:
        return replace(gap, problem="no interval and no p-value: the resamples would take too long")
    rows = [members[name] for name in known]
    random = resampling.generator()
    ordered = np.concatenate([_in_order(subject, own) for own in rows])
    ends = np.cumsum([len(own) for own in rows])[:-1]

    def values(parts: Sequence[Integers]) -> Floats:
        drawn = [getattr(answers([request], subject.rows(own), plain)[request.key], of) for own in parts]
        return np.array([np.nan if value is None else value for value in drawn])

    parts = np.split(ordered, ends)
    drawn = np.array([values([random.choice(own, len(own)) for own in parts]) for _ in range(resampling.resamples)])
    off = drawn - np.nanmean(drawn, axis=0)
    reach = float(np.nanquantile(np.nanmax(off, axis=1) - np.nanmin(off, axis=1), resampling.level))
    seen, reached = gap.value or 0.0, 0
    for _ in range(resampling.resamples):
        shuffled = values(np.split(random.permutation(ordered), ends))
        reached += bool(np.nanmax(shuffled) - np.nanmin(shuffled) >= seen - 1e-12)
    p_value = (1 + reached) / (resampling.resamples + 1)
    return replace(gap, interval=(max(seen - reach, 0.0), seen + reach), p_value=p_value)


def _in_order(subject: Subject, rows: Integers) -> Integers:
    """The rows of a group along their predictions and labels, so that draws do not depend on the order they had."""
    if isinstance(subject, Event) and subject.per_row == 1:
        keys = (subject.y[rows], subject.p[rows])
        return rows[np.lexsort(keys if subject.w is None else (subject.w[rows], *keys))]
    return rows
