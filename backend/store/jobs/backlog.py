"""The unfinished jobs: their number, its limits, and estimates of waiting times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, get_args

from redis import Redis
from redis.client import Pipeline

from backend.store.budget import Quotas
from backend.store.clock import seconds, seconds_of
from backend.store.errors import QueueFull, TooManyJobs
from backend.store.jobs.queues import QUEUES
from backend.store.keyspace import Keyspace, Shared
from backend.store.server.connection import Script
from schemas.jobs import JobKind, JobRecord

# --- The rate at which jobs end, measured from the latest ends of each queue with the clock of the store
#
# Each end counts the time since the previous end, or since its own job was queued if that was later. So idle time does
# not count, and while there is a backlog this is the joint throughput of all workers. A job that was cancelled before
# it ran does not count.

#: Number of ends kept per queue.
KEPT = 64
#: Minimum seconds per end, because of the resolution and differences of clocks.
_LEAST = 0.001

_ENDED, _TAKE, _BEGIN, _END = (Script(f"backlog/{name}") for name in ("ended", "take", "begin", "end"))


class JobEnd(NamedTuple):
    """When a job ended, and when it was queued, in seconds since 1970."""

    moment: float
    queued: float


class Pace(NamedTuple):
    """The number of jobs that ended in ``busy`` seconds of work, the last one at time ``last``."""

    ends: int
    busy: float
    last: float

    def per_second(self) -> float:
        """Jobs that end per second while there is work; 0 if none has ended yet."""
        return self.ends / self.busy if self.ends else 0.0

    def seconds(self, jobs: float, *, since: float, now: float) -> float | None:
        """Seconds until ``jobs`` more jobs have ended, with work available ``since`` a time; None if unknown.

        Includes the time since the last end, so that stopped workers count as slow.
        """
        silent = max(0.0, now - max(self.last, since))
        return jobs * (self.busy + silent) / self.ends if self.ends else None


def ended(pipe: Pipeline, record: JobRecord) -> None:
    """Queue the command that records the end of a job that ran."""
    if record.started_at is not None:
        _ENDED.run(pipe, [Shared.ends(record.queue)], repr(seconds(record.created_at)), KEPT)


def read_ends(stored: Iterable[bytes]) -> list[JobEnd]:
    """Parse stored ends."""
    return [JobEnd(*map(float, entry.split())) for entry in stored]


def pace_of(ends: Sequence[JobEnd]) -> Pace:
    """The rate computed from the latest ends of one or several queues, in any order."""
    last = sorted(ends)[-KEPT:]
    # The first of a full list only marks the start of the measurement, because its predecessor is unknown.
    before = last[0].moment if len(last) == KEPT else 0.0
    counted = last[1:] if len(last) == KEPT else last
    busy = 0.0
    for end in counted:
        busy += max(_LEAST, end.moment - max(before, end.queued))
        before = end.moment
    return Pace(len(counted), busy, before)


# --- Estimated waiting times in whole seconds, for Retry-After: for a place in the backlog, and for the end of a job
#
# Tenants take turns, so a tenant's next job runs when each of the others has had one. Both are estimates: waiting jobs
# may be longer or shorter than those that ended.

#: Maximum reported wait for a place, and for a job.
MOST_FOR_PLACE, MOST_FOR_JOB = 300, 60
#: Reported wait for a place, and for a job, if no job has ended yet.
FOR_PLACE, FOR_JOB = 10, 1


def wait_for_place(redis: Redis, over: int, *, own: bool) -> int:
    """Seconds until ``over`` of a tenant's ``own`` jobs, or of all jobs, have ended."""
    kinds = get_args(JobKind)
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
    """Seconds until an unfinished job is done."""
    since = seconds(record.created_at)
    with redis.pipeline(transaction=False) as pipe:
        pipe.time()
        _ask_ends(pipe, record.queue)
        pipe.scard(Shared.unended())
        pipe.hget(Shared.unended_of(record.kind), keys.tenant)
        pipe.hlen(Shared.unended_of(record.kind))
        pipe.zcount(keys.jobs(), f"({since!r}", "+inf")
        time, stored, every, own, tenants, newer = pipe.execute()
    # The tenant's later jobs come after this one, and few of them have ended before it.
    place = max(1, int(own or 1) - newer)
    jobs = 1 if record.status == "running" else min(place * max(1, tenants), max(place, every))
    expected = pace_of(read_ends(stored)).seconds(jobs, since=since, now=seconds_of(time))
    return _bounded(expected, FOR_JOB, MOST_FOR_JOB)


