"""Evaluation: the measures of a batch, as given and after a map, overall and by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.batch import Batch, Scale, read_batch, read_classes, restrict
from calibrant.cells import WeightsKind
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.diagrams.diagram import DiagramRequest, diagrams_of
from calibrant.errors import InvalidOption, LengthMismatch, UnknownReduction, WrongShape
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.catalogue import read_requests
from calibrant.measures.cross_fitting import UNKNOWN, Training, improvements_again, unproven
from calibrant.measures.gaps import Gap, grouped_seconds, largest_gap
from calibrant.measures.improvement import improvements
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import MeasureRequest, MeasureResult, answers, extent_of
from calibrant.progress import SILENT, Progress, Rising
from calibrant.reductions import Event, Subject, Vector, reduce, resolve, resolve_event, subject, whole_vector

#: The rows of each group, by name.
Members = dict[str, npt.NDArray[np.int64]]

#: What may be asked of (n,) predictions, where no map says which event they are of.
_OF_ONE_COLUMN = ("binary", "confidence", "pooled", "classwise", "canonical")
#: At most so many groups, with names of at most so many characters.
MAX_GROUPS, MAX_NAME = 1000, 256


@dataclass(frozen=True)
class Report:
    """What ``evaluate`` answers.

    ``n`` rows, after ``left_out`` of other classes than those chosen; ``clipped`` and ``renormalised`` of all were
    mended within the tolerance; ``measures`` by key; ``after`` the same after the map, if one was given, with its
    ``improvement``: ``brier`` and ``log-loss`` before less after; ``in_sample`` whether the map was fitted to these
    rows, None where that is not known: if so nothing after it has a p-value, and the improvement is that of maps fitted
    without each fold (``cross_fitted``); ``groups`` by name, and by key the ``gaps`` between them, before and after; by
    key the ``diagrams``, before and after, each plain JSON with ``data``, ``definition`` and ``problem``.
    """

    n: int
    reduction: str
    clipped: int
    renormalised: int
    measures: Mapping[str, MeasureResult]
    after: Mapping[str, MeasureResult] | None = None
    groups: Mapping[str, GroupReport] | None = None
    gaps: Mapping[str, Gap] | None = None
    gaps_after: Mapping[str, Gap] | None = None
    left_out: int = 0
    diagrams: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    after_diagrams: Mapping[str, dict[str, Any]] | None = None
    improvement: Mapping[str, MeasureResult] | None = None
    in_sample: bool | None = None


@dataclass(frozen=True)
class GroupReport:
    """The measures of one group's rows."""

    n: int
    measures: Mapping[str, MeasureResult]
    after: Mapping[str, MeasureResult] | None = None


