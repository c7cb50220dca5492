"""Diagrams and reports over HTTP, and what they cost other requests. Writes docs/benchmarks/report-speed.md."""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson

from benchmarks.http.load import p99_meanwhile
from benchmarks.timing import machine
from service.stack import stack

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "report-speed.md"
N = 10_000
DIAGRAMS = ("reliability", "fit-on-test", "corp", "logit-logit", "ks-graphs")
CSV, JSON = {"Content-Type": "text/csv"}, {"Content-Type": "application/json"}
_RUNS = 31

Headers = Mapping[str, str]


def batch() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    c = random.random(N)
    return c**1.3, (random.random(N) < c).astype(np.int64)


def times(client: httpx.Client, method: str, path: str, headers: Headers, content: bytes | None = None) -> list[float]:
    """Seconds of each request, the first one aside."""
    taken = []
    for _ in range(_RUNS + 1):
        began = time.perf_counter()
        answer = client.request(method, path, content=content, headers=dict(headers))
        taken.append(time.perf_counter() - began)
        if answer.status_code != 200:
            raise RuntimeError(answer.text)
    return taken[1:]


def line(what: str, taken: list[float], goal: str) -> str:
    p95 = statistics.quantiles(taken, n=20)[18]
    return f"| {what} | {1e3 * statistics.median(taken):.0f} | {1e3 * p95:.0f} | {goal} |"


def pictures(client: httpx.Client, stored: str, path: str) -> list[str]:
    lines = ["| call | p50, ms | p95, ms | goal of the p50 |", "|---|---|---|---|"]
    for name in DIAGRAMS:
        body = orjson.dumps({"batch": stored, "diagram": name})
        goal = "at most 150" if name == "reliability" else "none"
        lines.append(line(f"`POST /diagrams`, {name}, SVG", times(client, "POST", "/diagrams", JSON, body), goal))
    body = orjson.dumps({"batch": stored})
    png = times(client, "POST", "/diagrams", JSON | {"Accept": "image/png"}, body)
    lines.append(line("`POST /diagrams`, reliability, PNG", png, "at most 150"))
    lines.append(line("`GET /maps/{ref}/diagram.svg`", times(client, "GET", path, {}), "at most 150"))
    tag = {"If-None-Match": client.get(path).headers["etag"]}
    return [*lines, line("the same, known by its tag", _known(client, path, tag), "none")]


def _known(client: httpx.Client, path: str, tag: Headers) -> list[float]:
    taken = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        if client.get(path, headers=dict(tag)).status_code != 304:
            raise RuntimeError("the picture was sent again")
        taken.append(time.perf_counter() - began)
    return taken


def reports(client: httpx.Client, rows: Mapping[str, bytes]) -> list[str]:
    lines = ["| body | p50, ms | p95, ms | goal of the p50 |", "|---|---|---|---|"]
    for what, content in rows.items():
        waiting = CSV | {"Accept": "text/html", "Prefer": "wait=30"}
        lines.append(line(what, times(client, "POST", "/evaluate", waiting, content), "at most 2,000"))
    return lines


def bodies() -> dict[str, bytes]:
    p, y = batch()
    plain = "predictions,labels\n" + "".join(f"{a:.6f},{b}\n" for a, b in zip(p, y, strict=True))
    grouped = "predictions,labels,groups\n" + "".join(
        f"{a:.6f},{b},{'north' if i % 3 else 'south'}\n" for i, (a, b) in enumerate(zip(p, y, strict=True))
    )
    return {f"CSV of {N:,} rows": plain.encode(), f"CSV of {N:,} rows in two groups": grouped.encode()}


def meanwhile(url: str, stored: str) -> str:
    """What the probe's latency is while pictures are drawn one after the other."""
    body = orjson.dumps({"batch": stored, "interval": None})

    def draw() -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            for _ in range(100):
                client.post("/diagrams", content=body, headers=JSON).raise_for_status()

    p99, asked = p99_meanwhile(f"{url}/health/live", threading.Thread(target=draw))
    return f"While 100 are drawn one after the other, the p99 of {asked} `GET /health/live` is {1e3 * p99:.0f} ms."


_INTRODUCTION = """# Speed of pictures and reports over HTTP

Made by `make report-speed` ({machine}; load of the machine meanwhile {load:.1f}), on loopback, one process of the API
and one worker, everything as `calibrant serve` runs it; {runs} requests each, one after the other, the first left out.

## Pictures

Of a stored batch of {n:,} rows: the numbers, the error with its interval of 1,000 resamples, and the drawing.

{pictures}

{meanwhile}

## Reports

`POST /evaluate` with `Accept: text/html`: 13 measures with intervals, five diagrams, the comparison of maps, the page.
With a few groups too it is estimated at less than 2 s, and answered at once.

{reports}
"""


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="calibrant-") as folder,
        stack(host="127.0.0.1", port=0, data=Path(folder), log=None, level="warning") as running,
        httpx.Client(base_url=running.url, timeout=120) as client,
    ):
        p, y = batch()
        rows = {"predictions": p.tolist(), "labels": y.tolist()}
        stored = client.post("/batches", json=rows).raise_for_status().json()["id"]
        fitted = client.post("/maps", json={"batch": stored, "method": "platt"}).raise_for_status().json()["id"]
        page = _INTRODUCTION.format(
            machine=machine(),
            runs=_RUNS,
            n=N,
            pictures="\n".join(pictures(client, stored, f"/maps/{fitted}/diagram.svg")),
            meanwhile=meanwhile(running.url, stored),
            reports="\n".join(reports(client, bodies())),
            load=os.getloadavg()[0],
        )
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
