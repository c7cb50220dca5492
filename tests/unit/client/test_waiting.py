"""How jobs are followed and waited for, as the lines of a stream and the answers of a server decide it."""

from __future__ import annotations

from itertools import chain

import httpx
import orjson
import pytest

from calibrant.client import JobFailed, JobTimeout, ProblemResponse
from calibrant.client.calls.jobs import wait
from calibrant.client.events import follow
from calibrant.client.retries import Patience
from calibrant.client.steps import Answer
from tests.unit.client.replies import answer, take

PATIENCE = Patience(tries=3)
CUT = httpx.ReadError("cut")


def _job(status: str, done: int = 0, **more: object) -> bytes:
    job = {"id": "job_1", "kind": "fit", "status": status, "created_at": "t", **more}
    # A later server may tell more.
    return orjson.dumps(job | {"progress": {"done": done, "total": 9, "stage": "", "later": 1}})


def _event(number: int, status: str, done: int = 0) -> list[str]:
    return [f"id: {number}-0", "event: progress", f"data: {_job(status, done).decode()}", ""]


def _looked(status: str, **headers: str) -> Answer:
    return answer(200, _job(status, result={"map": "map_x"} if status == "succeeded" else None), **headers)


def test_events_are_returned_once_each_and_continue_after_the_last() -> None:
    lines = [answer(), ": still here", "", *_event(1, "running"), "id: 2-0", "event: progress", CUT]
    call = take(follow(PATIENCE, "/jobs/job_1/events", None), [*lines, answer(), *_event(2, "succeeded")])
    assert [event.id for event in call.lines] == ["1-0", "2-0"]
    assert [request.headers.get("Last-Event-ID") for request in call.requests] == [None, "1-0"]
    assert len(call.pauses) == 1


def test_a_stream_without_events_is_abandoned() -> None:
    with pytest.raises(httpx.ReadError):
        take(follow(PATIENCE, "/", None), [CUT, answer(), "id: 1-0", CUT, CUT])
    with pytest.raises(httpx.RemoteProtocolError):
        take(follow(PATIENCE, "/", None), [answer(), None, answer(), None, answer(), None])
    with pytest.raises(ProblemResponse):
        take(follow(PATIENCE, "/", None), [answer(503, Retry_After="0")] * 3)
    # A heartbeat is something.
    took = [answer(), ":", CUT] * 5
    assert take(follow(PATIENCE, "/", None), [*took, answer(204)]).lines == []


def test_a_job_is_waited_for_by_its_events_and_its_result_is_looked_up_at_the_end() -> None:
    seen: list[tuple[str, int]] = []
    events = chain(_event(1, "queued"), _event(2, "running", 4), _event(3, "succeeded", 9))
    answers = [_looked("queued"), answer(), *events, _looked("succeeded")]
    call = take(wait(PATIENCE, "job_1", progress=lambda job: seen.append((job.status, job.progress.done))), answers)
    assert call.answer.result == {"map": "map_x"}
    assert seen == [("queued", 0), ("running", 4), ("succeeded", 0)]
    assert call.pauses == []


def test_a_job_whose_events_are_not_given_is_looked_at_when_the_server_says() -> None:
    looks = [_looked("running", Retry_After=seconds) for seconds in ("2", "60", "0", "soon")]
    answers = [
        response for look, stream in zip(looks, [answer(503), CUT] * 2, strict=True) for response in (look, stream)
    ]
    call = take(wait(PATIENCE, "job_1"), [*answers, _looked("succeeded")])
    assert call.pauses == [2.0, 5.0, 0.1, 5.0]
    assert [request.path for request in call.requests].count("/jobs/job_1/events") == 4


def test_a_job_that_is_not_done_in_time_goes_on_and_is_named() -> None:
    with pytest.raises(JobTimeout, match="job job_1 is still running after 0 s; it continues on the server") as late:
        take(wait(PATIENCE, "job_1", timeout=0.0), [_looked("running")])
    assert late.value.job_id == "job_1"
    assert isinstance(late.value, TimeoutError)
    call = take(wait(PATIENCE, "job_1", timeout=3.0), [_looked("running"), _looked("running"), _looked("succeeded")])
    assert call.pauses == [0.1, 0.1]


def test_a_job_that_ended_without_a_result_is_a_failure() -> None:
    problem = {"type": "/problems/worker-lost", "title": "Lost", "status": 500, "detail": "d"}
    with pytest.raises(JobFailed, match="500 Lost: d") as failure:
        take(wait(PATIENCE, "job_1"), [answer(200, _job("failed", problem=problem))])
    assert failure.value.code == "worker-lost"
    with pytest.raises(JobFailed, match="The job was cancelled: job_1"):
        take(wait(PATIENCE, "job_1"), [_looked("cancelled")])
