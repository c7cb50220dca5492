"""Signing in on the page: what the browser holds, what the store holds, and what ends a session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from redis import Redis

from backend.store.api_keys import ApiKeyStore, NewKey
from backend.store.clock import stamp
from backend.store.keyspace import Shared
from backend.store.sessions import MOST_OF_A_KEY, SessionStore
from service.settings import Settings
from tests.integration.conftest import serving
from tests.integration.responses import code_of, text_of
from tests.integration.visiting import ROWS, Visitor, routes_of_pages


@pytest.fixture
def keys(redis: Redis) -> ApiKeyStore:
    return ApiKeyStore(redis)


@pytest.fixture
def key(keys: ApiKeyStore) -> NewKey:
    return keys.create("on-call", tenant="billing", scope="write")


@pytest.fixture
def visitor(key: NewKey, redis_url: str) -> Iterator[Visitor]:
    with serving(Settings(redis_url, sign_in_rate=0, trusted_proxies="127.0.0.1")) as url, Visitor(url) as visitor:
        yield visitor


def _forged(answer: httpx.Response) -> bool:
    return answer.status_code == 403 and "did not come from the web page" in answer.text


def _all_that_is_stored(redis: Redis) -> str:
    texts = [repr(name) for name in redis.scan_iter()]
    texts += [repr(redis.get(name)) for name in redis.scan_iter(_type="string")]
    texts += [repr(redis.hgetall(name)) for name in redis.scan_iter(_type="hash")]
    return "".join(texts)


def test_a_live_key_opens_a_session_and_neither_key_nor_cookie_is_stored(
    visitor: Visitor, key: NewKey, redis: Redis
) -> None:
    answer = visitor.sign_in(key.text, "/ui/maps?name=spam")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/maps?name=spam")
    name, _, attributes = answer.headers["set-cookie"].partition("=")
    text, *flags = attributes.split("; ")
    assert (name, {flag.lower() for flag in flags}) == ("calibrant", {"httponly", "path=/", "samesite=strict"})
    assert "on-call" in visitor.get("/ui/maps").text
    stored = _all_that_is_stored(redis)
    assert text not in stored
    assert key.text.split("_", 2)[2] not in stored


def test_by_tls_the_cookie_is_secure_and_of_this_host_alone(visitor: Visitor, key: NewKey) -> None:
    by_tls = {"X-Forwarded-Proto": "https", "Origin": str(visitor.base_url).replace("http:", "https:").rstrip("/")}
    answer = visitor.post("/ui/sign-in", data={"key": key.text}, headers=by_tls)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-calibrant=")
    assert {"Secure", "HttpOnly", "Path=/"} <= set(cookie.split("; "))
    held = {"Cookie": cookie.partition(";")[0]}
    assert visitor.get("/ui/maps", headers=by_tls | held).status_code == 200
    assert visitor.get("/ui/maps", headers=held).status_code == 303  # the same name without TLS is anyone's


@pytest.mark.parametrize("text", [b"", b"calk_", b"calk_0123456789abcdef_wrong", b"%FF%00", b"x" * 10_000])
def test_an_invalid_key_opens_no_session_and_is_not_echoed(visitor: Visitor, text: bytes) -> None:
    of_forms = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = visitor.post("/ui/sign-in", content=b"key=" + text, headers=of_forms)
    assert answer.status_code == 403
    assert "not a valid API key" in answer.text
    assert "set-cookie" not in answer.headers
    assert text.decode() not in answer.text or len(text) < 6


def test_an_address_may_not_try_keys_without_end(key: NewKey, redis_url: str) -> None:
    with serving(Settings(redis_url, sign_in_rate=3)) as url, Visitor(url) as visitor:
        tried = [visitor.sign_in(f"calk_{key.record.id}_{i}") for i in range(4)]
        assert [answer.status_code for answer in tried] == [403, 403, 403, 429]
        assert int(tried[3].headers["retry-after"]) <= 60
        assert visitor.sign_in(key.text).status_code == 429


@pytest.mark.parametrize("wanted", ["//elsewhere.example", "https://elsewhere.example", "/\\elsewhere", "/maps"])
def test_signing_in_leads_to_the_page_alone(visitor: Visitor, key: NewKey, wanted: str) -> None:
    assert visitor.sign_in(key.text, wanted).headers["location"] == "/"


def test_a_visitor_without_a_session_is_redirected_to_sign_in_and_back(visitor: Visitor) -> None:
    answer = visitor.get("/ui/maps?name=spam")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/sign-in?next=/ui/maps%3Fname%3Dspam")
    part = visitor.get("/ui/maps", headers={"HX-Request": "true"})
    assert (part.status_code, part.headers["hx-redirect"]) == (401, "/ui/sign-in?next=/")
    front = visitor.get("/")
    assert (front.status_code, "/ui/maps" in front.text, "csrf-token" in front.text) == (200, False, False)


def test_a_link_of_another_site_keeps_the_session(visitor: Visitor) -> None:
    answer = text_of(visitor.get("/ui/maps/spam?x=<b>", headers={"Sec-Fetch-Site": "cross-site"}))
    assert '<meta http-equiv="refresh" content="0; url=/ui/maps/spam?x=' in answer
    assert "<b>" not in answer


def test_a_form_needs_its_token_and_its_own_origin(visitor: Visitor, key: NewKey) -> None:
    visitor.sign_in(key.text)
    fields = {"csrf_token": visitor.token(), "alias": "champion", "version": "1", "seen": ""}
    path, own = "/ui/maps/spam/aliases", visitor.headers["origin"]
    for token in ("", "wrong", "\u00e9"):
        assert _forged(visitor.post(path, data=fields | {"csrf_token": token}))
    for origin in ("null", "http://elsewhere.example", own + "0", own.replace("http", "ftp")):
        assert _forged(visitor.post(path, data=fields, headers={"Origin": origin}))
    del visitor.headers["origin"]
    assert _forged(visitor.post(path, data=fields))
    assert visitor.post(path, data=fields, headers={"Origin": own}).status_code == 404  # there is no such map


def test_a_token_is_of_its_own_session(visitor: Visitor, key: NewKey) -> None:
    with Visitor(str(visitor.base_url).rstrip("/")) as other:
        for browser in (visitor, other):
            assert browser.sign_in(key.text).status_code == 303
        assert other.token() != visitor.token()
        assert _forged(visitor.post("/ui/sign-out", data={"csrf_token": other.token()}))
    assert _forged(visitor.sign_in(key.text))  # whoever is signed in sends the token with this form too


def test_no_form_of_the_page_is_answered_without_its_token(visitor: Visitor, key: NewKey) -> None:
    visitor.sign_in(key.text)
    looked = 0
    for route in routes_of_pages():
        if "GET" in (route.methods or ()):
            continue
        path = re.sub(r"{\w+}", "x", route.path)
        for body in ({"data": {"x": "1"}}, {"files": {"file": ("x.csv", b"p,y\n0.5,1\n")}}):
            answer = visitor.post(path, **body)
            assert answer.status_code in (403, 415), path
            assert answer.status_code == 415 or _forged(answer), path
        looked += 1
    assert looked >= 7


def test_the_calls_take_the_cookie_to_read_and_to_change_with_the_token_alone(visitor: Visitor, key: NewKey) -> None:
    fitted = httpx.post(
        f"{visitor.base_url}/maps",
        json=ROWS | {"method": "platt", "name": "spam"},
        headers={"Authorization": f"Bearer {key.text}"},
    )
    assert fitted.status_code == 201
    assert visitor.get("/maps/spam/document").status_code == 401
    visitor.sign_in(key.text)
    assert visitor.get("/maps/spam/document").json()["format"] == 1
    refused = visitor.put("/maps/spam/aliases/champion", json={"version": 1})
    assert code_of(refused) == (403, "forged-request")
    sent = {"X-CSRF-Token": visitor.token()}
    foreign = visitor.put("/maps/spam/aliases/champion", json={"version": 1}, headers=sent | {"Origin": "http://else"})
    assert foreign.json()["type"] == "/problems/forged-request"
    assert visitor.put("/maps/spam/aliases/champion", json={"version": 1}, headers=sent).status_code == 200


def test_a_session_holds_the_scope_of_its_key(keys: ApiKeyStore, visitor: Visitor) -> None:
    reader = keys.create("reader", tenant="billing", scope="read").text
    assert any(visitor.sign_in(reader).status_code == 303 for _ in range(2000))
    refused = visitor.submit("/ui/maps/spam/aliases", {"alias": "champion", "version": "1"})
    assert (refused.status_code, "scope maps:promote" in refused.text) == (403, True)
    assert visitor.get("/metrics").status_code == 403
    assert visitor.submit("/ui/sign-out", {}).status_code == 303


def test_a_session_ends_with_its_key_and_with_the_secret_that_opened_it(
    visitor: Visitor, keys: ApiKeyStore, key: NewKey
) -> None:
    visitor.sign_in(key.text)
    assert visitor.get("/ui/maps").status_code == 200
    rotated = keys.rotate(key.record.id, grace=0)
    assert _becomes(visitor, 303)
    visitor.sign_in(rotated.text)
    assert visitor.get("/ui/maps").status_code == 200
    keys.revoke(key.record.id)
    assert _becomes(visitor, 303)
    assert visitor.sign_in(rotated.text).status_code == 403


def _becomes(visitor: Visitor, status: int) -> bool:
    """Whether the page answers so soon: processes hear of a change of keys within a second."""
    return any(visitor.get("/ui/maps").status_code == status for _ in range(2000))


def test_signing_out_ends_the_session_in_the_store_too(visitor: Visitor, key: NewKey, redis: Redis) -> None:
    held = visitor.sign_in(key.text).headers["set-cookie"].partition(";")[0]
    answer = visitor.submit("/ui/sign-out", {})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert 'calibrant=""' in answer.headers["set-cookie"]
    assert visitor.get("/ui/maps", headers={"Cookie": held}).status_code == 303
    assert not list(redis.scan_iter(Shared.session("*")))


def test_a_session_lives_on_while_it_is_used_up_to_its_longest(redis: Redis) -> None:
    sessions = SessionStore(redis, idle=3600, life=7200)
    session = sessions.open("0123", "digest")
    (name,) = redis.scan_iter(Shared.session("*"))
    redis.expire(name, 60)
    assert sessions.find(session.text) == session.record
    assert redis.ttl(name) > 3500
    redis.set(name, session.record.model_copy(update={"ends_at": stamp(after=1000)}).model_dump_json(), ex=10)
    assert sessions.find(session.text) is not None
    assert 990 < redis.ttl(name) <= 1000
    redis.set(name, session.record.model_copy(update={"ends_at": stamp(after=-1)}).model_dump_json())
    assert sessions.find(session.text) is None


def test_without_keys_there_is_no_sign_in_and_forms_still_have_a_token(redis: Redis, redis_url: str) -> None:
    with ExitStack() as opened:
        url = opened.enter_context(serving(Settings(redis_url)))
        visitor = opened.enter_context(Visitor(url))
        assert visitor.get("/ui/sign-in").headers["location"] == "/"
        assert "Sign" not in visitor.get("/").text
        assert _forged(visitor.post("/ui/maps/spam/aliases", data={"alias": "champion", "version": "1"}))
        assert visitor.submit("/ui/maps/spam/aliases", {"alias": "champion", "version": "1"}).status_code == 404
        near = {"Origin": "http://localhost:1"}  # another service of this machine is another origin
        token = {"csrf_token": visitor.token()}
        assert _forged(visitor.post("/ui/maps/spam/aliases", data=token, headers=near))
        other = opened.enter_context(Visitor(opened.enter_context(serving(Settings(redis_url)))))
        assert other.token() == visitor.token()


def test_an_unavailable_store_is_a_readable_page() -> None:
    with serving(Settings("unix:///nowhere/at-all", store_timeout=0.2)) as url, Visitor(url) as visitor:
        answer = visitor.get("/ui/maps")
        assert (answer.status_code, answer.headers["content-type"]) == (503, "text/html; charset=utf-8")
        assert "cannot be reached" in answer.text
        assert int(answer.headers["retry-after"]) > 0


def test_pages_are_not_cached_and_load_only_their_own_assets(visitor: Visitor, key: NewKey) -> None:
    visitor.sign_in(key.text)
    for path in ("/", "/ui/maps", "/ui/reports", "/ui/jobs", "/ui/maps/nothing"):
        headers = visitor.get(path).headers
        assert headers["cache-control"] == "no-store"
        policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert {policy[name] for name in ("script-src", "style-src", "connect-src", "form-action")} == {"'self'"}
        assert headers["referrer-policy"] == "same-origin"  # without one a browser tells the origin of forms as null


def test_the_oldest_session_of_a_key_ends_where_it_has_too_many(redis: Redis) -> None:
    sessions = SessionStore(redis, idle=600, life=600)
    other = sessions.open("other", "digest").text
    opened = [sessions.open("key", "digest").text for _ in range(MOST_OF_A_KEY)]
    for text in opened[10:15]:
        sessions.end(text)  # who has signed out takes no place
    opened += [sessions.open("key", "digest").text for _ in range(7)]
    live = [i for i, text in enumerate(opened) if sessions.find(text) is not None]
    assert live == [*range(2, 10), *range(15, len(opened))]
    assert sessions.find(other) is not None
    assert len(live) == MOST_OF_A_KEY


def test_a_key_that_reads_is_shown_no_form_that_would_be_refused(
    keys: ApiKeyStore, visitor: Visitor, key: NewKey
) -> None:
    reader = keys.create("reader", tenant="billing", scope="read").text
    assert any(visitor.sign_in(reader).status_code == 303 for _ in range(2000))
    for path in ("/", "/ui/upload"):
        text = visitor.get(path).text
        assert 'action="/ui/upload"' not in text
        assert "scope <code>write</code>" in text
    visitor.submit("/ui/sign-out", {})
    visitor.sign_in(key.text)
    assert 'action="/ui/upload"' in visitor.get("/").text
