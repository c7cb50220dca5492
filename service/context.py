"""What every route needs: the settings and the caller's view of the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from fastapi import Depends, Request, Response

from schemas.jobs import JobRecord, Kind
from service.settings import Settings
from storage.clock import stamp
from storage.keyspace import new_id
from storage.store import Store

#: What is estimated to take longer is a job.
INLINE_SECONDS = 2.0
#: Seconds after which a caller may look for the result of a job.
RETRY_AFTER = "1"


@dataclass(frozen=True)
class Context:
    """Settings and store, and ``who`` calls: the name of the API key, None without keys."""

    settings: Settings
    store: Store
    who: str | None = None


def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


Here = Annotated[Context, Depends(_context)]


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response; numpy arrays are written as they are, without a list in between."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), status, headers, "application/json")


def queue(here: Context, kind: Kind, batch_id: str, spec: dict[str, Any]) -> JobRecord:
    """Queue a job on a stored batch, which is kept as long as a batch is."""
    here.store.batches.keep(batch_id, here.settings.batch_ttl)
    record = JobRecord(
        id=new_id("job"), kind=kind, status="queued", created_at=stamp(), ttl=here.settings.job_ttl, spec=spec
    )
    here.store.jobs.submit(record, timeout=here.settings.fit_timeout)
    return record


def queued(record: JobRecord) -> Response:
    """The 202 of a queued job."""
    return answer(record.answer().model_dump(), 202, {"Location": f"/jobs/{record.id}", "Retry-After": RETRY_AFTER})


def body_of(model: type[Any]) -> dict[str, Any]:
    """The OpenAPI description of a body that the route reads itself."""
    npz = {"schema": {"type": "string", "format": "binary"}}
    return {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": model.model_json_schema(ref_template="#/components/schemas/{model}")},
                "application/x-npz": npz,
            },
        }
    }
