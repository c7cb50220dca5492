"""Restoring a backup into a store, with the store's own transactions.

Existing data is kept. Every document is read like a stored one, so that earlier formats are converted to the current
one, and newer formats are rejected.
"""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

from redis import Redis
from redis.client import Pipeline

from backend.store.api_keys import ApiKeyStore
from backend.store.audit import UNBOUNDED, AuditTrail
from backend.store.backup.file import read_lines
from backend.store.clock import seconds
from backend.store.errors import StorageError, StoreNotEmpty
from backend.store.formats import read_document
from backend.store.jobs.runs import write_job
from backend.store.keyspace import Keyspace, Shared, keys_of_all_tenants
from backend.store.monitors.restoring import Arriving
from backend.store.server.connection import transact
from backend.store.store import Store
from schemas.aliases import StoredAlias
from schemas.audit import AuditFact, Author, ChangeAction, StoredFact
from schemas.backup import (
    AliasLine,
    AnswerLine,
    AuditLine,
    BatchLine,
    JobLine,
    KeyLine,
    Line,
    MapLine,
    MonitorIdsLine,
    MonitorLine,
    MonitorPartLine,
    PieceLine,
    VersionLine,
)
from schemas.batches import BatchRecord
from schemas.jobs import FINAL, IdempotencyRecord, JobRecord, Progress
from schemas.keys import KeyRecord
from schemas.maps import MapRecord
from schemas.monitors import StoredMonitor

#: Writes a document; returns False if it already existed, or could not be written.
Write = Callable[[], bool]


@dataclass
class Restored:
    """The number of documents of each kind that were written, and that were skipped because they or others existed."""

    written: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)


def restore(redis: Redis, source: BinaryIO, *, merge: bool, author: Author | None = None) -> Restored:
    """Restore a backup into a store, which must be empty unless ``merge`` is set.

    With an ``author``, the audit log of each tenant gets an entry with the numbers of documents in the file before any
    is written, and at the end one with the numbers of written ones: what an interrupted restore wrote has an entry too.

    Raises ``StoreNotEmpty``, and ``DamagedBackup``, ``LaterFormat`` or ``StorageError`` before anything is written.
    """
    if not merge and holds_anything(redis):
        raise StoreNotEmpty("the store is not empty; use --merge to add only what is missing")
    writer, restored = _Writer(redis), Restored()
    planned = _check(source, writer)
    _note(redis, "restore-started", planned, author)
    tenants: _Counts = {tenant: Counter() for tenant in planned}
    for line in read_lines(source):
        written = writer.plan(line)()
        if not isinstance(line, PieceLine | MonitorPartLine | MonitorIdsLine):
            (restored.written if written else restored.left)[line.kind] += 1
        if written:
            _count(line, tenants)
    _note(redis, "backup-restored", tenants, author)
    return restored


#: Tenant -> kind of line -> number.
_Counts = dict[str, Counter[str]]


def _count(line: Line, tenants: _Counts) -> None:
    """Count a line with a document that the audit log describes."""
    if isinstance(line, MapLine | AliasLine | MonitorLine | KeyLine):
        tenant = str(line.record["tenant"]) if isinstance(line, KeyLine) else line.tenant
        tenants[tenant][line.kind] += 1


def _note(redis: Redis, action: ChangeAction, tenants: _Counts, author: Author | None) -> None:
    """Add the entry of a restore to the audit log of each tenant."""
    if author is None:
        return
    for tenant, counts in tenants.items():
        with redis.pipeline() as pipe:
            trail = AuditTrail(redis, Keyspace(tenant), author, UNBOUNDED)
            trail.add(pipe, AuditFact(action=action, after=dict(counts)))
            pipe.execute()


def _check(source: BinaryIO, writer: _Writer) -> _Counts:
    """Validate and count a whole backup; damage to the file is reported before invalid documents."""
    refused: StorageError | None = None
    tenants: _Counts = defaultdict(Counter)
    for line in read_lines(source):
        try:
            writer.plan(line)
            _count(line, tenants)
        except StorageError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    return tenants


def holds_anything(redis: Redis) -> bool:
    """Whether a store contains an API key, or any tenant data that a backup would include."""
    documents = [keys_of_all_tenants(kind, "*") for kind in ("map", "batch", "job", "idempotency")]
    patterns = [*documents, keys_of_all_tenants("newest-versions"), keys_of_all_tenants("monitor-definitions")]
    patterns.append(keys_of_all_tenants("audit-entries"))
    matches = (key for pattern in patterns for key in redis.scan_iter(pattern, count=1000))
    return bool(redis.exists(Shared.api_keys())) or next(matches, None) is not None