@dataclass(frozen=True)
class Evaluation:
    """An evaluation asked for: everything but the rows, checked."""

    measures: tuple[MeasureRequest, ...]
    reduction: str | None = None
    map: CalibrationMap | None = None
    resampling: Resampling = PLAIN
    classes: Sequence[int] | None = None
    diagrams: tuple[DiagramRequest, ...] = ()
    training: Training = UNKNOWN

    @property
    def inline(self) -> bool:
        """Whether nothing asked for is a long fit."""
        runs = [asked.measure.runs for asked in self.measures] + [asked.runs for asked in self.diagrams]
        return all(run == "inline" for run in runs)

    def check(self, batch: Batch, groups: Sequence[str] | None = None) -> tuple[str, Members | None]:
        """The full name of the reduction, and the rows of each group; raises what ``run`` would, without measuring."""
        if self.map is not None and not isinstance(self.map, CalibrationMap):
            raise InvalidOption.at("/map", "must be a calibration map")
        n_classes = batch.predictions.n_classes
        asked = self.reduction
        fitting = self.map is not None and (n_classes is None or n_classes == self.map.n_classes)
        if asked is None and self.map is not None and fitting and not self.map.of_vector:
            asked = self.map.reduction
        name = resolve(asked, n_classes)
        if n_classes is None and self.map is None and name not in _OF_ONE_COLUMN:
            raise UnknownReduction.at("/reduction", f"of predictions (n,) must be one of: {', '.join(_OF_ONE_COLUMN)}")
        if self.classes is not None:
            if self.map is not None:
                raise InvalidOption.at("/classes", "cannot be chosen beside a map, which takes all of them")
            chosen = len(read_classes(self.classes, n_classes))
            resolve(asked, chosen)
        if self.map is not None:
            self.map.check(batch.predictions)
        if self.map is not None and not self.map.of_vector:
            resolve_event(name, n_classes)
            if n_classes is not None and name != self.map.reduction:
                raise WrongShape.at("/reduction", f"must be the map's, {self.map.reduction}")
        return name, None if groups is None else _members(groups, len(batch))

    def run(
        self,
        batch: Batch,
        groups: Sequence[str] | None = None,
        *,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> Report:
        """Answer for a checked batch; ``groups (n,)`` are names; ``device`` is of a fit that is repeated.

        ``progress`` is told between the steps, and within them often enough that what it raises ends the work soon.
        """
        name, members = self.check(batch, groups)
        step = self._steps(Rising(progress), members)
        given = len(batch)
        if self.classes is not None:
            batch, kept = restrict(batch, read_classes(self.classes, batch.predictions.n_classes))
            members = None if groups is None else _members([groups[i] for i in kept.tolist()], len(batch))
        asked = subject(batch, name)
        applied: Subject | None = None
        improved, in_sample = None, None
        if self.map is not None:
            in_sample = self.training.saw(batch)
            applied, before, after = calibrated(asked, batch, name, self.map, step("map").told)
            if in_sample:
                improved = improvements_again(before, batch, self.training, step("improvement"), device=device)
            else:
                improved = improvements(before, after, step("improvement"))
        report = Report(
            len(batch),
            name,
            batch.predictions.clipped,
            batch.predictions.renormalised,
            self._answers(asked, step("measures")),
            None if applied is None else self._answers(applied, step("measures after the map"), in_sample),
            left_out=given - len(batch),
            diagrams=diagrams_of(self.diagrams, asked, step("diagrams")),
            after_diagrams=None
            if applied is None
            else diagrams_of(self.diagrams, applied, step("diagrams after the map")),
            improvement=improved,
            in_sample=in_sample,
        )
        found = report if members is None else self._with_groups(report, asked, applied, members, step)
        if progress is not None:
            progress(1000, 1000, "done")
        return found

    def _steps(self, told: Rising, members: Members | None) -> Callable[[str], Resampling]:
        """What gives each step its share of the progress, by its name."""
        with_map = self.map is not None
        asked = {
            "map": with_map,
            "improvement": with_map,
            "measures": True,
            "measures after the map": with_map,
            "diagrams": True,
            "diagrams after the map": with_map,
            "groups": members is not None,
            "groups after the map": members is not None and with_map,
            "gaps": members is not None,
            "gaps after the map": members is not None and with_map,
        }
        names = [name for name, needed in asked.items() if needed]
        return lambda name: replace(self.resampling, told=told.share(names.index(name), len(names), name))

    def seconds(self, batch: Batch, groups: Sequence[str] | None = None) -> float:
        """Estimated seconds of ``run``."""
        name, members = self.check(batch, groups)
        extent = extent_of(batch, name)
        once = sum(request.seconds(extent, self.resampling) for request in self.measures)
        if members is not None:
            once += sum(grouped_seconds(asked, extent, len(members), self.resampling) for asked in self.measures)
        drawn = sum(request.seconds(extent, self.resampling) for request in self.diagrams)
        again = self.training.seconds(batch) if self.training.saw(batch) else 0.0
        return (once + drawn) * (1 if self.map is None else 2) + again

    def _answers(
        self, asked: Subject, resampling: Resampling, in_sample: bool | None = None
    ) -> dict[str, MeasureResult]:
        found = answers(self.measures, asked, resampling)
        return unproven(found) if in_sample else found

    def _with_groups(
        self,
        report: Report,
        asked: Subject,
        applied: Subject | None,
        members: Members,
        step: Callable[[str], Resampling],
    ) -> Report:
        before = self._by_group(asked, members, step("groups"))
        gaps = self._gaps(asked, members, before, step("gaps"))
        if applied is None:
            groups = {name: GroupReport(len(members[name]), found) for name, found in before.items()}
            return replace(report, groups=groups, gaps=gaps)
        after = self._by_group(applied, members, step("groups after the map"), report.in_sample)
        groups = {name: GroupReport(len(members[name]), before[name], after[name]) for name in members}
        gaps_after = self._gaps(applied, members, after, step("gaps after the map"))
        if report.in_sample:
            gaps_after = {key: replace(gap, p_value=None) for key, gap in gaps_after.items()}
        return replace(report, groups=groups, gaps=gaps, gaps_after=gaps_after)

    def _by_group(
        self, asked: Subject, members: Members, resampling: Resampling, in_sample: bool | None = None
    ) -> dict[str, dict[str, MeasureResult]]:
        return {
            name: self._answers(asked.rows(chosen), resampling.step(i, len(members), f"group {i + 1}"), in_sample)
            for i, (name, chosen) in enumerate(members.items())
        }

    def _gaps(
        self,
        asked: Subject,
        members: Members,
        by_group: Mapping[str, Mapping[str, MeasureResult]],
        resampling: Resampling,
    ) -> dict[str, Gap]:
        found = {}
        for i, request in enumerate(self.measures):
            results = {name: answered[request.key] for name, answered in by_group.items()}
            step = resampling.step(i, len(self.measures), request.key)
            found[request.key] = largest_gap(request, asked, members, results, step)
        return found


def calibrated(
    asked: Subject, batch: Batch, name: str, fitted: CalibrationMap, told: Rising = SILENT
) -> tuple[Subject, Event | Vector, Event | Vector]:
    """What is asked of the calibrated predictions; and what scores compare: an event, or the whole vector."""
    p = fitted.apply_checked(batch.predictions, told=told)
    if fitted.of_vector:
        after = replace(batch, predictions=replace(batch.predictions, given=p, scale="probability"))
        return subject(after, name), whole_vector(batch), whole_vector(after)
    event = asked if isinstance(asked, Event) else reduce(batch, name)
    made = replace(event, p=p, logit=None, whole=None)
    return made, event, made


def _members(groups: Sequence[str], n: int) -> Members:
    """The rows of each group, by name. O(n log n)."""
    if isinstance(groups, str) or not isinstance(groups, Sequence | np.ndarray):
        raise WrongShape.at("/groups", "must be an array of names")
    if len(groups) != n:
        raise LengthMismatch.at("/groups", f"has {len(groups)} rows where /predictions has {n}")
    number: dict[str, int] = {}
    member = np.empty(n, dtype=np.int64)
    for i, name in enumerate(groups):
        if not isinstance(name, str) or len(name) > MAX_NAME:
            raise InvalidOption.at(f"/groups/{i}", f"must be a string of at most {MAX_NAME} characters")
        member[i] = number.setdefault(str(name), len(number))
    if len(number) > MAX_GROUPS:
        raise InvalidOption.at("/groups", f"must name at most {MAX_GROUPS} groups")
    order = np.argsort(member, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(member[order])) + 1)
    return dict(sorted(zip(number, parts, strict=True)))


