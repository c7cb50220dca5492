"""Evaluation: at once where every measure and diagram is quick, by a worker where one is a long fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from backend.evaluations import Asked, read_asked, several_document
from backend.store.batches import read_stored_batch
from backend.store.errors import UnknownMap
from backend.telemetry.observed import traced
from calibrant.batch import Batch, Scale
from calibrant.cells import WeightsKind
from calibrant.comparison import RAW, Comparison
from calibrant.costs import Rows
from calibrant.evaluation import Evaluation
from calibrant.maps.calibration_map import CalibrationMap
from schemas.batches import BatchOptions
from schemas.evaluate import EvaluateBody, EvaluateOptions, EvaluateSpec, ReportAnswer, ReportsAnswer
from schemas.jobs import JobRecord
from service.context import INLINE_SECONDS, Context, Here, answer, body_of, place_for_job, queue
from service.errors import InvalidField
from service.formats.answers import choose
from service.formats.body import read_payload
from service.formats.media import HTML, JSON
from service.formats.options import read_options
from service.formats.payload import Payload
from service.headers import read_header
from service.idempotency import Idempotent
from service.openapi import OF_EVALUATIONS, queues, raises
from service.reporting import Plan, Whole, report_page, subject_of, whole_of
from service.rows import Arrays, find_arrays, labelled, store_arrays
from service.waiting import settle

router = APIRouter(tags=["evaluate"], route_class=Idempotent)


@router.post(
    "/evaluate",
    response_model=ReportAnswer | ReportsAnswer,
    responses={
        200: {"content": {HTML: {"schema": {"type": "string"}}}},
        **queues("A job, where a measure or diagram is a long fit or all are estimated to take more than 2 s"),
        **raises(
            *OF_EVALUATIONS,
        ),
    },
    openapi_extra=body_of(EvaluateBody),
)
async def evaluate(request: Request, here: Here) -> Response:
    """Measure the calibration of a batch; with ``map``, before and after it; with ``maps``, side by side.

    As HTML, where that is accepted, a report in one file: the verdict first, with its own measures and diagrams where
    none are named, and the map to fit.

    With ``batches`` each of them, and of five or more the power law between calibration and classification error.
    With a map the answer also tells what the Brier score and the log loss gain (``improvement``). ``diagrams`` are
    drawn as data. By a job where something is a long fit, or all together are estimated to take more than 2 s.
    """
    kind = choose(read_header(request, b"accept"), (JSON, HTML))
    payload = await read_payload(request, here.settings)
    options = read_options(payload, EvaluateOptions)
    if kind == HTML:
        return await _html(here, payload, options)
    made = await run_in_threadpool(run_or_queue, here, payload, options)
    response = await settle(here, made) if isinstance(made, JobRecord) else answer(made)
    response.headers["Vary"] = "Accept"
    return response


async def _html(here: Context, payload: Payload, options: EvaluateOptions) -> Response:
    made = await run_in_threadpool(report_or_queue, here, payload, options)
    if isinstance(made, Whole):
        return await report_page(here, made)

    async def told(record: JobRecord) -> Response:
        return await report_page(here, await run_in_threadpool(whole_of, here, record))

    response = await settle(here, made, told)
    response.headers["Vary"] = "Accept"
    return response


@traced("work")
def run_or_queue(here: Context, payload: Payload, options: EvaluateOptions) -> dict[str, Any] | JobRecord:
    """Check the whole request, then evaluate here or queue it."""
    spec = _spec(here, options)
    asked = read_asked(spec, here.store.maps)
    if spec.batches is not None:
        return _several(here, payload, options, spec, asked)
    rows = _rows(here, payload, options, asked)
    seconds = asked.seconds(rows.batch, rows.groups)
    if asked.task.inline and _at_once(here, seconds):
        return asked.document(rows.batch, rows.groups)
    asked.check(rows.batch, rows.groups)
    return _queue(here, options, spec, rows)


@traced("work")
def report_or_queue(here: Context, payload: Payload, options: EvaluateOptions) -> Whole | JobRecord:
    """The same for a whole report of one batch."""
    if options.batches is not None:
        raise InvalidField.at("/batches", "are told as JSON alone; ask for a report of one batch")
    spec = _spec(here, options)
    asked = read_asked(spec, here.store.maps)
    rows = _rows(here, payload, options, asked)
    plan = Plan.of(spec, rows.batch, rows.groups, here.store.maps)
    weights = rows.kind if "weights" in rows.arrays else None
    if plan.inline and _at_once(here, plan.seconds):
        return Whole(plan.run(), subject_of(plan.spec, weights=weights, scale=rows.scale))
    return _queue(here, options, plan.spec, rows)


class _Rows(NamedTuple):
    """The rows of a request, checked, and the arrays that they were read from."""

    batch: Batch
    groups: Sequence[str] | None
    arrays: Arrays
    scale: Scale
    kind: WeightsKind


def _rows(here: Context, payload: Payload, options: EvaluateOptions, asked: Asked) -> _Rows:
    arrays, scale, kind = find_arrays(here, payload, options)
    fitted = _map_of(asked)
    if options.batch is None and options.scale is None and fitted is not None:
        scale = fitted.scale
    return _Rows(*labelled(arrays, scale, kind), arrays, scale, kind)


def _at_once(here: Context, seconds: float) -> bool:
    """Whether work of so many seconds is done here; if so it has its place."""
    if seconds > INLINE_SECONDS or here.prefer.respond_async:
        return False
    here.take_place(seconds)
    return True


def _queue(here: Context, options: EvaluateOptions, spec: EvaluateSpec, rows: _Rows) -> JobRecord:
    with place_for_job(here) as job_id:
        batch_id = options.batch
        if batch_id is None:
            batch_id = store_arrays(here, rows.arrays, BatchOptions(scale=rows.scale, weights_kind=rows.kind)).id
        return queue(here, "evaluate", job_id, spec.model_copy(update={"batch": batch_id}).model_dump())


def _several(
    here: Context, payload: Payload, options: EvaluateOptions, spec: EvaluateSpec, asked: Asked
) -> dict[str, Any] | JobRecord:
    """``run_or_queue`` of stored batches, of which one is held at a time."""
    ids = spec.batches or []
    if payload.arrays or options.batch is not None:
        raise InvalidField.at("/batches", "stand in the place of the arrays and of batch; send one of the three")
    if len(set(ids)) < len(ids):
        raise InvalidField.at("/batches", "must differ from one another")
    seconds = 0.0
    first: Rows | None = None
    parts = [here.store.batches.record(batch_id).parts for batch_id in ids]
    for i, batch_id in enumerate(ids):
        batch, groups = labelled(*find_arrays(here, payload, options.model_copy(update={"batch": batch_id})))
        asked.check(batch, groups)
        first = asked.matched(batch, first, f"/batches/{i}")
        seconds += 2.0 * asked.seconds(batch, groups)  # once for the report, once for the law
    if asked.task.inline and _at_once(here, seconds):
        return several_document(asked, ((i, *read_stored_batch(here.store.batches, i)) for i in ids), len(ids))
    with place_for_job(here) as job_id:
        return queue(here, "evaluate", job_id, spec.model_copy(update={"parts_of": parts}).model_dump())


def _map_of(asked: Asked) -> CalibrationMap | None:
    """The map whose scale arrays have where they do not say: all maps of a comparison have one."""
    if isinstance(asked.task, Comparison):
        return asked.task.contestants[0].map
    return asked.task.map if isinstance(asked.task, Evaluation) else None


def _spec(here: Context, options: EvaluateOptions) -> EvaluateSpec:
    """What is asked, with every map by its id."""
    if options.map is not None and options.maps is not None:
        raise InvalidField.at("/maps", "are compared; map is told before and after: send one of the two")
    given = options.model_dump(exclude={"scale", "weights_kind"})
    if options.map is not None:
        given["map"] = here.store.maps.get(options.map).id
    if options.maps is not None:
        given["maps"] = [_contestant(here, options.maps, i) for i in range(len(options.maps))]
    return EvaluateSpec.model_validate(given)


def _contestant(here: Context, refs: list[str], i: int) -> dict[str, str]:
    if refs[i] == RAW:
        raise InvalidField.at(f"/maps/{i}", f"{RAW} names the predictions as they came; give the map's id")
    if refs[i] in refs[:i]:
        raise InvalidField.at(f"/maps/{i}", "stands there already")
    try:
        return {"name": refs[i], "map": here.store.maps.get(refs[i]).id}
    except UnknownMap as error:
        raise UnknownMap(error.detail, f"/maps/{i}") from error
