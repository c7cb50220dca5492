"""The unfinished jobs: their number, its bounds, and estimates of waiting times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast, get_args

from redis import Redis
from redis.client import Pipeline

from backend.store.budget import Quotas
from backend.store.clock import seconds, seconds_of
from backend.store.errors import QueueFull, TooManyJobs
from backend.store.jobs.queues import QUEUES
from backend.store.keyspace import Keyspace, Shared
from schemas.jobs import JobRecord, Kind

# --- How fast jobs end: measured on the latest ends of each queue, by the clock of the store
#
# An end takes the time since the one before it, or since its own job was queued where that was later: so while there
# is no work no time passes, and while work waits this is what the workers get done together. A job that was cancelled
# before it ran tells nothing.

#: So many ends of a queue are kept.
KEPT = 64
#: No end takes less: clocks are no finer, and those of two machines may differ.
_LEAST = 0.001

_ENDED = """
local now = redis.call('TIME')
redis.call('LPUSH', KEYS[1], string.format('%d.%06d %s', now[1], now[2], ARGV[1]))
redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
"""


class End(NamedTuple):
    """When a job ended, and when it was queued; seconds since 1970."""

    moment: float
    queued: float


class Pace(NamedTuple):
    """So many jobs ended in so many seconds in which there was work, the last of them at a moment."""

    ends: int
    busy: float
    last: float

    def per_second(self) -> float:
        """Jobs that end in a second while there is work; 0 where none has ended yet."""
        return self.ends / self.busy if self.ends else 0.0

    def seconds(self, jobs: float, *, since: float, now: float) -> float | None:
        """Seconds until so many more have ended, where there has been work ``since`` a moment; None if unknown.

        The time since the last end counts too: workers that have stopped count as slow.
        """
        silent = max(0.0, now - max(self.last, since))
        return jobs * (self.busy + silent) / self.ends if self.ends else None


def ended(pipe: Pipeline, record: JobRecord) -> None:
    """Queue: note the end of a job that ran."""
    if record.started_at is not None:
        pipe.eval(_ENDED, 1, Shared.ends(record.queue), repr(seconds(record.created_at)), KEPT)


def read_ends(stored: Iterable[bytes]) -> list[End]:
    """The ends as they are kept."""
    return [End(*map(float, entry.split())) for entry in stored]


def pace_of(ends: Sequence[End]) -> Pace:
    """The pace of the last of these ends, of one queue or of several, in any order."""
    last = sorted(ends)[-KEPT:]
    # Of the first of many it is not known what was before: it is where the measurement begins.
    before = last[0].moment if len(last) == KEPT else 0.0
    counted = last[1:] if len(last) == KEPT else last
    busy = 0.0
    for end in counted:
        busy += max(_LEAST, end.moment - max(before, end.queued))
        before = end.moment
    return Pace(len(counted), busy, before)


# --- How long to wait: until a place among the jobs is free, or a job is done; in whole seconds, for Retry-After
#
# Tenants take turns, so a tenant's next job comes when each of the others has had one. Neither answer is a promise:
# the jobs that wait may be longer or shorter than those that ended.

#: The longest wait that is reported for a place and for a job.
MOST_FOR_PLACE, MOST_FOR_JOB = 300, 60
#: The wait that is reported for a place and for a job while no job has ended yet.
FOR_PLACE, FOR_JOB = 10, 1


def wait_for_place(redis: Redis, over: int, *, own: bool) -> int:
    """Seconds until so many of a tenant's ``own`` jobs, or of all, have ended."""
    kinds = get_args(Kind)
    with redis.pipeline(transaction=False) as pipe:
        pipe.time()
        pipe.get(Shared.busy_since())
        for kind in kinds:
            pipe.hlen(Shared.unended_of(kind))
        for queue in QUEUES:
            _ask_ends(pipe, queue)
        time, since, *rest = pipe.execute()
    now = seconds_of(time)
    ends = [end for stored in rest[len(kinds) :] for end in read_ends(stored)]
    turns = max(1, *rest[: len(kinds)]) if own else 1
    expected = pace_of(ends).seconds(over * turns, since=now if since is None else float(since), now=now)
    return _bounded(expected, FOR_PLACE, MOST_FOR_PLACE)


def wait_for_job(redis: Redis, keys: Keyspace, record: JobRecord) -> int:
    """Seconds until a job that has not ended is done."""
    since = seconds(record.created_at)
    with redis.pipeline(transaction=False) as pipe:
        pipe.time()
        _ask_ends(pipe, record.queue)
        pipe.scard(Shared.unended())
        pipe.hget(Shared.unended_of(record.kind), keys.tenant)
        pipe.hlen(Shared.unended_of(record.kind))
        pipe.zcount(keys.jobs(), f"({since!r}", "+inf")
        time, stored, every, own, tenants, newer = pipe.execute()
    # The tenant's later jobs come after this one; few of them have ended before it.
    place = max(1, int(own or 1) - newer)
    jobs = 1 if record.status == "running" else min(place * max(1, tenants), max(place, every))
    expected = pace_of(read_ends(stored)).seconds(jobs, since=since, now=seconds_of(time))
    return _bounded(expected, FOR_JOB, MOST_FOR_JOB)


def _ask_ends(pipe: Pipeline, queue: str) -> None:
    pipe.lrange(Shared.ends(queue), 0, -1)


def _bounded(expected: float | None, default: int, most: int) -> int:
    return default if expected is None else min(max(1, math.ceil(expected)), most)


# --- The number of unfinished jobs, bounded for each tenant and in total
#
# A job's place is taken before anything of its request is stored, by one script that counts and takes it in one step:
# so a bound holds exactly, however many ask at once. The transaction that submits the job fills the place; one that
# comes to no job is given back, and where its process died it is free after ``PATIENCE``. Far from the bounds the
# script counts alone, and writes nothing. Every count is O(1).
#
# Jobs that were queued before there were these counts are counted for their tenant alone.

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
            message = f"this tenant may have {quotas.queued_jobs} jobs that have not ended"
            raise TooManyJobs(message, retry_after=wait_for_place(self._redis, of_tenant, own=True))
        if of_all:
            message = f"the service has {quotas.all_jobs} jobs that have not ended, as many as it takes"
            raise QueueFull(message, retry_after=wait_for_place(self._redis, of_all, own=False))

    def give_back(self, job_id: str) -> None:
        """Give back the place of a job that was not submitted."""
        with self._redis.pipeline() as pipe:
            pipe.zrem(self._keys.taken_places(), job_id)
            pipe.zrem(Shared.taken_places(), f"{self._keys.tenant}:{job_id}")
            pipe.execute()
