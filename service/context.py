"""The context of a request: the settings, the caller, and the tenant's view of the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Depends, Request, Response

from backend.held_map import HeldMap
from backend.monitors.webhook_targets import Targets
from backend.store.jobs.store import Watcher
from backend.store.keyspace import Kind, derived_id, new_id
from backend.store.server.connection import UNAVAILABLE
from backend.store.store import Store
from backend.telemetry.observed import current
from schemas.audit import Author
from schemas.keys import Scope
from service.callers import Caller, require_scope
from service.errors import DeadlineExceeded
from service.guard import Guard
from service.headers import NO_PREFERENCES, Preferences, check_note, read_headers, read_note, read_prefer
from service.process import Process
from service.scoring import ScoringContext
from service.settings import Settings
from service.shares import Streams

T = TypeVar("T")
_READING = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Context(ScoringContext):
    """The context of one request: its process, its caller, and the view of the store of the caller's tenant.

    It is the ``Requester`` of every use case in ``backend``.

    ``prefer`` holds the request's preferences. ``seed`` determines the ids of what a request with an idempotency key
    creates, so that a repeated request uses the same ids. ``note`` is why the caller makes a change.
    """

    process: Process
    prefer: Preferences = NO_PREFERENCES
    seed: str | None = None
    note: str | None = None

    @cached_property
    def store(self) -> Store:
        """The view of the store of the caller's tenant."""
        return Store.of(self.process.redis, self.caller.tenant, self.process.quotas, self.author)

    @property
    def author(self) -> Author:
        """The caller as the author of changes."""
        observed = current()
        return Author(
            actor=self.caller.actor, note=self.note, request_id=None if observed is None else observed.request_id
        )

    def noted(self, text: str) -> Context:
        """The same context with a note from a form; raises ``InvalidField``."""
        return replace(self, note=check_note(text))

    @property
    def prefers_job(self) -> bool:
        """Whether the caller prefers a job over an immediate response."""
        return self.prefer.respond_async

    def pause(self) -> None:
        """Give back what a request holds for its work, because it only waits from now on."""
        self.process.slots.give_back(self.scope)
        self.process.light.give_back(self.scope)
        self.process.memory.end_work(self.scope)

    async def draw(self, work: Callable[[], T]) -> T:
        """Run drawing work when it is this tenant's turn; raises ``Busy``, or ``DeadlineExceeded`` if it is late."""
        self.pause()  # the queue for drawing limits the remaining work

        def drawn() -> T:
            self.go_on()
            return work()

        return await self.process.drawing.draw(self.caller, drawn)

    def check_room(self) -> None:
        """Raise ``StoreFull`` if the caller's tenant may not store more."""
        self.process.budget.check(self.caller.tenant)

    def go_on(self) -> None:
        """Raise ``DeadlineExceeded`` if the request has already timed out, because further work would be wasted."""
        if Guard.is_over(self.scope):
            raise DeadlineExceeded("the response was not ready in time")

    @property
    def settings(self) -> Settings:
        """The settings of the service."""
        return self.process.settings

    @property
    def targets(self) -> Targets:
        """The allowed targets of webhooks."""
        return self.process.targets

    @property
    def watcher(self) -> Watcher:
        """Notifies waiting requests about changes of jobs."""
        return self.process.watcher

    @property
    def streams(self) -> Streams:
        """The event streams of this process."""
        return self.process.streams

    @property
    def who(self) -> str | None:
        """The name of the caller's API key; None without keys."""
        return self.caller.name

    def new_id(self, kind: Kind, number: int = 0) -> str:
        """Create the id of an object that this request creates; with a ``number`` if there are several of a kind."""
        if self.seed is None:
            return new_id(kind)
        return derived_id(kind, self.seed if number == 0 else f"{self.seed} {number}")

    def require_scope(self, scope: Scope) -> None:
        """Raise ``Forbidden`` unless the caller has a scope, which this request needs beside that of its call."""
        require_scope(self.caller, scope)

    def held_map(self, ref: str) -> HeldMap | None:
        """The map of a reference if it is in memory."""
        return self.process.maps.held(self.caller.tenant, ref, last_known=self._is_stale)

    @property
    def _is_stale(self) -> bool:
        """Whether the request is answered with what was last known of the store."""
        return "stale_seconds" in self.scope["state"]

    async def reach_map(self, ref: str) -> HeldMap | None:
        """Return the map of a reference if it is in memory, or None once it can be found; raises as ``reach``.

        A reference that is read again while the store does not respond leads to the map that it last led to.
        """
        if not await self.process.follow(self.caller.tenant, ref):
            self._answers_as_last_known()
        return await super().reach_map(ref)

    def _answers_as_last_known(self) -> bool:
        """Answer with what was last known of the store, if that may be used; returns whether."""
        process = self.process
        if process.last_known.usable:
            self.scope["state"]["stale_seconds"] = int(process.link.age)
        return self._is_stale

    async def reach(self) -> None:
        """Return once the store can be used; raises ``StoreUnavailable`` and ``UnsuitableStore``."""
        await self.process.reach()

    def find_map(self, ref: str) -> HeldMap:
        """The map of a reference, from memory or the store; raises ``UnknownMap``."""
        maps, tenant = self.process.maps, self.caller.tenant
        try:
            return maps.find(self.store, tenant, ref, last_known=self._is_stale)
        except UNAVAILABLE:  # the name may have changed since ``reach_map``
            held = maps.held(tenant, ref, last_known=True)
            if held is None or not self._answers_as_last_known():
                raise
            return held

    def map_versions(self, name: str) -> Sequence[int]:
        """The versions of the maps with a name."""
        return self.store.maps.versions(name)


async def context_of(request: Request) -> Context:
    """Create the context of a request. It is async because FastAPI would run a plain function in a thread."""
    process: Process = request.app.state.process
    state = request.scope["state"]
    caller: Caller = state["caller"]
    preferred = read_headers(request, b"prefer")
    prefer = read_prefer(preferred) if preferred else NO_PREFERENCES
    note = read_note(request) if request.method not in _READING else None
    return Context(process, caller, request.scope, prefer, state.get("seed"), note)


Here = Annotated[Context, Depends(context_of)]


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response; numpy arrays are serialized without conversion to lists."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), status, headers, "application/json")
