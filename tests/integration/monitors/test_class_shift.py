"""The class frequencies of a window of K classes, from a reservoir: counted once, bounded, estimated by a worker."""

from __future__ import annotations

import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import httpx
import numpy as np
import pytest
from redis import Redis

import calibrant
from backend.monitors.class_shift import estimate_at
from backend.monitors.looks import look_at
from backend.store import clock
from backend.store.keyspace import Keyspace
from backend.store.monitors.ledger import Ledger
from backend.store.monitors.reference import read_reference_vectors
from backend.store.store import Store
from calibrant.core.cells import Floats
from calibrant.monitoring.reservoir import NO_LABEL, Reservoir, from_bytes
from schemas.base import DAY, HOUR
from schemas.monitors import MonitorRecord
from tests.integration.responses import patched
from tests.integration.test_workers import until

K = 3
BODY: dict[str, Any] = {"name": "inbox", "n_classes": K, "scale": "logit", "rules": [], "measures": ["ece"]}
BODY |= {"reservoir": 5000, "bucket": HOUR}


def drawn(n: int, seed: int, share: float = 1.0) -> tuple[Floats, list[int]]:
    """Logits and labels, of which this share of the rows of class 1 is kept."""
    random = np.random.default_rng(seed)
    logits, labels, _ = calibrant.logistic_normal(20_000, n_classes=K, seed=0)
    rows = random.permutation(len(labels))
    rows = rows[(labels[rows] != 1) | (random.random(len(rows)) < share)][:n]
    return logits[rows].round(4), labels[rows].tolist()


def create(api: httpx.Client, n: int = 3000, labels: list[int] | None = None, **fields: Any) -> None:
    logits, y = drawn(n, 1)
    body = {"predictions": logits.tolist(), "labels": labels or y, "scale": "logit"}
    stored = api.post("/batches", json=body).raise_for_status().json()["id"]
    answer = api.post("/monitors", json=BODY | {"reference": {"batch": stored}} | fields)
    assert answer.status_code == 201, answer.text


def send(api: httpx.Client, logits: Floats, at: float | None = None, what: str = "row", **headers: str) -> None:
    time = None if at is None else clock.at(at)
    rows = [{"id": f"{what}-{i}", "prediction": row, "timestamp": time} for i, row in enumerate(logits.tolist())]
    api.post("/monitors/inbox/predictions", json={"rows": rows}, headers=headers).raise_for_status()


def label(api: httpx.Client, labels: list[int], what: str = "row") -> None:
    rows = [{"id": f"{what}-{i}", "label": y} for i, y in enumerate(labels)]
    api.post("/monitors/inbox/labels", json={"rows": rows}).raise_for_status()


def window(api: httpx.Client, at: int = 0) -> dict[str, Any]:
    estimate: dict[str, Any] = api.get("/monitors/inbox").raise_for_status().json()["windows"][at]["label_shift"]
    return estimate


def estimated(api: httpx.Client, store: Store, now: float | None = None) -> dict[str, Any]:
    assert estimate_at(store, record(store), time.time() if now is None else now)
    return window(api)


def record(store: Store) -> MonitorRecord:
    return store.monitors.get("inbox")


def sample(store: Store) -> Reservoir:
    return Ledger(store.redis, store.keys, record(store)).buckets.vectors.sample(0, 2**40)


def test_frequencies_of_all_classes_are_estimated_before_labels(api: httpx.Client, store: Store) -> None:
    create(api)
    logits, y = drawn(3000, 2, share=0.3)
    send(api, logits)
    assert window(api)["reason"] == "a worker has not estimated it yet"
    before = time.time()
    estimate = estimated(api, store)
    assert (estimate["status"], estimate["rows"], estimate["sampled"], estimate["level"]) == (
        "estimated",
        3000,
        3000,
        0.95,
    )
    assert clock.seconds(estimate["estimated_at"]) >= before - 1e-3
    true = np.bincount(y, minlength=K) / len(y)
    assert ((np.array(estimate["low"]) < true) & (true < np.array(estimate["high"]))).all()
    assert estimate["high"][1] < estimate["reference"][1]
    assert np.abs(np.array(estimate["bbse"]) - true).max() < 0.05
    assert estimate["weights"] == pytest.approx(np.divide(estimate["estimated"], estimate["reference"]))


