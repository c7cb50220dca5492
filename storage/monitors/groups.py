"""The groups of a monitor by name: numbered in the order in which they came, and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from redis import Redis

from schemas.monitors import MonitorRecord
from storage.keyspace import Keyspace
from storage.monitors.definitions import unknown_monitor
from storage.monitors.scripts import GROUPS

#: The index of rows without a group, of those in groups beyond the bound, and of the first that has a name.
NO_GROUP, OTHER_GROUP, FIRST_GROUP = 0, 1, 2
#: How the groups beyond the bound are told.
OTHER = "(other)"


class Groups:
    """The groups of one monitor."""

    def __init__(self, redis: Redis, keys: Keyspace, record: MonitorRecord) -> None:
        self._redis = redis
        self._names = keys.monitor_names()
        self._groups = keys.monitor(record.uid).groups()
        self._record = record

    def indices(self, names: Sequence[str]) -> list[int]:
        """The index of each name, of a new one the next; ``OTHER_GROUP`` for those beyond the monitor's bound.

        Raises ``UnknownMonitor``.
        """
        if not names:
            return []
        record = self._record
        args = (record.uid, str(record.max_groups), str(FIRST_GROUP), *names)
        found = self._redis.eval(GROUPS, 2, self._names, self._groups, *args)
        if found is None:
            raise unknown_monitor()
        return cast(list[int], found)

    def all(self) -> dict[str, int]:
        """Every name that has an index, in the order of these."""
        found = cast(dict[bytes, bytes], self._redis.hgetall(self._groups))
        return dict(sorted(((name.decode(), int(index)) for name, index in found.items()), key=lambda item: item[1]))
