"""What every route needs: the settings and the caller's view of the store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import orjson
from fastapi import Depends, Request, Response

from schemas.jobs import JobRecord, Kind
from service.errors import TooManyStreams
from service.prefer import NO_PREFERENCES, Preferences, read_prefer
from service.settings import Settings
from storage.clock import stamp
from storage.keyspace import Kind as IdKind
from storage.keyspace import derived_id, new_id
from storage.store import Store
from storage.watch import Watcher

#: What is estimated to take longer is a job.
INLINE_SECONDS = 2.0
#: Seconds after which a caller may look for the result of a job.
RETRY_AFTER = "1"


class Slots:
    """How many long streams of this process are open."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self) -> None:
        """Take one; raises ``TooManyStreams``."""
        if self._left <= 0:
            raise TooManyStreams("as many streams of events are open as this process may have")
        self._left -= 1

    def give_back(self) -> None:
        """Give one back."""
        self._left += 1


@dataclass(frozen=True)
class Context:
    """Settings and store, what waits for jobs, and what the request prefers.

    ``seed`` gives the ids of what a request with an idempotency key makes, the same ones if it is run again.
    """

    settings: Settings
    store: Store
    watcher: Watcher
    streams: Slots
    prefer: Preferences = NO_PREFERENCES
    seed: str | None = None

    def new_id(self, kind: IdKind) -> str:
        """An id for what this request makes; at most one of a kind."""
        return new_id(kind) if self.seed is None else derived_id(kind, self.seed)


async def context_of(request: Request) -> Context:
    """What the route of a request needs."""
    context: Context = request.app.state.context
    seed: str | None = getattr(request.state, "seed", None)
    if seed is None and "prefer" not in request.headers:
        return context
    return replace(context, prefer=read_prefer(request.headers.getlist("prefer")), seed=seed)


Here = Annotated[Context, Depends(context_of)]


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response; numpy arrays are written as they are, without a list in between."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), status, headers, "application/json")


def queue(here: Context, kind: Kind, batch_id: str, spec: dict[str, Any]) -> JobRecord:
    """Queue a job on a stored batch as it is now; the batch is kept as long as one may be."""
    here.store.batches.keep(batch_id, here.settings.batch_ttl)
    spec = spec | {"parts": here.store.batches.record(batch_id).parts}
    record = JobRecord(
        id=here.new_id("job"), kind=kind, status="queued", created_at=stamp(), ttl=here.settings.job_ttl, spec=spec
    )
    return here.store.jobs.submit(record, timeout=here.settings.fit_timeout)


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
