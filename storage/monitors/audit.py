"""What was done about a monitor, step by step, and by whom."""

from __future__ import annotations

from redis import Redis
from redis.client import Pipeline

from storage.keyspace import Keyspace
from storage.monitors.alive import while_alive
from storage.monitors.journal import Journal, Json
from storage.pages import Asked, Page


class Audit:
    """The audit of one monitor."""

    def __init__(self, redis: Redis, keys: Keyspace, uid: str) -> None:
        self._redis = redis
        self._keys = keys
        self._uid = uid
        own = keys.monitor(uid)
        self._entries = Journal(redis, own.audit(), own.state())

    def append(self, *entries: Json) -> None:
        """Add entries, the oldest first; raises ``UnknownMonitor``."""

        def write(pipe: Pipeline) -> None:
            pipe.multi()
            self._entries.append(pipe, entries)

        while_alive(self._redis, self._keys, self._uid, write)

    def page(self, asked: Asked) -> Page[Json]:
        """Entries, newest first; raises ``InvalidCursor``."""
        return self._entries.page(asked)
