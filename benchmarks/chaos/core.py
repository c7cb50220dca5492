"""Internals of the service that the harness uses: commands, processes of jobs, and permanent keys.

All other modules use only processes, HTTP and the events of jobs.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from typing import cast

from redis import Redis
from rq import Worker

from backend.store.jobs.leases import Lease, read_leases
from backend.store.jobs.queues import EVALUATIONS, FITS
from backend.store.keyspace import Keyspace, Shared
from backend.store.monitors.ledger import Ledger, MonitorGroups
from backend.store.store import Store
from benchmarks.chaos.proc import children
from calibrant.monitoring.tally import Tally

# -P: files in the current folder must not shadow packages.
_CALIBRANT = (sys.executable, "-P", "-m", "calibrant")
#: Keys that may remain after all jobs; ``*`` is an id.
_LASTING = re.compile(
    r"calibrant:[^:]+:(batch:\*|batches|batch-bytes|map:\*|maps|summaries|aliases:.+|index:.+|newest-versions"
    r"|versions:.+|monitors|monitor-(?:definitions|names)|monitor:\*:.+|audit|audit-(?:entries|routine|serial|order)"
    r"|job:\*|jobs|job-events:\*|idempotency:\*)"
    r"|calibrant::(tenants|job-counts|api-keys|requests:.+|supervisors|supervisor:.+|ends:.+|busy-since|leader|queued-at|work|workers|wake:.+)"
    r"|calibrant:[^:]+:backfill:\*|calibrant::target:\*"  # until they expire
    r"|calibrant::(chores|chores-held|chore-owners|chore-tries|counted-chores|latest-of-monitors)"  # of monitors
    r"|rq:(queues|workers|workers:.+|worker:.+|clean_registries:.+)"
)
_PART = re.compile(r"-p\d+$")
_ID = re.compile(r"(?<=:)[a-z]*_?[0-9a-f]{30,}\b")


def api_command(host: str, port: int) -> list[str]:
    """The API."""
    return [*_CALIBRANT, "api", "--host", host, "--port", str(port)]


def supervisor_command(workers: int, *, warm: bool = False) -> list[str]:
    """A supervisor with this number of workers, on every queue; ``warm`` workers run jobs without a fork."""
    command = [*_CALIBRANT, "worker", "--queues", ",".join((FITS, EVALUATIONS)), "--processes", str(workers)]
    return [*command, "--warm"] if warm else command


def workers_of(supervisor: int) -> list[int]:
    """The processes of a supervisor's workers."""
    return children(supervisor)


def horses_of(supervisor: int) -> list[int]:
    """The processes in which the workers of a supervisor run jobs."""
    return [horse for worker in workers_of(supervisor) for horse in children(worker)]


def jobs_on(redis: Redis, workers: Iterable[int]) -> list[str]:
    """The jobs, and parts of jobs, whose leases belong to these worker processes."""
    wanted = set(workers)
    return [lease.job_id for lease, pid in _workers_of_leases(redis) if pid in wanted]


def job_runs(redis: Redis) -> dict[tuple[str, int], int]:
    """The running jobs with the numbers of their runs, and the process of the worker of each."""
    return {(lease.job_id, lease.run): pid for lease, pid in _workers_of_leases(redis)}


def _workers_of_leases(redis: Redis) -> list[tuple[Lease, int]]:
    leases = list(read_leases(redis))
    pids = [redis.hget(f"{Worker.redis_worker_namespace_prefix}{lease.owner}", "pid") for lease in leases]
    return [(lease, int(cast(bytes, pid))) for lease, pid in zip(leases, pids, strict=True) if pid is not None]


def monitor_counts(redis: Redis, name: str) -> tuple[dict[str, int], dict[str, Tally]]:
    """The totals of a monitor, and the tally of the rows of each group."""
    store = Store.of(redis)
    record = store.monitors.get(name)
    ledger, groups = Ledger(redis, store.keys, record), MonitorGroups(redis, store.keys, record)
    tally = ledger.buckets.tally(0, 2**31)
    return dict(ledger.totals()), {group: tally.of_group(number).pooled() for group, number in groups.all().items()}


def run_chores_now(redis: Redis) -> bool:
    """Make every background task due; True if there is none that looks after a data set."""
    for member in cast(list[bytes], redis.zrange(Shared.chores_due(), 0, -1)):
        redis.zadd(Shared.chores_due(), {member: 1.0}, xx=True)
    return not any(redis.scan_iter(Keyspace().job_target("*"), count=1000))


def whole(job: str) -> str:
    """The job of a part; a job is its own."""
    return _PART.sub("", job)


def parts_run(redis: Redis) -> dict[str, int]:
    """The running parts of jobs, and their run numbers, for which there are no events."""
    return {lease.job_id: lease.run for lease in read_leases(redis) if _PART.search(lease.job_id)}


def left_over(redis: Redis) -> dict[str, int]:
    """The keys that should not remain after the jobs, without ids, and the number of each."""
    names = (_ID.sub("*", cast(bytes, key).decode(errors="replace")) for key in redis.scan_iter(count=1000))
    return dict(Counter(name for name in names if not _LASTING.fullmatch(name)))
