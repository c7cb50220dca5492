"""The definitions of a tenant's monitors, and the deletion of monitors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

from redis import Redis
from redis.client import Pipeline

from backend.store.audit import AuditTrail
from backend.store.budget import NO_QUOTAS, Quotas
from backend.store.clock import seconds
from backend.store.errors import MonitorExists, QuotaExceeded, UnknownMonitor
from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace, Shared, job_field, read_job_field
from backend.store.monitors.buckets import KINDS, OF_BUCKETS, SPAN, by_rows, by_span
from backend.store.pages import Page, PageRequest, read_page
from backend.store.server.connection import Script, transact
from schemas.audit import AuditFact, ChangeAction, State
from schemas.monitors import MonitorRecord, StoredMonitor

# --- The keys of deleted monitors, removed in bounded steps; any process continues the work of another

#: Number of hash fields, or lists, removed at once.
_AT_ONCE = 1000


def delete_left(redis: Redis) -> None:
    """Remove the remaining keys of all deleted monitors."""
    for member in cast(set[bytes], redis.smembers(Shared.monitors_to_delete())):
        tenant, uid = read_job_field(member)
        delete_keys(redis, Keyspace(tenant), uid)


def delete_keys(redis: Redis, keys: Keyspace, uid: str) -> None:
    """Remove all keys of a monitor whose definition is gone.

    Indexes are removed after the keys that they list, so that this can be repeated at any time. UNLINK removes a key
    immediately, and another thread frees its memory.
    """
    own = keys.monitor(uid)
    named = job_field(keys.tenant, uid)
    for slots in _chunks(redis, own.slots()):
        redis.unlink(*(own.slot(slot) for slot in slots))
        redis.zrem(own.slots(), *map(str, slots))
    for buckets in _chunks(redis, own.buckets()):
        spans = {bucket // SPAN for bucket in buckets}
        lists = [own.tallies(series, bucket) for series in OF_BUCKETS for bucket in buckets]
        lists += [own.tallies(by_span(kind), span) for kind in KINDS for span in spans]
        redis.unlink(*lists, *map(own.counts, buckets), *map(own.span_counts, spans))
        redis.zrem(own.buckets(), *map(str, buckets))
    rows = [int(bucket) for bucket in cast(list[bytes], redis.hkeys(own.row_buckets()))]
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        redis.unlink(*(own.tallies(by_rows(kind), bucket) for kind in KINDS for bucket in some))
    redis.hdel(Shared.latest_of_monitors(), named)
    redis.unlink(*own.single())
    redis.srem(Shared.monitors_to_delete(), named)


def _chunks(redis: Redis, index: str) -> Iterator[list[int]]:
    while members := cast(list[bytes], redis.zrange(index, 0, _AT_ONCE - 1)):
        yield [int(member) for member in members]


# --- The definitions of a tenant's monitors

_NOTE = Script("definitions/note")


def _nothing(_: Pipeline) -> None:
    """Queue nothing else."""


class Definitions:
    """The definitions of one tenant's monitors."""

    def __init__(
        self, redis: Redis, keys: Keyspace, quotas: Quotas = NO_QUOTAS, trail: AuditTrail | None = None
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._quotas = quotas
        self._trail = AuditTrail(redis, keys) if trail is None else trail

    def put(
        self, record: MonitorRecord, with_it: Callable[[Pipeline], None] = _nothing, *, audited: bool = True
    ) -> MonitorRecord:
        """Store a new monitor, and what ``with_it`` queues; raises ``MonitorExists`` and ``QuotaExceeded``.

        A monitor with the same uid exists if a request is repeated, and is kept unchanged. A restored one is not
        ``audited``, because its entry is in the backup.
        """
        keys = self._keys

        def write(pipe: Pipeline) -> MonitorRecord:
            there = pipe.hget(keys.monitor_definitions(), record.name)
            number = pipe.zcard(keys.monitors())
            pipe.multi()
            if there is not None and _read(there).id == record.id:
                return _read(there)
            if there is not None:
                raise MonitorExists("there is already a monitor with this name", "/name")
            if 0 < self._quotas.monitors <= number:
                raise QuotaExceeded(f"this tenant may have at most {self._quotas.monitors} monitors; delete some")
            pipe.sadd(Shared.tenants(), keys.tenant)
            pipe.zadd(keys.monitors(), {record.id: seconds(record.created_at)})
            pipe.hset(keys.monitor_names(), record.id, record.name)
            self._write(pipe, record)
            with_it(pipe)
            if audited:
                self._trail.add(pipe, _fact("monitor-created", record, None, _audited(record)))
            return record

        return transact(self._redis, write, keys.monitor_definitions())

    def get(self, name: str) -> MonitorRecord:
        """A monitor by name; raises ``UnknownMonitor``."""
        stored = self._redis.hget(self._keys.monitor_definitions(), name)
        if stored is None:
            raise unknown_monitor()
        return _read(stored)

    def by_uid(self, uid: str) -> MonitorRecord:
        """A monitor by uid; raises ``UnknownMonitor`` for a deleted monitor, even if its name is in use again."""
        name = cast(bytes | None, self._redis.hget(self._keys.monitor_names(), uid))
        record = None if name is None else self.get(name.decode())
        if record is None or record.id != uid:
            raise unknown_monitor()
        return record

    def patch(
        self,
        name: str,
        change: Callable[[MonitorRecord], MonitorRecord],
        with_it: Callable[[Pipeline], None] = _nothing,
    ) -> MonitorRecord:
        """Apply ``change`` to the current monitor; store the result, and what ``with_it`` queues, if it differs.

        ``change`` is called again after a conflicting write. Raises ``UnknownMonitor`` and the errors of ``change``.
        """

        def write(pipe: Pipeline) -> MonitorRecord:
            stored = pipe.hget(self._keys.monitor_definitions(), name)
            if stored is None:
                raise unknown_monitor()
            before = _read(stored)
            changed = change(before)
            pipe.multi()
            if changed == before:
                return before
            self._write(pipe, changed)
            with_it(pipe)
            fields = [
                field
                for field in type(changed).model_fields
                if field != "configured_by" and getattr(changed, field) != getattr(before, field)
            ]
            if fields:
                values = [{field: _audited(record)[field] for field in ("id", *fields)} for record in (before, changed)]
                self._trail.add(pipe, _fact("monitor-changed", changed, *values))
            return changed

        return transact(self._redis, write, self._keys.monitor_definitions())

    def delete(self, name: str, check: Callable[[MonitorRecord], None] = lambda _: None) -> MonitorRecord:
        """Delete a monitor with all its data; its name can be used again immediately.

        Raises ``UnknownMonitor``, and the errors of ``check`` for the current monitor.
        """
        keys = self._keys

        def write(pipe: Pipeline) -> MonitorRecord:
            stored = pipe.hget(keys.monitor_definitions(), name)
            if stored is None:
                raise unknown_monitor()
            record = _read(stored)
            check(record)
            pipe.multi()
            pipe.hdel(keys.monitor_definitions(), name)
            pipe.hdel(keys.monitor_names(), record.id)
            pipe.zrem(keys.monitors(), record.id)
            _NOTE.run(pipe, [Shared.monitors_to_delete()], job_field(keys.tenant, record.id))
            self._trail.add(pipe, _fact("monitor-deleted", record, _audited(record), None))
            return record

        record = transact(self._redis, write, keys.monitor_definitions(), keys.monitor_names())
        delete_keys(self._redis, keys, record.id)
        return record

    def number(self) -> int:
        """The number of monitors. O(1)."""
        return int(self._redis.zcard(self._keys.monitors()))

    def page(self, request: PageRequest) -> Page[MonitorRecord]:
        """Monitors, newest first; raises ``InvalidCursor``."""
        return read_page(self._redis, self._keys.monitors(), request, self._of_uids)

    def all(self) -> list[MonitorRecord]:
        """All monitors, by name."""
        stored = cast(dict[bytes, bytes], self._redis.hgetall(self._keys.monitor_definitions()))
        return sorted(map(_read, stored.values()), key=lambda record: record.name)

    def _of_uids(self, uids: Sequence[str]) -> list[MonitorRecord | None]:
        names = cast(list[bytes | None], self._redis.hmget(self._keys.monitor_names(), list(uids)))
        stored_names = [(name or b"").decode() for name in names]
        stored = cast(list[bytes | None], self._redis.hmget(self._keys.monitor_definitions(), stored_names))
        records = [None if data is None else _read(data) for data in stored]
        return [
            record if record is not None and record.id == uid else None
            for uid, record in zip(uids, records, strict=True)
        ]

    def _write(self, pipe: Pipeline, record: MonitorRecord) -> None:
        pipe.hset(self._keys.monitor_definitions(), record.name, StoredMonitor.of(record).model_dump_json())


def _fact(action: ChangeAction, record: MonitorRecord, before: State, after: State) -> AuditFact:
    return AuditFact(action=action, monitor=record.name, monitor_id=record.id, before=before, after=after)


def _audited(record: MonitorRecord) -> dict[str, Any]:
    """A definition as the audit log states it: without secrets, and of the URLs of hooks only scheme, host and port."""
    shown = record.model_copy(update={"hooks": [hook.shown() for hook in record.hooks]})
    return shown.model_dump(mode="json")


def unknown_monitor() -> UnknownMonitor:
    """The error for a monitor that does not exist."""
    return UnknownMonitor("there is no monitor with this name")


def _read(data: object) -> MonitorRecord:
    return read_stored(StoredMonitor, data).record()


# --- Writes to a monitor's keys, rejected once it is deleted

Result = TypeVar("Result")


def while_alive(redis: Redis, keys: Keyspace, uid: str, write: Callable[[Pipeline], Result], *watched: str) -> Result:
    """Run ``write`` like ``transact``, if the monitor exists; raises ``UnknownMonitor``."""

    def guarded(pipe: Pipeline) -> Result:
        if not pipe.hexists(keys.monitor_names(), uid):
            raise unknown_monitor()
        return write(pipe)

    return transact(redis, guarded, keys.monitor_names(), *watched)
