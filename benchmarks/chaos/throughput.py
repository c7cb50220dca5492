"""The queue's speed: ``make throughput``. Small fits by two workers, compared with plain RQ."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from redis import Redis

import calibrant
from backend.store.keyspace import Keyspace
from benchmarks.chaos.asks import SMALL, draw
from benchmarks.chaos.cluster import Cluster, await_true, cluster
from benchmarks.chaos.evidence import Change, status_changes
from benchmarks.chaos.page import write_page
from benchmarks.chaos.plain_rq import plain_rate
from benchmarks.chaos.recovery import summary
from benchmarks.chaos.results import circumstances, write
from calibrant.client import Calibrant
from calibrant.client.retries import pause_of
from schemas.jobs import FINAL

SINGLE_JOBS, CLIENTS = 100, 4
#: Kind of workers -> whether they run jobs in their own process instead of a work-horse.
KINDS = {"forks": False, "warm": True}
_DRAIN_SECONDS = 300.0
#: The longest Retry-After that is followed, in seconds.
_LONGEST_PAUSE = 5.0


class FitStream:
    """Fits of one batch by one service."""

    def __init__(self, running: Cluster) -> None:
        self.redis: Redis = running.connect(30)
        self._keys = Keyspace()
        with Calibrant(running.url) as client:
            self._body = {"method": "platt", "batch": client.upload(*draw(SMALL, 1)).id}
        self._http = httpx.Client(base_url=running.url, timeout=60)

    def post(self, count: int) -> list[str]:
        """Send this number of requests, several at a time; the ids of their jobs."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(lambda _: self._post(), range(count)))

    def _post(self) -> str:
        while True:
            response = self._http.post("/maps", json=self._body, headers={"Prefer": "respond-async"})
            if response.status_code == httpx.codes.ACCEPTED:
                return str(response.json()["id"])
            if response.status_code not in (429, 503):
                raise RuntimeError(response.text)
            time.sleep(min(pause_of(response), _LONGEST_PAUSE))

    def changes(self, jobs: list[str]) -> list[list[Change]]:
        """The changes of each job, after all have ended."""
        keys = [self._keys.unended_jobs()]
        await_true(lambda: not self.redis.exists(*keys), _DRAIN_SECONDS)
        changes_of_jobs = [list(status_changes(self.redis, self._keys, job)) for job in jobs]
        if any(changes[-1].status != "succeeded" for changes in changes_of_jobs):
            raise RuntimeError("a fit did not succeed")
        return changes_of_jobs


def rate(changes: list[list[Change]]) -> float:
    """Jobs per second, from the first start to the last end."""
    first = min(change.at for job in changes for change in job if change.status == "running")
    last = max(change.at for job in changes for change in job if change.status in FINAL)
    return len(changes) / (last - first)


def drained(running: Cluster, fits: FitStream, count: int) -> float:
    """The rate with every job queued before a worker starts."""
    (supervisor,) = running.supervisors
    supervisor.hold()
    jobs = fits.post(count)
    supervisor.release()
    return rate(fits.changes(jobs))


def overheads(fits: FitStream) -> list[float]:
    """Seconds from queueing to end of single jobs on an idle queue."""
    taken = []
    for _ in range(SINGLE_JOBS):
        (changes,) = fits.changes(fits.post(1))
        taken.append(changes[-1].at - changes[0].at)
    return taken


def in_process() -> float:
    """Median seconds of the same fit in this process."""
    p, y = draw(SMALL, 1)
    taken = []
    for _ in range(SINGLE_JOBS):
        began = time.perf_counter()
        calibrant.fit("platt", p, y)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def measure(running: Cluster, folder: Path, *, count: int, rounds: int) -> dict[str, Any]:
    """The figures of one kind of workers; rounds alternate with plain RQ."""
    fits = FitStream(running)
    fits.changes(fits.post(20))
    rates_by_way: dict[str, list[float]] = {"drained": [], "while_queueing": [], "plain_rq": []}
    for _ in range(rounds):
        rates_by_way["drained"].append(drained(running, fits, count))
        rates_by_way["while_queueing"].append(rate(fits.changes(fits.post(count))))
        rates_by_way["plain_rq"].append(plain_rate(fits.redis, running.redis_url, count, folder))
    alone, queued = in_process(), overheads(fits)
    return {
        "rates": rates_by_way,
        "medians": {name: statistics.median(rates) for name, rates in rates_by_way.items()},
        "fit_in_process_seconds": alone,
        "single_job_seconds": summary(queued),
        "overhead_seconds": statistics.median(queued) - alone,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    throughput_figures = circumstances() | {
        "jobs": arguments.jobs,
        "rounds": arguments.rounds,
        "single_jobs": SINGLE_JOBS,
        "workers": {},
    }
    for name, warm in KINDS.items():
        with (
            tempfile.TemporaryDirectory(prefix="calibrant-throughput-") as folder,
            cluster(Path(folder), supervisors=1, workers=2, warm=warm) as running,
        ):
            running.await_ready()
            throughput_figures["workers"][name] = measure(
                running, Path(folder), count=arguments.jobs, rounds=arguments.rounds
            )
        print(
            name,
            {what: throughput_figures["workers"][name][what] for what in ("medians", "overhead_seconds")},
            flush=True,
        )
    write("throughput", throughput_figures)
    write_page()


if __name__ == "__main__":
    main()
