"""Leases: which worker runs which job; and the supervisors that are alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from redis import Redis
from redis.client import Pipeline

from backend.store.errors import StorageError
from backend.store.formats import read_stored
from backend.store.keyspace import Shared, job_field, read_job_field
from schemas.jobs import WorkersRecord

# --- Leases: which worker runs which job, renewed while it runs
#
# A lease holds no time, only how often it was renewed. Whoever sees one unchanged for long enough by its own clock
# may take the job away; so no clock that is set, here or in Redis, ends a lease or lengthens one.

#: Seconds between two renewals.
RENEWAL_SECONDS = 0.5
#: Seconds without one after which a lease is lost.
LOST_SECONDS = 2.0

# Allowed without memory too: a lease keeps its size, and one that is not renewed is taken away.
_RENEW = """#!lua flags=allow-oom
local held = redis.call('HGET', KEYS[1], ARGV[1])
if not held or string.sub(held, 1, #ARGV[2]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ARGV[3])
return 1
"""


@dataclass(frozen=True)
class Lease:
    """That ``owner`` does the run of this number of a job."""

    tenant: str
    job_id: str
    run: int
    owner: str

    @property
    def field(self) -> str:
        """The job among those of all tenants."""
        return job_field(self.tenant, self.job_id)

    @property
    def prefix(self) -> str:
        """What stands before the number of renewals."""
        return f"{self.run} {self.owner} "


def grant(pipe: Pipeline, lease: Lease) -> None:
    """Queue the write of a lease, in the transaction that claims the job."""
    pipe.hset(Shared.leases(), lease.field, f"{lease.prefix}0")


def holds(client: Redis | Pipeline, lease: Lease) -> bool:
    """Whether a lease is the job's."""
    held = client.hget(Shared.leases(), lease.field)
    return held is not None and cast(bytes, held).decode().startswith(lease.prefix)


def end_lease(pipe: Pipeline, tenant: str, job_id: str) -> None:
    """Queue the end of a job's lease, in the transaction by which its run ends."""
    pipe.hdel(Shared.leases(), job_field(tenant, job_id))


def renew(redis: Redis, lease: Lease, times: int) -> bool:
    """Renew a lease for the ``times``-th time; False where it has ended or is another's."""
    return bool(redis.eval(_RENEW, 1, Shared.leases(), lease.field, lease.prefix, str(times)))


def read_leases(redis: Redis) -> dict[Lease, int]:
    """Every lease, and how often it was renewed."""
    found: dict[Lease, int] = {}
    for field, value in cast(dict[bytes, bytes], redis.hgetall(Shared.leases())).items():
        tenant, job_id = read_job_field(field)
        run, owner, times = value.decode().split(" ")
        found[Lease(tenant, job_id, int(run), owner)] = int(times)
    return found


# --- Live supervisors: each renews a record of its workers, which expires if it is not renewed

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
    records = cast(list[bytes | None], redis.mget([Shared.supervisor(each.decode()) for each in ids]))
    gone = [each for each, record in zip(ids, records, strict=True) if record is None]
    if gone:
        redis.srem(Shared.supervisors(), *cast(list[str], gone))
    return [record for record in map(_read, records) if record is not None]


def _read(record: bytes | None) -> WorkersRecord | None:
    """Read a record; None for one of a later version, with fields that this one does not know."""
    try:
        return None if record is None else read_stored(WorkersRecord, record)
    except StorageError:
        return None


def serves(redis: Redis, queue: str) -> bool:
    """Whether a worker that is alive takes jobs of a queue."""
    return any(queue in record.queues for record in read_supervisors(redis))