@pytest.mark.slow
def test_the_sample_of_the_library_and_of_the_monitor_give_the_same_estimate(api: httpx.Client, store: Store) -> None:
    create(api)
    send(api, drawn(2000, 3, share=0.5)[0])
    estimate = estimated(api, store)
    logits, labels = drawn(3000, 1)
    alone = calibrant.estimate_label_shift(logits, labels, drawn(2000, 3, share=0.5)[0], scale="logit")
    assert alone.estimated is not None
    assert alone.low is not None
    assert estimate["estimated"] == pytest.approx(alone.estimated.tolist(), abs=1e-3)
    assert estimate["low"] == pytest.approx(alone.low.tolist(), abs=0.01)  # another jackknife


@pytest.mark.slow
def test_a_worker_estimates_after_new_rows_and_again_after_a_change(
    api: httpx.Client, redis: Redis, worker: subprocess.Popen[bytes]
) -> None:
    create(api)
    send(api, drawn(1000, 4, share=0.3)[0])
    first = until(redis, lambda: window(api)["status"] == "estimated" and window(api))
    assert first["sampled"] == 1000
    patched(api, "/monitors/inbox", {"interval": 0.5}).raise_for_status()
    second = until(redis, lambda: window(api)["status"] == "estimated" and window(api)["level"] == 0.5 and window(api))
    assert second["estimated"] == pytest.approx(first["estimated"])
    assert second["high"][1] - second["low"][1] < first["high"][1] - first["low"][1]


def test_rows_that_several_clients_send_repeatedly_count_once(api: httpx.Client, store: Store) -> None:
    create(api)
    logits, y = drawn(600, 5)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: send(api, logits), range(4)))
        list(pool.map(lambda _: label(api, y), range(4)))
    sampled = sample(store)
    assert len(sampled) == 600
    assert sorted(sampled.labels.tolist()) == sorted(y)
    assert np.array_equal(np.sort(sampled.vectors, axis=0), np.sort(logits.astype(np.float32), axis=0))
    key = {"Idempotency-Key": "once"}
    rows = {"rows": [{"prediction": row, "label": label} for row, label in zip(logits.tolist(), y, strict=True)]}
    for _ in range(2):
        api.post("/monitors/inbox/rows", json=rows, headers=key).raise_for_status()
    assert len(sample(store)) == 1200


def test_labels_belong_to_their_vectors_in_whatever_order_they_arrive(api: httpx.Client, store: Store) -> None:
    create(api)
    logits, y = drawn(300, 6)
    label(api, y[:100])
    send(api, logits[:200])
    label(api, y[:200])
    rows = [{"id": f"row-{i}", "prediction": logits[i].tolist(), "label": y[i]} for i in range(150, 300)]
    api.post("/monitors/inbox/rows", json={"rows": rows}).raise_for_status()
    sampled = sample(store)
    known = {tuple(row): label for row, label in zip(sampled.vectors.tolist(), sampled.labels.tolist(), strict=True)}
    assert known == {tuple(row): label for row, label in zip(logits.astype(np.float32).tolist(), y, strict=True)}


@pytest.mark.slow
def test_the_reservoir_is_bounded_and_a_sample_of_each_window(api: httpx.Client, store: Store, redis: Redis) -> None:
    windows = [{"name": "hour", "seconds": HOUR}, {"name": "day", "seconds": DAY}]
    create(api, reservoir=1000, windows=windows)
    now = time.time()
    for hours in range(12):
        send(api, drawn(1500, 10 + hours)[0], now - hours * HOUR, what=f"h{hours}")
    whole = sample(store)
    assert estimate_at(store, record(store), now)
    sampled = sample(store)
    assert len(sampled) == 1000
    assert np.array_equal(sampled.priorities, whole.priorities)
    assert np.array_equal(sampled.vectors, whole.vectors)
    readings = [window(api, at) for at in range(2)]
    assert [reading["sampled"] for reading in readings] == [1000, 1000]
    assert readings[1]["rows"] == 18_000
    assert stored_rows(store) < 1000 * (1.0 + np.log(18.0)) + 1500
    # Rows that a reservoir would remove are not added to it.
    before = stored_rows(store)
    send(api, drawn(1500, 30)[0], now - 11 * HOUR, what="late")
    assert stored_rows(store) - before < 300


def stored_rows(store: Store) -> int:
    keys = store.redis.keys(f"{store.keys.monitor(record(store).id).stem('vectors')}*")
    parts = [cast(bytes, part) for key in keys for part in store.redis.lrange(key, 0, -1)]
    return sum(len(from_bytes(part)) for part in parts)


