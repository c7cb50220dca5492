"""Backfills whose workers are killed: every row is counted once, with and without ids, from a real S3 server."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.store.keyspace import Keyspace, Shared
from service.settings import Settings
from tests.integration.conftest import serving
from tests.integration.monitors.test_backfill import counts
from tests.integration.object_store import Proxy, object_store, proxied, put
from tests.integration.responses import body_of
from tests.integration.test_workers import horses, supervisor, until
from tests.packed import parquet

FILES, ROWS = 4, 20_000
#: The files, and the number of the request for each, at which a process is killed; a third kill would end the job.
KILLED_AT = ((1, 5), (3, 4))
WITH_IDS = {"ids": "id", "predictions": "p", "labels": "y"}


def _file(i: int) -> bytes:
    ids = np.arange(i * ROWS, (i + 1) * ROWS)
    rows = {"id": ids, "p": (ids % 997) / 997, "y": ids % 3 == 0, "noise": np.random.default_rng(i).random(ROWS)}
    return parquet(rows, row_group_size=2000, compression="none")


class Gate:
    """Holds the requests for a file, from one on, until it is opened."""

    def __init__(self, file: int, number: int) -> None:
        self.file, self._left = file, number
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, request: str) -> None:
        if request.startswith("GET") and f"part-{self.file}" in request:
            self._left -= 1
            if self._left <= 0:
                self.reached.set()
                self.opened.wait(600)


def _killed(proxy: Proxy, redis: Redis, http: httpx.Client, pid: int, name: str, columns: dict[str, str]) -> Any:
    """Backfill a monitor, kill its worker at each of the gates, and return the result of the job."""
    source = {"source": "bucket", "path": "**/*.parquet", "columns": columns}
    gates = [Gate(*place) for place in KILLED_AT]
    proxy.gate = gates[0]
    try:
        job = body_of(http.post(f"/monitors/{name}/backfill", json={"source": source}), 202)["id"]
        later: list[Callable[[str], None]] = [*gates[1:], lambda _: None]
        for gate, following in zip(gates, later, strict=True):
            until(redis, gate.reached.is_set)
            stored: Any = redis.hgetall(Keyspace().backfill(job))
            assert int(stored[b"rows"]) >= gate.file * ROWS  # the files before are counted
            os.kill(until(redis, lambda: horses(pid))[0], signal.SIGKILL)
            proxy.gate = following
            gate.opened.set()
    finally:
        for gate in gates:
            gate.opened.set()
    until(redis, lambda: http.get(f"/jobs/{job}").json()["status"] not in ("queued", "running"))
    ended = http.get(f"/jobs/{job}").json()
    assert ended["status"] == "succeeded", ended["problem"]
    return ended["result"]


@pytest.fixture
def running(
    redis: Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Proxy, httpx.Client, int]]:
    """A proxy of a bucket with the files, a client of a service that has it as a source, and the id of a worker."""
    with contextlib.ExitStack() as opened:
        url = opened.enter_context(object_store())
        for i in range(FILES):
            put(url, f"rows/part-{i}.parquet", _file(i))
        proxy = opened.enter_context(proxied(url, page=2))
        root = {"root": "s3://bucket/rows", "endpoint": proxy.url, "region": "us-east-1"}
        sources = json.dumps({"bucket": root})
        monkeypatch.setenv("CALIBRANT_SOURCES", sources)
        served = opened.enter_context(serving(Settings(redis_url, sources=sources)))
        http = opened.enter_context(httpx.Client(base_url=served, timeout=600))
        yield proxy, http, opened.enter_context(supervisor(redis_url, tmp_path / "worker.log")).pid


@pytest.mark.slow
def test_no_rows_are_lost_or_doubled_when_workers_are_killed_during_a_backfill(
    redis: Redis, running: tuple[Proxy, httpx.Client, int]
) -> None:
    proxy, http, worker = running
    for name, columns in (("with-ids", WITH_IDS), ("without", {"predictions": "p", "labels": "y"})):
        body_of(http.post("/monitors", json={"name": name, "reduction": "binary"}), 201)
        totals = _killed(proxy, redis, http, worker, name, columns)
        n = FILES * ROWS
        outcomes = ("rows", "accepted", "joined", "duplicates", "refused", "contradicted")
        assert [totals[field] for field in outcomes] == [n, n, n, 0, 0, 0]
        assert counts(http, name) == {"predictions": n, "labels": n, "joined": n}


@pytest.mark.slow
def test_what_a_cancelled_backfill_has_counted_is_counted_again(
    redis: Redis, running: tuple[Proxy, httpx.Client, int]
) -> None:
    proxy, http, _ = running
    gate = Gate(1, 1)
    proxy.gate = gate
    body_of(http.post("/monitors", json={"name": "cancelled", "reduction": "binary"}), 201)
    source = {"source": "bucket", "path": "*.parquet", "columns": WITH_IDS}
    try:
        job = body_of(http.post("/monitors/cancelled/backfill", json={"source": source}), 202)["id"]
        until(redis, gate.reached.is_set)
        progress = body_of(http.get(f"/jobs/{job}"))["progress"]
        assert re.fullmatch(r"[0-9,]+ rows, [0-9.]+ of [0-9.]+ MB", progress["stage"])
        assert 0 <= progress["done"] < progress["total"]
        body_of(http.post(f"/jobs/{job}/cancel"))
    finally:
        gate.opened.set()
    until(redis, lambda: not redis.hlen(Shared.leases()))  # no run is left
    assert body_of(http.get(f"/jobs/{job}"))["status"] == "cancelled"
    counted = counts(http, "cancelled")["joined"]
    assert ROWS <= counted <= FILES * ROWS
    # Another job counts the rest.
    receipt = body_of(
        http.post("/monitors/cancelled/backfill", json={"source": source}, headers={"Prefer": "wait=600"})
    )
    assert (receipt["accepted"], receipt["duplicates"]) == (FILES * ROWS - counted, counted)
