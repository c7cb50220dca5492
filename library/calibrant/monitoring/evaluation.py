"""Measures, diagrams and maps of tallies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.calibrators import FitContext, Fitting
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.diagrams.diagram import DiagramRequest, diagrams_of
from calibrant.errors import InvalidOption, ScaleMismatch, WrongShape
from calibrant.evaluation import GroupReport, Report
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.catalogue import read_requests
from calibrant.measures.gaps import Gap, between_intervals, largest_gap
from calibrant.measures.improvement import improvements
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureRequest, MeasureResult, answers
from calibrant.monitoring.event_tally import EventTally
from calibrant.options import read_seed
from calibrant.progress import Progress, reporting
from calibrant.reductions import Event

Answers = dict[str, MeasureResult]


@dataclass(frozen=True)
class _Requests:
    measures: tuple[MeasureRequest, ...]
    diagrams: tuple[DiagramRequest, ...]
    resampling: Resampling

    def answers(self, event: Event) -> Answers:
        return answers(self.measures, event, self.resampling)

    def pictures(self, event: Event) -> dict[str, dict[str, Any]]:
        return diagrams_of(self.diagrams, event, self.resampling)

    def gaps(self, events: Mapping[str, Event], found: Mapping[str, Answers]) -> dict[str, Gap]:
        return {request.key: self._gap(request, events, found) for request in self.measures}

    def _gap(self, request: MeasureRequest, events: Mapping[str, Event], found: Mapping[str, Answers]) -> Gap:
        """The largest gap; its interval is what the groups' own intervals allow (Bonferroni)."""
        results = {name: answered[request.key] for name, answered in found.items()}
        plain = replace(self.resampling, level=None)
        gap = largest_gap(request, next(iter(events.values())), {}, results, plain)
        if self.resampling.level is None or gap.value is None:
            return gap
        ends = between_intervals(
            request, [events[name] for name, result in results.items() if result.value is not None], self.resampling
        )
        if ends is None:
            return replace(gap, problem="no interval: a group has none")
        return replace(gap, interval=(min(ends[0], gap.value), max(ends[1], gap.value)))


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
    """Measure how well the predictions of a tally are calibrated, overall and by each group that it names.

    Parameters
    ----------
    tally : what ``calibrant.tally`` counted and ``calibrant.merge`` added up
    measures, diagrams, interval, resamples, seed : as ``calibrant.evaluate`` takes them
    map : of the tally's event, applied first to the mean prediction of each cell

    Returns
    -------
    Report
        as ``calibrant.evaluate`` gives it; ``n`` counts rows. Gaps between groups have no p-value, which would need the
        rows, and their intervals are what the groups' own intervals allow (Bonferroni)

    Raises
    ------
    CalibrationError
        of the first thing wrong with the arguments; ``EmptyBatch`` of a tally without rows

    Notes
    -----
    Every measure works on the cells as on rows at the cells' means, of which each counts as often as there are rows.
    Predictions that share a cell of 1/2,048 of the arcsine grid are so taken for one; what the tally holds of an event
    is otherwise exact. O(cells) times the measures, whatever the number of rows.

    Examples
    --------
    >>> import calibrant
    >>> counted = calibrant.tally([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1], groups=["a", "b", "a", "b"])
    >>> report = calibrant.evaluate_tally(counted, measures=["brier"])
    >>> report.n, round(report.measures["brier"].value, 3), report.groups["a"].n
    (4, 0.135, 2)
    """
    requests = _Requests(read_requests(measures), read_diagrams(diagrams), Resampling.read(interval, resamples, seed))
    check_tally(tally)
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


def _with_groups(report: Report, tally: EventTally, requests: _Requests, map: CalibrationMap | None) -> Report:
    parts = {name: part for name in tally.groups if len(part := tally.of_group(name))}
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
    tally : what ``calibrant.tally`` counted and ``calibrant.merge`` added up
    method : a name of ``calibrant.METHODS`` that maps one event
    seed, device, progress, options : as ``calibrant.fit`` takes them

    Returns
    -------
    CalibrationMap
        of the tally's event: it takes predictions as those that were counted

    Raises
    ------
    CalibrationError
        what ``calibrant.fit`` raises

    Notes
    -----
    Methods that cross-validate deal cells to folds, all rows of a cell and outcome to one. O(cells) times the fit.

    Examples
    --------
    >>> import calibrant
    >>> counted = calibrant.tally([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> calibrant.fit_tally(counted, "isotonic").apply([0.0, 0.5, 1.0])
    array([0. , 0.5, 1. ])
    """
    check_tally(tally)
    fitting = Fitting.read(method, options, tally.reduction)
    fitting.resolve(tally.n_classes)
    event = tally.event()
    with reporting(progress):
        curve, diagnostics = fitting.method.curve(event, FitContext(read_seed(seed), device), fitting.options)
    return CalibrationMap(fitting.method.name, curve, tally.reduction, tally.scale, tally.n_classes, diagnostics)


def check_tally(tally: object) -> None:
    """Refuse what is no tally."""
    if not isinstance(tally, EventTally):
        raise InvalidOption.at("/tally", "must be what calibrant.tally counted")


def _check_map(map: object, tally: EventTally) -> None:
    if not isinstance(map, CalibrationMap):
        raise InvalidOption.at("/map", "must be a calibration map")
    if map.of_vector or map.reduction != tally.reduction or map.n_classes not in (None, tally.n_classes):
        raise WrongShape.at("/map", "must be of the event that the tally counts")
    if map.scale != tally.scale:
        raise ScaleMismatch.at("/scale", f"is {tally.scale}, where the map was fitted on {map.scale}")


def _after(event: Event, map: CalibrationMap) -> Event:
    return replace(event, p=np.clip(map.curve(event.p), 0.0, 1.0))
