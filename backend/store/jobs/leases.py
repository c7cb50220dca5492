"""Leases, which record what job each worker runs, and the running supervisors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from redis import Redis
from redis.client import Pipeline

from backend.store.errors import StorageError
from backend.store.formats import read_stored
from backend.store.jobs.queues import renew_workers
from backend.store.keyspace import Shared, job_field, read_job_field
from backend.store.server.connection import Script
from schemas.jobs import WorkersRecord

# --- Leases, renewed while a job runs
#
# A lease contains no time, only its number of renewals. A supervisor that sees it unchanged for long enough by its own
# clock may take the job away, so changes of a clock, here or in Redis, have no effect on leases.

#: Seconds between two renewals.
RENEWAL_SECONDS = 0.5
#: Seconds without a renewal after which a lease is lost.
LOST_SECONDS = 2.0

_RENEW = Script("leases/renew")


@dataclass(frozen=True)
class Lease:
    """``owner`` performs run number ``run`` of a job."""

    tenant: str
    job_id: str
    run: int
    owner: str

    @property
    def field(self) -> str:
        """The name of the job among those of all tenants."""
        return job_field(self.tenant, self.job_id)

    @property
    def prefix(self) -> str:
        """The text before the number of renewals."""
        return f"{self.run} {self.owner} "


def grant(pipe: Pipeline, lease: Lease) -> None:
    """Queue the write of a lease, in the transaction that claims the job."""
    pipe.hset(Shared.leases(), lease.field, f"{lease.prefix}0")


def holds(client: Redis | Pipeline, lease: Lease) -> bool:
    """Whether a lease is valid."""
    held = client.hget(Shared.leases(), lease.field)
    return held is not None and cast(bytes, held).decode().startswith(lease.prefix)


def end_lease(pipe: Pipeline, tenant: str, job_id: str) -> None:
    """Queue the end of a job's lease, in the transaction that ends its run."""
    pipe.hdel(Shared.leases(), job_field(tenant, job_id))


def renew(redis: Redis, lease: Lease, times: int) -> bool:
    """Renew a lease for the ``times``-th time; returns False if it has ended or was replaced."""
    return bool(_RENEW.run(redis, [Shared.leases()], lease.field, lease.prefix, times))


def read_leases(redis: Redis) -> dict[Lease, int]:
    """Every lease with its number of renewals."""
    renewals: dict[Lease, int] = {}
    for field, value in cast(dict[bytes, bytes], redis.hgetall(Shared.leases())).items():
        tenant, job_id = read_job_field(field)
        run, owner, times = value.decode().split(" ")
        renewals[Lease(tenant, job_id, int(run), owner)] = int(times)
    return renewals


# --- Running supervisors; each renews a record of its workers, which otherwise expires

#: Seconds that a supervisor counts as running after its last renewal.
ALIVE_SECONDS = 5


def announce(
    redis: Redis, record: WorkersRecord, workers: Sequence[str] = (), times: int = 0, *, is_healthy: bool = True
) -> None:
    """Renew the record of a running supervisor, and its running ``workers``, for the ``times``-th time.

    A supervisor that is not healthy has no record, so that no jobs are queued for it.
    """
    with redis.pipeline() as pipe:
        renew_workers(pipe, workers, record.queues, times)
        if is_healthy:
            pipe.set(Shared.supervisor(record.id), record.model_dump_json(), ex=ALIVE_SECONDS)
            pipe.sadd(Shared.supervisors(), record.id)
        else:
            _delete_record(pipe, record.id)
        pipe.execute()


def retire(redis: Redis, supervisor_id: str) -> None:
    """Delete the record of a supervisor that ends."""
    with redis.pipeline() as pipe:
        _delete_record(pipe, supervisor_id)
        pipe.execute()


def _delete_record(pipe: Pipeline, supervisor_id: str) -> None:
    pipe.delete(Shared.supervisor(supervisor_id))
    pipe.srem(Shared.supervisors(), supervisor_id)


def read_supervisors(redis: Redis) -> list[WorkersRecord]:
    """The running supervisors."""
    ids = sorted(cast(set[bytes], redis.smembers(Shared.supervisors())))
    if not ids:
        return []
    keys = [Shared.supervisor(supervisor_id.decode()) for supervisor_id in ids]
    with redis.pipeline() as pipe:
        pipe.mget(keys)
        for key in keys:
            pipe.ttl(key)
        stored, *lives = pipe.execute()
    # A record has a longer life only if the clock of the store was set back; a running supervisor renews it at once.
    records = [record if life <= ALIVE_SECONDS else None for record, life in zip(stored, lives, strict=True)]
    gone = [supervisor_id for supervisor_id, record in zip(ids, records, strict=True) if record is None]
    if gone:
        redis.srem(Shared.supervisors(), *cast(list[str], gone))
    return [record for record in map(_read, records) if record is not None]


def _read(record: bytes | None) -> WorkersRecord | None:
    """Parse a record; None if it comes from a newer version."""
    try:
        return None if record is None else read_stored(WorkersRecord, record)
    except StorageError:
        return None


def serves(redis: Redis, queue: str) -> bool:
    """Whether a running worker processes jobs of a queue."""
    return any(queue in record.queues for record in read_supervisors(redis))
