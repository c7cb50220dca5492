"""Bearer tokens of an issuer: whom they identify, which are refused, and outages of the issuer and of the store."""

from __future__ import annotations

import contextlib
import gc
import logging
import re
import ssl
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

from backend.store.api_keys import ApiKeyStore
from backend.store.server.connection import connect
from calibrant.cli.main import app as command
from calibrant.client import Calibrant, ProblemResponse
from service.errors import InvalidToken, IssuerUnavailable
from service.issuer import PAUSE_SECONDS, Issuer, open_issuer
from service.settings import Settings, check_issuer_url
from tests.integration.conftest import patient, serving_client
from tests.integration.hostile_tokens import HOSTILE
from tests.integration.redis_server import RedisServer, ready, redis_server, until
from tests.integration.responses import code_of
from tests.integration.token_issuer import TokenIssuer, ec_key, jwk_of, rsa_key, token_issuer, token_of
from tests.known import known
from tests.warm_service import stack

ROWS = {"predictions": [0.1, 0.9, 0.4], "labels": [0, 1, 0]}
FIT = ROWS | {"method": "identity", "name": "spam"}


@pytest.fixture
def issuer() -> Iterator[TokenIssuer]:
    with token_issuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("oidc")) as server:
        yield server


@pytest.fixture(scope="module")
def published() -> Iterator[TokenIssuer]:
    with token_issuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def api(server: RedisServer, published: TokenIssuer) -> Iterator[httpx.Client]:
    mapping = "ops=admin,read=read,write=write"
    with serving_client(settings_of(published, server.url, oidc_scopes=mapping)) as api:
        yield api


def settings_of(issuer: TokenIssuer, redis_url: str = "unix:///nowhere", **changes: Any) -> Settings:
    settings = Settings(redis_url, oidc_issuer=issuer.url, oidc_audience="calibrant", oidc_tenant_claim="team")
    return replace(settings, **changes)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def get(api: httpx.Client, token: str, path: str = "/maps") -> httpx.Response:
    return api.get(path, headers=bearer(token))


def verifier(
    settings: Settings, *, pause: float = 0.0, seconds: float = 30.0, trust: ssl.SSLContext | None = None
) -> Issuer:
    """The issuer of a service without the service."""
    configured = known(open_issuer(settings))
    return Issuer(settings, configured.rules, pause=pause, seconds=seconds, trust=trust)


async def refusal(issuer: Issuer, token: str) -> str:
    with pytest.raises(InvalidToken) as refused:
        await issuer.identify(token)
    return refused.value.reason


# --- Whom a token identifies


@pytest.mark.parametrize("kid", ["rsa-1", "ec-1"])
def test_a_token_acts_in_the_tenant_and_with_the_scopes_of_its_claims(
    api: httpx.Client, published: TokenIssuer, kid: str
) -> None:
    body = FIT | {"name": kid}
    fitted = api.post("/maps", json=body, headers=bearer(published.token(kid)))
    assert fitted.status_code == 201, fitted.text
    record = get(api, published.token(kid), f"/maps/{kid}").json()
    assert record["created_by"] == "oidc:alice"
    assert get(api, published.token(kid, team="red"), f"/maps/{kid}").status_code == 404
    reader = bearer(published.token(kid, scope="read"))
    assert api.get(f"/maps/{kid}", headers=reader).status_code == 200
    refused = api.post("/maps", json=body, headers=reader)
    assert code_of(refused) == (403, "forbidden")
    assert refused.headers["WWW-Authenticate"].startswith('Bearer error="insufficient_scope", scope="')
    entry = get(api, published.token(kid, scope="ops"), f"/audit?map={kid}&actor=oidc:alice").json()["items"][0]
    assert (entry["actor"]["kind"], entry["actor"]["id"]) == ("subject", "oidc:alice")
    assert get(api, published.token(kid), "/metrics").status_code == 403
    assert get(api, published.token(kid, scope="admin"), "/metrics").status_code == 403
    assert get(api, published.token(kid, scope="ops"), "/metrics").status_code == 200


@pytest.mark.parametrize("scope", [None, "", "openid profile", [], ["calibrant:read"], "READ", "read,write"])
def test_a_token_without_a_scope_of_the_service_may_do_nothing(
    api: httpx.Client, published: TokenIssuer, scope: Any
) -> None:
    refused = get(api, published.token(scope=scope))
    assert refused.status_code == 403
    assert refused.headers["WWW-Authenticate"] == 'Bearer error="insufficient_scope"'


