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

from backend.store.jobs.leases import read_leases
from backend.store.jobs.queues import EVALUATIONS, FITS
from benchmarks.chaos.proc import children

# -P: files in the current folder must not shadow packages.
_CALIBRANT = (sys.executable, "-P", "-m", "calibrant")
#: Keys that may remain after all jobs; ``*`` is an id.
_LASTING = re.compile(
    r"calibrant:[^:]+:(batch:\*|batches|batch-bytes|map:\*|maps|summaries|aliases:.+|index:.+|newest-versions"
    r"|versions:.+|monitors|monitor-(?:definitions|names)|monitor:\*:.+|audit|audit-(?:entries|routine|serial|order)"
    r"|job:\*|jobs|job-events:\*|idempotency:\*)"
    r"|calibrant::(tenants|job-counts|api-keys|requests:.+|supervisors|supervisor:.+|ends:.+|busy-since|leader|queued-at|work|workers|wake:.+)"
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
    leases = read_leases(redis)
    owners = sorted({lease.owner for lease in leases})
    pids = [redis.hget(f"{Worker.redis_worker_namespace_prefix}{owner}", "pid") for owner in owners]
    mine = {owner for owner, pid in zip(owners, pids, strict=True) if pid is not None and int(pid) in wanted}
    return [lease.job_id for lease in leases if lease.owner in mine]


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
