from __future__ import annotations

import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from backend.store.errors import IdempotencyConflict, IdempotencyInProgress
from backend.store.idempotency import Reservation
from backend.store.keyspace import Keyspace, Shared
from backend.store.store import Store
from schemas.jobs import StoredAnswer
from service.settings import Settings
from tests.integration.conftest import claimed, patient, serving_client
from tests.integration.redis_server import answered, assert_away, ready, redis_server, until
from tests.integration.responses import code_of
from tests.known import known
from tests.warm_service import start

RANDOM = np.random.default_rng(0)
P = RANDOM.random(200)
Y = (RANDOM.random(200) < P).astype(int)
ROWS = {"predictions": P.tolist(), "labels": Y.tolist()}
FIT = ROWS | {"method": "platt", "name": "once"}
ASYNC = {"Prefer": "respond-async"}


def _post(api: httpx.Client, path: str, body: Any, key: str, **headers: str) -> httpx.Response:
    return api.post(path, json=body, headers={"Idempotency-Key": key, **headers})


def _reserve(store: Store, key: str = "k", fingerprint: str = "f") -> Reservation:
    held = store.idempotency.reserve(key, fingerprint, ttl=60, lease=60)
    assert isinstance(held, Reservation)
    return held


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/batches", ROWS, {}),
        ("/evaluate", ROWS, {}),
        ("/evaluate", ROWS, ASYNC),
        ("/maps", FIT, {}),
        ("/maps", FIT, ASYNC),
    ],
)
def test_a_request_that_is_sent_again_gets_the_same_answer_and_does_nothing(
    api: httpx.Client, store: Store, redis: Redis, path: str, body: dict[str, Any], headers: dict[str, str]
) -> None:
    first = _post(api, path, body, "a", **headers)
    assert first.is_success
    assert "Idempotency-Replayed" not in first.headers
    keys = set(redis.keys("calibrant:*"))
    again = _post(api, path, body, "a", **headers)
    assert again.headers["Idempotency-Replayed"] == "true"
    for name in ("content-type", "location", "retry-after", "preference-applied"):
        assert again.headers.get(name) == first.headers.get(name)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert set(redis.keys("calibrant:*")) == keys
    other = _post(api, path, body, "b", **headers)
    assert "Idempotency-Replayed" not in other.headers


def test_appended_rows_and_calibrated_predictions_are_answered_again_too(api: httpx.Client) -> None:
    batch = api.post("/batches", json=ROWS).json()
    for _ in range(3):
        assert _post(api, f"/batches/{batch['id']}/rows", ROWS, "rows").json()["n"] == 400
    api.post("/maps", json=FIT)
    call = {"map": "once", "predictions": [0.3]}
    first = _post(api, "/calibrate", call, "c")
    api.post("/maps", json=FIT | {"method": "identity"})
    assert _post(api, "/calibrate", call, "c").content == first.content
    assert api.post("/calibrate", json=call).content != first.content


def test_a_key_is_one_requests(api: httpx.Client) -> None:
    assert _post(api, "/maps", FIT, "a").status_code == 201
    conflict = (409, "idempotency-conflict")
    assert code_of(_post(api, "/maps", FIT | {"seed": 1}, "a")) == conflict
    assert code_of(_post(api, "/maps?x=1", FIT, "a")) == conflict
    assert code_of(_post(api, "/evaluate", FIT, "a")) == conflict
    assert code_of(_post(api, "/maps", FIT, "a", **{"Content-Type": "application/x-npz"})) == conflict
    assert code_of(_post(api, "/maps", FIT, "a", **ASYNC)) == conflict
    assert code_of(_post(api, "/maps", FIT, "a", Accept="text/html")) == conflict
    for name in ("If-Match", "If-None-Match", "Inference-Header-Content-Length", "Ce-Id", "Content-Encoding"):
        assert code_of(_post(api, "/maps", FIT, "a", **{name: '"7"'})) == conflict, name
    twice = [("Idempotency-Key", "a"), ("Accept", "application/json"), ("Accept", "text/html")]
    assert code_of(api.post("/maps", json=FIT, headers=twice)) == conflict
    assert _post(api, "/maps", FIT, "a", Accept="application/json").status_code == 201


def test_events_whose_attributes_in_headers_differ_are_other_requests(api: httpx.Client) -> None:
    api.post("/monitors", json={"name": "live"}).raise_for_status()
    row = {"prediction": 0.3, "label": 1}
    event = {"Ce-Specversion": "1.0", "Ce-Type": "com.calibrant.rows", "Ce-Source": "tests", "Ce-Id": "one"}
    first = _post(api, "/monitors/live/events", row, "a", **event)
    assert first.json()["accepted"] == 1, first.text
    conflict = (409, "idempotency-conflict")
    changes = {"Ce-Id": "two", "Ce-Type": "com.calibrant.labels", "Ce-Source": "x", "Ce-Time": "2026-07-01T00:00:00Z"}
    for name, attribute in changes.items():
        assert code_of(_post(api, "/monitors/live/events", row, "a", **event | {name: attribute})) == conflict, name
    again = _post(api, "/monitors/live/events", row, "a", **dict(reversed(event.items())))
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.content == first.content
    assert _post(api, "/monitors/live/events", row, "b", **event | {"Ce-Id": "two"}).json()["accepted"] == 1


