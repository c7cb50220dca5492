"""The reservoirs of a monitor: a uniform sample of the rows of each time bucket with their vectors, in bounded memory.

A list per time bucket has reservoirs, to be merged. A row's priority is derived from its id, so its label finds it. Any
window that ends now has its ``size`` rows of the lowest priorities, and so has the span of the reference; other rows
are removed (``thin``). Rows that a reservoir would remove anyway are not added to it (``bounds``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from redis import Redis

from backend.store.keyspace import Keyspace
from backend.store.monitors.scripts import COMPACT
from calibrant.cells import Floats
from calibrant.monitoring.reservoir import Reservoir, from_bytes, thinned, together
from schemas.monitors import MonitorRecord

#: The series of the lists.
VECTORS = "vectors"
#: Number of lists read at once, and of reservoirs merged at once.
_AT_ONCE, _MOST_MERGED = 100, 512
#: Additions of more than this part of the size are merged at once, so that a list of 64 has at most 16 times the size.
_MANY = 4
#: A list is replaced only if less than this share of its rows stays.
_STAYS = 0.9


class Vectors:
    """The reservoirs of one monitor, which has a size of them."""

    def __init__(self, redis: Redis, keys: Keyspace, record: MonitorRecord) -> None:
        self._redis = redis
        self._keys = keys.monitor(record.uid)
        self.size = record.reservoir or 0
        self._classes = record.n_classes or 0

    def bounds(self, buckets: Sequence[int]) -> Floats:
        """For each time bucket the priority from which its rows are not kept, at most 1."""
        if not len(buckets):
            return np.zeros(0)
        found = self._redis.zmscore(self._keys.vector_bounds(), [str(bucket) for bucket in buckets])
        return np.array([1.0 if bound is None else float(bound) for bound in found])

    def sample(self, first: int, last: int) -> Reservoir:
        """A uniform sample of the rows of the time buckets from ``first`` to ``last``, inclusive."""
        parts = [part for _, _, some in self._read(self._numbers(first, last)) for part in some]
        return together([Reservoir.empty(self._classes), *parts], self.size)

    def after_addition(self, bucket: int, added: Reservoir) -> None:
        """Merge the reservoirs of a time bucket if many rows were added, which lowers its bound."""
        if len(added) > self.size // _MANY:
            self.compact(bucket)

    def compact(self, bucket: int) -> None:
        """Merge the reservoirs of a time bucket, unless another process does."""
        for _, generation, parts in self._read([bucket], _MOST_MERGED):
            self._replace(bucket, generation, len(parts), together(parts, self.size))

    def thin(self, first: int, last: int) -> None:
        """Remove rows that no window that ends now needs, and no sample of the buckets from ``first`` to ``last``."""
        lists = self._read(self._numbers(0, 2**53))
        whole = [together(parts, self.size) for _, _, parts in lists]
        kept = thinned(whole, self.size)
        span = [i for i, (bucket, _, _) in enumerate(lists) if first <= bucket <= last]
        if span:
            bound = together([whole[i] for i in span], self.size).below
            for i in span:
                kept[i] = whole[i].cut(max(kept[i].below, bound))
        for (bucket, generation, parts), one in zip(lists, kept, strict=True):
            if len(one) < _STAYS * sum(map(len, parts)):
                self._replace(bucket, generation, len(parts), one)

    def _numbers(self, first: int, last: int) -> list[int]:
        found = cast(list[bytes], self._redis.zrangebyscore(self._keys.buckets(), first, last))
        return [int(bucket) for bucket in found]

    def _read(self, buckets: Sequence[int], most: int = 0) -> list[tuple[int, bytes, list[Reservoir]]]:
        """The time buckets that have reservoirs, with the generation and the first ``most`` of each (0: all)."""
        found = []
        for start in range(0, len(buckets), _AT_ONCE):
            some = buckets[start : start + _AT_ONCE]
            with self._redis.pipeline() as pipe:
                pipe.hmget(self._keys.generations(), [f"{VECTORS}:{bucket}" for bucket in some])
                for bucket in some:
                    pipe.lrange(self._keys.tallies(VECTORS, bucket), 0, most - 1)
                generations, *answers = pipe.execute()
            for bucket, generation, parts in zip(some, generations, answers, strict=True):
                if generation is not None and parts:
                    found.append((bucket, generation, list(map(from_bytes, parts))))
        return found

    def _replace(self, bucket: int, generation: bytes, number: int, one: Reservoir) -> None:
        """Replace the first reservoirs of a list by one, unless another process has."""
        keys = (self._keys.tallies(VECTORS, bucket), self._keys.generations(), self._keys.loose(), self._keys.state())
        args = (f"{VECTORS}:{bucket}", generation, str(number), one.to_bytes())
        replaced = self._redis.eval(COMPACT, len(keys), *keys, *cast(tuple[str, ...], args))
        if replaced and one.below < 1.0:
            self._redis.zadd(self._keys.vector_bounds(), {str(bucket): one.below}, lt=True)
