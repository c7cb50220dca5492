"""The rows of a request that becomes a job: deleted when the job ends, or kept on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from redis import Redis

from backend.store.backup.restoring import restore_job
from backend.store.jobs.leases import Lease
from backend.store.jobs.runs import DELAYS
from backend.store.keyspace import Keyspace
from backend.store.store import Store
from schemas.jobs import IdempotencyRecord, JobRecord
from schemas.problems import Problem
from tests.integration.conftest import claimed
from tests.rows import draw_distorted

KEYS = Keyspace()
PROBLEM = Problem(type="/problems/one-class", title="x", status=422, detail="x")
P, Y = draw_distorted(200, 3, 1.4)
ROWS: dict[str, Any] = {"predictions": P.tolist(), "labels": Y.tolist()}
FORECASTS: dict[str, Any] = {
    "prediction_kind": "regression",
    "observed": [0.1, 0.4, -0.2, 1.1, 0.3] * 8,
    "mean": [0.0, 0.5, 0.1, 0.8, 0.2] * 8,
    "variance": [1.0, 0.5, 0.8, 1.2, 0.9] * 8,
}
AS_JOB = {"Prefer": "respond-async"}


def _succeed(store: Store, job: str) -> None:
    claimed(store, job).succeed({})


def _fail(store: Store, job: str) -> None:
    claimed(store, job).fail(PROBLEM)


def _cancel(store: Store, job: str) -> None:
    store.jobs.cancel(job)


def _cancel_running(store: Store, job: str) -> None:
    claimed(store, job)
    store.jobs.cancel(job)


def _lose(store: Store, job: str) -> None:
    """Lose every run, as if each had killed its worker, until the job is given up."""
    for _ in range(len(DELAYS) + 1):
        if (run := store.jobs.get(job)).status == "failed":
            return
        lease = Lease(store.keys.tenant, job, run.run + 1, "a-worker")
        claimed(store, job)
        store.runs.lose(lease, killed=True)
        store.runs.enqueue(job)


def _traces(redis: Redis) -> list[Any]:
    """The keys of batches."""
    return redis.keys("*:batch*")


@pytest.mark.parametrize("end", [_succeed, _fail, _cancel, _cancel_running, _lose])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/evaluate", ROWS),
        ("/maps", ROWS | {"method": "platt"}),
        ("/diagrams", ROWS | {"diagram": "reliability"}),
        ("/evaluate", FORECASTS),
        ("/maps", FORECASTS | {"method": "variance-scaling"}),
    ],
)
def test_no_row_of_a_request_is_left_however_its_job_ends(
    api: httpx.Client, store: Store, redis: Redis, path: str, body: dict[str, Any], end: Callable[[Store, str], None]
) -> None:
    job = api.post(path, json=body, headers=AS_JOB).json()
    assert job["batch"] is None
    assert len(store.batches.arrays(store.jobs.get(job["id"]).temporary_batch or "")[1]) >= 2
    end(store, job["id"])
    assert api.get(f"/jobs/{job['id']}").json()["status"] in ("succeeded", "failed", "cancelled")
    assert _traces(redis) == []
    assert api.get("/batches").json()["items"] == []


@pytest.mark.parametrize("body", [ROWS, FORECASTS])
@pytest.mark.parametrize("path", ["/evaluate", "/maps"])
def test_kept_rows_are_a_batch_that_the_job_names(
    api: httpx.Client, store: Store, path: str, body: dict[str, Any]
) -> None:
    method = {"method": "variance-scaling" if body is FORECASTS else "platt"} if path == "/maps" else {}
    job = api.post(path, json=body | method | {"keep_batch": True}, headers=AS_JOB).json()
    _succeed(store, job["id"])
    batch = api.get(f"/batches/{job['batch']}").json()
    assert (batch["n"], batch["expires_at"] is None) == (len(body.get("labels") or body["observed"]), False)
    assert [record["id"] for record in api.get("/jobs", params={"batch": batch["id"]}).json()["items"]] == [job["id"]]


def test_a_stored_batch_outlives_the_job_that_names_it(api: httpx.Client, store: Store) -> None:
    batch = api.post("/batches", json=ROWS).json()["id"]
    others = api.post("/batches", json=FORECASTS).json()["id"]
    for body in ({"batch": batch}, {"batch": batch, "keep_batch": False}, {**FORECASTS, "against": [others]}):
        _succeed(store, api.post("/evaluate", json=body, headers=AS_JOB).json()["id"])
    assert {record["id"] for record in api.get("/batches").json()["items"]} == {batch, others}


def test_rows_that_another_job_needs_too_are_deleted_when_that_has_ended(
    api: httpx.Client, store: Store, redis: Redis
) -> None:
    own = api.post("/evaluate", json=ROWS, headers=AS_JOB).json()["id"]
    batch = store.jobs.get(own).temporary_batch
    other = api.post("/evaluate", json={"batch": batch}, headers=AS_JOB).json()["id"]
    _succeed(store, own)
    assert store.batches.arrays(batch or "")[0].n == len(P)
    _succeed(store, other)
    assert _traces(redis) == []


def test_a_request_repeated_after_its_job_ended_leaves_its_rows_for_minutes_only(
    api: httpx.Client, store: Store, redis: Redis
) -> None:
    headers = AS_JOB | {"Idempotency-Key": "k-1"}
    job = api.post("/evaluate", json=ROWS, headers=headers).json()
    _succeed(store, job["id"])
    again = api.post("/evaluate", json=ROWS, headers=headers)
    assert (again.json()["id"], again.headers["Idempotency-Replayed"], _traces(redis)) == (job["id"], "true", [])
    # Its process died after the job was queued, so that the answer is unknown: the request is processed again.
    (key,) = redis.keys(KEYS.idempotency("*"))
    answered = IdempotencyRecord.model_validate_json(redis.get(key) or "")
    redis.set(key, answered.model_copy(update={"answer": None}).model_dump_json())
    third = api.post("/evaluate", json=ROWS, headers=headers).json()
    assert (third["id"], third["status"]) == (job["id"], "succeeded")
    batch = store.jobs.get(job["id"]).temporary_batch or ""
    assert 0 < redis.ttl(KEYS.batch(batch)) <= 600


def test_a_job_of_the_previous_version_keeps_and_names_its_batch(api: httpx.Client, store: Store, redis: Redis) -> None:
    job = api.post("/evaluate", json=ROWS | {"keep_batch": True}, headers=AS_JOB).json()
    fields = store.jobs.get(job["id"]).model_dump(exclude={"temporary_batch", "temporary_batches", "rows"})
    record = JobRecord.model_validate(fields)
    redis.set(KEYS.job(job["id"]), record.model_dump_json(exclude={"temporary_batch", "temporary_batches", "rows"}))
    _succeed(store, job["id"])
    assert api.get(f"/jobs/{job['id']}").json()["batch"] == job["batch"]
    assert api.get(f"/batches/{job['batch']}").status_code == 200


def test_a_restored_job_deletes_its_rows_when_it_has_run(api: httpx.Client, store: Store, redis: Redis) -> None:
    job = api.post("/evaluate", json=ROWS, headers=AS_JOB).json()["id"]
    record = store.jobs.get(job)
    batch = record.temporary_batch or ""
    dump = redis.dump(KEYS.batch(batch)) or b""
    redis.flushall()
    redis.restore(KEYS.batch(batch), 60_000, dump)
    assert restore_job(store, record, life=None)
    _succeed(store, job)
    assert _traces(redis) == []


def _ids(http: httpx.Client) -> list[str]:
    """The newest batches of a service that other tests use too."""
    return [record["id"] for record in http.get("/batches").json()["items"]]


def test_a_report_of_deleted_rows_shows_their_scale_and_classes(http: httpx.Client) -> None:
    logits = {"predictions": [-2.0, 0.5, 1.0, 3.0, -0.7] * 40, "labels": [0, 1, 0, 1, 0] * 40, "scale": "logit"}
    body = logits | {"class_names": ["ham", "spam"]}
    before = _ids(http)
    report = http.post("/evaluate", json=body, headers={"Accept": "text/html"})
    job = http.post("/evaluate", json=body, headers={"Accept": "text/html", "Prefer": "respond-async"}).json()
    later = http.get(f"/jobs/{job['id']}", headers={"Accept": "text/html", "Prefer": "wait=600"})
    assert (later.status_code, _ids(http)) == (200, before)
    for text in ("the submitted rows", "spam", "logit"):
        assert text in report.text, text
        assert text in later.text, text
    assert "batch_" not in later.text
    page = http.get(f"/ui/jobs/{job['id']}").text
    assert f"/ui/jobs/{job['id']}/report.html" in page
    assert "spam" in http.get(f"/ui/jobs/{job['id']}/report.html").text


def test_a_job_without_a_report_has_no_report_page(http: httpx.Client) -> None:
    job = http.post("/maps", json=ROWS | {"method": "platt"}, headers=AS_JOB).json()["id"]
    http.get(f"/jobs/{job}", headers={"Prefer": "wait=600"})
    assert http.get(f"/ui/jobs/{job}/report.html").status_code == 404


def test_a_caller_who_waits_gets_the_result_and_leaves_no_rows(http: httpx.Client) -> None:
    before, waiting = _ids(http), {"Prefer": "respond-async, wait=600"}
    assert http.post("/evaluate", json=ROWS, headers=waiting).json()["n"] == len(P)
    assert http.post("/maps", json=ROWS | {"method": "platt"}, headers=waiting).status_code == 201
    assert _ids(http) == before
