"""The tally that a monitor's windows are compared with, where it is none of its own."""

from __future__ import annotations

from typing import cast

from redis import Redis
from redis.client import Pipeline

from calibrant.tallies.tally import Tally, from_bytes
from storage.keyspace import Keyspace
from storage.monitors.alive import while_alive


def put_reference(redis: Redis, keys: Keyspace, uid: str, tally: Tally | None) -> None:
    """Keep a tally with a monitor, or none; raises ``UnknownMonitor``."""
    key = keys.monitor(uid).reference()

    def write(pipe: Pipeline) -> None:
        pipe.multi()
        if tally is None:
            pipe.unlink(key)
        else:
            pipe.set(key, tally.to_bytes())

    while_alive(redis, keys, uid, write)


def read_reference(redis: Redis, keys: Keyspace, uid: str) -> Tally | None:
    """The tally that is kept with a monitor, if there is one."""
    found = cast(bytes | None, redis.get(keys.monitor(uid).reference()))
    return None if found is None else from_bytes(found)
