"""The stored reference of a monitor: the tally of a batch or of expired buckets."""

from __future__ import annotations

from typing import NamedTuple, cast

from redis import Redis
from redis.client import Pipeline

from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace
from backend.store.monitors.definitions import while_alive
from calibrant.monitoring.tally import Tally, from_bytes, merged
from schemas.monitors import MonitorRecord, StoredMonitor

#: A number in the state of a monitor: the first time bucket that is not in the tally of a span.
_FOLLOWING = "reference"


class Reference(NamedTuple):
    """The stored tally of the reference, if any; for a span it covers the buckets before ``following``."""

    tally: Tally | None
    following: int | None = None


def put_reference(redis: Redis, keys: Keyspace, uid: str, tally: Tally | None) -> None:
    """Replace the stored tally of a monitor, or delete it; raises ``UnknownMonitor``."""
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
    """The stored tally of a monitor's reference."""
    own = keys.monitor(uid)
    with redis.pipeline() as pipe:
        pipe.get(own.reference())
        pipe.hget(own.state(), _FOLLOWING)
        tally, following = pipe.execute()
    return Reference(None if tally is None else from_bytes(tally), None if following is None else int(following))


def add_to_reference(
    redis: Redis, keys: Keyspace, record: MonitorRecord, before: Reference, tally: Tally, following: int
) -> None:
    """Add the rows of the next buckets of a span to the tally stored ``before``; raises ``UnknownMonitor``.

    Does nothing if another process has added them, or if the reference has changed.
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

    # The number is written only together with the tally, so watching the tally is sufficient.
    while_alive(redis, keys, record.uid, write, key, keys.monitor_definitions())
