"""The audit log under kill -9: every change has its entry, and every entry its change."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.store.audit import AuditTrail
from backend.store.keyspace import Keyspace
from backend.store.pages import PageRequest
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from backend.store.store import Store
from benchmarks.chaos.proc import children
from schemas.audit import AuditQuery, ChangeRecord
from service.stack import Stack
from tests.integration.conftest import own_service

pytestmark = pytest.mark.slow

QUICK = {"method": "identity", "predictions": [0.1, 0.9], "labels": [0, 1]}
_rows = np.random.default_rng(53).random(400)
QUEUED = {"method": "platt", "predictions": _rows.tolist(), "labels": (_rows > 0.4).astype(int).tolist()}
#: Changes that are acknowledged between two kills, and the number of kills.
CHANGES, KILLS = 25, 6


class Writers:
    """Threads that make changes, whatever happens to the processes, and count those that were acknowledged."""

    def __init__(self, *steps: Callable[[np.random.Generator], int]) -> None:
        self._over = threading.Event()
        self._counted = threading.Condition()
        self._acknowledged = 0
        self._threads = [threading.Thread(target=self._write, args=(step, i)) for i, step in enumerate(steps)]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, more: int) -> None:
        with self._counted:
            target = self._acknowledged + more
            assert self._counted.wait_for(lambda: self._acknowledged >= target, timeout=600)

    def _write(self, step: Callable[[np.random.Generator], int], seed: int) -> None:
        random = np.random.default_rng(seed)
        while not self._over.is_set():
            with contextlib.suppress(httpx.TransportError):
                acknowledged = step(random)
                with self._counted:
                    self._acknowledged += acknowledged
                    self._counted.notify_all()


class MapChanges:
    """Changes of a map and of its alias."""

    def __init__(self, http: httpx.Client, name: str) -> None:
        self._http = http
        self._name = name

    def change(self, random: np.random.Generator) -> int:
        """Make changes; returns how many were acknowledged."""
        http, name = self._http, self._name
        match random.integers(6):
            case 0 | 1:
                return http.post("/maps", json=QUICK | {"name": name}).is_success
            case 2:
                headers = {"Prefer": "respond-async"}
                return http.post("/maps", json=QUEUED | {"name": name}, headers=headers).is_success
            case 3 | 4:
                bodies = [{"version": listed["version"]} for listed in self._listed(3)]
                return sum(http.put(f"/maps/{name}/aliases/champion", json=body).is_success for body in bodies)
            case _:
                return sum(http.delete(f"/maps/{listed['id']}").is_success for listed in self._listed(5)[3:])

    def _listed(self, limit: int) -> list[dict[str, Any]]:
        response = self._http.get("/maps", params={"name": self._name, "limit": limit})
        records: list[dict[str, Any]] = response.json()["items"] if response.is_success else []
        return records


def kill(running: Stack) -> None:
    """Kill the API, and the supervisor with its workers, in the middle of their work."""
    for pid in (running.api.pid, running.worker.pid, *children(running.worker.pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def log_of(redis: Redis) -> list[ChangeRecord]:
    trail, request, entries = AuditTrail(redis, Keyspace()), PageRequest(100), list[ChangeRecord]()
    while True:
        page = trail.page(request, AuditQuery())
        entries += page.items
        if page.next is None:
            return entries[::-1]
        request = PageRequest(100, page.next)


def _versions(redis: Redis, name: str) -> tuple[int, dict[int, str]]:
    """The newest version that was ever assigned, and the id of the map of each version that exists."""
    newest = cast("bytes | None", redis.hget(Keyspace().newest_versions(), name))
    stored = cast(dict[bytes, bytes], redis.hgetall(Keyspace().versions(name)))
    return int(newest or 0), {int(version): map_id.decode() for version, map_id in stored.items()}


def test_kills_leave_no_change_without_its_entry_and_no_entry_without_its_change(folder: Path) -> None:
    with (folder / "chaos.log").open("ab") as log, contextlib.ExitStack() as started:
        url, _ = started.enter_context(embedded_server(folder / "chaos", log=log))
        redis = started.enter_context(contextlib.closing(connect(url)))
        running = started.enter_context(own_service(folder / "chaos", redis_url=url))
        over = started.enter_context(mending(running))
        clients = [started.enter_context(httpx.Client(base_url=running.url, timeout=600)) for _ in range(4)]
        changes = (MapChanges(http, f"map-{i % 2}").change for i, http in enumerate(clients))
        with Writers(*changes) as writers:
            for _ in range(KILLS):
                writers.wait_for(CHANGES)
                kill(running)
            writers.wait_for(CHANGES)
        over.set()
        entries, versions = _at_one_moment(redis, ("map-0", "map-1"))
        for name, of_name in versions.items():
            _check(redis, name, [entry for entry in entries if entry.map == name], *of_name)


def _at_one_moment(
    redis: Redis, names: Sequence[str]
) -> tuple[list[ChangeRecord], dict[str, tuple[int, dict[int, str]]]]:
    """The log, and the versions of each name, between two fits of jobs that are still queued."""
    while True:
        versions = {name: _versions(redis, name) for name in names}
        entries = log_of(redis)
        if versions == {name: _versions(redis, name) for name in names}:
            return entries, versions


def _check(redis: Redis, name: str, entries: list[ChangeRecord], newest: int, stored: dict[int, str]) -> None:
    of_action: dict[str, list[ChangeRecord]] = defaultdict(list)
    for entry in entries:
        of_action[entry.action].append(entry)
    fitted = [_state(entry.after) for entry in of_action["map-fitted"]]
    deleted = [_state(entry.before) for entry in of_action["map-deleted"]]
    assert newest > 0
    assert [state["version"] for state in fitted] == list(range(1, newest + 1))
    assert {state["version"] for state in fitted} - {state["version"] for state in deleted} == set(stored)
    assert len(deleted) == newest - len(stored)
    assert {state["version"]: state["id"] for state in fitted}.items() >= stored.items()
    moves = of_action["alias-moved"]
    assert [_state(entry.after)["revision"] for entry in moves] == list(range(1, len(moves) + 1))
    assert [entry.before for entry in moves] == [None, *(entry.after for entry in moves)][: len(moves)]
    if moves:
        alias = Store.of(redis).aliases.get(name, "champion")
        last = {"version": alias.version, "id": alias.map, "revision": alias.revision}
        assert moves[-1].after == last


def _state(state: dict[str, Any] | None) -> dict[str, Any]:
    assert state is not None
    return state


@contextlib.contextmanager
def mending(running: Stack) -> Any:
    """Restart what was killed, until the test is over."""
    over = threading.Event()

    def mend() -> None:
        while not over.wait(0.05):
            running.mend()

    thread = threading.Thread(target=mend)
    thread.start()
    try:
        yield over
    finally:
        over.set()
        thread.join()