@pytest.mark.parametrize(
    ("changes", "header"),
    [
        ({"aud": ["billing", "calibrant"]}, {}),
        ({"exp": 2**40, "nbf": 0}, {}),
        ({"scope": ["read"]}, {}),
        ({"iat": None}, {}),
        ({"sub": "x" * 255}, {}),
        ({"sub": "auth0|5f7c1a"}, {}),
        ({"sub": "CN=alice, O=Example"}, {}),
        ({}, {"typ": "at+jwt"}),
        ({}, {"typ": None}),
        ({}, {"jku": "http://127.0.0.1:9/keys", "x5t": "abc"}),
    ],
)
def test_a_valid_token_of_another_form_is_accepted(
    api: httpx.Client, published: TokenIssuer, changes: dict[str, Any], header: dict[str, Any]
) -> None:
    members = {"alg": "ES256", "kid": "ec-1", "typ": "JWT"} | header
    members = {name: member for name, member in members.items() if member is not None}
    token = token_of(members, published.claims(**changes), published.keys["ec-1"])
    assert get(api, token).status_code == 200


def test_clocks_may_differ_by_the_leeway(api: httpx.Client, published: TokenIssuer) -> None:
    now = int(time.time())
    assert get(api, published.token(exp=now - 10, iat=now - 20, nbf=now - 20)).status_code == 200
    assert get(api, published.token(nbf=now + 15, iat=now + 15)).status_code == 200


def test_keys_work_beside_tokens_and_neither_is_taken_for_the_other(
    api: httpx.Client, server: RedisServer, published: TokenIssuer
) -> None:
    with contextlib.closing(connect(server.url)) as redis:
        key = ApiKeyStore(redis).create("one", tenant="green", scope="read").text
    until(lambda: get(api, key).status_code == 200)
    for text in (f"calk_{published.token()}", f"{key}.e30.e30", f"{key}x"):
        refused = get(api, text)
        assert code_of(refused) == (401, "unauthorized")
    without = api.get("/maps")
    assert (without.status_code, without.headers["WWW-Authenticate"]) == (401, "Bearer")
    basic = api.get("/maps", headers={"Authorization": f"Basic {published.token()}"})
    assert basic.json()["type"] == "/problems/unauthorized"
    # The page keeps its keys.
    assert get(api, published.token(), "/ui/maps").status_code == 200
    assert api.get("/ui/maps").headers["Location"].startswith("/ui/sign-in")


def test_scopes_and_tenants_come_from_nested_claims_by_the_settings(server: RedisServer, issuer: TokenIssuer) -> None:
    settings = settings_of(
        issuer,
        server.url,
        oidc_tenant_claim="/organization/a~1b/id",
        oidc_scopes_claim="/realm_access/roles",
        oidc_scopes="calibrant-viewer=read, a=b=write,ops=admin",
    )
    place: dict[str, Any] = {"organization": {"a/b": {"id": "blue"}}}
    with serving_client(settings) as api:
        for roles, status in (
            (["calibrant-viewer"], 403),
            (["offline_access", "a=b"], 201),
            (["read", "write"], 403),  # names of scopes grant nothing beside a mapping
            (None, 403),
        ):
            token = issuer.token(realm_access={"roles": roles}, **place)
            assert api.post("/maps", json=FIT, headers=bearer(token)).status_code == status, roles
        assert get(api, issuer.token(realm_access={"roles": ["calibrant-viewer"]}, **place)).status_code == 200
        wrong: dict[str, Any]
        for wrong in ({"organization": "blue"}, {"organization": {"a/b": None}}, {"/organization/a~1b/id": "blue"}):
            refused = get(api, issuer.token(realm_access={"roles": ["ops"]}, **wrong))
            assert refused.json()["type"] == "/problems/invalid-token"


def test_every_subject_has_a_rate_limit_of_its_own(server: RedisServer, issuer: TokenIssuer) -> None:
    with serving_client(settings_of(issuer, server.url, rate_limit=3)) as api:
        subject = f"of-{issuer.server_address[1]}"
        codes = [get(api, issuer.token(sub=subject, jti=str(i))).status_code for i in range(8)]
        # A minute may end between two requests: then twice the limit is right.
        assert 3 <= codes.count(200) <= 6
        assert codes.count(429) == 8 - codes.count(200)
        assert get(api, issuer.token(sub="another")).status_code == 200


