"""Evaluations of one or several batches, and full reports: directly or as a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from backend.batches import (
    Arrays,
    LabelledRows,
    check_labelled,
    find_rows,
    implied_reduction,
    store_labelled,
)
from backend.held_maps import classifier_of
from backend.jobs import place_for_job, queue, run_inline
from backend.reports import apart, make, seconds_to_recommend, whole
from backend.requester import Requester
from backend.store.batches import read_stored_batch
from backend.store.errors import UnknownMap
from backend.store.jobs.runs import Run
from backend.store.server.connection import patiently
from backend.store.store import Store
from backend.telemetry.observed import span, traced
from calibrant.calibrators import Fitting
from calibrant.core.batch import Batch, Scale, counted_kind
from calibrant.core.cells import WeightsKind
from calibrant.core.errors import CalibrationError
from calibrant.core.progress import Progress, reporting, step
from calibrant.decisions.costs import Costs, SharedRows
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.evaluation import Evaluation, Groups
from calibrant.io.errors import InvalidField
from calibrant.maps.calibration_map import CalibrationMap, check_class_names, load
from calibrant.measures.catalogue import read_requests
from calibrant.measures.cross_fitting import UNKNOWN, Training, sample_in
from calibrant.measures.intervals import Resampling
from calibrant.measures.selective import ABSTENTION, COST_RATIOS
from calibrant.reports.document import comparison_document, law_document, report_document
from schemas.evaluate import (
    BySizePicture,
    CostPlanePicture,
    EvaluateDistributionOptions,
    EvaluateOptions,
    EvaluateSpec,
)
from schemas.jobs import JobRecord
from schemas.maps import MapRecord

if TYPE_CHECKING:
    from calibrant.comparison import Comparison

#: Default confidence level of comparisons and power laws.
LEVEL = 0.95

Names = Sequence[str] | None
#: Batches one at a time: id, rows, and the groups of the rows.
Batches = Iterable[tuple[str, Batch, Names]]
#: Finds the record of a map's id; raises ``UnknownMap``.
FindMap = Callable[[str], MapRecord]

# --- The kinds of evaluations, with a common interface


def _is_of_several(_batch: Batch, _groups: Names, _device: str) -> dict[str, Any]:
    raise TypeError("requires several batches")


def _is_of_one(_batches: Batches, _number: int, _device: str) -> dict[str, Any]:
    raise TypeError("requires one batch")


@dataclass(frozen=True)
class Task:
    """A validated evaluation without its rows; ``inline`` is False if it needs a long fit.

    ``reduction`` returns the full name of the reduction, and ``seconds`` the estimated time of ``one``; both raise the
    errors of ``one`` without computing anything. ``one`` returns the report of one batch as plain JSON, ``several`` the
    report of several batches, which are loaded one at a time. ``scale`` and ``class_names`` are the defaults of arrays.
    ``maps`` are those of the evaluation, with their pointers. With ``same_rows`` all batches must have the same rows.
    """

    inline: bool
    reduction: Callable[[Batch], str]
    seconds: Callable[[Batch, Names], float]
    one: Callable[[Batch, Names, str], dict[str, Any]] = _is_of_several
    several: Callable[[Batches, int, str], dict[str, Any]] = _is_of_one
    scale: Scale | None = None
    maps: tuple[tuple[str, CalibrationMap], ...] = ()
    same_rows: bool = False

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes of the first map that has them."""
        return next((fitted.class_names for _, fitted in self.maps if fitted.class_names is not None), None)

    def check_class_names(self, class_names: tuple[str, ...] | None) -> None:
        """Raise ``InvalidOption`` if rows and a map name their classes differently."""
        for pointer, fitted in self.maps:
            check_class_names(fitted, class_names, pointer)


def _evaluation(evaluation: Evaluation, map_id: str | None, *, by_group: bool) -> Task:
    def one(batch: Batch, groups: Names, device: str) -> dict[str, Any]:
        return report_document(evaluation.run(batch, groups if by_group else None, device=device), map_id)

    return Task(
        evaluation.inline,
        lambda batch: evaluation.check(batch)[0],
        lambda batch, groups: evaluation.seconds(batch, groups if by_group else None),
        one,
        partial(_with_laws, evaluation, one),
        scale=None if evaluation.map is None else evaluation.map.scale,
        maps=() if evaluation.map is None else (("/map", evaluation.map),),
    )


