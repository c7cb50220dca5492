"""What one process of the API keeps: its connections, and in memory the keys and maps that it knows."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace

from starlette.concurrency import run_in_threadpool

from backend.held_maps import HeldMaps
from backend.monitors.answers import Kept
from backend.store.api_keys import ApiKeyStore
from backend.store.budget import Budget
from backend.store.census import take_census
from backend.store.errors import UnsuitableStore
from backend.store.jobs.store import Watcher
from backend.store.link import STALE_SECONDS, Change, Link
from backend.store.server.connection import StoreAway, check_durability, check_master, connect, connect_async
from backend.store.sessions import SessionStore
from backend.telemetry.tracing import open_tracer
from service.access import PATIENCE
from service.callers import Keyring, Sessions
from service.easel import Easel
from service.guard import Bodies, Slots
from service.metrics import Metrics
from service.rates import Rates
from service.settings import Settings
from service.shares import Addresses, Spools, Streams
from service.web.environment import load

#: Seconds that a start waits for the store; without it the service starts all the same.
_START_SECONDS = 1.0
#: Seconds that what listens to the store has to end.
_STOP_SECONDS = 2.0
#: Seconds from the start to the loading of what draws.
_PICTURES_LATER = 1.0
#: Seconds that the store may take to answer when metrics are scraped.
_CENSUS_SECONDS = 1.0


class Process:
    """The parts that all requests of a process share.

    ``needs_key`` refuses a store without API keys. Raises ``MissingTelemetry`` if traces are configured without the
    extra, ``UnreadableUrl`` for a URL that names no store, ``InvalidTargets`` for hosts or networks that are none.
    """

    def __init__(self, settings: Settings, *, needs_key: bool = False) -> None:
        self.settings = settings
        self._needs_key = needs_key
        self.link = Link(settings.redis_url, opened=self._read_anew, changed=self._hear)
        self.targets = settings.targets
        self.tracer = open_tracer("calibrant-api", settings.otlp_endpoint, os.environ)
        self.redis = connect(
            settings.redis_url,
            timeout=settings.store_timeout,
            traced=self.tracer is not None,
            gate=self.link.check_open,
        )
        self._counting = connect(settings.redis_url, timeout=_CENSUS_SECONDS, gate=self.link.check_open)
        # Of the link itself: it opens the others' gate.
        self._probing = connect(settings.redis_url, timeout=STALE_SECONDS)
        self.addresses = Addresses(settings.max_connections_per_address, settings.trusted_proxies)
        self.keyring = Keyring()
        # Without keys all that is stored is one tenant's, which has the whole budget.
        self.budget = Budget(settings.redis_url, settings.store_budget, lambda: bool(self.keyring))
        self.quotas = replace(settings.quotas, budget=self.budget)
        self.metrics = Metrics(lambda: take_census(self._counting), settings.max_queued_jobs, self.budget)
        self.maps = HeldMaps(settings.held_maps)
        self.monitors = Kept()
        self.slots = Slots(settings.max_heavy_requests)
        self.bodies = Bodies(settings)
        self.spools = Spools(settings.max_spool_bytes)
        self.streams = Streams(settings.max_event_streams)
        self.easel = Easel()
        self._told = connect_async(settings.redis_url, timeout=STALE_SECONDS)
        self.watcher = Watcher(self._told)
        self.rates = Rates(settings.redis_url)
        kept = SessionStore(self.redis, idle=settings.session_idle, life=settings.session_life)
        self.sessions = Sessions(kept, self.keyring)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the link and settle the rates while the service runs."""
        parts = (self.link, self.rates, self.watcher, self.budget)
        tasks = [asyncio.create_task(part.run()) for part in parts]
        try:
            await self.link.settled(_START_SECONDS)
            # Not waited for: requests are answered meanwhile.
            warming = asyncio.create_task(self._warm())
            tasks.append(warming)
            try:
                yield
            finally:
                warming.cancel()
        finally:
            for part in parts:
                part.close()
            # Each ends by itself soon; one that is cancelled while it connects by TLS leaves a connection that uvloop
            # finds open when it closes.
            _, late = await asyncio.wait(tasks, timeout=_STOP_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_STOP_SECONDS)
            await self._told.aclose()
            self.redis.close()
            self._counting.close()
            self._probing.close()
            if self.tracer is not None:
                await run_in_threadpool(self.tracer.close)

    async def _warm(self) -> None:
        """Load what the first visitor would else wait for, the pages before the pictures on them."""
        await asyncio.to_thread(load)
        # What draws takes half a second of the interpreter: whoever opens the page as soon as it is there goes before.
        await asyncio.sleep(_PICTURES_LATER)
        await self.easel.warm()

    async def reach(self) -> None:
        """Return once the store is known to answer; raises ``UnsuitableStore`` or ``StoreAway`` where it is not soon.

        No thread is taken: the link asks the store all the time.
        """
        if not await self.link.settled(PATIENCE):
            raise self.link.refusal or StoreAway("the store is away")

    async def _read_anew(self) -> None:
        # Not in the pool of threads of the requests, which may all wait for a store that is silent.
        await asyncio.to_thread(self._check)
        self.maps.clear()
        await self._read_keys()
        if self._needs_key and not self.keyring:
            raise UnsuitableStore("any address but loopback needs an API key; make one with calibrant keys create")

    def _check(self) -> None:
        check_master(self._probing)
        check_durability(self._probing)

    async def _hear(self, change: Change) -> None:
        if change.what == "keys":
            await self._read_keys()
        else:
            self.maps.hear(change)

    async def _read_keys(self) -> None:
        self.keyring.read(await asyncio.to_thread(ApiKeyStore(self._probing).all))