def test_a_span_of_the_stream_is_the_reference_also_after_it_has_expired(api: httpx.Client, store: Store) -> None:
    now = time.time()
    start = (now // HOUR - 30) * HOUR
    span = {"start": clock.at(start), "end": clock.at(start + 2 * HOUR)}
    create(api, reference=span, retention=48 * HOUR, horizon=48 * HOUR)
    logits, y = drawn(2000, 7)
    send(api, logits, start + 60, what="then")
    label(api, y, what="then")
    send(api, drawn(1000, 8, share=0.2)[0], now)
    estimate = estimated(api, store, now)
    assert estimate["status"] == "estimated"
    assert estimate["reference"] == pytest.approx((np.bincount(y, minlength=K) / len(y)).tolist())
    later = now + 20 * HOUR  # the reference is older than the retention, and the window still has its rows
    look_at(store, record(store), later)
    assert len(Ledger(store.redis, store.keys, record(store)).buckets.numbers(0, int(start // HOUR) + 2)) == 0
    assert len(read_reference_vectors(store.redis, store.keys, record(store))) == 2000
    again = estimated(api, store, later)
    assert again["estimated"] == pytest.approx(estimate["estimated"])


def test_estimates_of_class_frequencies_are_withheld_with_their_reasons(api: httpx.Client, store: Store) -> None:
    windows = [{"name": "day", "seconds": DAY}, {"name": "last", "rows": 1000}]
    create(api, windows=windows, labels=[2] * 5 + [0, 1] * 1497 + [0])
    logits = drawn(1000, 9)[0]
    send(api, logits[:99])
    estimate = estimated(api, store)
    assert estimate["reason"] == "the window has 99 sampled predictions; at least 100 are needed"
    assert window(api, 1)["status"] == "not-applicable"
    send(api, logits)
    estimate = estimated(api, store)
    assert (estimate["status"], estimate["estimated"], estimate["sampled"]) == ("withheld", None, 1000)
    assert "class 2 has 5" in estimate["reason"]
    patched(api, "/monitors/inbox", {"reference": None}).raise_for_status()
    assert window(api)["reason"] == "a worker has not estimated it yet"
    assert estimated(api, store)["reason"] == "the monitor has no reference"


def test_a_window_that_is_no_mixture_of_the_classes_is_withheld(api: httpx.Client, store: Store) -> None:
    create(api)
    send(api, 0.2 * drawn(2000, 11)[0])
    estimate = estimated(api, store)
    assert (estimate["status"], estimate["estimated"], estimate["weights"]) == ("withheld", None, None)
    assert "not a mixture" in estimate["reason"]
    assert estimate["p_value"] < 0.001


def test_an_estimate_of_an_earlier_definition_is_not_stored(api: httpx.Client, store: Store) -> None:
    create(api)
    old = record(store)
    patched(api, "/monitors/inbox", {"interval": 0.5}).raise_for_status()
    assert not estimate_at(store, old, time.time())
    assert window(api)["estimated_at"] is None


def test_a_deleted_monitor_leaves_nothing(api: httpx.Client, store: Store, redis: Redis) -> None:
    create(api)
    send(api, drawn(500, 12)[0])
    estimated(api, store)
    uid = record(store).id
    api.delete("/monitors/inbox").raise_for_status()
    assert redis.keys(f"{Keyspace().monitor(uid).prefix}*") == []


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"reservoir": 999}, "greater than or equal to 1000"),
        ({"reservoir": 20_001}, "less than or equal to 20000"),
        ({"reservoir": 1000.5}, "/reservoir"),
        ({"reservoir": "many"}, "/reservoir"),
        ({"reservoir": 5000, "n_classes": None, "reduction": "binary"}, "set n_classes"),
        ({"reservoir": 20_000, "n_classes": 51}, "must be at most 19607 for 51 classes"),
        ({"reservoir": 1000, "n_classes": 1001}, "is not supported for more than 1000 classes"),
    ],
)
def test_a_reservoir_that_cannot_be_kept_is_refused(api: httpx.Client, fields: dict[str, Any], detail: str) -> None:
    answer = api.post("/monitors", content=json.dumps(BODY | fields), headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert detail in answer.text
    assert api.get("/monitors").json()["items"] == []


def test_invalid_rows_are_not_sampled(api: httpx.Client, store: Store) -> None:
    create(api)
    fine, wrong = [0.1, 0.2, 0.3], [[0.1, 0.2], [0.1, 0.2, None], "x", [1e999, 0.0, 0.0]]
    rows = [{"id": f"r{i}", "prediction": row} for i, row in enumerate([*wrong, fine])]
    body = json.dumps({"rows": rows})
    answer = api.post("/monitors/inbox/predictions", content=body, headers={"Content-Type": "application/json"})
    assert answer.json()["refused"] == 4
    sampled = sample(store)
    assert sampled.vectors.tolist() == np.array([fine], np.float32).tolist()
    assert sampled.labels.tolist() == [NO_LABEL]
