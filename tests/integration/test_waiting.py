"""Heavy requests that wait for each other in a real service."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import Scope

from service.callers import LOCAL
from service.guard import Slots
from service.settings import Settings
from tests.integration.conftest import serving
from tests.integration.redis_server import until
from tests.integration.visiting import Visitor

ROWS: dict[str, Any] = {"predictions": [0.125, 0.875] * 60_000, "labels": [0, 1] * 60_000}
HEAVY = ROWS | {"measures": ["brier"]}


class _Held:
    """A service whose only slot is taken until ``go_on``."""

    def __init__(self, redis_url: str, threads: ThreadPoolExecutor, limits: dict[str, Any]) -> None:
        self._settings = Settings(redis_url, max_heavy_requests=1, **limits)
        self._threads = threads
        self._taken: Scope = {"state": {"caller": LOCAL}}
        self.slots: Slots
        self.url = ""

    @contextlib.contextmanager
    def running(self) -> Iterator[_Held]:
        with serving(self._settings, prepare=self._prepare) as self.url:
            yield self

    def _prepare(self, app: FastAPI) -> None:
        self.slots = app.state.process.slots

        async def give_back() -> None:
            self.slots.give_back(self._taken)

        app.router.routes.insert(0, APIRoute("/given-back", give_back))

    def hold(self) -> None:
        self.slots.take(self._taken)

    def go_on(self) -> None:
        httpx.get(f"{self.url}/given-back", timeout=600).raise_for_status()

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return httpx.post(self.url + path, json=body, timeout=600)

    def waiting(self, path: str, body: dict[str, Any]) -> Future[httpx.Response]:
        """Send a request, and return when it waits."""
        before = self.slots.n_waiting
        answer = self._threads.submit(self.post, path, body)
        until(lambda: self.slots.n_waiting > before or answer.done())
        assert not answer.done()
        return answer


@contextlib.contextmanager
def _service(redis_url: str, **limits: Any) -> Iterator[_Held]:
    with ThreadPoolExecutor(20) as threads, _Held(redis_url, threads, limits).running() as service:
        yield service


@pytest.mark.slow
@pytest.mark.usefixtures("redis")
def test_heavy_requests_wait_and_all_succeed(redis_url: str) -> None:
    with _service(redis_url) as service:
        service.hold()
        answers = [service.waiting("/evaluate", HEAVY) for _ in range(16)]
        light = {"predictions": [0.1, 0.9], "labels": [0, 1]}
        assert service.post("/evaluate", light).status_code == 200  # waits for none of them
        service.go_on()
        assert {answer.result().status_code for answer in answers} == {200}
        assert service.slots.n_waiting == 0


@pytest.mark.usefixtures("redis")
def test_beyond_the_line_a_request_is_refused_and_all_others_succeed(redis_url: str) -> None:
    with _service(redis_url, max_waiting_requests=3) as service:
        service.hold()
        answers = [service.waiting("/evaluate", HEAVY) for _ in range(3)]
        refused = service.post("/evaluate", HEAVY)
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/busy")
        assert int(refused.headers["Retry-After"]) >= 1
        service.go_on()
        assert {answer.result().status_code for answer in answers} == {200}
        assert service.post("/evaluate", HEAVY).status_code == 200


@pytest.mark.slow
@pytest.mark.usefixtures("redis")
def test_work_on_stored_rows_waits_and_takes_effect_once(redis_url: str) -> None:
    with _service(redis_url) as service:
        batch = service.post("/batches", ROWS).json()["id"]
        fit = {"predictions": [0.2, 0.4, 0.6, 0.8], "labels": [0, 1, 0, 1], "method": "platt"}
        fitted = service.post("/maps", fit).json()["id"]
        service.hold()
        calls = {
            "/evaluate": {"batch": batch},
            "/maps": {"batch": batch, "method": "platt", "name": "waited"},
            "/calibrate": {"batch": batch, "map": fitted},
            "/diagrams": {"batch": batch, "diagram": "reliability"},
            "/monitors": {"name": "waited", "reference": {"batch": batch}},
        }
        answers = {path: service.waiting(path, body) for path, body in calls.items()}
        service.go_on()
        for path, answer in answers.items():
            assert answer.result().is_success, (path, answer.result().text)
        maps = httpx.get(f"{service.url}/maps", timeout=600).json()["items"]
        assert [record["version"] for record in maps if record["name"] == "waited"] == [1]


@pytest.mark.usefixtures("redis")
def test_a_small_body_that_turns_out_to_be_heavy_waits(redis_url: str) -> None:
    many = {"predictions": [0.1, 0.9] * 80_000}  # less than a MiB of text, more of numbers
    assert len(orjson.dumps(many)) < 1 << 20
    with _service(redis_url) as service:
        service.hold()
        answer = service.waiting("/batches", many)
        service.go_on()
        assert answer.result().json()["n"] == 160_000


@pytest.mark.usefixtures("redis")
def test_an_uploaded_file_that_turns_out_to_be_heavy_waits_and_is_read_whole(redis_url: str) -> None:
    content = b"p,y\n" + b".1,0\n.9,1\n" * 80_000
    with _service(redis_url) as service, ThreadPoolExecutor(1) as thread, Visitor(service.url) as visitor:
        service.hold()
        form = {"csrf_token": visitor.token("/")}
        sent = thread.submit(visitor.post, "/ui/upload", data=form, files={"file": ("a.csv", content)})
        until(lambda: service.slots.n_waiting == 1 or sent.done())
        assert not sent.done()
        service.go_on()
        assert sent.result().status_code == 303
        assert [batch["n"] for batch in visitor.get("/batches").json()["items"]] == [160_000]


@pytest.mark.usefixtures("redis")
def test_a_client_that_goes_away_leaves_the_line(redis_url: str) -> None:
    body = orjson.dumps(HEAVY)
    with _service(redis_url, max_waiting_requests=1) as service:
        service.hold()
        place = urlsplit(service.url)
        head = f"POST /evaluate HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
        with socket.create_connection((str(place.hostname), place.port or 80), timeout=600) as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            until(lambda: service.slots.n_waiting == 1)
        until(lambda: service.slots.n_waiting == 0)
        answer = service.waiting("/evaluate", HEAVY)
        service.go_on()
        assert answer.result().status_code == 200


@pytest.mark.slow
@pytest.mark.usefixtures("redis")
def test_a_stop_refuses_what_waits(redis_url: str) -> None:
    with _service(redis_url) as service:
        service.hold()
        waiting = [service.waiting("/evaluate", HEAVY) for _ in range(3)]
    for answer in waiting:  # the service has stopped
        refused = answer.result()
        assert (refused.status_code, refused.json()["detail"]) == (503, "this process is stopping")
        assert refused.headers["Retry-After"] == "1"


@pytest.mark.slow
@pytest.mark.usefixtures("redis")
def test_a_client_that_does_not_read_its_response_holds_no_slot(redis_url: str) -> None:
    with _service(redis_url) as service:
        fit = {"predictions": [0.2, 0.4, 0.6, 0.8], "labels": [0, 1, 0, 1], "method": "platt"}
        body = orjson.dumps({"map": service.post("/maps", fit).json()["id"], "predictions": [0.123456789] * 1_000_000})
        place = urlsplit(service.url)
        head = f"POST /calibrate HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
        with socket.create_connection((str(place.hostname), place.port or 80), timeout=600) as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert connection.recv(12) == b"HTTP/1.1 200"
            assert service.post("/evaluate", HEAVY).status_code == 200
