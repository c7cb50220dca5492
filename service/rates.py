"""Rate limits: the requests of each key in the current minute, synchronized between processes every 0.1 s.

A process admits a request based on the total of all processes at the last synchronization plus its own requests since
then. So a limit is exceeded by at most the requests that other processes admit in 0.1 s, and no request waits for the
store.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import NamedTuple

from backend.store.api_keys import WINDOW, add_requests
from backend.store.server.connection import UNAVAILABLE, AsyncRedis, connect_async, error_name

log = logging.getLogger(__name__)

#: Seconds between two synchronizations.
SETTLE_SECONDS = 0.1


class RequestAllowance(NamedTuple):
    """The state of a limit: ``remaining`` requests until ``reset`` seconds from now."""

    allowed: bool
    limit: int
    remaining: int
    reset: int

    def headers(self) -> dict[str, str]:
        """The fields of draft-ietf-httpapi-ratelimit-headers."""
        return {
            "RateLimit-Policy": f'"key";q={self.limit};w={WINDOW}',
            "RateLimit": f'"key";r={self.remaining};t={self.reset}',
        }


@dataclass
class _Count:
    window: int
    settled: int = 0
    pending: int = 0


class Rates:
    """The request counts of one process."""

    def __init__(self, redis_url: str) -> None:
        self._redis_url = redis_url
        self._counts: dict[str, _Count] = {}
        self._closed = False

    def admit(self, key_id: str, limit: int) -> RequestAllowance:
        """Count a request of a key, unless it has reached its limit."""
        now = time.time()
        window = int(now) // WINDOW
        count = self._counts.get(key_id)
        if count is None or count.window != window:
            count = self._counts[key_id] = _Count(window)
        left = limit - count.settled - count.pending
        if left > 0:
            count.pending += 1
        return RequestAllowance(left > 0, limit, max(left - 1, 0), (window + 1) * WINDOW - int(now))

    async def run(self) -> None:
        """Synchronize until closed or cancelled."""
        redis = connect_async(self._redis_url)
        try:
            while not self._closed:
                await asyncio.sleep(SETTLE_SECONDS)
                try:
                    await self._settle(redis)
                except (*UNAVAILABLE, OSError) as error:
                    log.debug("rates: not synchronized (%s)", error_name(error))
        finally:
            await redis.aclose()

    def close(self) -> None:
        """Make ``run`` end."""
        self._closed = True

    async def _settle(self, redis: AsyncRedis) -> None:
        self._forget(int(time.time()) // WINDOW)
        sent = {(key_id, c.window): c.pending for key_id, c in self._counts.items() if c.pending}
        if not sent:
            return
        totals = await add_requests(redis, sent)
        for (key_id, window), total in totals.items():
            count = self._counts[key_id]
            if count.window == window:
                count.settled = total
                count.pending -= sent[key_id, window]

    def _forget(self, window: int) -> None:
        """Drop the counts of past minutes, so that a key that was used once does not occupy memory forever."""
        for key_id in [key_id for key_id, count in self._counts.items() if count.window < window]:
            del self._counts[key_id]
