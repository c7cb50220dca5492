"""Leases: who runs which job, renewed while it does.

A lease holds no time, only how often it was renewed. Whoever sees one unchanged for long enough by its own clock may
take the job away; so no clock that is set, here or in Redis, ends a lease or lengthens one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from redis import Redis
from redis.client import Pipeline

from storage.keyspace import Shared, job_field, read_job_field

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
