"""The reservoirs of a monitor, and the label shift that a worker has estimated from them.

A reservoir is a uniform sample of rows with their vectors, in bounded memory. A list per time bucket has reservoirs, to
be merged. A row's priority is derived from its id, so its label finds it. Any window that ends now has its ``size``
rows of the lowest priorities, and so has the span of the reference; other rows are removed (``thin``). Rows that a
reservoir would remove anyway are not added to it (``bounds``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from redis import Redis
from redis.client import Pipeline

from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace, MonitorKeys
from backend.store.monitors.definitions import while_alive
from backend.store.monitors.lists import MOST_MERGED, VECTORS, Listed, Lists
from calibrant.core.cells import Floats
from calibrant.monitoring.reservoir import Reservoir, from_bytes, thinned, together
from schemas.monitor_answers import StoredLabelShifts
from schemas.monitors import MonitorRecord, StoredMonitor

#: Additions of more than this part of the size are merged at once, so that a list of 64 has at most 16 times the size.
_MANY = 4
#: A list is replaced only if less than this share of its rows stays.
_STAYS = 0.9


class Vectors:
    """The reservoirs of one monitor, which has a size of them."""

    def __init__(self, redis: Redis, lists: Lists, keys: MonitorKeys, record: MonitorRecord) -> None:
        self._redis = redis
        self._lists = lists
        self._keys = keys
        self.size = record.reservoir or 0
        self._classes = record.n_classes or 0

    def bounds(self, buckets: Sequence[int]) -> Floats:
        """For each time bucket the priority from which its rows are not kept, at most 1."""
        if not len(buckets):
            return np.zeros(0)
        scores = self._redis.zmscore(self._keys.vector_bounds(), [str(bucket) for bucket in buckets])
        return np.array([1.0 if bound is None else float(bound) for bound in scores])

    def sample(self, first: int, last: int) -> Reservoir:
        """A uniform sample of the rows of the time buckets from ``first`` to ``last``, inclusive."""
        parts = [part for content in self._listed(first, last) for part in map(from_bytes, content.parts)]
        return together([Reservoir.empty(self._classes), *parts], self.size)

    def after_addition(self, bucket: int, added: Reservoir) -> None:
        """Merge the reservoirs of a time bucket if many rows were added, which lowers its bound."""
        if len(added) > self.size // _MANY:
            self.compact(bucket)

    def compact(self, bucket: int) -> None:
        """Merge the reservoirs of a time bucket, unless another process does."""
        for content in self._lists.listed(VECTORS, [bucket], MOST_MERGED):
            self._replace(content, self._whole(content))

    def thin(self, first: int, last: int) -> None:
        """Remove rows that no window that ends now needs, and no sample of the buckets from ``first`` to ``last``."""
        lists = self._listed(0, 2**53)
        whole = [self._whole(content) for content in lists]
        thin = thinned(whole, self.size)
        span = [i for i, content in enumerate(lists) if first <= content.number <= last]
        if span:
            bound = together([whole[i] for i in span], self.size).below
            for i in span:
                thin[i] = whole[i].cut(max(thin[i].below, bound))
        for content, reservoir in zip(lists, thin, strict=True):
            if len(reservoir) < _STAYS * sum(len(from_bytes(part)) for part in content.parts):
                self._replace(content, reservoir)

    def _listed(self, first: int, last: int) -> list[Listed]:
        return self._lists.listed(VECTORS, self._lists.buckets(first, last))

    def _whole(self, content: Listed) -> Reservoir:
        return together(map(from_bytes, content.parts), self.size)

    def _replace(self, content: Listed, whole: Reservoir) -> None:
        """Replace the listed reservoirs by one, unless another process has."""
        if self._lists.replace(VECTORS, content, whole.to_bytes()) and whole.below < 1.0:
            self._redis.zadd(self._keys.vector_bounds(), {str(content.number): whole.below}, lt=True)


# --- The label shift of each window, as a worker has estimated it

#: The fields of a monitor that its estimates depend on, and that can be changed.
_DEPENDS_ON = ("windows", "reference", "interval")


def read_label_shifts(redis: Redis, keys: Keyspace, uid: str) -> StoredLabelShifts | None:
    """The latest estimates of a monitor; None if there are none."""
    stored = redis.get(keys.monitor(uid).label_shifts())
    return None if stored is None else read_stored(StoredLabelShifts, stored)


def put_label_shifts(redis: Redis, keys: Keyspace, record: MonitorRecord, estimates: StoredLabelShifts) -> bool:
    """Store the estimates for ``record``; False if it has changed, and raises ``UnknownMonitor``."""

    def write(pipe: Pipeline) -> bool:
        data = cast(bytes | None, pipe.hget(keys.monitor_definitions(), record.name))
        stored = None if data is None else read_stored(StoredMonitor, data)
        pipe.multi()
        if stored is None or not _alike(stored, record):
            return False
        pipe.set(keys.monitor(record.id).label_shifts(), estimates.model_dump_json())
        return True

    return while_alive(redis, keys, record.id, write, keys.monitor_definitions())


def forget_label_shifts(pipe: Pipeline, keys: Keyspace, before: MonitorRecord, changed: MonitorRecord) -> None:
    """Queue the deletion of the estimates of a monitor if the change that is stored with it invalidates them."""
    if not _alike(before, changed):
        pipe.unlink(keys.monitor(changed.id).label_shifts())


def _alike(record: MonitorRecord, other: MonitorRecord) -> bool:
    return all(getattr(record, name) == getattr(other, name) for name in _DEPENDS_ON)
