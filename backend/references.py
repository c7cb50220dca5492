"""Evaluations, fits and batch scoring of rows in the files of a source; all are jobs, which read the files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
from redis import Redis
from redis.client import Pipeline

from backend.held_map import classifier_of
from backend.jobs import place_for_job, queue
from backend.kinds import Arrays, Work
from backend.kinds.classes import CLASSES, compared_models, map_record, read_operation, record_of_counts
from backend.kinds.sets import SetFitRequest
from backend.requester import Requester
from backend.settings import shared_setting
from backend.store.chores import Chore, schedule
from backend.store.errors import UnknownSource
from backend.store.jobs.runs import Run
from backend.store.keyspace import Shared
from backend.store.server.connection import patiently, transact
from backend.store.store import Store
from backend.telemetry.observed import note_rows, span, traced
from calibrant.calibrators import FitContext, Fitting
from calibrant.core.errors import (
    CalibrationError,
    EngineUnavailable,
    InvalidOption,
    Offence,
    PlacedError,
    SourceTooLarge,
    TargetExists,
    WrongShape,
    token,
)
from calibrant.core.inputs import labels_by_name
from calibrant.core.progress import Progress, reporting, step
from calibrant.distributed.accumulation import GatheredRows
from calibrant.distributed.arrow import Columns, check_order
from calibrant.distributed.scan import Scan, read_conditions
from calibrant.distributed.sources import SourceContent, gather, gather_models
from calibrant.distributed.storage import Storage, storage_of
from calibrant.distributed.target import Scoring
from calibrant.evaluation import report_document
from calibrant.io.errors import InvalidField
from calibrant.io.roots import check_path
from calibrant.kinds.classes import ClassRows, check_arrays
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.evaluation import map_of, report_of
from calibrant.reports.operations import ClassEvaluation
from schemas.base import Document
from schemas.evaluations import CompareOptions, EvaluateOptions, EvaluateSpec
from schemas.jobs import FINAL, JobKind, JobRecord
from schemas.maps import FitOptions, FitSpec, MapRecord
from schemas.sources import (
    DatasetOptions,
    ScoredAnswer,
    ScoringSpec,
    SourceDeclaration,
    SourceFiles,
    SourceRows,
    SourceTarget,
    read_declarations,
)

# --- Sources that an administrator declares: roots below which a tenant's requests name files


class Sources:
    """The sources of a service, as seen by one tenant."""

    def __init__(self, setting: str, tenant: str) -> None:
        self._declared, self._tenant = _declared(setting), tenant

    @classmethod
    def of_environment(cls, tenant: str) -> Sources:
        """The sources of a worker, whose supervisor writes the setting to the environment of its tasks."""
        return cls(shared_setting("sources"), tenant)

    def find(self, name: str, *, write: bool = False, pointer: str = "/source/source") -> SourceDeclaration:
        """Return a source that the tenant may use; raises ``UnknownSource``, also for one of other tenants."""
        source = self._declared.get(name)
        if source is None or (source.tenants is not None and self._tenant not in source.tenants):
            raise UnknownSource("is not a source of this service that the tenant may use", pointer)
        if write and not source.write:
            raise UnknownSource("is a source that may only be read", pointer)
        return source


def opened(source: SourceDeclaration) -> Storage:
    """Open the storage of a source."""
    return storage_of(source.root, endpoint=source.endpoint, region=source.region)


@lru_cache(maxsize=8)
def _declared(setting: str) -> dict[str, SourceDeclaration]:
    return read_declarations(setting)


# --- Evaluations, fits and batch scoring of rows in the files of a source; all are jobs, which read the files

#: The estimate of a job whose rows nobody has counted, in seconds: others pass it in the queue.
ESTIMATED_SECONDS = 60.0
#: Where the columns of a library function are in a request.
_POINTERS = {
    "/prediction": "/source/columns/predictions",
    "/label": "/source/columns/labels",
    "/weight": "/source/columns/weights",
    "/group": "/source/columns/groups",
    "/id": "/source/columns/ids",
    "/timestamp": "/source/columns/timestamps",
    "/where": "/source/where",
    "/path": "/source/path",
    "/format": "/source/format",
}

# --- Requests, which are checked without reading a file


def _check(
    requester: Requester, rows: SourceRows, *, labelled: bool = True, several: bool = False, counts: bool = False
) -> None:
    """Check the files of a request, and which columns are named.

    ``several`` if they are those of models; ``counts`` if counts of the rows, which an engine returns, are enough.
    """
    check_files(requester, rows)
    if rows.engine != "local" and not counts:
        raise InvalidField.at("/source/engine", "must be local: this call needs the rows, not counts of them")
    if labelled and rows.columns.labels is None:
        raise InvalidField.at("/source/columns/labels", "is missing")
    wanted, other = ("models", "predictions") if several else ("predictions", "models")
    if getattr(rows.columns, other) is not None:
        raise InvalidField.at(f"/source/columns/{other}", f"is not used; name {wanted}")
    if getattr(rows.columns, wanted) is None:
        raise InvalidField.at(f"/source/columns/{wanted}", "is missing")
    with in_request():
        if several:
            _models(rows)
        elif labelled:
            check_order(_columns(rows))


def check_files(requester: Requester, rows: SourceFiles) -> None:
    """Check that the tenant may read a source, that a path stays below its root, and the conditions of rows."""
    _sources(requester).find(rows.source)
    check_path(rows.path, "/source/path")
    with in_request():
        read_conditions(rows.where)


def _check_engine(requester: Requester, rows: SourceRows, options: EvaluateOptions | FitOptions) -> None:
    """Check that the service has the engine of a request, and that counts of the rows are enough for its options."""
    if rows.engine == "local":
        return
    if not requester.settings.dask_scheduler:
        raise InvalidField.at("/source/engine", "must be local: the setting dask_scheduler of the service is empty")
    for name in ("classes", "maps"):
        if getattr(options, name, None) is not None:
            raise InvalidField.at(f"/{name}", "cannot be combined with the engine dask, which returns counts of rows")
    if rows.columns.weights is not None and options.weights_kind != "frequency":
        raise InvalidField.at("/weights_kind", "must be frequency with the engine dask, which counts rows")


def _sources(requester: Requester) -> Sources:
    return Sources(requester.settings.sources, requester.store.keys.tenant)


def _models(rows: SourceRows, reduction: str | None = None) -> dict[str, Columns]:
    """Return the columns of each model; raises ``InvalidOption``."""
    models = {}
    for name, columns in (rows.columns.models or {}).items():
        try:
            models[name] = _columns(rows, reduction, columns)
            check_order(models[name])
        except InvalidOption as error:
            raise InvalidOption.at(f"/source/columns/models/{token(name)}", error.offences[0].detail) from None
    return models


def _columns(rows: SourceRows, reduction: str | None = None, predictions: str | list[str] | None = None) -> Columns:
    columns = rows.columns
    return Columns.read(
        prediction=predictions or columns.predictions,
        label=columns.labels or "",
        group=columns.groups,
        weight=columns.weights,
        reduction=reduction,
    )


@contextmanager
def in_request() -> Iterator[None]:
    """Convert the places of errors to those in the request; an error about a row names its file in the detail."""
    try:
        yield
    except CalibrationError as error:
        places = [_place(offence) for offence in error.offences]
        if any(place is None for place in places):
            places = [Offence("/source", error.detail)]
        raise type(error)(error.detail, [place for place in places if place is not None]) from None


def _place(offence: Offence) -> Offence | None:
    for pointer, there in _POINTERS.items():
        if offence.pointer == pointer or offence.pointer.startswith(f"{pointer}/"):
            return Offence(there + offence.pointer.removeprefix(pointer), offence.detail)
    named = offence.pointer.startswith(("/source", "/target", "/reduction", "/options", "/map", "/scale"))
    return offence if named or not offence.pointer else None


def queue_files(requester: Requester, kind: JobKind, spec: Document) -> JobRecord:
    """Queue a job that reads files of a source."""
    with place_for_job(requester) as job_id:
        return queue(requester, kind, job_id, spec.model_dump(), seconds=ESTIMATED_SECONDS)


@traced("work")
def queue_evaluation(requester: Requester, arrays: Arrays, options: EvaluateOptions) -> JobRecord:
    """Queue an evaluation of the rows of a source."""
    source = _alone(options, arrays, ("batch", "batches"))
    _check(requester, source, counts=True)
    _check_engine(requester, source, options)
    request = CLASSES.evaluation(requester, options.model_copy(update={"source": None}), report=False)
    checked, operation = request.options, request.operation

    def check(rows: ClassRows) -> None:
        operation.check_class_names(rows.class_names)
        operation.check(rows.labelled)

    _tried(check, source, checked, [fitted for _, fitted in operation.maps])
    how = {"source": source, "scale": checked.scale, "weights_kind": checked.weights_kind}
    spec = request.spec.model_copy(update={**how, "class_names": checked.class_names})
    return queue_files(requester, "evaluate", spec)


@traced("work")
def queue_comparison(requester: Requester, arrays: Arrays, options: CompareOptions) -> JobRecord:
    """Queue a comparison of models whose predictions are columns of a source."""
    source = _alone(options, arrays, ("batch", "batches"))
    _check(requester, source, several=True)

    def compared(rows: ClassRows) -> Work:
        return CLASSES.comparison(requester, options, dict.fromkeys(source.columns.models or (), rows), report=False)

    how = {name: getattr(options, name) for name in ("scale", "weights_kind", "class_names")}
    spec = _tried(compared, source, options).spec.model_copy(update={"source": source, **how})
    return queue_files(requester, "evaluate", spec)


@traced("work")
def queue_fit(requester: Requester, arrays: Arrays, options: FitOptions) -> JobRecord:
    """Queue a fit to the rows of a source."""
    source = _alone(options, arrays, ("batch",))
    if source.columns.groups is not None:
        raise InvalidField.at("/source/columns/groups", "is not used by fits")
    _check(requester, source, counts=True)
    request = CLASSES.fit(requester, options.model_copy(update={"source": None}))
    if isinstance(request, SetFitRequest):
        raise InvalidOption.at("/method", "gives prediction sets, which need rows or a batch, not a source")
    if request.fitting.method.featured is not None:
        raise InvalidOption.at("/method", "needs features, which the rows of a source do not have")
    _check_engine(requester, source, options)
    _tried(request.check, source, request.options)
    if isinstance(source.columns.predictions, list):
        request.check_shape(requester, len(source.columns.predictions))
    requester.store.charges.check_maps()
    fields = request.options.model_dump(exclude={"prediction_kind", "batch", "keep_batch"})
    spec = FitSpec(**{**fields, "source": source}, batch=None, created_by=requester.who)
    return queue_files(requester, "fit", spec)


@traced("work")
def queue_scoring(requester: Requester, options: DatasetOptions) -> JobRecord:
    """Queue the writing of a data set with calibrated columns."""
    _check(requester, options.source, labelled=False)
    for name in ("labels", "weights", "groups"):
        if getattr(options.source.columns, name) is not None:
            raise InvalidField.at(f"/source/columns/{name}", "is not used by maps; all columns are written")
    target = options.target
    _sources(requester).find(target.source, write=True, pointer="/target/source")
    check_path(target.path, "/target/path", wild=False)
    held = requester.find_map(options.map)
    fitted = held.map
    with in_request():
        check_order(_columns(options.source), fitted.class_names)
    scale = SimpleNamespace(scale=options.scale or fitted.scale)
    _tried(lambda rows: fitted.check(rows.predictions), options.source, scale, [fitted])
    spec = ScoringSpec(map=held.id, source=options.source, target=target, scale=options.scale)
    return queue_files(requester, "score", spec)


# --- Options that depend on the classes, which are tried on example rows before anybody reads the files

_Checked = TypeVar("_Checked")
#: The most classes of example rows.
_MOST_CLASSES = 100_000


def _tried(
    check: Callable[[ClassRows], _Checked], source: SourceRows, options: Any, maps: Sequence[CalibrationMap] = ()
) -> _Checked:
    """Return the answer of ``check`` to example rows of a number of classes that the files may have.

    Raises an error if the options, or the ``maps``, fit none; it has both readings of a column if they differ.
    """
    errors: list[PlacedError] = []
    for n_classes in _numbers_of_classes(source, options, maps):
        try:
            return check(_example(n_classes, options))
        except PlacedError as error:
            errors.append(error)
    first, last = errors[0], errors[-1]
    if first.offences != last.offences:
        places = tuple(dict.fromkeys((*first.offences, *last.offences)))
        first = type(first)(f"{first.detail}; or for a column of lists, {last.detail}", places)
    if any(offence.pointer == "/predictions" for offence in first.offences):
        first = first.about("predictions", "source/columns/predictions")
    raise first


def _numbers_of_classes(source: SourceRows, options: Any, maps: Sequence[CalibrationMap]) -> list[int | None]:
    """Return the numbers of classes that the rows may have, as far as columns and options tell; None is (n,)."""
    columns = source.columns
    named = {f"/models/{token(name)}": of_model for name, of_model in (columns.models or {}).items()}
    widths = {
        where: len(names)
        for where, names in ({"/predictions": columns.predictions} | named).items()
        if isinstance(names, list)
    }
    width = next(iter(widths.values()), None)
    for where, other in widths.items():
        if other != width:
            raise WrongShape.at(f"/source/columns{where}", "must be as many columns as those of the other models")
    if width is not None:
        return [width]
    stated = vars(options)
    class_names = stated.get("class_names")
    if class_names is not None:
        return [None, 2] if len(class_names) == 2 else [len(class_names)]
    numbers = [int(digits) for digits in re.findall(r":([0-9]{1,9})\Z", stated.get("reduction") or "")]
    most = 1 + max([1, *numbers, *(stated.get("classes") or ())])
    numbers = [fitted.n_classes or 2 for fitted in maps] + [most]
    return [None, *(n_classes for n_classes in numbers if n_classes <= _MOST_CLASSES)]


def _example(n_classes: int | None, options: Any) -> ClassRows:
    values = np.full(2, 0.5) if n_classes is None else np.full((2, n_classes), 1.0 / n_classes)
    arrays = {"predictions": values * (100.0 if options.scale == "percent" else 1.0), "labels": np.arange(2)}
    return check_arrays(arrays, scale=options.scale or "probability", class_names=vars(options).get("class_names"))


def _alone(
    options: EvaluateOptions | CompareOptions | FitOptions, arrays: Arrays, others: tuple[str, ...]
) -> SourceRows:
    """Return the source of a request, which has no other rows."""
    if options.source is None:
        raise InvalidField.at("/source", "is missing")
    for name in others:
        if getattr(options, name) is not None:
            raise InvalidField.at("/source", f"cannot be combined with {name}")
    if arrays:
        raise InvalidField.at("/source", "cannot be combined with arrays; send one of the two")
    return options.source


# --- Jobs


def _gathered(run: Run, rows: SourceRows, reduction: str | None, scale: Any, kind: Any) -> SourceContent:
    with span("read"), step(0, 2, "reading"), in_request():
        columns, scale = _columns(rows, reduction), scale or "probability"
        scan = _scan(run, rows, columns)
        if rows.engine == "dask":
            content = _counted_by_dask(run, rows, scan, columns, scale)
        else:
            content = gather(scan, columns, kind=kind or "importance", scale=scale)
        note_rows((content.basis.rows,))
        return content


def _counted_by_dask(run: Run, rows: SourceRows, scan: Scan, columns: Columns, scale: Any) -> SourceContent:
    from calibrant.distributed.cluster import gather_on_cluster  # few workers need it

    scheduler = shared_setting("dask_scheduler")
    if not scheduler:
        raise EngineUnavailable("the setting dask_scheduler of the worker is empty")
    source = Sources.of_environment(run.tenant).find(rows.source)
    root = {"root": source.root, "endpoint": source.endpoint, "region": source.region}
    return gather_on_cluster(scan, root, columns, scheduler=scheduler, scale=scale)


def _scan(run: Run, rows: SourceRows, *several: Columns) -> Scan:
    named = [item for columns in several for item in columns.named.items()]
    return scan_of(run, rows, [name for argument, name in named if argument != "group" and name])


def scan_of(run: Run, rows: SourceFiles, numbers: Sequence[str]) -> Scan:
    """List the files of a job's source; the columns ``numbers`` of CSV are read as numbers."""
    source = Sources.of_environment(run.tenant).find(rows.source)
    path = check_path(rows.path)
    return Scan.of(opened(source), path, format=rows.format, where=rows.where, numbers=numbers)