def _comparison(comparison: Comparison, ids: dict[str, str], *, by_group: bool) -> Task:
    def one(batch: Batch, groups: Names, device: str) -> dict[str, Any]:
        return comparison_document(comparison.run(batch, groups if by_group else None, device=device), ids)

    return Task(
        comparison.inline,
        comparison.check,
        lambda batch, groups: comparison.seconds(batch, groups if by_group else None),
        one,
        partial(_with_laws, comparison, one),
        scale=comparison.contestants[0].map.scale,
        maps=tuple((f"/maps/{i}", one.map) for i, one in enumerate(comparison.contestants)),
    )


def _picture(
    picture: BySizePicture | CostPlanePicture, reduction: str | None, seed: int, record: MapRecord | None
) -> Task:
    """The task of a picture; raises ``UnknownMeasure`` and ``InvalidOption``."""
    from calibrant.reports.pictures import by_size_report, plane_report, read_by_size

    if isinstance(picture, BySizePicture):
        fitted, training = (None, UNKNOWN) if record is None else (load(record.document), training_of(record))
        by_size = read_by_size(picture.model_dump(), reduction, seed, fitted, training)
        return Task(
            by_size.inline,
            by_size.check,
            lambda batch, _groups: by_size.seconds(batch),
            lambda batch, _groups, _device: by_size_report(by_size, batch),
            scale=None if fitted is None else fitted.scale,
            maps=() if fitted is None else (("/map", fitted),),
        )
    rates = ABSTENTION if picture.abstention is None else picture.abstention
    costs = Costs(rates, COST_RATIOS if picture.cost_ratios is None else picture.cost_ratios, reduction)
    return Task(
        costs.inline,
        costs.check,
        lambda batch, _groups: costs.seconds(batch),
        several=lambda batches, _number, _device: plane_report(costs, ((i, batch) for i, batch, _ in batches)),
        same_rows=True,
    )


def _with_laws(
    task: Evaluation | Comparison,
    one: Callable[[Batch, Names, str], dict[str, Any]],
    batches: Batches,
    number: int,
    device: str,
) -> dict[str, Any]:
    """The report of each batch and, for five or more, the power laws."""
    from calibrant.comparison import LEAST_BATCHES, PowerLaws

    laws, reports = PowerLaws(task), []
    for i, (batch_id, batch, groups) in enumerate(batches):
        with step(2 * i, 2 * number):
            reports.append({"batch": batch_id, "report": one(batch, groups, device)})
        with step(2 * i + 1, 2 * number):
            laws.add(batch)
    if len(reports) >= LEAST_BATCHES:
        return {"batches": reports, "power_law": law_document(laws.laws()), "problem": None}
    problem = f"a power law needs at least {LEAST_BATCHES} batches"
    return {"batches": reports, "power_law": None, "problem": problem}


def read_task(spec: EvaluateSpec, find_map: FindMap) -> Task:
    """Validate an evaluation and load its maps; raises ``UnknownMap`` and ``CalibrationError``."""
    if spec.picture is not None:
        return _picture(spec.picture, spec.reduction, spec.seed, None if spec.map is None else find_map(spec.map))
    level = LEVEL if spec.interval is None and (spec.maps or spec.batches) else spec.interval
    resampling = Resampling.read(level, spec.resamples, spec.seed)
    measures = read_requests(spec.measures, spec.reduction)
    diagrams = read_diagrams(spec.diagrams) if spec.diagrams is not None else ()
    record = None if spec.map is None else find_map(spec.map)
    fitted, training = (None, UNKNOWN) if record is None else (classifier_of(record), training_of(record))
    evaluation = Evaluation(measures, spec.reduction, fitted, resampling, spec.classes, diagrams, training)
    if spec.maps is None:
        return _evaluation(evaluation, None if record is None else record.id, by_group=spec.by_group)
    from calibrant.comparison import Comparison, read_contestants

    records = {contestant.name: find_map(contestant.map) for contestant in spec.maps}
    loaded = {name: classifier_of(found) for name, found in records.items()}
    contestants = read_contestants(loaded, {name: training_of(found) for name, found in records.items()})
    comparison = Comparison(evaluation, contestants, spec.correction, spec.of)
    return _comparison(comparison, {name: found.id for name, found in records.items()}, by_group=spec.by_group)


def training_of(record: MapRecord) -> Training:
    """How a stored map was fitted, according to its record; imported maps cannot be fitted again."""
    if record.seed is None:
        return Training(record.digest, None)
    try:
        fitting = Fitting.read(record.method, record.options, record.reduction)
        return Training(record.digest, fitting, record.seed, sample_in(record.document.get("diagnostics")))
    except CalibrationError:
        return Training(record.digest, None, record.seed)


