"""What comes to a monitor: rows with labels, predictions, labels, and events that hold any of them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from backend.monitors.ingestion import ingest
from backend.monitors.rows import What
from backend.telemetry.observed import traced
from schemas.monitor_rows import EventBody, LabelledBody, LabelsBody, PredictionsBody
from schemas.monitors import Taken
from service.context import Context, Here, answer
from service.formats.media import EVENT, EVENTS, JSON
from service.monitor_bodies.body import READERS, Sent, receive_events, receive_rows
from service.monitor_bodies.events import By, rows_of_events
from service.openapi import raises
from service.routing import Idempotent

router = APIRouter(prefix="/monitors/{name}", tags=["monitors"], route_class=Idempotent)

#: What may be wrong with rows as a whole; a single wrong row is refused and named in the answer.
_OF_ROWS = ("unknown-monitor", "monitor-full", "unknown-map", "wrong-shape", "length-mismatch", "not-a-number")


def _body_of(model: type[Any]) -> dict[str, Any]:
    """The OpenAPI description of a body of rows."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {**dict.fromkeys(READERS, binary), JSON: {"schema": schema}}}}


_OF_EVENTS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            EVENT: {"schema": EventBody.model_json_schema(ref_template="#/components/schemas/{model}")},
            # Its items have no schema: what is no event is refused by itself, and the others count.
            EVENTS: {"schema": {"type": "array", "description": "CloudEvents in structured mode"}},
            JSON: {"schema": {"type": "object", "description": "the data of an event whose attributes are headers"}},
        },
    },
    "parameters": [
        {
            "name": "output",
            "in": "query",
            "required": False,
            "description": "which output of the Open Inference Protocol holds the predictions; the first of floats",
            "schema": {"type": "string"},
        },
        {
            "name": "by",
            "in": "query",
            "required": False,
            "description": "what tells events apart: id alone, or source and id, where the ids are source/id",
            "schema": {"type": "string", "enum": ["id", "source"], "default": "id"},
        },
    ],
}


@router.post("/rows", response_model=Taken, responses=raises(*_OF_ROWS), openapi_extra=_body_of(LabelledBody))
async def post_monitor_rows(name: str, request: Request, here: Here) -> Response:
    """Count predictions whose labels are known: those with ids once each, however often they are sent.

    A row that cannot be counted is refused and named in the answer, and the others count.
    """
    return await _receive(request, here, name, "rows")


@router.post("/predictions", response_model=Taken, responses=raises(*_OF_ROWS), openapi_extra=_body_of(PredictionsBody))
async def post_monitor_predictions(name: str, request: Request, here: Here) -> Response:
    """Remember predictions by their ids until their labels come, for as long as the monitor's horizon."""
    return await _receive(request, here, name, "predictions")


@router.post("/labels", response_model=Taken, responses=raises(*_OF_ROWS), openapi_extra=_body_of(LabelsBody))
async def post_monitor_labels(name: str, request: Request, here: Here) -> Response:
    """Join labels to predictions by their ids; one that comes before its prediction waits for it."""
    return await _receive(request, here, name, "labels")


@router.post("/events", response_model=Taken, responses=raises(*_OF_ROWS), openapi_extra=_OF_EVENTS)
async def post_monitor_events(name: str, request: Request, here: Here) -> Response:
    """Count what CloudEvents tell of: rows, predictions or labels of ours, or the answers of inference servers.

    Each counts once by its id. Events of other types are ignored, and the answer says how many; what is no event in a
    batch is a row that is refused.
    """
    sent = await receive_events(request, here.settings)
    query = request.query_params
    by: By = "source" if query.get("by") == "source" else "id"
    counted = await run_in_threadpool(_ingest_events, here, name, request.headers, sent, query.get("output"), by)
    return answer(counted.model_dump())


async def _receive(request: Request, here: Context, name: str, what: What) -> Response:
    sent = await receive_rows(request, here.settings)
    counted = await run_in_threadpool(_ingest_rows, here, name, what, sent)
    return answer(counted.model_dump())


@traced("work")
def _ingest_rows(here: Context, name: str, what: What, sent: Sent) -> Taken:
    record = here.store.monitors.get(name)
    return ingest(here, record, [(what, sent.rows(what, record.n_classes))])


@traced("work")
def _ingest_events(here: Context, name: str, headers: Headers, sent: Sent, output: str | None, by: By) -> Taken:
    record = here.store.monitors.get(name)
    parts, ignored = rows_of_events(sent.events(headers), sent.limits, record.n_classes, output, by)
    return ingest(here, record, parts, ignored=ignored)