def evaluate_source(store: Store, run: Run, device: str, progress: Progress) -> dict[str, Any]:
    """Evaluate the rows of a job's source; returns the report."""
    spec = EvaluateSpec.model_validate(run.job.spec)
    if spec.models is not None:
        return _compared(run, spec, device, progress)

    def find(map_id: str) -> MapRecord:
        return patiently(lambda: store.maps.get(map_id))

    operation = read_operation(spec, find)
    if not isinstance(operation, ClassEvaluation) or spec.source is None:
        raise InvalidField.at("/source", "is missing")
    evaluation = operation.evaluation
    fitted = evaluation.map
    reduction = spec.reduction or (fitted.reduction if fitted is not None and not fitted.of_vector else None)
    with reporting(progress):
        content = _gathered(run, spec.source, reduction, spec.scale, spec.weights_kind)
        with span("compute"), step(1, 2):
            basis = {"basis": asdict(content.basis)}
            if isinstance(content.value, GatheredRows):
                rows = CLASSES.check(content.value.arrays, _reading(spec), labelled=True)
                operation.check_class_names(rows.class_names)
                return operation.document(operation.check(rows.labelled, rows.groups), device) | basis
            for name in ("classes", "maps"):
                if getattr(spec, name) is not None:
                    raise SourceTooLarge.at(f"/{name}", "need all rows, and the source has more than fit in memory")
            operation.check_class_names(_class_names(spec, content.value.n_classes))
            report = report_of(content.value, evaluation.measures, evaluation.diagrams, evaluation.resampling, fitted)
            return report_document(report, spec.map) | basis


