"""What every route needs: the settings and the caller's view of the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from fastapi import Depends, Request, Response

from schemas.jobs import JobRecord, Kind
from service.callers import Caller
from service.formats.body import BINARY
from service.formats.media import JSON
from service.held_maps import HeldMap, HeldMaps
from service.process import Process
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
    """The settings, the caller, the caller's tenant's view of the store, and what the process keeps in memory."""

    settings: Settings
    caller: Caller
    store: Store
    maps: HeldMaps

    @property
    def who(self) -> str | None:
        """The name of the caller's API key; None without keys."""
        return self.caller.name

    def held_map(self, ref: str) -> HeldMap | None:
        """The map of a reference where it is in memory."""
        return self.maps.held(self.caller.tenant, ref)

    def find_map(self, ref: str) -> HeldMap:
        """The map of a reference, from memory or from the store; raises ``UnknownMap``."""
        return self.maps.find(self.store, self.caller.tenant, ref)


async def _context(request: Request) -> Context:
    # A coroutine: a plain function would be run in a thread.
    process: Process = request.app.state.process
    caller = request.state.caller
    return Context(process.settings, caller, Store.of(process.redis, caller.tenant), process.maps)


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
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": model.model_json_schema(ref_template="#/components/schemas/{model}")},
                **dict.fromkeys(BINARY, binary),
            },
        }
    }
