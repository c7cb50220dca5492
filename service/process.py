"""The shared state of one API process: connections, and API keys and maps in memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeVar

from starlette.concurrency import run_in_threadpool

from backend.held_maps import HeldMaps
from backend.store.api_keys import ApiKeyStore
from backend.store.budget import Budget
from backend.store.census import take_census
from backend.store.errors import UnsuitableStore
from backend.store.jobs.store import Watcher
from backend.store.link import STALE_SECONDS, Invalidation, Link
from backend.store.server.connection import (
    StoreRefuses,
    StoreUnavailable,
    check_durability,
    check_master,
    connect,
    connect_async,
)
from backend.store.sessions import SessionStore
from backend.telemetry.tracing import open_tracer
from service.callers import LOCAL, Caller, Keyring
from service.errors import busy
from service.guard import MeanPace, Turns
from service.issuer import IssuerMetrics, open_issuer
from service.last_known import LastKnown
from service.metrics import StoreMetrics
from service.rates import Rates
from service.scoring import ScoringProcess
from service.sessions import Sessions
from service.settings import Settings
from service.shares import Exhausted, Shares, Spools, Streams

if TYPE_CHECKING:
    from backend.monitors.answers import MonitorCache

# --- The drawing queue: pictures are drawn one at a time in a thread, because drawing holds the GIL

T = TypeVar("T")

#: Maximum number of waiting requests; waiting uses no thread.
MOST_WAITING = 100


class DrawingQueue:
    """Runs the drawing work of a process, one picture at a time; tenants take turns."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._shares = Shares(most)
        self._turns = Turns(1)
        self._pace = MeanPace()

    async def draw(self, caller: Caller, work: Callable[[], T]) -> T:
        """Run drawing work when it is its turn; raises ``Busy`` if too much is waiting."""
        try:
            self._shares.take(caller)
        except Exhausted as full:
            detail = f"{full.holder} has reached the limit of {full.most} pictures waiting to be drawn"
            raise busy(detail, self._pace.seconds(full.most, 1), of_tenant=full.of_tenant) from full
        try:
            await self._turns.take(caller)
            began = time.monotonic()
            try:
                return await run_in_threadpool(work)
            finally:
                self._pace.add(time.monotonic() - began)
                self._turns.give_back(caller)
        finally:
            self._shares.give_back(caller)

    async def warm(self) -> None:
        """Import what drawing needs, so that the first picture is as fast as the others."""
        await self.draw(LOCAL, _load)


def _load() -> None:
    from calibrant.plots import engine
    from calibrant.reports import html

    html.load()
    engine.load()


# --- The shared state of one API process: connections, and API keys and maps in memory

#: Seconds that the start waits for the store; afterwards the service starts without it.
_START_SECONDS = 1.0
#: Seconds that background tasks have to end.
_STOP_SECONDS = 2.0
#: Seconds from the first page until the drawing code is loaded.
_PICTURES_LATER = 1.0
#: Seconds that the store may take to respond to a scrape of the metrics.
_CENSUS_SECONDS = 1.0


