"""The observer of fault injection: it sees the ends of the runs of parts of jobs, which have no events."""

from __future__ import annotations

from itertools import count
from typing import Any, cast

from redis import Redis

from backend.store.jobs.leases import Lease
from backend.store.keyspace import Shared
from benchmarks.chaos.cluster import Cluster
from benchmarks.chaos.monitor import Monitor
from tests.integration.redis_server import until

PART = "job_1-p3"


class StoreAlone:
    """A deployment without supervisors."""

    supervisors = ()

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def connect(self, _timeout: float) -> Redis:
        return Redis(connection_pool=self._redis.connection_pool)


def test_the_end_of_a_run_of_a_part_is_not_observed(redis: Redis) -> None:
    monitor, runs = Monitor(cast(Cluster, cast(Any, StoreAlone(redis)))), count()

    def runs_again() -> bool:
        lease = Lease("default", PART, next(runs), "a-worker")
        redis.hset(Shared.leases(), lease.field, f"{lease.prefix}0")
        return PART in monitor.runs_over

    with monitor.looking():
        until(runs_again)
    assert {change.status for change in monitor.runs_over.pop(PART)} == {"over"}
    assert not monitor.runs_over