def evaluate(
    predictions: Any,
    labels: Any,
    *,
    measures: Sequence[str | Mapping[str, Any]] | None = None,
    diagrams: Sequence[str | Mapping[str, Any]] | None = None,
    reduction: str | None = None,
    classes: Sequence[int] | None = None,
    weights: Any = None,
    weights_kind: WeightsKind = "frequency",
    groups: Sequence[str] | None = None,
    map: CalibrationMap | None = None,
    interval: float | None = None,
    resamples: int = 1000,
    scale: Scale = "probability",
    seed: int = 0,
) -> Report:
    """Measure how well predictions are calibrated.

    Parameters
    ----------
    predictions : (n,) P(Y=1), or (n, K) by class; probabilities or logits, as ``scale`` says
    labels : (n,) integers, 0 or 1, or 0 to K - 1
    measures : names, or objects of a name, options and ``as``; by default ``ece``,
        ``ece-equal-width``, ``ece-sweep`` and ``ks``
    diagrams : names of ``calibrant.DIAGRAMS``, or objects of a name, options and ``as``; by default none
    reduction : the event: ``binary`` (default for 1-D), ``confidence`` (default for (n, K)), ``class:k``, ``top:r``,
        ``within-top:r``, ``pooled`` (every probability of every row); or ``classwise``, the events of all classes, or
        ``canonical``, the whole vector
    classes : of (n, K), the classes to which predictions are restricted before anything else, logits before their
        softmax; rows of other labels are left out, and ``class:k`` counts within the choice
    weights : (n,), at least 0
    weights_kind : ``frequency``, a weight of 2 is the row twice, or ``importance``, only ratios matter
    groups : (n,) names; the report is then also given for the rows of each, with the largest gap between any two
    map : applied first; the report then holds before and after, and what the scores gain
    interval : level of the intervals, in (0, 1); None for none
    resamples, seed : of the bootstrap behind the intervals, and of the tests, folds and bands that draw

    Returns
    -------
    Report
        ``report.measures[key].value``, ``.debiased`` where defined, ``.interval``, ``.p_value``;
        ``report.diagrams[key]["data"]``

    Raises
    ------
    CalibrationError
        of the first thing wrong with the arguments

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1], measures=["ks"])
    >>> round(report.measures["ks"].value, 3)
    0.25
    """
    resampling = Resampling.read(interval, resamples, seed)
    asked = Evaluation(read_requests(measures), reduction, map, resampling, classes, read_diagrams(diagrams))
    return asked.run(read_batch(predictions, labels, weights, scale=scale, kind=weights_kind), groups)
