"""Scopes of API keys over HTTP and on the pages: what a key without one is refused, and how the response names it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from backend.store.formats import read_stored
from schemas.held import CachedState
from schemas.keys import KeyRecord
from service.callers import Keyring
from service.settings import Settings
from tests.commands import invoked, succeeded
from tests.integration.conftest import serving
from tests.integration.visiting import Visitor

FIT = {"method": "identity", "name": "spam", "predictions": [0.1, 0.9], "labels": [0, 1]}
#: A key as version 0 stored it.
OLD_KEY = (
    '{"format":1,"id":"0011223344556677","name":"old","tenant":"default","scope":"%s","secrets":'
    '[{"digest":"00","created_at":"2026-01-01T00:00:00.000Z","expires_at":null}],'
    '"created_at":"2026-01-01T00:00:00.000Z","revoked_at":null,"rate_limit":null}'
)


class Caller:
    """Sends requests with a key of some scopes."""

    def __init__(self, url: str, keys: ApiKeyStore, scope: str) -> None:
        self.key = keys.create("caller", tenant="default", scope=scope).text
        self._url = url

    def __call__(self, method: str, path: str, body: object = None) -> httpx.Response:
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": media}
        while True:
            response = httpx.request(method, self._url + path, json=body, headers=headers, timeout=600)
            if response.status_code != 401:  # the process reads the new key soon
                return response


@pytest.fixture
def keys(redis: Redis) -> ApiKeyStore:
    store = ApiKeyStore(redis)
    store.create("first", tenant="default", scope="admin")
    return store


@pytest.fixture
def url(keys: ApiKeyStore, redis_url: str) -> Iterator[str]:
    with serving(Settings(redis_url, sign_in_rate=0, trusted_proxies="127.0.0.1")) as url:
        yield url


def _refused(response: httpx.Response, scope: str) -> bool:
    named = f'Bearer error="insufficient_scope", scope="{scope}"'
    assert response.json()["type"] == "/problems/forbidden"
    assert f"this call needs the scope {scope}; the caller has the scope " in response.json()["detail"]
    return (response.status_code, response.headers["www-authenticate"]) == (403, named)


def test_a_fit_needs_the_scope_to_write_and_its_promotion_that_to_promote(url: str, keys: ApiKeyStore) -> None:
    training, approver = Caller(url, keys, "maps:write"), Caller(url, keys, "maps:read maps:promote")
    assert training("POST", "/maps", FIT).status_code == 201
    alias = "/maps/spam/aliases/champion"
    assert _refused(training("PUT", alias, {"version": 1}), "maps:promote")
    assert _refused(training("GET", alias), "maps:read")
    assert _refused(approver("POST", "/maps", FIT), "maps:write")
    assert approver("PUT", alias, {"version": 1}).status_code == 200
    assert approver("GET", alias).json()["version"] == 1
    assert _refused(training("DELETE", alias), "maps:promote")
    assert approver("GET", "/measures").status_code == 200


@pytest.mark.parametrize("policy", ["auto", "online"])
def test_a_monitor_that_moves_an_alias_by_itself_needs_the_scope_to_promote(
    url: str, keys: ApiKeyStore, policy: str
) -> None:
    writer, promoter = Caller(url, keys, "monitors:write"), Caller(url, keys, "monitors:write maps:promote")
    body: dict[str, Any] = {"name": "inbox", "recalibration": {"policy": policy}}
    assert _refused(writer("POST", "/monitors", body), "maps:promote")
    assert writer("POST", "/monitors", {"name": "inbox"}).status_code == 201
    assert _refused(writer("PATCH", "/monitors/inbox", {"recalibration": {"policy": policy}}), "maps:promote")
    assert promoter("PATCH", "/monitors/inbox", {"recalibration": {"policy": policy}}).status_code == 200
    assert _refused(writer("PATCH", "/monitors/inbox", {"description": "mine"}), "maps:promote")
    assert _refused(writer("POST", "/monitors/inbox/proposal/accept", {}), "maps:promote")
    assert writer("DELETE", "/monitors/inbox").status_code == 204


def test_pages_show_the_forms_of_the_scopes_of_the_visitor(url: str, keys: ApiKeyStore) -> None:
    assert Caller(url, keys, "write")("POST", "/maps", FIT).status_code == 201
    reader, promoter = (Caller(url, keys, scope) for scope in ("maps:read", "maps:read maps:promote"))
    for caller, promotes in ((reader, False), (promoter, True)):
        assert caller("GET", "/maps").status_code == 200
        with Visitor(url) as visitor:
            assert visitor.sign_in(caller.key, "/ui/maps").status_code == 303
            page = visitor.get("/ui/maps/spam").text
            assert (">Promote<" in page) is promotes
            assert 'href="/ui/monitors"' not in page
            assert visitor.get("/ui/monitors").status_code == 403


def test_the_command_creates_a_key_with_several_scopes_and_refuses_an_unknown_one(redis_url: str, redis: Redis) -> None:
    create = ["keys", "create", "one", "--redis-url", redis_url]
    succeeded(None, *create, "--scope", "maps:read", "--scope", "maps:promote")
    assert {record.scope for record in ApiKeyStore(redis).all()} == {"maps:read maps:promote"}
    listed = invoked(None, "keys", "list", "--redis-url", redis_url)
    assert "maps:read maps:promote" in listed.stdout
    refused = invoked(None, *create, "--scope", "maps:delete")
    assert refused.exit_code == 2
    assert "maps:promote" in refused.stderr
    assert len(ApiKeyStore(redis).all()) == 1


@pytest.mark.parametrize(("scope", "writes"), [("read", False), ("write", True), ("admin", True)])
def test_a_key_of_an_earlier_version_may_do_what_it_could(scope: str, writes: bool) -> None:
    record = read_stored(KeyRecord, (OLD_KEY % scope).encode())
    assert record.model_dump_json() == OLD_KEY % scope
    assert record.may("maps:promote") is record.may("monitors:write") is writes
    assert record.may("maps:read")
    state = f'{{"format":1,"store":"s","as_of":1.0,"keys":[{OLD_KEY % scope}],"maps":[]}}'
    keyring = Keyring()
    keyring.read(CachedState.model_validate_json(state).keys)
    caller = keyring.bearer("0011223344556677", "00")
    assert caller is not None
    assert caller.may("maps:promote") is writes


@pytest.mark.parametrize("scope", ["", "maps", "maps:read,maps:write", "maps:read  maps:write", "Read", "read\n", "*"])
def test_an_unknown_scope_is_refused(scope: str, redis: Redis) -> None:
    with pytest.raises(ValueError, match="scope"):
        ApiKeyStore(redis).create("one", tenant="default", scope=scope)
    assert ApiKeyStore(redis).all() == []
