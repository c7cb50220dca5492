"""The jobs that have not ended: counted, and bounded for a tenant and in all.

A job's place is taken before anything of its request is stored, by one script that counts and takes it in one step:
so a bound holds exactly, however many ask at once. The transaction that submits the job fills the place; one that comes
to no job is given back, and where its process died it is free after ``PATIENCE``. Far from the bounds the script counts
alone, and writes nothing. Every count is O(1).

Jobs that were queued before there were these counts are counted for their tenant alone.
"""

from __future__ import annotations

from typing import cast

from redis import Redis
from redis.client import Pipeline

from schemas.jobs import JobRecord
from storage.errors import QueueFull, TooManyJobs
from storage.jobs.waits import wait_for_place
from storage.keyspace import Keyspace, Shared
from storage.quotas import Quotas

#: Seconds that a place is held for a job that is not submitted.
PATIENCE = 120
#: Places are taken where fewer than these are left: more requests than that are never between count and submission.
NEAR = 1000

# KEYS: the job, the tenant's unended ones and taken places, those of all.
# ARGV: tenant:job, job, the bounds of the tenant and of all, patience, near.
# Answers the places that would be too many, of the tenant and of all.
_TAKE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return {0, 0} end
local now = tonumber(redis.call('TIME')[1])
local over, near = {0, 0}, false
for i = 1, 2 do
    local unended, taken = KEYS[2 * i], KEYS[2 * i + 1]
    redis.call('ZREMRANGEBYSCORE', taken, '-inf', now - ARGV[5])
    redis.call('ZREM', taken, ARGV[3 - i])
    local bound = tonumber(ARGV[2 + i])
    local more = redis.call('SCARD', unended) + redis.call('ZCARD', taken) + 1
    if bound > 0 and more > bound then over[i] = more - bound end
    near = near or (bound > 0 and more + ARGV[6] > bound)
end
if near and over[1] == 0 and over[2] == 0 then
    redis.call('ZADD', KEYS[3], now, ARGV[2])
    redis.call('ZADD', KEYS[5], now, ARGV[1])
end
return over
"""

# KEYS: the tenant's unended jobs and taken places, those of all, the counts by tenant, since when there is work.
# ARGV: job, tenant.
_BEGIN = """
local named = ARGV[2] .. ':' .. ARGV[1]
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[4], named)
redis.call('SADD', KEYS[1], ARGV[1])
if redis.call('SADD', KEYS[3], named) == 1 then redis.call('HINCRBY', KEYS[5], ARGV[2], 1) end
if redis.call('SCARD', KEYS[3]) == 1 then redis.call('SET', KEYS[6], redis.call('TIME')[1]) end
"""

_END = """
redis.call('SREM', KEYS[1], ARGV[1])
if redis.call('SREM', KEYS[2], ARGV[2] .. ':' .. ARGV[1]) == 1
    and redis.call('HINCRBY', KEYS[3], ARGV[2], -1) <= 0 then redis.call('HDEL', KEYS[3], ARGV[2]) end
"""


def begin(pipe: Pipeline, keys: Keyspace, record: JobRecord) -> None:
    """Queue: a job is counted from now on, in the place that was taken for it if there is one."""
    own, shared = (keys.unended_jobs(), keys.taken_places()), (Shared.unended(), Shared.taken_places())
    pipe.eval(_BEGIN, 6, *own, *shared, Shared.unended_of(record.kind), Shared.busy_since(), record.id, keys.tenant)


def end(pipe: Pipeline, keys: Keyspace, record: JobRecord) -> None:
    """Queue: a job is counted no longer; one that ends twice is counted out once."""
    counts = (keys.unended_jobs(), Shared.unended(), Shared.unended_of(record.kind))
    pipe.eval(_END, 3, *counts, record.id, keys.tenant)


class Places:
    """The places for one tenant's jobs."""

    def __init__(self, redis: Redis, keys: Keyspace, quotas: Quotas) -> None:
        self._redis = redis
        self._keys = keys
        self._quotas = quotas

    def take(self, job_id: str) -> None:
        """Take the place of a job; raises ``TooManyJobs`` and ``QueueFull``. A job that is known needs none."""
        keys, quotas = self._keys, self._quotas
        places = (keys.unended_jobs(), keys.taken_places(), Shared.unended(), Shared.taken_places())
        named, bounds = f"{keys.tenant}:{job_id}", (quotas.queued_jobs, quotas.all_jobs)
        answered = self._redis.eval(_TAKE, 5, keys.job(job_id), *places, named, job_id, *bounds, PATIENCE, NEAR)
        of_tenant, of_all = cast(list[int], answered)
        if of_tenant:
            told = f"this tenant may have {quotas.queued_jobs} jobs that have not ended"
            raise TooManyJobs(told, retry_after=wait_for_place(self._redis, of_tenant, own=True))
        if of_all:
            told = f"the service has {quotas.all_jobs} jobs that have not ended, as many as it takes"
            raise QueueFull(told, retry_after=wait_for_place(self._redis, of_all, own=False))

    def give_back(self, job_id: str) -> None:
        """Give back the place of a job that was not submitted."""
        with self._redis.pipeline() as pipe:
            pipe.zrem(self._keys.taken_places(), job_id)
            pipe.zrem(Shared.taken_places(), f"{self._keys.tenant}:{job_id}")
            pipe.execute()
