"""Who works: what each supervisor tells of its workers, forgotten soon after its last word."""

from __future__ import annotations

from typing import cast

from redis import Redis

from schemas.workers import WorkersRecord
from storage.errors import StorageError
from storage.formats import read_stored
from storage.keyspace import Shared

#: Seconds that a supervisor counts as alive after its last word.
ALIVE_SECONDS = 5


def announce(redis: Redis, record: WorkersRecord) -> None:
    """Tell that a supervisor is alive, and of its workers."""
    with redis.pipeline() as pipe:
        pipe.set(Shared.supervisor(record.id), record.model_dump_json(), ex=ALIVE_SECONDS)
        pipe.sadd(Shared.supervisors(), record.id)
        pipe.execute()


def retire(redis: Redis, supervisor_id: str) -> None:
    """Forget a supervisor that ends."""
    with redis.pipeline() as pipe:
        pipe.delete(Shared.supervisor(supervisor_id))
        pipe.srem(Shared.supervisors(), supervisor_id)
        pipe.execute()


def read_supervisors(redis: Redis) -> list[WorkersRecord]:
    """The supervisors that are alive."""
    ids = sorted(cast(set[bytes], redis.smembers(Shared.supervisors())))
    if not ids:
        return []
    told = cast(list[bytes | None], redis.mget([Shared.supervisor(each.decode()) for each in ids]))
    gone = [each for each, record in zip(ids, told, strict=True) if record is None]
    if gone:
        redis.srem(Shared.supervisors(), *cast(list[str], gone))
    return [record for record in map(_read, told) if record is not None]


def _read(told: bytes | None) -> WorkersRecord | None:
    """One of a version that tells more than this one knows is passed over."""
    try:
        return None if told is None else read_stored(WorkersRecord, told)
    except StorageError:
        return None


def serves(redis: Redis, queue: str) -> bool:
    """Whether a worker that is alive takes jobs of a queue."""
    return any(queue in record.queues for record in read_supervisors(redis))
