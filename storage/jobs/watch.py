"""Waiting for changes of jobs: one subscription a process, however many wait, and no thread for any."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from redis.asyncio import Redis

from storage.keyspace import Shared
from storage.server.connection import UNAVAILABLE, kind_of

log = logging.getLogger(__name__)

#: Seconds after which a lost subscription is tried again.
_AGAIN_SECONDS = 0.5
#: Seconds of silence after which the connection is looked after.
_LISTEN_SECONDS = 0.2


class Watcher:
    """Wakes those who wait for a key of ``Shared.job_changes``.

    What was told while the subscription was away wakes all, once it is back.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self.closed = False

    async def run(self) -> None:
        """Listen until closed or cancelled."""
        while not self.closed:
            try:
                await self._listen()
            except UNAVAILABLE as error:
                # The link to the store tells it, once; here it would be told at every attempt.
                log.debug("watch: store away: %s", kind_of(error))
            if not self.closed:
                await asyncio.sleep(_AGAIN_SECONDS)

    def close(self) -> None:
        """Wake all for the last time: ``closed`` tells them to wait no more."""
        self.closed = True
        self._wake_all()

    @contextlib.contextmanager
    def waiting(self, key: str) -> Iterator[asyncio.Event]:
        """An event that is set at every change of ``key``; begun before the first look, no change is missed."""
        event = asyncio.Event()
        events = self._waiting.setdefault(key, set())
        events.add(event)
        try:
            yield event
        finally:
            events.discard(event)
            if not events and self._waiting.get(key) is events:
                del self._waiting[key]

    async def pause(self, changed: asyncio.Event, seconds: float) -> None:
        """Wait until ``changed`` is set, at most ``seconds``."""
        if not self.closed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), seconds)

    async def _listen(self) -> None:
        async with self._redis.pubsub() as pubsub:
            await pubsub.subscribe(Shared.job_changes())
            self._wake_all()
            while not self.closed:
                message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=_LISTEN_SECONDS)
                if message is not None:
                    for event in self._waiting.get(message["data"].decode(), ()):
                        event.set()

    def _wake_all(self) -> None:
        for events in self._waiting.values():
            for event in events:
                event.set()
