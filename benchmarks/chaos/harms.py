"""The faults: each kind selects a victim among the running processes and injects the fault."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from backend.store.server.connection import UNAVAILABLE
from benchmarks.chaos.clock import Clock
from benchmarks.chaos.cluster import Cluster
from benchmarks.chaos.core import horses_of, jobs_on, workers_of
from benchmarks.chaos.disk import Disk
from benchmarks.chaos.parts import DeploymentProcess
from benchmarks.chaos.proc import children
from benchmarks.chaos.recovery import InjectedFault

PAUSE_SECONDS, FULL_SECONDS, STEP_SECONDS = 10.0, 5.0, 3600
#: Seconds in which an API that is restarted without the store must answer.
_ANSWER_SECONDS = 60.0
#: Seconds that a kind waits for a victim.
_FIND_SECONDS = 3.0


class Harms:
    """Injects faults, one at a time; ``done`` lists them.

    An API is killed only while the other ones are ready. ``answered`` has when each API last applied a held map.
    """

    def __init__(
        self,
        cluster: Cluster,
        numbers: random.Random,
        disk: Disk | None,
        clock: Clock | None,
        answered: Mapping[str, float],
    ) -> None:
        self.done: list[InjectedFault] = []
        #: Planned faults that were not injected.
        self.missed: Counter[str] = Counter()
        #: APIs that were restarted without the store and did not answer.
        self.silent: list[str] = []
        self.clock_steps = False
        self._cluster = cluster
        self._numbers = numbers
        self._disk = disk
        self._clock = clock
        self._answered = answered
        self._ahead = 0
        self._redis = cluster.connect(0.5)

    def kinds(self) -> dict[str, Callable[[], InjectedFault | None]]:
        """The available kinds of faults."""
        return {
            "work-horse": lambda: self._kill_below(horses_of, "work-horse"),
            "worker": lambda: self._kill_below(workers_of, "worker"),
            "supervisor": lambda: self._strike_supervisor(signal.SIGKILL, "supervisor"),
            "supervisor terminated": lambda: self._strike_supervisor(signal.SIGTERM, "supervisor terminated"),
            "API": self._strike_api,
            "store": lambda: self._strike(self._cluster.store, "store"),
            "store paused": self._pause,
            "store away": self._keep_away,
            **({} if self._disk is None or self._disk.kind is None else {"disk full": self._fill}),
            **({} if self._clock is None else {"clock step": self._step}),
        }

    def do(self, kind: str) -> bool:
        """Inject one fault; False if there is no victim for some time."""
        harm = self._found(self.kinds()[kind])
        if harm is not None:
            self.done.append(harm)
        return harm is not None

    def _found(self, strike: Callable[[], InjectedFault | None]) -> InjectedFault | None:
        deadline = time.monotonic() + _FIND_SECONDS
        while time.monotonic() < deadline:
            harm = strike()
            if harm is not None:
                return harm
            time.sleep(0.02)
        return None

    def _harm(self, kind: str, at: float, victim: str, jobs: Sequence[str] | None = ()) -> InjectedFault:
        return InjectedFault(kind, at, victim, None if jobs is None else tuple(jobs), self.clock_steps)

    def _kill_below(self, find: Callable[[int], list[int]], kind: str) -> InjectedFault | None:
        """Kill a process of a supervisor, and record the jobs of its worker."""
        part = self._numbers.choice(self._cluster.supervisors)
        pids = [] if part.pid is None else find(part.pid)
        if not pids:
            return None
        pid = self._numbers.choice(pids)
        worker = pid if part.pid is not None and pid in workers_of(part.pid) else _parent(part, pid)
        jobs = self._jobs_on([worker])
        at = time.time()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return self._harm(kind, at, f"{part.name}/{pid}", jobs)
        return None

    def _strike_supervisor(self, number: int, kind: str) -> InjectedFault | None:
        part = self._numbers.choice(self._cluster.supervisors)
        workers = [] if part.pid is None else workers_of(part.pid)
        if not workers:
            return None
        jobs = self._jobs_on(workers)
        at = time.time()
        return None if part.signal(number) is None else self._harm(kind, at, part.name, jobs)

    def _strike(self, part: DeploymentProcess, kind: str) -> InjectedFault | None:
        at = time.time()
        return None if part.signal(signal.SIGKILL) is None else self._harm(kind, at, part.name)

    def _strike_api(self) -> InjectedFault | None:
        api = self._numbers.choice(self._cluster.apis)
        return self._strike(api, "API") if self._cluster.are_ready(but=api) else None

    def _keep_away(self) -> InjectedFault | None:
        """Kill the store and an API, and let the store return once the API answers without it."""
        api, store = self._numbers.choice(self._cluster.apis), self._cluster.store
        harm = self._strike(store, "store away") if self._cluster.are_ready(but=api) else None
        if harm is None:
            return None
        store.hold()
        api.signal(signal.SIGKILL)
        deadline = time.monotonic() + _ANSWER_SECONDS
        while not (answers := self._answered[api.name] > api.absences[-1].ended) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not answers:
            self.silent.append(f"{api.name} did not answer without the store")
        store.release()
        return harm

    def _pause(self) -> InjectedFault | None:
        at = time.time()
        pid = self._cluster.store.signal(signal.SIGSTOP)
        if pid is None:
            return None
        time.sleep(PAUSE_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        return self._harm("store paused", at, "store")

    def _fill(self) -> InjectedFault | None:
        assert self._disk is not None  # noqa: S101 - else this is no kind
        at = time.time()
        timer = threading.Timer(FULL_SECONDS, self._disk.free)
        timer.start()
        self._disk.fill()
        timer.join()
        self._disk.free()
        return self._harm("disk full", at, "store")

    def _step(self) -> InjectedFault | None:
        assert self._clock is not None  # noqa: S101 - else this is no kind
        at = time.time()
        self._ahead = self._numbers.choice([s for s in (-STEP_SECONDS, 0, STEP_SECONDS) if s != self._ahead])
        self._clock.set(self._ahead)
        return self._harm("clock step", at, "API and workers")

    def _jobs_on(self, workers: Sequence[int]) -> list[str] | None:
        try:
            return jobs_on(self._redis, workers)
        except UNAVAILABLE:
            return None


def _parent(part: DeploymentProcess, pid: int) -> int:
    candidates = [] if part.pid is None else [worker for worker in workers_of(part.pid) if pid in children(worker)]
    return candidates[0] if candidates else pid
