"""What an auditor reads from `GET /audit`: who may have moved an alias, filters, and what other scopes hide."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis
from typer.testing import CliRunner

from backend.store.api_keys import ApiKeyStore, NewKey
from backend.store.keyspace import Shared
from backend.store.server.connection import connect
from backend.store.store import Store
from calibrant.cli.main import app as command
from service.settings import Settings
from tests.integration.conftest import serving, serving_client
from tests.integration.monitors.stored import monitor
from tests.integration.redis_server import redis_server, until
from tests.integration.responses import body_of, text_of
from tests.integration.test_oidc import bearer, settings_of
from tests.integration.token_issuer import TokenIssuer, token_issuer

FIT = {"method": "identity", "name": "spam", "predictions": [0.1, 0.9], "labels": [0, 1]}
MAPPING = "fitters=maps:write,approvers=maps:promote,approvers=maps:read,everything=write"
ALIAS = "/maps/spam/aliases/champion"


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenIssuer]:
    with token_issuer() as issuer:
        yield issuer


@pytest.fixture
def settings(issuer: TokenIssuer, redis_url: str) -> Settings:
    return settings_of(issuer, redis_url, oidc_scopes=MAPPING)


@pytest.fixture
def keys(redis: Redis) -> dict[str, NewKey]:
    scopes = {"auditor": "maps:read", "fitter": "maps:read maps:write", "approver": "maps:promote", "operator": "write"}
    store = ApiKeyStore(redis)
    store.create("stranger", tenant="red", scope="write")
    return {name: store.create(name, tenant="blue", scope=scope) for name, scope in scopes.items()}


@pytest.fixture
def api(settings: Settings, keys: dict[str, NewKey]) -> Iterator[httpx.Client]:
    assert keys
    with serving_client(settings) as api:
        yield api


def _sent(api: httpx.Client, method: str, path: str, credential: str, **about: Any) -> httpx.Response:
    """The response to a request, which is repeated while the process reads keys that have just been created."""
    headers = bearer(credential) | about.pop("headers", {})
    while True:
        response = api.request(method, path, headers=headers, **about)
        if response.status_code not in (401, 503):
            return response


def _log(api: httpx.Client, reader: NewKey, **query: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = body_of(_sent(api, "GET", "/audit", reader.text, params=query))["items"]
    return entries


def _fit(api: httpx.Client, key: NewKey, note: str = "") -> None:
    fitted = _sent(api, "POST", "/maps", key.text, json=FIT, headers={"Calibrant-Note": note})
    assert fitted.status_code == 201, fitted.text


def _move(api: httpx.Client, credential: str, version: int, note: str = "") -> None:
    headers = {"Calibrant-Note": note, "X-Request-Id": f"release-{version}"}
    moved = _sent(api, "PUT", ALIAS, credential, json={"version": version}, headers=headers)
    assert moved.status_code == 200, moved.text


def test_the_five_questions_of_an_auditor_are_answered_by_get_audit_alone(
    api: httpx.Client, keys: dict[str, NewKey], redis: Redis, issuer: TokenIssuer
) -> None:
    expired = ApiKeyStore(redis).create("expired", tenant="blue", scope="write", expires_at="2020-01-01T00:00:00.000Z")
    ApiKeyStore(redis).revoke(ApiKeyStore(redis).create("revoked", tenant="blue", scope="write").record.id)
    many = [ApiKeyStore(redis).create(f"bot-{i}", tenant="blue", scope="maps:promote") for i in range(150)]
    blue = Store.of(redis, "blue")
    mover = monitor(blue, name="mover", map="spam@champion", recalibration={"policy": "auto", "name": "spam"})
    unrelated = {"policy": "auto", "name": "spam", "alias": "canary"}
    for name, policy in (("other", unrelated), ("asks", {"policy": "propose", "name": "spam"})):
        monitor(blue, name=name, recalibration=policy)
    for _ in range(2):
        _fit(api, keys["fitter"])
    _move(api, keys["approver"].text, 1, "RISK-41: first release")
    began = time.time()
    _move(api, issuer.token(team="blue", scope="approvers"), 2, "RISK-42: validation passed")

    latest = _log(api, keys["auditor"], map="spam", alias="champion", limit="1")[0]
    # Who, when, instead of which, why.
    assert (latest["actor"]["kind"], latest["actor"]["id"]) == ("subject", "oidc:alice")
    at = time.mktime(time.strptime(latest["at"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    assert abs(at - began) < 600
    assert (latest["before"]["version"], latest["after"]["version"]) == (1, 2)
    assert (latest["note"], latest["request_id"]) == ("RISK-42: validation passed", "release-2")
    # And who may have.
    by_kind: dict[str, list[dict[str, Any]]] = {kind: [] for kind in ("key", "tokens", "monitor")}
    for promoter in latest["permitted"]:
        by_kind[promoter["kind"]].append(promoter)
    names = [promoter["name"] for promoter in by_kind["key"]]
    assert sorted(names) == sorted(["approver", "operator", *(f"bot-{i}" for i in range(150))])
    assert {promoter["id"] for promoter in by_kind["key"]} >= {key.record.id for key in many}
    assert expired.record.id not in {promoter["id"] for promoter in by_kind["key"]}
    assert [(promoter["issuer"], promoter["claims"], promoter["scope"]) for promoter in by_kind["tokens"]] == [
        (issuer.url, {"scope": "approvers", "team": "blue"}, "maps:promote maps:read"),
        (issuer.url, {"scope": "everything", "team": "blue"}, "write"),
    ]
    assert [(promoter["id"], promoter["name"]) for promoter in by_kind["monitor"]] == [(mover.id, "mover")]


def test_without_a_tenant_claim_tokens_may_act_in_the_default_tenant_alone(
    settings: Settings, redis: Redis, keys: dict[str, NewKey]
) -> None:
    with serving_client(replace(settings, oidc_tenant_claim="")) as api:
        for tenant, kinds in (("blue", {"key"}), ("default", {"key", "tokens"})):
            key = ApiKeyStore(redis).create("own", tenant=tenant, scope="write")
            _fit(api, key)
            _move(api, key.text, 1)
            entry = _log(api, key, action="alias-moved")[0]
            assert {promoter["kind"] for promoter in entry["permitted"]} == kinds
    assert keys


def test_a_service_without_an_issuer_forgets_what_tokens_granted(
    settings: Settings, redis: Redis, redis_url: str
) -> None:
    with serving(settings) as url:
        until(lambda: httpx.get(f"{url}/maps", timeout=600).status_code == 401)
        assert b"approvers" in (redis.get(Shared.token_mapping()) or b"")
    with serving(Settings(redis_url)) as url:
        until(lambda: httpx.get(f"{url}/maps", timeout=600).status_code == 200)
        assert redis.get(Shared.token_mapping()) is None


def test_a_store_that_takes_no_writes_lets_the_service_start(settings: Settings, tmp_path: Path) -> None:
    with (
        redis_server(tmp_path, "--maxmemory", "1") as server,
        serving(replace(settings, redis_url=server.url)) as url,
    ):
        until(lambda: httpx.get(f"{url}/maps", timeout=600).status_code == 401)
        with contextlib.closing(connect(server.url)) as redis:
            assert redis.get(Shared.token_mapping()) is None


def test_filters_find_the_changes_of_a_key_and_of_a_request(
    api: httpx.Client, keys: dict[str, NewKey], redis: Redis
) -> None:
    ApiKeyStore(redis).rotate(keys["fitter"].record.id, grace=3600)
    _fit(api, keys["fitter"], "nightly")
    _move(api, keys["approver"].text, 1)
    auditor = keys["auditor"]
    of_key = _log(api, auditor, key=keys["fitter"].record.id)
    assert [entry["action"] for entry in of_key] == ["key-rotated", "key-created"]
    assert [entry["action"] for entry in _log(api, auditor, request_id="release-1")] == ["alias-moved"]
    by_id = _log(api, auditor, actor=keys["fitter"].record.id)
    assert [(entry["action"], entry["note"]) for entry in by_id] == [("map-fitted", "nightly")]
    assert by_id == _log(api, auditor, actor="fitter")
    assert _log(api, auditor, key=keys["fitter"].record.id, request_id="release-1") == []
    for option, wanted, action in (
        ("--key", keys["fitter"].record.id, "key-rotated"),
        ("--request-id", "release-1", "alias-moved"),
    ):
        arguments = ["audit", option, wanted, "--most", "1", "--json", "--server", str(api.base_url)]
        shown = CliRunner().invoke(command, arguments, env={"CALIBRANT_API_KEY": auditor.text})
        assert json.loads(shown.stdout)["action"] == action, shown.stderr


def test_definitions_of_monitors_are_in_the_log_only_for_those_who_may_read_monitors(
    api: httpx.Client, keys: dict[str, NewKey]
) -> None:
    body = {"name": "inbox", "description": "fraud of the branch in Basel"}
    assert _sent(api, "POST", "/monitors", keys["operator"].text, json=body).status_code == 201
    definition = _log(api, keys["operator"], monitor="inbox")
    assert [entry["action"] for entry in definition] == ["monitor-created"]
    assert definition[0]["monitor_id"] == definition[0]["after"]["id"]
    auditor = keys["auditor"].text
    for accept in ("application/json", "application/jsonl"):
        whole = text_of(_sent(api, "GET", "/audit", auditor, headers={"Accept": accept}))
        assert "key-created" in whole
        assert "inbox" not in whole
        assert "Basel" not in whole
    refused = _sent(api, "GET", "/audit", auditor, params={"action": "monitor-created"})
    assert refused.status_code == 403
    assert 'scope="monitors:read"' in refused.headers["WWW-Authenticate"]
