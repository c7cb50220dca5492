"""What one tenant may take of a process: however much it asks for, another is served."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import selectors
import socket
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from itertools import islice
from threading import Event, Semaphore
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from service import jobs
from service.callers import LOCAL
from service.settings import Settings
from service.threads import MOST_THREADS, run_in_thread
from tests.integration.conftest import one_place_taken, serving_client
from tests.integration.responses import body_of, code_of
from tests.integration.sockets import JSON, answer_of, begun

MIB = 1 << 20
ASYNC = {"Prefer": "respond-async"}
ROWS = {"predictions": [0.1, 0.4, 0.6, 0.9] * 5, "labels": [0, 1, 0, 1] * 5}
Keys = dict[str, dict[str, str]]


@pytest.fixture
def keys(redis: Redis) -> Keys:
    """The headers of two API keys of a tenant that takes what it can get, and of one of another tenant."""
    store = ApiKeyStore(redis)
    owners = {"greedy": "greedy", "second": "greedy", "other": "other"}
    texts = {name: store.create(name, tenant=tenant, scope="write").text for name, tenant in owners.items()}
    return {name: {"Authorization": f"Bearer {text}"} for name, text in texts.items()}


def _api(
    redis_url: str, prepare: Callable[[FastAPI], None] = lambda _: None, **settings: Any
) -> contextlib.AbstractContextManager[httpx.Client]:
    return serving_client(Settings(redis_url, **settings), prepare=prepare)


def _large(rows: int = 60_000) -> dict[str, Any]:
    p = np.random.default_rng(3).random(rows)
    return {"predictions": p.tolist(), "labels": (p > 0.5).astype(int).tolist()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/evaluate", {"Content-Type": "application/json"}),
        ("/evaluate", {"Content-Type": "application/json", "Idempotency-Key": "a"}),
        ("/evaluate?labels=y", {"Content-Type": "text/csv", "Content-Encoding": "gzip"}),
        ("/monitors/a/rows", {"Content-Type": "application/x-ndjson"}),
        ("/maps/import", {"Content-Type": "application/json"}),
        ("/v2/models/a/infer", {"Content-Type": "application/json"}),
    ],
)
def test_bodies_that_stall_take_no_place_from_anyone(
    redis_url: str, keys: Keys, path: str, headers: dict[str, str]
) -> None:
    with _api(redis_url, max_heavy_requests=2) as api, contextlib.ExitStack() as open_ones:
        for i in range(3):
            own = keys["greedy"] | headers | ({"Idempotency-Key": str(i)} if "Idempotency-Key" in headers else {})
            open_ones.enter_context(begun(str(api.base_url.join(path)), 3 * MIB, b" " * (MIB + MIB // 2), own))
        # Neither the other tenant is refused nor the same one: no body is complete.
        for who in ("other", "greedy", "other"):
            assert api.post("/evaluate", json=_large(), headers=keys[who]).status_code == 200


@pytest.mark.slow
def test_a_body_that_stalls_gets_408_and_its_connection_is_closed(redis_url: str, keys: Keys) -> None:
    with _api(redis_url, min_upload_rate=MIB) as api, contextlib.ExitStack() as open_ones:
        stalled = []
        for size in (0, 100, 2 * MIB):
            body = begun(str(api.base_url.join("/evaluate")), 3 * MIB, b" " * size, keys["greedy"] | JSON)
            stalled.append(open_ones.enter_context(body))
        for connection in stalled:
            answer = answer_of(connection)
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"/problems/request-timeout" in answer
            assert b"less than 1048576 bytes per second" in answer


@pytest.mark.slow
def test_a_tenant_fills_at_most_half_of_the_memory_for_bodies(redis_url: str, keys: Keys) -> None:
    limits: dict[str, Any] = {"max_request_memory": 256 * MIB}  # a tenant's half has room for one body
    with _api(redis_url, **limits) as api, contextlib.ExitStack() as open_ones:
        stalled = [
            open_ones.enter_context(
                begun(str(api.base_url.join("/evaluate")), 80 * MIB, b" " * (70 * MIB), keys["greedy"] | JSON)
            )
            for _ in range(2)
        ]
        with selectors.DefaultSelector() as selector:
            for connection in stalled:
                selector.register(connection, selectors.EVENT_READ)
            (answered, _), *others = selector.select(120)
        assert not others
        assert isinstance(answered.fileobj, socket.socket)
        refusal = HTTPResponse(answered.fileobj)
        refusal.begin()
        assert refusal.status == 429
        assert b"the tenant has reached the limit of 134217728 bytes of memory for requests" in refusal.read()
        assert api.post("/evaluate", json=_large(), headers=keys["other"]).status_code == 200
    # What has gone holds nothing.
    with _api(redis_url, **limits) as api:
        assert api.post("/evaluate", json=_large(), headers=keys["greedy"]).status_code == 200


@pytest.mark.slow
def test_while_a_tenant_works_all_the_time_another_finds_a_place(redis_url: str, keys: Keys) -> None:
    answers: Counter[str] = Counter()
    ended = Event()
    rows = _large()

    def post(api: httpx.Client, who: str) -> str:
        answer = api.post("/evaluate", json=rows, headers=keys[who])
        return "done" if answer.status_code == 200 else str(answer.json()["type"])

    def work(api: httpx.Client) -> None:
        while not ended.is_set():
            answers[post(api, "greedy")] += 1

    with _api(redis_url, max_heavy_requests=2) as api, ThreadPoolExecutor(3) as threads:
        working = [threads.submit(work, api) for _ in range(3)]
        outcomes: Counter[str] = Counter()
        try:
            while outcomes["done"] < 5 or not answers["done"]:
                assert not any(call.done() for call in working)
                outcomes[post(api, "other")] += 1
                # On a machine that is busy the store may seem to be away for a moment.
                assert outcomes.keys() <= {"done", "/problems/store-unavailable"}
        finally:
            ended.set()
        for call in working:
            call.result()
    assert answers.keys() <= {"done", "/problems/store-unavailable"}  # they waited for each other


def test_a_request_that_waits_for_its_job_holds_no_place(redis_url: str, keys: Keys) -> None:
    with _api(redis_url, max_heavy_requests=1) as api, ThreadPoolExecutor(1) as thread:
        # No worker runs: the job waits, and its caller with it.
        headers = keys["greedy"] | {"Prefer": "respond-async, wait=600"}
        waiting = thread.submit(api.post, "/evaluate", json=_large(), headers=headers)
        while not (jobs := api.get("/jobs", headers=keys["greedy"]).json()["items"]):
            assert not waiting.done()
        statuses = {503}
        while 200 not in statuses:
            assert not waiting.done()
            statuses.add(api.post("/evaluate", json=_large(), headers=keys["other"]).status_code)
        assert api.post(f"/jobs/{jobs[0]['id']}/cancel", headers=keys["greedy"]).status_code == 200
        assert waiting.result().json()["type"] == "/problems/job-cancelled"


#: Rows of a light body that takes more than half of what a tenant may send at once.
LIGHT_ROWS = 30_000


def test_a_request_that_waits_for_its_job_holds_no_turn(redis_url: str, keys: Keys) -> None:
    with _api(redis_url) as api, ThreadPoolExecutor(1) as thread:
        # No worker runs: the job waits, and its caller with it.
        headers = keys["greedy"] | {"Prefer": "respond-async, wait=600"}
        waiting = thread.submit(api.post, "/evaluate", json=_large(LIGHT_ROWS), headers=headers)
        while not (jobs := api.get("/jobs", headers=keys["greedy"]).json()["items"]):
            assert not waiting.done()
        assert api.post("/evaluate", json=_large(LIGHT_ROWS), headers=keys["greedy"]).status_code == 200
        assert not waiting.done()
        assert api.post(f"/jobs/{jobs[0]['id']}/cancel", headers=keys["greedy"]).status_code == 200
        assert waiting.result().json()["type"] == "/problems/job-cancelled"


@pytest.mark.slow
def test_a_request_that_waits_to_be_drawn_holds_no_turn(redis_url: str, keys: Keys) -> None:
    drawing, goes_on = Event(), Event()

    def draw() -> None:
        drawing.set()
        goes_on.wait(600)

    def prepare(app: FastAPI) -> None:
        async def drawn() -> None:
            await app.state.process.drawing.draw(LOCAL, draw)

        app.router.routes.insert(0, APIRoute("/problems/drawn", drawn))

    with _api(redis_url, prepare) as api, ThreadPoolExecutor(2) as threads:
        first = threads.submit(api.get, "/problems/drawn")
        try:
            assert drawing.wait(600)
            body = _large(LIGHT_ROWS) | {"diagram": "reliability"}
            waiting = threads.submit(api.post, "/diagrams", json=body, headers=keys["greedy"])
            for _ in range(20):
                assert api.post("/evaluate", json=_large(LIGHT_ROWS), headers=keys["greedy"]).status_code == 200
            assert not waiting.done()
        finally:
            goes_on.set()
        assert first.result().status_code == 200
        assert waiting.result().status_code == 200


def test_a_tenant_that_fills_its_threads_delays_no_other(redis_url: str, keys: Keys) -> None:
    begun, goes_on = Semaphore(0), Event()

    def work() -> None:
        begun.release()
        goes_on.wait(600)

    async def worked() -> None:
        await run_in_thread(work)

    def prepare(app: FastAPI) -> None:
        app.router.routes.insert(0, APIRoute("/worked", worked))

    with _api(redis_url, prepare) as api, ThreadPoolExecutor(60) as threads:
        answers = [threads.submit(api.get, "/worked", headers=keys["greedy"]) for _ in range(60)]
        try:
            for _ in range(MOST_THREADS // 2):
                assert begun.acquire(timeout=600)
            assert api.get("/maps", headers=keys["other"]).status_code == 200
            assert api.post("/evaluate", json=ROWS, headers=keys["other"]).status_code == 200
            assert not any(call.done() for call in answers)
        finally:
            goes_on.set()
        assert {call.result().status_code for call in answers} == {200}


def _seen(count: int, send: Callable[[], None]) -> tuple[list[str], list[int], Callable[[FastAPI], None]]:
    """The tenants of ``GET /seen`` in order, and the passes of the event loop after all of them were sent at once."""
    order, passes = list[str](), [0]

    async def seen(request: Request) -> None:
        order.append(request.scope["state"]["caller"].tenant)

    async def burst() -> None:
        send()  # the loop stands still meanwhile
        while len(order) < count:
            await asyncio.sleep(0)
            passes[0] += 1

    def prepare(app: FastAPI) -> None:
        app.router.routes[:0] = [APIRoute("/seen", seen), APIRoute("/burst", burst)]

    return order, passes, prepare


def test_a_request_does_not_wait_for_all_that_another_tenant_sent_before(redis_url: str, keys: Keys) -> None:
    connections: list[socket.socket] = []

    def send() -> None:
        for connection, who in zip(connections, ["greedy"] * 100 + ["other"], strict=True):
            key = keys[who]["Authorization"]
            connection.sendall(f"GET /seen HTTP/1.1\r\nHost: localhost\r\nAuthorization: {key}\r\n\r\n".encode())

    order, _, prepare = _seen(101, send)
    with _api(redis_url, prepare) as api, contextlib.ExitStack() as open_ones:
        address = (str(api.base_url.host), api.base_url.port or 80)
        for _ in range(101):
            connections.append(open_ones.enter_context(socket.create_connection(address, timeout=600)))
            connections[-1].sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connections[-1].recv(1000).startswith(b"HTTP/1.1 200 ")
        assert api.get("/burst", headers=keys["greedy"]).status_code == 200
    assert order.index("other") < 50


def test_many_connections_are_accepted_in_each_pass_of_the_event_loop(redis_url: str, redis: Redis) -> None:
    connections: list[socket.socket] = []

    def send() -> None:
        for _ in range(200):
            connections.append(open_ones.enter_context(socket.create_connection(address, timeout=600)))
            connections[-1].sendall(b"GET /seen HTTP/1.1\r\nHost: localhost\r\n\r\n")

    _, passes, prepare = _seen(200, send)
    with _api(redis_url, prepare) as api, contextlib.ExitStack() as open_ones:
        address = (str(api.base_url.host), api.base_url.port or 80)
        assert api.get("/burst").status_code == 200
    assert 0 < passes[0] < 150


def test_a_tenant_holds_half_of_the_event_streams_and_a_key_a_quarter(redis_url: str, keys: Keys) -> None:
    def queued(who: str) -> str:
        queued_job = api.post("/evaluate", json=ROWS, headers=keys[who] | ASYNC)
        return f"/jobs/{queued_job.json()['id']}/events"

    with _api(redis_url, max_event_streams=8) as api, contextlib.ExitStack() as streams:

        def listen(who: str, path: str) -> httpx.Response:
            answer = streams.enter_context(api.stream("GET", path, headers=keys[who]))
            if answer.status_code != 200:
                answer.read()
            return answer

        own, others = queued("greedy"), queued("other")
        assert [listen("greedy", own).status_code for _ in range(2)] == [200, 200]
        refused = listen("greedy", own)
        assert code_of(refused) == (503, "too-many-streams")
        assert refused.json()["detail"] == "the API key has reached the limit of 2 open event streams"
        assert refused.headers["retry-after"]
        assert [listen("second", own).status_code for _ in range(2)] == [200, 200]
        third = ApiKeyStore(Redis.from_url(redis_url)).create("third", tenant="greedy", scope="write").text
        keys["third"] = {"Authorization": f"Bearer {third}"}
        while (full := listen("third", own)).status_code == 401:  # until the process has read the key
            pass
        assert full.json()["detail"] == "the tenant has reached the limit of 4 open event streams"
        assert listen("other", others).status_code == 200
    # Streams that were left are free again.
    with _api(redis_url, max_event_streams=4) as api:
        path = queued("greedy")
        for _ in range(3):
            with api.stream("GET", path, headers=keys["greedy"]) as answer:
                first = answer.status_code
            while first != 200:
                with api.stream("GET", path, headers=keys["greedy"]) as answer:
                    first = answer.status_code


def test_the_event_stream_of_a_revoked_key_ends(
    redis_url: str, redis: Redis, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 0.5)
    with _api(redis_url) as api:
        path = f"/jobs/{api.post('/evaluate', json=ROWS, headers=keys['greedy'] | ASYNC).json()['id']}"
        with api.stream("GET", f"{path}/events", headers=keys["greedy"]) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("id: ")
            ApiKeyStore(redis).revoke(keys["greedy"]["Authorization"].split("_")[1])
            assert len(list(islice(lines, 120))) < 120
        assert api.get(path, headers=keys["second"]).json()["status"] == "queued"


def test_a_stream_that_is_left_with_a_request_behind_it_is_free_again(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 3600.0)  # no heartbeat finds that nobody listens
    with _api(redis_url, max_event_streams=1) as api:
        path = f"/jobs/{api.post('/evaluate', json=ROWS, headers=ASYNC).json()['id']}/events"
        address = (str(api.base_url.host), api.base_url.port or 80)
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        for _ in range(3):
            with socket.create_connection(address, timeout=600) as connection:
                connection.sendall(request + request)
                while connection.recv(1000).startswith(b"HTTP/1.1 503"):  # the one before is on its way out
                    connection.sendall(request)
        with socket.create_connection(address, timeout=600) as connection:
            status = b""
            while status != b"200":
                connection.sendall(request)
                status = connection.recv(1000).split(b" ", 2)[1]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_without_keys_one_caller_may_hold_all_event_streams(redis_url: str, redis: Redis) -> None:
    with _api(redis_url, max_event_streams=2) as api, contextlib.ExitStack() as streams:
        path = f"/jobs/{api.post('/evaluate', json=ROWS, headers=ASYNC).json()['id']}/events"
        for _ in range(2):
            assert streams.enter_context(api.stream("GET", path)).status_code == 200
        refused = api.get(path)
        assert (refused.status_code, refused.json()["detail"]) == (
            503,
            "this process has reached the limit of 2 open event streams",
        )


@pytest.mark.slow
def test_a_small_request_on_a_large_stored_batch_takes_a_place(redis_url: str, redis: Redis) -> None:
    with _api(redis_url, max_heavy_requests=1, max_waiting_requests=0, store_timeout=600) as api:
        batch = api.post("/batches", json=_large(70_000)).json()["id"]
        fitted = body_of(api.post("/maps", json={**_large(1000), "method": "platt"}), 201)
        calls = {
            "/evaluate": {"batch": batch},
            "/maps": {"batch": batch, "method": "platt"},
            "/calibrate": {"batch": batch, "map": fitted["id"]},
            "/diagrams": {"batch": batch, "diagram": "reliability"},
            "/monitors": {"name": "a", "reference": {"batch": batch}},
        }
        with one_place_taken(redis, str(api.base_url)):
            for path, body in calls.items():
                refused = api.post(path, json=body)
                assert (path, refused.status_code) == (path, 503)
                assert refused.json()["type"] == "/problems/busy"
        for path, body in calls.items():
            assert (path, api.post(path, json=body).status_code) in {(path, 200), (path, 201), (path, 202)}
