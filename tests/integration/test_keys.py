"""API keys and tenants: what a key may do, whose data it reaches, and how soon its end is known."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import httpx
import pytest
from typer.testing import CliRunner

from backend.store.api_keys import ApiKeyStore, NewKey, is_live
from backend.store.errors import KeyConflict, UnknownKey
from backend.store.keyspace import Shared
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from calibrant.cli.main import app
from calibrant.client import Calibrant, ProblemResponse
from tests.commands import invoked, succeeded
from tests.integration.conftest import own_service
from tests.integration.redis_server import until
from tests.integration.responses import body_of, code_of
from tests.process_tree import paused
from tests.warm_service import stack

GOOD = {"predictions": [0.1, 0.9], "labels": [0, 1]}


@pytest.fixture(scope="module")
def own_store(folder: Path) -> Iterator[str]:
    with (folder / "keys.log").open("ab") as log, embedded_server(folder / "keys", log=log) as (url, _):
        yield url


@pytest.fixture(scope="module")
def keys(own_store: str) -> Iterator[ApiKeyStore]:
    with contextlib.closing(connect(own_store)) as redis:
        yield ApiKeyStore(redis)


@pytest.fixture(scope="module")
def served(own_store: str, keys: ApiKeyStore, folder: Path) -> Iterator[list[str]]:
    """Two API processes on one store, which holds a key."""
    keys.create("operator", tenant="default", scope="admin")
    with contextlib.ExitStack() as started:
        yield [started.enter_context(own_service(folder / "keys", redis_url=own_store)).url for _ in range(2)]


def _call(url: str, key: NewKey | str, method: str, path: str, body: object = None) -> httpx.Response:
    text = key if isinstance(key, str) else key.text
    return httpx.request(method, url + path, json=body, headers={"Authorization": f"Bearer {text}"}, timeout=600)


def test_a_key_is_kept_as_a_digest_and_ends_once_revoked(keys: ApiKeyStore, own_store: str) -> None:
    created = keys.create("one", tenant="a", scope="read")
    assert created.text.startswith(f"calk_{created.record.id}_")
    with contextlib.closing(connect(own_store)) as redis:
        stored = redis.hget(Shared.api_keys(), created.record.id)
    assert created.text.split("_", 2)[2] not in cast(bytes, stored).decode()
    assert keys.revoke(created.record.id).revoked_at is not None
    with pytest.raises(KeyConflict):
        keys.rotate(created.record.id, grace=60)
    with pytest.raises(UnknownKey):
        keys.revoke("nothing")


def test_rotation_leaves_two_live_secrets_and_never_three(keys: ApiKeyStore, served: list[str]) -> None:
    first = keys.create("turning", tenant="a", scope="read")
    second = keys.rotate(first.record.id, grace=3600)
    assert [is_live(s) for s in second.record.secrets] == [True, True]
    with pytest.raises(KeyConflict):
        keys.rotate(first.record.id, grace=60)
    for text in (first.text, second.text):
        _until_known(served[0], text)
    ended = keys.create("ending", tenant="a", scope="read")
    after = keys.rotate(ended.record.id, grace=0)
    _until_known(served[0], after.text)
    assert _call(served[0], ended, "GET", "/limits").status_code == 401


@pytest.mark.parametrize("key", [None, "calk_of_nobody"])
def test_the_client_and_the_commands_name_where_a_key_belongs(served: list[str], key: str | None) -> None:
    with Calibrant(served[0], api_key=key or "") as client, pytest.raises(ProblemResponse) as refused:
        client.limits()
    assert refused.value.__notes__ == ["pass the key as api_key, or set CALIBRANT_API_KEY"]
    listed = CliRunner().invoke(app, ["maps", "list", "--server", served[0]], env={"CALIBRANT_API_KEY": key})
    assert listed.exit_code == 1
    assert listed.stderr.endswith("; set CALIBRANT_API_KEY to the key\n")


@pytest.mark.parametrize("tenant", ["tenA", "-a", "a" * 64, "a_b", "", "a\n"])
def test_a_refused_tenant_names_the_accepted_characters(own_store: str, keys: ApiKeyStore, tenant: str) -> None:
    before = len(keys.all())
    arguments = ["keys", "create", "one", "--redis-url", own_store]
    refused = invoked(None, *arguments, "--tenant", tenant)
    assert refused.exit_code == 2
    accepted = "1 to 63 lower-case letters, digits and hyphens, the first a letter or digit, such as team-a"
    assert f"Invalid value for --tenant: must be {accepted}" in " ".join(refused.stderr.replace("│", " ").split())
    assert len(keys.all()) == before
    for good in ("team-a", "0", "a" * 63):
        succeeded(None, *arguments, "--tenant", good)


def test_a_refused_name_of_a_key_names_the_accepted_characters(own_store: str) -> None:
    arguments = ["keys", "create", "--redis-url", own_store]
    refused = invoked(None, *arguments, "--", "_one")
    assert refused.exit_code == 2
    accepted = "1 to 64 letters, digits, dots, underscores, hyphens and spaces, the first a letter or digit"
    assert f"Invalid value for name: must be {accepted}" in " ".join(refused.stderr.replace("│", " ").split())
    succeeded(None, *arguments, "Ci job_1.2-3")


def _until_known(url: str, text: str) -> None:
    """Wait until a key is let in: a process reads the keys again only on a message."""
    until(lambda: _call(url, text, "GET", "/limits").status_code == 200)


@pytest.mark.parametrize(
    ("scope", "reading", "storing", "metrics"), [("read", 200, 403, 403), ("write", 200, 201, 403)]
)
def test_a_scope_permits_exactly_its_calls(
    keys: ApiKeyStore, served: list[str], scope: str, reading: int, storing: int, metrics: int
) -> None:
    key = keys.create(scope, tenant="a", scope=scope)
    _until_known(served[0], key.text)
    assert _call(served[0], key, "POST", "/evaluate", GOOD).status_code == reading
    assert _call(served[0], key, "POST", "/batches", GOOD).status_code == storing
    refused = _call(served[0], key, "GET", "/metrics")
    assert refused.status_code == metrics
    assert refused.json()["type"] == "/problems/forbidden"


@pytest.mark.slow
def test_a_revoked_key_and_a_changed_map_are_soon_known_everywhere(keys: ApiKeyStore, served: list[str]) -> None:
    key = keys.create("short", tenant="b", scope="write")
    fit = GOOD | {"method": "identity", "name": "moving"}
    for url in served:
        _until_known(url, key.text)
    assert _call(served[0], key, "POST", "/maps", fit).status_code == 201
    call = {"map": "moving", "predictions": [0.25]}
    old = {_call(url, key, "POST", "/calibrate", call).json()["map"] for url in served}
    assert len(old) == 1
    new = _call(served[0], key, "POST", "/maps", fit).json()["id"]
    until(lambda: _call(served[1], key, "POST", "/calibrate", call).json()["map"] == new)
    keys.revoke(key.record.id)
    until(lambda: all(_call(url, key, "GET", "/limits").status_code == 401 for url in served))


@pytest.mark.slow
def test_a_rate_limit_holds_for_all_processes_and_is_in_headers(keys: ApiKeyStore, served: list[str]) -> None:
    limit = 40
    key = keys.create("counted", tenant="a", scope="read", rate_limit=limit)
    for url in served:
        _until_known(url, key.text)
    codes: list[int] = []
    refused: list[httpx.Response] = []

    def ask(url: str) -> None:
        for _ in range(60):
            response = _call(url, key, "GET", "/limits")
            codes.append(response.status_code)
            if response.status_code == 429:
                refused.append(response)

    askers = [threading.Thread(target=ask, args=(url,)) for url in served]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    # A minute may end between two requests: then twice the limit is right.
    assert limit - 2 <= codes.count(200) <= 2 * limit + 20
    last = refused[-1]
    assert last.json()["type"] == "/problems/rate-limited"
    assert 1 <= int(last.headers["retry-after"]) <= 60
    assert last.headers["ratelimit-policy"] == f'"key";q={limit};w=60'
    assert last.headers["ratelimit"].startswith('"key";r=0;t=')


@pytest.mark.slow
def test_without_the_link_nothing_from_memory_is_served(folder: Path) -> None:
    with (folder / "lost.log").open("ab") as log, contextlib.ExitStack() as started:
        url, server = started.enter_context(embedded_server(folder / "lost", log=log))
        with contextlib.closing(connect(url)) as redis:
            key = ApiKeyStore(redis).create("one", tenant="a", scope="write")
        api = started.enter_context(stack(host="127.0.0.1", port=0, data=folder, log=log, redis_url=url)).url
        _until_known(api, key.text)
        os.kill(server.pid, signal.SIGSTOP)
        until(lambda: _call(api, key, "GET", "/limits").status_code == 503)
        lost = _call(api, key, "GET", "/limits")
        assert lost.json()["type"] == "/problems/store-unavailable"
        assert lost.headers["retry-after"]
        assert httpx.get(f"{api}/health/live", timeout=600).status_code == 200
        os.kill(server.pid, signal.SIGCONT)
        until(lambda: _call(api, key, "GET", "/limits").status_code == 200)


@pytest.mark.slow
def test_a_tenants_quotas_are_its_own_and_hold(folder: Path) -> None:
    limits = {"CALIBRANT_QUOTA_BYTES": "2000", "CALIBRANT_QUOTA_MAPS": "1", "CALIBRANT_QUOTA_JOBS": "1"}
    with (folder / "quotas.log").open("ab") as log, contextlib.ExitStack() as started:
        own_store, _ = started.enter_context(embedded_server(folder / "quotas", log=log))
        with contextlib.closing(connect(own_store)) as redis:
            store = ApiKeyStore(redis)
            key, other = (store.create(name, tenant=name, scope="write") for name in ("one", "other"))
        running = started.enter_context(own_service(folder / "quotas", limits, redis_url=own_store))
        url = running.url
        # A worker that is stopped leaves what is queued as it is.
        started.enter_context(paused(running.worker.pid))
        rows = {"predictions": [0.1] * 50 + [0.9] * 50, "labels": [0, 1] * 50}
        first = _call(url, key, "POST", "/batches", rows)
        assert first.status_code == 201
        refused = _call(url, key, "POST", "/batches", rows)
        assert code_of(refused) == (429, "quota-exceeded")
        assert refused.headers["retry-after"]
        more = _call(url, key, "POST", f"/batches/{first.json()['id']}/rows", rows)
        assert more.status_code == 429
        assert _call(url, other, "POST", "/batches", rows).status_code == 201
        assert _call(url, key, "DELETE", f"/batches/{first.json()['id']}").status_code == 204
        again = body_of(_call(url, key, "POST", "/batches", rows), 201)
        fit = {"batch": again["id"], "method": "pl", "options": {"folds": 2, "candidates": [1]}}
        job = _call(url, key, "POST", "/maps", fit)
        assert job.status_code == 202
        assert _call(url, key, "POST", "/maps", fit).status_code == 429
        used = _call(url, key, "GET", "/limits").json()["used"]
        assert used == {"quota_bytes": again["bytes"], "quota_maps": 0, "quota_jobs": 1, "max_monitors": 0}
        assert _call(url, key, "POST", f"/jobs/{job.json()['id']}/cancel").status_code == 200
        assert _call(url, key, "GET", "/limits").json()["used"]["quota_jobs"] == 0
        quick = GOOD | {"method": "identity"}
        fitted = _call(url, key, "POST", "/maps", quick)
        assert fitted.status_code == 201
        assert _call(url, key, "POST", "/maps", quick).status_code == 429
        assert _call(url, key, "DELETE", f"/maps/{fitted.json()['id']}").status_code == 204
        assert _call(url, key, "POST", "/maps", quick).status_code == 201
