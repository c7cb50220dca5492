"""What comes to a monitor: rows with labels, predictions, labels, and events that hold any of them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from monitoring.taking.screening import What
from schemas.monitor_rows import LabelsBody, PredictionsBody, RowsBody
from schemas.monitors import Taken
from service.context import Context, Here, answer
from service.formats.media import JSON
from service.idempotency import Idempotent
from service.monitor_bodies.reading import READERS, receive
from service.openapi import raises
from service.taking import take_rows

router = APIRouter(prefix="/monitors/{name}", tags=["monitors"], route_class=Idempotent)

#: What may be wrong with rows as a whole; what is wrong with one refuses that one, and is told in the answer.
_OF_TAKING = ("unknown-monitor", "monitor-full", "unknown-map", "wrong-shape", "length-mismatch", "not-a-number")


def _body_of(model: type[Any]) -> dict[str, Any]:
    """The OpenAPI description of a body of rows."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {**dict.fromkeys(READERS, binary), JSON: {"schema": schema}}}}


@router.post("/rows", response_model=Taken, responses=raises(*_OF_TAKING), openapi_extra=_body_of(RowsBody))
async def post_monitor_rows(name: str, request: Request, here: Here) -> Response:
    """Count predictions whose labels are known: those with ids once each, however often they are sent.

    A row that cannot be counted is refused and named in the answer, and the others count.
    """
    return await _take(request, here, name, "rows")


@router.post(
    "/predictions", response_model=Taken, responses=raises(*_OF_TAKING), openapi_extra=_body_of(PredictionsBody)
)
async def post_monitor_predictions(name: str, request: Request, here: Here) -> Response:
    """Remember predictions by their ids until their labels come, for as long as the monitor's horizon."""
    return await _take(request, here, name, "predictions")


@router.post("/labels", response_model=Taken, responses=raises(*_OF_TAKING), openapi_extra=_body_of(LabelsBody))
async def post_monitor_labels(name: str, request: Request, here: Here) -> Response:
    """Join labels to predictions by their ids; one that comes before its prediction waits for it."""
    return await _take(request, here, name, "labels")


async def _take(request: Request, here: Context, name: str, what: What) -> Response:
    sent = await receive(request, here.settings)
    taken = await run_in_threadpool(take_rows, here, name, what, sent)
    return answer(taken.model_dump())
