"""What a monitor remembers between looks: its rules, what is to be done, what happened; changed in one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from redis import Redis
from redis.client import Pipeline

from schemas.monitor_alarms import AuditEntry, Standing
from schemas.monitor_events import MonitorEvent
from schemas.monitors import MonitorRecord, StoredMonitor
from storage.chores import Chore, ask
from storage.formats import read_stored
from storage.keyspace import Keyspace
from storage.monitors.definitions import unknown_monitor
from storage.monitors.journal import Journal
from storage.pages import Asked, Page
from storage.transactions import transact


@dataclass(frozen=True)
class Change:
    """What becomes of a standing, and what is told of it. ``started_at`` is the monitor's where it is another one."""

    standing: Standing
    events: Sequence[MonitorEvent] = ()
    entries: Sequence[AuditEntry] = ()
    started_at: float | None = None
    chores: Sequence[Chore] = ()


class Standings:
    """The standing of one monitor, its events and its audit."""

    def __init__(self, redis: Redis, keys: Keyspace, record: MonitorRecord) -> None:
        self._redis = redis
        self._of_tenant = keys
        self._keys = keys.monitor(record.uid)
        self._record = record
        self._events = Journal(redis, self._keys.alarms(), self._keys.state())
        self._audit = Journal(redis, self._keys.audit(), self._keys.state())

    def read(self) -> Standing:
        """The standing as it is now."""
        return _read(self._redis.get(self._keys.standing()))

    def change(self, change: Callable[[MonitorRecord, Standing], Change | None]) -> Change | None:
        """Write what ``change`` makes of the monitor and its standing as they are now, and chores with it; or nothing.

        It is called again where another was faster. Raises ``UnknownMonitor``, and what ``change`` does.
        """
        definitions = self._of_tenant.monitor_definitions()

        def write(pipe: Pipeline) -> Change | None:
            found = pipe.hget(definitions, self._record.name)
            record = None if found is None else read_stored(StoredMonitor, found).record()
            if record is None or record.uid != self._record.uid:
                raise unknown_monitor()
            made = change(record, _read(pipe.get(self._keys.standing())))
            pipe.multi()
            if made is not None:
                self._write(pipe, record, made)
            return made

        return transact(self._redis, write, definitions, self._keys.standing())

    def untold(self) -> list[MonitorEvent]:
        """The events that nobody was told of yet, oldest first."""
        found = cast(list[bytes], self._redis.lrange(self._keys.untold(), 0, -1))
        return [MonitorEvent.model_validate_json(data) for data in found]

    def told(self, event: MonitorEvent) -> None:
        """Note that the deliveries of an event are asked for."""
        self._redis.lrem(self._keys.untold(), 1, event.model_dump_json())

    def events(self, asked: Asked) -> Page[MonitorEvent]:
        """What happened, newest first; raises ``InvalidCursor``."""
        page = self._events.page(asked)
        return Page(tuple(map(MonitorEvent.model_validate, page.items)), page.next)

    def audit(self, asked: Asked) -> Page[AuditEntry]:
        """The audit, newest first; raises ``InvalidCursor``."""
        page = self._audit.page(asked)
        return Page(tuple(map(AuditEntry.model_validate, page.items)), page.next)

    def _write(self, pipe: Pipeline, record: MonitorRecord, made: Change) -> None:
        pipe.set(self._keys.standing(), made.standing.model_dump_json())
        self._events.append(pipe, [event.model_dump() for event in made.events])
        self._audit.append(pipe, [entry.model_dump() for entry in made.entries])
        for event in made.events:
            pipe.rpush(self._keys.untold(), event.model_dump_json())
        if made.started_at is not None:
            moved = record.model_copy(update={"started_at": made.started_at})
            pipe.hset(self._of_tenant.monitor_definitions(), record.name, StoredMonitor.of(moved).model_dump_json())
        for chore in made.chores:
            ask(pipe, chore)


def _read(data: object) -> Standing:
    return Standing() if data is None else read_stored(Standing, data)
