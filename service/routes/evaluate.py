"""Evaluation: at once where every measure and diagram is quick, by a worker where one is a long fit."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from calibrant.diagrams.catalogue import read_diagrams
from calibrant.evaluation import Evaluation
from calibrant.maps.calibration_map import CalibrationMap, load
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling
from schemas.batches import BatchOptions
from schemas.evaluate import EvaluateBody, EvaluateOptions, EvaluateSpec, ReportAnswer
from schemas.jobs import JobRecord
from schemas.maps import MapRecord
from service.context import INLINE_SECONDS, Context, Here, answer, body_of, queue
from service.formats.body import read_payload
from service.formats.options import read_options
from service.formats.payload import Payload
from service.idempotency import Idempotent
from service.openapi import OF_ROWS, queues, raises
from service.rows import find_arrays, labelled, store_arrays
from service.waiting import settle
from storage.reports import report_document
from telemetry.observed import traced

router = APIRouter(tags=["evaluate"], route_class=Idempotent)


@router.post(
    "/evaluate",
    response_model=ReportAnswer,
    responses={
        **queues("A job, where a measure or diagram is a long fit or all are estimated to take more than 2 s"),
        **raises(
            *OF_ROWS,
            "unknown-batch",
            "unknown-map",
            "unknown-measure",
            "unknown-diagram",
            "unknown-reduction",
            "scale-mismatch",
        ),
    },
    openapi_extra=body_of(EvaluateBody),
)
async def evaluate(request: Request, here: Here) -> Response:
    """Measure the calibration of a batch; with ``map``, before and after it.

    With a map the answer also tells what the Brier score and the log loss gain (``improvement``). ``diagrams`` are
    drawn as data. By a job where something is a long fit, or all together are estimated to take more than 2 s.
    """
    payload = await read_payload(request, here.settings)
    options = read_options(payload, EvaluateOptions)
    made = await run_in_threadpool(run_or_queue, here, payload, options)
    return await settle(here, made) if isinstance(made, JobRecord) else answer(made)


@traced("work")
def run_or_queue(here: Context, payload: Payload, options: EvaluateOptions) -> dict[str, Any] | JobRecord:
    """Check the whole request, then evaluate here or queue it."""
    requests, diagrams = read_requests(options.measures), read_diagrams(options.diagrams)
    resampling = Resampling.read(options.interval, options.resamples, options.seed)
    record = None if options.map is None else here.store.maps.get(options.map)
    fitted: CalibrationMap | None = None if record is None else load(record.document)
    arrays, scale, kind = find_arrays(here.store, payload, options)
    if options.batch is None and options.scale is None and fitted is not None:
        scale = fitted.scale
    batch, groups = labelled(arrays, scale, kind)
    evaluation = Evaluation(requests, options.reduction, fitted, resampling, options.classes, diagrams)
    if evaluation.inline and not here.prefer.respond_async and evaluation.seconds(batch, groups) <= INLINE_SECONDS:
        return report_document(evaluation.run(batch, groups), None if record is None else record.id)
    evaluation.check(batch, groups)
    batch_id = options.batch
    if batch_id is None:
        batch_id = store_arrays(here, arrays, BatchOptions(scale=scale, weights_kind=kind)).id
    return queue(here, "evaluate", batch_id, _spec(options, batch_id, record).model_dump())


def _spec(options: EvaluateOptions, batch_id: str, record: MapRecord | None) -> EvaluateSpec:
    return EvaluateSpec(
        batch=batch_id,
        measures=options.measures,
        diagrams=options.diagrams,
        reduction=options.reduction,
        classes=options.classes,
        map=None if record is None else record.id,
        interval=options.interval,
        resamples=options.resamples,
        seed=options.seed,
    )
