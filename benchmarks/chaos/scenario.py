"""One run: load, injected faults, the end of every job, and the final evidence."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from functools import partial

import httpx

from backend.store.keyspace import Keyspace
from benchmarks.chaos.asks import LARGE, SMALL, Batches, draw, draw_classes, mixed
from benchmarks.chaos.clock import Clock
from benchmarks.chaos.cluster import Cluster, await_true
from benchmarks.chaos.evidence import Change, ChaosEvidence, gather
from benchmarks.chaos.harms import Harms
from benchmarks.chaos.ledger import ChaosLedger
from benchmarks.chaos.load import Load
from benchmarks.chaos.looker import Looker
from benchmarks.chaos.monitor import Monitor
from benchmarks.chaos.moves import Mover
from benchmarks.chaos.schedule import paced, shuffled
from calibrant.client import Calibrant

#: Jobs in flight while faults are injected.
UNDER_WAY = 200
_READY_SECONDS = 120.0


class Scenario:
    """One run on a deployment.

    ``drain`` is the time limit of the last jobs in seconds; ``key`` is an API key, if the service requires one.
    """

    def __init__(self, running: Cluster, *, seed: int, drain: float = 180.0, key: str | None = None) -> None:
        self.ledger, self.monitor = ChaosLedger(), Monitor(running)
        self.keys = Keyspace()
        self.supervisors = len(running.supervisors)
        #: Seconds from the last request to the end of the last job; None if one did not end.
        self.drained: float | None = None
        self._running, self._seed, self._limit, self._key = running, seed, drain, key

    def run(self, harass: Callable[[], None]) -> ChaosEvidence:
        """Run ``harass`` under load and return the final evidence."""
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        choose = partial(mixed, self._upload())
        load = Load(self._running.url, self.ledger, choose, target=UNDER_WAY, seed=self._seed, headers=headers)
        with (
            contextlib.closing(self._running.connect()) as redis,
            httpx.Client(base_url=self._running.url, timeout=30, headers=headers) as http,
            Looker(self.ledger, redis, self.keys, http),
            httpx.Client(base_url=self._running.url, timeout=30, headers=headers) as other_http,
            Mover(other_http, self._seed) as mover,
            self.monitor.looking(),
        ):
            announce("jobs are queued")
            load.start()
            await_true(lambda: self.ledger.under_way() >= UNDER_WAY * 0.9, _READY_SECONDS)
            announce("harm is done")
            harass()
            announce("the last requests are answered")
            load.stop(_READY_SECONDS)
            self._running.await_ready()
            announce("the last jobs end")
            self.drained = self._drain()
        announce("all is looked at")
        with (
            contextlib.closing(self._running.connect(30)) as redis,
            Calibrant(self._running.url, api_key=self._key) as client,
        ):
            return gather(self.ledger, mover, redis, self.keys, client)

    def changes(self, found: ChaosEvidence) -> dict[str, Sequence[Change]]:
        """The changes of every job, and the ends of parts' runs."""
        changes: dict[str, Sequence[Change]] = dict(self.monitor.runs_over)
        changes.update((job.promise.job_id, job.changes) for job in found.jobs)
        return changes

    def _upload(self) -> Batches:
        with Calibrant(self._running.url, api_key=self._key) as client:
            rows = (draw(SMALL, 1), draw(LARGE, 2), draw_classes(LARGE, 3))
            return Batches(*(client.upload(*each).id for each in rows))

    def _drain(self) -> float | None:
        began = time.monotonic()
        try:
            await_true(lambda: not self.ledger.under_way(), self._limit)
        except TimeoutError:
            return None
        return time.monotonic() - began


def announce(what: str) -> None:
    """Print the next step."""
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def harass(harms: Harms, times: dict[str, int], seconds: float, numbers: random.Random) -> None:
    """Inject the given numbers of faults at random times; those without a victim are repeated at the end."""
    known, deadline = harms.kinds(), time.monotonic() + seconds
    kinds = shuffled({kind: count for kind, count in times.items() if kind in known}, numbers)
    while kinds and (left := deadline - time.monotonic()) > 0:
        missed = []
        for gap, kind in paced(kinds, left, numbers):
            time.sleep(gap)
            if not harms.do(kind):
                missed.append(kind)
        kinds = missed


def step_clocks(running: Cluster, clock: Clock) -> None:
    """Restart the API and the supervisors with a clock that can be changed."""
    for part in (running.api, *running.supervisors):
        part.environment.update(clock.environment())
        part.restart()
    running.await_ready()
