"""Batches: validated, stored as .npy bytes in chunks, deleted after their time to live."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from redis import Redis
from redis.client import Pipeline

from backend.store.budget import NO_QUOTAS, Charges, Quotas
from backend.store.clock import at, now, seconds
from backend.store.errors import BatchFull, BatchInUse, StorageError, UnknownBatch
from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace, Shared, new_id
from backend.store.pages import Page, PageRequest, read_page
from backend.store.server.connection import StoreAway
from backend.store.transactions import transact
from backend.telemetry.observed import note_rows
from calibrant.batch import Batch, read_batch
from schemas.batches import BatchRecord, UploadRecord

# --- Batches: validated, stored as .npy bytes in chunks, deleted after their time to live
#
# A batch is a list of parts, the rows of one upload each. All of it is one hash: ``record``; the chunks of the first
# part, ``NAME:CHUNK``; those of part i, counted from 0, ``NAME:CHUNK:i``; and ``appended-ID`` for every part that was
# appended, so that none is appended twice. Format 1 had one part.

Array = npt.NDArray[Any]
Chunks = dict[str, bytes]

#: No value in Redis is larger than this: Redis serves nobody else while it takes one in and brings it to the disk.
CHUNK_BYTES = 8 * 1024 * 1024
#: The field that is no array.
RECORD = "record"
#: Seconds that the fields of a batch that is being restored wait for the next.
_ARRIVING_SECONDS = 3600
#: Seconds that those of a large batch that is being stored do.
_WRITTEN_SECONDS = 60
#: A batch of more parts takes longer to put together than its rows are worth.
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
        """Store the arrays whole or not at all; they expire after ``ttl`` seconds.

        A batch that is there already stays as it is. Raises ``QuotaExceeded``. What is larger than a chunk is sent a
        chunk at a time to a key of its own, which becomes the batch's at the end: in one transaction it would keep
        Redis from all others, and beyond the time for which it may be silent.
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
                raise StoreAway("the store was silent for so long that what it was sent has expired")
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
        """Send chunks ahead of their batch; the key that holds them, unless they are left alone."""
        sent = self._keys.arriving(new_id("batch"))
        for field, data in chunks.items():
            with self._redis.pipeline() as pipe:
                pipe.hset(sent, field, data)
                pipe.expire(sent, _WRITTEN_SECONDS)
                pipe.execute()
        return sent

    def arrive(self, batch_id: str, field: str, data: bytes, *, first: bool) -> None:
        """Keep a field of a batch that is being restored, for an hour, unless ``restore`` makes the batch of it.

        With the ``first`` of them is forgotten what of an earlier attempt is left.
        """
        key = self._keys.arriving(batch_id)
        with self._redis.pipeline() as pipe:
            if first:
                pipe.delete(key)
            pipe.hset(key, field, data)
            pipe.expire(key, _ARRIVING_SECONDS)
            pipe.execute()

    def restore(self, record: BatchRecord, *, life: int | None) -> bool:
        """Make a batch of the fields that have arrived, for ``life`` milliseconds; False where it is there already."""
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
        """Append a part and count its rows, whole or not at all, and once however often it is requested.

        ``rows`` is the record of the part alone, whose arrays, scale and classes are the batch's. The time to live
        stays. Raises ``UnknownBatch``, ``QuotaExceeded`` or, where it would have too many rows or parts, ``BatchFull``.
        """
        key, appended = self._keys.batch(batch_id), f"appended-{part_id}"
        # Earlier parts are neither read nor written again: only the record is.
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

    def record(self, batch_id: str) -> BatchRecord:
        """What is known of a batch; raises ``UnknownBatch``."""
        record = self._records([batch_id])[0]
        if record is None:
            raise _unknown()
        return record

    def page(self, request: PageRequest) -> Page[BatchRecord]:
        """A page of the batches, newest first."""
        return read_page(self._redis, self._keys.batches(), request, self._records)

    def arrays(self, batch_id: str, parts: int | None = None) -> tuple[BatchRecord, dict[str, Array]]:
        """The record and the arrays of a batch, of its first ``parts`` alone if given; raises ``UnknownBatch``."""
        fields = cast(dict[bytes, bytes], self._redis.hgetall(self._keys.batch(batch_id)))
        record = _read(fields.get(RECORD.encode()))
        read = range(record.parts if parts is None else min(parts, record.parts))
        chunks: dict[str, dict[tuple[int, int], bytes]] = {}
        for field, data in fields.items():
            name, *numbers = field.decode().split(":")
            if numbers:
                chunk, part = int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0
                chunks.setdefault(name, {})[part, chunk] = data
        return record, {name: _joined(found, read) for name, found in chunks.items()}

    def keep(self, batch_id: str, ttl: int) -> None:
        """Make a batch live at least ``ttl`` seconds more; one that is held does so anyway."""
        self._redis.expire(self._keys.batch(batch_id), ttl, gt=True)

    def delete(self, batch_id: str) -> None:
        """Forget a batch; raises ``UnknownBatch``, and ``BatchInUse`` while a job that has not ended needs it."""
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
        """The records of batches, None for one that is gone, each with the moment when it expires as things stand.

        One that is held has no such moment.
        """
        with self._redis.pipeline() as pipe:
            for batch_id in ids:
                pipe.hget(self._keys.batch(batch_id), RECORD)
                pipe.pexpiretime(self._keys.batch(batch_id))
            found = pipe.execute()
        return [
            None if data is None else _read(data).model_copy(update={"expires_at": _moment(expires)})
            for data, expires in zip(found[::2], found[1::2], strict=True)
        ]

    def _chunks(self, arrays: Mapping[str, Array]) -> Chunks:
        data = {name: _to_bytes(array) for name, array in arrays.items()}
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
        raise BatchFull(f"a batch may have at most {most_rows} rows, and this one has {record.n}")
    if record.parts >= MOST_PARTS:
        raise BatchFull(f"a batch may have at most {MOST_PARTS} parts; append more rows at once")


