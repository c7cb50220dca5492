"""One run: load, injected faults, the end of every job, and the final evidence."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import httpx

from backend.store.keyspace import Keyspace
from benchmarks.chaos.asks import LARGE, SMALL, Batches, draw, draw_classes, mixed
from benchmarks.chaos.clock import Clock
from benchmarks.chaos.cluster import Cluster, await_true
from benchmarks.chaos.evidence import Change, ChaosEvidence, gather
from benchmarks.chaos.harms import Harms
from benchmarks.chaos.key_changes import KeyChanger, key_entry_faults, key_use_faults
from benchmarks.chaos.ledger import ChaosLedger
from benchmarks.chaos.load import Load
from benchmarks.chaos.looker import Looker
from benchmarks.chaos.monitor import Monitor
from benchmarks.chaos.moves import Mover
from benchmarks.chaos.schedule import paced, shuffled
from benchmarks.chaos.scored import ScoredModel
from benchmarks.chaos.scorer import Scorer
from calibrant.client import Calibrant

#: Jobs in flight while faults are injected.
UNDER_WAY = 200
_READY_SECONDS = 120.0
#: The shortest time in which the remaining faults are injected.
_ROUND_SECONDS = 10.0


class Scenario:
    """One run on a deployment; ``key`` is an API key, and ``drain`` the time limit of the last jobs in seconds."""

    def __init__(self, running: Cluster, key: str, *, seed: int, drain: float = 180.0) -> None:
        self.ledger, self.monitor = ChaosLedger(), Monitor(running)
        self.scorer = Scorer(running.apis, running.urls, key)
        self.key_changer = KeyChanger(running.redis_url, seed)
        self.keys = Keyspace()
        self.supervisors = len(running.supervisors)
        #: Seconds from the last request to the end of the last job; None if one did not end.
        self.drained: float | None = None
        self._running, self._seed, self._limit, self._key = running, seed, drain, key

    def run(self, harass: Callable[[], None]) -> ChaosEvidence:
        """Run ``harass`` under load and return the final evidence."""
        headers = {"Authorization": f"Bearer {self._key}"}
        with Calibrant(self._running.url, api_key=self._key) as client:
            choose = partial(mixed, _upload(client))
            self.scorer.start(ScoredModel(client))
        load = Load(self._running.urls, self.ledger, choose, target=UNDER_WAY, seed=self._seed, headers=headers)
        with (
            contextlib.closing(self._running.connect()) as redis,
            httpx.Client(base_url=self._running.url, timeout=30, headers=headers) as http,
            Looker(self.ledger, redis, self.keys, http),
            httpx.Client(base_url=self._running.url, timeout=30, headers=headers) as other_http,
            Mover(other_http, self._seed) as mover,
            self.key_changer,
            self.scorer,
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
            collected = gather(self.ledger, mover, redis, self.keys, client)
            return replace(
                collected,
                scored=frozenset(self.scorer.model.ids),
                scoring=self.scorer.evidence,
                key_entries=tuple(key_entry_faults(client, redis, self.key_changer)),
                key_uses=tuple(key_use_faults(self._running.urls, self.key_changer.issued, self.scorer.model.ids[0])),
            )

    def changes(self, evidence: ChaosEvidence) -> dict[str, Sequence[Change]]:
        """The changes of every job, and the ends of parts' runs."""
        changes: dict[str, Sequence[Change]] = dict(self.monitor.runs_over)
        changes.update((job.promise.job_id, job.changes) for job in evidence.jobs)
        return changes

    def _drain(self) -> float | None:
        began = time.monotonic()
        try:
            await_true(lambda: not self.ledger.under_way(), self._limit)
        except TimeoutError:
            return None
        return time.monotonic() - began


def _upload(client: Calibrant) -> Batches:
    rows = (draw(SMALL, 1), draw(LARGE, 2), draw_classes(LARGE, 3))
    return Batches(*(client.upload(*arrays).id for arrays in rows))


def announce(what: str) -> None:
    """Print the next step."""
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def harass(harms: Harms, times: dict[str, int], seconds: float, numbers: random.Random) -> None:
    """Inject the given numbers of faults at random times; those without a victim are repeated at the end.

    On a slow machine it takes up to twice the time.
    """
    known, deadline = harms.kinds(), time.monotonic() + seconds
    kinds = shuffled({kind: count for kind, count in times.items() if kind in known}, numbers)
    while kinds and (left := deadline - time.monotonic()) > -seconds:
        missed, tried = [], 0
        for gap, kind in paced(kinds, max(left, _ROUND_SECONDS), numbers):
            time.sleep(gap)
            tried += 1
            if not harms.do(kind):
                missed.append(kind)
        kinds = missed + kinds[tried:]
    harms.missed += Counter(kinds)


def step_clocks(running: Cluster, clock: Clock) -> None:
    """Restart the APIs and the supervisors, one after another, with a clock that can be changed."""
    for part in (*running.apis, *running.supervisors):
        part.environment.update(clock.environment())
        part.restart()
        running.await_ready()
