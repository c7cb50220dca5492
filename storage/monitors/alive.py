"""Writes to what belongs to a monitor, which come to nothing once it is deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from redis import Redis
from redis.client import Pipeline

from storage.keyspace import Keyspace
from storage.monitors.definitions import unknown_monitor
from storage.transactions import transact

Result = TypeVar("Result")


def while_alive(redis: Redis, keys: Keyspace, uid: str, write: Callable[[Pipeline], Result], *watched: str) -> Result:
    """Run ``write`` as ``transact`` does, of a monitor that is there; raises ``UnknownMonitor``."""

    def guarded(pipe: Pipeline) -> Result:
        if not pipe.hexists(keys.monitor_names(), uid):
            raise unknown_monitor()
        return write(pipe)

    return transact(redis, guarded, keys.monitor_names(), *watched)
