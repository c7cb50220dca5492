from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis
from redis.client import PubSub

from backend.store.clock import stamp
from backend.store.errors import JobFinal
from backend.store.jobs.queues import FITS, rq_queue
from backend.store.jobs.runs import part_id
from backend.store.keyspace import Keyspace, Shared, new_id
from backend.store.store import Store
from calibrant.client import Calibrant
from schemas.jobs import Progress
from schemas.problems import Problem
from service.settings import Settings
from tests.integration.conftest import claimed, serving, serving_client, submitted
from tests.integration.responses import body_of, code_of, place_of

RANDOM = np.random.default_rng(0)
P = RANDOM.random(400)
Y = (RANDOM.random(400) < P).astype(int)
ROWS = {"predictions": P.tolist(), "labels": Y.tolist()}
MANY = RANDOM.random(10_000)
#: Would take a worker minutes.
ENDLESS = {
    "predictions": MANY.tolist(),
    "labels": (RANDOM.random(10_000) < MANY).astype(int).tolist(),
    "method": "pl-de",
    "options": {"max_segments": 20, "folds": 100},
}


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The events of a stream: their id, name and job."""
    event: dict[str, Any] = {}
    for line in lines:
        name, _, text = line.partition(": ")
        if name == "data":
            yield json.loads(text) | event
        elif name:
            event["at" if name == "id" else name] = text


def _ids(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [job["id"] for job in response.json()["items"]]


def test_pages_show_each_job_once_whatever_comes_and_goes_between_them(
    api: httpx.Client, store: Store, redis: Redis
) -> None:
    moments = [stamp() for _ in range(5)]
    # Five jobs of each moment, so that pages end amid equal times.
    jobs = [submitted(store, created_at=moments[i // 5]).id for i in range(25)]
    first = api.get("/jobs", params={"limit": 10})
    shown = _ids(first)
    newcomer = submitted(store).id
    left = next(job for job in jobs if job not in shown)
    redis.delete(Keyspace().job(left), Keyspace().job(shown[0]))
    page = first
    while page.json()["next"] is not None:
        assert page.links["next"]["url"].startswith("/jobs?limit=10&cursor=")
        page = api.get(page.links["next"]["url"])
        shown += _ids(page)
    assert len(shown) == len(set(shown)) == 24
    assert set(shown) == set(jobs) - {left}
    assert _ids(api.get("/jobs", params={"limit": 1})) == [newcomer]
    assert len(_ids(api.get("/jobs", params={"limit": 100}))) == 24
    assert redis.zscore(Keyspace().jobs(), left) is None


def test_jobs_are_found_by_status_kind_batch_and_time(api: httpx.Client, store: Store) -> None:
    old = submitted(store, created_at="2026-01-01T00:00:00.000Z", kind="evaluate", spec={"batch": "batch_a"})
    new = submitted(store, created_at="2026-02-01T00:00:00.000Z")
    claimed(store, old.id)
    of_queries = {
        "status=running": [old.id],
        "status=queued": [new.id],
        "kind=evaluate": [old.id],
        "batch=batch_a": [old.id],
        "created_after=2026-01-01T00:00:00.001Z": [new.id],
        "created_after=2026-02-01T01:00:00%2B01:00": [new.id],
        "created_before=2026-02-01T00:00:00Z": [old.id],
        "created_after=2026-01-01T00:00:00Z&created_before=2026-01-01T00:00:00Z": [],
        "status=failed": [],
        "": [new.id, old.id],
    }
    assert {query: _ids(api.get(f"/jobs?{query}")) for query in of_queries} == of_queries
    assert "result" not in api.get("/jobs").json()["items"][0]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "?limit"),
        ("limit=101", "?limit"),
        ("limit=x", "?limit"),
        ("status=lost", "?status"),
        ("created_after=yesterday", "?created_after"),
        ("created_after=2026-01-01T00:00:00", "?created_after"),
        ("created_after=1577836800", "?created_after"),
        ("created_before=1577836800.5", "?created_before"),
        ("created_before=2026-01-01T00:00Z", "?created_before"),
        ("page=2", "?page"),
        ("cursor=*", "?cursor"),
        ("cursor=bmFuIHg", "?cursor"),
        ("cursor=" + "a" * 300, "?cursor"),
    ],
)
def test_an_invalid_query_for_jobs_is_refused(api: httpx.Client, query: str, pointer: str) -> None:
    refused = body_of(api.get(f"/jobs?{query}"), 422)
    assert place_of(refused["errors"][0]) == pointer


def test_a_caller_who_prefers_a_job_gets_one_for_anything(http: httpx.Client, client: Calibrant) -> None:
    for path, body in (("/evaluate", ROWS), ("/maps", ROWS | {"method": "platt"})):
        queued = http.post(path, json=body, headers={"Prefer": "respond-async"})
        assert queued.status_code == 202
        assert queued.headers["Preference-Applied"] == "respond-async"
        assert queued.headers["Location"] == f"/jobs/{queued.json()['id']}"
        assert queued.headers["Retry-After"]
        assert client.wait(queued.json()["id"], timeout=600).status == "succeeded"


def test_a_caller_who_waits_gets_the_answer_as_if_it_had_been_made_at_once(http: httpx.Client) -> None:
    inline = http.post("/evaluate", json=ROWS)
    waited = http.post("/evaluate", json=ROWS, headers={"Prefer": "respond-async, wait=600"})
    assert waited.status_code == 200
    assert waited.json() == inline.json()
    assert waited.headers["Preference-Applied"] == "respond-async, wait=600"
    fitted = http.post("/maps", json=ROWS | {"method": "pl", "name": "waited"}, headers={"Prefer": "wait=9000"})
    assert fitted.status_code == 201
    assert fitted.headers["Location"] == f"/maps/{fitted.json()['id']}"
    assert fitted.headers["Preference-Applied"] == "wait=600"
    assert http.get("/maps/waited").json() == fitted.json()


def test_a_caller_whose_wait_runs_out_gets_the_job(api: httpx.Client, store: Store) -> None:
    queued = api.post("/maps", json=ROWS, headers={"Prefer": "wait=1"})
    assert queued.status_code == 202
    looked = api.get(queued.headers["Location"])
    assert looked.headers["Location"] == queued.headers["Location"]
    assert looked.headers["Retry-After"]


def test_a_job_that_fails_or_is_cancelled_while_its_caller_waits_answers_its_problem(
    api: httpx.Client, store: Store, redis: Redis
) -> None:
    problem = Problem(type="/problems/one-class", title="x", status=422, detail="x")
    with ThreadPoolExecutor(2) as threads, redis.pubsub() as changes:  # type: ignore[no-untyped-call]
        changes.subscribe(Shared.job_changes())
        changes.get_message(timeout=600)
        ends = [(lambda job: claimed(store, job).fail(problem), 422), (store.jobs.cancel, 409)]
        for end, status in ends:
            waiting = threads.submit(api.post, "/maps", json=ROWS, headers={"Prefer": "wait=600"})
            end(_newcomer(changes, store))  # type: ignore[no-untyped-call]
            assert waiting.result().status_code == status
            assert waiting.result().headers["content-type"] == "application/problem+json"


def _newcomer(changes: PubSub, store: Store) -> str:
    """The next job that is queued."""
    while True:
        message = changes.get_message(timeout=600)
        assert message is not None
        job_id: str = message["data"].decode().rpartition(":")[2]
        if store.jobs.get(job_id).status == "queued":
            return job_id


@pytest.mark.slow
def test_waiting_requests_hold_no_thread(store: Store, redis_url: str, redis: Redis) -> None:
    job = submitted(store)
    many = 120  # three times the threads that the API has
    with (
        serving_client(Settings(redis_url)) as api,
        ThreadPoolExecutor(many) as threads,
    ):
        waiting = [threads.submit(api.get, f"/jobs/{job.id}", headers={"Prefer": "wait=600"}) for _ in range(many)]
        for _ in range(20):
            assert api.get("/health/ready").status_code == 200
        assert not any(answer.done() for answer in waiting)
        claimed(store, job.id).succeed({"map": "map_x"})
        assert {answer.result().json()["status"] for answer in waiting} == {"succeeded"}


def test_events_report_every_change_and_resume_where_a_caller_left(api: httpx.Client, store: Store) -> None:
    job = submitted(store)
    where = f"/jobs/{job.id}/events"
    with api.stream("GET", where) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = _events(stream.iter_lines())
        seen = [next(events)]
        run = claimed(store, job.id)
        seen.append(next(events))
    run.report(Progress(done=1, total=3, stage="folds"))
    run.report(Progress(done=2, total=3, stage="folds"))
    with api.stream("GET", where) as stream:
        events = _events(stream.iter_lines())
        again = [next(events) for _ in range(4)]
        run.succeed({"map": "map_x"})
        again += list(events)
    assert again[:2] == seen
    assert [(e["event"], e["status"], e["progress"]["done"]) for e in again] == [
        ("status", "queued", 0),
        ("status", "running", 0),
        ("progress", "running", 1),
        ("progress", "running", 2),
        ("status", "succeeded", 3),
    ]
    assert "result" not in again[-1]


def test_a_stream_taken_up_again_misses_and_doubles_nothing(api: httpx.Client, store: Store) -> None:
    job = submitted(store)
    run = claimed(store, job.id)
    for done in range(50):
        run.report(Progress(done=done + 1, total=50))
    run.succeed({})
    where = f"/jobs/{job.id}/events"
    whole = list(_events(api.get(where).iter_lines()))
    assert len(whole) == 53
    for last in (0, 25, 51):
        rest = api.get(where, headers={"Last-Event-ID": whole[last]["at"]})
        assert rest.status_code == 200
        assert list(_events(rest.iter_lines())) == whole[last + 1 :]
    assert api.get(where, headers={"Last-Event-ID": whole[-1]["at"]}).status_code == 204
    assert api.get(where, headers={"Last-Event-ID": "x"}).status_code == 422
    assert api.get(f"/jobs/{new_id('job')}/events").status_code == 404


def test_more_streams_than_a_process_may_have_are_refused(store: Store, redis_url: str) -> None:
    job = submitted(store)
    where = f"/jobs/{job.id}/events"
    with serving_client(Settings(redis_url, max_event_streams=1)) as api:
        with api.stream("GET", where) as stream:
            first = stream.iter_lines()
            next(first)
            refused = api.get(where)
            assert refused.status_code == 503
            assert refused.headers["Retry-After"]
            store.jobs.cancel(job.id)
            list(first)
        assert api.get(where).status_code == 200


def test_streams_end_when_the_service_stops(store: Store, redis_url: str) -> None:
    job = submitted(store)
    with (
        contextlib.ExitStack() as stack_of_streams,
        ThreadPoolExecutor(1) as threads,
        httpx.Client(timeout=600) as http,
    ):
        with serving(Settings(redis_url)) as url:
            lines = stack_of_streams.enter_context(http.stream("GET", f"{url}/jobs/{job.id}/events")).iter_lines()
            next(lines)
            claimed(store, job.id)
            assert any("running" in line for line in lines)
            rest = threads.submit(list, lines)
        assert rest.result() is not None


def test_a_queued_job_is_cancelled_at_once(api: httpx.Client, store: Store, redis: Redis) -> None:
    job = submitted(store)
    assert rq_queue(redis, FITS).get_job_ids() == [f"{job.id}-1"]
    cancelled = body_of(api.post(f"/jobs/{job.id}/cancel"))
    assert cancelled["status"] == "cancelled"
    assert cancelled["finished_at"]
    assert rq_queue(redis, FITS).get_job_ids() == []
    assert api.post(f"/jobs/{job.id}/cancel").json() == cancelled
    assert api.post(f"/jobs/{new_id('job')}/cancel").status_code == 404


def test_a_finished_job_cannot_be_cancelled(api: httpx.Client, store: Store) -> None:
    job = submitted(store)
    claimed(store, job.id).succeed({"map": "map_x"})
    refused = api.post(f"/jobs/{job.id}/cancel")
    assert code_of(refused) == (409, "job-final")
    with pytest.raises(JobFinal):
        store.jobs.cancel(job.id)


def test_an_ended_job_is_deleted_with_its_events_and_keeps_its_map(http: httpx.Client) -> None:
    queued = http.post("/maps", json=ROWS | {"method": "identity", "name": "kept"}, headers={"Prefer": "respond-async"})
    job = queued.json()["id"]
    assert http.get(f"/jobs/{job}", headers={"Prefer": "wait=600"}).json()["status"] == "succeeded"
    assert http.delete(f"/jobs/{job}").status_code == 204
    assert http.get("/maps/kept").status_code == 200
    assert job not in _ids(http.get("/jobs"))
    for method, path in (("GET", ""), ("GET", "/events"), ("GET", "/diagram.svg"), ("POST", "/cancel"), ("DELETE", "")):
        answer = http.request(method, f"/jobs/{job}{path}")
        assert code_of(answer) == (404, "unknown-job")


def test_a_job_that_has_not_ended_is_not_deleted(api: httpx.Client, store: Store) -> None:
    queued, running = submitted(store), submitted(store)
    run = claimed(store, running.id)
    for job in (queued, running):
        refused = api.delete(f"/jobs/{job.id}")
        assert code_of(refused) == (409, "job-not-final")
        assert "/cancel" in api.get(refused.json()["type"], headers={"Accept": "application/json"}).json()["remedy"]
        assert refused.headers["Location"] == f"/jobs/{job.id}"
    assert [store.jobs.get(job.id).status for job in (queued, running)] == ["queued", "running"]
    run.succeed({"map": "map_x"})
    assert api.delete(f"/jobs/{running.id}").status_code == 204


def test_a_deleted_job_leaves_no_keys(api: httpx.Client, store: Store, redis: Redis) -> None:
    before = set(redis.scan_iter())
    job = submitted(store)
    claimed(store, job.id).succeed({"map": "map_x"})
    assert api.delete(f"/jobs/{job.id}").status_code == 204
    assert [key for key in set(redis.scan_iter()) - before if job.id.encode() in key] == []
    assert redis.zscore(store.keys.jobs(), job.id) is None


def test_a_part_of_a_job_is_not_deleted(api: httpx.Client, store: Store) -> None:
    part = part_id(submitted(store, parts=2).id, 0)
    assert api.delete(f"/jobs/{part}").status_code == 404
    assert api.post(f"/jobs/{part}/cancel").status_code == 404


def test_deletions_at_the_end_of_a_job_delete_it_once_or_not_at_all(api: httpx.Client, store: Store) -> None:
    jobs = [submitted(store) for _ in range(8)]
    runs = [claimed(store, job.id) for job in jobs]
    with ThreadPoolExecutor(4) as threads:
        ends = [threads.submit(run.succeed, {"map": "map_x"}) for run in runs]
        answers = list(threads.map(lambda i: (i // 3, api.delete(f"/jobs/{jobs[i // 3].id}").status_code), range(24)))
        assert [end.result() for end in ends] == [None] * 8
    for number, job in enumerate(jobs):
        codes = [code for of, code in answers if of == number]
        assert codes.count(204) == (api.get(f"/jobs/{job.id}").status_code == 404)
        assert set(codes) <= {204, 404, 409}


@pytest.mark.parametrize(
    "job_id", ["job_", "job_%00", "..%2Fmaps", "job_" + "0" * 5000, "%F0%9F%98%80", "job_*", "job_0%0D%0AX: 1"]
)
def test_hostile_job_ids_are_unknown(api: httpx.Client, job_id: str) -> None:
    for method, path in (("DELETE", ""), ("POST", "/cancel")):
        assert api.request(method, f"/jobs/{job_id}{path}").status_code == 404


def test_a_cancellation_accepts_no_body(api: httpx.Client, store: Store) -> None:
    job = submitted(store)
    assert api.post(f"/jobs/{job.id}/cancel", json={"force": True}).status_code == 422
    assert store.jobs.get(job.id).status == "queued"


def test_a_repeated_cancellation_replays_its_response(api: httpx.Client, store: Store) -> None:
    job, headers = submitted(store), {"Idempotency-Key": "cancel-1"}
    first, second = (api.post(f"/jobs/{job.id}/cancel", headers=headers) for _ in range(2))
    assert (first.status_code, second.headers.get("Idempotency-Replayed")) == (200, "true")
    assert first.json() == second.json()


def test_jobs_say_what_they_are(http: httpx.Client) -> None:
    batch, other = (http.post("/batches", json=ROWS).json()["id"] for _ in range(2))
    wait = {"Prefer": "respond-async"}
    fit = http.post("/maps", json={"batch": batch, "method": "platt", "name": "spam"}, headers=wait).json()
    about = {"kind": "fit", "method": "platt", "map": "spam", "batch": batch, "batches": None, "created_by": None}
    assert fit | about == fit
    fitted = http.get(f"/jobs/{fit['id']}", headers={"Prefer": "wait=600"}).json()
    assert fitted | about == fitted
    lasts = datetime.fromisoformat(fitted["expires_at"]) - datetime.fromisoformat(fitted["finished_at"])
    assert (fit["expires_at"], lasts.total_seconds()) == (None, Settings("").job_ttl)
    applied = http.post("/evaluate", json={"batch": batch, "map": "spam"}, headers=wait).json()
    about = {"kind": "evaluate", "method": None, "map": fitted["result"]["map"], "batch": batch}
    assert applied | about == applied
    several = http.post("/evaluate", json={"batches": [batch, other]}, headers=wait).json()
    assert (several["batch"], several["batches"]) == (None, [batch, other])
    listed = http.get("/jobs", params={"limit": 3}).json()["items"]
    assert [job["map"] for job in listed] == [None, applied["map"], "spam"]
    events = list(_events(http.get(f"/jobs/{fit['id']}/events").iter_lines()))
    assert events[-1]["expires_at"] == fitted["expires_at"]
    assert {event["map"] for event in events} == {"spam"}


def test_a_running_job_is_stopped_and_its_worker_goes_on(http: httpx.Client, client: Calibrant) -> None:
    endless = http.post("/maps", json=ENDLESS).json()["id"]
    with http.stream("GET", f"/jobs/{endless}/events") as stream:
        for event in _events(stream.iter_lines()):
            if event["status"] == "running":
                break
    assert http.post(f"/jobs/{endless}/cancel").json()["status"] == "cancelled"
    assert http.post("/evaluate", json=ROWS, headers={"Prefer": "respond-async, wait=600"}).status_code == 200
    job = client.job(endless)
    assert (job.status, job.result, job.problem) == ("cancelled", None, None)
    events = list(_events(http.get(f"/jobs/{endless}/events").iter_lines()))
    assert [event["status"] for event in events if event["event"] == "status"] == ["queued", "running", "cancelled"]


def test_jobs_cancelled_while_they_begin_run_or_end_leave_no_map(http: httpx.Client) -> None:
    with ThreadPoolExecutor(4) as threads:
        jobs = [http.post("/maps", json=ROWS | {"method": "pl"}).json()["id"] for _ in range(8)]
        answers = list(threads.map(lambda job: http.post(f"/jobs/{job}/cancel"), jobs))
    for job, answer in zip(jobs, answers, strict=True):
        final = http.get(f"/jobs/{job}").json()["status"]
        assert (answer.status_code, final) in ((200, "cancelled"), (409, "succeeded"))
        stored = http.get(f"/maps/{job.replace('job_', 'map_')}").status_code
        assert stored == (404 if final == "cancelled" else 200)


def test_a_head_of_a_stream_ends_at_once(api: httpx.Client, store: Store) -> None:
    answer = api.head(f"/jobs/{submitted(store).id}/events", timeout=600)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
