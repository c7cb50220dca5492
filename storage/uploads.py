"""What is kept of a batch beside its rows, at most as long: its file, and the jobs that make its reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from redis import Redis
from redis.client import Pipeline

from schemas.uploads import UploadRecord
from storage.formats import read_stored
from storage.keyspace import Keyspace
from storage.transactions import transact

#: What PTTL answers for a key that is not there.
_GONE = -2


class UploadStore:
    """The files of one tenant that became batches; ``BatchStore.delete`` forgets what is kept here too."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def put(self, batch_id: str, upload: UploadRecord, *, ttl: int) -> None:
        """Keep what is told of a batch for ``ttl`` seconds, or until it expires."""
        key, text = self._keys.upload(batch_id), upload.model_dump_json()
        self._keep(batch_id, key, ttl, lambda pipe: pipe.set(key, text))

    def get(self, batch_id: str) -> UploadRecord:
        """What is told of the file of a batch; nothing of one that came in another way."""
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
