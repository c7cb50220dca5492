"""The settings of the issuer of tokens, and the end of a token."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from calibrant.cli.main import app
from schemas.keys import SCOPES
from service.callers import Caller, Keyring
from service.issuer import InvalidIssuer, open_issuer
from service.server import run_api
from service.settings import Settings, check_issuer_url
from tests.commands import error_of
from tests.known import known

URL = "https://id.example.com/realms/main"


def _settings(**changes: Any) -> Settings:
    return replace(Settings("unix:///nowhere", oidc_issuer=URL, oidc_audience="calibrant"), **changes)


def test_there_is_no_issuer_by_default_and_other_settings_need_one() -> None:
    assert open_issuer(Settings("unix:///nowhere")) is None
    for name in ("oidc_audience", "oidc_jwks_url", "oidc_tenant_claim", "oidc_scopes"):
        changes: dict[str, Any] = {name: "https://x.example"}
        settings = replace(Settings("unix:///nowhere"), **changes)
        with pytest.raises(InvalidIssuer, match=f"{name} need oidc_issuer"):
            open_issuer(settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"oidc_audience": ""}, "oidc_issuer needs oidc_audience"),
        ({"oidc_audience": " , "}, "oidc_issuer needs oidc_audience"),
        ({"oidc_stale_seconds": 60.0}, "oidc_stale_seconds must be at least oidc_refresh_seconds"),
        ({"oidc_scopes": "ops"}, "oidc_scopes must be VALUE=SCOPE"),
        ({"oidc_scopes": "ops=root"}, "oidc_scopes must be VALUE=SCOPE"),
        ({"oidc_scopes": "=read"}, "a value before each ="),
    ],
)
def test_incomplete_settings_of_an_issuer_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidIssuer, match=message):
        open_issuer(_settings(**changes))


def test_values_of_a_claim_grant_the_scopes_that_the_setting_names() -> None:
    default = known(open_issuer(_settings()))
    assert default.rules.scopes.keys() == {"read", "write", *SCOPES} - {"admin"}
    mapped = known(open_issuer(_settings(oidc_scopes=" a=read,a=admin , CN:b=c=read write,")))
    assert mapped.rules.scopes == {"a": {"read", "admin"}, "CN:b=c": {"read write"}}


@pytest.mark.parametrize("url", [URL, "http://127.0.0.1:8080/realms/main", "http://[::1]:1", "http://localhost/", ""])
def test_an_issuer_has_https_or_is_on_this_machine(url: str) -> None:
    check_issuer_url(url)


@pytest.mark.parametrize(
    "url",
    [
        *("http://id.example.com", "http://192.0.2.1", "ftp://id.example.com", "id.example.com", "https://"),
        *(
            "https://user:secret@id.example.com",
            "https://id.example.com/#main",
            "https:///path",
            "http://127.0.0.1.evil",
        ),
        *("file:///etc/passwd", "https://[::1", "javascript:alert(1)", "HTTP://id.example.com"),
    ],
)
def test_another_url_of_an_issuer_is_refused(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the standard library has messages of its own
        check_issuer_url(url)
    error = error_of(CliRunner().invoke(app, ["api", "--redis-url", "unix:///nowhere", "--oidc-issuer", url]), 2)
    assert "--oidc-issuer" in error


def test_the_api_refuses_an_issuer_without_an_audience_before_it_starts() -> None:
    with pytest.raises(typer.BadParameter, match="oidc_issuer needs oidc_audience"):
        run_api(_settings(oidc_audience=""), host="127.0.0.1", port=0)


def test_no_call_without_a_credential_is_accepted_with_an_issuer_even_before_the_first_key() -> None:
    assert not Keyring()
    keyring = Keyring(has_issuer=True)
    assert keyring
    assert keyring.admits(Caller(key_id="oidc:a", expires_at=time.time() + 60))
    assert not keyring.admits(Caller(key_id="oidc:a", expires_at=time.time() - 1))
    assert not keyring.admits(Caller())
