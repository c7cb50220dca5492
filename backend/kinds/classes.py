"""Predictions of classes: their rows, evaluations, fits and maps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from backend.held_map import HeldMap, classifier_of
from backend.kinds import Arrays, Calibrated, Work, check_kind, record_of
from backend.kinds.sets import (
    SetFitRequest,
    SetsRequest,
    gives_sets,
    refuse_options_of_sets,
    run_set_fit,
    set_record,
    with_rows_of_labels,
)
from backend.requester import Requester, Scorer
from backend.store.errors import NoLabels, UnknownMap
from backend.telemetry.observed import note_rows
from calibrant.calibrators import FitContext, Fitting
from calibrant.calibrators.fitting import with_training
from calibrant.core.batch import Batch, Fractional, clustered
from calibrant.core.cells import WeightsKind
from calibrant.core.errors import CalibrationError, InvalidOption, PredictionKindMismatch, WrongShape
from calibrant.core.groups import Groups
from calibrant.core.inputs import check_named_event, reduction_by_name
from calibrant.core.progress import Progress
from calibrant.decisions.costs import Costs
from calibrant.decisions.thresholds import CRITERIA, ThresholdCriterion, criterion_in
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.diagrams.in_sample import MOST_COUNTED, FitSummary, in_sample
from calibrant.diagrams.in_sample import seconds as seconds_of_summary
from calibrant.evaluation import CheckedBatch, Evaluation
from calibrant.io.errors import InvalidField
from calibrant.kinds.classes import ClassRows, check_arrays
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.maps.segments import Segments
from calibrant.measures.catalogue import LEVEL, level_of, read_requests
from calibrant.measures.cross_fitting import UNKNOWN, Training, sample_in
from calibrant.measures.intervals import Resampling
from calibrant.measures.selective import ABSTENTION, COST_RATIOS
from calibrant.reports.operations import (
    ClassEvaluation,
    ClassOperation,
    ClassReport,
    CostPicture,
    ModelReport,
    SizePicture,
    n_classes_of,
    report_options,
)
from calibrant.sets.label_matrix import in_matrix
from calibrant.sets.set_map import SetMap
from schemas.batches import BatchRecord, RowsOptions
from schemas.distributions import HeldOutGain, PredictionKind
from schemas.evaluations import (
    BySizePicture,
    CompareOptions,
    CostPlanePicture,
    EvaluateDistributionSpec,
    EvaluateOptions,
    EvaluateSpec,
    ThresholdCriteria,
)
from schemas.maps import (
    Bins,
    CalibrateOptions,
    FitBins,
    FitOptions,
    FitSpec,
    ImportOptions,
    InSample,
    MapRecord,
    Registration,
    output_shape,
)

if TYPE_CHECKING:  # scoring needs no store
    from backend.store.batches import BatchStore
    from backend.store.jobs.runs import Run
    from backend.store.store import Store
    from schemas.recommendations import RecommendOptions

    #: Options with a reduction, and with the names of its classes or with batches that have them.
    Reducing = EvaluateOptions | CompareOptions | FitOptions | RecommendOptions

#: Evaluation options that suffice to reproduce a report.
_REPRODUCED = (
    *("batch", "reduction", "classes", "map", "sets", "grades", *CRITERIA, "measures", "diagrams"),
    *("interval", "resamples", "cluster_variance", "seed"),
)
#: Finds the record of a map's id; raises ``UnknownMap``.
FindMap = Callable[[str], MapRecord]

# --- Evaluations


def read_operation(spec: EvaluateSpec, find_map: FindMap) -> ClassOperation:
    """Validate an evaluation and load its maps; raises ``UnknownMap`` and ``CalibrationError``."""
    if spec.picture is not None:
        return _picture(spec.picture, spec.reduction, spec.seed, None if spec.map is None else find_map(spec.map))
    # Comparisons and power laws have intervals too.
    several = bool(spec.maps or spec.batches)
    level = level_of(spec.interval, None if several else spec.measures)
    resampling = Resampling.read(level, spec.resamples, spec.seed, spec.cluster_variance)
    measures = read_requests(spec.measures, spec.reduction)
    diagrams = read_diagrams(spec.diagrams) if spec.diagrams is not None else ()
    record = None if spec.map is None else find_map(spec.map)
    fitted, training = (None, UNKNOWN) if record is None else (classifier_of(record), training_of(record))
    of_groups = None if several else replace(resampling, level=spec.interval)
    evaluation = Evaluation(measures, spec.reduction, fitted, resampling, spec.classes, diagrams, training, of_groups)
    sets = None if spec.sets is None else _sets_of(find_map(spec.sets))
    if spec.maps is None:
        ids = {} if record is None else {"map": record.id}
        return ClassEvaluation(evaluation, ids, spec.by_group, sets, spec.grades, criterion_of(spec))
    from calibrant.comparison import Comparison, read_contestants

    records = {contestant.name: find_map(contestant.map) for contestant in spec.maps}
    loaded = {name: classifier_of(map_record) for name, map_record in records.items()}
    contestants = read_contestants(loaded, {name: training_of(map_record) for name, map_record in records.items()})
    comparison = Comparison(evaluation, contestants, spec.correction, spec.of, rank_by=spec.rank_by)
    return ClassEvaluation(comparison, {name: record.id for name, record in records.items()}, spec.by_group, sets)


def _sets_of(record: MapRecord) -> SetMap:
    """Load a stored map to prediction sets; raises ``PredictionKindMismatch``."""
    loaded = HeldMap.of(record).loaded
    if not isinstance(loaded, SetMap):
        raise PredictionKindMismatch.at("/sets", "must be a map to prediction sets")
    return loaded


def compared_models(spec: EvaluateSpec, models: Mapping[str, Batch]) -> ClassEvaluation | ModelReport:
    """Return the comparison or report of models, whose batches are those of the spec; raises ``CalibrationError``."""
    from calibrant.comparison import Comparison

    resampling = Resampling.read(level_of(spec.interval, None), spec.resamples, spec.seed, spec.cluster_variance)
    arguments = (spec.measures, spec.reduction, resampling, spec.correction, spec.of, spec.rank_by)
    field = "models" if spec.batches is None else "batches"
    comparison = Comparison.of_models(models, *arguments, field=field)
    return ModelReport(comparison, criterion_of(spec)) if spec.report else ClassEvaluation(comparison)


def _picture(
    picture: BySizePicture | CostPlanePicture, reduction: str | None, seed: int, record: MapRecord | None
) -> ClassOperation:
    """The operation of a picture; raises ``UnknownMeasure`` and ``InvalidOption``."""
    from calibrant.reports.pictures import read_by_size

    if isinstance(picture, BySizePicture):
        fitted, training = (None, UNKNOWN) if record is None else (classifier_of(record), training_of(record))
        return SizePicture(read_by_size(picture.model_dump(), reduction, seed, fitted, training))
    rates = ABSTENTION if picture.abstention is None else picture.abstention
    return CostPicture(Costs(rates, COST_RATIOS if picture.cost_ratios is None else picture.cost_ratios, reduction))


def training_of(record: MapRecord) -> Training:
    """How a stored map was fitted, according to its record; imported maps cannot be fitted again."""
    if record.seed is None:
        return Training(record.digest, None)
    try:
        fitting = Fitting.read(record.method, record.options, record.reduction)
        return Training(record.digest, fitting, record.seed, sample_in(record.document.get("diagnostics")))
    except CalibrationError:
        return Training(record.digest, None, record.seed)


@dataclass(frozen=True)
class EvaluationRequest:
    """A checked evaluation or full report of a request."""

    spec: EvaluateSpec
    operation: ClassOperation
    options: EvaluateOptions
    report: bool = False

    def on(self, _requester: Requester, rows: ClassRows) -> Work:
        """Check the rows, and return the work on them; a full report is completed for them."""
        operation, spec = self.operation, self.spec
        operation.check_class_names(rows.class_names)
        checked = operation.check(rows.labelled, rows.groups)
        if not self.report or not isinstance(operation, ClassEvaluation):
            run = partial(operation.document, checked)
            return Work(spec, rows, operation.seconds(checked), len(rows), rows.numbers, run, operation.inline)
        whole, spec = full_report(operation, checked, spec)
        run = partial(whole.document, checked)
        return Work(spec, rows, whole.seconds(checked), len(rows), rows.numbers, run, whole.inline)


def full_report(operation: ClassEvaluation, rows: CheckedBatch, spec: EvaluateSpec) -> tuple[ClassReport, EvaluateSpec]:
    """The full report of checked rows, and its completed spec."""
    n_classes = n_classes_of(operation.evaluation, rows)
    options = report_options(len(rows), n_classes, rows.reduction, spec.model_dump(), seed=spec.seed)
    report = ClassReport.of(operation, rows, options, most=options["resamples"])
    return report, spec.model_copy(update={**options, "report": True})


def of_batches(
    operation: ClassOperation, store: Store, spec: EvaluateSpec, device: str
) -> Callable[[], dict[str, Any]]:
    """Return the evaluation of stored batches, which are loaded one at a time."""
    ids: Sequence[str] = spec.batches or []
    parts: Sequence[int | None] = spec.parts_of or [None] * len(ids)
    batches = ((i, *stored_rows(store, i, known)) for i, known in zip(ids, parts, strict=True))
    return partial(operation.documents, batches, len(ids), device)


def stored_rows(store: Store, batch_id: str, parts: int | None) -> tuple[Batch, Groups | None]:
    """Read and check the rows of a stored batch, and their groups; retries while the store is unavailable.

    ``parts`` limits them to the first parts, because rows appended after a job was queued do not belong to the job.
    """
    from backend.store.server.connection import patiently

    rows = _labelled(*patiently(lambda: store.batches.arrays(batch_id, parts)))
    return rows.labelled, rows.groups


def _check_sections(options: EvaluateOptions, *, report: bool) -> None:
    """Raise ``InvalidField`` for a section that only reports have, or that these options exclude."""
    if options.sets is not None and not report:
        raise InvalidField.at("/sets", "is for reports requested as HTML; POST /coverage evaluates sets")
    if options.grades and not report:
        raise InvalidField.at("/grades", "is for reports requested as HTML; POST /grades tests grades")
    criterion = check_criterion(options, report=report)
    for name in (*([] if options.sets is None else ["sets"]), *([] if criterion is None else [criterion.name])):
        if options.classes is not None:
            raise InvalidField.at(f"/{name}", "cannot be combined with classes: the section has all classes")
    if options.map is not None or options.maps is not None:
        if options.grades:
            raise InvalidField.at("/grades", "are tested with the PDs of the rows; leave out map and maps")
        if criterion is not None:
            raise InvalidField.at(f"/{criterion.name}", "is for decisions by these predictions; leave out map and maps")


def criterion_of(options: ThresholdCriteria) -> ThresholdCriterion | None:
    """Return the criterion of a threshold, if there is one; raises ``InvalidOption`` for several."""
    return criterion_in({name: getattr(options, name) for name in CRITERIA})


def check_criterion(options: EvaluateOptions | CompareOptions, *, report: bool) -> ThresholdCriterion | None:
    """Return the criterion of a threshold; raise ``InvalidField`` for one that is not requested as a report."""
    criterion = criterion_of(options)
    if criterion is not None and not report:
        raise InvalidField.at(
            f"/{criterion.name}", "is for reports requested as HTML; POST /decisions judges decisions"
        )
    return criterion


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


def implied_reduction(requester: Requester, options: Reducing, batch_ids: Sequence[str]) -> str | None:
    """Return the requested reduction, or else the one that the uploaded files of stored batches imply.

    The class of a reduction may be named, as in the request or else as in the batches. Raises ``InvalidOption`` if
    these have other names or imply different reductions, and ``UnknownBatch``.
    """
    names: Sequence[str] | None = options.class_names
    if options.reduction is not None or not batch_ids:
        if batch_ids and is_of_named_class(options.reduction):
            names = _shared_names(requester, options, batch_ids)
        return reduction_by_number(options.reduction, names, getattr(options, "classes", None))
    implied = {requester.store.uploads.get(batch_id).reduction for batch_id in batch_ids}
    if len(implied) > 1:
        names = sorted(name or "none" for name in implied)
        raise InvalidOption.at("/reduction", f"must be sent, as the files of the batches imply {' and '.join(names)}")
    return implied.pop()


def _shared_names(requester: Requester, options: Reducing, batch_ids: Sequence[str]) -> Sequence[str] | None:
    """Return the names of the classes of a request or of its batches; raises ``InvalidOption`` if these differ."""
    if options.class_names is not None:
        return options.class_names
    pointers = ["/batch"] if options.batch is not None else [f"/batches/{i}" for i in range(len(batch_ids))]
    records = [requester.store.batches.record(*place) for place in zip(batch_ids, pointers, strict=True)]
    if any(record.class_names != records[0].class_names for record in records):
        raise InvalidOption.at("/reduction", "names a class, but the batches do not have the same names in one order")
    return records[0].class_names


def is_of_named_class(reduction: str | None) -> bool:
    """Return whether a reduction has the name of a class and not its number."""
    return reduction is not None and re.fullmatch(r"class:(?![0-9]+\Z).*", reduction, re.DOTALL) is not None


def reduction_by_number(reduction: str | None, names: Sequence[str] | None, classes: Any = None) -> str | None:
    """Return ``class:k`` for ``class:NAME``, where k is the place among the chosen ``classes``; others as they are.

    Digits are always the number of a class, as in answers, also if a class has such a name.
    """
    if names is None or not is_of_named_class(reduction):
        return reduction
    return reduction_by_name(reduction, tuple(names), classes)


# --- Fits


@dataclass(frozen=True)
class FitRequest:
    """A checked fit of a request."""

    options: FitOptions
    fitting: Fitting

    def check(self, rows: ClassRows) -> None:
        """Raise what depends on the classes of the rows, not on their number or values."""
        n_classes = rows.predictions.n_classes
        check_named_event(self.fitting.reduction, rows.class_names, n_classes)
        self.fitting.resolve(n_classes)

    def check_shape(self, requester: Requester, n_classes: int | None) -> None:
        """Raise ``OutputShapeChanged`` if the newest map of the name returns probabilities of another shape."""
        options = self.options
        if options.name is not None and not options.allow_shape_change:
            requester.store.maps.check_shape(options.name, output_shape(self.fitting.resolve(n_classes), n_classes))

    def on(self, requester: Requester, rows: ClassRows) -> Work:
        """Check the rows, and return the work on them, whose result is the record of the map."""
        options, fitting = self.options, self.fitting
        batch = rows.labelled
        n_classes = batch.predictions.n_classes
        self.check(rows)
        fitting.check(batch)
        self.check_shape(requester, n_classes)
        requester.store.charges.check_maps()
        excluded = {"prediction_kind", "batch", "keep_batch", "scale", "weights_kind", "source"}
        fields = options.model_dump(exclude=excluded)
        fields["class_names"] = None if rows.class_names is None else list(rows.class_names)
        spec = FitSpec(**fields, batch="", created_by=requester.who)
        seconds = fitting.seconds(batch) + seconds_of_summary(len(batch), n_classes)

        def run() -> MapRecord:
            fitted = fitting.run(batch, FitContext(options.seed, "cpu", None))
            return map_record(requester.new_id("map"), spec, fitted, batch)

        gpu = fitting.method.on_device and seconds >= requester.settings.gpu_seconds
        inline = fitting.method.runs == "inline"
        return Work(spec, rows, seconds, len(rows), rows.numbers, run, inline, fitting.parts(batch), gpu)


# --- Calibrated predictions


@dataclass(frozen=True)
class CalibrationRequest:
    """A checked application of a map."""

    held: HeldMap
    options: CalibrateOptions

    def on(self, _requester: Scorer, rows: ClassRows) -> Calibrated:
        """Apply the map."""
        refuse_options_of_sets(self.options, rows)
        fitted = self.held.map
        arrays = {"predictions": fitted.apply_checked(rows.predictions)}
        if self.options.bounds:
            arrays["p0"], arrays["p1"] = fitted.bounds_checked(rows.predictions)
        if rows.predictions.features is None or fitted.method != Segments.family:
            return Calibrated(self.held.named, arrays)
        counted = fitted.fallbacks_checked(rows.predictions.features)
        return Calibrated({**self.held.named, "fallbacks": counted["rows"]}, arrays)


# --- Records of maps


def map_record(map_id: str, spec: FitSpec, fitted: CalibrationMap, batch: Batch) -> MapRecord:
    """The record of a map fitted to ``batch`` according to ``spec``."""
    seen = in_sample(batch, fitted)
    names = None if spec.class_names is None else tuple(spec.class_names)
    trained = with_training(fitted, batch, spec.options, spec.seed, names)
    gain = trained.diagnostics.get("held_out_gain")
    return record_of(
        map_id,
        trained,
        spec,
        **_of_classes(fitted, spec.class_names),
        options=spec.options,
        n=seen.n,
        seed=spec.seed,
        created_by=spec.created_by,
        digest=seen.digest,
        label_rate=seen.label_rate,
        in_sample=InSample(before=seen.before.scores, after=seen.after.scores),
        label_counts=None if seen.label_counts is None else list(seen.label_counts),
        bins=FitBins(of=seen.binned, before=_bins(seen.before), after=_bins(seen.after)),
        held_out_gain=None if gain is None else _gain(gain),
        warning=trained.warning,
    )


def record_of_counts(map_id: str, spec: FitSpec, fitted: CalibrationMap, n: int) -> MapRecord:
    """The record of a map fitted to counts of ``n`` rows, without a summary of the fit to each row."""
    own = _of_classes(fitted, spec.class_names)
    of_fit = {"options": spec.options, "n": n, "seed": spec.seed, "created_by": spec.created_by}
    return record_of(map_id, fitted, spec, **own, **of_fit, warning=fitted.warning)


def _of_classes(fitted: CalibrationMap, class_names: Sequence[str] | None) -> dict[str, Any]:
    names = None if class_names is None else list(class_names)
    return {
        "reduction": fitted.reduction,
        "scale": fitted.scale,
        "n_classes": fitted.n_classes,
        "class_names": names,
    }


def _gain(diagnostics: Mapping[str, Any]) -> HeldOutGain:
    """The cross-fitted gain in the diagnostics of a map of a classifier."""
    return HeldOutGain(
        score="log-loss",
        gain=diagnostics["log_loss"],
        standard_error=diagnostics["standard_error"],
        folds=diagnostics.get("folds"),
        rows=diagnostics.get("rows"),
    )


def record_without_fit(
    map_id: str,
    fitted: CalibrationMap,
    registration: Registration,
    *,
    who: str | None = None,
    imported: bool = False,
) -> MapRecord:
    """The record of a map that was imported or derived from another, without a summary of a fit to rows."""
    own = _of_classes(fitted, fitted.class_names)
    return record_of(map_id, fitted, registration, **own, created_by=who, imported=imported)


def _bins(fit: FitSummary) -> Bins:
    bins = fit.bins
    return Bins(
        start=bins.start.tolist(),
        count=list(fit.counts),
        rows=bins.rows.tolist(),
        share=(bins.mass / bins.mass.sum()).tolist(),
        mean_prediction=bins.mean_p.tolist(),
        observed_frequency=bins.mean_y.tolist(),
    )


# --- Rows


def stored_kind(record: BatchRecord, arrays: Mapping[str, Any]) -> WeightsKind | Fractional:
    """Return the kind of stored weights; earlier versions stored frequencies that are not whole numbers."""
    w = arrays.get("weights")
    if record.weights_kind == "importance" or w is None or bool((w == np.floor(w)).all()):
        return record.weights_kind
    return Fractional.STORED


def read_stored_batch(batches: BatchStore, batch_id: str, *, where: str = "/batch") -> Batch:
    """Read and validate the rows of a stored batch for a monitor, without clusters; errors are at ``where``."""
    batch = _labelled(*batches.arrays(batch_id), where).labelled
    if batch.clusters is not None:
        raise InvalidOption.at(where, "has clusters, which monitors do not support")
    return batch


def _labelled(record: BatchRecord, arrays: Arrays, where: str = "/batch") -> ClassRows:
    check_kind(record, "classification", where)
    if "labels" not in arrays:
        raise NoLabels("the batch was stored without labels", where)
    return CLASSES.check_stored(record, arrays, labelled=True)


class ClassPredictions:
    """Predictions of classes."""

    name: PredictionKind = "classification"
    applied: tuple[str, ...] = ("predictions", "groups", "features")
    spec: type[EvaluateSpec | EvaluateDistributionSpec] = EvaluateSpec
    shared: tuple[str, ...] = ("scale", "weights_kind")

    def check(self, arrays: Arrays, options: Any, *, class_names: list[str] | None = None, labelled: bool) -> ClassRows:
        """Check the arrays of a request; ``class_names`` are those of the batch to which they are appended."""
        if "predictions" in arrays:
            note_rows(arrays["predictions"].shape)
        values, n_labels = vars(options), 1
        places: AbstractContextManager[None] = nullcontext()
        if isinstance(options, FitOptions):
            arrays, n_labels = with_rows_of_labels(arrays, options)
            places = in_matrix(n_labels)
        with places:
            rows = check_arrays(
                arrays,
                scale=values.get("scale") or "probability",
                weights_kind=values.get("weights_kind") or "importance",
                class_names=values.get("class_names") or class_names,
                labelled=labelled,
            )
        return replace(rows, n_labels=n_labels)

    def check_stored(self, record: BatchRecord, arrays: Arrays, options: Any = None, *, labelled: bool) -> ClassRows:
        """Check the arrays of a stored batch; ``options`` may name the classes differently."""
        note_rows(arrays["predictions"].shape)
        named = None if options is None else vars(options).get("class_names")
        return check_arrays(
            arrays,
            scale=record.scale or "probability",
            weights_kind=stored_kind(record, arrays),
            class_names=named or record.class_names,
            labelled=labelled,
        )

    def check_appended(self, record: BatchRecord, arrays: Arrays, options: RowsOptions) -> ClassRows:
        """Check arrays that are appended to a batch."""
        of_batch = options.model_copy(update={"scale": record.scale, "weights_kind": record.weights_kind})
        return self.check(arrays, of_batch, class_names=record.class_names, labelled=False)

    def check_same(self, record: BatchRecord, rows: ClassRows) -> None:
        """Raise ``WrongShape`` unless the predictions are of as many classes as those of the batch."""
        if rows.predictions.n_classes != record.n_classes:
            shape = "(n,)" if record.n_classes is None else f"(n, {record.n_classes})"
            raise WrongShape.at("/predictions", f"must be {shape}, like those of the batch")

    def stored(self, rows: ClassRows) -> dict[str, Any]:
        """The arrays that store checked rows."""
        return rows.stored()

    def described(self, rows: ClassRows) -> dict[str, Any]:
        """The fields of the record of a batch that depend on the kind."""
        n_classes, counts = rows.predictions.n_classes, None
        if rows.labels is not None and (n_classes or 2) <= MOST_COUNTED:
            counts = np.bincount(rows.labels, minlength=n_classes or 2).tolist()
        return {
            "n_classes": n_classes,
            "scale": rows.predictions.scale,
            "class_names": None if rows.class_names is None else list(rows.class_names),
            "label_counts": counts,
            "positive_rate": counts[1] / len(rows) if counts is not None and n_classes is None else None,
            "clipped": rows.predictions.clipped,
            "renormalised": rows.predictions.renormalised,
        }

    def n_numbers(self, record: BatchRecord) -> int:
        """How many numbers a stored batch has."""
        return record.n * ((record.n_classes or 1) + len(record.arrays) - 1)

    def evaluation(self, requester: Requester, options: EvaluateOptions, *, report: bool) -> EvaluationRequest:
        """Check the options of an evaluation, or of a full report."""
        if report and options.batches is not None:
            raise InvalidField.at("/batches", "are not supported in HTML reports; request a report of one batch")
        if options.map is not None and options.maps is not None:
            raise InvalidField.at("/maps", "cannot be combined with map; send one of the two")
        _check_sections(options, report=report)
        stored = options.batches or ([] if options.batch is None else [options.batch])
        options = options.model_copy(update={"reduction": implied_reduction(requester, options, stored)})
        read: dict[str, MapRecord] = {}

        def find(ref: str, pointer: str = "/map") -> str:
            try:
                record = requester.store.maps.get(ref)
            except UnknownMap as error:
                raise UnknownMap(error.detail, pointer) from error
            read[record.id] = record
            return record.id

        excluded = {"prediction_kind", "keep_batch", "scale", "weights_kind", "class_names", "source"}
        fields = options.model_dump(exclude=excluded)
        for name in ("map", "sets"):
            if fields[name] is not None:
                fields[name] = find(fields[name], f"/{name}")
        if options.maps is not None:
            fields["maps"] = [_contestant(find, options.maps, i) for i in range(len(options.maps))]
        if not stored:
            known = next((record.class_names for record in read.values() if record.class_names is not None), None)
            fields["reduction"] = reduction_by_number(options.reduction, known, options.classes)
        spec = EvaluateSpec.model_validate(fields)
        operation = read_operation(spec, read.__getitem__)
        if options.batch is None and options.batches is None:
            maps = [fitted for _, fitted in operation.maps]
            names = None if operation.class_names is None else list(operation.class_names)
            scale = options.scale or (maps[0].scale if maps else None)
            options = options.model_copy(update={"class_names": options.class_names or names, "scale": scale})
        return EvaluationRequest(spec, operation, options, report)

    def run_evaluation(self, store: Store, spec: dict[str, Any], device: str) -> Callable[[], dict[str, Any]]:
        """Read the rows and maps of an evaluation job; the returned function evaluates them."""
        from backend.store.server.connection import patiently

        def find(map_id: str) -> MapRecord:
            return patiently(lambda: store.maps.get(map_id))

        checked = EvaluateSpec.model_validate(spec)
        if checked.models is not None:
            parts = checked.parts_of or []
            stored = [stored_rows(store, *pair) for pair in zip(checked.batches or [], parts, strict=True)]
            batches = {name: batch for name, (batch, _) in zip(checked.models, stored, strict=True)}
            compared = compared_models(checked, batches)
            return partial(compared.document, compared.check(*stored[0]), device)
        if checked.batches is not None:
            return of_batches(read_operation(checked, find), store, checked, device)
        operation = read_operation(checked, find)
        rows = operation.check(*stored_rows(store, checked.batch or "", checked.parts))
        if checked.report and isinstance(operation, ClassEvaluation):
            return partial(full_report(operation, rows, checked)[0].document, rows, device)
        return partial(operation.document, rows, device)

    def comparison(
        self, requester: Requester, options: CompareOptions, rows: Mapping[str, ClassRows], *, report: bool
    ) -> Work:
        """Check a comparison or report of models, and return the work on their rows."""
        names = next(iter(rows.values())).class_names
        options = options.model_copy(update={"class_names": names})
        reduction = implied_reduction(requester, options, list((options.batches or {}).values()))
        unused = {"prediction_kind", "keep_batch", "scale", "weights_kind", "class_names", "maps", "source"}
        fields = options.model_dump(exclude=unused) | {"reduction": reduction, "models": list(rows)}
        fields["batches"] = None if options.batches is None else list(options.batches.values())
        spec = EvaluateSpec.model_validate({**fields, "map": None, "report": report})
        operation = compared_models(spec, {name: own.labelled for name, own in rows.items()})
        first = next(iter(rows.values()))
        checked = operation.check(first.labelled, first.groups)
        numbers = sum(own.numbers for own in rows.values())
        run = partial(operation.document, checked)
        return Work(spec, None, operation.seconds(checked), len(first), numbers, run, operation.inline)

    def fit(self, requester: Requester, options: FitOptions) -> FitRequest | SetFitRequest:
        """Check the options of a fit."""
        if gives_sets(options.method):
            return SetFitRequest.read(options)
        reduction = implied_reduction(requester, options, [] if options.batch is None else [options.batch])
        options = options.model_copy(update={"reduction": reduction})
        return FitRequest(options, Fitting.read(options.method, options.options, reduction, where="/options"))

    def run_fit(self, store: Store, run: Run, device: str, progress: Progress) -> MapRecord | None:
        """Run a fit job, or one part of it, for which it returns None."""
        from backend.store.server.connection import patiently

        job, spec = run.job, FitSpec.model_validate(run.job.spec)
        batch, groups = stored_rows(store, spec.batch or "", spec.parts)
        if gives_sets(spec.method):
            return run_set_fit(run, spec, batch, groups, progress)
        batch = clustered(batch, groups or ()) if spec.group_folds else batch
        fitting = Fitting.read(spec.method, spec.options, spec.reduction)
        context = FitContext(spec.seed, device, progress)
        if job.part is not None and not job.is_join:
            part = fitting.part(batch, job.part, job.parts, context)
            patiently(lambda: run.succeed(part))
            return None
        if job.parent is None:
            fitted = fitting.run(batch, context)
        else:
            fitted = fitting.join(batch, patiently(run.results), progress)
        return map_record((job.parent or job.id).replace("job_", "map_", 1), spec, fitted, batch)

    def report_options(self, spec: EvaluateSpec, _report: object, _batch: object) -> dict[str, Any]:
        """The options that reproduce a full report."""
        options = {name: getattr(spec, name) for name in _REPRODUCED}
        options["grades"] = spec.grades or None
        options["maps"] = None if spec.maps is None else [contestant.name for contestant in spec.maps]
        if spec.models is not None:
            stored = spec.batches is not None
            sent = {"batches": dict(zip(spec.models, spec.batches or [], strict=True))} if stored else {}
            options = {**(sent or {"models": spec.models}), **options, "interval": spec.interval or LEVEL}
            options |= {"rank_by": spec.rank_by, "correction": spec.correction}
            options["of"] = None if spec.of == "debiased" else spec.of
        return {name: value for name, value in options.items() if value is not None}

    def calibration(self, held: HeldMap, options: CalibrateOptions) -> CalibrationRequest | SetsRequest:
        """Check the options of applying a map."""
        fitted = held.loaded if isinstance(held.loaded, SetMap) else held.map
        if options.batch is None and options.scale is None and fitted.scale != "probability":
            options = options.model_copy(update={"scale": fitted.scale})
        if not isinstance(fitted, SetMap):
            return CalibrationRequest(held, options)
        return SetsRequest(held, fitted if options.alpha is None else fitted.at(options.alpha), options)

    def imported(
        self, map_id: str, options: ImportOptions, fitted: CalibrationMap | SetMap, who: str | None
    ) -> MapRecord:
        """The record of a map that ``who`` imports."""
        if isinstance(fitted, SetMap):
            return set_record(map_id, fitted, options, created_by=who, imported=True)
        return record_without_fit(map_id, fitted, options, who=who, imported=True)


CLASSES = ClassPredictions()
KIND = CLASSES