def _compared(run: Run, spec: EvaluateSpec, device: str, progress: Progress) -> dict[str, Any]:
    """Compare the models of a job's source; returns the report."""
    rows = spec.source
    if rows is None:
        raise InvalidField.at("/source", "is missing")
    with reporting(progress):
        with span("read"), step(0, 2, "reading"), in_request():
            models = _models(rows, spec.reduction)
            how: Any = {"kind": spec.weights_kind or "importance", "scale": spec.scale or "probability"}
            rows_of_models, basis = gather_models(_scan(run, rows, *models.values()), models, **how)
            note_rows((basis.rows,))
        with span("compute"), step(1, 2):
            checked = {
                name: CLASSES.check(own.arrays, _reading(spec), labelled=True) for name, own in rows_of_models.items()
            }
            operation = compared_models(spec, {name: own.labelled for name, own in checked.items()})
            first = next(iter(checked.values()))
            return operation.document(operation.check(first.labelled, first.groups), device) | {"basis": asdict(basis)}


def fit_source(run: Run, device: str, progress: Progress) -> MapRecord:
    """Fit a map to the rows of a job's source; returns its record, with an id derived from that of the job."""
    spec = FitSpec.model_validate(run.job.spec)
    if spec.source is None:
        raise InvalidField.at("/source", "is missing")
    fitting = Fitting.read(spec.method, spec.options, spec.reduction)
    map_id = run.job.id.replace("job_", "map_", 1)
    context = FitContext(spec.seed, device, None)
    with reporting(progress):
        content = _gathered(run, spec.source, spec.reduction, spec.scale, spec.weights_kind)
        with step(1, 2):
            if not isinstance(content.value, GatheredRows):
                _class_names(spec, content.value.n_classes)
                return record_of_counts(map_id, spec, map_of(content.value, fitting, context), len(content.value))
            batch = CLASSES.check(content.value.arrays, _reading(spec), labelled=True).labelled
            fitting.check(batch)
            return map_record(map_id, spec, fitting.run(batch, context), batch)


