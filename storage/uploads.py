"""Files of people: what they were called and how they were read, as long as batches are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from redis import Redis

from schemas.uploads import UploadRecord
from storage.formats import read_stored
from storage.keyspace import Keyspace


class UploadStore:
    """The files of one tenant that became batches."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def put(self, batch_id: str, upload: UploadRecord, *, ttl: int) -> None:
        """Keep what is told of a batch for ``ttl`` seconds."""
        self._redis.set(self._keys.upload(batch_id), upload.model_dump_json(), ex=ttl)

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
        """Keep which job makes a report, so that whoever looks again finds it; of two at once the last stays."""
        upload = self.get(batch_id)
        jobs = {**upload.report_jobs, map_id or "": job_id}
        self.put(batch_id, upload.model_copy(update={"report_jobs": jobs}), ttl=ttl)
