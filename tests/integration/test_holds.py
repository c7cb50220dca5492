"""Batches that jobs need: how long they live, and that nothing is left of a hold."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.store.clock import now, seconds, stamp
from backend.store.errors import BatchInUse, UnknownBatch
from backend.store.jobs.runs import batches_of, hold, release
from backend.store.keyspace import Keyspace, new_id
from backend.store.store import Store
from schemas.batches import BatchRecord
from schemas.problems import Problem
from tests.integration.conftest import claimed, submitted

KEYS = Keyspace()
PROBLEM = Problem(type="/problems/one-class", title="x", status=422, detail="x")
ROWS = {"predictions": [0.1, 0.4, 0.6, 0.9] * 5, "labels": [0, 1, 0, 1] * 5}


def _batch(store: Store, *, ttl: int = 60) -> str:
    record = BatchRecord(
        id=new_id("batch"), n=4, n_classes=None, scale="probability", weights_kind="frequency", arrays=["predictions"],
        clipped=0, renormalised=0, created_at=stamp(), expires_at="",
    )  # fmt: skip
    return store.batches.put(record, {"predictions": np.zeros(4)}, ttl=ttl).id


def _job(store: Store, **spec: Any) -> str:
    return submitted(store, spec=spec).id


def _expires(redis: Redis, batch: str) -> int:
    """Milliseconds since 1970; -1 without expiry, -2 where there is no batch."""
    return int(redis.pexpiretime(KEYS.batch(batch)))


def _passed(redis: Redis, moment: float) -> None:
    """Wait until the clock of the store is past a moment, using a key that expires then."""
    redis.set("passed", "", pxat=round(moment * 1000))
    end = time.monotonic() + 120
    while redis.exists("passed"):
        assert time.monotonic() < end


def _once(redis: Redis, queue: Any, job: str, *batches: str) -> None:
    with redis.pipeline() as pipe:
        queue(pipe, KEYS, job, batches)
        pipe.execute()


def test_a_batch_outlives_its_ttl_while_a_job_needs_it_and_is_gone_when_that_ends(redis: Redis, store: Store) -> None:
    batch = _batch(store, ttl=1)
    job = _job(store, batch=batch)
    _passed(redis, now().timestamp() + 1.1)
    run = claimed(store, job)
    assert store.batches.record(batch).expires_at is None
    assert store.batches.arrays(batch)[1]["predictions"].shape == (4,)
    run.succeed({})
    with pytest.raises(UnknownBatch):
        store.batches.record(batch)
    assert redis.keys("*batch-holds*") == []


def test_a_batch_whose_moment_has_not_come_gets_it_back_and_expires_then(redis: Redis, store: Store) -> None:
    batch = _batch(store, ttl=2)
    before = _expires(redis, batch)
    jobs = [_job(store, batch=batch), _job(store, batches=[batch, _batch(store)])]
    store.jobs.cancel(jobs[0])
    assert _expires(redis, batch) == -1
    claimed(store, jobs[1]).fail(PROBLEM)
    assert _expires(redis, batch) == before
    assert store.batches.record(batch).expires_at is not None
    _passed(redis, before / 1000)
    assert not redis.exists(KEYS.batch(batch))
    assert redis.keys("*batch-holds*") == []


def test_holding_and_letting_go_twice_change_nothing(redis: Redis, store: Store) -> None:
    batch = _batch(store)
    before = _expires(redis, batch)
    _once(redis, hold, "job_a", batch)
    _once(redis, hold, "job_a", batch)
    _once(redis, hold, "job_b", batch)
    assert redis.scard(KEYS.batch_holds(batch)) == 2
    _once(redis, release, "job_a", batch)
    _once(redis, release, "job_a", batch)
    _once(redis, release, "job_c", batch)
    assert _expires(redis, batch) == -1
    _once(redis, release, "job_b", batch)
    assert _expires(redis, batch) == before
    # What is set after the last hold is not undone by one who lets go again.
    redis.expire(KEYS.batch(batch), 600)
    _once(redis, release, "job_b", batch)
    assert _expires(redis, batch) > before
    assert sorted(redis.hkeys(KEYS.batch(batch))) == [b"predictions:0", b"record"]


def test_a_hold_of_a_batch_that_is_not_there_leaves_no_key(redis: Redis, store: Store) -> None:
    job = _job(store, batch="batch_gone")
    assert redis.keys("*batch_gone*") == []
    claimed(store, job).fail(PROBLEM)
    batch = _batch(store)
    _once(redis, hold, "job_a", batch)
    redis.delete(KEYS.batch(batch))
    _once(redis, release, "job_a", batch)
    assert redis.keys(f"*{batch}") == []
    assert redis.keys("*batch_gone*") == []


def test_many_jobs_that_end_at_once_let_go_of_a_batch_once(redis: Redis, store: Store) -> None:
    batch = _batch(store)
    before = _expires(redis, batch)
    with ThreadPoolExecutor(16) as threads:
        jobs = list(threads.map(lambda _: _job(store, batch=batch), range(64)))
        assert redis.scard(KEYS.batch_holds(batch)) == 64
        runs = list(threads.map(lambda job: claimed(store, job), jobs))
        list(threads.map(lambda run: run.succeed({}), runs[:-1]))
        assert _expires(redis, batch) == -1
        # Those that end again, and others that begin and end meanwhile, are in each other's way.
        list(threads.map(lambda run: run.fail(PROBLEM), runs))
        list(threads.map(lambda _: store.jobs.cancel(_job(store, batch=batch)), range(32)))
    assert _expires(redis, batch) == before
    assert not redis.exists(KEYS.batch_holds(batch))


def test_a_batch_and_a_job_of_before_there_were_holds_end_as_they_would_have(redis: Redis, store: Store) -> None:
    batch = _batch(store)
    before = _expires(redis, batch)
    old = _job(store, batch=batch)
    redis.delete(KEYS.batch_holds(batch))
    redis.hdel(KEYS.batch(batch), "expires")
    redis.pexpireat(KEYS.batch(batch), before)
    claimed(store, old).succeed({})
    assert _expires(redis, batch) == before


def test_a_batch_that_a_job_needs_is_not_deleted(api: httpx.Client, store: Store, redis: Redis) -> None:
    batch = api.post("/batches", json=ROWS).json()
    path = f"/batches/{batch['id']}"
    wanted, prefer = {"batch": batch["id"]}, {"Prefer": "respond-async"}
    jobs = [api.post("/evaluate", json=wanted, headers=prefer).json()["id"] for _ in range(2)]
    refused = api.delete(path)
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/batch-in-use")
    assert refused.json()["detail"] == "2 jobs that have not ended need the batch"
    assert api.get(path).json()["expires_at"] is None
    assert api.get("/batches").json()["items"][0]["expires_at"] is None
    assert api.post(path + "/rows", json=ROWS).json()["expires_at"] is None
    assert api.post(f"/jobs/{jobs[0]}/cancel").status_code == 200
    assert api.delete(path).json()["detail"] == "1 job that has not ended needs the batch"
    assert api.post(f"/jobs/{jobs[1]}/cancel").status_code == 200
    assert seconds(api.get(path).json()["expires_at"]) == pytest.approx(seconds(batch["expires_at"]), abs=0.01)
    assert api.delete(path).status_code == 204
    assert api.delete(path).status_code == 404
    assert redis.keys(f"*{batch['id']}*") == []


def test_a_job_that_is_queued_while_its_batch_is_deleted_keeps_the_batch_or_finds_none(
    redis: Redis, store: Store
) -> None:
    for _ in range(20):
        batch = _batch(store)

        def delete(batch_id: str = batch) -> bool:
            try:
                store.batches.delete(batch_id)
            except BatchInUse:
                return False
            return True

        with ThreadPoolExecutor(2) as threads:
            job, deleted = threads.submit(_job, store, batch=batch), threads.submit(delete)
        assert job.result()
        left = 0 if deleted.result() else 1
        assert redis.exists(KEYS.batch(batch)) == redis.exists(KEYS.batch_holds(batch)) == left


@pytest.mark.parametrize(
    ("spec", "ids"),
    [
        ({}, []),
        ({"batch": "batch_a"}, ["batch_a"]),
        ({"batch": "batch_a", "batches": None}, ["batch_a"]),
        ({"batch": None, "batches": ["batch_a", "batch_b"]}, ["batch_a", "batch_b"]),
        ({"batch": None, "batches": None}, []),
    ],
)
def test_the_batches_of_a_job_are_those_that_its_spec_names(spec: dict[str, Any], ids: list[str]) -> None:
    assert batches_of(spec) == ids
