"""Evaluations and full reports of one or several batches of classes, without their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from calibrant.by_size import BySize
from calibrant.core.batch import Batch, counted_kind, refuse_clusters
from calibrant.core.clusters import count_clusters
from calibrant.core.errors import CalibrationError, InvalidOption, TooFewRows, naming
from calibrant.core.groups import Groups
from calibrant.core.inputs import Rows, event_by_name
from calibrant.core.progress import report, step
from calibrant.core.reductions import MANY, Event, check_decided
from calibrant.core.results import plain_json
from calibrant.decisions.costs import Costs
from calibrant.decisions.segments import SegmentOptions, search
from calibrant.decisions.thresholds import ThresholdCriterion, check_criterion, compared_decisions, threshold_of
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.evaluation import CheckedBatch, Evaluation, report_document
from calibrant.maps.calibration_map import CalibrationMap, check_class_names
from calibrant.measures.catalogue import LEVEL, read_requests
from calibrant.measures.cross_fitting import UNKNOWN, training_of
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import plain_results
from calibrant.measures.multicalibration import independent_event
from calibrant.reports.panel import RESAMPLES, by_group, event_diagrams, full, group_diagrams, joined, model_diagrams
from calibrant.sets.evaluation import evaluate_covered
from calibrant.sets.prediction_sets import PredictionSets
from calibrant.sets.rows import CoveredRows, read_sets
from calibrant.sets.set_map import SetMap

if TYPE_CHECKING:
    from calibrant.comparison import CalibrationLaw, Comparison, ComparisonReport

#: Batches one at a time: id, rows, and the groups of the rows.
Batches = Iterable[tuple[str, Batch, Sequence[str] | None]]
#: The maps of an operation, with their pointers.
Maps = tuple[tuple[str, CalibrationMap], ...]


@dataclass(frozen=True)
class ClassOperation:
    """An evaluation without its rows; ``check`` returns the rows that the other methods take."""

    task: Evaluation | Comparison | BySize | Costs

    @property
    def inline(self) -> bool:
        """Whether it needs no long fit."""
        return self.task.inline

    @property
    def maps(self) -> Maps:
        """The maps with their pointers."""
        if isinstance(self.task, Evaluation | BySize):
            return () if self.task.map is None else (("/map", self.task.map),)
        contestants = () if isinstance(self.task, Costs) else self.task.contestants
        return tuple((f"/maps/{i}", contestant.map) for i, contestant in enumerate(contestants))

    @property
    def same_rows(self) -> bool:
        """Whether all batches must have the same rows."""
        return isinstance(self.task, Costs)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes of the first map that has them."""
        return next((fitted.class_names for _, fitted in self.maps if fitted.class_names is not None), None)

    def check_class_names(self, class_names: tuple[str, ...] | None) -> None:
        """Raise ``InvalidOption`` if rows and a map name their classes differently."""
        for pointer, fitted in self.maps:
            check_class_names(fitted, class_names, pointer)

    def check(self, batch: Batch, groups: Sequence[str] | None = None) -> CheckedBatch:  # noqa: ARG002 - for evaluations
        """Return the checked rows; raise what ``document`` would raise, without measuring."""
        return self.task.check(batch)

    def seconds(self, rows: CheckedBatch) -> float:
        """Estimate the seconds of ``document``, or of the part of one batch in ``documents``."""
        return self.task.seconds(rows)

    def document(self, rows: CheckedBatch, device: str = "cpu") -> dict[str, Any]:
        """Return the report of one batch as plain JSON."""
        raise NotImplementedError("requires several batches")

    def documents(self, batches: Batches, number: int, device: str = "cpu") -> dict[str, Any]:
        """Return the report of several batches as plain JSON."""
        raise NotImplementedError("requires one batch")