def whole_report(
    spec: EvaluateSpec,
    batch: Batch,
    groups: Names,
    find_map: FindMap,
    device: str = "cpu",
) -> dict[str, Any]:
    """A full report as plain JSON: the evaluations of ``spec``, the groups and a recommendation."""

    def evaluate(spec: EvaluateSpec, groups: Names) -> dict[str, Any]:
        return read_task(spec, find_map).one(batch, groups, device)

    return make(spec, batch, groups, evaluate)


# --- For a request: evaluated directly or as a job


class WholeReport(NamedTuple):
    """A full report and its spec; ``weights_kind`` is None for rows without weights."""

    report: dict[str, Any]
    spec: EvaluateSpec
    scale: Scale
    weights_kind: WeightsKind | None
    class_names: tuple[str, ...] | None = None


@traced("work")
def evaluate_or_queue(
    requester: Requester, arrays: Arrays, options: EvaluateOptions | EvaluateDistributionOptions
) -> dict[str, Any] | JobRecord:
    """Evaluate rows directly, or queue a job if it needs a long fit or more than an estimated 2 s."""
    if isinstance(options, EvaluateDistributionOptions):
        from backend import distributions

        return distributions.evaluate_or_queue(requester, arrays, options)
    spec, find_map = _read_spec(requester, options)
    task = read_task(spec, find_map)
    if spec.batches is not None:
        return _evaluate_several(requester, arrays, options, spec, task)
    rows = _rows(requester, arrays, options, task)
    seconds = task.seconds(rows.batch, rows.groups)
    if task.inline:
        work = partial(task.one, rows.batch, rows.groups, "cpu")
        report = run_inline(requester, seconds, len(rows.batch), _numbers(rows), work)
        if report is not None:
            return report
    return _queue(requester, spec, rows, seconds)


@traced("work")
def report_or_queue(requester: Requester, arrays: Arrays, options: EvaluateOptions) -> WholeReport | JobRecord:
    """Create a full report of one batch directly, or queue a job."""
    if options.batches is not None:
        raise InvalidField.at("/batches", "are not supported in HTML reports; request a report of one batch")
    spec, find_map = _read_spec(requester, options)
    task = read_task(spec, find_map)
    rows = _rows(requester, arrays, options, task)
    batch, groups, source = rows
    reduction = task.reduction(batch)
    n_classes = batch.predictions.n_classes if spec.classes is None else len(spec.classes)
    spec = whole(spec, len(batch), n_classes, reduction)
    weighted = batch.weights is not None
    by_group = None if groups is None else apart(spec, len(batch), n_classes, reduction, weighted=weighted)
    tasks = [read_task(each, find_map) for each in (spec, by_group) if each is not None]
    seconds = sum(each.seconds(batch, groups) for each in tasks) + seconds_to_recommend(batch)
    report = None
    if all(each.inline for each in tasks):
        work = partial(whole_report, spec, batch, groups, find_map)
        report = run_inline(requester, seconds, len(batch), _numbers(rows), work)
    if report is None:
        return _queue(requester, spec, rows, seconds)
    weights_kind = counted_kind(source.weights_kind) if "weights" in source.arrays else None
    return WholeReport(report, spec, source.scale, weights_kind, source.class_names)


def _rows(requester: Requester, arrays: Arrays, options: EvaluateOptions, task: Task) -> LabelledRows:
    if task.class_names is not None and options.class_names is None and options.batch is None:
        options = options.model_copy(update={"class_names": list(task.class_names)})
    rows = find_rows(requester, arrays, options)
    task.check_class_names(rows.class_names)
    if options.batch is None and options.scale is None and task.scale is not None:
        rows = rows._replace(scale=task.scale)
    return check_labelled(rows)


def _numbers(rows: LabelledRows) -> int:
    return sum(array.size for array in rows.source.arrays.values())


def _queue(requester: Requester, spec: EvaluateSpec, rows: LabelledRows, seconds: float) -> JobRecord:
    with place_for_job(requester) as job_id:
        batch_id = spec.batch or store_labelled(requester, rows).id
        spec = spec.model_copy(update={"batch": batch_id})
        return queue(requester, "evaluate", job_id, spec.model_dump(), seconds=seconds)


