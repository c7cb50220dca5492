"""The class frequencies of a window without labels: of one event at once, of K classes by a worker from a reservoir."""

from __future__ import annotations

import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, cast, get_args

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
from tests.known import known

Shift = Literal["event", "classes"]

K = 3
BODY: dict[str, Any] = {"name": "inbox", "n_classes": K, "scale": "logit", "rules": [], "measures": ["ece"]}
BODY |= {"reservoir": 5000, "bucket": HOUR}
OF_EVENT: dict[str, Any] = {"name": "inbox", "rules": [], "measures": ["ece"]}
of_both = pytest.mark.parametrize("shift", get_args(Shift))


def drawn(n: int, seed: int, share: float = 1.0, shift: Shift = "classes") -> tuple[Floats, list[int]]:
    """Calibrated predictions, of classes as logits, and labels, of which this share of the rows of class 1 is kept."""
    random = np.random.default_rng(seed)
    if shift == "event":
        p = random.beta(1.0, 1.5, 6 * n)
        y = random.random(6 * n) < p
        rows = np.flatnonzero(~y | (random.random(6 * n) < share))[:n]
        return p[rows], y[rows].astype(int).tolist()
    logits, labels, _ = calibrant.logistic_normal(20_000, n_classes=K, seed=0)
    rows = random.permutation(len(labels))
    rows = rows[(labels[rows] != 1) | (random.random(len(rows)) < share)][:n]
    return logits[rows].round(4), labels[rows].tolist()


def create(
    api: httpx.Client, n: int = 3000, labels: list[int] | None = None, shift: Shift = "classes", **fields: Any
) -> None:
    predictions, y = drawn(n, 1, shift=shift)
    body = {"predictions": predictions.tolist(), "labels": labels or y}
    body |= {"scale": "logit"} if shift == "classes" else {}
    stored = api.post("/batches", json=body).raise_for_status().json()["id"]
    definition = BODY if shift == "classes" else OF_EVENT
    answer = api.post("/monitors", json=definition | {"reference": {"batch": stored}} | fields)
    assert answer.status_code == 201, answer.text


def send(api: httpx.Client, predictions: Floats, at: float | None = None, what: str = "row", **headers: str) -> None:
    time = None if at is None else clock.at(at)
    rows = [{"id": f"{what}-{i}", "prediction": row, "timestamp": time} for i, row in enumerate(predictions.tolist())]
    api.post("/monitors/inbox/predictions", json={"rows": rows}, headers=headers).raise_for_status()


def label(api: httpx.Client, labels: list[int], what: str = "row") -> None:
    rows = [{"id": f"{what}-{i}", "label": y} for i, y in enumerate(labels)]
    api.post("/monitors/inbox/labels", json={"rows": rows}).raise_for_status()


def window(api: httpx.Client, at: int = 0) -> dict[str, Any]:
    estimate: dict[str, Any] = api.get("/monitors/inbox").raise_for_status().json()["windows"][at]["label_shift"]
    return estimate


def estimated(api: httpx.Client, store: Store, now: float | None = None, shift: Shift = "classes") -> dict[str, Any]:
    if shift == "classes":
        assert estimate_at(store, record(store), time.time() if now is None else now)
    return window(api)


def record(store: Store) -> MonitorRecord:
    return store.monitors.get("inbox")


def sample(store: Store) -> Reservoir:
    return Ledger(store.redis, store.keys, record(store)).buckets.vectors.sample(0, 2**40)


@of_both
def test_class_frequencies_are_estimated_before_labels(api: httpx.Client, store: Store, shift: Shift) -> None:
    create(api, 3000 if shift == "classes" else 10_000, shift=shift)
    predictions, y = drawn(3000 if shift == "classes" else 4000, 2, share=0.3, shift=shift)
    send(api, predictions)
    if shift == "classes":
        assert window(api)["reason"] == "a worker has not estimated it yet"
    before = time.time()
    estimate = estimated(api, store, shift=shift)
    assert (estimate["status"], estimate["rows"], estimate["level"]) == ("estimated", len(y), 0.95)
    if shift == "classes":
        assert estimate["sampled"] == 3000
        assert clock.seconds(estimate["estimated_at"]) >= before - 1e-3
    true = np.bincount(y) / len(y)
    assert ((np.array(estimate["low"]) < true) & (true < np.array(estimate["high"]))).all()
    assert estimate["high"][1] < estimate["reference"][1]
    assert np.abs(np.array(estimate["bbse"]) - true).max() < 0.05
    assert estimate["weights"] == pytest.approx(np.divide(estimate["estimated"], estimate["reference"]))
    low, weights, high = (np.array(estimate[f"weights{end}"]) for end in ("_low", "", "_high"))
    assert ((low <= weights) & (weights <= high)).all()


@pytest.mark.slow
def test_the_sample_of_the_library_and_of_the_monitor_give_the_same_estimate(api: httpx.Client, store: Store) -> None:
    create(api)
    send(api, drawn(2000, 3, share=0.5)[0])
    estimate = estimated(api, store)
    logits, labels = drawn(3000, 1)
    alone = calibrant.estimate_label_shift(logits, labels, drawn(2000, 3, share=0.5)[0], scale="logit")
    assert estimate["estimated"] == pytest.approx(known(alone.estimated).tolist(), abs=1e-3)
    assert estimate["low"] == pytest.approx(known(alone.low).tolist(), abs=0.01)  # another jackknife


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


@of_both
def test_a_window_that_is_no_mixture_of_the_classes_is_withheld(api: httpx.Client, store: Store, shift: Shift) -> None:
    create(api, 3000 if shift == "classes" else 10_000, shift=shift)
    if shift == "classes":
        send(api, 0.2 * drawn(2000, 11)[0])
    else:
        send(api, 0.25 + drawn(4000, 3, shift=shift)[0] ** 0.4 / 2.0)
    estimate = estimated(api, store, shift=shift)
    assert (estimate["status"], estimate["estimated"], estimate["weights"]) == ("withheld", None, None)
    assert "not a mixture" in estimate["reason"]
    assert estimate["p_value"] < 0.001


def test_few_rows_of_window_or_reference_are_a_reason(api: httpx.Client) -> None:
    create(api, 200, [1] * 190 + [0] * 10, shift="event")
    send(api, np.full(99, 0.5))
    assert window(api)["reason"] == "the window has 99 predictions; at least 100 are needed"
    send(api, np.full(100, 0.5))
    assert "outcome 0 has 10" in window(api)["reason"]


def test_without_a_reference_or_a_reservoir_of_classes_there_is_no_estimate(api: httpx.Client) -> None:
    api.post("/monitors", json=OF_EVENT).raise_for_status()
    assert window(api)["reason"] == "the monitor has no reference"
    api.delete("/monitors/inbox").raise_for_status()
    api.post("/monitors", json={"name": "inbox", "rules": [], "n_classes": K}).raise_for_status()
    estimate = window(api)
    assert (estimate["status"], estimate["estimated"]) == ("not-applicable", None)


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
