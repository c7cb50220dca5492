"""The stored reference of a monitor: the tally, and a reservoir, of a batch or of expired buckets."""

from __future__ import annotations

from typing import NamedTuple, cast

from redis import Redis
from redis.client import Pipeline

from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace
from backend.store.monitors.definitions import while_alive
from calibrant.monitoring import reservoir
from calibrant.monitoring.reservoir import Reservoir, together
from calibrant.monitoring.tally import Tally, from_bytes, merged
from schemas.monitors import MonitorRecord, StoredMonitor

#: A number in the state of a monitor: the first time bucket that is not in the tally of a span.
_FOLLOWING = "reference"


class StoredReference(NamedTuple):
    """The stored tally of the reference, if any; for a span it covers the buckets before ``following``."""

    tally: Tally | None
    following: int | None = None


def write_reference(
    pipe: Pipeline, keys: Keyspace, uid: str, tally: Tally | None, vectors: Reservoir | None = None
) -> None:
    """Queue the commands that replace the stored tally and reservoir of a monitor, or delete them.

    They belong to the transaction that stores the definition, so that it never has the tally of another reference.
    """
    own = keys.monitor(uid)
    pipe.hdel(own.state(), _FOLLOWING)
    if tally is None:
        pipe.unlink(own.reference())
    else:
        pipe.set(own.reference(), tally.to_bytes())
    if vectors is None:
        pipe.unlink(own.reference_vectors())
    else:
        pipe.set(own.reference_vectors(), vectors.to_bytes())


def read_reference(redis: Redis, keys: Keyspace, uid: str) -> StoredReference:
    """The stored tally of a monitor's reference."""
    own = keys.monitor(uid)
    with redis.pipeline() as pipe:
        pipe.get(own.reference())
        pipe.hget(own.state(), _FOLLOWING)
        tally, following = pipe.execute()
    return StoredReference(None if tally is None else from_bytes(tally), None if following is None else int(following))


def read_reference_vectors(redis: Redis, keys: Keyspace, record: MonitorRecord) -> Reservoir:
    """The stored reservoir of a monitor's reference, which may be empty."""
    stored = cast(bytes | None, redis.get(keys.monitor(record.id).reference_vectors()))
    return Reservoir.empty(record.n_classes or 0) if stored is None else reservoir.from_bytes(stored)


def add_reference_vectors(redis: Redis, keys: Keyspace, record: MonitorRecord, rows: Reservoir) -> None:
    """Add rows of a span to the stored reservoir, in which each counts once; raises ``UnknownMonitor``.

    Does nothing if the reference has changed.
    """
    key, size = keys.monitor(record.id).reference_vectors(), record.reservoir or 0

    def write(pipe: Pipeline) -> None:
        stored = cast(bytes | None, pipe.get(key))
        same = _same_reference(pipe, keys, record)
        pipe.multi()
        if same:
            before = [] if stored is None else [reservoir.from_bytes(stored)]
            pipe.set(key, together([*before, rows], size).to_bytes())

    while_alive(redis, keys, record.id, write, key, keys.monitor_definitions())


def add_to_reference(
    redis: Redis, keys: Keyspace, record: MonitorRecord, before: StoredReference, tally: Tally, following: int
) -> None:
    """Add the rows of the next buckets of a span to the tally stored ``before``; raises ``UnknownMonitor``.

    Does nothing if another process has added them, or if the reference has changed.
    """
    key, state = keys.monitor(record.id).reference(), keys.monitor(record.id).state()
    known = [] if before.tally is None else [before.tally]

    def write(pipe: Pipeline) -> None:
        stored_following = cast(bytes | None, pipe.hget(state, _FOLLOWING))
        same = _same_reference(pipe, keys, record)
        pipe.multi()
        if same and (None if stored_following is None else int(stored_following)) == before.following:
            pipe.set(key, merged([*known, tally]).to_bytes())
            pipe.hset(state, _FOLLOWING, str(following))

    # The number is written only together with the tally, so watching the tally is sufficient.
    while_alive(redis, keys, record.id, write, key, keys.monitor_definitions())


def _same_reference(pipe: Pipeline, keys: Keyspace, record: MonitorRecord) -> bool:
    """Whether the monitor still has the reference of ``record``."""
    stored = cast(bytes | None, pipe.hget(keys.monitor_definitions(), record.name))
    return stored is not None and read_stored(StoredMonitor, stored).reference == record.reference
