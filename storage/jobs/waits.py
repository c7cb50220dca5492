"""How long to wait: until a place among the jobs is free, or a job is done; in whole seconds, for Retry-After.

Tenants take turns, so a tenant's next job comes when each of the others has had one. Neither answer is a promise: the
jobs that wait may be longer or shorter than those that ended.
"""

from __future__ import annotations

import math
from typing import get_args

from redis import Redis
from redis.client import Pipeline

from schemas.jobs import JobRecord, Kind
from storage.clock import seconds, seconds_of
from storage.jobs.queues import QUEUES
from storage.jobs.throughput import pace_of, read_ends
from storage.keyspace import Keyspace, Shared

#: The most that is told of a place and of a job.
MOST_FOR_PLACE, MOST_FOR_JOB = 300, 60
#: What is told of a place and of a job while no job has ended yet.
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
    return _told(expected, FOR_PLACE, MOST_FOR_PLACE)


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
    return _told(expected, FOR_JOB, MOST_FOR_JOB)


def _ask_ends(pipe: Pipeline, queue: str) -> None:
    pipe.lrange(Shared.ends(queue), 0, -1)


def _told(expected: float | None, default: int, most: int) -> int:
    return default if expected is None else min(max(1, math.ceil(expected)), most)
