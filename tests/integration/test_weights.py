"""The kind of weights over HTTP and on the command line."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.kinds.classes import read_stored_batch
from backend.store.keyspace import Keyspace
from backend.store.store import Store
from calibrant.core.reductions import Event
from tests.packed import npy

RANDOM = np.random.default_rng(0)
P = RANDOM.random(80)
ROWS: dict[str, Any] = {"predictions": P.tolist(), "labels": (RANDOM.random(80) < P).astype(int).tolist()}
FORECASTS: dict[str, Any] = {
    "prediction_kind": "regression",
    "observed": RANDOM.normal(size=80).tolist(),
    "mean": [0.0] * 80,
    "std": [1.0] * 80,
}
COUNTS = RANDOM.integers(1, 4, 80).tolist()
ASKED = {"measures": ["ece", "ks", "brier"], "interval": 0.9, "resamples": 100}
ASKED_OF_FORECASTS = {"measures": ["crps", "coverage"], "interval": 0.9}


@pytest.mark.parametrize(
    ("rows", "asked"), [(ROWS, ASKED), (FORECASTS, ASKED_OF_FORECASTS)], ids=["classes", "numbers"]
)
def test_importance_is_the_default_and_the_answer_names_it(api: httpx.Client, rows: Any, asked: Any) -> None:
    weighted = rows | {"weights": COUNTS}
    answers = [
        api.post("/evaluate", json=weighted | asked | kind).json()
        for kind in ({}, {"weights_kind": "importance"}, {"weights_kind": "frequency"})
    ]
    assert [answer["weights_kind"] for answer in answers] == ["importance", "importance", "frequency"]
    assert answers[0] == answers[1]
    assert answers[0]["measures"] != answers[2]["measures"]
    tripled = api.post("/evaluate", json=rows | {"weights": [3 * w for w in COUNTS]} | asked).json()
    for key, estimate in answers[0]["measures"].items():
        assert tripled["measures"][key]["interval"] == pytest.approx(estimate["interval"], rel=1e-9), key
    assert api.post("/batches", json=weighted).json()["weights_kind"] == "importance"
    assert api.post("/evaluate", json=rows | asked).json().get("weights_kind") is None


@pytest.mark.parametrize("path", ["/evaluate", "/batches", "/maps"])
@pytest.mark.parametrize("rows", [ROWS, FORECASTS], ids=["classes", "numbers"])
def test_frequencies_that_are_no_whole_numbers_are_refused(api: httpx.Client, path: str, rows: Any) -> None:
    weights: list[float] = [*COUNTS]
    weights[5] = 0.5
    body = rows | {"weights": weights, "weights_kind": "frequency"}
    body |= {"method": "location-scale" if rows is FORECASTS else "platt"} if path == "/maps" else {}
    answer = api.post(path, json=body)
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid-weight")
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/weights/5"]


def test_a_job_stores_equal_weights_with_their_kind(api: httpx.Client, store: Store) -> None:
    asked = ROWS | {"weights": [2.5] * 80} | ASKED
    job = api.post("/evaluate", json=asked, headers={"Prefer": "respond-async"}).json()
    record = store.batches.record(store.jobs.get(job["id"]).spec["batch"])
    assert record.weights_kind == "importance"


def test_frequencies_stored_by_an_earlier_version_keep_their_meaning(
    api: httpx.Client, store: Store, redis: Redis
) -> None:
    weights = np.round(RANDOM.lognormal(size=80), 2)
    record = {
        "id": "batch_fractions", "n": 80, "n_classes": None, "scale": "probability", "weights_kind": "frequency",
        "arrays": ["predictions", "labels", "weights"], "clipped": 0, "renormalised": 0,
        "created_at": "2026-01-01T00:00:00.000Z", "expires_at": "2026-01-02T00:00:00.000Z",
    }  # fmt: skip
    fields: dict[Any, Any] = {"record": json.dumps(record)}
    for name, column in (ROWS | {"weights": weights}).items():
        fields[f"{name}:0"] = npy(column)
    redis.hset(Keyspace().batch("batch_fractions"), mapping=fields)
    redis.expire(Keyspace().batch("batch_fractions"), 60)
    batch = read_stored_batch(store.batches, "batch_fractions")
    assert batch.weights_kind == "frequency"
    assert batch.weights is not None
    assert batch.weights.tolist() == weights.tolist()
    answer = api.post("/evaluate", json={"batch": "batch_fractions", "measures": ["confidence-gap"]}).json()
    assert answer["weights_kind"] == "frequency"
    event = Event(P, np.array(ROWS["labels"], np.int8), weights, "frequency")
    assert answer["measures"]["confidence-gap"]["value"] == pytest.approx(
        float(weights @ (np.abs(event.p - 0.5) + 0.5 - ((event.p >= 0.5) == event.y))) / weights.sum()
    )
