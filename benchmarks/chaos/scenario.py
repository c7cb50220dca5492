"""One run: jobs under way, harm done to what runs them, the end of every job awaited, and a last look at all."""

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
from benchmarks.chaos.evidence import Change, Evidence, gather
from benchmarks.chaos.harms import Harms
from benchmarks.chaos.ledger import Ledger
from benchmarks.chaos.load import Load
from benchmarks.chaos.looker import Looker
from benchmarks.chaos.monitor import Monitor
from benchmarks.chaos.schedule import paced, shuffled
from calibrant.client import Calibrant

#: Jobs that are under way as long as harm is done.
UNDER_WAY = 200
_READY_SECONDS = 120.0


class Scenario:
    """One run on a deployment.

    ``drain`` is how many seconds the last jobs may take to end; ``key`` an API key where the service asks for one.
    """

    def __init__(self, running: Cluster, *, seed: int, drain: float = 180.0, key: str | None = None) -> None:
        self.ledger, self.monitor = Ledger(), Monitor(running)
        self.keys = Keyspace()
        self.supervisors = len(running.supervisors)
        #: Seconds from the last request to the end of the last job; None where one did not end.
        self.drained: float | None = None
        self._running, self._seed, self._limit, self._key = running, seed, drain, key

    def run(self, harass: Callable[[], None]) -> Evidence:
        """Do ``harass`` with the jobs under way; what was found when all was over."""
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        choose = partial(mixed, self._upload())
        load = Load(self._running.url, self.ledger, choose, target=UNDER_WAY, seed=self._seed, headers=headers)
        with (
            contextlib.closing(self._running.connect()) as redis,
            httpx.Client(base_url=self._running.url, timeout=30, headers=headers) as http,
            Looker(self.ledger, redis, self.keys, http),
            self.monitor.looking(),
        ):
            told("jobs are queued")
            load.start()
            await_true(lambda: self.ledger.under_way() >= UNDER_WAY * 0.9, _READY_SECONDS)
            told("harm is done")
            harass()
            told("the last requests are answered")
            load.stop(_READY_SECONDS)
            self._running.await_ready()
            told("the last jobs end")
            self.drained = self._drain()
        told("all is looked at")
        with (
            contextlib.closing(self._running.connect(30)) as redis,
            Calibrant(self._running.url, api_key=self._key) as client,
        ):
            return gather(self.ledger, redis, self.keys, client)

    def changes(self, found: Evidence) -> dict[str, Sequence[Change]]:
        """The changes of every job, and the ends of the runs of parts."""
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


def told(what: str) -> None:
    """Say what begins."""
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def harass(harms: Harms, times: dict[str, int], seconds: float, numbers: random.Random) -> None:
    """Do harm as often as asked, at random, within the time; what finds no victim is tried again at the end."""
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
    """Have the API and the supervisors run by a clock that can be set, from their next start on."""
    for part in (running.api, *running.supervisors):
        part.environment.update(clock.environment())
        part.restart()
    running.await_ready()
