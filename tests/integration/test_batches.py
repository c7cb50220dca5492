from __future__ import annotations

import json
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.store.clock import seconds
from backend.store.keyspace import Keyspace, new_id
from backend.store.processes import stop
from backend.store.store import Store
from schemas.batches import BatchRecord
from schemas.jobs import FINAL
from service.settings import Settings
from tests.integration.conftest import serving_client
from tests.integration.responses import body_of, problem_of
from tests.packed import npy, npz
from tests.warm_service import start

ROWS: dict[str, Any] = {"predictions": [0.1, 0.4, 0.6, 0.9], "labels": [0, 0, 1, 1]}


def _batch(api: httpx.Client, body: dict[str, Any] | None = None) -> dict[str, Any]:
    return body_of(api.post("/batches", json=ROWS if body is None else body), 201)


def _append(api: httpx.Client, batch_id: str, body: dict[str, Any], key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return api.post(f"/batches/{batch_id}/rows", json=body, headers=headers)


@pytest.mark.slow
def test_many_producers_at_once_lose_and_double_no_row(api: httpx.Client, store: Store) -> None:
    """Eight producers append 25 times each, and send half of their requests again, some while the first is at work."""
    producers, appends, rows = 8, 25, 7
    total = producers * appends * rows
    batch = _batch(api)
    predictions = (np.arange(total) + 0.5) / total  # each row is known by its prediction
    parts = predictions.reshape(producers, appends, rows)

    def produce(producer: int) -> int:
        chance, sent = random.Random(producer), 0
        with ThreadPoolExecutor(2) as threads:
            for i in range(appends):
                p = parts[producer, i]
                body = {"predictions": p.tolist(), "labels": (p > 0.5).astype(int).tolist()}
                key = f"{producer}-{i}"
                times = chance.choice([1, 1, 2, 3])
                answers = [threads.submit(_append, api, batch["id"], body, key) for _ in range(times)]
                statuses = {answer.result().status_code for answer in answers}
                assert statuses <= {200, 409}
                assert 200 in statuses
                sent += times
        return sent

    with ThreadPoolExecutor(producers) as threads:
        sent = sum(threads.map(produce, range(producers)))
    assert sent > producers * appends
    record, arrays = store.batches.arrays(batch["id"])
    assert (record.n, record.parts) == (4 + total, 1 + producers * appends)
    np.testing.assert_array_equal(np.sort(arrays["predictions"][4:]), predictions)
    np.testing.assert_array_equal(arrays["labels"][4:], arrays["predictions"][4:] > 0.5)
    stored = arrays["predictions"][4:].reshape(-1, rows)
    np.testing.assert_array_equal(stored[np.argsort(stored[:, 0])], parts.reshape(-1, rows))
    assert record.label_counts == np.bincount(arrays["labels"]).tolist()
    assert record.bytes == sum(len(content) for field, content in _fields(store, batch["id"]).items() if b":" in field)


def _fields(store: Store, batch_id: str) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = store.redis.hgetall(Keyspace().batch(batch_id))  # type: ignore[assignment]
    return fields


def test_rounded_rows_are_appended_to_exact_ones_and_evaluated_with_them(api: httpx.Client) -> None:
    random_ = np.random.default_rng(0)
    p = random_.dirichlet(np.ones(20), size=60)
    y = [int(random_.choice(20, p=row)) for row in p]
    rounded = p[30:].round(4)
    assert np.abs(rounded.sum(axis=1) - 1).max() > 1e-4
    batch = _batch(api, {"predictions": p[:30].tolist(), "labels": y[:30]})
    assert _append(api, batch["id"], {"predictions": rounded.tolist(), "labels": y[30:]}).json()["n"] == 60
    report = api.post("/evaluate", json={"batch": batch["id"], "measures": ["brier"]}).json()
    whole = np.concatenate([p[:30], rounded / rounded.sum(axis=1, keepdims=True)])
    expected = api.post("/evaluate", json={"predictions": whole.tolist(), "labels": y, "measures": ["brier"]}).json()
    assert report["measures"]["brier"]["value"] == pytest.approx(expected["measures"]["brier"]["value"], abs=1e-12)


def test_without_a_key_each_append_counts(api: httpx.Client) -> None:
    batch = _batch(api)
    assert [_append(api, batch["id"], ROWS).json()["n"] for _ in range(3)] == [8, 12, 16]


def test_a_part_that_is_appended_twice_is_there_once(store: Store, api: httpx.Client) -> None:
    """As after a process that died behind its append, and before its answer."""
    batch = BatchRecord.model_validate(_batch(api))
    arrays = {"predictions": np.array([0.5]), "labels": np.array([1])}
    part = batch.model_copy(update={"n": 1, "label_counts": [0, 1]})
    for _ in range(2):
        grown = store.batches.append(batch.id, "part_a", part, arrays, most_rows=5)
        assert (grown.n, grown.parts, grown.label_counts) == (5, 2, [2, 3])
    assert store.batches.arrays(batch.id)[1]["predictions"].tolist() == [0.1, 0.4, 0.6, 0.9, 0.5]


def test_every_array_is_appended_whatever_the_width_of_its_numbers_and_names(api: httpx.Client, store: Store) -> None:
    first = {
        "predictions": np.array([[0.2, 0.8], [0.5, 0.5]], np.float32),
        "labels": np.array([1, 0], np.uint8),
        "weights": np.array([1.0, 2.0]),
        "groups": np.array(["a", "b"]),
    }
    then = {
        "predictions": np.array([[0.3, 0.7]]),
        "labels": np.array([1], np.uint64),
        "weights": np.array([3], np.int32),
        "groups": np.array(["longer"]),
    }
    headers = {"Content-Type": "application/x-npz"}
    batch = api.post("/batches", content=npz(**first), headers=headers).json()
    appended = api.post(f"/batches/{batch['id']}/rows", content=npz(**then), headers=headers)
    assert appended.json()["label_counts"] == [1, 2]
    _, arrays = store.batches.arrays(batch["id"])
    assert arrays["labels"].dtype == np.int64
    for name in first:
        np.testing.assert_array_equal(arrays[name], np.concatenate([first[name], then[name]]))


MATRIX = {"predictions": [[0.2, 0.3, 0.5]], "labels": [2]}


@pytest.mark.parametrize(
    ("stored", "appended", "expected"),
    [
        (ROWS, {"predictions": [0.5]}, (422, "invalid-field", "/labels")),
        ({"predictions": [0.5]}, ROWS, (422, "invalid-field", "/labels")),
        (ROWS, ROWS | {"weights": [1, 1, 1, 1]}, (422, "invalid-field", "/weights")),
        (ROWS, MATRIX, (422, "wrong-shape", "/predictions")),
        (MATRIX, ROWS, (422, "wrong-shape", "/predictions")),
        (MATRIX, {"predictions": [[0.5, 0.5]], "labels": [1]}, (422, "wrong-shape", "/predictions")),
        (ROWS, ROWS | {"scale": "logit"}, (422, "invalid-field", "/scale")),
        (ROWS, ROWS | {"weights_kind": "frequency"}, (422, "invalid-field", "/weights_kind")),
        (ROWS, ROWS | {"labels": [0, 1, 2, 0]}, (422, "invalid-label", "/labels/2")),
        (ROWS, ROWS | {"labels": [0]}, (422, "length-mismatch", "/labels")),
        (ROWS, ROWS | {"predictions": [0.1, 0.4, 0.6, 1.9]}, (422, "out-of-range", "/predictions/3")),
        (ROWS, {"predictions": [], "labels": []}, (422, "empty-batch", "/predictions")),
        (ROWS, ROWS | {"ttl": 5}, (422, "invalid-field", "/ttl")),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_leave_the_batch_as_it_is(
    api: httpx.Client, stored: dict[str, Any], appended: dict[str, Any], expected: tuple[int, str, str]
) -> None:
    batch = _batch(api, stored)
    assert problem_of(_append(api, batch["id"], appended)) == expected
    assert api.get(f"/batches/{batch['id']}").json() == batch


def test_rows_are_appended_to_a_batch_that_is_there_and_has_room(redis: Redis, redis_url: str) -> None:
    with serving_client(Settings(redis_url, max_batch_rows=8)) as api:
        assert problem_of(_append(api, new_id("batch"), ROWS))[:2] == (404, "unknown-batch")
        batch = _batch(api)
        assert _append(api, batch["id"], ROWS).status_code == 200
        assert problem_of(_append(api, batch["id"], ROWS))[:2] == (413, "batch-full")
        nine = {"predictions": [0.5] * 9}
        assert problem_of(api.post("/batches", json=nine))[:2] == (413, "batch-full")


def test_the_record_of_a_batch_counts_all_of_its_rows(api: httpx.Client) -> None:
    batch = _batch(api, {"predictions": [1.00001, 0.5, 0.25], "labels": [1, 0, 0]})
    assert (batch["format"], batch["parts"], batch["n_classes"]) == (2, 1, None)
    assert (batch["label_counts"], batch["positive_rate"], batch["clipped"]) == ([2, 1], 1 / 3, 1)
    grown = _append(api, batch["id"], {"predictions": [-0.00001], "labels": [1]}).json()
    assert (grown["n"], grown["parts"], grown["clipped"]) == (4, 2, 2)
    assert grown["expires_at"] == batch["expires_at"]
    assert (grown["label_counts"], grown["positive_rate"]) == ([2, 2], 0.5)
    assert grown["bytes"] > batch["bytes"]
    assert api.get(f"/batches/{batch['id']}").json() == grown
    many = _batch(api, {"predictions": [[0.2, 0.30001, 0.5]], "labels": [2]})
    assert (many["label_counts"], many["positive_rate"], many["renormalised"]) == ([0, 0, 1], None, 1)
    unlabelled = _batch(api, {"predictions": [0.5]})
    assert (unlabelled["label_counts"], unlabelled["positive_rate"]) == (None, None)


def test_rows_that_a_job_stores_equal_those_of_a_batch(api: httpx.Client, store: Store) -> None:
    rows = {
        "predictions": [[0.2, 0.30001, 0.5], [0.1, 0.1, 0.8], [0.6, 0.4, 0.0]],
        "labels": [2, 1, 0],
        "weights": [2, 1, 1],
        "weights_kind": "importance",
        "groups": ["a", "b", "a"],
    }
    batch = store.batches.record(_batch(api, rows)["id"])
    job = api.post("/evaluate", json=rows, headers={"Prefer": "respond-async"}).json()
    queued = store.batches.record(store.jobs.get(job["id"]).spec["batch"])
    differ = {"id", "created_at", "expires_at"}
    assert queued.model_dump(exclude=differ) == batch.model_dump(exclude=differ)
    (_, of_job), (_, other) = (store.batches.arrays(record.id) for record in (queued, batch))
    assert {name: (a.dtype, a.tolist()) for name, a in of_job.items()} == {
        name: (a.dtype, a.tolist()) for name, a in other.items()
    }


def test_a_batch_expires_at_the_reported_time(api: httpx.Client, store: Store, redis: Redis) -> None:
    batch = _batch(api, ROWS | {"ttl": 60})
    assert _left(batch) == pytest.approx(60, abs=5)
    # An append renews nothing.
    redis.expire(Keyspace().batch(batch["id"]), 30)
    assert _left(_append(api, batch["id"], ROWS).json()) == pytest.approx(30, abs=5)
    store.batches.keep(batch["id"], 600)
    assert _left(api.get(f"/batches/{batch['id']}").json()) == pytest.approx(600, abs=5)
    assert _left(api.get("/batches").json()["items"][0]) == pytest.approx(600, abs=5)
    assert _left(_batch(api)) == pytest.approx(86400, abs=5)
    for ttl in (0, -1, 86401):
        assert problem_of(api.post("/batches", json=ROWS | {"ttl": ttl})) == (422, "invalid-field", "/ttl")


def _left(batch: dict[str, Any]) -> float:
    """Seconds that a batch is still kept, as it says."""
    return seconds(batch["expires_at"]) - datetime.now(UTC).timestamp()


def test_batches_are_listed_newest_first_without_those_that_are_gone(api: httpx.Client, redis: Redis) -> None:
    ids = [_batch(api)["id"] for _ in range(5)]
    redis.delete(Keyspace().batch(ids[1]))
    api.delete(f"/batches/{ids[2]}")
    first = api.get("/batches", params={"limit": 2})
    rest = api.get(first.links["next"]["url"]).json()
    shown = [batch["id"] for batch in first.json()["items"] + rest["items"]]
    assert sorted(shown) == sorted([ids[4], ids[3], ids[0]])
    assert rest["next"] is None
    moments = [batch["created_at"] for batch in first.json()["items"] + rest["items"]]
    assert moments == sorted(moments, reverse=True)
    assert redis.zcard(Keyspace().batches()) == 3


def test_a_batch_of_the_first_format_is_read_and_appended_to(api: httpx.Client, store: Store, redis: Redis) -> None:
    record = {
        "id": "batch_old",
        "n": 4,
        "n_classes": None,
        "scale": "probability",
        "weights_kind": "frequency",
        "arrays": ["predictions", "labels"],
        "clipped": 0,
        "renormalised": 0,
        "created_at": "2026-01-01T00:00:00.000Z",
        "expires_at": "2026-01-02T00:00:00.000Z",
    }
    fields: dict[Any, Any] = {"record": json.dumps(record)}
    for name in ("predictions", "labels"):
        array = npy(ROWS[name])
        fields |= {f"{name}:0": array[:140], f"{name}:1": array[140:]}
    redis.hset(Keyspace().batch("batch_old"), mapping=fields)
    redis.expire(Keyspace().batch("batch_old"), 60)
    assert api.get("/batches/batch_old").json()["n"] == 4
    assert api.post("/evaluate", json={"batch": "batch_old"}).json()["n"] == 4
    grown = _append(api, "batch_old", ROWS).json()
    assert (grown["format"], grown["n"], grown["parts"], grown["label_counts"]) == (2, 8, 2, None)
    _, arrays = store.batches.arrays("batch_old")
    assert arrays["predictions"].tolist() == ROWS["predictions"] * 2


@pytest.mark.slow
def test_a_job_sees_the_rows_that_were_there_when_it_was_queued(
    api: httpx.Client, store: Store, redis: Redis, redis_url: str
) -> None:
    random_numbers = np.random.default_rng(0)
    p = random_numbers.random(60)
    rows = {"predictions": p.tolist(), "labels": (random_numbers.random(60) < p).astype(int).tolist()}
    batch = _batch(api, rows)
    wanted = {"batch": batch["id"]}
    jobs = [
        api.post(path, json=wanted | more, headers={"Prefer": "respond-async"}).json()["id"]
        for path, more in (("/evaluate", {}), ("/maps", {"method": "platt"}))
    ]
    _append(api, batch["id"], rows)
    worker = start(
        [sys.executable, "-m", "calibrant", "worker"], environment=os.environ | {"CALIBRANT_REDIS_URL": redis_url}
    )
    try:
        deadline = time.monotonic() + 120
        while not all(store.jobs.get(job).status in FINAL for job in jobs):
            assert time.monotonic() < deadline
            redis.blpop("nothing", timeout=0.05)
    finally:
        stop(worker, patience=20)
    evaluated, fitted = (store.jobs.get(job).result or {} for job in jobs)
    assert evaluated["report"]["n"] == 60
    assert store.maps.get(fitted["map"]).n == 60
    assert api.post("/evaluate", json=wanted).json()["n"] == 120
