"""Routes that ingest rows of a monitor: labelled rows, predictions, labels, and CloudEvents."""

from __future__ import annotations

from fastapi import Request, Response
from starlette.datastructures import Headers

from backend.monitors.ingestion import ingest
from backend.monitors.kinds import kind_of_monitor
from backend.monitors.rows import What
from backend.telemetry.observed import traced
from schemas.base import Document
from schemas.monitor_rows import By, EventBody, EventsQuery, LabelledBody, LabelsBody, PredictionsBody
from schemas.monitors import IngestionResult
from service.calls import Body, Call, Calls
from service.context import Context, Here, answer
from service.formats.body import Sent, receive_events, receive_rows
from service.formats.catalogue import ROWS_READERS
from service.formats.events import rows_of_events
from service.formats.media import EVENT, EVENTS, JSON
from service.paging import read_query
from service.threads import run_in_thread

calls = Calls("monitors", reads="monitors:read", writes="monitors:write")

#: Problems of a body of rows as a whole; a single invalid row is refused and listed in the response.
_OF_ROWS = (
    "unknown-monitor",
    "monitor-full",
    "unknown-map-reference",
    "prediction-kind-mismatch",
    "scale-mismatch",
    "unknown-reduction",
    "wrong-shape",
    "length-mismatch",
    "not-a-number",
)


def _rows(model: type[Document]) -> Body:
    return Body((model,), tuple(ROWS_READERS))


@calls.add(Call("POST", "/monitors/{name}/rows", body=_rows(LabelledBody), answer=IngestionResult, problems=_OF_ROWS))
async def post_monitor_rows(name: str, request: Request, here: Here) -> Response:
    """Ingest predictions with their labels; a row with an id is counted once, even if it is sent again.

    An invalid row is refused and listed in the response; the other rows are counted.
    """
    return await _receive(request, here, name, "rows")


@calls.add(
    Call("POST", "/monitors/{name}/predictions", body=_rows(PredictionsBody), answer=IngestionResult, problems=_OF_ROWS)
)
async def post_monitor_predictions(name: str, request: Request, here: Here) -> Response:
    """Ingest predictions; each waits for the label with the same id until the horizon of the monitor has passed."""
    return await _receive(request, here, name, "predictions")


@calls.add(Call("POST", "/monitors/{name}/labels", body=_rows(LabelsBody), answer=IngestionResult, problems=_OF_ROWS))
async def post_monitor_labels(name: str, request: Request, here: Here) -> Response:
    """Ingest labels and join them to predictions by id; a label may arrive before its prediction."""
    return await _receive(request, here, name, "labels")


@calls.add(
    Call(
        "POST",
        "/monitors/{name}/events",
        body=Body((EventBody,), (EVENTS, JSON), media=EVENT),
        query=EventsQuery,
        answer=IngestionResult,
        problems=_OF_ROWS,
    )
)
async def post_monitor_events(name: str, request: Request, here: Here) -> Response:
    """Ingest CloudEvents: rows, predictions, labels, or responses of inference servers.

    Each event is counted once by its id. Events of other types are ignored; the response gives their number. An invalid
    event in a batch is a refused row.
    """
    query = read_query(request, EventsQuery)
    sent = await receive_events(request, here.settings)
    counted = await run_in_thread(_ingest_events, here, name, request.headers, sent, query.output, query.by)
    return answer(counted.model_dump())


async def _receive(request: Request, here: Context, name: str, what: What) -> Response:
    sent = await receive_rows(request, here.settings)
    counted = await run_in_thread(_ingest_rows, here, name, what, sent)
    return answer(counted.model_dump())


@traced("work")
def _ingest_rows(here: Context, name: str, what: What, sent: Sent) -> IngestionResult:
    record = here.store.monitors.get(name)
    return ingest(here, record, [(what, sent.rows(what, kind_of_monitor(record)))])


@traced("work")
def _ingest_events(
    here: Context, name: str, headers: Headers, sent: Sent, output: str | None, by: By
) -> IngestionResult:
    record = here.store.monitors.get(name)
    parts, ignored = rows_of_events(sent.events(headers), sent.limits, kind_of_monitor(record), output, by)
    return ingest(here, record, parts, ignored=ignored)
