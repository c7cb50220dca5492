"""What one process of the API keeps: its connections, and in memory the keys and maps that it was told of."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool

from service.callers import Keyring
from service.guard import Places
from service.held_maps import HeldMaps
from service.rates import Rates
from service.settings import Settings
from storage.api_keys import ApiKeyStore
from storage.changes import Change
from storage.connection import check_durability, connect
from storage.link import Link

#: Seconds that a start waits for the store.
_START_SECONDS = 5.0


class Process:
    """The parts that all requests of a process share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.redis = connect(settings.redis_url)
        self.keyring = Keyring()
        self.maps = HeldMaps(settings.held_maps)
        self.places = Places(settings.max_heavy_requests)
        self.rates = Rates(settings.redis_url)
        self.link = Link(settings.redis_url, opened=self._read_anew, changed=self._hear)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the link and settle the rates while the service runs."""
        await run_in_threadpool(check_durability, self.redis)
        tasks = [asyncio.create_task(self.link.run()), asyncio.create_task(self.rates.run())]
        try:
            await self.link.settled(_START_SECONDS)
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.redis.close()

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