class _Writer:
    """Converts lines to writes; a line is validated completely before its write is returned."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._field: PieceLine | None = None
        self._data = bytearray()
        self._batch: tuple[str, str] | None = None
        self._monitor: tuple[tuple[str, str], Arriving] | None = None

    def plan(self, line: Line) -> Write:
        """The write of a line; raises ``LaterFormat`` or ``StorageError``."""
        match line:
            case KeyLine():
                key = read_document(KeyRecord, line.record)
                return lambda: ApiKeyStore(self._redis).restore(key)
            case PieceLine():
                return lambda: self._collect(line)
            case BatchLine():
                batch = read_document(BatchRecord, line.record)
                return lambda: self._end_batch(line, batch)
            case MapLine():
                record = read_document(MapRecord, line.record)
                return lambda: self._store(line.tenant).maps.restore(record)
            case AliasLine():
                alias = read_document(StoredAlias, line.record).record()
                return lambda: self._store(line.tenant).aliases.restore(alias)
            case VersionLine():
                return lambda: self._store(line.tenant).maps.restore_newest(line.name, line.version)
            case MonitorPartLine() | MonitorIdsLine():
                return lambda: self._arrive(line)
            case MonitorLine():
                monitor = read_document(StoredMonitor, line.record).record()
                return lambda: self._arriving(line.tenant, monitor.id).end(monitor)
            case AuditLine():
                fact = read_document(StoredFact, line.record)
                return lambda: self._store(line.tenant).audit.restore(line.id, fact)
            case AnswerLine():
                answer = read_document(IdempotencyRecord, line.record)
                return lambda: self._store(line.tenant).idempotency.restore(line.digest, answer, life=line.life)
            case JobLine():
                job = read_document(JobRecord, line.record)
                return lambda: restore_job(self._store(line.tenant), job, life=line.life)

    def _store(self, tenant: str) -> Store:
        return Store.of(self._redis, tenant)

    def _collect(self, piece: PieceLine) -> bool:
        """Collect the pieces of a field; a complete field is sent."""
        if self._field is not None and _place(self._field) != _place(piece):
            self._send()
        self._field = piece
        self._data += base64.b64decode(piece.data)
        return True

    def _arrive(self, line: MonitorPartLine | MonitorIdsLine) -> bool:
        arriving = self._arriving(line.tenant, line.uid)
        return arriving.part(line) if isinstance(line, MonitorPartLine) else arriving.ids(line)

    def _arriving(self, tenant: str, uid: str) -> Arriving:
        """The monitor whose lines are being read."""
        if self._monitor is None or self._monitor[0] != (tenant, uid):
            self._monitor = (tenant, uid), Arriving(self._redis, Keyspace(tenant), uid)
        return self._monitor[1]

    def _end_batch(self, line: BatchLine, record: BatchRecord) -> bool:
        self._send()
        return self._store(line.tenant).batches.restore(record, life=line.life)

    def _send(self) -> None:
        if self._field is None:
            return
        batch = self._field.tenant, self._field.batch
        data = bytes(self._data)
        self._data.clear()
        batches = self._store(self._field.tenant).batches
        batches.arrive(self._field.batch, self._field.field, data, first=batch != self._batch)
        self._batch, self._field = batch, None


def restore_job(store: Store, record: JobRecord, *, life: int | None) -> bool:
    """Store an ended job for ``life`` milliseconds, or queue an unfinished one again; returns False if it exists."""
    if record.status not in FINAL:
        begun = {"status": "queued", "started_at": None, "progress": Progress()}
        waiting = record.model_copy(update=begun | ({} if record.parts == 1 else {"left": record.parts}))
        return store.jobs.submit(waiting) is waiting
    keys = store.keys

    def write(pipe: Pipeline) -> bool:
        there = pipe.exists(keys.job(record.id))
        pipe.multi()
        if there:
            return False
        pipe.sadd(Shared.tenants(), keys.tenant)
        pipe.zadd(keys.jobs(), {record.id: seconds(record.created_at)})
        write_job(pipe, keys, record, measured=False)
        if life is not None:
            pipe.pexpire(keys.job(record.id), life)
            pipe.pexpire(keys.job_events(record.id), life)
        return True

    return transact(store.redis, write, keys.job(record.id))


def _place(piece: PieceLine) -> tuple[str, str, str]:
    return piece.tenant, piece.batch, piece.field