def _class_names(spec: EvaluateSpec | FitSpec, n_classes: int | None) -> tuple[str, ...] | None:
    """Return the names of the classes of counted rows; raises ``InvalidOption`` if they are not those of the rows."""
    if spec.class_names is None:
        return None
    return labels_by_name(np.empty(0), n_classes or 2, spec.class_names)[1]


def _reading(spec: EvaluateSpec | FitSpec) -> Any:
    """Return how rows are read, as the options of a request."""
    return SimpleNamespace(scale=spec.scale, weights_kind=spec.weights_kind, class_names=spec.class_names)


def run_scoring(store: Store, run: Run, _device: str, progress: Progress) -> None:
    """Write the data set of a job, or continue where an earlier run of it was interrupted; then end the job.

    What is staged is removed if a row is invalid.
    """
    spec = ScoringSpec.model_validate(run.job.spec)
    sources = Sources.of_environment(run.tenant)
    target = sources.find(spec.target.source, write=True, pointer="/target/source")
    path, columns = check_path(spec.target.path, "/target/path", wild=False), _columns(spec.source)
    fitted = classifier_of(patiently(lambda: store.maps.get(spec.map)))
    scoring = Scoring(opened(target), path, run.job.id)
    with _reserved(store, run, target, path), reporting(progress), span("compute"), in_request():
        try:
            scored = scoring.run(_scan(run, spec.source, columns), columns, fitted, scale=spec.scale)
        except CalibrationError:
            _discarded(store, f"{run.tenant}:{run.job.id}", target, path, scoring)
            raise
    answer = ScoredAnswer(target=SourceTarget(source=spec.target.source, path=path), map=spec.map, **asdict(scored))
    patiently(lambda: run.succeed(answer.model_dump()))