def _grown(record: BatchRecord, rows: BatchRecord, size: int) -> BatchRecord:
    """The record of a batch with the rows of one more part."""
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
    }
    return record.model_copy(update=changed)


def _moment(expires: int) -> str | None:
    """The stamp of what PEXPIRETIME answers."""
    return at(expires / 1000) if expires > 0 else None


def _refuse_held(jobs: int) -> None:
    if jobs:
        named = "1 job that has not ended needs" if jobs == 1 else f"{jobs} jobs that have not ended need"
        raise BatchInUse(f"{named} the batch")


def _unknown() -> UnknownBatch:
    return UnknownBatch("there is no such batch, or it has expired", "/batch")


def _read(data: object) -> BatchRecord:
    if data is None:
        raise _unknown()
    return read_stored(BatchRecord, data)


def _size(chunks: Chunks) -> int:
    return sum(map(len, chunks.values()))


def _joined(chunks: Mapping[tuple[int, int], bytes], parts: range) -> Array:
    """One array of the chunks of some parts."""
    data: dict[int, list[bytes]] = {part: [] for part in parts}
    for part, chunk in sorted(chunks):
        if part in data:
            data[part].append(chunks[part, chunk])
    arrays = [_from_bytes(b"".join(pieces)) for pieces in data.values()]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _to_bytes(array: Array) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def _from_bytes(data: bytes) -> Array:
    array: Array = np.load(io.BytesIO(data), allow_pickle=False)
    return array


# --- Records beside a batch, which expire with it: the uploaded file, and the jobs that make its reports

#: What PTTL answers for a key that is not there.
_GONE = -2


class UploadStore:
    """The files of one tenant that became batches; ``BatchStore.delete`` forgets what is kept here too."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def put(self, batch_id: str, upload: UploadRecord, *, ttl: int) -> None:
        """Keep the record of a batch's file for ``ttl`` seconds, or until it expires."""
        key, text = self._keys.upload(batch_id), upload.model_dump_json()
        self._keep(batch_id, key, ttl, lambda pipe: pipe.set(key, text))

    def get(self, batch_id: str) -> UploadRecord:
        """The record of a batch's file; None for a batch that came in another way."""
        stored = self._redis.get(self._keys.upload(batch_id))
        return UploadRecord() if stored is None else read_stored(UploadRecord, stored)

    def files(self, batch_ids: Sequence[str]) -> list[str | None]:
        """What the files of batches were called, None of one that came in another way."""
        if not batch_ids:
            return []
        stored = cast(list[bytes | None], self._redis.mget([self._keys.upload(batch_id) for batch_id in batch_ids]))
        return [None if data is None else read_stored(UploadRecord, data).file for data in stored]

    def remember_report(self, batch_id: str, job_id: str, map_id: str | None, *, ttl: int) -> None:
        """Keep which job makes the report of a map, or of none, so that whoever looks again finds it."""
        key = self._keys.report_jobs(batch_id)
        self._keep(batch_id, key, ttl, lambda pipe: pipe.hset(key, map_id or "", job_id))

    def report_job(self, batch_id: str, map_id: str | None) -> str | None:
        """The job that makes the report of a map, or of none, where one is remembered."""
        found = cast(bytes | None, self._redis.hget(self._keys.report_jobs(batch_id), map_id or ""))
        return None if found is None else found.decode()

    def _keep(self, batch_id: str, key: str, ttl: int, write: Callable[[Pipeline], object]) -> None:
        """Write to a key that lives ``ttl`` seconds, not beyond its batch; nothing where the batch is gone."""
        batch = self._keys.batch(batch_id)

        def whole(pipe: Pipeline) -> None:
            left = pipe.pttl(batch)
            pipe.multi()
            if left != _GONE:
                write(pipe)
                pipe.pexpire(key, min(left, ttl * 1000) if left > 0 else ttl * 1000)

        transact(self._redis, whole, batch)


# --- From a stored batch to validated rows


class NoLabels(StorageError):
    """A stored batch without labels, where they are needed."""

    code = "no-labels"


def read_stored_batch(batches: BatchStore, batch_id: str, parts: int | None = None) -> tuple[Batch, list[str] | None]:
    """Read and check the predictions, labels and weights of a stored batch; and its groups, where it has any.

    ``parts`` takes its first parts alone: what is appended while a job waits is not the job's.
    """
    record, arrays = batches.arrays(batch_id, parts)
    if "labels" not in arrays:
        raise NoLabels("the batch was stored without labels", "/batch")
    note_rows(arrays["predictions"].shape)
    batch = read_batch(
        arrays["predictions"],
        arrays["labels"],
        arrays.get("weights"),
        scale=record.scale,
        kind=record.weights_kind,
    )
    return batch, arrays["groups"].tolist() if "groups" in arrays else None
