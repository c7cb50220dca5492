"""Memory of the API and of the store after 1e6 and after 1e8 rows, and that of ids.

Writes docs/benchmarks/monitor-memory.md.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import httpx

from backend.monitors.looks import expire
from backend.store.monitors.ledger import Ledger
from backend.store.server.connection import connect
from backend.store.store import Store
from benchmarks.monitors.bodies import as_arrow, columns
from benchmarks.monitors.ingest import send
from benchmarks.monitors.serving import Served, resident, serving
from benchmarks.timing import machine

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "monitor-memory.md"
FEW, MANY, ROWS, IDS = 10**6, 10**8, 25_000, 10**6
#: In between.
SOME = 10**7
_DAY = 86_400


class Held(NamedTuple):
    """What the two processes hold in memory, and the store by its own account, in bytes."""

    after: str
    api: int
    store: int
    used: int


def main() -> None:
    """Measure, and write the page."""
    with serving() as (served,), httpx.Client(base_url=served.url, timeout=300) as http:
        for name in ("rows", "ids"):
            http.post("/monitors", json={"name": name, "max_ids": 10**8, "horizon": _DAY}).raise_for_status()
        bodies = [as_arrow(columns(i * ROWS, ROWS, ids=False)) for i in range(8)]
        held = [_held(served, "the start")]
        sent, began = 0, time.perf_counter()
        for n in (FEW, SOME, MANY):
            while sent < n:
                some = bodies[: min(len(bodies), (n - sent) // ROWS)]
                send(http, "rows", "rows", some, ROWS)
                sent += len(some) * ROWS
            held.append(_held(served, f"{n:,} rows without ids"))
        seconds = time.perf_counter() - began
        held += _of_ids(served, http)
    PAGE.write_text(page(held, MANY / seconds), "utf-8")


def _of_ids(served: Served, http: httpx.Client) -> list[Held]:
    """Ids that are known, and the same number again once those of before were forgotten."""
    store = Store.of(connect(served.redis_url))
    ledger = Ledger(store.redis, store.keys, store.monitors.get("ids"))
    held = []
    for again in range(3):
        for start in range(again * IDS, (again + 1) * IDS, ROWS):
            send(http, "ids", "rows", [as_arrow(columns(start, ROWS))], ROWS)
        held.append(_held(served, f"{(again + 1) * IDS:,} rows with ids, of which {IDS:,} are known"))
        while not expire(ledger, time.time() + 2 * _DAY, 10.0):
            pass
    return [*held, _held(served, "all of them forgotten")]


def _held(served: Served, after: str) -> Held:
    gc.collect()
    with connect(served.redis_url) as redis:
        used = int(redis.info("memory")["used_memory"])
    return Held(after, resident(served.process), resident(served.store), used)


def page(held: Sequence[Held], rate: float) -> str:
    """The page of the figures."""
    few, some, many = held[1:4]
    grown, later = ((many.api + many.store) / (before.api + before.store) - 1 for before in (few, some))
    lines = [
        "# What monitors hold in memory",
        "",
        f"Written by `make monitor-memory` on {machine()}: resident memory of one API process and of its embedded",
        "Valkey, and what Valkey says it uses, in MB. All rows are of one time bucket or two and of no group, sent as",
        f"Arrow in bodies of {ROWS:,} rows; with larger bodies the API holds more, for their arrays.",
        "",
        "| after | API | store | Valkey's own account |",
        "|---|---|---|---|",
        *(f"| {one.after} | {one.api / 1e6:,.1f} | {one.store / 1e6:,.1f} | {one.used / 1e6:,.1f} |" for one in held),
        "",
        f"From 10^6 to 10^8 rows the two grew by {100 * grown:.1f} % together (goal: at most 10 %), from 10^7 on by",
        f"{100 * later:.1f} %, at {rate:,.0f} rows/s: what grows is what the allocators keep of a busy moment.",
        f"An id takes {(held[4].used - many.used) / IDS:,.0f} bytes while it is known, of which 18 are its own.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
