"""The label shift of a monitor's windows from its reservoir, as a worker has estimated it."""

from __future__ import annotations

from typing import cast

from redis import Redis
from redis.client import Pipeline

from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace
from backend.store.monitors.definitions import while_alive
from schemas.monitor_answers import StoredLabelShifts
from schemas.monitors import MonitorRecord, StoredMonitor

#: The fields of a monitor that its estimates depend on, and that can be changed.
_DEPENDS_ON = ("windows", "reference", "interval")


def read_label_shifts(redis: Redis, keys: Keyspace, uid: str) -> StoredLabelShifts | None:
    """The latest estimates of a monitor; None if there are none."""
    found = redis.get(keys.monitor(uid).label_shifts())
    return None if found is None else read_stored(StoredLabelShifts, found)


def put_label_shifts(redis: Redis, keys: Keyspace, record: MonitorRecord, found: StoredLabelShifts) -> bool:
    """Store the estimates for ``record``; False if it has changed, and raises ``UnknownMonitor``."""

    def write(pipe: Pipeline) -> bool:
        data = cast(bytes | None, pipe.hget(keys.monitor_definitions(), record.name))
        stored = None if data is None else read_stored(StoredMonitor, data)
        pipe.multi()
        if stored is None or not _alike(stored, record):
            return False
        pipe.set(keys.monitor(record.uid).label_shifts(), found.model_dump_json())
        return True

    return while_alive(redis, keys, record.uid, write, keys.monitor_definitions())


def forget_label_shifts(redis: Redis, keys: Keyspace, before: MonitorRecord, changed: MonitorRecord) -> None:
    """Delete the estimates of a monitor if a change of it invalidates them."""
    if not _alike(before, changed):
        redis.unlink(keys.monitor(changed.uid).label_shifts())


def _alike(one: MonitorRecord, other: MonitorRecord) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _DEPENDS_ON)
