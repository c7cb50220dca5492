"""Records what has no event: times without store or workers, and the ends of parts' runs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from backend.store.server.connection import UNAVAILABLE
from benchmarks.chaos.cluster import Cluster
from benchmarks.chaos.core import parts_run, workers_of
from benchmarks.chaos.evidence import Change
from benchmarks.chaos.parts import DeploymentProcess
from benchmarks.chaos.recovery import STORE, Outage

#: Seconds between two checks, and until a store that does not respond counts as unavailable.
_LOOK_SECONDS, _AWAY_SECONDS = 0.02, 0.25


class Monitor:
    """Checks every part in a thread; ``outages`` are the ended ones.

    ``runs_over`` are the times when runs of parts of jobs ended, by a result or by a recovery.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.outages: list[Outage] = []
        self.runs_over: dict[str, list[Change]] = {}
        self._open: dict[str, float] = {}
        self._cluster = cluster
        self._stopped = threading.Event()

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Check in the meantime."""
        threads = [threading.Thread(target=watch, daemon=True) for watch in (self._watch_store, self._watch_runs)]
        threads += [
            threading.Thread(target=self._watch, args=(part,), daemon=True) for part in self._cluster.supervisors
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()

    def _watch_store(self) -> None:
        redis = self._cluster.connect(_AWAY_SECONDS)
        with contextlib.closing(redis):
            while not self._stopped.wait(_LOOK_SECONDS):
                began = time.time()
                try:
                    redis.ping()
                except UNAVAILABLE:
                    self._open.setdefault(STORE, began)
                else:
                    self._close(STORE)

    def _watch(self, part: DeploymentProcess) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            pid = part.pid
            if pid is None or not workers_of(pid):
                self._open.setdefault(part.name, time.time())
            else:
                self._close(part.name)

    def _watch_runs(self) -> None:
        redis, before = self._cluster.connect(_AWAY_SECONDS), dict[str, int]()
        with contextlib.closing(redis):
            while not self._stopped.wait(_LOOK_SECONDS):
                with contextlib.suppress(*UNAVAILABLE):
                    now = parts_run(redis)
                    for part in (part for part, run in before.items() if now.get(part) != run):
                        self.runs_over.setdefault(part, []).append(Change(time.time(), "over"))
                    before = now

    def _close(self, name: str) -> None:
        since = self._open.pop(name, None)
        if since is not None:
            self.outages.append(Outage(name, since, time.time()))

    def seen(self) -> list[Outage]:
        """Every outage; a continuing one ends now."""
        now = time.time()
        return [*self.outages, *(Outage(name, since, now) for name, since in dict(self._open).items())]
