"""Disconnect a machine with running jobs; record where the jobs end and when the machine works again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from redis import Redis

from backend.store.keyspace import Keyspace
from benchmarks.chaos.cluster import Cluster, await_true
from benchmarks.chaos.core import jobs_on, whole, workers_of
from benchmarks.chaos.evidence import status_changes
from benchmarks.chaos.namespaces import NamespaceSwitch
from benchmarks.chaos.parts import DeploymentProcess
from schemas.jobs import FINAL

CUT_SECONDS = 30.0
_FIND_SECONDS, _BACK_SECONDS = 60.0, 60.0


@dataclass(frozen=True)
class Cut:
    """One cut: the jobs on the machine, those that ended elsewhere in the meantime, and when it worked again."""

    name: str
    at: float
    jobs: tuple[str, ...]
    ended_meanwhile: tuple[str, ...]
    #: Seconds from the reconnection to a job on one of its workers; None if there was none.
    back_after: float | None


@dataclass
class Cutter:
    """Disconnects machines, one after another."""

    running: Cluster
    network: NamespaceSwitch
    keys: Keyspace
    done: list[Cut] = field(default_factory=list)

    def cut(self, part: DeploymentProcess, seconds: float = CUT_SECONDS) -> None:
        """Disconnect a supervisor's machine while it runs jobs, and reconnect it."""
        redis = self.running.connect()
        await_true(lambda: bool(_jobs_of(redis, part)), _FIND_SECONDS)
        jobs, at = _jobs_of(redis, part), time.time()
        self.network.cut(part.name)
        time.sleep(seconds)
        # Only jobs have an event at their end, parts have none.
        ended = tuple(job for job in jobs if self._ended_since(redis, whole(job), at))
        self.network.mend(part.name)
        began = time.monotonic()
        back = _holds(lambda: bool(set(_jobs_of(redis, part)) - set(jobs)), _BACK_SECONDS)
        self.done.append(Cut(part.name, at, tuple(jobs), ended, time.monotonic() - began if back else None))

    def _ended_since(self, redis: Redis, job: str, at: float) -> bool:
        return any(change.at > at and change.status in FINAL for change in status_changes(redis, self.keys, job))


def _jobs_of(redis: Redis, part: DeploymentProcess) -> Sequence[str]:
    return [] if part.pid is None else jobs_on(redis, workers_of(part.pid))


def _holds(check: Callable[[], bool], seconds: float) -> bool:
    try:
        await_true(check, seconds)
    except TimeoutError:
        return False
    return True


def turns(parts: Sequence[DeploymentProcess], count: int) -> Iterator[DeploymentProcess]:
    """The parts in rotation, ``count`` in total."""
    return (parts[i % len(parts)] for i in range(count))
