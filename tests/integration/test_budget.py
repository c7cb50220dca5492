"""No tenant fills the store for all, a full store refuses with 507 what would be stored, and accepted jobs end."""

from __future__ import annotations

import contextlib
import itertools
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from redis.exceptions import ConnectionError as Away

from backend.monitors.recalibration import most_maps
from backend.store.api_keys import ApiKeyStore
from backend.store.budget import Budget, measure
from backend.store.server.connection import connect, connect_async
from backend.store.store import Store
from schemas.keys import Scope
from service.settings import Settings
from tests.integration.conftest import serving_client
from tests.integration.redis_server import RedisServer, redis_server, until
from tests.integration.test_workers import supervisor
from tests.known import known
from tests.packed import npz

#: The store's memory; the budget is three quarters of it, a tenant's share half of that.
MEMORY = 64 << 20
BUDGET = MEMORY * 3 // 4
ROWS = {"predictions": [0.1, 0.9] * 20, "labels": [0, 1] * 20}
JOB = {"Prefer": "respond-async"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path, "--maxmemory", str(MEMORY)) as server:
        yield server


@contextlib.contextmanager
def _api(server: RedisServer, **settings: Any) -> Iterator[httpx.Client]:
    """An API that knows its budget."""
    with serving_client(Settings(server.url, rate_limit=0, **settings)) as api:
        until(lambda: api.get("/health/ready").status_code == 200)
        yield api


def _keys(server: RedisServer, *tenants: str, scope: Scope = "admin") -> list[dict[str, str]]:
    with connect(server.url) as redis:
        texts = [ApiKeyStore(redis).create(tenant, tenant=tenant, scope=scope).text for tenant in tenants]
    return [{"Authorization": f"Bearer {key}"} for key in texts]


def _metric(api: httpx.Client, name: str, **headers: str) -> float:
    lines = api.get("/metrics", headers=headers).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def _body(n: int = 110_000) -> bytes:
    """A batch that takes about 1.8 MB."""
    random = np.random.default_rng(0)
    return npz(predictions=random.random(n), labels=(random.random(n) < 0.5).astype(np.int64))


def _post(api: httpx.Client, body: bytes, headers: dict[str, str] | None = None) -> httpx.Response:
    return api.post("/batches", content=body, headers={"Content-Type": "application/x-npz", **(headers or {})})


