"""What the rules of a monitor have come to, and the events of their alarms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import orjson
from redis import Redis
from redis.client import Pipeline

from storage.keyspace import Keyspace
from storage.monitors.alive import while_alive
from storage.monitors.journal import Journal, Json
from storage.pages import Asked, Page


class Alarms:
    """The states of one monitor's rules, and its events."""

    def __init__(self, redis: Redis, keys: Keyspace, uid: str) -> None:
        self._redis = redis
        self._keys = keys
        self._uid = uid
        own = keys.monitor(uid)
        self._rules = own.rules()
        self._events = Journal(redis, own.alarms(), own.state())
        self._audit = Journal(redis, own.audit(), own.state())

    def states(self) -> dict[str, Json]:
        """The state of each rule that has one, in the order of their names."""
        found = cast(dict[bytes, bytes], self._redis.hgetall(self._rules))
        return {rule.decode(): orjson.loads(state) for rule, state in sorted(found.items())}

    def put(
        self,
        rule: str,
        state: Json | None,
        *,
        expected: Json | None,
        events: Sequence[Json] = (),
        audit: Sequence[Json] = (),
    ) -> bool:
        """Store the state of a rule, None for none, and with it events and entries of the audit.

        False, and nothing is stored, where the state is not the ``expected`` one. Raises ``UnknownMonitor``.
        """

        def write(pipe: Pipeline) -> bool:
            found = cast(bytes | None, pipe.hget(self._rules, rule))
            pipe.multi()
            if (None if found is None else orjson.loads(found)) != expected:
                return False
            if state is None:
                pipe.hdel(self._rules, rule)
            else:
                pipe.hset(self._rules, rule, orjson.dumps(state).decode())
            self._events.append(pipe, events)
            self._audit.append(pipe, audit)
            return True

        return while_alive(self._redis, self._keys, self._uid, write, self._rules)

    def events(self, asked: Asked) -> Page[Json]:
        """Events, newest first; raises ``InvalidCursor``."""
        return self._events.page(asked)
