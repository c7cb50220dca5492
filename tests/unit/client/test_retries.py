from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from calibrant.client import ProblemResponse
from calibrant.client.retries import Patience, backoff, pause_of, retry_after, send
from calibrant.client.steps import Answer, Request
from tests.unit.client.replies import answer, take

PATIENCE = Patience(tries=4, seconds=60.0)
POST, GET = Request("POST", "/evaluate", content=b"{}"), Request("GET", "/maps", reads=True)
UNHEARD, LOST = httpx.ConnectError("refused"), httpx.ReadError("cut")
SENT_ONCE = (400, 401, 403, 404, 408, 409, 412, 413, 415, 422, 500, 307)


@pytest.mark.parametrize("request_", [POST, GET])
@pytest.mark.parametrize("status", SENT_ONCE)
def test_permanent_errors_are_not_retried(request_: Request, status: int) -> None:
    with pytest.raises(ProblemResponse) as refusal:
        take(send(PATIENCE, request_), [answer(status)])
    assert refusal.value.status == status


@pytest.mark.parametrize(
    "early", [LOST, UNHEARD, answer(429), answer(503), answer(502), answer(504), answer(409, Retry_After="0")]
)
def test_temporary_errors_are_retried(early: Answer | httpx.TransportError) -> None:
    call = take(send(PATIENCE, POST), [early, early, early, answer(201)])
    assert call.answer.status == 201
    keys = {request.headers["Idempotency-Key"] for request in call.requests}
    assert len(call.requests) == 4
    assert len(keys) == 1
    again = take(send(PATIENCE, POST), [answer()])
    assert again.requests[0].headers["Idempotency-Key"] not in keys


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_changes_have_an_idempotency_key_and_reads_have_none(method: str) -> None:
    [request] = take(send(PATIENCE, Request(method, "/maps")), [answer()]).requests
    assert len(request.headers["Idempotency-Key"]) == 32
    [request] = take(send(PATIENCE, GET), [answer()]).requests
    assert "Idempotency-Key" not in request.headers
    [request] = take(send(PATIENCE, Request(method, "/", headers={"Idempotency-Key": "mine"})), [answer()]).requests
    assert request.headers["Idempotency-Key"] == "mine"


def test_retries_are_bounded_and_the_last_error_is_raised() -> None:
    full = answer(503, b'{"type": "/problems/busy", "title": "Busy", "status": 503, "detail": "d"}', X_Request_Id="r")
    with pytest.raises(ProblemResponse, match="503 Busy: d") as refusal:
        take(send(PATIENCE, POST), [LOST, LOST, LOST, full])
    assert (refusal.value.code, refusal.value.status, refusal.value.request_id) == ("busy", 503, "r")
    with pytest.raises(httpx.ReadError):
        take(send(PATIENCE, POST), [full, full, full, LOST])
    with pytest.raises(httpx.ReadError):
        take(send(Patience(tries=1), POST), [LOST])


def test_a_pause_is_the_servers_own_and_one_beyond_the_time_left_is_not_begun() -> None:
    assert take(send(PATIENCE, GET), [answer(429, Retry_After="7"), answer()]).pauses == [7.0]
    with pytest.raises(ProblemResponse):
        take(send(Patience(seconds=5.0), GET), [answer(429, Retry_After="7")])


@pytest.mark.parametrize("error", [httpx.UnsupportedProtocol("x"), httpx.LocalProtocolError("x")])
def test_errors_of_the_client_are_not_retried(error: httpx.TransportError) -> None:
    with pytest.raises(type(error)):
        take(send(PATIENCE, GET), [error])


def test_pauses_grow_and_are_not_the_same_for_everybody() -> None:
    assert all(0.125 <= backoff(1) <= 0.25 and 0.5 <= backoff(3) <= 1.0 and backoff(50) <= 8.0 for _ in range(100))
    assert len({backoff(1) for _ in range(10)}) > 1


def test_retry_after_is_seconds_or_a_date_by_the_servers_clock() -> None:
    then = datetime.now(UTC) + timedelta(days=400)
    headers = {"Date": format_datetime(then, usegmt=True)}
    assert retry_after({**headers, "Retry-After": format_datetime(then + timedelta(seconds=9), usegmt=True)}) == 9.0
    assert retry_after({**headers, "Retry-After": format_datetime(then - timedelta(seconds=9), usegmt=True)}) == 0.0
    soon = datetime.fromtimestamp(time.time() + 100, UTC)
    assert 90 < (retry_after({"Retry-After": format_datetime(soon, usegmt=True)}) or 0) <= 100
    for nothing in ("", "soon", "-1", "1.5", "²"):
        assert retry_after({"Retry-After": nothing}) is None
    assert pause_of(answer(429, Retry_After="0")) == 0.0


def test_a_404_of_a_retried_deletion_is_a_success() -> None:
    delete = Request("DELETE", "/maps/x", forgets=True)
    assert take(send(PATIENCE, delete), [LOST, answer(404)]).answer.status == 404
    for never_heard in ([answer(404)], [UNHEARD, answer(404)], [answer(503), answer(404)]):
        with pytest.raises(ProblemResponse):
            take(send(PATIENCE, delete), never_heard)


@pytest.mark.parametrize(("tries", "seconds"), [(0, 1.0), (1, 0.0), (1, float("nan"))])
def test_a_patience_of_nothing_is_refused(tries: int, seconds: float) -> None:
    with pytest.raises(ValueError, match=r"tries must be an integer|timeout must be a finite"):
        Patience(tries, seconds)


def test_a_problem_without_a_document_has_its_status_alone() -> None:
    with pytest.raises(ProblemResponse, match=r"307 Error without a problem document: .*; redirects are not followed"):
        take(send(PATIENCE, GET), [answer(307, b"<html>", Location="https://elsewhere.example/")])
    with pytest.raises(ProblemResponse, match="599"):
        take(send(PATIENCE, GET), [answer(599, b"<html>")])
