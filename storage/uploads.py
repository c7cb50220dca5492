"""Files of people: what they were called and how they were read, for as long as their batches are kept."""

from __future__ import annotations

from redis import Redis

from schemas.batches import BatchRecord
from schemas.uploads import UploadRecord
from storage.formats import read_stored
from storage.keyspace import Keyspace


class UploadStore:
    """The files of one tenant that became batches."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def put(self, batch: BatchRecord, upload: UploadRecord) -> None:
        """Keep what is told of a file for as long as its batch, which has just been stored."""
        key = self._keys.upload(batch.id)
        life = self._redis.pttl(self._keys.batch(batch.id))
        if life > 0:
            self._redis.set(key, upload.model_dump_json(), px=life)

    def get(self, batch_id: str) -> UploadRecord | None:
        """What is told of the file of a batch; None of one that came in another way."""
        stored = self._redis.get(self._keys.upload(batch_id))
        return None if stored is None else read_stored(UploadRecord, stored)

    def remember_report(self, batch_id: str, upload: UploadRecord, job_id: str) -> None:
        """Keep which job makes the report, so that it is made once."""
        told = upload.model_copy(update={"report_job": job_id})
        self._redis.set(self._keys.upload(batch_id), told.model_dump_json(), keepttl=True, xx=True)
