"""The link to the store: a subscription through which a process learns of changes to cached data."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import orjson
from redis.asyncio.client import PubSub
from redis.client import Pipeline
from redis.exceptions import RedisError

from backend.store.errors import StorageError
from backend.store.keyspace import Shared
from backend.store.server.connection import StoreRefuses, StoreUnavailable, connect_async, error_name

# --- Messages about changes to cached data, published in the transaction of the change

What = Literal["keys", "map"]


@dataclass(frozen=True)
class Invalidation:
    """What changed: the API keys, or for a tenant the meaning of a ``name`` or the map with an ``id``."""

    what: What
    tenant: str | None = None
    name: str | None = None
    id: str | None = None


def announce(pipe: Pipeline, change: Invalidation) -> None:
    """Publish a change in the transaction that makes it."""
    pipe.publish(Shared.changes(), orjson.dumps(change))


def read_change(data: bytes) -> Invalidation | None:
    """Parse a message; None if it comes from a newer version and is not understood."""
    try:
        return Invalidation(**orjson.loads(data))
    except (orjson.JSONDecodeError, TypeError):
        return None


# --- The link: a subscription to these messages, and whether the store can be reached
#
# A change is published in the transaction that makes it. A ping that is answered later on the same connection proves
# that every earlier message has arrived. So cached data is at most as old as the last answered ping.

log = logging.getLogger(__name__)

#: Seconds without an answered ping after which cached data must not be used.
STALE_SECONDS = 1.0
_PING_SECONDS = 0.2
#: The most messages that are read before they are handled.
_MOST_MESSAGES = 1000
#: A connection attempt, half a second by default, and the pause after it take less than a second, so that the return of
#: the store is noticed within one.
_BACKOFF_SECONDS = (0.02, 0.3)


class Link:
    """Receives changes until it is closed.

    ``opened`` runs on every new connection before the link counts as fresh, to reload what may have changed in the
    meantime. It raises a ``StorageError`` for an unsuitable store, which is kept as ``refusal`` while that is the case.
    ``changed`` is called with each change. After ``silence`` seconds without an answer the link is down, and half of
    them is the ``patience`` with which a request waits for it; cached data is as old as before, at most.
    """

    #: Whether the store was ever reached and found suitable.
    reached = False
    refusal: StorageError | None = None

    def __init__(
        self,
        url: str,
        *,
        opened: Callable[[], Awaitable[None]],
        changed: Callable[[Invalidation], Awaitable[None]],
        silence: float = STALE_SECONDS,
    ) -> None:
        self.silence, self.patience = silence, silence / 2
        self._redis = connect_async(url, timeout=silence, connect_timeout=self.patience)
        self._opened = opened
        self._changed = changed
        self._proved = float("-inf")
        self._beat = asyncio.Event()
        #: The connection while it is used, and when each of its pings without an answer was sent.
        self._channel: PubSub | None = None
        self._pings: deque[float] = deque()
        self._pinging = asyncio.Lock()
        self._closed = False
        self._open = False
        self._logged_cause: str | None = None

    def check_open(self) -> None:
        """Raise ``StoreUnavailable`` if the link is known to be down, because a command would only wait.

        Unlike ``fresh`` it does not depend on the clock, so a blocked event loop does not cause errors.
        """
        if not self._open:
            raise StoreUnavailable("Redis cannot be reached")

    @property
    def fresh(self) -> bool:
        """Whether every change older than a second has been received."""
        return self._open and self.age < STALE_SECONDS

    @property
    def age(self) -> float:
        """Seconds since the moment until which every change has been received; infinite if that is unknown."""
        return time.monotonic() - self._proved

    def resume(self, age: float) -> None:
        """Continue from what an earlier process had received ``age`` seconds ago."""
        self._proved = time.monotonic() - age

    async def settled(self, patience: float) -> bool:
        """Whether the link is fresh now or becomes so within ``patience`` seconds."""
        until = time.monotonic() + patience
        # After a blocked event loop the first answer is that of an old ping.
        while not self.fresh and self.refusal is None and (left := until - time.monotonic()) > 0.0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._beat.wait(), left)
        return self.fresh

    async def catch_up(self) -> None:
        """Return once every change made so far was handled, or ``patience`` seconds later.

        A caller whose request made a change finds it in this process afterwards.
        """
        moment = time.monotonic()
        channel = self._channel
        if channel is None or not self._open:
            return
        with contextlib.suppress(RedisError, OSError):  # the connection was lost, and the next one reads all again
            await self._ping(channel)
        while self._open and self._proved < moment and (left := moment + self.patience - time.monotonic()) > 0.0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._beat.wait(), left)

    async def run(self) -> None:
        """Receive changes, and reconnect whenever the connection is lost; ends when closed or cancelled."""
        pause = _BACKOFF_SECONDS[0]
        try:
            while not self._closed:
                try:
                    async with self._redis.pubsub() as channel:
                        await channel.subscribe(Shared.changes())
                        try:
                            await self._listen(channel)
                        finally:
                            self._channel = None  # a ping would open it again
                except (RedisError, StorageError, OSError) as error:
                    if self._open:
                        pause = _BACKOFF_SECONDS[0]
                    self._lose(error)
                    await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
                    pause = min(2 * pause, _BACKOFF_SECONDS[1])
        finally:
            await self._redis.aclose()

    def close(self) -> None:
        """Make ``run`` end, even if a cancellation is lost in a read that has just timed out."""
        self._closed = True

    async def _listen(self, channel: PubSub) -> None:
        # Reads without an answer are counted instead of their seconds: in those, an event loop that was blocked looks
        # like a store that does not answer, because the time of a read is over before its answer is looked at.
        opened, silent = False, 0
        async with self._pinging:
            self._channel = channel
            self._pings.clear()
        await self._ping(channel)
        pinged_at = time.monotonic()
        while not self._closed:
            message = await _next_message(channel)
            silent = silent + 1 if message is None else 0
            if message is not None and message["type"] == "message":
                message = await self._follow(channel, message)
            if message is not None and message["type"] == "pong" and self._pings:
                moment = self._pings.popleft()
                if not opened:
                    await self._opened()
                    opened = True
                    self._find()
                self._prove(moment)
            if self._pings and silent >= self.silence / _PING_SECONDS:
                raise ConnectionError("a ping was not answered")
            if not self._pings and time.monotonic() - pinged_at >= _PING_SECONDS:
                pinged_at, silent = time.monotonic(), 0
                await self._ping(channel)

    async def _ping(self, channel: PubSub) -> None:
        """Send a ping; pings are answered in the order in which they were sent."""
        async with self._pinging:
            if channel is self._channel:
                self._pings.append(time.monotonic())
                await channel.ping()

    async def _follow(self, channel: PubSub, message: dict[str, Any] | None) -> dict[str, Any] | None:
        """Handle the changes that have arrived, equal ones once, and return the message after them, if there is one.

        A change is read from the store when it is handled, so that many of them must not be read one after another:
        meanwhile no ping would be answered.
        """
        changes: dict[Invalidation, None] = {}
        messages = 0
        while message is not None and message["type"] == "message":
            messages += 1
            change = read_change(message["data"])
            if change is not None:
                changes[change] = None
            message = None if messages == _MOST_MESSAGES else await _next_message(channel, 0.0)
        for change in changes:
            await self._changed(change)
        return message

    def _find(self) -> None:
        if self._logged_cause is not None:
            log.info("store: connection restored")
        self._open = self.reached = True
        self.refusal = self._logged_cause = None

    def _lose(self, error: RedisError | StorageError | OSError) -> None:
        """Record that the link is down; each cause is logged once, not at every attempt."""
        self._open = False
        self.refusal = error if isinstance(error, StorageError) else None
        cause = error.detail if isinstance(error, StorageError) else error_name(error)
        if cause != self._logged_cause:
            log.log(logging.WARNING if self.refusal is None else logging.ERROR, "store: connection lost (%s)", cause)
        self._logged_cause = cause
        if self.refusal is not None:
            self._beat.set()
            self._beat.clear()

    def _prove(self, moment: float) -> None:
        """Record that everything published before ``moment`` has been received, and wake waiting tasks."""
        self._proved = moment
        self._beat.set()
        self._beat.clear()


async def _next_message(channel: PubSub, seconds: float = _PING_SECONDS) -> dict[str, Any] | None:
    """The next message, if one arrives in time. A server that cannot save rejects pings, which also answers them."""
    try:
        return cast(dict[str, Any] | None, await channel.get_message(timeout=seconds))
    except StoreRefuses as refusal:
        if refusal.kind != "MISCONF":
            raise
        return {"type": "pong"}
