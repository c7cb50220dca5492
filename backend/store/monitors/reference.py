"""The reference of a monitor: the tally that windows are compared with, of a batch or of expired buckets."""

from __future__ import annotations

from typing import NamedTuple, cast

from redis import Redis
from redis.client import Pipeline

from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace
from backend.store.monitors.definitions import while_alive
from calibrant.monitoring.tally import Tally, from_bytes, merged
from schemas.monitors import MonitorRecord, StoredMonitor

#: Among the numbers of a monitor: the first time bucket that is not in the tally of a span of time.
_FOLLOWING = "reference"


class Reference(NamedTuple):
    """What is kept with a monitor, if anything; of a span of time the buckets before ``following``."""

    tally: Tally | None
    following: int | None = None


def put_reference(redis: Redis, keys: Keyspace, uid: str, tally: Tally | None) -> None:
    """Keep a tally with a monitor in the place of any other, or none; raises ``UnknownMonitor``."""
    key, state = keys.monitor(uid).reference(), keys.monitor(uid).state()

    def write(pipe: Pipeline) -> None:
        pipe.multi()
        pipe.hdel(state, _FOLLOWING)
        if tally is None:
            pipe.unlink(key)
        else:
            pipe.set(key, tally.to_bytes())

    while_alive(redis, keys, uid, write)


def read_reference(redis: Redis, keys: Keyspace, uid: str) -> Reference:
    """What is kept with a monitor."""
    own = keys.monitor(uid)
    with redis.pipeline() as pipe:
        pipe.get(own.reference())
        pipe.hget(own.state(), _FOLLOWING)
        tally, following = pipe.execute()
    return Reference(None if tally is None else from_bytes(tally), None if following is None else int(following))


def add_to_reference(
    redis: Redis, keys: Keyspace, record: MonitorRecord, before: Reference, tally: Tally, following: int
) -> None:
    """Add the rows of the next buckets of a span to what was kept ``before``; raises ``UnknownMonitor``.

    Nothing is done where another has added them, or where the monitor is compared with something else by now.
    """
    key, state = keys.monitor(record.uid).reference(), keys.monitor(record.uid).state()
    known = [] if before.tally is None else [before.tally]

    def write(pipe: Pipeline) -> None:
        stored_following = cast(bytes | None, pipe.hget(state, _FOLLOWING))
        stored = cast(bytes | None, pipe.hget(keys.monitor_definitions(), record.name))
        same = stored is not None and read_stored(StoredMonitor, stored).reference == record.reference
        pipe.multi()
        if same and (None if stored_following is None else int(stored_following)) == before.following:
            pipe.set(key, merged([*known, tally]).to_bytes())
            pipe.hset(state, _FOLLOWING, str(following))

    # The number is written with the tally alone, so that watching this is enough.
    while_alive(redis, keys, record.uid, write, key, keys.monitor_definitions())
