"""What a monitor remembers between looks: its rules, what is to be done, what happened; changed in one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from redis import Redis
from redis.client import Pipeline

from schemas.base import Document
from schemas.monitor_alarms import MOST_ENTRIES, MOST_EVENTS, AuditEntry, Standing
from schemas.monitor_events import MonitorEvent
from schemas.monitors import MonitorRecord, StoredMonitor
from storage.chores import Chore, ask
from storage.clock import seconds
from storage.formats import read_stored
from storage.keyspace import Keyspace
from storage.monitors.definitions import unknown_monitor
from storage.pages import Asked, Page, read_cursor, write_cursor
from storage.pages import Place as PagePlace
from storage.transactions import transact

Item = TypeVar("Item", bound=Document)
#: Entries of a list that are read at once, and at most for one page.
_AT_ONCE, _MOST_READ = 100, 1000


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

    def read(self) -> Standing:
        """The standing as it is now."""
        return _read(self._redis.get(self._keys.standing()))

    def change(self, change: Callable[[MonitorRecord, Standing], Change | None]) -> Change | None:
        """Write what ``change`` makes of the monitor and its standing as they are now, and chores with it; or nothing.

        It is called again where another was faster. Raises ``UnknownMonitor``, and what ``change`` does.
        """
        definitions, keys = self._of_tenant.monitor_definitions(), self._keys

        def write(pipe: Pipeline) -> Change | None:
            found = pipe.hget(definitions, self._record.name)
            record = None if found is None else read_stored(StoredMonitor, found).record()
            if record is None or record.uid != self._record.uid:
                raise unknown_monitor()
            before = _read(pipe.get(keys.standing()))
            made = change(record, before)
            pipe.multi()
            if made is not None:
                self._write(pipe, record, before, made)
            return made

        return transact(self._redis, write, definitions, keys.standing())

    def untold(self) -> list[MonitorEvent]:
        """The events that nobody was told of yet, oldest first."""
        found = cast(list[bytes], self._redis.lrange(self._keys.untold(), 0, -1))
        return [MonitorEvent.model_validate_json(data) for data in found]

    def told(self, event: MonitorEvent) -> None:
        """Note that the deliveries of an event are asked for."""
        self._redis.lrem(self._keys.untold(), 1, event.model_dump_json())

    def events(self, asked: Asked) -> Page[MonitorEvent]:
        """What happened, newest first; raises ``InvalidCursor``."""
        return self._page(self._keys.alarms(), asked, MonitorEvent, lambda event: event.timestamp)

    def audit(self, asked: Asked) -> Page[AuditEntry]:
        """The audit, newest first; raises ``InvalidCursor``."""
        return self._page(self._keys.audit(), asked, AuditEntry, lambda entry: entry.at)

    def _write(self, pipe: Pipeline, record: MonitorRecord, before: Standing, made: Change) -> None:
        keys = self._keys
        events, entries = before.events + len(made.events), before.entries + len(made.entries)
        after = made.standing.model_copy(update={"events": events, "entries": entries})
        pipe.set(keys.standing(), after.model_dump_json())
        for number, event in enumerate(made.events, before.events + 1):
            pipe.zadd(keys.alarms(), {event.model_dump_json(): number})
            pipe.rpush(keys.untold(), event.model_dump_json())
        for number, entry in enumerate(made.entries, before.entries + 1):
            pipe.zadd(keys.audit(), {entry.model_copy(update={"number": number}).model_dump_json(): number})
        pipe.zremrangebyscore(keys.alarms(), "-inf", events - MOST_EVENTS)
        pipe.zremrangebyscore(keys.audit(), "-inf", entries - MOST_ENTRIES)
        if made.started_at is not None:
            moved = record.model_copy(update={"started_at": made.started_at})
            pipe.hset(self._of_tenant.monitor_definitions(), record.name, StoredMonitor.of(moved).model_dump_json())
        for chore in made.chores:
            ask(pipe, chore)

    def _page(self, key: str, asked: Asked, model: type[Item], when: Callable[[Item], str]) -> Page[Item]:
        """Items by number, newest first, of the times asked for."""
        at = read_cursor(asked.cursor)
        high: str | float = "+inf" if at is None else f"({at.score!r}"
        found: list[tuple[Item, float]] = []
        for start in range(0, _MOST_READ, _AT_ONCE):
            read = self._redis.zrevrangebyscore(key, high, "-inf", start=start, num=_AT_ONCE, withscores=True)
            items = [(model.model_validate_json(data), score) for data, score in cast(list[tuple[bytes, float]], read)]
            found += [item for item in items if asked.low <= seconds(when(item[0])) < asked.high]
            if len(found) > asked.limit or len(items) < _AT_ONCE:
                break
        kept = found[: asked.limit]
        cursor = write_cursor(PagePlace(kept[-1][1], b"-")) if len(found) > len(kept) else None
        return Page(tuple(item for item, _ in kept), cursor)


def _read(data: object) -> Standing:
    return Standing() if data is None else read_stored(Standing, data)
