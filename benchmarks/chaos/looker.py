"""Follows jobs to their end and reads their maps at once: what a caller has read must not change."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from types import TracebackType
from typing import Any, Self, cast

import httpx
import orjson
from redis import Redis

from backend.store.keyspace import Keyspace
from backend.store.server.connection import UNAVAILABLE
from benchmarks.chaos.ledger import ChaosLedger
from benchmarks.chaos.load import EARLY, PAUSE, sent
from schemas.jobs import FINAL

_LOOK_SECONDS = 0.1
_END_SECONDS = 120.0


class Looker:
    """Runs as a context manager; on exit it reads the rest."""

    def __init__(self, ledger: ChaosLedger, redis: Redis, keys: Keyspace, http: httpx.Client) -> None:
        self._ledger, self._redis, self._keys, self._http = ledger, redis, keys, http
        self._unread: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._look_on, self._read_on)]

    def __enter__(self) -> Self:
        """Start following."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop after everything is read."""
        self._stopped.set()
        self._threads[0].join(_END_SECONDS)
        self._unread.put(None)
        self._threads[1].join(_END_SECONDS)

    def _look_on(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            with contextlib.suppress(*UNAVAILABLE):
                self._look()

    def _look(self) -> None:
        jobs = self._ledger.open()
        stored = self._redis.mget([self._keys.job(job) for job in jobs]) if jobs else []
        for job, data in zip(jobs, cast(list[bytes | None], stored), strict=True):
            record: dict[str, Any] = {} if data is None else orjson.loads(data)
            if record.get("status") in FINAL:
                map_id = (record.get("result") or {}).get("map")
                if map_id is not None:
                    self._unread.put(map_id)
                self._ledger.end(job, record["status"])

    def _read_on(self) -> None:
        while (map_id := self._unread.get()) is not None:
            self._ledger.read(map_id, self._document(map_id))

    def _document(self, map_id: str) -> bytes:
        """A map's document; empty if the service answers that there is none."""
        while True:
            response = sent(self._ledger, lambda: self._http.get(f"/maps/{map_id}/document"))
            if response is not None and response.status_code not in EARLY:
                return response.content if response.is_success else b""
            time.sleep(PAUSE)
