"""The service over HTTP and a bare FastAPI route in one run. Writes docs/benchmarks/http-speed.md."""

from __future__ import annotations

import contextlib
import io
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
import orjson

import calibrant
from backend.store.processes import spawn, stop
from benchmarks.http.load import RequestRate, median_seconds, p99_meanwhile, peak_bytes, reset_peak, version, wrk
from benchmarks.records import publish
from benchmarks.timing import machine
from service.stack import Stack, stack

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "http-speed.md"
N = 1_000_000
SCORES = [0.02, 0.11, 0.19, 0.28, 0.4, 0.52, 0.63, 0.75, 0.86, 0.97]
NPZ, JSON = "application/x-npz", "application/json"
METHODS = ("averaged", "isotonic", "platt")
VECTOR_METHODS = ("temperature", "averaged", "sms", "dirichlet-odir")
_ROUNDS, _SECONDS = 5, 2
#: Connections of the load, and fits of a million pairs that are queued during a part of it.
CONNECTIONS = (8, 64)
_FITS = 50


@contextlib.contextmanager
def echo_server() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = spawn([sys.executable, "-m", "benchmarks.http.echo", str(port)], log=None)
    try:
        url = f"http://127.0.0.1:{port}"
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.post(f"{url}/echo", json={"map": "m", "predictions": [0.1]}).raise_for_status()
                break
        yield url
    finally:
        stop(process, patience=10)


def small_rows(running: Stack, echo: str, connections: int) -> list[str]:
    """Ten scores through a map, compared with an echo of the same body."""
    body = orjson.dumps({"map": "MAP", "predictions": SCORES}).decode()
    urls = {"echo": f"{echo}/echo", "echo of bytes": f"{echo}/echo-bytes"}
    urls |= {f"/calibrate, {method}": f"{running.url}/calibrate" for method in METHODS}
    contenders = {name: (url, body.replace("MAP", name.rpartition(" ")[2])) for name, url in urls.items()}
    return loaded(contenders, connections)


@contextlib.contextmanager
def busy(running: Stack, large: Large) -> Iterator[None]:
    """Fits are queued, and a million pairs are evaluated again and again, until the end of the context."""
    ended = threading.Event()
    with httpx.Client(base_url=running.url, timeout=120) as client:
        stored = client.post("/batches", content=large.npz, headers={"Content-Type": NPZ})
        batch = stored.raise_for_status().json()["id"]
        fit, jobs = {"batch": batch, "method": "averaged"}, []

        def queue() -> None:
            job = client.post("/maps", json=fit, headers={"Prefer": "respond-async"}).raise_for_status()
            jobs.append(job.headers["location"])

        def evaluate() -> None:
            while not ended.is_set():
                median_seconds(client, "/evaluate", large.npz, NPZ, 1)
                queue()  # more often than one ends

        for _ in range(_FITS):
            queue()
        evaluating = threading.Thread(target=evaluate)
        evaluating.start()
        try:
            yield
        finally:
            ended.set()
            evaluating.join()
        for job in jobs:
            client.delete(job)


def by_connections(running: Stack, echo: str) -> str:
    """A table of ``small_rows`` for each number of connections."""
    tables = ([f"{count} connections:", "", *small_rows(running, echo, count)] for count in CONNECTIONS)
    return "\n\n".join("\n".join(table) for table in tables)


def vector_rows(running: Stack) -> list[str]:
    """One row of ten classes through maps of whole vectors, compared with temperature scaling."""
    row = np.random.default_rng(3).dirichlet(np.full(10, 0.4), 1).tolist()
    return loaded(
        {
            method: (f"{running.url}/calibrate", orjson.dumps({"map": f"{method}-10", "predictions": row}).decode())
            for method in VECTOR_METHODS
        }
    )


def loaded(contenders: dict[str, tuple[str, str]], connections: int = 8) -> list[str]:
    """A table of contenders, each a URL and a body, relative to the first; medians of interleaved rounds."""
    rates: dict[str, list[RequestRate]] = {name: [] for name in contenders}
    for _ in range(_ROUNDS):
        for name, (url, body) in contenders.items():
            rates[name].append(wrk(url, body, seconds=_SECONDS, connections=connections))
    per_second = {
        name: statistics.median(r.per_second for r in rates_of_server) for name, rates_of_server in rates.items()
    }
    p99 = {name: statistics.median(r.p99 for r in rates_of_server) for name, rates_of_server in rates.items()}
    first = next(iter(contenders))
    lines = [f"| route | requests/s | relative to {first} | p99, ms | relative to {first} |", "|---|---|---|---|---|"]
    lines.extend(
        f"| {name} | {per_second[name]:,.0f} | {per_second[name] / per_second[first]:.2f} "
        f"| {1e3 * p99[name]:.2f} | {p99[name] / p99[first]:.2f} |"
        for name in contenders
    )
    return lines


class Large(NamedTuple):
    """A million pairs as bodies, and the seconds of their evaluation in process."""

    npz: bytes
    json: bytes
    in_process: float


