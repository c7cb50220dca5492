"""What one process of the API keeps: its connections, and in memory the keys and maps that it was told of."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool

from service.callers import Keyring
from service.guard import Places
from service.held_maps import HeldMaps
from service.metrics import Metrics
from service.rates import Rates
from service.settings import Settings
from service.slots import Slots
from storage.api_keys import ApiKeyStore
from storage.census import take_census
from storage.changes import Change
from storage.connection import check_durability, connect, connect_async
from storage.link import Link
from storage.watch import Watcher
from telemetry.tracing import open_tracer

#: Seconds that a start waits for the store.
_START_SECONDS = 5.0
#: Seconds that what listens to the store has to end.
_STOP_SECONDS = 2.0
#: Seconds that the store may take to answer when metrics are asked for.
_CENSUS_SECONDS = 1.0


class Process:
    """The parts that all requests of a process share.

    Raises ``MissingTelemetry`` where traces are asked for without the extra.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.quotas = settings.quotas
        self.tracer = open_tracer("calibrant-api", settings.otlp_endpoint, os.environ)
        self.redis = connect(settings.redis_url, traced=self.tracer is not None)
        self._counting = connect(settings.redis_url, timeout=_CENSUS_SECONDS)
        self.metrics = Metrics(lambda: take_census(self._counting), settings.max_queued_jobs)
        self.keyring = Keyring()
        self.maps = HeldMaps(settings.held_maps)
        self.places = Places(settings.max_heavy_requests)
        self.streams = Slots(settings.max_event_streams)
        self._told = connect_async(settings.redis_url)
        self.watcher = Watcher(self._told)
        self.rates = Rates(settings.redis_url)
        self.link = Link(settings.redis_url, opened=self._read_anew, changed=self._hear)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the link and settle the rates while the service runs."""
        await run_in_threadpool(check_durability, self.redis)
        parts = (self.link, self.rates, self.watcher)
        tasks = [asyncio.create_task(part.run()) for part in parts]
        try:
            await self.link.settled(_START_SECONDS)
            yield
        finally:
            for part in parts:
                part.close()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_STOP_SECONDS)
            await self._told.aclose()
            self.redis.close()
            self._counting.close()
            if self.tracer is not None:
                await run_in_threadpool(self.tracer.close)

    async def _read_anew(self) -> None:
        self.maps.clear()
        await self._read_keys()

    async def _hear(self, change: Change) -> None:
        if change.what == "keys":
            await self._read_keys()
        else:
            self.maps.hear(change)

    async def _read_keys(self) -> None:
        self.keyring.read(await run_in_threadpool(ApiKeyStore(self.redis).all))
