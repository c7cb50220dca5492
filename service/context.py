"""What every route needs: the settings and the caller's view of the store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Depends, Request, Response
from starlette.types import Scope

from backend.monitors.webhook_targets import Targets
from backend.store.clock import stamp
from backend.store.jobs.backlog import wait_for_job
from backend.store.jobs.events import batches_of
from backend.store.jobs.leases import serves
from backend.store.jobs.queues import GPU_FITS, QUEUE_OF
from backend.store.jobs.store import Watcher
from backend.store.keyspace import Kind as IdKind
from backend.store.keyspace import derived_id, new_id
from backend.store.server.connection import UNAVAILABLE
from backend.store.store import Store
from backend.telemetry.observed import carried
from schemas.jobs import JobRecord, Kind
from service.callers import Caller
from service.errors import DeadlineExceeded
from service.formats.body import BINARY
from service.formats.media import JSON
from service.guard import Guard
from service.headers import NO_PREFERENCES, Preferences, read_headers, read_prefer
from service.held_maps import HeldMap
from service.process import Process
from service.settings import Settings
from service.shares import Streams

T = TypeVar("T")

#: What is estimated to take longer is a job.
INLINE_SECONDS = 2.0
#: What is estimated to take longer holds one of few places.
HEAVY_SECONDS = 0.1
#: Seconds that a batch is kept at least when a job on it is asked for: then the job holds it.
QUEUEING = 10


@dataclass(frozen=True)
class Context:
    """What one request has: the process that serves it, its caller, and the caller's tenant's view of the store.

    ``prefer`` is what it prefers; ``seed`` gives the ids of what a request with an idempotency key makes, the same
    ones if it is run again.
    """

    process: Process
    caller: Caller
    scope: Scope
    prefer: Preferences = NO_PREFERENCES
    seed: str | None = None

    @cached_property
    def store(self) -> Store:
        """The caller's tenant's view of the store."""
        return Store.of(self.process.redis, self.caller.tenant, self.process.quotas)

    def take_place(self, seconds: float) -> None:
        """Take one of the few places for heavy work where the request is estimated to be that; raises ``Busy``."""
        if seconds > HEAVY_SECONDS:
            self.process.places.take(self.scope)

    async def draw(self, work: Callable[[], T]) -> T:
        """Do drawing work when it is this tenant's turn; raises ``Busy``, and ``DeadlineExceeded`` if that is late."""
        self.process.places.give_back(self.scope)  # what is left to do is bounded by the line of what is drawn

        def drawn() -> T:
            self.go_on()
            return work()

        return await self.process.easel.draw(self.caller, drawn)

    def check_room(self) -> None:
        """Raise ``StoreFull`` if the caller's tenant may store nothing more."""
        self.process.budget.check(self.caller.tenant)

    def go_on(self) -> None:
        """Raise ``DeadlineExceeded`` where the request has been answered so, and nobody hears of more work."""
        if Guard.is_over(self.scope):
            raise DeadlineExceeded("the answer was not there in time")

    @property
    def settings(self) -> Settings:
        """What the service was told at its start."""
        return self.process.settings

    @property
    def targets(self) -> Targets:
        """Where webhooks may go."""
        return self.process.targets

    @property
    def watcher(self) -> Watcher:
        """What wakes those who wait for jobs."""
        return self.process.watcher

    @property
    def streams(self) -> Streams:
        """The event streams of this process."""
        return self.process.streams

    @property
    def who(self) -> str | None:
        """The name of the caller's API key; None without keys."""
        return self.caller.name

    def new_id(self, kind: IdKind) -> str:
        """An id for what this request makes; at most one of a kind."""
        return new_id(kind) if self.seed is None else derived_id(kind, self.seed)

    def held_map(self, ref: str) -> HeldMap | None:
        """The map of a reference where it is in memory."""
        return self.process.maps.held(self.caller.tenant, ref)

    def find_map(self, ref: str) -> HeldMap:
        """The map of a reference, from memory or from the store; raises ``UnknownMap``."""
        return self.process.maps.find(self.store, self.caller.tenant, ref)


async def context_of(request: Request) -> Context:
    """What the route of a request needs. A coroutine: a plain function would be run in a thread."""
    process: Process = request.app.state.process
    state = request.scope["state"]
    caller: Caller = state["caller"]
    preferred = read_headers(request, b"prefer")
    prefer = read_prefer(preferred) if preferred else NO_PREFERENCES
    return Context(process, caller, request.scope, prefer, state.get("seed"))


Here = Annotated[Context, Depends(context_of)]


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response; numpy arrays are written as they are, without a list in between."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), status, headers, "application/json")


@contextlib.contextmanager
def place_for_job(here: Context) -> Iterator[str]:
    """The id of a job for which there is a place, to be queued within; raises ``TooManyJobs`` and ``QueueFull``.

    It is taken before anything of the request is stored. Raises ``StoreFull`` where nothing more may be.
    """
    here.check_room()
    job_id = here.new_id("job")
    here.store.places.take(job_id)
    try:
        yield job_id
    except BaseException:
        with contextlib.suppress(*UNAVAILABLE):  # then the place is free again in a while
            here.store.places.give_back(job_id)
        raise


def queue(
    here: Context, kind: Kind, job_id: str, spec: dict[str, Any], *, pieces: int = 1, gpu: bool = False
) -> JobRecord:
    """Queue a job that has a place, on the batches that its spec names, as they are now; raises ``UnknownBatch``.

    It goes to the workers in so many ``pieces``, and to one with a GPU where it is worth one and one is alive.
    """
    batches, settings = here.store.batches, here.settings
    ids = batches_of(spec)
    for batch_id in ids:
        batches.keep(batch_id, QUEUEING)
    parts = [batches.record(batch_id).parts for batch_id in ids]
    record = JobRecord(
        id=job_id,
        kind=kind,
        status="queued",
        created_at=stamp(),
        ttl=settings.job_ttl,
        spec=spec | {"parts": parts[0]},
        queue=GPU_FITS if gpu and serves(here.store.redis, GPU_FITS) else QUEUE_OF[kind],
        timeout=settings.fit_timeout if kind == "fit" else settings.evaluate_timeout,
        carried=carried(),
        parts=pieces,
        left=pieces,
    )
    return here.store.jobs.submit(record)


def located(here: Context, record: JobRecord) -> dict[str, str]:
    """The headers that tell where a job that has not ended stands, and when to look at it again."""
    seconds = wait_for_job(here.store.redis, here.store.keys, record)
    return {"Location": f"/jobs/{record.id}", "Retry-After": str(seconds)}


def queued(here: Context, record: JobRecord) -> Response:
    """The 202 of a queued job."""
    return answer(record.answer().model_dump(), 202, located(here, record))


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
