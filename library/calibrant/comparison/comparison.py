"""Several maps side by side on one batch: measured, ranked, compared in pairs, and the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from calibrant.batch import Batch, Integers
from calibrant.cells import Floats
from calibrant.comparison.pairs import Correction, Pair, Standing, compare_pairs
from calibrant.errors import CalibrationError, InvalidOption, Offence
from calibrant.evaluation import Evaluation, Report, calibrated
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.catalogue import read_requests
from calibrant.measures.cross_fitting import UNKNOWN, Training, improvements_again, unproven
from calibrant.measures.deviations import again_seconds, deviations
from calibrant.measures.improvement import improvements
from calibrant.measures.intervals import PLAIN
from calibrant.measures.measure import MeasureRequest, MeasureResult, answers, extent_of
from calibrant.measures.scores import mean_over_rows
from calibrant.progress import Progress, muted, report, reporting, step
from calibrant.reductions import Classes, Event, Subject, Vector, resolve, subject, whole_vector


def pareto_front(first: Mapping[str, float], second: Mapping[str, float]) -> tuple[str, ...]:
    """The names on the front of two values of which smaller is better, by rising ``first``.

    A contestant is off the front where another is at most as large in both and smaller in one. Contestants of equal
    values stand on it together. Names that only one of the two has are left out. O(m log m).

    Examples
    --------
    >>> error, ece = {"a": 0.2, "b": 0.3, "c": 0.3}, {"a": 0.05, "b": 0.01, "c": 0.02}
    >>> pareto_front(error, ece)
    ('a', 'b')
    """
    order = sorted((first[name], second[name], place, name) for place, name in enumerate(first) if name in second)
    front: list[str] = []
    least: tuple[float, float] | None = None
    for x, y, _, name in order:
        if least is None or y < least[1] or (x, y) == least:
            front.append(name)
            least = x, y
    return tuple(front)


# --- The contestants on one batch: raw predictions, and those after each map

#: The name of the predictions as they came.
RAW = "uncalibrated"
#: At most so many maps are compared.
MAX_MAPS = 20

_ACCURACY, _BRIER = read_requests(["accuracy", "brier"])


@dataclass(frozen=True)
class Contestant:
    """A map with the name that it is compared under, and what is known of its fit."""

    name: str
    map: CalibrationMap
    training: Training = UNKNOWN


@dataclass(frozen=True)
class Entrant:
    """A contestant on one batch: the subject that is measured, the events or whole vectors ``before`` and ``after`` it
    that scores compare, and whether it was fitted to these rows. ``contestant`` is None for the raw predictions.
    """

    name: str
    subject: Subject
    contestant: Contestant | None = None
    before: Event | Vector | None = None
    after: Event | Vector | None = None
    in_sample: bool | None = None


@dataclass(frozen=True)
class Lineup:
    """All entrants by name, the raw one first, on the same rows; ``order`` are the numbers of those of some weight, in
    an order that does not depend on the one they came in: along it their resamples are paired.
    """

    entrants: Mapping[str, Entrant] = field(default_factory=dict)
    order: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def ordered(self, name: str) -> Subject:
        """The subject of an entrant along the order."""
        return self.entrants[name].subject.rows(self.order)


def read_contestants(maps: Mapping[str, CalibrationMap], trained: Mapping[str, Training]) -> tuple[Contestant, ...]:
    """Check the maps of a comparison by name: 1 to 20, none of them called ``uncalibrated``."""
    if not isinstance(maps, Mapping) or not 1 <= len(maps) <= MAX_MAPS:
        raise InvalidOption.at("/maps", f"must be 1 to {MAX_MAPS} calibration maps by name")
    for name, fitted in maps.items():
        if name == RAW:
            raise InvalidOption.at("/maps", f"cannot be called {RAW}: that is the predictions as they came")
        if not isinstance(fitted, CalibrationMap):
            raise InvalidOption.at("/maps", "must be calibration maps")
    return tuple(Contestant(name, fitted, trained.get(name, UNKNOWN)) for name, fitted in maps.items())


def reduction_of(evaluation: Evaluation, contestants: tuple[Contestant, ...], batch: Batch) -> str:
    """The full name of the reduction under which all contestants are measured; raises if one of them does not fit it.

    By default it is that of the first map of one event, else the batch's default. O(1).
    """
    reduction, n_classes = evaluation.reduction, batch.predictions.n_classes
    for contestant in contestants:
        fitted = contestant.map
        if reduction is None and not fitted.of_vector and n_classes in (None, fitted.n_classes):
            reduction = fitted.reduction
    if not contestants:
        return evaluation.check(batch)[0]
    name = resolve(reduction, n_classes)
    for i, contestant in enumerate(contestants):
        try:
            replace(evaluation, map=contestant.map, reduction=name).check(batch)
        except CalibrationError as error:
            raise type(error)(error.detail, [Offence(f"/maps/{i}", error.detail)]) from error
    return name


def line_up(batch: Batch, name: str, contestants: tuple[Contestant, ...]) -> Lineup:
    """Apply every map to the batch, under the reduction ``name``. O(contestants x the map + n log n)."""
    raw = subject(batch, name)
    entrants = {RAW: Entrant(RAW, raw)}
    for i, contestant in enumerate(contestants):
        report(i, len(contestants), contestant.name)
        made, before, after = calibrated(raw, batch, name, contestant.map)
        seen = contestant.training.saw(batch)
        entrants[contestant.name] = Entrant(contestant.name, made, contestant, before, after, seen)
    order = whole_vector(batch).order() if batch.predictions.n_classes or not isinstance(raw, Event) else raw.order()
    if batch.weights is not None:
        order = order[batch.weights[order] > 0.0]
    return Lineup(entrants, order)


def errors_of(of: Subject) -> tuple[float | None, float | None]:
    """The classification error, 1 less the accuracy, and the Brier score."""
    found = answers([_ACCURACY, _BRIER], of, PLAIN)
    accuracy = found["accuracy"].value
    return None if accuracy is None else 1.0 - accuracy, found["brier"].value


def apart(one: Subject, two: Subject, *, mean: bool) -> float:
    """How far the predictions of two entrants on the same rows are apart: on the mean, or at most.

    No gap between mean label and mean prediction differs by more, nor by much more does what noise adds to their size:
    contestants that nearly agree share their bias. O(n K).
    """
    p, q, w = _predicted(one), _predicted(two), (one.vector if isinstance(one, Classes) else one).w
    off = np.abs(p - q).reshape(len(p), -1)
    if not mean:
        return float(off.max(initial=0.0))
    return mean_over_rows(off.mean(axis=1), w)


def _predicted(of: Subject) -> Floats:
    return of.vector.p if isinstance(of, Classes) else of.p


# --- The comparison: measured, ranked, compared in pairs, with Pareto fronts

Of = Literal["value", "debiased"]
_SEEN = "no interval and no p-value: a map was fitted to these rows"
#: Seconds that a row costs a map that is applied.
_APPLIED_ROW = 1e-7


@dataclass(frozen=True)
class ContestantReport:
    """One contestant: its ``measures`` by key, its ``classification_error`` and ``brier`` score, what it gains.

    ``in_sample`` says whether the map was fitted to these rows (None: not known), and then there are no p-values and
    ``improvement`` is cross-fitted; of the raw predictions both are None.
    """

    name: str
    measures: Mapping[str, MeasureResult]
    classification_error: float | None
    brier: float | None
    in_sample: bool | None = None
    improvement: Mapping[str, MeasureResult] | None = None


@dataclass(frozen=True)
class MeasureComparison:
    """All contestants by one measure.

    ``ranking`` from the best on, ``of`` debiased values where every contestant has one; None where neither direction
    is better. ``indistinguishable`` holds the best that was not fitted to these rows and those whose difference from it
    chance explains. ``fronts`` holds, against each error, the contestants than which none is better in one and as
    good in the other, by rising error.
    """

    of: Of
    ranking: tuple[str, ...] | None
    indistinguishable: tuple[str, ...] | None
    pairs: tuple[Pair, ...]
    fronts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True)
class ComparisonReport:
    """What ``compare`` answers: the ``report`` of the predictions as they came, the ``contestants``, that one among
    them, and for each measure how they compare; ``correction`` and ``level`` are of the pairs.
    """

    report: Report
    contestants: tuple[ContestantReport, ...]
    measures: Mapping[str, MeasureComparison]
    correction: Correction
    level: float


@dataclass(frozen=True)
class Comparison:
    """The checked options of ``compare``, without the rows. ``evaluation`` has no map, and a level."""

    evaluation: Evaluation
    contestants: tuple[Contestant, ...]
    correction: Correction = "max-t"

    def __post_init__(self) -> None:
        if self.correction not in get_args(Correction):
            raise InvalidOption.at("/correction", f"must be one of: {', '.join(get_args(Correction))}")

    @property
    def inline(self) -> bool:
        """Whether no measure and no diagram needs a long fit."""
        return self.evaluation.inline

    def check(self, batch: Batch, groups: Sequence[str] | None = None) -> str:
        """The full name of the reduction; raises what ``run`` would, without measuring."""
        name = reduction_of(self.evaluation, self.contestants, batch)
        replace(self.evaluation, reduction=name).check(batch, groups)
        return name

    def seconds(self, batch: Batch, groups: Sequence[str] | None = None) -> float:
        """Estimated seconds of ``run``; without end where a fit that only a worker may do has to be repeated."""
        name = self.check(batch, groups)
        alone = replace(self.evaluation, reduction=name)
        size, resampling = extent_of(batch, name), self.evaluation.resampling
        each = sum(r.seconds(size, resampling) + again_seconds(r, size, resampling) for r in self.evaluation.measures)
        each += _APPLIED_ROW * len(batch) * (batch.predictions.n_classes or 1)
        fits = sum(c.training.seconds(batch) for c in self.contestants if c.training.saw(batch))
        return alone.seconds(batch, groups) + each * (1 + len(self.contestants)) + fits

    def run(
        self,
        batch: Batch,
        groups: Sequence[str] | None = None,
        *,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> ComparisonReport:
        """Compare on a checked batch; ``device`` is that of repeated fits. What ``progress`` raises ends the work."""
        with reporting(progress):
            return self._run(batch, groups, device)

    def _run(self, batch: Batch, groups: Sequence[str] | None, device: str) -> ComparisonReport:
        name, requests = self.check(batch, groups), self.evaluation.measures
        steps = 2 + len(self.contestants) + len(requests)
        with step(0, steps, RAW):
            raw = replace(self.evaluation, reduction=name).run(batch, groups)
        with step(1, steps, "maps"):
            lineup = line_up(batch, name, self.contestants)
        found = []
        for i, entrant in enumerate(lineup.entrants.values(), 1):
            with step(i, steps, entrant.name):
                found.append(self._contestant(entrant, raw, batch, device))
        compared = {}
        for i, request in enumerate(requests, 2 + len(self.contestants)):
            with step(i, steps, f"pairs by {request.key}"):
                compared[request.key] = self._compared(request, lineup, found)
        report(1, 1, "done")
        return ComparisonReport(raw, tuple(found), compared, self.correction, self._level)

    @property
    def _level(self) -> float:
        return self.evaluation.resampling.level or 0.95

    def _contestant(self, entrant: Entrant, raw: Report, batch: Batch, device: str) -> ContestantReport:
        with muted():
            error, brier = errors_of(entrant.subject)
        if entrant.contestant is None or entrant.before is None or entrant.after is None:
            return ContestantReport(entrant.name, raw.measures, error, brier)
        resampling = self.evaluation.resampling
        with step(0, 2, "measures"):
            measures = answers(self.evaluation.measures, entrant.subject, resampling)
        with step(1, 2, "improvement"):
            if entrant.in_sample:
                training = entrant.contestant.training
                gained = improvements_again(entrant.before, batch, training, resampling, device=device)
                return ContestantReport(entrant.name, unproven(measures), error, brier, True, gained)
            gained = improvements(entrant.before, entrant.after, resampling)
        return ContestantReport(entrant.name, measures, error, brier, entrant.in_sample, gained)

    def _compared(
        self, request: MeasureRequest, lineup: Lineup, reports: Sequence[ContestantReport]
    ) -> MeasureComparison:
        of, known = ranked_values([report.measures[request.key] for report in reports])
        values = {report.name: value for report, value in zip(reports, known, strict=True) if value is not None}
        pairs, problem = self._pairs(request, lineup, reports, values, of)
        seen = {report.name for report in reports if report.in_sample}
        ranking, near = None, None
        if request.measure.better != "neither" and values:
            ranking = tuple(sorted(values, key=values.__getitem__, reverse=request.measure.better == "larger"))
            near = indistinguishable([name for name in ranking if name not in seen], pairs, self._level)
        return MeasureComparison(of, ranking, near, pairs, _fronts(request, values, reports), problem)

    def _pairs(
        self,
        request: MeasureRequest,
        lineup: Lineup,
        reports: Sequence[ContestantReport],
        values: Mapping[str, float],
        of: Of,
    ) -> tuple[tuple[Pair, ...], str | None]:
        """Every pair of contestants with values; those fitted to these rows without intervals and p-values."""
        plain = {report.name: report.measures[request.key].value for report in reports}
        seen = {report.name for report in reports if report.in_sample}
        out, resampling = [name for name in values if name not in seen], self.evaluation.resampling
        tested: tuple[Pair, ...] = ()
        problem = None
        try:
            if len(out) > 1:
                rows = {name: lineup.ordered(name) for name in out}
                moved = {}
                for i, name in enumerate(out):
                    with step(i, len(out), name):
                        moved[name] = deviations(
                            request, plain[name] or 0.0, rows[name], resampling, debiased=of == "debiased"
                        )
                standings = [Standing(name, values[name], moved[name].draws, moved[name].bias) for name in out]
                tested = compare_pairs(
                    standings,
                    level=self._level,
                    correction=self.correction,
                    apart=lambda one, two: apart(rows[one], rows[two], mean=moved[one].mean and moved[two].mean),
                )
        except CalibrationError as error:
            problem = f"no intervals and no p-values: {error.detail}"
        done = {pair.between: pair for pair in tested}
        names = list(values)
        both = [(one, two) for i, one in enumerate(names) for two in names[i + 1 :]]
        pairs = tuple(
            done.get(pair)
            or Pair(pair, values[pair[0]] - values[pair[1]], problem=_SEEN if seen.intersection(pair) else problem)
            for pair in both
        )
        return pairs, problem


def ranked_values(results: Sequence[MeasureResult]) -> tuple[Of, list[float | None]]:
    """The values that rank, and which they are: debiased ones where every contestant with a value has one."""
    debiased = all(r.debiased is not None for r in results if r.value is not None)
    of: Of = "debiased" if debiased and any(r.value is not None for r in results) else "value"
    return of, [getattr(result, of) for result in results]


def indistinguishable(ranking: Sequence[str], pairs: Sequence[Pair], level: float) -> tuple[str, ...] | None:
    """The first of the ranking and those whose difference from it chance explains; None where that is not known."""
    if not ranking:
        return None
    best = ranking[0]
    p_values = {frozenset(pair.between): pair.p_value for pair in pairs}
    against = {name: p_values[frozenset((best, name))] for name in ranking[1:]}
    if any(p is None for p in against.values()):
        return None
    return (best, *(name for name, p in against.items() if p is not None and p > 1.0 - level))


def _fronts(
    request: MeasureRequest, values: Mapping[str, float], reports: Sequence[ContestantReport]
) -> dict[str, tuple[str, ...]]:
    """Against each error, those on the front; of measures of which smaller is better and that are no error already."""
    if request.measure.better != "smaller" or request.measure.family == "Proper scores":
        return {}
    errors: dict[str, dict[str, Any]] = {
        "classification-error": {report.name: report.classification_error for report in reports},
        "brier": {report.name: report.brier for report in reports},
    }
    known = {against: {n: e for n, e in found.items() if e is not None} for against, found in errors.items()}
    return {against: pareto_front(found, values) for against, found in known.items()}
