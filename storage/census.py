"""What the whole store holds, over all tenants: numbers for those who run it, told to no tenant."""

from __future__ import annotations

from dataclasses import dataclass, field

from redis import Redis
from rq import Queue
from rq.worker_registration import REDIS_WORKER_KEYS

from storage.jobs import FITS
from storage.keyspace import DEFAULT_TENANT, Keyspace, Shared
from storage.tally import Ended, read_counts
from storage.throughput import QUEUES, pace_of, read_ends

_QUEUES = Queue.redis_queues_keys
_QUEUE_PREFIX = Queue.redis_queue_namespace_prefix


@dataclass(frozen=True)
class Census:
    """One look at the store. ``queued`` is the jobs that wait, by queue; ``workers`` those that beat.

    ``unended`` is the jobs that wait or run, ``per_second`` how many end in a second while there is work, by queue.
    """

    queued: dict[str, int]
    maps: int
    workers: int
    ended: dict[tuple[str, str], Ended]
    unended: int = 0
    per_second: dict[str, float] = field(default_factory=dict)


def take_census(redis: Redis) -> Census:
    """Count by lengths alone, in two round trips.

    RQ's own counts clean its registries up as they go, which is not safe while workers do the same.
    """
    with redis.pipeline(transaction=False) as pipe:
        pipe.smembers(_QUEUES)
        pipe.smembers(REDIS_WORKER_KEYS)
        pipe.smembers(Shared.tenants())
        pipe.hgetall(Shared.job_counts())
        pipe.scard(Shared.unended())
        for queue in QUEUES:
            pipe.lrange(Shared.ends(queue), 0, -1)
        queues, workers, tenants, counts, unended, *ends = pipe.execute()
        names = sorted({FITS} | {key.decode().removeprefix(_QUEUE_PREFIX) for key in queues})
        known = {DEFAULT_TENANT} | {tenant.decode() for tenant in tenants}
        for name in names:
            pipe.llen(_QUEUE_PREFIX + name)
        for tenant in known:
            pipe.zcard(Keyspace(tenant).maps())
        if workers:
            # A worker's key ends with its heartbeat; the set keeps it until RQ cleans up.
            pipe.exists(*workers)
        lengths = [int(length) for length in pipe.execute()]
    maps = sum(lengths[len(names) : len(names) + len(known)])
    return Census(
        dict(zip(names, lengths, strict=False)),
        maps,
        lengths[-1] if workers else 0,
        read_counts(counts),
        unended,
        {queue: pace_of(read_ends(stored)).per_second() for queue, stored in zip(QUEUES, ends, strict=True) if stored},
    )