@dataclass(frozen=True)
class ClassEvaluation(ClassOperation):
    """An evaluation, or a comparison of maps, by group if the rows have groups; ``ids`` are those of the maps.

    A full report shows the coverage of ``sets`` too, the tests of the groups if they are rating ``grades``, and the
    decisions at the threshold that the ``criterion`` determines.
    """

    task: Evaluation | Comparison
    ids: Mapping[str, str] = field(default_factory=dict)
    by_group: bool = True
    sets: SetMap | None = None
    grades: bool = False
    criterion: ThresholdCriterion | None = None

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation, or that of the uncalibrated predictions of a comparison."""
        return self.task if isinstance(self.task, Evaluation) else self.task.evaluation

    def check(self, batch: Batch, groups: Sequence[str] | None = None) -> CheckedBatch:
        """Return the checked rows."""
        if self.sets is not None:
            refuse_clusters(batch, "the coverage of sets")
            with naming({"map": "sets"}):
                self.sets.check(batch.predictions, groups if self.sets.groups is not None else None)
        if self.grades:
            from calibrant.decisions.grades import check_grades

            check_grades(batch, None if groups is None else Groups(groups))
        rows = self.task.check(batch, groups)
        if self.criterion is not None:
            check_decided(self.evaluation.reduction, batch.predictions.n_classes)
            decision_events({"model": batch}, rows.reduction, self.criterion)
        return rows

    def seconds(self, rows: CheckedBatch) -> float:
        """Estimate the seconds of ``document``."""
        return self.task.seconds(rows if self.by_group else rows.without_groups)

    def document(self, rows: CheckedBatch, device: str = "cpu") -> dict[str, Any]:
        """Return the report of one batch."""
        rows = rows if self.by_group else rows.without_groups
        if isinstance(self.task, Evaluation):
            return report_document(self.task.run(rows, device=device), self.ids.get("map"))
        return comparison_document(self.task.run(rows, device=device), self.ids)

    def documents(self, batches: Batches, number: int, device: str = "cpu") -> dict[str, Any]:
        """Return the report of each batch and, for five or more, the power laws."""
        from calibrant.comparison import LEAST_BATCHES, PowerLaws

        laws, reports = PowerLaws(self.task), []
        for i, (batch_id, batch, groups) in enumerate(batches):
            with step(2 * i, 2 * number):
                reports.append({"batch": batch_id, "report": self.document(self.check(batch, groups), device)})
            with step(2 * i + 1, 2 * number):
                laws.add(batch)
        if len(reports) >= LEAST_BATCHES:
            return {"batches": reports, "power_law": law_document(laws.laws()), "problem": None}
        problem = f"a power law needs at least {LEAST_BATCHES} batches"
        return {"batches": reports, "power_law": None, "problem": problem}


@dataclass(frozen=True)
class SizePicture(ClassOperation):
    """Measures of one batch by the number of rows, as a report with one picture."""

    task: BySize

    def document(self, rows: CheckedBatch, device: str = "cpu") -> dict[str, Any]:  # noqa: ARG002 - without fits
        """Return the report of one batch."""
        from calibrant.reports.pictures import by_size_report

        return by_size_report(self.task, rows)


@dataclass(frozen=True)
class CostPicture(ClassOperation):
    """The decision costs of two models on the same rows, as a report with one picture."""

    task: Costs

    def documents(self, batches: Batches, number: int, device: str = "cpu") -> dict[str, Any]:  # noqa: ARG002 - two
        """Return the report of both models."""
        from calibrant.reports.pictures import plane_report

        return plane_report(self.task, ((batch_id, batch) for batch_id, batch, _ in batches))


# --- Results as plain JSON


def comparison_document(compared: ComparisonReport, ids: Mapping[str, str]) -> dict[str, Any]:
    """Convert a comparison to JSON: the report of its first contestant with a field ``comparison``.

    ``ids`` are the ids of the maps by name.
    """
    comparison: dict[str, Any] = {
        "correction": compared.correction,
        "level": compared.level,
        "rank_by": compared.rank_by,
    }
    comparison |= _compared(compared, ids)
    if compared.groups is not None:
        comparison["groups"] = {
            name: {"n": part.report.n, **_compared(part, ids)} for name, part in compared.groups.items()
        }
    return report_document(compared.report, None) | {"comparison": comparison}


def _compared(comparison: ComparisonReport, ids: Mapping[str, str]) -> dict[str, Any]:
    return {
        "contestants": [plain_json(part) | {"map": ids.get(part.name)} for part in comparison.contestants],
        "measures": {key: plain_json(part) for key, part in comparison.measures.items()},
    }


def law_document(laws: Mapping[str, Mapping[str, CalibrationLaw]]) -> dict[str, Any]:
    """Convert power laws, by contestant and measure, to JSON; ``used`` are the indices of batches with both errors."""
    return {
        name: {key: asdict(law.law) | {"of": law.of, "plain": asdict(law.plain)} for key, law in by_key.items()}
        for name, by_key in laws.items()
    }


# --- Full reports

#: Estimated seconds of a recommendation: fixed, per row, and per number (rows times classes).
_ONCE, _ROW, _NUMBER = 0.05, 8e-6, 4e-6
#: Estimated seconds of the decisions of a model: fixed; per row with costs, which recalibrate, or another criterion;
#: per cluster. Processor time of ``decisions_document``, 1, 2 and 4 models of 1e3 to 1e6 rows: from 1e4 rows on, a row
#: of a model took 1.0 to 1.3 and .24 to .38 us. In 1e3 to 1e5 rows in clusters of 1 and 5, a cluster took 9 to 21 us.
_DECIDING, _COSTED, _CUT, _CLUSTER = 3e-3, 1.2e-6, 3e-7, 2e-5
#: Estimated seconds of sets per number, of a search for segments per row and combination of features, and its most.
_SET_NUMBER, _SEARCHED, _MOST_SEARCHED = 5e-8, 1e-6, 20.0


@dataclass(frozen=True)
class ClassReport:
    """A full report: the evaluation of all rows, that of the groups if it is another one, and a recommendation.

    With ``restricted`` classes there is neither a recommendation nor a diagram of each group, which cover all rows.
    Rows with features have their segments, or why there are none, and ``whole`` with ``sets`` has their coverage.
    """

    whole: ClassEvaluation
    of_groups: ClassEvaluation | None = None
    recommends: bool = True
    restricted: bool = False
    seed: int = 0

    @classmethod
    def of(
        cls,
        operation: ClassEvaluation,
        rows: CheckedBatch,
        options: Mapping[str, Any],
        *,
        most: int = 1 << 62,
        recommends: bool = True,
    ) -> ClassReport:
        """Return the report of rows with the ``report_options``, and at most ``most`` resamples for groups.

        All else is as in ``operation``.
        """
        task, evaluation = operation.task, operation.evaluation
        seed, restricted = options["seed"], evaluation.classes is not None
        variance = evaluation.resampling.cluster_variance
        resampling = Resampling.read(options["interval"], options["resamples"], seed, variance)
        requests = read_requests(options["measures"], evaluation.reduction)
        diagrams = () if options["diagrams"] is None else read_diagrams(options["diagrams"])
        # The interval of a report, which may be a default, is that of its groups too.
        chosen = replace(evaluation, measures=requests, diagrams=diagrams, resampling=resampling, of_groups=None)
        whole = chosen if isinstance(task, Evaluation) else replace(task, evaluation=chosen)
        measured = replace(operation, task=whole, by_group=options["by_group"])
        report = cls(measured, None, recommends and not restricted, restricted, seed)
        if options["by_group"] or rows.members is None:
            return report
        weighted, n_classes = rows.batch.weights is not None, n_classes_of(evaluation, rows)
        few = by_group(len(rows), n_classes, rows.reduction, weighted=weighted, seed=seed)
        resampling = Resampling.read(options["interval"], min(most, few["resamples"]), seed, variance)
        requests = read_requests(few["measures"], evaluation.reduction)
        apart = replace(evaluation, measures=requests, diagrams=(), resampling=resampling, of_groups=None)
        return replace(report, of_groups=ClassEvaluation(apart, operation.ids))

    @property
    def inline(self) -> bool:
        """Whether no measure and no diagram needs a long fit."""
        return self.whole.inline and (self.of_groups is None or self.of_groups.inline)

    def seconds(self, rows: CheckedBatch) -> float:
        """Estimate the seconds of ``document``."""
        from calibrant.reports.advice import MOST_NUMBERS, MOST_ROWS

        n, numbers = len(rows), len(rows) * (rows.batch.predictions.n_classes or 1)
        recommendation = _ONCE + _ROW * min(n, MOST_ROWS) + _NUMBER * min(numbers, MOST_NUMBERS)
        apart = 0.0 if self.of_groups is None else self.of_groups.seconds(rows)
        sets = 0.0 if self.whole.sets is None else _SET_NUMBER * numbers
        decisions = _seconds_of_decisions(self.whole.criterion, rows.batch)
        return self.whole.seconds(rows) + apart + recommendation + sets + decisions + self._seconds_of_segments(rows)

    def _seconds_of_segments(self, rows: CheckedBatch) -> float:
        features = rows.batch.predictions.features
        if features is None:
            return 0.0
        combinations: int = len(features.columns) ** _order(len(rows), len(features.columns))
        return _SEARCHED * len(rows) * combinations

    def document(self, rows: CheckedBatch, device: str = "cpu") -> dict[str, Any]:
        """Return all results, the diagrams of the groups and the ``recommendation`` as plain JSON."""
        with step(0, 3):
            sections = self.whole.document(rows, device)
        if self.of_groups is not None:
            with step(1, 3):
                sections = joined(sections, self.of_groups.document(rows, device))
        sections |= self.sections(rows)
        report(1, 1, "done")
        return sections

    def sections(self, rows: CheckedBatch) -> dict[str, Any]:
        """Return the sections beside the evaluations, which need no options of measures."""
        whole, drawn = self.whole, None if self.restricted else group_diagrams(rows)
        sections = {} if drawn is None else {"group_diagrams": drawn}
        if self.recommends:
            from calibrant.reports.advice import recommended_map

            report(2, 3, "recommendation")
            sections["recommendation"] = recommended_map(rows.batch, rows.reduction, seed=self.seed).to_document()
        if whole.sets is not None:
            report(2, 3, "prediction sets")
            sections["sets"] = sets_document(whole.sets, rows, self.seed)
        if whole.grades:
            sections["grades"] = grades_document(rows.batch, rows.names)
        if whole.criterion is not None:
            level, models = whole.evaluation.resampling.level, {"model": rows.batch}
            sections["decisions"] = decisions_document(models, rows.reduction, whole.criterion, level, self.seed)
        if rows.batch.predictions.features is not None:
            report(2, 3, "segments")
            sections |= segments_fields(rows.batch, rows.reduction, seed=self.seed, restricted=self.restricted)
        return sections


def model_sections(
    models: Mapping[str, Batch],
    reduction: str,
    criterion: ThresholdCriterion | None,
    level: float | None,
    seed: int,
) -> dict[str, Any]:
    """Return the sections of a report of models beside their comparison as plain JSON."""
    drawn = model_diagrams(models, reduction)
    sections = {} if drawn is None else {"model_diagrams": drawn}
    if criterion is not None:
        sections["decisions"] = decisions_document(models, reduction, criterion, level, seed)
    return sections


@dataclass(frozen=True)
class ModelReport:
    """A full report of several models: their comparison, the diagrams of each, and its decisions by a ``criterion``."""

    task: Comparison
    criterion: ThresholdCriterion | None = None

    @property
    def inline(self) -> bool:
        """Whether no measure needs a long fit."""
        return self.task.inline

    def check(self, batch: Batch, groups: Sequence[str] | None = None) -> CheckedBatch:
        """Return the checked rows, those of the first model."""
        rows = self.task.check(batch, groups)
        if self.criterion is not None:
            check_decided(self.task.evaluation.reduction, batch.predictions.n_classes)
            decision_events(self.task.models, rows.reduction, self.criterion)
        return rows

    def seconds(self, rows: CheckedBatch) -> float:
        """Estimate the seconds of ``document``."""
        per_model = _ROW * len(rows) + _seconds_of_decisions(self.criterion, rows.batch)
        return self.task.seconds(rows) + per_model * len(self.task.models)

    def document(self, rows: CheckedBatch, device: str = "cpu") -> dict[str, Any]:
        """Return the comparison and the ``model_diagrams`` as plain JSON."""
        comparison = comparison_document(self.task.run(rows, device=device), {})
        resampling = self.task.evaluation.resampling
        comparison |= model_sections(
            self.task.models, rows.reduction, self.criterion, resampling.level, resampling.seed
        )
        return comparison


def report_of_models(
    models: Mapping[str, Rows],
    reduction: str | None = None,
    criterion: ThresholdCriterion | None = None,
    *,
    seed: int = 0,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the full report of several models on the same rows as plain JSON, and its options."""
    from calibrant.comparison import Comparison

    batches, rows = {name: own.batch for name, own in models.items()}, next(iter(models.values()))
    resampling = Resampling.read(LEVEL, RESAMPLES, seed)
    operation = ModelReport(Comparison.of_models(batches, None, reduction, resampling), criterion)
    document = operation.document(operation.check(rows.batch, rows.groups))
    return document, options_of_models(list(models), reduction, criterion, seed=seed)