def test_a_request_has_its_subject_in_the_log_and_no_token(
    api: httpx.Client, published: TokenIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    token = published.token(sub="in-the-log", team="red")
    with caplog.at_level(logging.DEBUG):
        assert get(api, token, "/limits").status_code == 200
        until(lambda: any(record.message == "request" for record in caplog.records))
    texts = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    assert any("oidc:in-the-log" in text and "'red'" in text for text in texts)
    assert not [text for text in texts if any(piece in text for piece in token.split("."))]


# --- Which tokens are refused


def test_there_are_at_least_a_hundred_hostile_tokens() -> None:
    assert len(HOSTILE) >= 100


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if i % 4 else []) for i, name in enumerate(HOSTILE)]
)
def test_a_hostile_token_is_refused_without_a_trace_of_it(
    api: httpx.Client, published: TokenIssuer, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    build, reason = HOSTILE[name]
    token = build(published)
    with caplog.at_level(logging.DEBUG):
        refused = get(api, token)
    assert refused.status_code == 401, refused.text
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert refused.json()["type"] == "/problems/invalid-token"
    assert refused.json()["detail"] == f"the token {InvalidToken.REASONS[reason]}"
    description = f"the token {InvalidToken.REASONS[reason]}"
    assert refused.headers["WWW-Authenticate"] == f'Bearer error="invalid_token", error_description="{description}"'
    output = f"{refused.text} {refused.headers} {caplog.text} {[record.__dict__ for record in caplog.records]}"
    assert "Traceback" not in output
    assert not [piece for piece in token.split(".") if len(piece) > 12 and piece in output]


def test_no_token_makes_the_service_call_a_place_that_the_token_names(
    api: httpx.Client, published: TokenIssuer
) -> None:
    with token_issuer() as stranger:
        stranger.keys = {"rsa-1": rsa_key("stranger"), "theirs": rsa_key("stranger")}
        for kid in stranger.keys:
            header = {"alg": "RS256", "kid": kid, "jku": f"{stranger.url}/keys", "x5u": f"{stranger.url}/keys"}
            for claims in (published.claims(), published.claims(iss=stranger.url)):
                token = token_of(header, claims, rsa_key("stranger"))
                assert get(api, token).status_code == 401
        assert stranger.requests == []


@pytest.mark.slow
async def test_hostile_tokens_take_no_memory(published: TokenIssuer) -> None:
    issuer = verifier(settings_of(published), pause=3600.0)
    await issuer.identify(published.token())
    tokens = [build(published) for build, _ in HOSTILE.values()]

    async def refuse_all(number: int) -> int:
        """Bytes in use after other tokens than before were refused."""
        for token in tokens:
            await refusal(issuer, token + "A" * number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        sizes = [await refuse_all(number) for number in range(8)]
    finally:
        tracemalloc.stop()
    # Six rounds of tokens, if they were kept, would need six times as much.
    assert sizes[-1] - sizes[1] < sum(map(len, tokens))
    assert issuer.outcomes.keys() <= {"accepted", *InvalidToken.REASONS}


def test_unknown_keys_make_the_service_read_the_keys_at_most_once_in_a_while(
    api: httpx.Client, published: TokenIssuer
) -> None:
    before, began = len(published.requests), time.monotonic()
    header = {"alg": "RS256"}
    tokens = [token_of(header | {"kid": f"k{i}"}, published.claims(), rsa_key("stranger")) for i in range(60)]
    with ThreadPoolExecutor(8) as threads:
        assert {refused.status_code for refused in threads.map(lambda token: get(api, token), tokens)} == {401}
    reads = 1 + (time.monotonic() - began) // PAUSE_SECONDS
    assert len(published.requests) - before <= 2 * reads  # the document and the keys


# --- Rotation, and failures of the issuer


async def test_a_rotated_key_is_learned_from_a_token_and_its_predecessor_forgotten(issuer: TokenIssuer) -> None:
    verify = verifier(settings_of(issuer))
    old = issuer.token()
    assert (await verify.identify(old)).key_id == "oidc:alice"
    issuer.keys = {"rsa-1": issuer.keys["rsa-1"], "rsa-2": rsa_key("second")}
    assert (await verify.identify(issuer.token("rsa-2"))).key_id == "oidc:alice"
    assert (await verify.identify(old)).key_id == "oidc:alice"
    issuer.keys = {"ec-2": ec_key("second")}
    assert (await verify.identify(issuer.token("ec-2"))).key_id == "oidc:alice"
    assert await refusal(verify, old) == "unknown-key"
    # An id that is used again for another key does not revive tokens either.
    issuer.keys = {"rsa-1": rsa_key("second")}
    assert await refusal(verify, token_of({"alg": "ES256", "kid": "x"}, issuer.claims(), ec_key("x"))) == "unknown-key"
    assert await refusal(verify, old) == "signature"


@pytest.mark.slow
def test_a_running_service_follows_a_rotation_and_refuses_the_retired_key_also_in_an_outage(
    server: RedisServer, issuer: TokenIssuer
) -> None:
    with serving_client(settings_of(issuer, server.url, oidc_refresh_seconds=10.0)) as api:
        retired = [issuer.token(), issuer.token(sub="bob")]  # one is remembered, the other is new
        assert get(api, retired[0]).status_code == 200
        issuer.keys = {"rsa-2": rsa_key("second")}
        until(lambda: get(api, issuer.token("rsa-2")).status_code == 200)
        forged = token_of({"alg": "RS256", "kid": "rsa-2"}, issuer.claims(), rsa_key("first"))
        injected = token_of({"alg": "RS256", "kid": "rsa-2\x00/../rsa-1"}, issuer.claims(), rsa_key("first"))
        for answers in ({}, {"/realms/main/keys": 503}, {"/realms/main/keys": b"{"}):
            issuer.answers = dict(answers)
            assert [get(api, token).status_code for token in (*retired, forged, injected)] == [401] * 4
            assert get(api, issuer.token("rsa-2")).status_code == 200


async def test_a_remembered_token_ends_with_its_time(issuer: TokenIssuer) -> None:
    verify = verifier(settings_of(issuer, oidc_leeway=0.0), pause=3600.0)
    await verify.identify(issuer.token())
    ends = time.time() + 2
    token = issuer.token(exp=ends)
    assert (await verify.identify(token)).expires_at == ends
    until(lambda: time.time() > ends)
    assert await refusal(verify, token) == "expired"


#: The response to a path below the issuer's, or members of its document, and what is wrong with it.
FAILURES: dict[str, tuple[str, int | bytes | str] | dict[str, Any]] = {
    "an error": ("keys", 500),
    "no document": (".well-known/openid-configuration", 404),
    "a redirect of the document": (".well-known/openid-configuration", 302),
    "a redirect of the keys": ("keys", 307),
    "an empty response": ("keys", b""),
    "a response that is no JSON": ("keys", b"<html>"),
    "a response that is a list": ("keys", b"[]"),
    "a response that is deep": ("keys", b'{"keys":' + b"[" * 100_000),
    "a huge response": ("keys", b" " * 300_000 + b"{}"),
    "no keys": ("keys", b"{}"),
    "an empty list": ("keys", b'{"keys": []}'),
    "many keys": ("keys", b'{"keys": [' + b"{}," * 200 + b"{}]}"),
    "other than keys": ("keys", b'{"keys": [1, null, "a", [], {"kid": 1, "kty": []}, {"kty": "RSA", "kid": "a"}]}'),
    "a stalled response": ("keys", "stall"),
    "a document of another issuer": {"issuer": "https://evil.example"},
    "a document with an issuer with a slash more": {"issuer": "@/"},
    "keys at a plain address": {"jwks_uri": "http://192.0.2.1/keys"},
    "keys in a file": {"jwks_uri": "file:///etc/passwd"},
    "keys with a password": {"jwks_uri": "http://a:b@127.0.0.1/keys"},
    "keys at a number": {"jwks_uri": 1},
    "no address of the keys": {"jwks_uri": None},
}


def fail(issuer: TokenIssuer, name: str) -> None:
    failure = FAILURES[name]
    if isinstance(failure, dict):
        issuer.document = {key: issuer.url + "/" if member == "@/" else member for key, member in failure.items()}
    else:
        issuer.answers = {f"/realms/main/{failure[0]}": failure[1]}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAILURES)
async def test_a_failing_issuer_leaves_the_known_keys_in_use(
    published: TokenIssuer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    verify = verifier(settings_of(published), seconds=1.2 if "stalled" in name else 30.0)
    token = published.token()
    fresh = verifier(verify.settings, seconds=1.2 if "stalled" in name else 30.0)
    await verify.identify(token)
    try:
        fail(published, name)
        unknown = token_of({"alg": "RS256", "kid": "new"}, published.claims(), rsa_key("new"))
        assert await refusal(verify, unknown) == "unknown-key"
        assert (await verify.identify(published.token(jti="another"))).tenant == "blue"
        assert "issuer: the keys cannot be read" in caplog.text
        # Without any key, the token is not known to be wrong.
        with pytest.raises(IssuerUnavailable):
            await fresh.identify(token)
        assert await refusal(fresh, "a.b.c") == "malformed"
    finally:
        published.answers, published.document = {}, {}


@pytest.mark.parametrize(("age", "works"), [(-60.0, False), (0.0, True), (3500.0, True), (3601.0, False)])
async def test_keys_are_used_for_a_limited_time_without_the_issuer(
    published: TokenIssuer, age: float, works: bool
) -> None:
    verify = verifier(settings_of(published))
    other = verifier(settings_of(published))
    await other.identify(published.token())
    cached = known(other.cached())
    published.answers = {"/realms/main/keys": 503}
    try:
        verify.restore(cached.model_copy(update={"issuer": "https://evil.example"}))
        with pytest.raises(IssuerUnavailable):
            await verify.identify(published.token())
        verify.restore(cached.model_copy(update={"as_of": time.time() - age}))
        with contextlib.nullcontext() if works else pytest.raises(IssuerUnavailable):
            assert (await verify.identify(published.token())).tenant == "blue"
    finally:
        published.answers = {}
    assert (await verify.identify(published.token())).tenant == "blue"


async def test_keys_of_other_kinds_are_left_out(issuer: TokenIssuer) -> None:
    good = jwk_of("x", rsa_key("other"))
    bare = {name: good[name] for name in ("kty", "n", "e")} | {"kid": "bare"}
    issuer.others = [
        bare,
        jwk_of("weak", rsa_key("weak", 1024)),
        good | {"kid": "enc", "use": "enc"},
        good | {"kid": "ops", "key_ops": ["encrypt"]},
        good | {"kid": "alg", "alg": "RS512"},
        good | {"kid": "e", "e": "AA"},
        good | {"kid": "text", "n": "not base64 ?"},
        {"kty": "oct", "kid": "oct", "k": "AAAA"},
        {"kty": "OKP", "kid": "okp", "crv": "Ed25519", "x": "AAAA"},
        jwk_of("curve", ec_key("other")) | {"crv": "P-384"},
        jwk_of("off", ec_key("other")) | {"x": "A" * 43},
        {"kty": "RSA", "kid": ["x"]},
        "rsa-1",
        None,
    ]
    verify = verifier(settings_of(issuer))
    assert (await verify.identify(issuer.token())).tenant == "blue"
    claims = issuer.claims()
    assert await verify.identify(token_of({"alg": "RS256", "kid": "bare"}, claims, rsa_key("other")))
    for kid, key in (("weak", rsa_key("weak", 1024)), *((kid, rsa_key("other")) for kid in ("enc", "ops", "alg", "e"))):
        assert await refusal(verify, token_of({"alg": "RS256", "kid": kid}, claims, key)) == "unknown-key"
    for kid in ("curve", "off"):
        assert await refusal(verify, token_of({"alg": "ES256", "kid": kid}, claims, ec_key("other"))) == "unknown-key"


async def test_an_issuer_with_https_needs_a_trusted_certificate_and_names_keys_with_https(tmp_path: Path) -> None:
    context, trust = certified(tmp_path)
    with token_issuer(context) as issuer:
        settings = settings_of(issuer)
        assert settings.oidc_issuer.startswith("https:")
        trusting = verifier(settings, trust=trust)
        assert (await trusting.identify(issuer.token())).tenant == "blue"
        with pytest.raises(IssuerUnavailable):
            await verifier(settings).identify(issuer.token())
        issuer.document = {"jwks_uri": "http://127.0.0.1:9/keys"}
        with pytest.raises(IssuerUnavailable):
            await verifier(settings, trust=trust).identify(issuer.token())
        named = verifier(replace(settings, oidc_jwks_url=f"{issuer.url}/keys"), trust=trust)
        assert (await named.identify(issuer.token())).tenant == "blue"


def certified(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server with a certificate of its own for 127.0.0.1, and who trusts it."""
    key, name = ec_key("certificate"), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")])
    today = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, today - timedelta(1), today + timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, SHA256())
        .public_bytes(Encoding.PEM)
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "server.pem").write_bytes(private + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context, ssl.create_default_context(cadata=certificate.decode())


@pytest.mark.slow
def test_a_stalled_issuer_holds_up_no_key_and_no_probe(server: RedisServer, issuer: TokenIssuer) -> None:
    with contextlib.closing(connect(server.url)) as redis:
        key = ApiKeyStore(redis).create("stalled", tenant="green", scope="read").text
    issuer.answers = {"/realms/main/.well-known/openid-configuration": "stall"}
    with serving_client(settings_of(issuer, server.url)) as api, ThreadPoolExecutor(1) as thread:
        until(lambda: get(api, key).status_code == 200)
        waiting = thread.submit(get, api, issuer.token())
        until(lambda: issuer.requests != [])
        assert get(api, key).status_code == 200
        assert ready(api)
        refused = waiting.result()
        assert code_of(refused) == (503, "issuer-unavailable")
        assert int(refused.headers["Retry-After"]) > 0
        assert ready(api)


# --- Outages of the store, restarts, addresses that need keys


@pytest.mark.slow
def test_tokens_score_without_the_store_and_after_a_restart_without_the_issuer_too(
    tmp_path: Path, issuer: TokenIssuer
) -> None:
    folder = tmp_path / "held"
    call = {"map": "spam", "predictions": [0.25]}
    with redis_server(tmp_path / "redis") as server:
        settings = settings_of(issuer, server.url, held_folder=str(folder))
        with serving_client(settings, needs_key=True) as api:
            assert api.post("/maps", json=FIT, headers=bearer(issuer.token())).status_code == 201
            assert api.post("/calibrate", json=call, headers=bearer(issuer.token())).status_code == 200
            state = folder / "state"
            until(lambda: state.exists() and b'"spam"' in state.read_bytes() and b"rsa-1" in state.read_bytes())
            server.kill()
            until(
                lambda: "Calibrant-Stale" in api.post("/calibrate", json=call, headers=bearer(issuer.token())).headers
            )
            assert get(api, issuer.token()).status_code == 503
        issuer.answers = {"/realms/main/keys": 500}
        with serving_client(settings, needs_key=True, outages=True) as api:
            answer = api.post("/calibrate", json=call, headers=bearer(issuer.token(jti="new")))
            assert answer.json()["predictions"] == [0.25]
            assert "Calibrant-Stale" in answer.headers
            assert api.post("/calibrate", json=call, headers=bearer("a.b.c")).status_code == 401
        with serving_client(replace(settings, held_folder=""), needs_key=True, outages=True) as api:
            assert api.post("/calibrate", json=call, headers=bearer(issuer.token())).status_code == 503


@pytest.mark.slow
def test_a_service_with_an_issuer_listens_everywhere_without_a_key_and_logs_no_token(
    tmp_path: Path, issuer: TokenIssuer
) -> None:
    variables = {"CALIBRANT_OIDC_ISSUER": issuer.url, "CALIBRANT_OIDC_AUDIENCE": "calibrant"}
    good, expired = issuer.token(), issuer.token(exp=0)
    with (tmp_path / "log").open("ab") as log:
        running = stack(
            host="0.0.0.0",
            port=0,
            data=tmp_path / "data",
            log=log,
            level="debug",
            inherited=patient() | variables,
        )
        with running as service, httpx.Client(base_url=service.url, timeout=600) as api:
            until(lambda: ready(api))
            assert api.get("/maps").status_code == 401
            assert get(api, expired).status_code == 401
            assert api.post("/batches", json=ROWS, headers=bearer(good)).status_code == 201
    content = (tmp_path / "log").read_text()
    assert "oidc:alice" in content
    assert not [piece for piece in (*good.split("."), *expired.split(".")) if piece in content]


def test_metrics_count_tokens_by_outcome_and_tell_the_age_of_the_keys(
    api: httpx.Client, published: TokenIssuer
) -> None:
    get(api, published.token(exp=0))
    text = get(api, published.token(scope="ops"), "/metrics").text
    assert 'calibrant_tokens_total{outcome="accepted"}' in text
    assert 'calibrant_tokens_total{outcome="expired"}' in text
    age = float(text.partition("\ncalibrant_issuer_keys_age_seconds ")[2].partition("\n")[0])
    assert 0 <= age < 3600


# --- Clients, and the page


def test_a_client_gets_its_token_from_a_function_for_every_request(api: httpx.Client, published: TokenIssuer) -> None:
    tokens = iter([published.token(sub="first"), published.token(sub="second"), "a.b.c"])
    with Calibrant(str(api.base_url), token=lambda: next(tokens)) as client:
        client.limits()
        client.limits()
        with pytest.raises(ProblemResponse) as refused:
            client.limits()
    assert refused.value.problem.type == "/problems/invalid-token"
    assert not hasattr(refused.value, "__notes__")
    with Calibrant(str(api.base_url), token=published.token()) as client:
        client.limits()


@pytest.mark.parametrize(("end", "code"), [(600, 0), (-60, 1)])
def test_a_command_sends_a_token_in_place_of_a_key(
    api: httpx.Client, published: TokenIssuer, end: int, code: int
) -> None:
    token = published.token(exp=int(time.time()) + end)
    listed = CliRunner().invoke(
        command, ["maps", "list", "--server", str(api.base_url)], env={"CALIBRANT_API_KEY": token}
    )
    assert listed.exit_code == code, listed.stderr
    assert (code == 1) == listed.stderr.endswith("the token has expired; set CALIBRANT_API_KEY to a new token\n")


PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "oidc.md").read_text("utf-8")


def page_settings(heading: str, issuer: TokenIssuer) -> Settings:
    """The settings that a part of the page exports, for an issuer that runs."""
    exported = re.findall(r"export CALIBRANT_(OIDC_\w+)=(\S+)", PAGE.partition(heading)[2].partition("\n\n")[2])
    settings: dict[str, Any] = {}
    for name, setting in exported:
        if name.lower() in settings:
            break
        settings[name.lower()] = setting
    check_issuer_url(settings["oidc_issuer"])
    return replace(Settings("unix:///nowhere"), **settings | {"oidc_issuer": issuer.url})


#: What introduces settings of the page -> claims of the form that the provider's tokens have, and who calls.
PROVIDERS: dict[str, tuple[dict[str, Any], str, str]] = {
    "1. Register": ({"aud": "calibrant", "team": "blue", "scope": "openid calibrant-ops"}, "blue", "admin"),
    "Keycloak, with": (
        {
            "aud": ["calibrant", "account"],
            "typ": "Bearer",
            "azp": "pipeline",
            "team": "blue",
            "realm_access": {"roles": ["offline_access", "uma_authorization", "calibrant-viewer"]},
            "scope": "profile email",
        },
        "blue",
        "read",
    ),
    "Microsoft Entra, with": (
        {
            "aud": "11111111-1111-1111-1111-111111111111",
            "tid": "00000000-0000-0000-0000-000000000000",
            "roles": ["Calibrant.Read", "Calibrant.Write"],
            "ver": "2.0",
        },
        "00000000-0000-0000-0000-000000000000",
        "read write",
    ),
    "Okta, with": (
        {"aud": "api://calibrant", "team": "blue", "scp": ["calibrant.write"], "cid": "0oa1"},
        "blue",
        "write",
    ),
}


@pytest.mark.parametrize("heading", PROVIDERS)
async def test_the_settings_of_the_page_read_claims_of_that_form(published: TokenIssuer, heading: str) -> None:
    claims, tenant, scope = PROVIDERS[heading]
    caller = await verifier(page_settings(heading, published)).identify(published.token(**{"scope": None} | claims))
    assert (caller.tenant, caller.scope) == (tenant, scope)


def test_the_program_of_the_page_calls_the_service(api: httpx.Client, published: TokenIssuer) -> None:
    program = PAGE.partition("```python\n")[2].partition("```")[0]
    names = {"server_url": str(api.base_url), "token_url": f"{published.url}/token", "client_id": "a", "secret": "b"}
    before = len(published.requests)
    exec(compile(program, "oidc.md", "exec"), names)
    client: Any = names["client"]
    with client:
        client.limits()
    assert published.requests[before:].count("/realms/main/token") == 1
