"""Comparison of several maps or models on the same rows: measures, rankings, pairs and Pareto fronts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from calibrant.comparison.pairs import ContestantValue, Correction, Pair, compare_pairs, rank_intervals
from calibrant.comparison.results import ComparisonReport, ContestantReport, MeasureComparison, Of, RankedValues
from calibrant.core.batch import MAX_NAME, Batch, Integers
from calibrant.core.cells import Floats
from calibrant.core.choices import RankingScore as RankingScore
from calibrant.core.errors import CalibrationError, InvalidOption, Offence, WrongShape, token
from calibrant.core.groups import with_weight
from calibrant.core.progress import Progress, muted, report, reporting, step
from calibrant.core.reductions import Classes, Event, Subject, Vector, resolve, subject, whole_vector
from calibrant.core.results import ByName
from calibrant.evaluation import CheckedBatch, Evaluation, Report, Source
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.catalogue import read_requests
from calibrant.measures.cross_fitting import UNKNOWN, Training, calibrated, cross_fitted, unproven
from calibrant.measures.deviations import again_seconds, deviations
from calibrant.measures.improvement import improvements
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import PROPER, MeasureRequest, MeasureResult, answers, extent_of
from calibrant.measures.proper import mean_over_rows


def pareto_front(first: Mapping[str, float], second: Mapping[str, float]) -> tuple[str, ...]:
    """Return the names on the Pareto front of two values of which smaller is better.

    Parameters
    ----------
    first : mapping of str to float
        First value by name.
    second : mapping of str to float
        Second value by name.

    Returns
    -------
    tuple of str
        Names that no other dominates, in ascending order of the first value. Names with equal values are all included.

    See Also
    --------
    calibrant.compare : Computes fronts of each measure against the errors.

    Notes
    -----
    A name is dominated if another is at most as large in both values and smaller in one. Names that are missing in one
    mapping, or whose value is NaN, are left out. O(m log m).

    Examples
    --------
    >>> from calibrant.comparison import pareto_front
    >>> error, ece = {"a": 0.2, "b": 0.3, "c": 0.3}, {"a": 0.05, "b": 0.01, "c": 0.02}
    >>> pareto_front(error, ece)
    ('a', 'b')
    """
    known = [name for name in first if name in second and not np.isnan(first[name]) and not np.isnan(second[name])]
    order = sorted((first[name], second[name], place, name) for place, name in enumerate(known))
    front: list[str] = []
    least: tuple[float, float] | None = None
    for x, y, _, name in order:
        if least is None or y < least[1] or (x, y) == least:
            front.append(name)
            least = x, y
    return tuple(front)


# --- The contestants on one batch: the uncalibrated predictions and those of each map, or the models

#: The name of the uncalibrated predictions.
RAW = "uncalibrated"
#: The most maps, or models, of a comparison.
MAX_MAPS = 20
#: The scores that rank models, the default first.
RANKING_SCORES: tuple[RankingScore, ...] = get_args(RankingScore)
#: The default measures of models for one event, and for whole vectors.
MODEL_MEASURES = (
    ("log-loss", "brier", "auroc", "ece"),
    ("log-loss", "brier", "accuracy", "ks-by-predicted-class"),
)
#: Reductions whose event depends on the model, so that their scores do not rank models.
_OWN_EVENTS = ("confidence", "top", "within-top")

_ACCURACY, _BRIER = read_requests(["accuracy", "brier"])


@dataclass(frozen=True)
class Contestant:
    """A map, its name in the comparison, and how it was fitted."""

    name: str
    map: CalibrationMap
    training: Training = UNKNOWN


@dataclass(frozen=True)
class Entrant:
    """A contestant on one batch; ``contestant`` is None for the uncalibrated predictions and for models.

    ``subject`` is measured; scores compare the events or vectors ``before`` and ``after`` the map.
    """

    name: str
    subject: Subject
    contestant: Contestant | None = None
    before: Event | Vector | None = None
    after: Event | Vector | None = None
    in_sample: bool | None = None


@dataclass(frozen=True)
class Lineup:
    """All entrants by name on the same rows, the uncalibrated one first if there are maps.

    ``order`` holds the numbers of the rows with weight in a canonical order, along which resamples are paired.
    """

    entrants: Mapping[str, Entrant] = field(default_factory=dict)
    order: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def ordered(self, name: str) -> Subject:
        """Return the subject of an entrant in that order."""
        return self.entrants[name].subject.rows(self.order)


#: What to pass in place of the predictions of two models.
_MODELS = 'to compare two models, pass compare({"name": predictions, "other": predictions}, labels)'


def read_contestants(maps: Mapping[str, CalibrationMap], trained: Mapping[str, Training]) -> tuple[Contestant, ...]:
    """Check the maps of a comparison: 1 to 20, none of them named ``uncalibrated``."""
    listed = list(maps.values()) if isinstance(maps, Mapping) else [maps]
    if any(isinstance(fitted_map, str) for fitted_map in listed):
        how = "{name: calibrant.fit(name, predictions, labels)}"
        raise InvalidOption.at("/maps", f"must be calibration maps, not names of methods; pass {how}")
    if not isinstance(maps, Mapping) and not isinstance(maps, Sequence):
        raise InvalidOption.at("/maps", f"must be calibration maps; {_MODELS}")
    if not isinstance(maps, Mapping) or not 1 <= len(maps) <= MAX_MAPS:
        raise InvalidOption.at("/maps", f"must be a mapping of names to 1 to {MAX_MAPS} calibration maps")
    if not all(isinstance(name, str) for name in maps):
        raise InvalidOption.at("/maps", "must have names that are strings: {str(name): map}")
    for name, fitted in maps.items():
        if name == RAW:
            raise InvalidOption.at("/maps", f"cannot have the name {RAW}, which is that of the predictions as given")
        if not isinstance(fitted, CalibrationMap):
            raise InvalidOption.at("/maps", 'must be calibration maps, such as calibrant.fit("platt", ...)')
    return tuple(Contestant(name, fitted, trained.get(name, UNKNOWN)) for name, fitted in maps.items())


def reduction_of(evaluation: Evaluation, contestants: tuple[Contestant, ...], batch: Batch) -> str:
    """Return the full name of the reduction for all contestants; raise if it does not fit one of them.

    The default is the reduction of the first map of one event, or else the default of the batch. O(1).
    """
    reduction, n_classes = evaluation.reduction, batch.predictions.n_classes
    for contestant in contestants:
        fitted = contestant.map
        if reduction is None and not fitted.of_vector and n_classes in (None, fitted.n_classes):
            reduction = fitted.reduction
    if not contestants:
        return evaluation.check(batch).reduction
    name = resolve(reduction, n_classes)
    for i, contestant in enumerate(contestants):
        try:
            replace(evaluation, map=contestant.map, reduction=name).check(batch)
        except CalibrationError as error:
            raise type(error)(error.detail, [Offence(f"/maps/{i}", error.detail)]) from error
    return name


def line_up(
    batch: Batch, name: str, contestants: tuple[Contestant, ...], models: Mapping[str, Batch] = MappingProxyType({})
) -> Lineup:
    """Apply every map to the batch, under the reduction ``name``, or line up the models. O(contestants x the map)."""
    raw = subject(batch, name)
    entrants = {RAW: Entrant(RAW, raw)}
    for i, contestant in enumerate(contestants):
        report(i, len(contestants), contestant.name)
        applied, before, after = calibrated(raw, batch, name, contestant.map)
        in_sample = contestant.training.is_in_sample(batch)
        entrants[contestant.name] = Entrant(contestant.name, applied, contestant, before, after, in_sample)
    if models:
        entrants = {model: Entrant(model, subject(own, name)) for model, own in models.items()}
        order = _common_order(batch, models)
    elif batch.predictions.n_classes or not isinstance(raw, Event):
        order = whole_vector(batch).order()
    else:
        order = raw.order()
    if batch.weights is not None:
        order = order[batch.weights[order] > 0.0]
    return Lineup(entrants, order)


def _common_order(batch: Batch, models: Mapping[str, Batch]) -> Integers:
    """Return row numbers sorted by label, weight and the predictions of all models."""
    predictions = np.column_stack([own.predictions.given.reshape(len(own), -1) for own in models.values()])
    weights = np.zeros(len(batch)) if batch.weights is None else batch.weights
    return np.lexsort([*predictions.T[::-1], weights, batch.labels])


def errors_of(of: Subject) -> tuple[float | None, float | None]:
    """Return the classification error, 1 - accuracy, and the Brier score."""
    results = answers([_ACCURACY, _BRIER], of, PLAIN)
    accuracy = results["accuracy"].value
    return None if accuracy is None else 1.0 - accuracy, results["brier"].value


def apart(first: Subject, two: Subject, *, mean: bool) -> float:
    """Return the mean or the largest absolute difference between the predictions of two entrants.

    It bounds the difference between their calibration gaps, and so approximately between their biases: contestants
    that nearly agree have nearly the same bias. O(n K).
    """
    p, q, w = _predicted(first), _predicted(two), (first.vector if isinstance(first, Classes) else first).w
    off = np.abs(p - q).reshape(len(p), -1)
    if not mean:
        return float(off.max(initial=0.0))
    return mean_over_rows(off.mean(axis=1), w)


def _predicted(of: Subject) -> Floats:
    return of.vector.p if isinstance(of, Classes) else of.p


# --- The comparison: measures, rankings, pairs and Pareto fronts

_IN_SAMPLE = "no interval and no p-value: a map was fitted to these rows"
#: Estimated seconds per row to apply a map, and of a group besides its measures.
_APPLIED_ROW, _GROUP_SECONDS = 1e-7, 0.05


def best_known_score(models: Mapping[str, Batch], reduction: str) -> str | None:
    """Return the score that ranks models: the log loss if it is finite for all, or the Brier score.

    None for a reduction whose event depends on the model: the scores of several models are of different events.
    """
    if reduction.partition(":")[0] in _OWN_EVENTS:
        return None
    return RANKING_SCORES[any(_excludes_outcome(subject(batch, reduction)) for batch in models.values())]


def _excludes_outcome(of: Subject) -> bool:
    """Return whether an outcome that occurred has probability 0: the log loss is infinite before clipping."""
    held = of.vector if isinstance(of, Classes) else of
    if (held.logit if isinstance(held, Event) else held.logits) is not None:
        return False
    if isinstance(held, Event):
        own = np.where(held.y == 1, held.p, 1.0 - held.p)
    else:
        own = held.p[np.arange(len(held)), held.labels]
    return bool((own[slice(None) if held.w is None else held.w > 0.0] <= 0.0).any())


@dataclass(frozen=True)
class Comparison:
    """Checked options of ``compare``, without the rows; ``evaluation`` has a level and no map.

    There are maps, the ``contestants``, or ``models`` with the same labels, of which the first are the rows.
    """

    evaluation: Evaluation
    contestants: tuple[Contestant, ...]
    correction: Correction | None = None
    of: RankedValues = "debiased"
    models: Mapping[str, Batch] = field(default_factory=dict)
    rank_by: str | None = None

    def __post_init__(self) -> None:
        if self.of not in get_args(RankedValues):
            raise InvalidOption.at("/of", f"must be one of: {', '.join(get_args(RankedValues))}")
        if self.correction not in (None, *get_args(Correction)):
            raise InvalidOption.at("/correction", f"must be one of: {', '.join(get_args(Correction))}")
        if self.rank_by not in (None, *RANKING_SCORES):
            raise InvalidOption.at(
                "/rank_by",
                "must be log-loss or brier, proper scores; by a calibration error such as ece, a constant prediction "
                "of the base rate would be best",
            )

    @classmethod
    def of_models(
        cls,
        models: Mapping[str, Batch],
        measures: str | Sequence[str | Mapping[str, Any]] | None,
        reduction: str | None,
        resampling: Resampling,
        correction: Correction | None = None,
        of: RankedValues = "debiased",
        rank_by: str | None = None,
        field: str = "predictions",
    ) -> Comparison:
        """Return the comparison of models whose rows have the same labels; errors are about their ``field``."""
        if not 2 <= len(models) <= MAX_MAPS:
            raise InvalidOption.at(f"/{field}", f"must be those of 2 to {MAX_MAPS} models")
        if not all(isinstance(name, str) and 0 < len(name) <= MAX_NAME for name in models):
            raise InvalidOption.at(f"/{field}", f"must have names that are strings of up to {MAX_NAME} characters")
        shapes = {name: (batch.predictions.n_classes, batch.predictions.scale) for name, batch in models.items()}
        first = next(iter(shapes))
        for name, shape in shapes.items():
            if shape != shapes[first]:
                raise WrongShape.at(f"/{field}/{token(name)}", "must have the shape and scale of the first model")
        reduction = "canonical" if reduction is None and shapes[first][0] is not None else reduction
        requests = read_requests(MODEL_MEASURES[reduction == "canonical"] if measures is None else measures, reduction)
        evaluation = Evaluation(requests, reduction, None, resampling)
        return cls(evaluation, (), correction, of, models, rank_by)

    @property
    def inline(self) -> bool:
        """Whether no measure and no diagram needs a long fit."""
        return self.evaluation.inline

    def check(self, batch: Batch, groups: Sequence[str] | None = None) -> CheckedBatch:
        """Return the checked rows; raise what ``run`` would raise, without measuring."""
        name = reduction_of(self.evaluation, self.contestants, batch)
        if self.rank_by is not None and name.partition(":")[0] in _OWN_EVENTS:
            raise InvalidOption.at("/rank_by", f"needs the same event for all; under {name}, it depends on the model")
        return replace(self.evaluation, reduction=name).check(batch, groups)

    def seconds(self, rows: CheckedBatch) -> float:
        """Estimate the seconds of ``run``; infinite if a fit that must run as a job has to be repeated."""
        batch, name = rows.batch, rows.reduction
        size, resampling = extent_of(batch, name), self.evaluation.resampling
        of_contestant = sum(
            r.seconds(size, resampling) + again_seconds(r, size, resampling) for r in self.evaluation.measures
        )
        of_contestant += _APPLIED_ROW * len(batch) * (batch.predictions.n_classes or 1)
        once = sum(r.seconds(size, replace(resampling, level=None)) for r in self.evaluation.measures)
        fits = sum(c.training.seconds(batch) + once for c in self.contestants if c.training.is_in_sample(batch))
        whole = of_contestant * (1 + len(self.contestants) + len(self.models)) + fits
        parts = 0 if rows.members is None else 1 + len(rows.members)
        first = self.evaluation.seconds(rows.without_groups if self.models else rows)
        return first + whole + (whole + parts * _GROUP_SECONDS if parts else 0.0)

    def run(self, rows: CheckedBatch, *, device: str = "cpu", progress: Progress | None = None) -> ComparisonReport:
        """Compare on checked rows; ``device`` is that of repeated fits. Exceptions of ``progress`` end the work."""
        with reporting(progress):
            if rows.members is None:
                return self._run(rows, device)
            with step(0, 2, "all rows"):
                whole = self._run(rows, device)
            groups, whole_rows, members = {}, rows.without_groups, with_weight(rows.members, rows.batch.weights)
            with step(1, 2, "groups"):
                for i, (name, chosen) in enumerate(members.items()):
                    with step(i, len(members), f"group {i + 1}"):
                        models = {model: own.rows(chosen) for model, own in self.models.items()}
                        part = replace(whole_rows, batch=rows.batch.rows(chosen))
                        groups[name] = replace(self, models=models, rank_by=self.rank_by or whole.rank_by)._run(
                            part, device
                        )
            return replace(whole, groups=ByName("group", groups))

    def _run(self, rows: CheckedBatch, device: str) -> ComparisonReport:
        batch, name, rank_by = rows.batch, rows.reduction, self.rank_by
        if self.models:
            rows, rank_by = rows.without_groups, rank_by or best_known_score(self.models, name)
        requests, keys = self.evaluation.measures, {request.key for request in self.evaluation.measures}
        if rank_by is not None and rank_by not in keys:
            requests = (*requests, *read_requests([rank_by]))
        chosen = replace(self, evaluation=replace(self.evaluation, measures=requests), rank_by=rank_by)
        return chosen._compared_on(rows, batch, name, device)

    def _compared_on(self, rows: CheckedBatch, batch: Batch, name: str, device: str) -> ComparisonReport:
        requests = self.evaluation.measures
        steps = 2 + len(self.contestants) + len(self.models) + len(requests)
        with step(0, steps, RAW):
            raw = self.evaluation.run(rows)
        with step(1, steps, "maps"):
            lineup = line_up(batch, name, self.contestants, self.models)
        reports = []
        for i, entrant in enumerate(lineup.entrants.values(), 1):
            with step(i, steps, entrant.name):
                reports.append(self._contestant(entrant, lineup, raw, batch, device))
        compared = {}
        for i, request in enumerate(requests, steps - len(requests)):
            with step(i, steps, f"pairs by {request.key}"):
                compared[request.key] = self._compared(request, lineup, reports)
        report(1, 1, "done")
        return ComparisonReport(
            raw,
            tuple(reports),
            compared,
            self._correction,
            self._level,
            self.rank_by,
            sources=self._sources(batch, name),
        )

    def _sources(self, batch: Batch, name: str) -> dict[str, Source]:
        """Return the options and rows of each contestant."""
        plain = replace(self.evaluation, reduction=name)
        if self.models:
            return {model: Source(plain, own) for model, own in self.models.items()}
        applied = {c.name: replace(plain, map=c.map, training=c.training) for c in self.contestants}
        return {contestant: Source(how, batch) for contestant, how in ({RAW: plain} | applied).items()}

    @property
    def _correction(self) -> Correction:
        return self.correction or ("holm" if self.models else "max-t")

    @property
    def _level(self) -> float:
        return self.evaluation.resampling.level or 0.95

    def _contestant(self, entrant: Entrant, lineup: Lineup, raw: Report, batch: Batch, device: str) -> ContestantReport:
        resampling, names = self.evaluation.resampling, list(lineup.entrants)
        with muted():
            error, brier = errors_of(entrant.subject)
        if entrant.contestant is None or entrant.before is None or entrant.after is None:
            is_first = entrant.name == names[0]
            own = raw.measures if is_first else answers(self.evaluation.measures, entrant.subject, resampling)
            return ContestantReport(entrant.name, own, error, brier)
        with step(0, 2, "measures"):
            measures = answers(self.evaluation.measures, entrant.subject, resampling)
        with step(1, 2, "improvement"):
            if entrant.in_sample:
                own_map, training = entrant.contestant.map, entrant.contestant.training
                gained, held_out = cross_fitted(batch, raw.reduction, own_map, training, resampling, device)
                again: dict[str, MeasureResult] = {}
                if held_out is not None:
                    again = answers(self.evaluation.measures, held_out, replace(resampling, level=None))
                return ContestantReport(entrant.name, unproven(measures, again), error, brier, True, gained)
            gained = improvements(entrant.before, entrant.after, resampling)
        return ContestantReport(entrant.name, measures, error, brier, entrant.in_sample, gained)

    def _compared(
        self, request: MeasureRequest, lineup: Lineup, reports: Sequence[ContestantReport]
    ) -> MeasureComparison:
        of, known = ranked_values([report.measures[request.key] for report in reports], self.of)
        values = {report.name: value for report, value in zip(reports, known, strict=True) if value is not None}
        pairs, problem = self._pairs(request, lineup, reports, values, of)
        in_sample = {report.name for report in reports if report.in_sample}
        ranking = near = ranks = None
        better, ranks_models = request.measure.better, self.rank_by and request.measure.name in RANKING_SCORES
        if better != "neither" and values and (ranks_models or not self.models):
            held_out = [name for name in values if name not in in_sample]
            ranking = tuple(sorted(held_out, key=values.__getitem__, reverse=better == "larger"))
            near = indistinguishable(ranking, pairs, self._level)
            ranks = rank_intervals(held_out, pairs, better=better)
        return MeasureComparison(of, ranking, near, pairs, _fronts(request, values, reports), problem, ranks)

    def _pairs(
        self,
        request: MeasureRequest,
        lineup: Lineup,
        reports: Sequence[ContestantReport],
        values: Mapping[str, float],
        of: Of,
    ) -> tuple[tuple[Pair, ...], str | None]:
        """Return every pair of contestants with values; in-sample contestants have no intervals and p-values."""
        plain = {report.name: report.measures[request.key].value for report in reports}
        in_sample = {report.name for report in reports if report.in_sample}
        out, resampling = [name for name in values if name not in in_sample], self.evaluation.resampling
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
                standings = [
                    ContestantValue(name, values[name], own.draws, own.bias, own.rows, own.freedom)
                    for name, own in moved.items()
                ]
                tested = compare_pairs(
                    standings,
                    level=self._level,
                    correction=self._correction,
                    apart=lambda first, two: apart(rows[first], rows[two], mean=moved[first].mean and moved[two].mean),
                )
        except CalibrationError as error:
            problem = f"no intervals and no p-values: {error.detail}"
        done = {pair.between: pair for pair in tested}
        names = list(values)
        both = [(first, two) for i, first in enumerate(names) for two in names[i + 1 :]]
        pairs = tuple(
            done.get(pair)
            or Pair(
                pair,
                values[pair[0]] - values[pair[1]],
                problem=_IN_SAMPLE if in_sample.intersection(pair) else problem,
            )
            for pair in both
        )
        return pairs, problem


def ranked_values(results: Sequence[MeasureResult], wanted: RankedValues = "debiased") -> tuple[Of, list[float | None]]:
    """Return which values rank, and the values: debiased ones if wanted and if every contestant has one."""
    debiased = wanted == "debiased" and all(r.debiased is not None for r in results if r.value is not None)
    of: Of = "debiased" if debiased and any(r.value is not None for r in results) else "value"
    return of, [getattr(result, of) for result in results]


def indistinguishable(ranking: Sequence[str], pairs: Sequence[Pair], level: float) -> tuple[str, ...] | None:
    """Return the first of the ranking and those not significantly different from it; None if unknown."""
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
    """Return the Pareto front against each error, for calibration errors of which smaller is better."""
    if request.measure.better != "smaller" or request.measure.family == PROPER:
        return {}
    errors: dict[str, dict[str, Any]] = {
        "classification-error": {report.name: report.classification_error for report in reports},
        "brier": {report.name: report.brier for report in reports},
    }
    known = {against: {n: e for n, e in by_name.items() if e is not None} for against, by_name in errors.items()}
    return {against: pareto_front(by_name, values) for against, by_name in known.items()}
