"""Evaluation of tallies, and maps fitted to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Protocol

import numpy as np

from calibrant.calibrators import FitContext, Fitting
from calibrant.core.arguments import explained, refuse_misspelt
from calibrant.core.arrays import distinct_names
from calibrant.core.batch import Scale
from calibrant.core.device import read_device
from calibrant.core.errors import InvalidOption, ScaleMismatch, WrongShape
from calibrant.core.options import read_seed
from calibrant.core.progress import Progress, reporting
from calibrant.core.reductions import Event
from calibrant.core.validation import divided
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.diagrams.diagram import DiagramRequest, diagrams_of
from calibrant.evaluation import GroupReport, Report
from calibrant.maps.calibration_map import CalibrationMap, check_map
from calibrant.maps.curves import calibrated
from calibrant.measures.catalogue import level_of, read_requests
from calibrant.measures.gaps import Gap, between_intervals, gap_of
from calibrant.measures.improvement import improvements
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureRequest, MeasureResult, answers
from calibrant.monitoring.event_tally import EventTally, check_tally

Answers = dict[str, MeasureResult]


class CountedEvent(Protocol):
    """Counts of the rows of one event, such as an ``EventTally``."""

    @property
    def reduction(self) -> str: ...  # noqa: D102
    @property
    def scale(self) -> Scale: ...  # noqa: D102
    @property
    def n_classes(self) -> int | None: ...  # noqa: D102
    @property
    def groups(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def clipped(self) -> int: ...  # noqa: D102
    @property
    def renormalised(self) -> int: ...  # noqa: D102
    def __len__(self) -> int: ...
    def event(self) -> Event: ...  # noqa: D102
    def of_group(self, name: str) -> CountedEvent: ...  # noqa: D102


@dataclass(frozen=True)
class _Requests:
    measures: tuple[MeasureRequest, ...]
    diagrams: tuple[DiagramRequest, ...]
    resampling: Resampling

    def answers(self, event: Event) -> Answers:
        return answers(self.measures, event, self.resampling)

    def pictures(self, event: Event) -> dict[str, dict[str, Any]]:
        return diagrams_of(self.diagrams, event, self.resampling)

    def gaps(self, events: Mapping[str, Event], of_groups: Mapping[str, Answers]) -> dict[str, Gap]:
        return {request.key: self._gap(request, events, of_groups) for request in self.measures}

    def _gap(self, request: MeasureRequest, events: Mapping[str, Event], of_groups: Mapping[str, Answers]) -> Gap:
        """Return the largest gap; its interval is what the intervals of the groups allow (Bonferroni)."""
        results = {name: answered[request.key] for name, answered in of_groups.items()}
        gap = gap_of(results)[0]
        if self.resampling.level is None or gap.value is None:
            return gap
        ends = between_intervals(
            request, [events[name] for name, result in results.items() if result.value is not None], self.resampling
        )
        if ends is None:
            return replace(gap, problem="no interval: the measure has none in a group")
        return replace(gap, interval=(min(ends[0], gap.value), max(ends[1], gap.value)))


@explained
def evaluate_tally(
    tally: EventTally,
    *,
    measures: Sequence[str | Mapping[str, Any]] | None = None,
    diagrams: Sequence[str | Mapping[str, Any]] | None = None,
    map: CalibrationMap | None = None,
    interval: float | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Report:
    """Measure how well the predictions of a tally are calibrated, overall and by group.

    Parameters
    ----------
    tally : EventTally
        Result of ``tally`` or ``merge``.
    measures : sequence of str or mapping, optional
        As for ``evaluate``.
    diagrams : sequence of str or mapping, optional
        As for ``evaluate``.
    map : CalibrationMap, optional
        Map of the event of the tally. It is applied to the mean prediction of each cell.
    interval : float, optional
        As for ``evaluate``.
    resamples : int, default 1000
        Number of resamples, from 100 to 100,000.
    seed : int, default 0
        As for ``evaluate``.

    Returns
    -------
    Report
        As from ``evaluate``. Gaps between groups have no p-value, which would need the rows, and their intervals
        combine those of the groups (Bonferroni).

    Raises
    ------
    CalibrationError
        If an argument is invalid, or the tally has no rows (``EmptyBatch``).

    See Also
    --------
    evaluate : Evaluates rows in memory.
    tally : Counts rows.

    Notes
    -----
    The rows of each of the 2,048 cells are treated as if all had their mean prediction; the approximation is only
    within cells. O(cells) per measure, regardless of the number of rows.

    Examples
    --------
    >>> import calibrant
    >>> counted = calibrant.tally([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1], groups=["a", "b", "a", "b"])
    >>> report = calibrant.evaluate_tally(counted, measures=["brier"])
    >>> report.n, round(report.measures["brier"].value, 3), report.groups["a"].n
    (4, 0.135, 2)
    """
    resampling = Resampling.read(level_of(interval, measures), resamples, seed)
    check_tally(tally)
    return report_of(tally, read_requests(measures), read_diagrams(diagrams), resampling, map)


def report_of(
    tally: CountedEvent,
    measures: tuple[MeasureRequest, ...],
    diagrams: tuple[DiagramRequest, ...],
    resampling: Resampling,
    map: CalibrationMap | None = None,
) -> Report:
    """Evaluate counts of one event for checked options, as ``evaluate_tally``."""
    requests = _Requests(measures, diagrams, resampling)
    if map is not None:
        _check_map(map, tally)
    before = tally.event()
    report = Report(
        len(tally),
        tally.reduction,
        tally.clipped,
        tally.renormalised,
        requests.answers(before),
        diagrams=requests.pictures(before),
    )
    if map is not None:
        after = _after(before, map)
        report = replace(
            report,
            after=requests.answers(after),
            after_diagrams=requests.pictures(after),
            improvement=improvements(before, after, requests.resampling),
        )
    return report if not tally.groups else _with_groups(report, tally, requests, map)


def _with_groups(report: Report, tally: CountedEvent, requests: _Requests, map: CalibrationMap | None) -> Report:
    parts = {name: part for name in distinct_names(tally.groups) if len(part := tally.of_group(name))}
    if not parts:
        return report
    events = {name: part.event() for name, part in parts.items()}
    before = {name: requests.answers(event) for name, event in events.items()}
    gaps = requests.gaps(events, before)
    if map is None:
        groups = {name: GroupReport(len(part), before[name]) for name, part in parts.items()}
        return replace(report, groups=groups, gaps=gaps)
    applied = {name: _after(event, map) for name, event in events.items()}
    after = {name: requests.answers(event) for name, event in applied.items()}
    groups = {name: GroupReport(len(part), before[name], after[name]) for name, part in parts.items()}
    return replace(report, groups=groups, gaps=gaps, gaps_after=requests.gaps(applied, after))


@explained
def fit_tally(
    tally: EventTally,
    method: str,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
    **options: Any,
) -> CalibrationMap:
    """Fit a calibration map to the rows of a tally.

    Parameters
    ----------
    tally : EventTally
        Result of ``tally`` or ``merge``.
    method : str
        Name in ``calibrant.METHODS`` of a method that maps one event.
    seed : int, default 0
        As for ``fit``.
    device : str, default "cpu"
        As for ``fit``.
    progress : callable, optional
        As for ``fit``.
    **options : object
        Options of the method.

    Returns
    -------
    CalibrationMap
        Map of the event of the tally, for predictions like those that were counted.

    Raises
    ------
    CalibrationError
        As for ``fit``.

    See Also
    --------
    fit : Fits a map to rows in memory.
    evaluate_tally : Evaluates a tally, also with a map.

    Notes
    -----
    Cross-validation assigns cells to folds: all rows of a cell with the same outcome are in one fold. The cost is that
    of a fit to the cells, regardless of the number of rows.

    Examples
    --------
    >>> import calibrant
    >>> counted = calibrant.tally([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> calibrant.fit_tally(counted, "isotonic").apply([0.0, 0.5, 1.0])
    array([0. , 0.5, 1. ])
    """
    check_tally(tally)
    try:
        fitting = Fitting.read(method, options, tally.reduction)
    except InvalidOption:
        refuse_misspelt("fit_tally", options, list(signature(fit_tally).parameters)[:-1])
        raise
    with reporting(progress):
        return map_of(tally, fitting, FitContext(read_seed(seed), read_device(device)))


def map_of(tally: CountedEvent, fitting: Fitting, context: FitContext) -> CalibrationMap:
    """Fit a map to counts of one event, as ``fit_tally``."""
    fitting.resolve(tally.n_classes)
    curve, diagnostics = fitting.method.curve(divided(tally.event())[0], context, fitting.options)
    return CalibrationMap(fitting.method.name, curve, tally.reduction, tally.scale, tally.n_classes, diagnostics)


def _check_map(map: CalibrationMap, tally: CountedEvent) -> None:
    check_map(map)
    if map.of_vector or map.reduction != tally.reduction or map.n_classes not in (None, tally.n_classes):
        raise WrongShape.at("/map", "must be a map of the event of the tally")
    if map.scale != tally.scale:
        raise ScaleMismatch.at("/scale", f"is {tally.scale}, but the map was fitted on {map.scale}")


def _after(event: Event, map: CalibrationMap) -> Event:
    return replace(event, p=np.clip(calibrated(map.curve, event), 0.0, 1.0))