def _fill(api: httpx.Client, headers: dict[str, str] | None = None) -> tuple[list[str], httpx.Response]:
    """The ids of the batches that were stored until one was refused, and the refusal."""
    body = _body()
    stored: list[str] = []
    for _ in range(MEMORY // 1_000_000):
        answer = _post(api, body, headers)
        if answer.status_code != 201:
            return stored, answer
        stored.append(answer.json()["id"])
    pytest.fail("nothing was refused")


def _assert_full(answer: httpx.Response) -> str:
    assert (answer.status_code, answer.json()["type"]) == (507, "/problems/store-full"), answer.text
    assert int(answer.headers["retry-after"]) >= 1
    return str(answer.json()["detail"])


def _until_full(post: Callable[[str], httpx.Response]) -> None:
    """Repeat a call, each time with a name of its own, until it is refused because the store is full."""
    answers = (post(f"call-{number}") for number in itertools.count())
    _assert_full(next(answer for answer in answers if answer.is_error))


@pytest.mark.slow
def test_a_tenant_that_fills_its_share_leaves_room_for_the_others(server: RedisServer) -> None:
    full, other = _keys(server, "one", "other")
    with _api(server) as api:
        until(lambda: _metric(api, "calibrant_store_budget_bytes", **full) == BUDGET)
        stored, refused = _fill(api, full)
        assert "this tenant may store" in _assert_full(refused)
        assert "other" not in refused.text
        assert len(_body()) * len(stored) < 0.9 * BUDGET
        # Less than a refused batch is left; small ones fill it. Then whatever would store something is refused.
        for body in map(_body, (20_000, 2_000, 200)):
            until(lambda body=body: _post(api, body, full).status_code == 507)  # type: ignore[misc]
        # A call may be let in when the store is measured again, since a little more than it takes is counted for it.
        _until_full(lambda _: api.post("/maps", json=ROWS | {"method": "platt"}, headers=full))
        _assert_full(api.post("/maps/import", json={}, headers=full))
        _until_full(lambda _: api.post("/evaluate", json=ROWS | {"measures": ["ece"]}, headers=full | JOB))
        _until_full(lambda key: api.post("/evaluate", json=ROWS, headers=full | {"Idempotency-Key": key}))
        _until_full(lambda name: api.post("/monitors", json={"name": name}, headers=full))
        assert api.post("/evaluate", json=ROWS, headers=full).status_code == 200
        assert api.get("/batches", headers=full).status_code == 200
        assert _post(api, _body(), other).status_code == 201
        assert api.post("/maps", json=ROWS | {"method": "platt"}, headers=other).status_code == 201
        assert api.get("/health/ready").json() == {"status": "ok"}
        # Another process, and one that starts on a store that is filled already, holds the tenant to its share too.
        with _api(server) as later:
            until(lambda: _post(later, _body(), full).status_code == 507)
            assert _post(later, _body(), other).status_code == 201
        # The later process let some in before it had looked at the store, so all but one are deleted.
        listed = [batch["id"] for batch in api.get("/batches?limit=100", headers=full).json()["items"]]
        for batch in set(listed) - {stored[0]}:
            assert api.delete(f"/batches/{batch}", headers=full).status_code == 204
        until(lambda: _post(api, _body(), full).status_code == 201)
        with connect(server.url) as redis:
            redis.expire(Store.of(redis, "one").keys.batch(stored[0]), 0)
        until(lambda: _post(api, _body(), full).status_code == 201)


@pytest.mark.slow
def test_a_full_store_is_degraded_until_there_is_room_and_accepted_jobs_end(
    server: RedisServer, tmp_path: Path
) -> None:
    with _api(server) as api:
        until(lambda: _metric(api, "calibrant_store_budget_bytes") == BUDGET)
        job = api.post("/maps", json=ROWS | {"method": "pl"}, headers=JOB)
        assert job.status_code == 202
        stored, refused = _fill(api)
        assert "the data of all tenants" in _assert_full(refused)
        until(lambda: api.get("/health/ready").json() == {"status": "degraded", "reason": "store-full"})
        assert api.get("/health/ready").status_code == 200
        assert api.get("/v2/health/ready").status_code == 200
        assert _metric(api, "calibrant_store_used_bytes") >= 0.95 * BUDGET
        with supervisor(server.url, tmp_path / "log"):
            until(lambda: api.get(job.headers["Location"]).json()["status"] == "succeeded")
        for batch in stored[:5]:
            assert api.delete(f"/batches/{batch}").status_code == 204
        until(lambda: api.get("/health/ready").json() == {"status": "ok"})
        assert _post(api, _body()).status_code == 201


@pytest.mark.slow
def test_a_store_without_memory_loses_no_job_and_lets_everything_be_deleted(
    server: RedisServer, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    p = random.random(20_000)
    rows = {"predictions": p.tolist(), "labels": (random.random(len(p)) < p).astype(int).tolist()}
    with _api(server) as api, supervisor(server.url, tmp_path / "log"), server.admin() as redis:
        assert api.post("/monitors", json={"name": "m"}).status_code == 201
        assert api.post("/monitors/m/rows", json={"rows": [{"prediction": 0.5, "label": 1}]}).status_code == 200
        batch, fitted = _post(api, _body(1000)).json()["id"], api.post("/maps", json=ROWS | {"method": "platt"}).json()
        job = api.post("/maps", json=rows | {"method": "averaged"}, headers=JOB).headers["Location"]
        until(lambda: api.get(job).json()["status"] == "running")
        server.tell("CONFIG", "SET", "maxmemory", "1")
        before = (
            redis.info("errorstats")["errorstat_OOM"]["count"] if "errorstat_OOM" in redis.info("errorstats") else 0
        )
        _assert_full(_post(api, _body(1000)))
        assert api.get("/health/ready").status_code == 200
        until(lambda: api.get("/health/ready").json() == {"status": "degraded", "reason": "store-full"})
        for path in (f"/batches/{batch}", f"/maps/{fitted['id']}", "/monitors/m"):
            assert api.delete(path).status_code == 204, path
        assert redis.keys("calibrant:default:monitor:*") == []
        # The run's lease goes on, and its result waits: the worker tries to write again and again.
        until(lambda: redis.info("errorstats")["errorstat_OOM"]["count"] > before + 100)
        assert api.get(job).json()["status"] == "running"
        server.tell("CONFIG", "SET", "maxmemory", str(MEMORY))
        until(lambda: api.get(job).json()["status"] == "succeeded")
        record = Store.of(connect(server.url)).jobs.get(job.rpartition("/")[2])
        assert (record.run, record.losses, record.kills) == (1, 0, 0)


def test_the_budget_is_of_the_machine_where_the_store_has_no_limit_and_none_if_it_is_0(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server, server.admin() as redis:
        machine = redis.info("memory")["total_system_memory"]
        with _api(server, store_budget=0.5) as api:
            until(lambda: _metric(api, "calibrant_store_budget_bytes") == machine // 2)
        redis.config_set("maxmemory", 1)
        with _api(server, store_budget=0) as api:
            until(lambda: _metric(api, "calibrant_store_used_bytes") > 0)
            assert _metric(api, "calibrant_store_budget_bytes") == 0
            for headers in ({}, {"Idempotency-Key": "once"}, JOB):
                refused = api.post("/maps", json=ROWS | {"method": "identity"}, headers=headers)
                assert "out of memory" in _assert_full(refused)
            assert api.get("/health/ready").json() == {"status": "degraded", "reason": "store-full"}


def test_the_bytes_of_each_tenant_are_counted_whatever_they_are(server: RedisServer) -> None:
    first, other = _keys(server, "one", "other")
    with _api(server) as api, connect(server.url) as redis:
        for headers in (first, other, first):
            assert _post(api, _body(50_000), headers).status_code == 201
        assert api.post("/maps", json=ROWS | {"method": "platt"}, headers=first).status_code == 201
        assert api.post("/monitors", json={"name": "m"}, headers=first | {"Idempotency-Key": "m"}).status_code == 201
        measured = measure(redis)
        assert measured.keys() == {"one", "other"}
        whole = {
            tenant: sum(redis.memory_usage(key) or 0 for key in redis.scan_iter(f"calibrant:{tenant}:*"))
            for tenant in measured
        }
        assert measured == whole
        assert measured["one"] > 2 * 50_000 * 16 > measured["other"] > 50_000 * 16


async def test_looks_while_the_store_is_away_are_not_remembered(tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/none.sock"
    budget = Budget(url, 0.75, lambda: True)

    async with connect_async(url, timeout=600) as redis:
        for _ in range(10):
            with pytest.raises(Away):
                await budget._look(redis)
    assert len(budget._let_in) == 1


@pytest.mark.slow
def test_the_default_quota_of_maps_is_reached_before_the_store_is_full(server: RedisServer) -> None:
    quota = BUDGET // 2 // (64 << 10)
    with _api(server) as api, connect(server.url) as redis:
        until(lambda: api.get("/limits").json()["limits"]["quota_maps"]["value"] == quota)
        assert most_maps(redis) == quota
        for _ in range(quota):
            assert api.post("/maps", json=ROWS | {"method": "platt"}).status_code == 201
        refused = api.post("/maps", json=ROWS | {"method": "platt"})
        assert (refused.status_code, refused.json()["type"]) == (429, "/problems/quota-exceeded")
        assert api.get("/health/ready").json() == {"status": "ok"}


def test_a_quota_that_is_set_for_a_worker_replaces_the_default(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(server.url) as redis:
        monkeypatch.setenv("CALIBRANT_STORE_BUDGET", "0.25")
        assert most_maps(redis) == MEMORY // 8 // (64 << 10)
        for quota in (0, 7):
            monkeypatch.setenv("CALIBRANT_QUOTA_MAPS", str(quota))
            assert most_maps(redis) == quota


# --- The volume of the append-only file

#: Bytes of the volume in these tests; the server may not make a larger file.
VOLUME = 100 << 20
#: A write beyond the limit of a file then fails, as on a full volume, instead of ending the process by a signal.
UNSIGNALLED = ("sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh")


@pytest.fixture
def bounded(tmp_path: Path) -> Iterator[RedisServer]:
    """A server whose append-only file may not outgrow a volume."""
    with redis_server(tmp_path, "--auto-aof-rewrite-percentage", "0", launcher=UNSIGNALLED) as server:
        resource.prlimit(known(server.process).pid, resource.RLIMIT_FSIZE, (VOLUME, VOLUME))
        yield server


@pytest.mark.slow
def test_a_volume_that_fills_up_refuses_what_would_be_stored_before_the_store_ends(bounded: RedisServer) -> None:
    with _api(bounded, store_volume=str(VOLUME)) as api:
        until(lambda: 0.6 < _metric(api, "calibrant_store_volume_ratio") < 0.7)
        stored, refused = _fill(api)
        assert "volume" in _assert_full(refused)
        until(lambda: _post(api, _body(200)).status_code == 507)
        assert _metric(api, "calibrant_store_volume_ratio") > 0.95
        assert all(api.get(f"/batches/{batch}").status_code == 200 for batch in stored)
        assert bounded.answers()
        # Once data is deleted, the file is rewritten, although it has not doubled.
        for batch in stored:
            assert api.delete(f"/batches/{batch}").status_code == 204
        until(lambda: _post(api, _body()).status_code == 201)
        assert api.get("/health/ready").json() == {"status": "ok"}


def test_a_complete_service_watches_the_volume_of_its_store(http: httpx.Client) -> None:
    until(lambda: 0 < _metric(http, "calibrant_store_volume_ratio") < 1)


@pytest.mark.slow
def test_the_readiness_names_a_full_volume(bounded: RedisServer) -> None:
    with _api(bounded, store_volume=str(64 << 20)) as api:
        until(lambda: api.get("/health/ready").json() == {"status": "degraded", "reason": "store-disk-full"})
        _assert_full(_post(api, _body(200)))
        assert api.post("/evaluate", json=ROWS).status_code == 200


@pytest.mark.slow
def test_a_store_that_a_full_volume_ended_has_everything_acknowledged(bounded: RedisServer) -> None:
    with _api(bounded) as api:
        stored = []
        while (answer := _post(api, _body())).status_code == 201:
            stored.append(answer.json()["id"])
        assert answer.status_code == 503
        assert known(bounded.process).wait(600) == 1
        bounded.start()
        until(lambda: api.get("/health/ready").status_code == 200)
        assert len(stored) > 30
        assert all(api.get(f"/batches/{batch}").status_code == 200 for batch in stored)
