"""Routes that ingest rows of a monitor: labelled rows, predictions, labels, and CloudEvents."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.datastructures import Headers

from backend.monitors.ingestion import ingest
from backend.monitors.rows import What
from backend.telemetry.observed import traced
from schemas.monitor_rows import EventBody, LabelledBody, LabelsBody, PredictionsBody
from schemas.monitors import IngestionResult
from service.context import Context, Here, answer
from service.descriptions import described_later
from service.formats.media import EVENT, EVENTS, JSON
from service.monitor_bodies.body import READERS, Sent, receive_events, receive_rows
from service.monitor_bodies.documents import columns_of
from service.monitor_bodies.events import By, rows_of_events
from service.openapi import raises
from service.routing import Idempotent
from service.threads import run_in_thread

router = APIRouter(prefix="/monitors/{name}", tags=["monitors"], route_class=Idempotent)

#: Problems of a body of rows as a whole; a single invalid row is refused and listed in the response.
_OF_ROWS = (
    "unknown-monitor",
    "monitor-full",
    "unknown-map",
    "prediction-kind-mismatch",
    "scale-mismatch",
    "unknown-reduction",
    "wrong-shape",
    "length-mismatch",
    "not-a-number",
)


@described_later
def _body_of(model: type[Any]) -> dict[str, Any]:
    """The OpenAPI description of a body of rows."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {**dict.fromkeys(READERS, binary), JSON: {"schema": schema}}}}


@described_later
def _body_of_events() -> dict[str, Any]:
    """The OpenAPI description of a body of events."""
    return {
        "requestBody": {
            "required": True,
            "content": {
                EVENT: {"schema": EventBody.model_json_schema(ref_template="#/components/schemas/{model}")},
                # The items have no schema: an invalid event is refused on its own, and the others count.
                EVENTS: {"schema": {"type": "array", "description": "CloudEvents in structured mode"}},
                JSON: {
                    "schema": {"type": "object", "description": "the data of an event whose attributes are in headers"}
                },
            },
        },
        "parameters": [
            {
                "name": "output",
                "in": "query",
                "required": False,
                "description": "inference protocol output with the predictions; default: the first output of floats",
                "schema": {"type": "string"},
            },
            {
                "name": "by",
                "in": "query",
                "required": False,
                "description": "what identifies an event: its id, or its source and id; row ids are then source/id",
                "schema": {"type": "string", "enum": ["id", "source"], "default": "id"},
            },
        ],
    }


@router.post("/rows", response_model=IngestionResult, responses=raises(*_OF_ROWS), openapi_extra=_body_of(LabelledBody))
async def post_monitor_rows(name: str, request: Request, here: Here) -> Response:
    """Ingest predictions with their labels; a row with an id is counted once, even if it is sent again.

    An invalid row is refused and listed in the response; the other rows are counted.
    """
    return await _receive(request, here, name, "rows")


@router.post(
    "/predictions", response_model=IngestionResult, responses=raises(*_OF_ROWS), openapi_extra=_body_of(PredictionsBody)
)
async def post_monitor_predictions(name: str, request: Request, here: Here) -> Response:
    """Ingest predictions; each waits for the label with the same id until the horizon of the monitor has passed."""
    return await _receive(request, here, name, "predictions")


@router.post("/labels", response_model=IngestionResult, responses=raises(*_OF_ROWS), openapi_extra=_body_of(LabelsBody))
async def post_monitor_labels(name: str, request: Request, here: Here) -> Response:
    """Ingest labels and join them to predictions by id; a label may arrive before its prediction."""
    return await _receive(request, here, name, "labels")


@router.post("/events", response_model=IngestionResult, responses=raises(*_OF_ROWS), openapi_extra=_body_of_events())
async def post_monitor_events(name: str, request: Request, here: Here) -> Response:
    """Ingest CloudEvents: rows, predictions, labels, or responses of inference servers.

    Each event is counted once by its id. Events of other types are ignored; the response gives their number. An invalid
    event in a batch is a refused row.
    """
    sent = await receive_events(request, here.settings)
    query = request.query_params
    by: By = "source" if query.get("by") == "source" else "id"
    counted = await run_in_thread(_ingest_events, here, name, request.headers, sent, query.get("output"), by)
    return answer(counted.model_dump())


async def _receive(request: Request, here: Context, name: str, what: What) -> Response:
    sent = await receive_rows(request, here.settings)
    counted = await run_in_thread(_ingest_rows, here, name, what, sent)
    return answer(counted.model_dump())


@traced("work")
def _ingest_rows(here: Context, name: str, what: What, sent: Sent) -> IngestionResult:
    record = here.store.monitors.get(name)
    return ingest(here, record, [(what, sent.rows(what, columns_of(record)))])


@traced("work")
def _ingest_events(
    here: Context, name: str, headers: Headers, sent: Sent, output: str | None, by: By
) -> IngestionResult:
    record = here.store.monitors.get(name)
    parts, ignored = rows_of_events(sent.events(headers), sent.limits, columns_of(record), output, by)
    return ingest(here, record, parts, ignored=ignored)
