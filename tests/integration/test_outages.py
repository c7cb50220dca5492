"""Redis comes late, goes, falls silent or says that it cannot: the API says so at once, and goes on by itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from backend.store.api_keys import ApiKeyStore
from backend.store.link import STALE_SECONDS, Invalidation, Link, announce
from backend.store.server.connection import connect
from service.settings import Settings
from tests.integration.conftest import serving, serving_client
from tests.integration.redis_server import (
    RedisServer,
    answered,
    assert_away,
    ready,
    redis_server,
    reserved_port,
    until,
)
from tests.warm_service import Popen

pytestmark = pytest.mark.slow

BATCH = {"predictions": [0.1, 0.9], "labels": [0, 1]}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


@pytest.fixture
def api(server: RedisServer) -> Iterator[httpx.Client]:
    with serving_client(Settings(server.url), outages=True) as api:
        until(lambda: ready(api))
        yield api


def _post(api: httpx.Client, **headers: str) -> httpx.Response:
    return api.post("/batches", json=BATCH, headers=headers)


def test_the_service_starts_before_its_store_and_is_ready_once_that_comes(tmp_path: Path) -> None:
    with (
        redis_server(tmp_path, started=False) as server,
        serving_client(Settings(server.url), outages=True) as api,
    ):
        assert api.get("/health/live").status_code == 200
        for path in ("/health/ready", "/maps", "/measures", "/limits", "/metrics"):
            assert_away(api.get(path))
        assert_away(_post(api))
        assert api.get("/docs").status_code == 200
        server.start()
        until(lambda: ready(api))
        assert answered(lambda: _post(api)).status_code == 201


def test_a_killed_store_is_reported_at_once_and_keeps_acknowledged_work(server: RedisServer, api: httpx.Client) -> None:
    batch = answered(lambda: _post(api)).json()["id"]
    server.kill()
    # What needs the store fails at once; what the service knows of it may follow a moment later.
    assert_away(_post(api, **{"Idempotency-Key": "once"}))
    until(lambda: not ready(api))
    for _ in range(3):
        assert_away(_post(api, **{"Idempotency-Key": "once"}))
        assert_away(api.get("/health/ready"))
    # What needs no store is served without it, where no key is needed.
    for path in ("/health/live", "/docs", "/measures", "/methods", "/diagrams"):
        assert api.get(path).status_code == 200
    assert "calibrant_store_up 0.0" in api.get("/metrics").text
    server.start()
    until(lambda: ready(api))
    assert answered(lambda: api.get(f"/batches/{batch}")).status_code == 200
    assert answered(lambda: _post(api, **{"Idempotency-Key": "once"})).status_code == 201


async def test_a_blocked_event_loop_is_not_mistaken_for_a_store_without_answers(server: RedisServer) -> None:
    lost: list[Exception] = []

    async def nothing(*_: object) -> None:
        pass

    class Watched(Link):
        def _lose(self, error: Any) -> None:
            lost.append(error)
            super()._lose(error)

    link = Watched(server.url, opened=nothing, changed=nothing)
    running = asyncio.create_task(link.run())
    assert await link.settled(120.0)
    for _ in range(8):
        time.sleep(1.2 * STALE_SECONDS)
        for _ in range(3):
            await asyncio.sleep(0)
            link.check_open()
    assert await link.settled(120.0)
    link.close()
    await running
    assert lost == []


async def test_changes_that_arrive_while_one_is_handled_are_handled_together(server: RedisServer) -> None:
    handled: list[Invalidation] = []
    first, last, released = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def nothing() -> None:
        pass

    async def changed(change: Invalidation) -> None:
        handled.append(change)
        first.set()
        await released.wait()
        if change.what == "map":
            last.set()

    link = Link(server.url, opened=nothing, changed=changed)
    running = asyncio.create_task(link.run())
    assert await link.settled(120.0)
    with contextlib.closing(server.admin()) as redis, redis.pipeline() as pipe:
        announce(pipe, Invalidation("keys"))
        pipe.execute()
        await asyncio.wait_for(first.wait(), 120)
        for _ in range(200):
            announce(pipe, Invalidation("keys"))
        announce(pipe, Invalidation("map", "default", "spam"))
        pipe.execute()
        released.set()
        await asyncio.wait_for(last.wait(), 120)
    assert await link.settled(120.0)
    link.close()
    await running
    assert handled[-1] == Invalidation("map", "default", "spam")
    assert len(handled) < 10


async def test_who_catches_up_waits_until_the_changes_made_so_far_were_handled(server: RedisServer) -> None:
    handled: list[str | None] = []
    reading, released = asyncio.Event(), asyncio.Event()

    async def nothing() -> None:
        pass

    async def changed(change: Invalidation) -> None:
        reading.set()
        await released.wait()
        handled.append(change.name)

    link = Link(server.url, opened=nothing, changed=changed, silence=120.0)
    running = asyncio.create_task(link.run())
    assert await link.settled(120.0)
    with contextlib.closing(server.admin()) as redis, redis.pipeline() as pipe:
        for count in range(1, 4):
            released.clear()
            reading.clear()
            announce(pipe, Invalidation("map", "default", str(count)))
            pipe.execute()
            waiting = [asyncio.create_task(link.catch_up()) for _ in range(count)]
            await asyncio.wait_for(reading.wait(), 120)
            assert not any(task.done() for task in waiting)
            released.set()
            await asyncio.wait_for(asyncio.gather(*waiting), 120)
            assert handled == [str(name) for name in range(1, count + 1)]
    link.close()
    await running
    await asyncio.wait_for(link.catch_up(), 120)


def test_a_store_without_answers_delays_no_probe_and_no_request_for_long(server: RedisServer) -> None:
    # A request that waits for the store takes at least this patience, and one that waits for a thread as well takes a
    # multiple. A busy machine does not use up a fraction of it.
    patience = 12.0
    with (
        serving(Settings(server.url, store_timeout=patience)) as url,
        httpx.Client(base_url=url, timeout=600) as api,
        httpx.Client(base_url=url, timeout=600) as prober,
        ThreadPoolExecutor(100) as callers,
    ):
        until(lambda: ready(api))
        usual = [callers.submit(_timed_alone, url, "/maps") for _ in range(100)]
        busy = 5 * max(seconds for _, seconds in (call.result() for call in usual))  # what this machine needs for them
        server.signal(signal.SIGSTOP)
        # More than there are threads for: all were let in while the silence was not noticed yet.
        first = [callers.submit(_timed_alone, url, "/maps") for _ in range(100)]
        for _ in range(20):
            prober.get("/health/live").raise_for_status()
        assert not all(call.done() for call in first)  # every probe was answered before the store was given up
        assert max(seconds for _, seconds in (call.result() for call in first)) < 2 * patience + busy
        later = [call.result() for call in [callers.submit(_timed_alone, url, "/maps") for _ in range(100)]]
        assert max(seconds for _, seconds in later) < patience + busy
        for answer, _ in [call.result() for call in first] + later:
            assert_away(answer)
        assert api.get("/measures").status_code == 200
        server.signal(signal.SIGCONT)
        until(lambda: _post(api).status_code == 201)


def test_a_silence_that_is_short_beside_the_timeout_is_no_outage(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        serving(Settings(server.url, store_timeout=900)) as url,
        httpx.Client(base_url=url, timeout=600) as api,
        ThreadPoolExecutor(1) as thread,
    ):
        until(lambda: ready(api))
        server.signal(signal.SIGSTOP)
        waiting = thread.submit(_timed_alone, url, "/maps")
        began = time.monotonic()
        while time.monotonic() - began < 3 * STALE_SECONDS:
            assert api.get("/health/live").status_code == 200
        assert not waiting.done()
        server.signal(signal.SIGCONT)
        assert waiting.result()[0].status_code == 200
    assert "connection lost" not in caplog.text


def _timed(api: httpx.Client, path: str) -> tuple[httpx.Response, float]:
    began = time.monotonic()
    return api.get(path), time.monotonic() - began


def _timed_alone(url: str, path: str) -> tuple[httpx.Response, float]:
    # Not on connections that a hundred threads share: httpcore may close an idle one that was just given to a request.
    with httpx.Client(base_url=url, timeout=600, verify=False) as api:
        return _timed(api, path)


Commands = list[tuple[str, ...]]
REFUSALS: dict[str, tuple[Commands, Commands]] = {
    "READONLY": ([("REPLICAOF", "127.0.0.1", "1")], [("REPLICAOF", "NO", "ONE")]),
    "MASTERDOWN": (
        [("CONFIG", "SET", "replica-serve-stale-data", "no"), ("REPLICAOF", "127.0.0.1", "1")],
        [("REPLICAOF", "NO", "ONE")],
    ),
    "NOREPLICAS": (
        [("CONFIG", "SET", "min-replicas-to-write", "1")],
        [("CONFIG", "SET", "min-replicas-to-write", "0")],
    ),
    "NOPERM": ([("ACL", "SETUSER", "default", "-@write")], [("ACL", "SETUSER", "default", "+@all")]),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_busy_store_is_unavailable_until_it_answers(
    kind: str, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    # Only MASTERDOWN, which refuses the link as well, is an outage to the service.
    with serving_client(Settings(server.url), outages=kind == "MASTERDOWN") as api:
        until(lambda: ready(api))
        _assert_refused_until_it_answers(kind, server, api, caplog)


def _assert_refused_until_it_answers(
    kind: str, server: RedisServer, api: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    wrong, right = REFUSALS[kind]
    for command in wrong:
        server.tell(*command)
    for headers in ({}, {"Idempotency-Key": "once"}):
        assert_away(_post(api, **headers))
    identity = api.post("/maps", json=BATCH | {"method": "identity", "name": "m"})
    assert_away(identity)
    if kind != "MASTERDOWN":  # then no further command reaches the store
        assert f"({kind})" in identity.json()["detail"]
    assert api.get("/health/live").status_code == 200
    # The link may learn it first, and then the request is refused without asking the store.
    assert f"store unavailable: {kind}" in caplog.text or f"connection lost ({kind})" in caplog.text
    for command in right:
        server.tell(*command)
    until(lambda: _post(api).status_code == 201)


def test_a_disk_that_cannot_be_written_refuses_changes_alone(tmp_path: Path) -> None:
    """A snapshot that fails refuses writes as an append-only file does (MISCONF); its folder is gone."""
    settings = ("--save", "3600 1", "--appendonly", "no", "--enable-protected-configs", "yes")
    with (
        redis_server(tmp_path / "r", *settings) as server,
        serving_client(Settings(server.url)) as api,
        server.admin() as redis,
    ):
        assert _post(api).status_code == 201
        shutil.rmtree(tmp_path / "r")
        redis.bgsave()
        until(lambda: redis.info("persistence")["rdb_last_bgsave_status"] == "err")
        refused = _post(api)
        assert_away(refused)
        assert "cannot save to disk" in refused.json()["detail"]
        assert api.get("/maps").status_code == 200
        until(lambda: api.get("/health/ready").json() == {"status": "degraded", "reason": "store-cannot-save"})
        began = time.monotonic()
        while time.monotonic() - began < 2 * STALE_SECONDS:
            assert api.get("/maps").status_code == api.get("/health/ready").status_code == 200
        redis.config_set("dir", str(tmp_path))
        redis.bgsave()
        until(lambda: _post(api).status_code == 201)


def test_a_wrong_password_is_an_outage_that_names_its_kind_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with redis_server(tmp_path, "--requirepass", "the-right-one") as server:
        for login, kind in ((":the-wrong-one@", "WRONGPASS"), ("", "NOAUTH")):
            wrong = server.url.replace("127", f"{login}127")
            with serving(Settings(wrong), outages=True) as url, httpx.Client(base_url=url, timeout=600) as api:
                assert_away(_post(api))
                assert_away(api.get("/health/ready"))
            assert f"connection lost ({kind})" in caplog.text
        assert "-one" not in caplog.text
        right = server.url.replace("127", ":the-right-one@127")
        with serving(Settings(right)) as url, httpx.Client(base_url=url, timeout=600) as api:
            assert _post(api).status_code == 201


def test_a_user_of_an_acl_enters_with_name_and_password(server: RedisServer) -> None:
    server.tell("ACL", "SETUSER", "calibrant", "on", ">pw", "~*", "&*", "+@all", "-config")
    named = server.url.replace("127", "calibrant:pw@127")
    with serving_client(Settings(named)) as api:
        assert _post(api).status_code == 201


def _started(url: str, *arguments: str) -> subprocess.Popen[str]:
    return Popen(
        [sys.executable, "-P", "-m", "calibrant", *arguments],
        env=os.environ | {"CALIBRANT_REDIS_URL": url},
        stderr=subprocess.PIPE,
        text=True,
    )


def _ended(api: subprocess.Popen[str]) -> tuple[int, str]:
    _, output = api.communicate(timeout=600)
    return api.returncode, output


@pytest.mark.parametrize("command", [("api", "--port", "0"), ("worker",)], ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (("--maxmemory-policy", "allkeys-lru"), "calibrant: Redis would evict keys"),
        (("--cluster-enabled", "yes"), "calibrant: Redis runs in cluster mode"),
    ],
    ids=["evicts", "cluster"],
)
def test_an_unsuitable_store_ends_the_service_once_it_is_reached(
    tmp_path: Path, command: tuple[str, ...], setting: tuple[str, str], message: str
) -> None:
    # By default, the second port of a cluster is in the range from which systems give ports to connections.
    with reserved_port() as bus, redis_server(tmp_path, *setting, "--cluster-port", str(bus), started=False) as server:
        process = _started(server.url, *command)
        server.start()
        status, output = _ended(process)
        assert status == 2
        assert message in output


def test_an_open_address_is_not_served_until_a_key_is_known(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        with connect(server.url) as redis:
            key = ApiKeyStore(redis).create("one", tenant="default", scope="read").text
        server.kill()  # it knows the key again once it is back
        with serving_client(Settings(server.url), needs_key=True, outages=True) as api:
            assert api.get("/health/live", headers={"Host": "calibrant.example"}).status_code == 200
            assert_away(api.get("/docs", headers={"Host": "calibrant.example"}))
            assert_away(api.get("/maps"))
            server.start()
            until(lambda: ready(api))
            assert answered(lambda: api.get("/maps")).status_code == 401
            login = {"Authorization": f"Bearer {key}"}
            assert answered(lambda: api.get("/maps", headers=login)).status_code == 200
        with connect(server.url) as redis:
            redis.flushall()
        status, output = _ended(_started(server.url, "api", "--port", "0", "--host", "0.0.0.0"))
        assert status == 2
        assert "calibrant keys create" in output


def test_a_store_that_comes_minutes_late_is_found_as_soon_as_one_in_time(tmp_path: Path) -> None:
    """The pauses between the attempts stop growing at half a second, so lateness changes nothing from then on."""
    with (
        redis_server(tmp_path, started=False) as server,
        serving_client(Settings(server.url), outages=True) as api,
    ):
        began = time.monotonic()
        while time.monotonic() - began < LATE_SECONDS:
            assert_away(api.get("/health/ready"))
        server.start()
        until(lambda: ready(api))


#: Seconds that a store comes late; TEST_LATE_SECONDS=180 for the whole of it.
LATE_SECONDS = float(os.environ.get("TEST_LATE_SECONDS", "8"))
