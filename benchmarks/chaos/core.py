"""What the harness knows of the inside of the service: commands, who runs what, and which keys may stay.

Everything else here sees processes, HTTP and the events of jobs.
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

# -P: what lies in the folder that this runs in must not stand in for the packages.
_CALIBRANT = (sys.executable, "-P", "-m", "calibrant.cli")
#: The keys that outlast every job; ``*`` is an id.
_LASTING = re.compile(
    r"calibrant:[^:]+:(batch:\*|batches|batch-bytes|map:\*|maps|summaries|aliases:.+|index:.+|newest-versions"
    r"|versions:.+|job:\*|jobs|job-events:\*|idempotency:\*)"
    r"|calibrant::(tenants|job-counts|api-keys|requests:.+|supervisors|supervisor:.+|ends:.+|busy-since|leader)"
    r"|rq:(queues|workers|workers:.+|worker:.+|clean_registries:.+)"
)
_PART = re.compile(r"-p\d+$")
_ID = re.compile(r"(?<=:)[a-z]*_?[0-9a-f]{30,}\b")


def api_command(host: str, port: int) -> list[str]:
    """The API."""
    return [*_CALIBRANT, "api", "--host", host, "--port", str(port)]


def supervisor_command(workers: int, *, warm: bool = False) -> list[str]:
    """A supervisor of so many workers, on every queue; ``warm`` ones do their jobs without a fork."""
    command = [*_CALIBRANT, "worker", "--queues", ",".join((FITS, EVALUATIONS)), "--processes", str(workers)]
    return [*command, "--warm"] if warm else command


def workers_of(supervisor: int) -> list[int]:
    """The processes of a supervisor's workers."""
    return children(supervisor)


def horses_of(supervisor: int) -> list[int]:
    """The processes in which the workers of a supervisor run jobs."""
    return [horse for worker in workers_of(supervisor) for horse in children(worker)]


def jobs_on(redis: Redis, workers: Iterable[int]) -> list[str]:
    """The jobs, and parts of jobs, whose leases these worker processes hold."""
    wanted = set(workers)
    leases = read_leases(redis)
    owners = sorted({lease.owner for lease in leases})
    told = [redis.hget(f"{Worker.redis_worker_namespace_prefix}{owner}", "pid") for owner in owners]
    mine = {owner for owner, pid in zip(owners, told, strict=True) if pid is not None and int(pid) in wanted}
    return [lease.job_id for lease in leases if lease.owner in mine]


def whole(job: str) -> str:
    """The job that a part belongs to; a job itself."""
    return _PART.sub("", job)


def parts_run(redis: Redis) -> dict[str, int]:
    """The parts of jobs that run, and the number of each one's run; no event tells of them."""
    return {lease.job_id: lease.run for lease in read_leases(redis) if _PART.search(lease.job_id)}


def left_over(redis: Redis) -> dict[str, int]:
    """The keys that should not outlast the jobs, ids left out, and how many there are of each."""
    names = (_ID.sub("*", cast(bytes, key).decode(errors="replace")) for key in redis.scan_iter(count=1000))
    return dict(Counter(name for name in names if not _LASTING.fullmatch(name)))
