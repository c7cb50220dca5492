"""Batches: stored as .npy bytes in chunks, deleted after their time to live."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt
from redis import Redis
from redis.client import Pipeline

from backend.store.budget import NO_QUOTAS, Charges, Quotas
from backend.store.clock import at, now, seconds
from backend.store.errors import BatchFull, BatchInUse, UnknownBatch
from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace, Shared, new_id
from backend.store.pages import Page, PageRequest, read_page
from backend.store.server.connection import StoreUnavailable, transact
from schemas.batches import BatchRecord, UploadRecord

# --- Batches: stored as .npy bytes in chunks, deleted after their time to live
#
# A batch is a list of parts, each with the rows of one upload. It is stored in one hash with the fields ``record``; the
# chunks of the first part, ``NAME:CHUNK``; those of part i, counted from 0, ``NAME:CHUNK:i``; and ``appended-ID`` for
# every appended part, so that none is appended twice. Format 1 had one part.

Array = npt.NDArray[Any]
Chunks = dict[str, bytes]

#: Maximum size of a value in Redis, which serves no other client while it receives and writes a value.
CHUNK_BYTES = 8 * 1024 * 1024
#: The field with the record.
RECORD = "record"
#: Seconds that the fields of a batch being restored are kept until the next field arrives.
_ARRIVING_SECONDS = 3600
#: The same for a large batch being stored.
_WRITTEN_SECONDS = 60
#: Maximum number of parts; assembling more parts takes too long.
MOST_PARTS = 10_000


class BatchStore:
    """The batches of one tenant."""

    def __init__(
        self, redis: Redis, keys: Keyspace, quotas: Quotas = NO_QUOTAS, *, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._charges = Charges(redis, keys, quotas)
        self._chunk_bytes = chunk_bytes

    def put(self, record: BatchRecord, arrays: Mapping[str, Array], *, ttl: int) -> BatchRecord:
        """Store the arrays, completely or not at all; they expire after ``ttl`` seconds.

        An existing batch is kept unchanged. Raises ``QuotaExceeded``. Data larger than a chunk is first sent in chunks
        to a temporary key, which is then renamed: a single transaction would block Redis for other clients, possibly
        beyond its timeout.
        """
        key = self._keys.batch(record.id)
        chunks = self._chunks(arrays)
        ends = round((now().timestamp() + ttl) * 1000)
        known = {"bytes": _size(chunks), "expires_at": at(ends / 1000)}
        drafted = record.model_copy(update=known)
        size = _size(chunks)
        self._charges.check_bytes(size)
        sent = self._send(chunks) if size > self._chunk_bytes else None

        def write(pipe: Pipeline) -> BatchRecord:
            stored = pipe.hget(key, RECORD)
            if sent is not None and not pipe.exists(sent):
                raise StoreUnavailable("the store did not respond in time, and the data sent to it has expired")
            pipe.multi()
            if stored is not None:
                if sent is not None:
                    pipe.unlink(sent)
                return _read(stored)
            if sent is not None:
                pipe.rename(sent, key)
            _write(pipe, key, drafted, chunks if sent is None else {})
            self._charges.charge(pipe, record.id, size)
            pipe.pexpireat(key, ends)
            self._list(pipe, record)
            return drafted

        return transact(self._redis, write, *((key,) if sent is None else (key, sent)))

    def _send(self, chunks: Chunks) -> str:
        """Send chunks to a temporary key, which expires if it is not used; returns the key."""
        sent = self._keys.arriving(new_id("batch"))
        for field, data in chunks.items():
            with self._redis.pipeline() as pipe:
                pipe.hset(sent, field, data)
                pipe.expire(sent, _WRITTEN_SECONDS)
                pipe.execute()
        return sent

    def arrive(self, batch_id: str, field: str, data: bytes, *, first: bool) -> None:
        """Store a field of a batch being restored, for an hour, until ``restore`` completes the batch.

        The ``first`` field deletes the remains of an earlier attempt.
        """
        key = self._keys.arriving(batch_id)
        with self._redis.pipeline() as pipe:
            if first:
                pipe.delete(key)
            pipe.hset(key, field, data)
            pipe.expire(key, _ARRIVING_SECONDS)
            pipe.execute()

    def restore(self, record: BatchRecord, *, life: int | None) -> bool:
        """Create a batch from the received fields, for ``life`` milliseconds; returns False if it exists."""
        key, arriving = self._keys.batch(record.id), self._keys.arriving(record.id)
        ends = None if life is None else round(now().timestamp() * 1000) + life
        restored = record if ends is None else record.model_copy(update={"expires_at": at(ends / 1000)})

        def write(pipe: Pipeline) -> bool:
            there = pipe.exists(key)
            size = 0 if there else sum(pipe.hstrlen(arriving, field) for field in pipe.hkeys(arriving))
            pipe.multi()
            if there:
                pipe.delete(arriving)
                return False
            pipe.hset(arriving, RECORD, restored.model_dump_json())
            pipe.rename(arriving, key)
            pipe.persist(key) if ends is None else pipe.pexpireat(key, ends)
            self._charges.charge(pipe, record.id, size)
            self._list(pipe, record)
            return True

        return transact(self._redis, write, key, arriving)

    def append(
        self, batch_id: str, part_id: str, rows: BatchRecord, arrays: Mapping[str, Array], *, most_rows: int
    ) -> BatchRecord:
        """Append a part, completely or not at all; a repeated call with the same part id has no effect.

        ``rows`` is the record of the part, whose arrays, scale and classes equal those of the batch. The time to live
        is unchanged. Raises ``UnknownBatch``, ``QuotaExceeded`` or, with too many rows or parts, ``BatchFull``.
        """
        key, appended = self._keys.batch(batch_id), f"appended-{part_id}"
        # Earlier parts are neither read nor written, only the record.
        data = self._chunks(arrays)
        self._charges.check_bytes(_size(data))

        def write(pipe: Pipeline) -> BatchRecord:
            record = _read(pipe.hget(key, RECORD))
            if pipe.hexists(key, appended):
                pipe.multi()
                return record
            _check_room(record, rows, most_rows)
            pipe.multi()
            grown = _grown(record, rows, _size(data))
            _write(pipe, key, grown, {f"{field}:{record.parts}": chunk for field, chunk in data.items()})
            pipe.hset(key, appended, "")
            self._charges.charge(pipe, batch_id, _size(data))
            return grown

        transact(self._redis, write, key)
        return self.record(batch_id)

    def record(self, batch_id: str, where: str = "/batch") -> BatchRecord:
        """The record of a batch; raises ``UnknownBatch`` at ``where``."""
        record = self._records([batch_id])[0]
        if record is None:
            raise _unknown(where)
        return record

    def page(self, request: PageRequest) -> Page[BatchRecord]:
        """A page of the batches, newest first."""
        return read_page(self._redis, self._keys.batches(), request, self._records)

    def arrays(self, batch_id: str, parts: int | None = None) -> tuple[BatchRecord, dict[str, Array]]:
        """The record and arrays of a batch, optionally of its first ``parts`` only; raises ``UnknownBatch``."""
        fields = cast(dict[bytes, bytes], self._redis.hgetall(self._keys.batch(batch_id)))
        record = _read(fields.get(RECORD.encode()))
        read = range(record.parts if parts is None else min(parts, record.parts))
        chunks: dict[str, dict[tuple[int, int], bytes]] = {}
        for field, data in fields.items():
            quoted, *numbers = field.decode().split(":")
            name = unquote(quoted)
            if numbers:
                chunk, part = int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0
                chunks.setdefault(name, {})[part, chunk] = data
        order = [name for name in record.arrays if name in chunks]  # that of features matters to fits
        return record, {name: _joined(chunks[name], read) for name in dict.fromkeys([*order, *chunks])}

    def keep(self, batch_id: str, ttl: int) -> None:
        """Keep a batch for at least ``ttl`` more seconds; a batch held by a job is kept anyway."""
        self._redis.expire(self._keys.batch(batch_id), ttl, gt=True)

    def delete(self, batch_id: str) -> None:
        """Delete a batch; raises ``UnknownBatch``, and ``BatchInUse`` while a queued or running job needs it."""
        key, holds = self._keys.batch(batch_id), self._keys.batch_holds(batch_id)

        def write(pipe: Pipeline) -> None:
            if not pipe.exists(key):
                raise _unknown()
            _refuse_held(pipe.scard(holds))
            pipe.multi()
            pipe.unlink(key, self._keys.upload(batch_id), self._keys.report_jobs(batch_id))
            pipe.zrem(self._keys.batches(), batch_id)
            self._charges.release(pipe, batch_id)

        transact(self._redis, write, key, holds)

    def _list(self, pipe: Pipeline, record: BatchRecord) -> None:
        pipe.sadd(Shared.tenants(), self._keys.tenant)
        pipe.zadd(self._keys.batches(), {record.id: seconds(record.created_at)})

    def _records(self, ids: Sequence[str]) -> list[BatchRecord | None]:
        """The records of batches, None for missing ones, each with its current time of expiry.

        A held batch has no time of expiry.
        """
        with self._redis.pipeline() as pipe:
            for batch_id in ids:
                pipe.hget(self._keys.batch(batch_id), RECORD)
                pipe.pexpiretime(self._keys.batch(batch_id))
            answers = pipe.execute()
        return [
            None if data is None else _read(data).model_copy(update={"expires_at": _moment(expires)})
            for data, expires in zip(answers[::2], answers[1::2], strict=True)
        ]

    def _chunks(self, arrays: Mapping[str, Array]) -> Chunks:
        data = {quote(name): _to_bytes(array) for name, array in arrays.items()}  # names of features are the caller's
        return {
            f"{name}:{i // self._chunk_bytes}": whole[i : i + self._chunk_bytes]
            for name, whole in data.items()
            for i in range(0, len(whole), self._chunk_bytes)
        }


def _write(pipe: Pipeline, key: str, record: BatchRecord, chunks: Chunks) -> None:
    pipe.hset(key, RECORD, record.model_dump_json())
    for field, data in chunks.items():
        pipe.hset(key, field, data)


def _check_room(record: BatchRecord, rows: BatchRecord, most_rows: int) -> None:
    if record.n + rows.n > most_rows:
        raise BatchFull(f"a batch may have at most {most_rows} rows; this one has {record.n}")
    if record.parts >= MOST_PARTS:
        raise BatchFull(f"a batch may have at most {MOST_PARTS} parts; append more rows per request")


def _grown(record: BatchRecord, rows: BatchRecord, size: int) -> BatchRecord:
    """The record of a batch with one more part."""
    counts = None
    if record.label_counts is not None and rows.label_counts is not None:
        counts = [a + b for a, b in zip(record.label_counts, rows.label_counts, strict=True)]
    n = record.n + rows.n
    changed = {
        "n": n,
        "parts": record.parts + 1,
        "label_counts": counts,
        "positive_rate": counts[1] / n if counts is not None and record.n_classes is None else None,
        "bytes": None if record.bytes is None else record.bytes + size,
        "clipped": record.clipped + rows.clipped,
        "renormalised": record.renormalised + rows.renormalised,
        "n_repaired": None if record.n_repaired is None else record.n_repaired + (rows.n_repaired or 0),
    }
    return record.model_copy(update=changed)


def _moment(expires: int) -> str | None:
    """Convert a reply of PEXPIRETIME to a timestamp."""
    return at(expires / 1000) if expires > 0 else None


def _refuse_held(jobs: int) -> None:
    if jobs:
        named = "1 job that has not ended needs" if jobs == 1 else f"{jobs} jobs that have not ended need"
        raise BatchInUse(f"{named} the batch")


def _unknown(where: str = "/batch") -> UnknownBatch:
    return UnknownBatch("there is no batch with this id, or it has expired", where)


def _read(data: object) -> BatchRecord:
    if data is None:
        raise _unknown()
    return read_stored(BatchRecord, data)


def _size(chunks: Chunks) -> int:
    return sum(map(len, chunks.values()))


def _joined(chunks: Mapping[tuple[int, int], bytes], parts: range) -> Array:
    """Concatenate the chunks of some parts to one array."""
    data: dict[int, list[bytes]] = {part: [] for part in parts}
    for part, chunk in sorted(chunks):
        if part in data:
            data[part].append(chunks[part, chunk])
    arrays = [_from_bytes(b"".join(pieces)) for pieces in data.values()]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _to_bytes(array: Array) -> bytes:
    """The bytes of an NPY file; for strings of an NPZ file with the distinct ones, and the place of each row's.

    An array of strings has the width of the longest, so that it must not have one for each row.
    """
    out = io.BytesIO()
    if array.dtype.kind == "O":
        places: dict[str, int] = {}
        rows = np.array([places.setdefault(name, len(places)) for name in array.tolist()], dtype=np.uint32)
        names = [name.encode() for name in places]
        ends = np.cumsum([len(name) for name in names], dtype=np.uint32)
        np.savez(out, text=np.frombuffer(b"".join(names), np.uint8), ends=ends, rows=rows)
    else:
        np.save(out, array, allow_pickle=False)
    return out.getvalue()


def _from_bytes(data: bytes) -> Array:
    loaded = np.load(io.BytesIO(data), allow_pickle=False)
    if isinstance(loaded, np.ndarray):  # also strings, as an earlier version stored them
        return loaded
    with loaded:
        text, ends = loaded["text"].tobytes(), loaded["ends"].tolist()
        names = np.array([text[a:b].decode() for a, b in pairwise([0, *ends])], dtype=np.object_)
        strings: Array = names[loaded["rows"]]
    return strings


# --- Records that expire with a batch: the uploaded file, and the jobs of its reports

#: The reply of PTTL for a missing key.
_GONE = -2


class UploadStore:
    """The uploaded files of one tenant's batches; ``BatchStore.delete`` also deletes these records."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def put(self, batch_id: str, upload: UploadRecord, *, ttl: int) -> None:
        """Store the record of a batch's file for ``ttl`` seconds, or until the batch expires."""
        key, text = self._keys.upload(batch_id), upload.model_dump_json()
        self._keep(batch_id, key, ttl, lambda pipe: pipe.set(key, text))

    def get(self, batch_id: str) -> UploadRecord:
        """The record of a batch's file; an empty record if the batch was not uploaded as a file."""
        stored = self._redis.get(self._keys.upload(batch_id))
        return UploadRecord() if stored is None else read_stored(UploadRecord, stored)

    def files(self, batch_ids: Sequence[str]) -> list[str | None]:
        """The files of batches, with the model if the file has several; None for batches without a file."""
        if not batch_ids:
            return []
        stored = cast(list[bytes | None], self._redis.mget([self._keys.upload(batch_id) for batch_id in batch_ids]))
        return [None if data is None else read_stored(UploadRecord, data).title for data in stored]

    def remember_report(self, batch_id: str, job_id: str, map_ids: Sequence[str], *, ttl: int) -> None:
        """Store the id of the job of a report, with the maps that it applies, so that later requests find it."""
        key = self._keys.report_jobs(batch_id)
        self._keep(batch_id, key, ttl, lambda pipe: pipe.hset(key, ",".join(map_ids), job_id))

    def report_job(self, batch_id: str, map_ids: Sequence[str]) -> str | None:
        """The job of a report with these maps, if one is stored."""
        job_id = cast(bytes | None, self._redis.hget(self._keys.report_jobs(batch_id), ",".join(map_ids)))
        return None if job_id is None else job_id.decode()

    def _keep(self, batch_id: str, key: str, ttl: int, write: Callable[[Pipeline], object]) -> None:
        """Write a key that lives ``ttl`` seconds, but no longer than its batch; does nothing if the batch is gone."""
        batch = self._keys.batch(batch_id)

        def whole(pipe: Pipeline) -> None:
            left = pipe.pttl(batch)
            pipe.multi()
            if left != _GONE:
                write(pipe)
                pipe.pexpire(key, min(left, ttl * 1000) if left > 0 else ttl * 1000)

        transact(self._redis, whole, batch)