class Process(ScoringProcess):
    """The parts that all requests of a process share.

    With ``needs_key`` a store without API keys is rejected. Raises ``MissingTelemetry`` if tracing is configured
    without the extra, ``UnreadableUrl`` for an invalid store URL, and ``InvalidTargets`` for invalid webhook hosts or
    networks, and ``InvalidIssuer`` for the settings of an issuer.
    """

    settings: Settings
    has_pages: ClassVar[bool] = True

    def __init__(self, settings: Settings, *, needs_key: bool = False) -> None:
        self._needs_key = needs_key
        self.link = Link(
            settings.redis_url,
            opened=self._read_anew,
            changed=self._handle_change,
            # As long as by default, and longer only where requests may wait longer for the store.
            silence=max(settings.store_timeout / 3, STALE_SECONDS),
        )
        self.targets = settings.targets
        self.tracer = open_tracer("calibrant-api", settings.otlp_endpoint, os.environ)
        self.redis = connect(
            settings.redis_url,
            timeout=settings.store_timeout,
            traced=self.tracer is not None,
            gate=self.link.check_open,
        )
        self._counting = connect(settings.redis_url, timeout=_CENSUS_SECONDS, gate=self.link.check_open)
        # For the link itself, which opens the gate of the other connections.
        self._probing = connect(settings.redis_url, timeout=self.link.silence)
        self.issuer = open_issuer(settings)
        self.keyring = Keyring(has_issuer=self.issuer is not None)
        # Without keys there is one tenant, which has the whole budget.
        self.budget = Budget(
            settings.redis_url, settings.store_budget, lambda: bool(self.keyring), settings.store_volume
        )
        self.quotas = replace(settings.quotas, budget=self.budget)
        census = StoreMetrics(lambda: take_census(self._counting), settings.max_queued_jobs, self.budget)
        issuer = self.issuer
        tokens = () if issuer is None else (IssuerMetrics(issuer.outcomes, lambda: issuer.age),)
        super().__init__(settings, census, *tokens)
        self.maps = HeldMaps(settings.held_maps, settings.preloaded)
        self.last_known = LastKnown(self.link, self.keyring, self.maps, settings, needs_key=needs_key, issuer=issuer)
        self.spools = Spools(settings.max_spool_bytes)
        self.streams = Streams(settings.max_event_streams)
        self.drawing = DrawingQueue()
        #: Set by the first request for a page.
        self.visited = asyncio.Event()
        #: Notifies waiting requests that the references of a name were read again.
        self._followed = asyncio.Event()
        self._notifications = connect_async(settings.redis_url, timeout=self.link.silence)
        self.watcher = Watcher(self._notifications)
        self.rates = Rates(settings.redis_url)
        session_store = SessionStore(self.redis, idle=settings.session_idle, life=settings.session_life)
        self.sessions = Sessions(session_store, self.keyring)

    @cached_property
    def monitors(self) -> MonitorCache:
        """What answers about monitors keep in memory."""
        from backend.monitors.answers import MonitorCache

        return MonitorCache()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the background tasks while the service runs."""
        await asyncio.to_thread(self.last_known.restore)
        issuer = () if self.issuer is None else (self.issuer,)
        parts = (self.link, self.rates, self.watcher, self.budget, self.last_known, *issuer)
        tasks = [asyncio.create_task(part.run()) for part in parts]
        try:
            await self.link.settled(_START_SECONDS)
            # Not awaited, so that requests are answered meanwhile.
            warming = asyncio.create_task(self._warm())
            tasks.append(warming)
            try:
                yield
            finally:
                warming.cancel()
        finally:
            for part in parts:
                part.close()
            # Each task ends soon on its own; cancelling one during a TLS handshake would leave a connection that uvloop
            # finds open when it closes.
            _, late = await asyncio.wait(tasks, timeout=_STOP_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_STOP_SECONDS)
            await self._notifications.aclose()
            self.redis.close()
            self._counting.close()
            self._probing.close()
            if self.tracer is not None:
                await run_in_threadpool(self.tracer.close)

    async def _warm(self) -> None:
        """Load the drawing code after the first page, which often leads to a picture.

        Importing it blocks the interpreter for half a second; what the page requests goes before it.
        """
        await self.visited.wait()
        await asyncio.sleep(_PICTURES_LATER)
        await self.drawing.warm()

    @property
    def is_stale(self) -> bool:
        """Whether the store is unavailable, but maps in memory can be applied."""
        return not self.link.fresh and self.last_known.can_score

    async def reach(self) -> None:
        """Return once the store is known to respond; otherwise raise ``UnsuitableStore`` or ``StoreUnavailable``.

        Uses no thread, because the link checks the store continuously.
        """
        if not await self.link.settled(self.link.patience):
            raise self.link.refusal or StoreUnavailable("Redis cannot be reached")

    async def follow(self, tenant: str, ref: str) -> bool:
        """Wait until a reference is not read again any more, if that is soon; returns whether."""
        until = time.monotonic() + self.link.patience
        while (is_changing := self.maps.is_changing(tenant, ref)) and (left := until - time.monotonic()) > 0.0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._followed.wait(), left)
        return not is_changing

    async def _read_anew(self) -> None:
        # Not in the thread pool of the requests, which may all be waiting for an unresponsive store.
        await asyncio.to_thread(self._check)
        await self._read_keys()
        if self._needs_key and not self.keyring:
            raise UnsuitableStore(
                "listening on a non-loopback address needs an API key; create one with calibrant keys create"
            )
        await asyncio.to_thread(self.maps.revalidate, self._probing)

    def _check(self) -> None:
        check_master(self._probing)
        check_durability(self._probing)
        with contextlib.suppress(StoreRefuses):  # a full store keeps what an earlier process stored
            ApiKeyStore(self._probing).set_tokens(None if self.issuer is None else self.issuer.rules.mapping)

    async def _handle_change(self, change: Invalidation) -> None:
        if change.what == "keys":
            await self._read_keys()
        elif self.maps.concerns(change):
            try:
                await asyncio.to_thread(self.maps.follow, self._probing, change)
            finally:
                self._followed.set()
                self._followed.clear()

    async def _read_keys(self) -> None:
        self.keyring.read(await asyncio.to_thread(ApiKeyStore(self._probing).all))
