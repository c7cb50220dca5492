"""How long one window's answer takes over HTTP, whatever the rows and the buckets: ``make monitor-answers``.

Tallies are written straight into the store; before every request a row is counted in the newest bucket, so that the
answer is computed. The first answer, for which every list is read, stands beside.
Writes docs/benchmarks/monitor-answers.md.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
from redis import Redis

from backend.store.keyspace import Keyspace
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ledger import Change, Ledger
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from benchmarks.timing import machine
from calibrant.monitoring.tally import FOLDS, Tally, tally_of
from schemas.monitors import DAY, HOUR
from service.stack import stack

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "monitor-answers.md"
ROWS = (10_000, 1_000_000, 100_000_000)
BUCKETS = (24, 720)
MANY = 10_000
REQUESTS = 40
#: Rows whose tally is drawn; larger ones are multiples of it.
_DRAWN = 200_000


class Case(NamedTuple):
    """The milliseconds that answers took, of so many rows in so many buckets; ``counted`` are those in the window."""

    rows: int
    buckets: int
    counted: int
    first: float
    median: float
    p95: float

    def times(self) -> str:
        """The cells of the table."""
        return f"{self.median:.0f} ms | {self.p95:.0f} ms | {self.first:.0f} ms"


def main() -> None:
    """Measure every case, and write the page."""
    with _service() as (http, redis):
        cases = [_case(http, redis, rows, buckets) for buckets in BUCKETS for rows in ROWS]
        cases.append(_case(http, redis, ROWS[1], MANY))
    PAGE.write_text(page(cases), "utf-8")


def page(cases: Sequence[Case]) -> str:
    """The page of the figures."""
    lines = [
        "# How long one window's answer takes",
        "",
        f"Written by `make monitor-answers` on {machine()}: `GET /monitors/{{name}}` over HTTP, {REQUESTS} times, with",
        "three measures, their intervals at 0.95 and the reliability diagram. Before each a row is counted, so that",
        "the answer is computed. For the first every bucket is read. The goal is 50 ms, whatever the number of rows.",
        "",
        "| rows | buckets | rows in the window | median | p95 | the first |",
        "|---|---|---|---|---|---|",
        *(f"| {of.rows:,} | {of.buckets:,} | {of.counted:,} | {of.times()} |" for of in cases),
        "",
    ]
    return "\n".join(lines)


@contextmanager
def _service() -> Iterator[tuple[httpx.Client, Redis]]:
    with tempfile.TemporaryDirectory(prefix="calibrant-bench-") as folder:
        data = Path(folder)
        with (
            (data / "log").open("ab") as log,
            embedded_server(data / "store", log=log) as (url, _),
            stack(host="127.0.0.1", port=0, data=data, log=log, redis_url=url) as running,
            httpx.Client(base_url=running.url, timeout=600) as http,
        ):
            redis = connect(url)
            yield http, redis
            redis.close()


def _case(http: httpx.Client, redis: Redis, rows: int, buckets: int) -> Case:
    seconds = HOUR if buckets <= 720 else 60
    name = f"m-{rows}-{buckets}"
    asked = {
        "name": name,
        "bucket": seconds,
        "windows": [{"name": "all", "seconds": buckets * seconds}],
        "retention": max(90 * DAY if seconds == HOUR else MANY * 60, HOUR),
        "horizon": HOUR,
        "rules": [],
    }
    http.post("/monitors", json=asked).raise_for_status()
    ledger = Ledger(redis, Keyspace(), Definitions(redis, Keyspace()).get(name))
    now = time.time()
    _fill(ledger, rows, buckets, seconds, now)
    path = f"/monitors/{name}"
    times = []
    for _ in range(REQUESTS + 1):
        _commit(ledger, tally_of(np.array([0.3]), np.array([1], dtype=np.int8)), int(now // seconds), now)
        begun = time.perf_counter()
        answer = http.get(path, params={"windows": "all"})
        times.append(1e3 * (time.perf_counter() - begun))
        answer.raise_for_status()
    counted = answer.json()["windows"][0]["rows"]
    later = sorted(times[1:])
    return Case(rows, buckets, counted, times[0], statistics.median(later), later[int(0.95 * len(later))])


def _fill(ledger: Ledger, rows: int, buckets: int, seconds: int, now: float) -> None:
    """So many rows, spread evenly over the buckets of the window."""
    newest = int(now // seconds)
    random = np.random.default_rng(0)
    each = rows // buckets
    drawn = min(each, _DRAWN)
    p = random.beta(1.0, 2.0, max(drawn, 1))
    y = (random.random(len(p)) < p).astype(np.int8)
    one = tally_of(p, y, None, np.arange(len(p)) % FOLDS)
    times = max(each // max(drawn, 1), 1)
    tally = Tally(one.keys, one.rows * times, one.p_sum * times)
    for bucket in range(newest - buckets + 1, newest + 1):
        _commit(ledger, tally, bucket, now)


def _commit(ledger: Ledger, tally: Tally, bucket: int, now: float) -> None:
    n = len(tally)
    counts = {bucket: {"predictions": n, "joined": n, "d15": n}}
    totals = {"predictions": n, "labels": n, "joined": n}
    ledger.commit(Change(None, None, None, now, {bucket: (tally, None)}, counts, totals))


if __name__ == "__main__":
    main()
