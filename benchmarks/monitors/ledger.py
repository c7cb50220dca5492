"""The ledger of a monitor on an embedded store: commits of rows with ids, and reads of buckets.

    python -m benchmarks.monitors.ledger

Prints medians of one run, with ``appendfsync always`` as in the embedded store.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from redis import Redis

from backend.store.clock import stamp
from backend.store.keyspace import Keyspace, new_id
from backend.store.monitors.buckets import KINDS
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ids import Ids, padded
from backend.store.monitors.ledger import MOST_ROWS, Ledger, RowChanges
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from calibrant.monitoring.tally import FOLDS, Tally, merged, tally_of
from schemas.base import HOUR
from schemas.monitors import MonitorBody, MonitorRecord

#: Committed rows with ids, and buckets of about 2,000 cells each.
ROWS, BUCKETS, ROWS_OF_BUCKET = 500_000, 10_000, 2_200
NOW = 1_700_000_000.0


def _ledger(redis: Redis, name: str) -> Ledger:
    body = MonitorBody(name=name, bucket=HOUR, max_ids=10**8)
    record = MonitorRecord(**body.model_dump(), id=new_id("monitor"), created_at=stamp(), started_at=0.0)
    return Ledger(redis, Keyspace(), Definitions(redis, Keyspace()).put(record))


def _tally(seed: int, n: int) -> Tally:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 0.5, size=n)
    y = (rng.uniform(size=n) < p).astype(np.int8)
    return tally_of(p, y, None, rng.integers(0, FOLDS, size=n))


def _commits(redis: Redis, width: int) -> None:
    """Labelled rows per second with ids of this number of bytes, one process and one Redis."""
    ledger = _ledger(redis, f"ids-{width}")
    ids = np.random.default_rng(width).integers(97, 123, size=(ROWS, width), dtype=np.uint8)
    ends = (np.arange(1, MOST_ROWS + 1) * width).astype(np.uint32)
    entries, added = padded([b"J1"] * MOST_ROWS, 40), {7: (_tally(0, MOST_ROWS), None)}
    before, seconds = _memory(redis), []
    for start in range(0, ROWS, MOST_ROWS):
        some = Ids(ids[start : start + MOST_ROWS].tobytes(), ends)
        change = RowChanges(some, None, entries, NOW, added, {7: {"joined": MOST_ROWS}}, {"joined": MOST_ROWS})
        began = time.perf_counter()
        conflict = ledger.commit(change)
        seconds.append(time.perf_counter() - began)
        if conflict is not None:
            raise RuntimeError("a new id is already stored")
    _time(f"commit of {MOST_ROWS} new ids of {width} bytes", median(seconds))
    _line(f"rows a second, ids of {width} bytes", f"{ROWS / sum(seconds):,.0f}")
    _line(f"memory for an id of {width} bytes", f"{(_memory(redis) - before) / ROWS:.0f} bytes")


def _merges(redis: Redis) -> None:
    """Reading windows of many buckets."""
    ledger = _ledger(redis, "buckets")
    tallies = [_tally(seed, ROWS_OF_BUCKET) for seed in range(100)]
    before = _memory(redis)
    for bucket in range(BUCKETS):
        ledger.commit(RowChanges(None, None, None, NOW, {bucket: (tallies[bucket % 100], None)}))
    _line(f"cells of a bucket, of {BUCKETS} buckets", f"{len(tallies[0].keys)}")
    _line("memory for a bucket", f"{(_memory(redis) - before) / BUCKETS:,.0f} bytes")
    buckets, last = ledger.buckets, BUCKETS - 1
    reads: dict[str, Callable[[], Tally]] = {
        f"one tally of {BUCKETS} buckets": lambda: buckets.tally(0, last),
        "the same but for one at each end": lambda: buckets.tally(1, last - 1),
        f"{BUCKETS} tallies, then one": lambda: merged(buckets.tallies(0, last, KINDS[0]).values()),
        "one tally of 720 buckets": lambda: buckets.tally(5000, 5719),
        "one tally of 24 buckets": lambda: buckets.tally(5000, 5023),
    }
    for name, read in reads.items():
        _time(name, median(_seconds(read) for _ in range(5)))


def _seconds(read: Callable[[], object]) -> float:
    began = time.perf_counter()
    read()
    return time.perf_counter() - began


def _memory(redis: Redis) -> int:
    return int(redis.info("memory")["used_memory"])


def _time(name: str, seconds: float) -> None:
    _line(name, f"{1000 * seconds:,.1f} ms")


def _line(name: str, value: str) -> None:
    print(f"{name:45} {value}")


def main() -> None:
    """Run all of them."""
    with (
        tempfile.TemporaryDirectory(prefix="calibrant-") as folder,
        (Path(folder) / "log").open("ab") as log,
        embedded_server(Path(folder) / "store", log=log) as (url, _),
        connect(url) as redis,
    ):
        for width in (16, 36):
            _commits(redis, width)
        _merges(redis)


if __name__ == "__main__":
    main()