def options_of_models(
    names: Sequence[str], reduction: str | None, criterion: ThresholdCriterion | None = None, *, seed: int
) -> dict[str, Any]:
    """Return the options of ``POST /compare`` that a report of models has by default, with the names of the models."""
    options = {"models": list(names), "interval": LEVEL, "resamples": RESAMPLES, "seed": seed}
    return {**options, **section_options(reduction, criterion=criterion)}


def section_options(
    reduction: str | None, *, grades: bool = False, criterion: ThresholdCriterion | None = None
) -> dict[str, Any]:
    """Return the options of a request that a report has beside those of its evaluation, without defaults."""
    options = {"reduction": reduction, "grades": grades or None}
    options |= {} if criterion is None else {criterion.name: plain_json(criterion.value)}
    return {name: value for name, value in options.items() if value is not None}


def report_of_rows(
    rows: Rows,
    reduction: str | None = None,
    map: CalibrationMap | None = None,
    *,
    grades: bool = False,
    criterion: ThresholdCriterion | None = None,
    seed: int = 0,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the full report of the rows of a call as plain JSON, and its options."""
    report, checked, options = default_report(
        rows.batch, rows.groups, reduction, map, grades=grades, criterion=criterion, seed=seed
    )
    return report.document(checked), options


def default_report(
    batch: Batch,
    groups: Sequence[str] | None,
    reduction: str | None = None,
    map: CalibrationMap | None = None,
    *,
    grades: bool = False,
    criterion: ThresholdCriterion | None = None,
    seed: int = 0,
) -> tuple[ClassReport, CheckedBatch, dict[str, Any]]:
    """Return the full report of rows, which is not computed yet, the checked rows, and its options."""
    training = UNKNOWN if map is None else training_of(map)
    operation = ClassEvaluation(Evaluation((), reduction, map, training=training), grades=grades, criterion=criterion)
    checked = operation.check(batch, groups)
    options = report_options(len(batch), batch.predictions.n_classes, checked.reduction, {}, seed=seed)
    report = ClassReport.of(operation, checked, options, recommends=map is None)
    options.pop("by_group")
    return report, checked, {**options, **section_options(reduction, grades=grades, criterion=criterion)}


def segments_fields(batch: Batch, reduction: str | None, *, seed: int = 0, restricted: bool = False) -> dict[str, Any]:
    """Return ``segments`` of rows with features, as plain JSON, or ``segments_problem``: why there are none.

    Of several classes, the event is that the decision is correct. ``restricted`` if only some classes are evaluated.
    """
    features = batch.predictions.features
    if features is None:
        raise InvalidOption.at("/features", "are missing")
    if batch.clusters is not None:
        return {"segments_problem": "the search assumes independent rows, and these are in clusters"}
    if restricted:
        return {"segments_problem": "the search covers all classes, and only some are evaluated"}
    one_event = reduction not in MANY and reduction != "pooled"
    event = independent_event(batch, reduction if one_event else None, None)
    order = _order(len(batch), len(features.columns))
    try:
        return {"segments": search(event, features, SegmentOptions(max_order=order, seed=seed)).to_dict()}
    except TooFewRows as error:
        return {"segments_problem": f"the report {error.offences[0].detail}"}


def _order(n: int, n_features: int) -> int:
    """Return the most features of a segment in a report, so that the search takes a few seconds."""
    return 2 if _SEARCHED * n * n_features**2 <= _MOST_SEARCHED else 1


def sets_document(fitted: SetMap, rows: CheckedBatch, seed: int) -> dict[str, Any]:
    """Return the evaluation of the sets of rows as plain JSON; raises ``InvalidOption`` for rows in clusters."""
    batch, names = rows.batch, rows.names
    refuse_clusters(batch, "the coverage of sets")
    by_group = None if fitted.groups is None else names
    sets = fitted.apply_checked(batch.predictions, groups=by_group, seed=seed if fitted.function.is_random else None)
    numbered = PredictionSets(sets.members, tuple(range(sets.members.shape[1])), sets.alpha)
    covered = read_sets(numbered, batch.labels)
    own = CoveredRows(covered.sizes, covered.covered, covered.labels, fitted.class_names, sets.alpha)
    return evaluate_covered(
        own,
        groups=names,
        weights=batch.weights,
        weights_kind=counted_kind(batch.weights_kind),
        in_sample=fitted.is_in_sample(batch),
    ).to_dict()


def grades_document(batch: Batch, groups: Sequence[str] | None) -> dict[str, Any]:
    """Return the tests of the groups as rating grades, whose PDs are the predictions, as plain JSON."""
    from calibrant.decisions.grades import grade_results

    return grade_results(batch, None if groups is None else Groups(groups), None, None).to_dict()


def decision_events(
    models: Mapping[str, Batch], reduction: str | None, criterion: ThresholdCriterion
) -> dict[str, Event]:
    """Return the event of each model on which decisions are made; raises ``InvalidOption`` if it has no threshold."""
    from calibrant.decisions.decision_curve import check_events

    events = {name: event_by_name(batch, reduction, None) for name, batch in models.items()}
    check_events(events)
    for event in events.values():
        check_criterion(event, criterion)
    return events


def _seconds_of_decisions(criterion: ThresholdCriterion | None, batch: Batch) -> float:
    """Estimate the seconds of the decisions of one model."""
    if criterion is None:
        return 0.0
    per_row, clusters = _COSTED if criterion.name == "costs" else _CUT, batch.clusters
    return _DECIDING + per_row * len(batch) + (0.0 if clusters is None else _CLUSTER * count_clusters(clusters))


def decisions_document(
    models: Mapping[str, Batch],
    reduction: str | None,
    criterion: ThresholdCriterion,
    level: float | None,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the decisions of models at the threshold of a criterion, as plain JSON, with decision curves.

    A bound that no threshold of a model reaches is its ``problem``. ``differences`` are those of the cost per row, or
    under a capacity of the recall, of pairs of models on the same rows.
    """
    events, own = decision_events(models, reduction, criterion), LEVEL if level is None else level
    decisions, problems = {}, {}
    for name, event in events.items():
        try:
            decisions[name] = threshold_of(event, criterion, own, seed)
        except CalibrationError as error:  # these rows have no such threshold
            problems[name] = error.offences[0].detail
    compared, differences = compared_decisions(events, decisions, criterion, own)
    return {
        "criterion": criterion.name,
        "value": plain_json(criterion.value),
        "level": own,
        "models": {
            name: {
                "threshold": decisions[name].threshold if name in decisions else None,
                "measures": plain_results(decisions[name].measures) if name in decisions else {},
                "problem": problems.get(name),
            }
            for name in events
        },
        "compared": compared,
        "differences": {
            pair: {"value": float(of.value[0]), "interval": (float(of.low[0]), float(of.high[0]))}
            for pair, of in differences.items()
        },
        "diagrams": event_diagrams(events, ("decision-curve",)),
    }


def n_classes_of(evaluation: Evaluation, rows: CheckedBatch) -> int | None:
    """Return the number of classes that are evaluated."""
    return rows.batch.predictions.n_classes if evaluation.classes is None else len(evaluation.classes)


def report_options(
    n: int, n_classes: int | None, reduction: str, stated: Mapping[str, Any], *, seed: int = 0
) -> dict[str, Any]:
    """Return the options of a full report: those ``given``, and the defaults for missing or None ones.

    Groups use only a few of the default measures, so they are evaluated separately: ``by_group`` is False then.
    """
    panel = full(n, n_classes, reduction, seed=seed)
    names = ("measures", "diagrams", "interval", "resamples", "by_group")
    options = {"by_group": True} | {name: stated.get(name) for name in names if stated.get(name) is not None}
    if "measures" not in options:
        options |= {"measures": panel["measures"], "by_group": False}
    if "interval" not in options:
        options |= {"interval": panel["interval"], "resamples": panel["resamples"]}
    return {"diagrams": panel.get("diagrams"), **options, "seed": seed}
