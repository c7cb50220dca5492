"""Counts over all tenants, for the metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from redis import Redis

from backend.store.chores import read_chore_counts
from backend.store.jobs.backlog import pace_of, read_ends
from backend.store.jobs.leases import read_supervisors
from backend.store.jobs.queues import QUEUES, lines
from backend.store.jobs.runs import Ended, read_counts
from backend.store.keyspace import DEFAULT_TENANT, Keyspace, Shared

if TYPE_CHECKING:
    from backend.store.monitors.standings import Json


@dataclass(frozen=True)
class Census:
    """A snapshot of the store: ``queued`` jobs by queue, and the number of running ``workers``.

    ``unended`` is the number of queued and running jobs, and ``per_second`` the rate at which jobs of a queue end while
    there is work. ``monitors`` are the latest values of a bounded number of monitors, by tenant and uid. ``chores``
    counts background tasks by kind and outcome, ``deliveries`` counts deliveries by outcome.
    """

    queued: dict[str, int]
    maps: int
    workers: int
    ended: dict[tuple[str, str], Ended]
    unended: int = 0
    per_second: dict[str, float] = field(default_factory=dict)
    monitors: dict[tuple[str, str], Json] = field(default_factory=dict)
    chores: dict[tuple[str, str], int] = field(default_factory=dict)
    deliveries: dict[str, int] = field(default_factory=dict)


def take_census(redis: Redis) -> Census:
    """Count with a few round trips, using only lengths."""
    from backend.store.monitors.standings import read_latest  # with models that a start does not need

    workers = sum(record.processes for record in read_supervisors(redis))
    waiting = lines(redis)
    with redis.pipeline(transaction=False) as pipe:
        pipe.smembers(Shared.tenants())
        pipe.hgetall(Shared.job_counts())
        for tenant, name in waiting:
            pipe.zcard(Keyspace(tenant).line(name))
        pipe.scard(Shared.unended())
        for name in QUEUES:
            pipe.lrange(Shared.ends(name), 0, -1)
        tenants, counts, *lengths = pipe.execute()
    lengths, unended, ends = lengths[: -len(QUEUES) - 1], lengths[-len(QUEUES) - 1], lengths[-len(QUEUES) :]
    paces = {name: pace_of(read_ends(stored)).per_second() for name, stored in zip(QUEUES, ends, strict=True) if stored}
    queued = dict.fromkeys(QUEUES, 0)
    for (_, name), length in zip(waiting, lengths, strict=True):
        queued[name] = queued.get(name, 0) + length
    known = {DEFAULT_TENANT} | {tenant.decode() for tenant in tenants}
    with redis.pipeline(transaction=False) as pipe:
        for tenant in known:
            pipe.zcard(Keyspace(tenant).maps())
        pipe.hgetall(Shared.chore_counts())
        pipe.hgetall(Shared.delivery_counts())
        *maps, chores, delivered = pipe.execute()
    deliveries = {status.decode(): int(number) for status, number in delivered.items()}
    of_monitors = (read_latest(redis), read_chore_counts(chores), deliveries)
    return Census(queued, sum(maps), workers, read_counts(counts), unended, paces, *of_monitors)
