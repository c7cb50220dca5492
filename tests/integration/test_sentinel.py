"""A master that is killed: the sentinel makes its replica the master, and everything goes on there by itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from backend.store.processes import spawn, stop
from backend.store.server.connection import connect, connect_async
from backend.store.server.embedded import server_binary
from service.settings import Settings
from tests.integration.conftest import serving_client
from tests.integration.redis_server import (
    RedisServer,
    answered,
    assert_away,
    ready,
    redis_server,
    reserved_port,
    until,
)
from tests.integration.test_workers import supervisor

pytestmark = pytest.mark.slow

PASSWORD, SENTINELS_PASSWORD = "of-the-servers", "of-the-sentinels"
BATCH = {"predictions": [0.1, 0.9], "labels": [0, 1]}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[RedisServer, RedisServer, str]]:
    """A master, its replica and the URL of their sentinel; both kinds want passwords."""
    login = ("--requirepass", PASSWORD, "--masterauth", PASSWORD)
    with contextlib.ExitStack() as started:
        master = started.enter_context(redis_server(tmp_path / "one", *login))
        follows = ("--replicaof", f"127.0.0.1 {master.port}", "--repl-diskless-sync-delay", "0")
        replica = started.enter_context(redis_server(tmp_path / "two", *login, *follows))
        with contextlib.closing(replica.admin(password=PASSWORD)) as redis:
            until(lambda: redis.info("replication")["master_link_status"] == "up")
        port = started.enter_context(reserved_port())
        sentinel = tmp_path / "sentinel.conf"
        sentinel.write_text(
            f"port {port}\nrequirepass {SENTINELS_PASSWORD}\ndir {tmp_path}\n"
            f"sentinel monitor mymaster 127.0.0.1 {master.port} 1\nsentinel auth-pass mymaster {PASSWORD}\n"
            "sentinel down-after-milliseconds mymaster 1000\nsentinel failover-timeout mymaster 5000\n"
        )
        log = started.enter_context((tmp_path / "sentinel.log").open("ab"))
        process = spawn([server_binary(), str(sentinel), "--sentinel"], log=log)
        started.callback(stop, process, patience=20)
        gone = started.enter_context(reserved_port())  # a sentinel that does not answer is passed over
        url = f"redis+sentinel://:{PASSWORD}@127.0.0.1:{gone},127.0.0.1:{port}/mymaster/0"
        url += f"?sentinel_password={SENTINELS_PASSWORD}"
        until(lambda: f"+slave slave 127.0.0.1:{replica.port}" in (tmp_path / "sentinel.log").read_text())
        yield master, replica, url


def test_the_service_goes_on_at_the_new_master(servers: tuple[RedisServer, RedisServer, str]) -> None:
    master, replica, url = servers
    with (
        contextlib.closing(connect(url, timeout=600)) as client,
        serving_client(Settings(url), outages=True) as api,
    ):
        batch = answered(lambda: api.post("/batches", json=BATCH)).json()["id"]
        assert client.wait(1, 0) == 1  # the replica has it
        master.kill()

        def is_stored() -> bool:
            answer = api.post("/batches", json=BATCH)
            if answer.status_code != 201:
                assert_away(answer)
            return answer.status_code == 201

        until(is_stored)  # how many requests come before the new master is there depends on the machine
        assert answered(lambda: api.get(f"/batches/{batch}")).status_code == 200
        until(lambda: ready(api))
        client.rpush("line", "first")
        assert client.blpop(["line"]) == (b"line", b"first")
        assert client.connection_pool.get_master_address() == ("127.0.0.1", replica.port)  # type: ignore[attr-defined]
        # The old master comes back as a replica: nothing is written there.
        master.start()
        with contextlib.closing(master.admin(password=PASSWORD)) as old:
            until(lambda: cast(list[Any], old.execute_command("ROLE"))[0] == b"slave")  # type: ignore[no-untyped-call]
        assert answered(lambda: api.post("/batches", json=BATCH)).status_code == 201


def test_workers_go_on_at_the_new_master(servers: tuple[RedisServer, RedisServer, str], tmp_path: Path) -> None:
    master, _, url = servers
    fit = {"predictions": [0.1, 0.4, 0.6, 0.9] * 5, "labels": [0, 1, 0, 1] * 5, "method": "platt"}
    waits = {"Prefer": "respond-async, wait=600"}
    with (
        serving_client(Settings(url, max_wait=600), outages=True) as api,
        supervisor(url, tmp_path / "worker.log"),
    ):
        assert answered(lambda: api.post("/maps", json=fit, headers=waits)).status_code == 201
        with contextlib.closing(connect(url, timeout=600)) as client:
            client.set("last", "")
            assert client.wait(1, 0) == 1
        master.kill()
        until(lambda: api.post("/maps", json=fit, headers=waits).status_code == 201)
    log = (tmp_path / "worker.log").read_text()
    assert PASSWORD not in log
    assert SENTINELS_PASSWORD not in log


def test_an_event_loop_finds_the_master_too(servers: tuple[RedisServer, RedisServer, str]) -> None:
    async def asked() -> bool:
        redis = connect_async(servers[2])
        try:
            return bool(await redis.ping())
        finally:
            await redis.aclose()

    assert asyncio.run(asked())