def large_batch() -> Large:
    random = np.random.default_rng(0)
    c = random.random(N)
    p, y = c**1.3, (random.random(N) < c).astype(np.int64)
    out = io.BytesIO()
    np.savez(out, predictions=p, labels=y)
    taken = []
    for _ in range(7):
        began = time.perf_counter()
        calibrant.evaluate(p, y)
        taken.append(time.perf_counter() - began)
    body = orjson.dumps({"predictions": p, "labels": y}, option=orjson.OPT_SERIALIZE_NUMPY)
    return Large(out.getvalue(), body, statistics.median(taken))


def large_rows(running: Stack, large: Large) -> list[str]:
    """A million pairs: time, the probe's latency and memory."""
    lines = [
        "| body | MB | evaluate, s | goal, s | concurrent /health/live, p99, ms | goal, ms |",
        "|---|---|---|---|---|---|",
    ]
    with httpx.Client(base_url=running.url, timeout=120) as client:
        for kind, content, goal, live in (
            (NPZ, large.npz, "at most 0.06", "at most 50"),
            (JSON, large.json, "at most 0.15", "none"),
        ):
            ask = partial(median_seconds, client, "/evaluate", content, kind)
            ask(2)
            seconds = ask(9)
            p99, asked = p99_meanwhile(f"{running.url}/health/live", threading.Thread(target=ask, args=(15,)))
            lines.append(
                f"| {kind} | {len(content) / 1e6:.1f} | {seconds:.3f} | "
                f"{goal} | {1e3 * p99:.1f} ({asked} requests) | {live} |"
            )
    return lines


def memory_line(running: Stack, large: Large) -> str:
    pid = running.api.pid
    reset_peak(pid)
    before = peak_bytes(pid)
    with httpx.Client(base_url=running.url, timeout=120) as client:
        median_seconds(client, "/evaluate", large.npz, NPZ, 3)
    grown = peak_bytes(pid) - before
    return (
        f"Evaluating the NPZ body increases the peak memory of the API by {grown / 1e6:.0f} MB, "
        f"{grown / len(large.npz):.1f} times the body (goal: at most 10)."
    )


def fit_maps(running: Stack) -> None:
    random = np.random.default_rng(1)
    c = random.random(2_000)
    rows = {"predictions": (c**1.3).tolist(), "labels": (random.random(2_000) < c).astype(int).tolist()}
    z = 2.0 * random.standard_normal((2_000, 10))
    drawn = (z + random.gumbel(size=z.shape)).argmax(axis=1)
    odds = np.exp(1.5 * z + 0.3 * np.arange(10))
    vectors = {"predictions": (odds / odds.sum(axis=1, keepdims=True)).tolist(), "labels": drawn.tolist()}
    with httpx.Client(base_url=running.url, timeout=120) as client:
        fits = [rows | {"method": method, "name": method} for method in METHODS]
        fits += [vectors | {"method": method, "name": f"{method}-10"} for method in VECTOR_METHODS]
        for fit in fits:
            accepted = client.post("/maps", json=fit).raise_for_status()
            while (
                accepted.status_code == 202 and client.get(accepted.headers["location"]).json()["status"] != "succeeded"
            ):
                time.sleep(0.05)


def members(running: Stack) -> int:
    """The number of members of the average of vectors."""
    document = httpx.get(f"{running.url}/maps/averaged-10").raise_for_status().json()["document"]
    return len(document["parameters"]["members"])


_INTRODUCTION = """# Speed over HTTP

Generated by `make bench-http` ({machine}), {wrk}, on loopback, with one API process as
`calibrant serve` runs it.

## Ten scores

Medians of {rounds} interleaved rounds of {seconds} s. `POST /calibrate` of ten scores as JSON is compared with a bare
FastAPI application: `echo` reads the same body into a pydantic model and returns it, `echo of bytes` returns the bytes
unread. Goal: at least 0.9 times the requests per second of `echo`. [ADR 69](../adr/0069-short-requests-at-once.md) says
what was tried.

{small}

### Beside other work

The same while at least {fits} fits of a million pairs are queued, which a worker runs one after the other, and while
the same API receives and evaluates a million pairs again and again. The goal is the same.

{beside}

## One row of ten classes

Maps of whole vectors, in the same way. The goal is at least 0.6 times the requests per second of `temperature` for
`averaged`, which has {members} members here.

{vectors}

## A million pairs

`POST /evaluate` with the default measures, medians of 9. In process the same evaluation takes {in_process:.3f} s.

{large}

{memory}
"""


def main() -> None:
    large = large_batch()
    with (
        tempfile.TemporaryDirectory(prefix="calibrant-") as folder,
        echo_server() as echo,
        stack(host="127.0.0.1", port=0, data=Path(folder), log=None, level="warning") as running,
    ):
        fit_maps(running)
        small = by_connections(running, echo)
        with busy(running, large):
            beside = by_connections(running, echo)
        page = _INTRODUCTION.format(
            machine=machine(),
            wrk=version(),
            rounds=_ROUNDS,
            seconds=_SECONDS,
            small=small,
            beside=beside,
            fits=_FITS,
            vectors="\n".join(vector_rows(running)),
            members=members(running),
            in_process=large.in_process,
            large="\n".join(large_rows(running, large)),
            memory=memory_line(running, large),
        )
    publish(PAGE, page)


if __name__ == "__main__":
    main()
