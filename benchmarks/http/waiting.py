"""Heavy requests of one tenant that wait for each other, and the scores of another tenant meanwhile.

``python -m benchmarks.http.waiting [CLIENTS [REQUESTS]]`` prints the table of ADR 67. CLIENTS (16) of one tenant send
REQUESTS (48) each, of 300,000 scores; another tenant sends ten scores at a time. All settings have their defaults.
"""

from __future__ import annotations

import contextlib
import socket
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import orjson

from backend.store.api_keys import ApiKeyStore
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from benchmarks.http.load import peak_bytes, reset_peak
from service.stack import stack

SCORES = 300_000
IDLE_SECONDS = 10.0


def send(url: str, headers: dict[str, str], clients: int, requests: int) -> Counter[int]:
    """Send heavy requests from several clients at once, and count the statuses; on sockets, which takes little time."""
    body = orjson.dumps({"map": "m", "predictions": np.random.default_rng(1).random(SCORES).tolist()})
    place = urlsplit(url)
    fields = headers | {"Host": place.netloc, "Content-Length": str(len(body)), "Connection": "close"}
    lines = ["POST /calibrate HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    request = "\r\n".join(lines).encode() + body

    def client(_: int) -> Counter[int]:
        return Counter(one_status(str(place.hostname), place.port or 80, request) for _ in range(requests))

    with ThreadPoolExecutor(clients) as threads:
        return sum(threads.map(client, range(clients)), Counter[int]())


def one_status(host: str, port: int, request: bytes) -> int:
    """Send a request on a connection of its own; return the status of the response, which is read to its end."""
    with socket.create_connection((host, port), timeout=120) as connection:
        connection.sendall(request)
        first = connection.recv(1 << 16)
        while connection.recv(1 << 20):
            pass
    return int(first.split(maxsplit=2)[1])


def latencies(url: str, headers: dict[str, str], is_over: Callable[[], bool]) -> list[float]:
    """The seconds that requests of ten scores take, one after the other."""
    body = orjson.dumps({"map": "m", "predictions": [i / 10 for i in range(10)]})
    taken = []
    with httpx.Client(headers=headers, timeout=60) as http:
        while not is_over():
            began = time.perf_counter()
            http.post(f"{url}/calibrate", content=body).raise_for_status()
            taken.append(time.perf_counter() - began)
    return taken


def main(clients: int, requests: int) -> None:
    """Run the load, and print what it gave."""
    with (
        tempfile.TemporaryDirectory() as folder,
        (Path(folder) / "log").open("wb") as log,
        embedded_server(Path(folder) / "store", log=log) as (redis_url, _),
        connect(redis_url) as redis,
        contextlib.ExitStack() as stopping,
    ):
        keys = [ApiKeyStore(redis).create(name, tenant=name, scope="write").text for name in ("a", "b")]
        large, small = ({"Authorization": f"Bearer {key}", "Content-Type": "application/json"} for key in keys)
        service = stack(host="127.0.0.1", port=0, data=Path(folder), log=log, redis_url=redis_url)
        running = stopping.enter_context(service)
        while httpx.get(f"{running.url}/health/ready", timeout=60).status_code != 200:
            time.sleep(0.1)
        for headers in (large, small):
            rows = {"predictions": [0.2, 0.4, 0.6, 0.8], "labels": [0, 1, 0, 1], "method": "platt", "name": "m"}
            httpx.post(f"{running.url}/maps", json=rows, headers=headers, timeout=60).raise_for_status()
        end = time.monotonic() + IDLE_SECONDS
        idle = latencies(running.url, small, lambda: time.monotonic() > end)
        reset_peak(running.api.pid)
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            began = time.monotonic()
            load = process.submit(send, running.url, large, clients, requests)
            loaded = latencies(running.url, small, load.done)
            took = time.monotonic() - began
        print(f"{clients} clients, {requests} requests each: {dict(load.result())} in {took:.1f} s")
        for name, taken in (("idle", idle), ("meanwhile", loaded)):
            median, p99 = (1000 * statistics.quantiles(taken, n=100)[i] for i in (49, 98))
            print(f"ten scores, {name}: median {median:.1f} ms, p99 {p99:.1f} ms, {len(taken)} requests")
        print(f"peak memory of the API: {peak_bytes(running.api.pid) / 2**20:.0f} MiB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ("16", "48")))
