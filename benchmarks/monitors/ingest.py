"""How fast rows are taken in: one API process and its store, over loopback. Writes docs/benchmarks/monitor-speed.md."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx

from benchmarks.monitors.bodies import Body, Columns, as_arrow, as_json, as_lines, as_npz, columns, without
from benchmarks.monitors.serving import Served, serving
from benchmarks.timing import machine

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "monitor-speed.md"
#: Rows of a body, bodies of a round, rounds, and clients that send at once.
ROWS, BODIES, ROUNDS, CLIENTS = 100_000, 6, 3, 2
_ROWS_OF_JSON = 20_000
_AWAY = 503


class Rate(NamedTuple):
    """Rows a second of a round: the median of the rounds, the slowest and the fastest."""

    median: float
    low: float
    high: float


class Ingest(NamedTuple):
    """What is sent: how it is called, to which call, and the body of rows; ``before`` are the predictions of labels."""

    name: str
    call: str
    write: Callable[[Columns], Body]
    goal: str = ""
    ids: bool = True
    rows: int = ROWS
    drop: str | None = None
    before: Callable[[Columns], Body] | None = None


INGESTS = (
    Ingest("labelled rows with ids, Arrow", "rows", as_arrow, "300,000"),
    Ingest("labelled rows without ids, Arrow", "rows", as_arrow, ids=False),
    Ingest("labelled rows with ids, NPZ", "rows", as_npz),
    Ingest("labelled rows with ids, JSON lines", "rows", as_lines, "60,000", rows=_ROWS_OF_JSON),
    Ingest("labelled rows with ids, JSON", "rows", as_json, rows=_ROWS_OF_JSON),
    Ingest("predictions that wait, Arrow", "predictions", as_arrow, drop="label"),
    Ingest("late labels joined, Arrow", "labels", as_arrow, "20,000", drop="prediction", before=as_arrow),
    Ingest(
        "late labels joined, JSON lines",
        "labels",
        as_lines,
        "20,000",
        rows=_ROWS_OF_JSON,
        drop="prediction",
        before=as_arrow,
    ),
)


def main() -> None:
    """Measure everything, and write the page."""
    began = os.getloadavg()[0]
    with serving() as (served,):
        rates = [(ingest, measured(served, ingest, at)) for at, ingest in enumerate(INGESTS)]
    PAGE.write_text(page(rates, began), "utf-8")


def measured(served: Served, ingest: Ingest, at: int) -> Rate:
    """The rate of one ingest into a monitor of its own."""
    name, per_second = f"monitor-{at}", []
    with httpx.Client(base_url=served.url, timeout=300) as http:
        http.post("/monitors", json={"name": name, "max_ids": 10**8}).raise_for_status()
        for number in range(ROUNDS + 1):
            start = number * BODIES * ingest.rows
            rows = [columns(start + i * ingest.rows, ingest.rows, ids=ingest.ids) for i in range(BODIES)]
            if ingest.before is not None:
                send(http, name, "predictions", [ingest.before(without(one, "label")) for one in rows], 0)
            bodies = [ingest.write(one if ingest.drop is None else without(one, ingest.drop)) for one in rows]
            per_second.append(send(http, name, ingest.call, bodies, ingest.rows))
        http.delete(f"/monitors/{name}").raise_for_status()
    kept = per_second[1:]  # the first loads what the others have
    return Rate(statistics.median(kept), min(kept), max(kept))


def send(http: httpx.Client, name: str, call: str, bodies: Sequence[Body], rows: int) -> float:
    """Send bodies, two at a time, and give the rows a second; every row must be new."""
    post = partial(_post, http, f"/monitors/{name}/{call}", rows)
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(post, bodies))
    return len(bodies) * rows / (time.perf_counter() - began)


def _post(http: httpx.Client, path: str, rows: int, body: Body) -> None:
    while (sent := http.post(path, content=body[0], headers={"content-type": body[1]})).status_code == _AWAY:
        time.sleep(float(sent.headers["retry-after"]))  # on a busy machine the store may be late to answer
    answer = sent.raise_for_status().json()
    if rows and answer["accepted"] != rows:
        raise RuntimeError(f"{path}: {answer}")


def page(rates: Sequence[tuple[Ingest, Rate]], load: float) -> str:
    """The page of the figures."""
    lines = [
        "# How fast monitors take in rows",
        "",
        f"Written by `make monitor-speed` on {machine()}. One API process and its embedded Valkey, with its",
        f"append-only file, share these cores with the client, which sends {BODIES} bodies a round, {CLIENTS} at a",
        f"time; medians of {ROUNDS} rounds. Every id is another one. Load of the machine when it began: {load:.1f}.",
        "",
        "| what | rows a body | rows/s | slowest to fastest round | goal |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {of.name} | {of.rows:,} | {rate.median:,.0f} | {rate.low:,.0f} to {rate.high:,.0f} | {of.goal} |"
        for of, rate in rates
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
