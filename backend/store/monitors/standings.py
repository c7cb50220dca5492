"""The standing of a monitor between checks: its rules, pending actions, journal, latest values and label shifts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast, get_args

import orjson
from redis import Redis
from redis.client import Pipeline

from backend.store.audit import AuditTrail
from backend.store.chores import Chore, schedule
from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace, Shared, job_field, read_job_field
from backend.store.monitors.definitions import unknown_monitor, while_alive
from backend.store.pages import Page, PageRequest, Place, read_cursor, write_cursor
from backend.store.server.connection import Script, transact
from schemas.audit import Actor, AuditFact, Author, ChangeAction
from schemas.monitor_alarms import AuditEntry, MonitorEvent, Standing
from schemas.monitor_answers import StoredLabelShifts
from schemas.monitors import MonitorRecord, StoredMonitor

# --- A bounded, append-only list of JSON documents, newest first

Json = dict[str, Any]

#: Number of entries kept.
MOST = 1000
_APPEND = Script("standings/append")


class Journal:
    """One list, at ``key``; the hash ``state`` counts its serial numbers."""

    def __init__(self, redis: Redis, key: str, state: str) -> None:
        self._redis = redis
        self._key = key
        self._state = state

    def append(self, pipe: Pipeline, entries: Iterable[Json]) -> None:
        """Queue the commands that add entries, oldest first."""
        documents = [orjson.dumps(entry) for entry in entries]
        if documents:
            named = self._key.rpartition(":")[2]
            _APPEND.run(pipe, (self._key, self._state), named, MOST, *documents)

    def page(self, request: PageRequest) -> Page[Json]:
        """Entries, newest first; raises ``InvalidCursor``."""
        at = read_cursor(request.cursor)
        highest = "+inf" if at is None else f"({at.score!r}"
        members = cast(
            list[bytes],
            self._redis.zrange(self._key, highest, "-inf", desc=True, byscore=True, offset=0, num=request.limit + 1),
        )
        read = [member.partition(b" ") for member in members[: request.limit]]
        following = write_cursor(Place(float(read[-1][0]), b"-")) if len(members) > request.limit else None
        return Page(tuple(orjson.loads(document) for *_, document in read), following)


# --- The state of a monitor between checks: its rules, pending actions and events, changed in one transaction


#: States of an online map: the name of each, and its JSON.
States = Mapping[str, bytes]


@dataclass(frozen=True)
class StandingChange:
    """A change of a standing with its events and audit entries; ``started_at`` if that of the monitor changes.

    ``states`` replace the stored states of the online map, if given.
    """

    standing: Standing
    events: Sequence[MonitorEvent] = ()
    entries: Sequence[AuditEntry] = ()
    started_at: float | None = None
    chores: Sequence[Chore] = ()
    states: States | None = None


class Standings:
    """The standing of one monitor, its events and its log of actions.

    Decisions are in the audit log of the tenant too, by the author of ``trail``, or without it by the monitor itself.
    """

    def __init__(self, redis: Redis, keys: Keyspace, record: MonitorRecord, trail: AuditTrail | None = None) -> None:
        self._redis = redis
        self._of_tenant = keys
        self._keys = keys.monitor(record.id)
        self._record = record
        self._trail = trail
        self._events = Journal(redis, self._keys.alarms(), self._keys.state())
        self._audit = Journal(redis, self._keys.audit(), self._keys.state())

    def read(self) -> Standing:
        """The current standing."""
        return _read(self._redis.get(self._keys.standing()))

    def read_online(self) -> tuple[Standing, dict[str, bytes]]:
        """The current standing, and the states of the online map, read atomically."""
        with self._redis.pipeline() as pipe:
            pipe.get(self._keys.standing())
            pipe.hgetall(self._keys.online())
            standing, states = pipe.execute()
        return _read(standing), {name.decode(): state for name, state in states.items()}

    def change(self, change: Callable[[MonitorRecord, Standing], StandingChange | None]) -> StandingChange | None:
        """Apply ``change`` to the current monitor and standing; write the result with its tasks, or nothing for None.

        It is called again after a conflicting write. Raises ``UnknownMonitor``, and the errors of ``change``.
        """
        definitions = self._of_tenant.monitor_definitions()

        def write(pipe: Pipeline) -> StandingChange | None:
            stored = pipe.hget(definitions, self._record.name)
            record = None if stored is None else read_stored(StoredMonitor, stored).record()
            if record is None or record.id != self._record.id:
                raise unknown_monitor()
            changed = change(record, _read(pipe.get(self._keys.standing())))
            pipe.multi()
            if changed is not None:
                self._write(pipe, record, changed)
            return changed

        return transact(self._redis, write, definitions, self._keys.standing())

    def unqueued_events(self) -> list[MonitorEvent]:
        """The events whose deliveries are not queued yet, oldest first."""
        stored = cast(list[bytes], self._redis.lrange(self._keys.unqueued_events(), 0, -1))
        return [MonitorEvent.model_validate_json(data) for data in stored]

    def mark_queued(self, event: MonitorEvent) -> None:
        """Record that the deliveries of an event are queued."""
        self._redis.lrem(self._keys.unqueued_events(), 1, event.model_dump_json())

    def events(self, request: PageRequest) -> Page[MonitorEvent]:
        """The events, newest first; raises ``InvalidCursor``."""
        page = self._events.page(request)
        return Page(tuple(map(MonitorEvent.model_validate, page.items)), page.next)

    def audit(self, request: PageRequest) -> Page[AuditEntry]:
        """The audit log, newest first; raises ``InvalidCursor``."""
        page = self._audit.page(request)
        return Page(tuple(map(AuditEntry.model_validate, page.items)), page.next)

    def _write(self, pipe: Pipeline, record: MonitorRecord, change: StandingChange) -> None:
        pipe.set(self._keys.standing(), change.standing.model_dump_json())
        self._events.append(pipe, [event.model_dump() for event in change.events])
        self._audit.append(pipe, [entry.model_dump() for entry in change.entries])
        facts = [_fact(record, entry) for entry in change.entries if entry.action in _DECISIONS]
        trail = self._trail or AuditTrail(self._redis, self._of_tenant, author_of(record))
        trail.add(pipe, *facts)
        for event in change.events:
            pipe.rpush(self._keys.unqueued_events(), event.model_dump_json())
        if change.states is not None:
            pipe.unlink(self._keys.online())
            pipe.hset(self._keys.online(), items=[part for state in change.states.items() for part in state])
        if change.started_at is not None:
            moved = record.model_copy(update={"started_at": change.started_at})
            pipe.hset(self._of_tenant.monitor_definitions(), record.name, StoredMonitor.of(moved).model_dump_json())
        for chore in change.chores:
            schedule(pipe, chore)


#: Actions that are in the audit log of the tenant; moving the alias writes that of the move itself.
_DECISIONS = frozenset(get_args(ChangeAction)) - {"alias-moved"}


def author_of(record: MonitorRecord) -> Author:
    """A monitor as the author of its own decisions."""
    return Author(actor=Actor(kind="monitor", id=record.id, name=record.name, configured_by=record.configured_by))


def _fact(record: MonitorRecord, entry: AuditEntry) -> AuditFact:
    """An action of a monitor as an entry of the audit log."""
    data = entry.found
    after = {"rule": entry.rule, "number": entry.alarm, **({} if data is None else data.model_dump(exclude={"rule"}))}
    return AuditFact(
        action=cast(ChangeAction, entry.action),
        map=None if data is None else data.name,
        alias=None if data is None else data.alias,
        monitor=record.name,
        monitor_id=record.id,
        after={name: value for name, value in after.items() if value is not None},
        detail=entry.detail,
    )


def _read(data: object) -> Standing:
    return Standing() if data is None else read_stored(Standing, data)


# --- The latest values of all monitors, in one place for the metrics

#: Maximum number of monitors with values.
MOST_MONITORS = 1000


def put_latest(redis: Redis, keys: Keyspace, uid: str, values: Json) -> None:
    """Store the latest values of a monitor; raises ``UnknownMonitor``."""

    def write(pipe: Pipeline) -> None:
        pipe.multi()
        pipe.hset(Shared.latest_of_monitors(), job_field(keys.tenant, uid), orjson.dumps(values).decode())

    while_alive(redis, keys, uid, write)


def read_latest(redis: Redis, most: int = MOST_MONITORS) -> dict[tuple[str, str], Json]:
    """The latest values by tenant and uid, of up to ``most`` monitors of all tenants."""
    entries = islice(redis.hscan_iter(Shared.latest_of_monitors(), count=most), most)
    return {read_job_field(field): orjson.loads(values) for field, values in entries}


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
