"""Sustained load: ``make soak``. Answers, latency and memory with twenty concurrent clients."""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from benchmarks.chaos.asks import SMALL, draw
from benchmarks.chaos.cluster import Cluster, cluster
from benchmarks.chaos.core import workers_of
from benchmarks.chaos.page import write_page
from benchmarks.chaos.page_load import GROWTH_GOAL
from benchmarks.chaos.proc import children, resident
from benchmarks.chaos.recovery import summary
from benchmarks.chaos.results import circumstances, write
from calibrant.client import Calibrant
from calibrant.client.retries import pause_of

CLIENTS, MINUTE = 20, 60.0
#: Answers that are not errors; 429 and 503 are documented for an overloaded service.
FINE, EARLY = frozenset({200, 201, 202}), frozenset({429, 503})
#: The longest Retry-After that is followed, in seconds.
_LONGEST_PAUSE = 5.0
_NAMES = [f"soak-{i}" for i in range(10)]
_ROWS = draw(200, 3)


class Clients:
    """Clients that send a mix of evaluations, fits and calibrations sequentially."""

    def __init__(self, url: str, batch: str) -> None:
        self.answers: dict[str, Counter[int]] = defaultdict(Counter)
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self._url, self._batch = url, batch
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask_on, args=(i,), daemon=True) for i in range(CLIENTS)]

    def run(self, seconds: float) -> Iterator[float]:
        """Send requests for this time; yields the elapsed seconds, once a second."""
        began = time.monotonic()
        for thread in self._threads:
            thread.start()
        while (behind := time.monotonic() - began) < seconds:
            yield behind
            time.sleep(1.0)
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def ask(self, http: httpx.Client, numbers: random.Random) -> float:
        """Send one request; returns the seconds to wait before the next."""
        kind, path, body, headers = self._choose(numbers)
        began = time.monotonic()
        response = http.post(path, json=body, headers=headers)
        took = time.monotonic() - began
        with self._lock:
            self.answers[kind][response.status_code] += 1
            self.seconds[kind].append(took)
        return min(pause_of(response), _LONGEST_PAUSE) if response.status_code in EARLY else 0.0

    def _ask_on(self, seed: int) -> None:
        numbers = random.Random(seed)  # noqa: S311 - no secret
        with httpx.Client(base_url=self._url, timeout=60) as http:
            while not self._stopped.is_set():
                self._stopped.wait(self.ask(http, numbers))

    def _choose(self, numbers: random.Random) -> tuple[str, str, dict[str, Any], dict[str, str]]:
        """Half calibrations, a quarter evaluations, a quarter fits; a third of the last two as jobs."""
        name, at = numbers.choice(_NAMES), numbers.random()
        later = {"Prefer": "respond-async"} if numbers.random() < 1 / 3 else {}
        if at < 0.5:
            return "calibrate", "/calibrate", {"map": name, "predictions": _ROWS[0][:10].tolist()}, {}
        if at < 0.75:
            rows = {"predictions": _ROWS[0].tolist(), "labels": _ROWS[1].tolist()}
            return "evaluate", "/evaluate", {"batch": self._batch} if later else rows, later
        return "fit", "/maps", {"method": "platt", "batch": self._batch, "name": name}, later


def memory(running: Cluster) -> dict[str, int]:
    """Memory of the API, and of the supervisors with all their processes; shared pages count for each."""
    supervisors = [part.pid for part in running.supervisors if part.pid is not None]
    workers = [pid for supervisor in supervisors for pid in workers_of(supervisor)]
    horses = [pid for worker in workers for pid in children(worker)]
    return {
        "API": resident(running.apis[0].pid or 0),
        "workers": sum(map(resident, (*supervisors, *workers, *horses))),
    }


def growth(samples: list[tuple[float, dict[str, int]]], seconds: float) -> dict[str, Any]:
    """The means of the first and the last minute, and the growth."""
    record = {}
    for part in ("API", "workers"):
        first = statistics.fmean(bytes_[part] for at, bytes_ in samples if at < MINUTE)
        last = statistics.fmean(bytes_[part] for at, bytes_ in samples if at >= seconds - MINUTE)
        record[part] = {"first_minute": first, "last_minute": last, "growth": last / first - 1}
    return record


def measure(running: Cluster, seconds: float) -> dict[str, Any]:
    """The figures of a run of this length."""
    with Calibrant(running.url) as client:
        batch = client.upload(*draw(SMALL, 1)).id
        for name in _NAMES:
            client.fit("platt", batch, name=name)
    clients = Clients(running.url, batch)
    starts = [part.starts for part in running.parts]
    samples = [(at, memory(running)) for at in clients.run(seconds)]
    errors = {
        kind: {str(status): times for status, times in statuses.items() if status not in FINE | EARLY}
        for kind, statuses in clients.answers.items()
    }
    return {
        "clients": CLIENTS,
        "seconds": seconds,
        "answers": {
            kind: {str(s): n for s, n in sorted(statuses.items())} for kind, statuses in clients.answers.items()
        },
        "errors": sum(sum(statuses.values()) for statuses in errors.values()),
        "latency": {kind: summary(taken) for kind, taken in clients.seconds.items()},
        "memory": growth(samples, seconds),
        "memory_each_10_s": [(round(at), statuses) for at, statuses in samples[::10]],
        "restarts": sum(part.starts for part in running.parts) - sum(starts),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    arguments = parser.parse_args()
    record = circumstances()
    with tempfile.TemporaryDirectory(prefix="calibrant-soak-") as name, cluster(Path(name), supervisors=1) as running:
        running.await_ready()
        soak_figures = measure(running, arguments.seconds)
    write("soak", record | soak_figures)
    write_page()
    for what in ("answers", "latency", "memory", "restarts"):
        print(what, soak_figures[what])
    grown = any(part["growth"] > GROWTH_GOAL for part in soak_figures["memory"].values())
    sys.exit(1 if soak_figures["errors"] or grown else 0)


if __name__ == "__main__":
    main()