def _ask_ends(pipe: Pipeline, queue: str) -> None:
    pipe.lrange(Shared.ends(queue), 0, -1)


def _bounded(expected: float | None, default: int, most: int) -> int:
    return default if expected is None else min(max(1, math.ceil(expected)), most)


# --- The number of unfinished jobs, limited for each tenant and in total
#
# The place of a job is reserved before anything of its request is stored, by one script that counts and reserves
# atomically, so limits are exact under concurrency. The transaction that submits the job uses the place. An unused
# place is returned, or becomes free after ``PATIENCE`` if its process died. Far from the limits the script only counts
# and writes nothing. Every count is O(1).
#
# Jobs queued before these counts existed are counted only for their tenant.

#: Seconds that a place is reserved for a job that is not submitted.
PATIENCE = 120
#: Places are reserved only if fewer than this many are left, more than ever lie between count and submission.
NEAR = 1000


def begin(pipe: Pipeline, keys: Keyspace, record: JobRecord) -> None:
    """Queue the commands that count a job, using its reserved place if there is one."""
    own, shared = (keys.unended_jobs(), keys.taken_places()), (Shared.unended(), Shared.taken_places())
    keys_of_counts = (*own, *shared, Shared.unended_of(record.kind), Shared.busy_since())
    _BEGIN.run(pipe, keys_of_counts, record.id, keys.tenant)


def end(pipe: Pipeline, keys: Keyspace, record: JobRecord) -> None:
    """Queue the commands that stop counting a job; idempotent."""
    counts = (keys.unended_jobs(), Shared.unended(), Shared.unended_of(record.kind))
    _END.run(pipe, counts, record.id, keys.tenant)


class JobPlaces:
    """The places for one tenant's jobs."""

    def __init__(self, redis: Redis, keys: Keyspace, quotas: Quotas) -> None:
        self._redis = redis
        self._keys = keys
        self._quotas = quotas

    def take(self, job_id: str) -> None:
        """Reserve a place for a job; raises ``TooManyJobs`` and ``QueueFull``. A known job needs none."""
        keys, quotas = self._keys, self._quotas
        places = (keys.unended_jobs(), keys.taken_places(), Shared.unended(), Shared.taken_places())
        named, bounds = f"{keys.tenant}:{job_id}", (quotas.queued_jobs, quotas.all_jobs)
        names = (keys.job(job_id), *places)
        of_tenant, of_all = _TAKE.run(self._redis, names, named, job_id, *bounds, PATIENCE, NEAR)
        if of_tenant:
            message = f"this tenant may have at most {quotas.queued_jobs} queued or running jobs"
            raise TooManyJobs(message, retry_after=wait_for_place(self._redis, of_tenant, own=True))
        if of_all:
            message = f"the service may have at most {quotas.all_jobs} queued or running jobs"
            raise QueueFull(message, retry_after=wait_for_place(self._redis, of_all, own=False))

    def give_back(self, job_id: str) -> None:
        """Return the place of a job that was not submitted."""
        with self._redis.pipeline() as pipe:
            pipe.zrem(self._keys.taken_places(), job_id)
            pipe.zrem(Shared.taken_places(), f"{self._keys.tenant}:{job_id}")
            pipe.execute()
