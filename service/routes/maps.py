"""Fits: at once where they are quick, by a worker where they are long."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from backend.store.store import map_record
from backend.telemetry.observed import traced
from calibrant.calibrators import FitContext, Fitting
from calibrant.in_sample import seconds as seconds_of_summary
from schemas.batches import BatchOptions
from schemas.jobs import JobRecord
from schemas.maps import FitBody, FitOptions, FitSpec, MapRecord
from service.context import INLINE_SECONDS, Context, Here, body_of, place_for_job, queue
from service.formats.body import read_payload
from service.formats.options import read_options
from service.formats.payload import Payload
from service.headers import created
from service.idempotency import Idempotent
from service.openapi import OF_ROWS, located, queues, raises
from service.rows import find_arrays, labelled, store_arrays
from service.waiting import settle

router = APIRouter(prefix="/maps", tags=["maps"], route_class=Idempotent)


@router.post(
    "",
    status_code=201,
    response_model=MapRecord,
    responses={
        201: {"headers": located("map")},
        **queues("A job, where the method is long or its fit is estimated to take more than 2 s"),
        **raises(
            *OF_ROWS,
            "unknown-batch",
            "quota-exceeded",
            "too-many-jobs",
            "queue-full",
            "unknown-method",
            "unknown-reduction",
            "one-class",
            "missing-class",
            "one-prediction",
            "too-few-rows",
            "not-converged",
        ),
    },
    openapi_extra=body_of(FitBody),
)
async def post_map(request: Request, here: Here) -> Response:
    """Fit a calibration map by one of the methods.

    201 and the map; or 202 and the job that makes it, where the method is long or the fit is estimated to take more
    than 2 s.
    """
    payload = await read_payload(request, here.settings)
    options = read_options(payload, FitOptions)
    made = await run_in_threadpool(fit_or_queue, here, payload, options)
    if isinstance(made, MapRecord):
        return created(made)
    return await settle(here, made)


@traced("work")
def fit_or_queue(here: Context, payload: Payload, options: FitOptions) -> MapRecord | JobRecord:
    """Check the whole request, then fit it here or queue it."""
    asked = Fitting.read(options.method, options.options, options.reduction, where="/options")
    arrays, scale, kind = find_arrays(here, payload, options)
    batch, _ = labelled(arrays, scale, kind)
    asked.check(batch)
    here.store.charges.check_maps()
    took = asked.seconds(batch) + seconds_of_summary(len(batch), batch.predictions.n_classes)
    quick = asked.method.runs == "inline" and took <= INLINE_SECONDS
    if quick and not here.prefer.respond_async:
        here.take_place(took)
        fitted = asked.run(batch, FitContext(options.seed, "cpu", None))
        spec = _spec(options, batch_id="", who=here.who)
        return here.store.maps.put(map_record(here.new_id("map"), spec, fitted, batch))
    with place_for_job(here) as job_id:
        batch_id = options.batch
        if batch_id is None:
            batch_id = store_arrays(here, arrays, BatchOptions(scale=scale, weights_kind=kind)).id
        spec = _spec(options, batch_id=batch_id, who=here.who)
        gpu = asked.method.on_device and took >= here.settings.gpu_seconds
        return queue(here, "fit", job_id, spec.model_dump(), pieces=asked.parts(batch), gpu=gpu)


def _spec(options: FitOptions, *, batch_id: str, who: str | None) -> FitSpec:
    return FitSpec(
        method=options.method,
        name=options.name,
        options=options.options,
        batch=batch_id,
        reduction=options.reduction,
        seed=options.seed,
        tags=options.tags,
        description=options.description,
        created_by=who,
    )