def test_requests_sent_at_once_make_one_map(api: httpx.Client) -> None:
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: _post(api, "/maps", FIT, "a"), range(64)))
    created = [answer for answer in answers if answer.status_code == 201]
    assert created
    assert len({answer.content for answer in created}) == 1
    assert {code_of(answer) for answer in answers if answer not in created} <= {(409, "idempotency-in-progress")}
    assert api.get("/maps/once:2").status_code == 404


def test_while_the_first_request_runs_repeats_get_409_with_retry_after(
    api: httpx.Client, store: Store, redis: Redis
) -> None:
    with ThreadPoolExecutor(1) as threads, redis.pubsub() as changes:  # type: ignore[no-untyped-call]
        changes.subscribe(Shared.job_changes())
        changes.get_message(timeout=600)
        headers = {"Prefer": "respond-async, wait=600"}
        first = threads.submit(_post, api, "/evaluate", ROWS, "a", **headers)
        message = known(changes.get_message(timeout=600))
        early = _post(api, "/evaluate", ROWS, "a", **headers)
        assert code_of(early) == (409, "idempotency-in-progress")
        assert early.headers["Retry-After"]
        claimed(store, message["data"].decode().rpartition(":")[2]).succeed({"report": {"n": 3}})
        assert first.result().json() == {"n": 3}
    again = _post(api, "/evaluate", ROWS, "a", **headers)
    assert again.json() == {"n": 3}
    assert again.headers["Idempotency-Replayed"] == "true"


@pytest.mark.slow
def test_a_process_killed_between_what_it_did_and_its_answer_does_nothing_twice(
    redis: Redis, redis_url: str, store: Store
) -> None:
    settings = {"CALIBRANT_REDIS_URL": redis_url, "CALIBRANT_MAX_WAIT": "2", "CALIBRANT_IDEMPOTENCY_LEASE": "1"}
    headers = {"Prefer": "respond-async, wait=600"}
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=600) as api,
        ThreadPoolExecutor(1) as threads,
        redis.pubsub() as changes,  # type: ignore[no-untyped-call]
    ):
        fd = listener.fileno()
        command = [sys.executable, "-m", "calibrant", "api", "--socket-fd", str(fd)]
        process = start(command, environment=patient() | settings, pass_fds=(fd,))
        changes.subscribe(Shared.job_changes())
        changes.get_message(timeout=600)
        first = threads.submit(_post, api, "/maps", FIT, "a", **headers)
        message = known(changes.get_message(timeout=600))
        process.kill()
        process.wait()
        with pytest.raises(httpx.TransportError):
            first.result()
        process = start(command, environment=patient() | settings, pass_fds=(fd,))
        deadline = time.monotonic() + 120
        while (again := _post(api, "/maps", FIT, "a", **headers)).status_code == 409:
            assert time.monotonic() < deadline
            redis.blpop("nothing", timeout=0.05)
        process.kill()
        process.wait()
    assert again.status_code == 202
    assert "Idempotency-Replayed" not in again.headers
    assert Keyspace().job(again.json()["id"]) == message["data"].decode()
    assert redis.zcard(Keyspace().jobs()) == redis.zcard(Keyspace().batches()) == 1
    assert redis.llen("rq:queue:fits") == 1


def test_a_refused_request_may_be_mended_under_its_key(api: httpx.Client) -> None:
    assert _post(api, "/maps", FIT | {"method": "x"}, "a").status_code == 422
    assert _post(api, "/maps", FIT, "a").status_code == 201
    assert _post(api, "/batches/batch_x/rows", ROWS, "b").status_code == 404
    assert _post(api, "/batches", ROWS, "b").status_code == 201


