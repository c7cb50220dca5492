"""What every route needs: the settings and the caller's view of the store."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Depends, Request, Response
from starlette.types import Scope

from backend.held_maps import HeldMap
from backend.monitors.webhook_targets import Targets
from backend.store.jobs.store import Watcher
from backend.store.keyspace import Kind, derived_id, new_id
from backend.store.store import Store
from service.callers import Caller
from service.errors import DeadlineExceeded
from service.formats.body import BINARY
from service.formats.media import JSON
from service.guard import Guard
from service.headers import NO_PREFERENCES, Preferences, read_headers, read_prefer
from service.process import Process
from service.settings import Settings
from service.shares import Streams

T = TypeVar("T")

#: What is estimated to take longer holds one of few slots.
HEAVY_SECONDS = 0.1


@dataclass(frozen=True)
class Context:
    """What one request has: the process that serves it, its caller, and the caller's tenant's view of the store.

    It is the ``Requester`` of every use case in ``backend``.

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

    @property
    def prefers_job(self) -> bool:
        """Whether the caller prefers a job over an answer at once."""
        return self.prefer.respond_async

    def take_slot(self, seconds: float = math.inf) -> None:
        """Take one of the few slots for heavy work, unless it takes a moment only; raises ``Busy``."""
        if seconds > HEAVY_SECONDS:
            self.process.slots.take(self.scope)

    async def draw(self, work: Callable[[], T]) -> T:
        """Do drawing work when it is this tenant's turn; raises ``Busy``, and ``DeadlineExceeded`` if that is late."""
        self.process.slots.give_back(self.scope)  # what is left to do is bounded by the line of what is drawn

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
        """The settings of the service."""
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

    def new_id(self, kind: Kind) -> str:
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
