"""Batches: checked once, stored as .npy bytes in chunks, gone after their time to live."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from redis import Redis

from schemas.batches import BatchRecord
from storage.errors import UnknownBatch
from storage.keyspace import Keyspace

Array = npt.NDArray[Any]

#: No value in Redis is larger than this.
CHUNK_BYTES = 64 * 1024 * 1024


class BatchStore:
    """The batches of one tenant."""

    def __init__(self, redis: Redis, keys: Keyspace, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._redis = redis
        self._keys = keys
        self._chunk_bytes = chunk_bytes

    def put(self, record: BatchRecord, arrays: Mapping[str, Array], *, ttl: int) -> None:
        """Store the arrays whole or not at all; they expire after ``ttl`` seconds."""
        key = self._keys.batch(record.id)
        with self._redis.pipeline() as pipe:
            pipe.hset(key, "record", record.model_dump_json())
            for name, array in arrays.items():
                data = _to_bytes(array)
                for i in range(0, len(data), self._chunk_bytes):
                    pipe.hset(key, f"{name}:{i // self._chunk_bytes}", data[i : i + self._chunk_bytes])
            pipe.expire(key, ttl)
            pipe.execute()

    def record(self, batch_id: str) -> BatchRecord:
        """What is known of a batch; raises ``UnknownBatch``."""
        data = self._redis.hget(self._keys.batch(batch_id), "record")
        if data is None:
            raise UnknownBatch("there is no such batch, or it has expired", "/batch")
        return BatchRecord.model_validate_json(data)

    def arrays(self, batch_id: str) -> tuple[BatchRecord, dict[str, Array]]:
        """The record and the arrays of a batch; raises ``UnknownBatch``."""
        fields = cast(dict[bytes, bytes], self._redis.hgetall(self._keys.batch(batch_id)))
        if b"record" not in fields:
            raise UnknownBatch("there is no such batch, or it has expired", "/batch")
        record = BatchRecord.model_validate_json(fields[b"record"])
        chunks: dict[str, dict[int, bytes]] = {}
        for field, data in fields.items():
            name, _, number = field.decode().partition(":")
            if number:
                chunks.setdefault(name, {})[int(number)] = data
        return record, {name: _from_bytes(b"".join(parts[i] for i in sorted(parts))) for name, parts in chunks.items()}

    def keep(self, batch_id: str, ttl: int) -> None:
        """Make a batch live at least ``ttl`` seconds more, for a job that needs it."""
        self._redis.expire(self._keys.batch(batch_id), ttl, gt=True)

    def delete(self, batch_id: str) -> None:
        """Forget a batch; raises ``UnknownBatch``."""
        if not self._redis.delete(self._keys.batch(batch_id)):
            raise UnknownBatch("there is no such batch, or it has expired", "/batch")


def _to_bytes(array: Array) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def _from_bytes(data: bytes) -> Array:
    array: Array = np.load(io.BytesIO(data), allow_pickle=False)
    return array
