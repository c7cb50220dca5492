"""The one proposal of a monitor that waits to be decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import orjson
from redis import Redis
from redis.client import Pipeline

from storage.keyspace import Keyspace
from storage.monitors.alive import while_alive
from storage.monitors.journal import Journal, Json


class Proposals:
    """The proposal of one monitor, if there is one."""

    def __init__(self, redis: Redis, keys: Keyspace, uid: str) -> None:
        self._redis = redis
        self._keys = keys
        self._uid = uid
        own = keys.monitor(uid)
        self._proposal = own.proposal()
        self._audit = Journal(redis, own.audit(), own.state())

    def get(self) -> Json | None:
        """The proposal; None where there is none."""
        return _read(self._redis.get(self._proposal))

    def put(self, proposal: Json | None, *, expected: Json | None, audit: Sequence[Json] = ()) -> bool:
        """Store a proposal, None for none, and with it entries of the audit.

        False, and nothing is stored, where there is another than the ``expected`` one. Raises ``UnknownMonitor``.
        """

        def write(pipe: Pipeline) -> bool:
            found = _read(pipe.get(self._proposal))
            pipe.multi()
            if found != expected:
                return False
            if proposal is None:
                pipe.delete(self._proposal)
            else:
                pipe.set(self._proposal, orjson.dumps(proposal))
            self._audit.append(pipe, audit)
            return True

        return while_alive(self._redis, self._keys, self._uid, write, self._proposal)


def _read(found: object) -> Json | None:
    return None if found is None else cast(Json, orjson.loads(cast(bytes, found)))
