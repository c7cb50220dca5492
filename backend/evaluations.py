"""Evaluations of one or several batches, and full reports: directly or as a job."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple, cast

from backend.batches import UNQUEUED_SECONDS, find_rows, record_of, rows_of_models, store_rows
from backend.jobs import place_for_job, queue, queue_work, run_inline
from backend.kinds import Arrays, Rows, Work, kind_of
from backend.kinds.classes import CLASSES, EvaluationRequest, check_criterion, of_batches
from backend.requester import Requester
from backend.store.errors import UnknownBatch
from backend.store.jobs.runs import Run
from backend.store.server.connection import patiently
from backend.store.store import Store
from backend.telemetry.observed import span, traced
from calibrant.core.errors import WrongShape, token
from calibrant.core.progress import Progress, reporting
from calibrant.decisions.costs import SharedRows
from calibrant.io.errors import InvalidField
from calibrant.io.strict import CLASSIFICATION
from schemas.batches import BatchRecord
from schemas.evaluations import (
    CompareOptions,
    EvaluateDistributionOptions,
    EvaluateDistributionSpec,
    EvaluateOptions,
    EvaluateSpec,
    RankedMaps,
)
from schemas.jobs import JobRecord

#: The options of an evaluation, or of a comparison.
ReportOptions = EvaluateOptions | EvaluateDistributionOptions | CompareOptions


class WholeReport(NamedTuple):
    """A full report, its spec, and the record of its rows, which need not be stored; None if their batch is gone."""

    report: dict[str, Any]
    spec: EvaluateSpec | EvaluateDistributionSpec
    batch: BatchRecord | None


@traced("work")
def evaluate_or_queue(requester: Requester, arrays: Arrays, options: ReportOptions) -> dict[str, Any] | JobRecord:
    """Evaluate rows, or compare models or maps on the same rows.

    This is done directly, or by a job if it needs a long fit or more than an estimated 2 s.
    """
    evaluated = _evaluate(requester, arrays, options, report=False)
    return evaluated if isinstance(evaluated, JobRecord) else evaluated[0]


@traced("work")
def report_or_queue(requester: Requester, arrays: Arrays, options: ReportOptions) -> WholeReport | JobRecord:
    """Create a full report of one batch, of models or of maps on the same rows directly, or queue a job."""
    evaluated = _evaluate(requester, arrays, options, report=True)
    if isinstance(evaluated, JobRecord):
        return evaluated
    kind, (report, work, rows) = kind_of(options.prediction_kind), evaluated
    return WholeReport(report, work.spec, record_of(options.batch or "", kind, rows, kind.stored(rows)))


def _evaluate(
    requester: Requester, arrays: Arrays, options: ReportOptions, *, report: bool
) -> tuple[dict[str, Any], Work, Rows] | JobRecord:
    """Return the answer with its work and the rows, those of the first model of several, or the job."""
    if isinstance(options, CompareOptions):
        return _compare(requester, arrays, options, report=report)
    kind = kind_of(options.prediction_kind)
    if isinstance(options, EvaluateOptions) and options.source is not None:
        if report:
            raise InvalidField.at("/source", "is not supported in HTML reports; request measures as JSON")
        from backend.references import queue_evaluation

        return queue_evaluation(requester, arrays, options)
    request = kind.evaluation(requester, cast(Any, options), report=report)
    if isinstance(options, EvaluateOptions) and options.batches is not None:
        work = _work_on_batches(requester, arrays, options, cast(EvaluationRequest, request))
    else:
        work = request.on(requester, find_rows(requester, arrays, request.options))
    report_document = run_inline(requester, work)
    if report_document is not None:
        return report_document, work, work.rows
    return queue_work(requester, "evaluate", work, options)


def _compare(
    requester: Requester, arrays: Arrays, options: CompareOptions, *, report: bool
) -> tuple[dict[str, Any], Work, Rows] | JobRecord:
    check_criterion(options, report=report)
    if options.source is not None and options.maps is None:
        if report:
            raise InvalidField.at("/source", "is not supported in HTML reports; request measures as JSON")
        from backend.references import queue_comparison

        return queue_comparison(requester, arrays, options)
    models = [name for name in arrays if CLASSIFICATION.is_model(name)]
    stated = {"/models": models, "/batches": options.batches, "/maps": options.maps}
    if len([pointer for pointer, value in stated.items() if value]) != 1:
        raise InvalidField.at("", "must have exactly one of models, batches and maps")
    if options.maps is not None:
        fields = options.model_dump(exclude={"batches"})
        return _evaluate(requester, arrays, RankedMaps.model_validate(fields), report=report)
    if options.batch is not None or "predictions" in arrays or (options.batches and arrays):
        where = "/batch" if options.batch is not None else "/predictions" if "predictions" in arrays else "/batches"
        raise InvalidField.at(where, "cannot be combined with models or batches; labels are sent with models")
    if any(map(CLASSIFICATION.is_feature, arrays)):
        raise InvalidField.at("/features", "are for maps, not for models")
    rows, parts = _rows_of_models(requester, arrays, options)
    request = CLASSES.comparison(requester, options, rows, report=report)
    report_document = run_inline(requester, request)
    if report_document is not None:
        return report_document, request, next(iter(rows.values()))
    with place_for_job(requester) as job_id:
        ids = list((options.batches or {}).values())
        if not ids:
            ttl = None if options.keep_batch else UNQUEUED_SECONDS
            stored = [store_rows(requester, CLASSES, own, ttl, number=i) for i, own in enumerate(rows.values())]
            ids, parts = [record.id for record in stored], [record.parts for record in stored]
        spec = request.spec.model_copy(update={"batches": ids, "parts_of": parts}).model_dump()
        temporary = options.batches is None and not options.keep_batch
        return queue(requester, "evaluate", job_id, spec, seconds=request.seconds, temporary=temporary)


def _rows_of_models(requester: Requester, arrays: Arrays, options: CompareOptions) -> tuple[dict[str, Rows], list[int]]:
    """Check the rows of the models of a request, or of the batches that it names, with the parts of these batches."""
    if models := rows_of_models(requester, arrays, options):
        return models, []
    rows, parts, first = {}, [], None
    for name, batch_id in (options.batches or {}).items():
        where = f"/batches/{token(name)}"
        parts.append(requester.store.batches.record(batch_id, where).parts)
        rows[name] = find_rows(requester, {}, options.model_copy(update={"batch": batch_id}))
        own = SharedRows.of(rows[name].labelled)
        if first is not None:
            own.match(first, where)
        if rows[name].class_names != next(iter(rows.values())).class_names:
            raise WrongShape.at(where, "must have the classes of the first model")
        first = first or own
    return rows, parts


def _work_on_batches(
    requester: Requester, arrays: Arrays, options: EvaluateOptions, request: EvaluationRequest
) -> Work:
    """Check stored batches of classes, which are loaded one at a time, and return the work on them."""
    ids, store, operation = options.batches or [], requester.store, request.operation
    if arrays or options.batch is not None:
        raise InvalidField.at("/batches", "cannot be combined with arrays or batch; send one of the three")
    if len(set(ids)) < len(ids):
        raise InvalidField.at("/batches", "must be distinct")
    seconds, most_rows, most_numbers = 0.0, 0, 0  # one batch is evaluated after the other
    first: SharedRows | None = None
    parts = [store.batches.record(batch_id, f"/batches/{i}").parts for i, batch_id in enumerate(ids)]
    for i, batch_id in enumerate(ids):
        rows = find_rows(requester, {}, options.model_copy(update={"batch": batch_id}))
        operation.check_class_names(rows.class_names)
        checked = operation.check(rows.labelled, rows.groups)
        most_rows, most_numbers = max(most_rows, len(rows)), max(most_numbers, rows.numbers)
        seconds += 2.0 * operation.seconds(checked)  # once for the report, once for the law
        if operation.same_rows:
            own = SharedRows.of(rows.labelled)
            if first is not None:
                own.match(first, f"/batches/{i}")
            first = first or own
    spec = request.spec.model_copy(update={"parts_of": parts})
    run = of_batches(operation, store, spec, "cpu")
    return Work(spec, None, seconds, most_rows, most_numbers, run, operation.inline)


def stored_report(store: Store, job: JobRecord) -> WholeReport:
    """The full report of a job that evaluated one batch, or compared models."""
    spec = kind_of(job.spec.get("prediction_kind", CLASSES.name)).spec.model_validate(job.spec)
    batch = job.rows
    if batch is None:  # a job of a version that did not describe its rows
        with contextlib.suppress(UnknownBatch):
            batch = store.batches.record(spec.batch or "")
    if job.temporary_batch is not None:
        spec = spec.model_copy(update={"batch": None})
    if job.temporary_batches:
        spec = spec.model_copy(update={"batches": None})
    return WholeReport((job.result or {})["report"], spec, batch)


def run_evaluation(store: Store, run: Run, device: str, progress: Progress) -> None:
    """Run an evaluation job; its result is the report. Retries while the store is unavailable."""
    spec = run.job.spec
    if spec.get("source") is not None:
        from backend.references import evaluate_source

        report = evaluate_source(store, run, device, progress)
        patiently(lambda: run.succeed({"report": report}))
        return
    evaluate = kind_of(spec.get("prediction_kind", CLASSES.name)).run_evaluation(store, spec, device)
    with span("compute"), reporting(progress):
        report = evaluate()
    patiently(lambda: run.succeed({"report": report}))