@contextmanager
def _reserved(store: Store, run: Run, source: SourceDeclaration, path: str) -> Iterator[None]:
    """Keep other jobs from writing to the same place; raises ``TargetExists`` while one does."""
    key, own = _target_key(source, path), f"{run.tenant}:{run.job.id}"
    target = ScoringSpec.model_validate(run.job.spec).target

    def reserve(pipe: Pipeline) -> bool:
        free = _is_free(store, pipe.get(key), own)
        pipe.multi()
        if free:
            pipe.set(key, own, ex=run.job.timeout + _SPARE_SECONDS)
            pipe.set(store.keys.job_target(run.job.id), target.model_dump_json(), ex=_TARGET_SECONDS)
            schedule(pipe, Chore("discard", run.tenant, run.job.id), _LOOK_SECONDS)
        return free

    if not patiently(lambda: transact(store.redis, reserve, key)):
        raise TargetExists.at("/target/path", "is being written by another job; name a new path")
    yield


def _target_key(source: SourceDeclaration, path: str) -> str:
    place = f"{source.root.rstrip('/')}/{path}"
    return Shared.target(hashlib.sha256(place.encode()).hexdigest())


#: Follows the holder of a target whose rest is being removed, and the longest time that this takes, in seconds.
_DISCARDING, _DISCARD_SECONDS = ":discarding", 660


