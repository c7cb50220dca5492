from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis.exceptions import TimeoutError as RedisTimeoutError
from starlette.requests import ClientDisconnect
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.store.census import Census
from backend.store.jobs.runs import Ended
from service.metrics import StoreMetrics
from service.observe import Metrics, Observe, route_of


class Caller:
    """Drives an application without a server."""

    def __init__(self, app: ASGIApp) -> None:
        self.metrics = Metrics(StoreMetrics(lambda: Census({}, 0, 0, {})))
        self._app = Observe(app, self.metrics.requests)

    def call(
        self, method: str = "GET", path: str = "/measures", headers: dict[str, str] | None = None
    ) -> list[Message]:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"12345", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        raw = [(name.encode(), text.encode("latin-1")) for name, text in (headers or {}).items()]
        scope = {"type": "http", "method": method, "path": path, "headers": raw, "state": {}}
        asyncio.run(self._app(scope, receive, send))
        return sent

    def samples(self, name: str) -> dict[tuple[str, ...], float]:
        text = self.metrics.text().decode()
        families = text_string_to_metric_families(text)
        return {
            tuple(sample.labels[label] for label in sorted(sample.labels)): sample.value
            for family in families
            for sample in family.samples
            if sample.name == name
        }


async def _fine(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"abc"})


async def _broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise ValueError("0.987654")


async def _gone(scope: Scope, receive: Receive, send: Send) -> None:
    raise ClientDisconnect


async def _breaks_off(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise ValueError("0.987654")


def _header(sent: list[Message], name: bytes) -> bytes:
    return dict(sent[0]["headers"])[name]  # type: ignore[no-any-return]


@pytest.mark.parametrize("chosen", ["a", "7f3b-2", "x" * 128, '"quoted"=\\'])
def test_a_valid_request_id_of_the_caller_is_kept(chosen: str) -> None:
    assert _header(Caller(_fine).call(headers={"x-request-id": chosen}), b"x-request-id") == chosen.encode()


@pytest.mark.parametrize("chosen", ["", "x" * 129, "a b", "a\nb", "a\rb", "é", "\x7f", "a\0"])
def test_an_unusable_request_id_is_replaced(chosen: str) -> None:
    request_id = _header(Caller(_fine).call(headers={"x-request-id": chosen}), b"x-request-id")
    assert len(request_id) == 32
    assert request_id.isalnum()


def test_bytes_are_counted_as_they_pass() -> None:
    caller = Caller(_fine)
    caller.call()
    caller.call()
    assert caller.samples("calibrant_http_request_body_bytes_sum") == {("GET", "unmatched"): 10}
    assert caller.samples("calibrant_http_response_body_bytes_sum") == {("GET", "unmatched"): 6}
    assert caller.samples("calibrant_http_request_duration_seconds_count") == {("GET", "unmatched"): 2}


def test_metric_labels_are_bounded_for_any_request() -> None:
    caller = Caller(_fine)
    for i in range(50):
        caller.call(method=f"BREW{i}", path=f"/{i}")
    assert caller.samples("calibrant_http_requests_total") == {("other", "unmatched", "200"): 50}


def test_an_error_of_ours_is_answered_with_the_id_and_counted() -> None:
    caller = Caller(_broken)
    sent = caller.call(headers={"x-request-id": "the-id"})
    assert sent[0]["status"] == 500
    assert _header(sent, b"x-request-id") == b"the-id"
    assert b"/problems/internal-error" in sent[1]["body"]
    assert b"0.987654" not in sent[1]["body"]
    assert caller.samples("calibrant_http_requests_total") == {("GET", "unmatched", "500"): 1}


def test_an_answer_that_breaks_off_is_left_to_the_server_and_counted() -> None:
    caller = Caller(_breaks_off)
    with pytest.raises(ValueError, match=r"0\.98"):
        caller.call()
    assert caller.samples("calibrant_http_requests_total") == {("GET", "unmatched", "200"): 1}


def test_a_caller_that_goes_away_is_no_error() -> None:
    caller = Caller(_gone)
    assert caller.call() == []
    assert caller.samples("calibrant_http_requests_total") == {("GET", "unmatched", "499"): 1}


@pytest.mark.parametrize(
    ("path", "route"),
    [("/plain", "/plain"), ("/of/a-name", "/of/{name}"), ("/files/any/name", "/files"), ("/else", "unmatched")],
)
def test_routes_of_starlette_are_named_without_the_callers_words(path: str, route: str) -> None:
    seen: list[str] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        await router(scope, receive, send)
        seen.append(route_of(scope))

    async def endpoint(request: Any) -> ASGIApp:
        return _fine

    router = Router([Route("/plain", endpoint), Route("/of/{name}", endpoint), Mount("/files", _fine)])
    Caller(note).call(path=path)
    assert seen == [route]


def test_while_the_store_is_away_its_metrics_are_left_out() -> None:
    def away() -> Census:
        raise RedisTimeoutError

    text = Metrics(StoreMetrics(away)).text().decode()
    assert "calibrant_store_up 0.0" in text
    assert "calibrant_maps" not in text
    assert "calibrant_jobs_total" not in text


def test_metrics_have_the_counts_of_the_store() -> None:
    ended = Ended(number=3)
    ended.seconds.add(0.2)
    ended.seconds.add(7000.0)
    census = Census({"fits": 2}, 5, 1, {("fit", "failed"): ended}, chores={("look", "done"): 7}, deliveries={"dead": 4})
    text = Metrics(StoreMetrics(lambda: census)).text().decode()
    for line in (
        "calibrant_store_up 1.0",
        "calibrant_maps 5.0",
        "calibrant_workers 1.0",
        'calibrant_queue_jobs{queue="fits"} 2.0',
        'calibrant_jobs_total{kind="fit",outcome="failed"} 3.0',
        'calibrant_job_duration_seconds_bucket{kind="fit",le="0.1",outcome="failed"} 0.0',
        'calibrant_job_duration_seconds_bucket{kind="fit",le="0.25",outcome="failed"} 1.0',
        'calibrant_job_duration_seconds_bucket{kind="fit",le="+Inf",outcome="failed"} 2.0',
        'calibrant_job_duration_seconds_sum{kind="fit",outcome="failed"} 7000.2',
        'calibrant_chores_total{kind="look",outcome="done"} 7.0',
        'calibrant_deliveries_total{outcome="dead"} 4.0',
    ):
        assert line in text.splitlines()