def _evaluate_several(
    requester: Requester, arrays: Arrays, options: EvaluateOptions, spec: EvaluateSpec, task: Task
) -> dict[str, Any] | JobRecord:
    """``evaluate_or_queue`` for stored batches, which are loaded one at a time."""
    ids, store = spec.batches or [], requester.store
    if arrays or options.batch is not None:
        raise InvalidField.at("/batches", "cannot be combined with arrays or batch; send one of the three")
    if len(set(ids)) < len(ids):
        raise InvalidField.at("/batches", "must be distinct")
    seconds, most_rows, most_numbers = 0.0, 0, 0  # one batch is evaluated after the other
    first: SharedRows | None = None
    parts = [store.batches.record(batch_id).parts for batch_id in ids]
    for i, batch_id in enumerate(ids):
        found = find_rows(requester, {}, options.model_copy(update={"batch": batch_id}))
        task.check_class_names(found.class_names)
        rows = check_labelled(found)
        most_rows, most_numbers = max(most_rows, len(rows.batch)), max(most_numbers, _numbers(rows))
        seconds += 2.0 * task.seconds(rows.batch, rows.groups)  # once for the report, once for the law
        if task.same_rows:
            own = SharedRows.of(rows.batch)
            if first is not None:
                own.match(first, f"/batches/{i}")
            first = first or own
    if task.inline:
        stored = ((i, *read_stored_batch(store.batches, i)) for i in ids)
        work = partial(task.several, stored, len(ids), "cpu")
        report = run_inline(requester, seconds, most_rows, most_numbers, work)
        if report is not None:
            return report
    with place_for_job(requester) as job_id:
        spec = spec.model_copy(update={"parts_of": parts})
        return queue(requester, "evaluate", job_id, spec.model_dump(), seconds=seconds)


def _read_spec(requester: Requester, options: EvaluateOptions) -> tuple[EvaluateSpec, FindMap]:
    """The spec of an evaluation with map ids, and a lookup of the maps that were read for it."""
    if options.map is not None and options.maps is not None:
        raise InvalidField.at("/maps", "cannot be combined with map; send one of the two")
    stored = options.batches or ([] if options.batch is None else [options.batch])
    options = options.model_copy(update={"reduction": implied_reduction(requester, options.reduction, stored)})
    read: dict[str, MapRecord] = {}

    def find(ref: str) -> str:
        record = requester.store.maps.get(ref)
        read[record.id] = record
        return record.id

    given = options.model_dump(exclude={"prediction_kind", "scale", "weights_kind", "class_names"})
    if options.map is not None:
        given["map"] = find(options.map)
    if options.maps is not None:
        given["maps"] = [_contestant(find, options.maps, i) for i in range(len(options.maps))]
    return EvaluateSpec.model_validate(given), read.__getitem__


def _contestant(find: Callable[[str], str], refs: list[str], i: int) -> dict[str, str]:
    from calibrant.comparison import RAW

    if refs[i] == RAW:
        raise InvalidField.at(f"/maps/{i}", f"{RAW} is reserved for the uncalibrated predictions; use the map's id")
    if refs[i] in refs[:i]:
        raise InvalidField.at(f"/maps/{i}", "repeats an earlier map")
    try:
        return {"name": refs[i], "map": find(refs[i])}
    except UnknownMap as error:
        raise UnknownMap(error.detail, f"/maps/{i}") from error


# --- For a job


def run_evaluation(store: Store, run: Run, device: str, progress: Progress) -> None:
    """Run an evaluation job; its result is the report. Retries while the store is unavailable."""
    if run.job.spec.get("prediction_kind") == "regression":
        from backend import distributions

        distributions.run_evaluation(store, run, progress)
        return
    spec = EvaluateSpec.model_validate(run.job.spec)

    def find_map(map_id: str) -> MapRecord:
        return patiently(lambda: store.maps.get(map_id))

    def read(batch_id: str, parts: int | None) -> tuple[Batch, Names]:
        batch, groups = patiently(lambda: read_stored_batch(store.batches, batch_id, parts))
        return batch, None if groups is None else Groups(groups)

    def each() -> Iterator[tuple[str, Batch, Names]]:
        ids = spec.batches or []
        known: Sequence[int | None] = spec.parts_of or [None] * len(ids)
        for batch_id, parts in zip(ids, known, strict=True):
            yield (batch_id, *read(batch_id, parts))

    task = read_task(spec, find_map)
    with span("compute"), reporting(progress):
        if spec.batches is not None:
            report = task.several(each(), len(spec.batches), device)
        else:
            batch, groups = read(spec.batch or "", spec.parts)
            report = (
                whole_report(spec, batch, groups, find_map, device) if spec.report else task.one(batch, groups, device)
            )
    patiently(lambda: run.succeed({"report": report}))