def _is_free(store: Store, held: Any, own: str) -> bool:
    """Return whether a job may hold a target: nobody else does, or one that has ended and is not being removed."""
    if held is None or held == own.encode():
        return True
    holder = held.decode()
    return not holder.endswith(_DISCARDING) and _has_ended(store, holder)


def _discarded(store: Store, own: str, source: SourceDeclaration, path: str, scoring: Scoring) -> bool:
    """Remove what a job has left of its data set, while nobody else writes to the place; return whether to look again.

    Nothing is removed while another job holds the target, whose files have the same names.
    """
    key, removal = _target_key(source, path), f"{own}{_DISCARDING}"

    def hold(pipe: Pipeline) -> bool:
        free = _is_free(store, pipe.get(key), own)
        pipe.multi()
        if free:
            pipe.set(key, removal, ex=_DISCARD_SECONDS)
        return free

    def release(pipe: Pipeline) -> None:
        held: Any = pipe.get(key)
        pipe.multi()
        if held == removal.encode():
            pipe.delete(key)

    if not patiently(lambda: transact(store.redis, hold, key)):
        return True
    try:
        return scoring.discard()
    finally:
        patiently(lambda: transact(store.redis, release, key))


#: Time between two looks at whether a job that writes a data set has ended, in seconds.
_LOOK_SECONDS = 60.0


def discard(redis: Redis, chore: Chore) -> float | None:
    """Remove what a job has left of its data set, when it has ended otherwise than with success.

    The background task ``discard``. It ends when a look finds nothing left, since a run that was cancelled may write
    until it notices.
    """
    store = Store.of(redis, chore.tenant)
    place: Any = redis.get(store.keys.job_target(chore.id))
    status = store.jobs.status(chore.id)
    if status not in (*FINAL, "forgotten"):
        return _LOOK_SECONDS
    if status != "succeeded" and place is not None and _left(store, chore, SourceTarget.model_validate_json(place)):
        return _LOOK_SECONDS
    redis.delete(store.keys.job_target(chore.id))
    return None


def _left(store: Store, chore: Chore, target: SourceTarget) -> bool:
    """Remove what a job has left at a target; return whether to look again."""
    try:
        source = Sources.of_environment(chore.tenant).find(target.source, write=True)
    except UnknownSource:  # which the administrator has removed since
        return False
    path = check_path(target.path, "/target/path", wild=False)
    return _discarded(store, f"{chore.tenant}:{chore.id}", source, path, Scoring(opened(source), path, chore.id))


#: How long after its time limit a job may still hold a target, for its repetitions, and until when what it has left
#: is removed, also of a job that was deleted.
_SPARE_SECONDS, _TARGET_SECONDS = 3600, 30 * 86400


def _has_ended(store: Store, holder: str) -> bool:
    tenant, _, job_id = holder.rpartition(":")
    status = Store.of(store.redis, tenant).jobs.status(job_id)
    return status in FINAL or status == "forgotten"
