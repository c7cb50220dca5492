"""The contents of a backup: batches, maps, monitors and records as lines, while the store is in use."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar, cast

import orjson
from redis import Redis
from redis.client import Pipeline

from backend.store.backup.file import BackupWriter, Text
from backend.store.batches import RECORD
from backend.store.clock import now
from backend.store.formats import read_stored
from backend.store.jobs.runs import HELD_EXPIRES, is_part
from backend.store.keyspace import Keyspace, MonitorKeys, Shared, keys_of_all_tenants, read_key
from backend.store.monitors.buckets import KINDS, OF_BUCKETS, SPAN, by_rows, by_span
from backend.store.monitors.ids import Ids, read_pieces
from backend.store.server.connection import transact
from schemas.aliases import StoredAlias
from schemas.jobs import FINAL
from schemas.monitors import StoredMonitor

# --- Stored strings, read in batches with bounded memory

Item = TypeVar("Item")

#: Number of keys whose sizes are read at once.
_RECORDS_AT_ONCE = 200
#: Bytes read at once, unless a single document is larger.
_MOST_BYTES = 4 * 1024 * 1024


class BackedUp(NamedTuple):
    """A stored document: its tenant, name and JSON, and its remaining milliseconds, None if it does not expire."""

    tenant: str
    name: str
    json: bytes
    life: int | None


def kept(redis: Redis, keys: Iterable[bytes]) -> Iterator[BackedUp]:
    """Yield the strings at these keys, skipping missing ones."""
    for some in chunks(keys, _RECORDS_AT_ONCE):
        with redis.pipeline(transaction=False) as pipe:
            for key in some:
                pipe.strlen(key)
            sizes = pipe.execute()
        for group in _groups(some, sizes):
            yield from _read(redis, group)


def life_of(milliseconds: int) -> int | None:
    """Convert a time to live from Redis; None if the key does not expire."""
    return None if milliseconds < 0 else max(1, milliseconds)


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Split items into lists of this size; the last may be shorter."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _groups(keys: list[bytes], sizes: list[int]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    total = 0
    for key, size in zip(keys, sizes, strict=True):
        if group and total + size > _MOST_BYTES:
            yield group
            group, total = [], 0
        group.append(key)
        total += size
    yield group


def _read(redis: Redis, keys: list[bytes]) -> Iterator[BackedUp]:
    with redis.pipeline() as pipe:
        for key in keys:
            pipe.get(key)
            pipe.pttl(key)
        answers = pipe.execute()
    for key, json, life in zip(keys, answers[::2], answers[1::2], strict=True):
        if json is not None:
            yield BackedUp(*read_key(key), json, life_of(life))


# --- A batch as lines: its fields in pieces, then its record, which proves that they are complete

#: Bytes of a batch per line.
_PIECE_BYTES = 1024 * 1024
#: Minimum remaining milliseconds of a batch held by jobs, even if it would have expired otherwise.
_LEAST_HELD_MS = 24 * 3600 * 1000


def batch_lines(redis: Redis, keys: Keyspace, batch_id: str) -> Iterator[Text]:
    """Yield the lines of a batch; if it is deleted meanwhile, some pieces without a record.

    Rows appended meanwhile are in separate fields, which the record does not include.
    """
    key = keys.batch(batch_id)
    with redis.pipeline() as pipe:
        pipe.hget(key, RECORD)
        pipe.hkeys(key)
        pipe.pttl(key)
        pipe.hget(key, HELD_EXPIRES)
        record, fields, life, expires = pipe.execute()
    if expires is not None:  # jobs hold it: restored jobs need it, and then hold it again
        life = max(_LEAST_HELD_MS, int(expires) - round(now().timestamp() * 1000))
    for field in sorted({name.decode() for name in fields} - {RECORD, HELD_EXPIRES}):
        data = cast(bytes | None, redis.hget(key, field))
        if data is None:
            return
        yield from _pieces(keys.tenant, batch_id, field, data)
    if record is not None:
        fields = {"tenant": keys.tenant, "record": orjson.Fragment(record), "life": life_of(life)}
        yield Text("batch", orjson.dumps({"kind": "batch", **fields}))


def _pieces(tenant: str, batch_id: str, field: str, data: bytes) -> Iterator[Text]:
    """Yield at least one piece, which may be empty."""
    for start in range(0, max(1, len(data)), _PIECE_BYTES):
        text = base64.b64encode(data[start : start + _PIECE_BYTES]).decode()
        fields = {"tenant": tenant, "batch": batch_id, "field": field, "data": text}
        yield Text("piece", orjson.dumps({"kind": "piece", **fields}))


# --- A monitor as lines: tallies and counts by span, its other keys, its ids, then its definition
#
# Rows may arrive meanwhile. Each span is written atomically, and ids are written last: a row that arrives during a
# backup may be known in it without being counted, but is never counted twice when it is sent again.

Kind = Literal["hash", "list", "zset", "string"]

#: Chunks of ids read at once, and ids whose entries are read at once.
_PIECES, _IDS_AT_ONCE = 20, 1000


def monitor_lines(redis: Redis, keys: Keyspace, record: bytes) -> Iterator[Text]:
    """Yield the lines of a monitor with this stored definition."""
    monitor = read_stored(StoredMonitor, record)
    return _Monitor(redis, keys, monitor.id).lines(monitor.name, record)


class _Monitor:
    def __init__(self, redis: Redis, keys: Keyspace, uid: str) -> None:
        self._redis = redis
        self._of_tenant = keys
        self._keys = keys.monitor(uid)
        self._uid = uid

    def lines(self, name: str, record: bytes) -> Iterator[Text]:
        members = cast(list[bytes], self._redis.zrange(self._keys.buckets(), 0, -1))
        for span, buckets in groupby(map(int, members), lambda bucket: bucket // SPAN):
            yield from self._span(span, list(buckets))
        for row in cast(list[bytes], self._redis.hkeys(self._keys.row_buckets())):
            yield from self._row_bucket(int(row))
        yield from self._parts([*_others(self._keys)], [])
        for slot in cast(list[bytes], self._redis.zrange(self._keys.slots(), 0, -1)):
            yield from self._slot(int(slot))
        # A monitor that was deleted meanwhile is written as it was, because its other lines are already in the file.
        last = cast(bytes | None, self._redis.hget(self._of_tenant.monitor_definitions(), name))
        same = last is not None and read_stored(StoredMonitor, last).id == self._uid
        yield self._line("monitor", record=orjson.Fragment(cast(bytes, last) if same else record))

    def _span(self, span: int, buckets: Sequence[int]) -> Iterator[Text]:
        k = self._keys
        lists = [(series, bucket) for series in OF_BUCKETS for bucket in buckets]
        lists += [(by_span(kind), span) for kind in KINDS]
        hashes: list[tuple[str, Kind]] = [(k.counts(bucket), "hash") for bucket in buckets]
        # Written first, so that a repeated restore recognizes what an interrupted one has written.
        yield self._part(k.buckets(), "zset", [word for bucket in buckets for word in (b"%d" % bucket, b"%d" % bucket)])
        yield from self._parts([*hashes, (k.span_counts(span), "hash")], lists)

    def _row_bucket(self, row: int) -> Iterator[Text]:
        rows = cast(bytes | None, self._redis.hget(self._keys.row_buckets(), str(row)))
        if rows is not None:
            yield self._part(self._keys.row_buckets(), "hash", [b"%d" % row, rows])
            yield from self._parts([], [(by_rows(kind), row) for kind in KINDS])

    def _parts(self, keys: Sequence[tuple[str, Kind]], lists: Sequence[tuple[str, int]]) -> Iterator[Text]:
        """Yield these keys, and lists of tallies with their generations, read atomically."""
        every: list[tuple[str, Kind]] = [
            *keys,
            *((self._keys.tallies(*series_and_number), "list") for series_and_number in lists),
        ]
        with self._redis.pipeline() as pipe:
            for key, kind in every:
                _READ[kind](pipe, key)
                pipe.pttl(key)
            for series, number in lists:
                pipe.hget(self._keys.generations(), f"{series}:{number}")
            answers = pipe.execute()
        generations = [None] * len(keys) + answers[2 * len(every) :]
        for i, ((key, kind), generation) in enumerate(zip(every, generations, strict=True)):
            if answers[2 * i]:
                items = _items(kind, answers[2 * i])
                yield self._part(key, kind, items, generation=generation, life=life_of(answers[2 * i + 1]))

    def _slot(self, slot: int) -> Iterator[Text]:
        """Yield the known ids of a slot with their entries."""
        at = 0
        while pieces := cast(list[bytes], self._redis.lrange(self._keys.slot(slot), at, at + _PIECES - 1)):
            at += len(pieces)
            for piece in pieces:
                names = read_pieces([piece]).strings()
                entries: list[bytes | None] = []
                for some in chunks(names, _IDS_AT_ONCE):
                    read = self._redis.hmget(self._keys.ids(), cast(list[str], some))
                    entries += cast(list[bytes | None], read)
                known = [(name, entry) for name, entry in zip(names, entries, strict=True) if entry is not None]
                if known:
                    columns = [_base64(Ids.of(column).to_bytes()) for column in zip(*known, strict=True)]
                    yield self._line("monitor-ids", uid=self._uid, slot=slot, ids=columns[0], entries=columns[1])

    def _part(
        self, key: str, kind: Kind, items: Sequence[bytes], *, generation: bytes | None = None, life: int | None = None
    ) -> Text:
        fields = {"uid": self._uid, "name": self._keys.name_of(key), "type": kind, "items": list(map(_base64, items))}
        number = None if generation is None else int(generation)
        return self._line("monitor-part", **fields, generation=number, life=life)

    def _line(self, kind: str, **fields: Any) -> Text:
        return Text(kind, orjson.dumps({"kind": kind, "tenant": self._of_tenant.tenant, **fields}))


def _others(k: MonitorKeys) -> Iterator[tuple[str, Kind]]:
    """Keys that belong to no bucket or slot; ``state``, on which others depend, comes last."""
    for key in (k.totals(), k.groups(), k.deliveries(), k.online()):
        yield key, "hash"
    for key in (k.once(), k.alarms(), k.audit(), k.delivery_times(), k.vector_bounds()):
        yield key, "zset"
    yield k.unqueued_events(), "list"
    for key in (k.standing(), k.reference(), k.reference_vectors(), k.label_shifts()):
        yield key, "string"
    yield k.state(), "hash"


_READ = {
    "hash": Pipeline.hgetall,
    "list": lambda pipe, key: pipe.lrange(key, 0, -1),
    "zset": lambda pipe, key: pipe.zrange(key, 0, -1, withscores=True),
    "string": Pipeline.get,
}


def _items(kind: Kind, value: Any) -> list[bytes]:
    """The value of a key as a list: fields and values, members and scores, items, or one string."""
    match kind:
        case "hash":
            return [word for pair in value.items() for word in pair]
        case "zset":
            return [word for member, score in value for word in (member, repr(score).encode())]
        case "list":
            return list(value)
        case "string":
            return [value]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# --- The contents of the store as lines, while it is in use
#
# Each document is read atomically. Data that exists during the whole backup is written; data that is added or deleted
# meanwhile may be. Documents are read before those that they refer to, and written after them, so that the latter are
# included: jobs before batches and maps, and an alias in one transaction with its map. Version numbers are read last,
# so that no written map has a higher one.

#: Names, ids or keys read at once.
_AT_ONCE = 500


def write_backup(redis: Redis, out: BinaryIO, *, batches: bool = True) -> dict[str, int]:
    """Write the contents of a store to a file; returns the number of lines of each kind.

    Without ``batches``, batches and the unfinished jobs that need them are left out.
    """
    writer = BackupWriter(out)
    with tempfile.TemporaryFile() as spool:
        for text in Contents(redis, batches).lines(spool):
            writer.add(text)
    return writer.end()


@dataclass(frozen=True)
class Contents:
    """The contents of a store, with or without batches."""

    redis: Redis
    batches: bool

    def lines(self, spool: BinaryIO) -> Iterator[Text]:
        """Yield every line between header and end; ``spool`` is an empty file for temporary lines."""
        for text in self._jobs():
            spool.write(text.json + b"\n")
        yield from self._keys()
        if self.batches:
            yield from self._batches()
        for tenant in self._tenants():
            yield from self._maps(Keyspace(tenant))
        yield from self._monitors()
        yield from self._audit()
        yield from self._answers()
        spool.seek(0)
        for line in spool:
            yield Text("job", line.rstrip(b"\n"))

    def _jobs(self) -> Iterator[Text]:
        for entry in self._kept("job"):
            if is_part(entry.name):  # created again with its job
                continue
            if self.batches or orjson.loads(entry.json)["status"] in FINAL:
                yield _line("job", tenant=entry.tenant, record=entry.json, life=entry.life)

    def _keys(self) -> Iterator[Text]:
        for record in cast(dict[bytes, bytes], self.redis.hgetall(Shared.api_keys())).values():
            yield _line("key", record=record)

    def _batches(self) -> Iterator[Text]:
        for key in self.redis.scan_iter(keys_of_all_tenants("batch", "*"), count=_AT_ONCE):
            tenant, batch_id = read_key(key)
            yield from batch_lines(self.redis, Keyspace(tenant), batch_id)

    def _monitors(self) -> Iterator[Text]:
        for key in self.redis.scan_iter(keys_of_all_tenants("monitor-definitions"), count=_AT_ONCE):
            keys = Keyspace(read_key(key)[0])
            for record in cast(dict[bytes, bytes], self.redis.hgetall(keys.monitor_definitions())).values():
                yield from monitor_lines(self.redis, keys, record)

    def _audit(self) -> Iterator[Text]:
        """Yield the entries of all tenants, after what they describe: the change of an entry is in the file."""
        for key in self.redis.scan_iter(keys_of_all_tenants("audit-entries"), count=_AT_ONCE):
            for entry_id, record in self.redis.hscan_iter(key.decode(), count=_AT_ONCE):
                yield _line("audit", tenant=read_key(key)[0], id=entry_id.decode(), record=record)

    def _answers(self) -> Iterator[Text]:
        for entry in self._kept("idempotency"):
            yield _line("answer", tenant=entry.tenant, digest=entry.name, record=entry.json, life=entry.life)

    def _kept(self, kind: str) -> Iterator[BackedUp]:
        return kept(self.redis, self.redis.scan_iter(keys_of_all_tenants(kind, "*"), count=_AT_ONCE))

    def _tenants(self) -> list[str]:
        """The tenants that have, or had, maps."""
        tenants = {
            read_key(key)[0]
            for kind in ("maps", "newest-versions")
            for key in self.redis.scan_iter(keys_of_all_tenants(kind), count=_AT_ONCE)
        }
        return sorted(tenants)

    def _maps(self, keys: Keyspace) -> Iterator[Text]:
        """Yield the maps of a tenant, starting with those that aliases point at, and the data of their names."""
        written: set[str] = set()
        for name in self._names_with_aliases(keys):
            aliases, maps = self._aliased(keys, name)
            for map_id, record in maps.items():
                written.add(map_id)
                yield _line("map", tenant=keys.tenant, record=record)
            for alias in aliases:
                yield _line("alias", tenant=keys.tenant, record=alias)
        ids = (member.decode() for member, _ in self.redis.zscan_iter(keys.maps(), count=_AT_ONCE))
        others = (keys.map(map_id).encode() for map_id in ids if map_id not in written)
        for entry in kept(self.redis, others):
            yield _line("map", tenant=keys.tenant, record=entry.json)
        for field, version in self.redis.hscan_iter(keys.newest_versions(), count=_AT_ONCE):
            yield _line("version", tenant=keys.tenant, name=field.decode(), version=int(version))

    def _names_with_aliases(self, keys: Keyspace) -> Iterator[str]:
        names = (name.decode() for name, _ in self.redis.hscan_iter(keys.newest_versions(), count=_AT_ONCE))
        for some in chunks(names, _AT_ONCE):
            with self.redis.pipeline(transaction=False) as pipe:
                for name in some:
                    pipe.exists(keys.aliases(name))
                yield from (name for name, there in zip(some, pipe.execute(), strict=True) if there)

    def _aliased(self, keys: Keyspace, name: str) -> tuple[list[bytes], dict[str, bytes]]:
        """The aliases of a name, and the maps that they point at."""

        def read(pipe: Pipeline) -> tuple[list[bytes], dict[str, bytes]]:
            aliases = cast(list[bytes], pipe.hvals(keys.aliases(name)))
            ids = {read_stored(StoredAlias, alias).map for alias in aliases}
            records = {map_id: cast(bytes | None, pipe.get(keys.map(map_id))) for map_id in sorted(ids)}
            pipe.multi()
            return aliases, {map_id: record for map_id, record in records.items() if record is not None}

        # A map is deleted only if no alias points at it, and moving an alias changes this hash.
        return transact(self.redis, read, keys.aliases(name))


def _line(kind: str, *, record: bytes | None = None, **fields: str | int | None) -> Text:
    """A line; the record is included as stored."""
    document = {"kind": kind, **fields} | ({} if record is None else {"record": orjson.Fragment(record)})
    return Text(kind, orjson.dumps(document))