@pytest.mark.parametrize("key", ["", "a b", "a" * 256, "é"])
def test_an_invalid_idempotency_key_is_refused(api: httpx.Client, key: str) -> None:
    refused = api.post("/batches", json=ROWS, headers=[(b"Idempotency-Key", key.encode("latin-1"))])
    assert code_of(refused) == (422, "invalid-field")
    twice = api.post("/batches", json=ROWS, headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")])
    assert code_of(twice) == (400, "bad-request")
    assert _post(api, "/batches", ROWS, "!" + "~" * 254).status_code == 201


def test_an_answer_too_large_to_keep_is_made_again(api: httpx.Client) -> None:
    api.post("/maps", json=FIT)
    call = {"map": "once", "predictions": RANDOM.random(150_000).tolist()}
    first, again = _post(api, "/calibrate", call, "a"), _post(api, "/calibrate", call, "a")
    assert first.content == again.content
    assert "Idempotency-Replayed" not in again.headers
    assert code_of(_post(api, "/calibrate", call | {"bounds": True}, "a")) == (409, "idempotency-conflict")


def test_a_request_that_takes_over_from_a_dead_process_makes_the_same_ids(store: Store, redis: Redis) -> None:
    first = _reserve(store)
    with pytest.raises(IdempotencyInProgress):
        _reserve(store)
    with pytest.raises(IdempotencyConflict):
        _reserve(store, fingerprint="g")
    redis.delete(Keyspace().idempotency_lease(first.digest))
    second = _reserve(store)
    assert (second.seed, second.again) == (first.seed, True)
    # The first was only slow: it must not free what another holds, and the first answer stays.
    store.idempotency.free(first, ttl=60)
    with pytest.raises(IdempotencyInProgress):
        _reserve(store)
    for held, status in ((second, 201), (first, 202)):
        store.idempotency.settle(held, StoredAnswer(status=status, headers={}, body=""), ttl=60)
    answer = store.idempotency.reserve("k", "f", ttl=60, lease=60)
    assert isinstance(answer, StoredAnswer)
    assert answer.status == 201


def test_a_key_of_one_tenant_is_not_anothers(store: Store, redis: Redis) -> None:
    assert _reserve(store).seed != _reserve(Store.of(redis, "other"), fingerprint="g").seed


def test_a_lease_that_is_not_renewed_says_when_it_ends(store: Store, redis: Redis) -> None:
    held = _reserve(store)
    lease = Keyspace().idempotency_lease(held.digest)

    def retry_after() -> int | None:
        with pytest.raises(IdempotencyInProgress) as refused:
            _reserve(store)
        return refused.value.retry_after

    assert retry_after() == 1
    redis.pexpire(lease, 29_500)
    assert 28 <= (retry_after() or 0) <= 30
    store.idempotency.renew(held, lease=60)
    assert retry_after() == 1


def test_a_lease_outlives_its_time_by_no_clock_that_was_set_back(store: Store, redis: Redis) -> None:
    held = _reserve(store)
    redis.expire(Keyspace().idempotency_lease(held.digest), 3600)
    taken_over = _reserve(store)
    assert taken_over.seed == held.seed
    store.idempotency.renew(held, lease=3000)
    assert redis.ttl(Keyspace().idempotency_lease(held.digest)) <= 60


def test_the_same_key_of_two_tenants_is_two_keys(redis: Redis, redis_url: str) -> None:
    keys = ApiKeyStore(redis)
    tokens = [keys.create(name, tenant=name, scope="write").text for name in ("a", "b")]
    with serving_client(Settings(redis_url)) as api:
        headers = [{"Authorization": f"Bearer {token}"} for token in tokens]
        first = _post(api, "/maps", FIT, "same", **headers[0])
        second = _post(api, "/maps", FIT | {"method": "identity"}, "same", **headers[1])
        assert (first.status_code, second.status_code) == (201, 201)
        assert first.json()["id"] != second.json()["id"]
        assert _post(api, "/maps", FIT, "same", **headers[0]).json() == first.json()
        assert code_of(_post(api, "/maps", FIT, "same", **headers[1])) == (409, "idempotency-conflict")


@pytest.mark.slow
def test_a_lease_lasts_as_long_as_its_request(redis: Redis, redis_url: str, store: Store) -> None:
    settings = Settings(redis_url, idempotency_lease=5)
    headers = {"Prefer": "respond-async, wait=600"}
    with (
        serving_client(settings) as api,
        ThreadPoolExecutor(1) as threads,
    ):
        first = threads.submit(_post, api, "/evaluate", ROWS, "a", **headers)
        until(lambda: redis.zcard(Keyspace().jobs()) == 1)
        began = redis.time()[0]
        while redis.time()[0] < began + 7:
            assert code_of(_post(api, "/evaluate", ROWS, "a", **headers)) == (409, "idempotency-in-progress")
        (job_id,) = cast(list[bytes], redis.zrange(Keyspace().jobs(), 0, -1))
        claimed(store, job_id.decode()).succeed({"report": {"n": 3}})
        assert first.result().json() == {"n": 3}


@pytest.mark.slow
@pytest.mark.parametrize("goes", ["killed", "paused"])
def test_the_lease_of_a_request_ends_when_the_store_is_back_that_failed_it(tmp_path: Path, goes: str) -> None:
    headers = {"Prefer": "respond-async, wait=600"}
    with (
        redis_server(tmp_path) as server,
        serving_client(Settings(server.url, idempotency_lease=3600, store_timeout=6)) as api,
        ThreadPoolExecutor(1) as threads,
    ):
        until(lambda: ready(api))
        first = threads.submit(_post, api, "/evaluate", ROWS, "a", **headers)
        with server.admin() as redis:
            until(lambda: redis.zcard(Keyspace().jobs()) == 1)
        if goes == "killed":
            server.kill()
        else:
            server.signal(signal.SIGSTOP)
        assert_away(first.result())
        if goes == "killed":
            server.start()
        else:
            server.signal(signal.SIGCONT)
        until(lambda: ready(api))
        with server.admin() as redis:
            until(lambda: redis.keys("*idempotency-lease*") == [])
            again = answered(lambda: _post(api, "/evaluate", ROWS, "a", **ASYNC))
            assert again.status_code == 202
            assert redis.zcard(Keyspace().jobs()) == 1
