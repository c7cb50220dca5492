"""Restoring a monitor from a backup part by part; its definition, written last, makes it visible."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence

from redis import Redis
from redis.client import Pipeline

from backend.store.chores import Chore, schedule
from backend.store.errors import MonitorExists
from backend.store.keyspace import Keyspace
from backend.store.monitors.definitions import Definitions, delete_keys
from backend.store.monitors.deliveries import Deliveries
from backend.store.monitors.ids import read_pieces
from schemas.backup import MonitorIdsLine, MonitorPartLine
from schemas.monitors import MonitorRecord

#: Generations of a restored monitor are increased by a random number of this many bits. Scripts return them as doubles,
#: so a monitor can be restored 2**13 times.
_GENERATION_BITS = 40


class Arriving:
    """A monitor being restored."""

    def __init__(self, redis: Redis, keys: Keyspace, uid: str) -> None:
        self._redis = redis
        self._of_tenant = keys
        self._keys = keys.monitor(uid)
        self._uid = uid
        self._known = bool(redis.hexists(keys.monitor_names(), uid))
        # A process may still cache lists of an earlier monitor with the same uid, which differ.
        self._later = secrets.randbits(_GENERATION_BITS)
        if not self._known:  # remains of an interrupted restore
            delete_keys(redis, keys, uid)

    def part(self, line: MonitorPartLine) -> bool:
        """Add the values in a line to a key."""
        if self._known:
            return False
        key, items = self._keys.named(line.name), [base64.b64decode(item) for item in line.items]
        with self._redis.pipeline() as pipe:
            self._add(pipe, key, line.type, items)
            if line.generation is not None:
                pipe.hset(self._keys.generations(), line.name, str(line.generation + self._later))
                if len(items) > 1:
                    pipe.sadd(self._keys.loose(), line.name)
            if key == self._keys.state():
                pipe.hincrby(key, "generations", self._later)
            if line.life is not None:
                pipe.pexpire(key, line.life)
            pipe.execute()
        return True

    def ids(self, line: MonitorIdsLine) -> bool:
        """Add ids of a slot with their entries."""
        if self._known:
            return False
        piece = base64.b64decode(line.ids)
        names, entries = read_pieces([piece]).strings(), read_pieces([base64.b64decode(line.entries)]).strings()
        with self._redis.pipeline() as pipe:
            self._add(
                pipe, self._keys.ids(), "hash", [word for pair in zip(names, entries, strict=True) for word in pair]
            )
            pipe.rpush(self._keys.slot(line.slot), piece)
            pipe.zadd(self._keys.slots(), {str(line.slot): line.slot})
            pipe.execute()
        return True

    def end(self, record: MonitorRecord) -> bool:
        """Store the definition and schedule pending work; returns False if the name belongs to another monitor."""
        if self._known:
            return False
        try:
            Definitions(self._redis, self._of_tenant).put(record, audited=False)
        except MonitorExists:
            delete_keys(self._redis, self._of_tenant, self._uid)
            return False
        schedule(self._redis, Chore("look", self._of_tenant.tenant, self._uid))
        Deliveries(self._redis, self._of_tenant, self._uid).ask_pending()
        return True

    @staticmethod
    def _add(pipe: Pipeline, key: str, kind: str, items: Sequence[bytes]) -> None:
        match kind:
            case "hash":
                pipe.hset(key, items=list(items))
            case "zset":
                pipe.zadd(key, dict(zip(items[::2], map(float, items[1::2]), strict=True)))
            case "list":
                pipe.rpush(key, *items)
            case _:
                pipe.set(key, items[0])
