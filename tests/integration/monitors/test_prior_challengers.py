"""Challengers without labels: corrected for the class frequencies of a window, proposed with their assumption."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.monitors.recalibration import recalibrate_at
from backend.store.store import Store
from calibrant.core.cells import Floats
from tests.integration.monitors.test_label_shift import K, create, drawn, send
from tests.integration.responses import body_of
from tests.integration.test_workers import until

ASSUMES = "only class frequencies changed: the predictions of each class are distributed as in the reference"


def request(api: httpx.Client, **query: str) -> dict[str, Any]:
    return body_of(api.post("/monitors/inbox/recalibrate", params={"correction": "label-shift"} | query), 202)


def create_of_event(api: httpx.Client, **fields: Any) -> None:
    create(api, 10_000, shift="event", **fields)


def process(store: Store) -> None:
    recalibrate_at(store, store.monitors.get("inbox"), time.time())


def proposal(api: httpx.Client) -> dict[str, Any]:
    answer: dict[str, Any] = api.get("/monitors/inbox/proposal").raise_for_status().json()
    return answer


def declined(api: httpx.Client) -> dict[str, Any]:
    assert api.get("/monitors/inbox/proposal").status_code == 404
    entry: dict[str, Any] = api.get("/monitors/inbox/audit").json()["items"][0]
    assert entry["action"] == "recalibration-declined"
    return entry


def loss(p: Floats, y: Floats) -> float:
    return float(-np.mean(np.log(np.where(y == 1, p, 1.0 - p))))


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize("policy", ["off", "auto"])
def test_a_map_of_one_event_is_corrected_and_waits_to_be_accepted(
    api: httpx.Client, store: Store, scale: str, policy: str
) -> None:
    def scores(p: Floats) -> Floats:
        return p if scale == "probability" else np.log(p) - np.log1p(-p)

    before, known = drawn(10_000, 1, shift="event")
    batch = {"predictions": scores(before).tolist(), "labels": known, "scale": scale}
    stored = api.post("/batches", json=batch).raise_for_status().json()["id"]
    body = {"name": "inbox", "measures": ["ece"], "rules": [], "reference": {"batch": stored}, "scale": scale}
    api.post("/monitors", json=body | {"recalibration": {"policy": policy}}).raise_for_status()
    p, y = drawn(4000, 2, share=0.2, shift="event")
    send(api, scores(p))
    assert request(api)["number"] == 1
    process(store)
    proposed = proposal(api)
    assert proposed["found"]["assumption"] == ASSUMES
    assert (proposed["found"]["gain"], proposed["found"]["rows"], proposed["occasion"]["correction"]) == (
        None,
        4000,
        "label-shift",
    )
    assert api.get("/maps/inbox/aliases/champion").status_code == 404
    challenger = api.get(f"/maps/{proposed['map']}").json()
    assert ASSUMES in challenger["description"]
    assert challenger["document"]["diagnostics"]["class_frequencies"][1] == pytest.approx(np.mean(y), abs=0.05)
    assert api.post("/monitors/inbox/proposal/accept").json()["version"] == 1
    call = {"map": "inbox@champion", "predictions": scores(p).tolist(), "scale": scale}
    calibrated = np.array(api.post("/calibrate", json=call).raise_for_status().json()["predictions"])
    assert loss(calibrated, np.array(y)) < loss(p, np.array(y)) - 0.02
    assert np.mean(calibrated) == pytest.approx(np.mean(y), abs=0.03)


@pytest.mark.slow
def test_a_worker_proposes_a_map_of_all_classes_from_the_reservoir(
    api: httpx.Client, redis: Redis, worker: subprocess.Popen[bytes]
) -> None:
    create(api)
    logits, y = drawn(2000, 3, share=0.2)
    send(api, logits)
    request(api)
    until(redis, lambda: api.get("/monitors/inbox/proposal").is_success)
    proposed = proposal(api)
    assert proposed["found"]["assumption"] == ASSUMES
    assert api.post("/monitors/inbox/proposal/accept").json()["version"] == 1
    call = {"map": "inbox@champion", "predictions": logits.tolist(), "scale": "logit"}
    calibrated = np.array(api.post("/calibrate", json=call).raise_for_status().json()["predictions"])
    true = np.bincount(y, minlength=K) / len(y)
    assert calibrated.mean(axis=0) == pytest.approx(true, abs=0.03)
    before = np.exp(logits - logits.max(axis=1, keepdims=True))
    before /= before.sum(axis=1, keepdims=True)
    rows = np.arange(len(y))
    assert np.log(calibrated[rows, y]).mean() > 0.95 * np.log(before[rows, y]).mean()


def test_without_a_shift_there_is_no_challenger(api: httpx.Client, store: Store) -> None:
    create_of_event(api)
    send(api, drawn(2000, 5, shift="event")[0])
    request(api)
    process(store)
    entry = declined(api)
    assert entry["detail"].startswith("no class frequency differs significantly")
    assert entry["found"]["code"] == "not-shifted"


def test_reasons_that_there_is_no_estimate_are_those_of_the_window(api: httpx.Client, store: Store) -> None:
    create_of_event(api)
    send(api, np.full(50, 0.5))
    request(api)
    process(store)
    assert declined(api)["detail"] == "the window has 50 predictions; at least 100 are needed"
    send(api, 0.25 + drawn(4000, 3, shift="event")[0] ** 0.4 / 2.0)
    request(api)
    process(store)
    assert "not a mixture" in declined(api)["detail"]
    assert declined(api)["found"]["code"] == "label-shift-withheld"


@pytest.mark.parametrize(
    ("fields", "detail"),
    [({"n_classes": 3}, "the event must be binary or class:k"), ({}, "the monitor has no reference")],
)
def test_monitors_without_an_estimate_have_no_challenger(
    api: httpx.Client, store: Store, fields: dict[str, Any], detail: str
) -> None:
    api.post("/monitors", json={"name": "inbox", "rules": []} | fields).raise_for_status()
    if not fields:
        send(api, np.full(200, 0.5))
    request(api)
    process(store)
    assert detail in declined(api)["detail"]


def test_after_a_map_only_a_reservoir_has_the_predictions(api: httpx.Client, store: Store) -> None:
    rows = {"predictions": [0.1, 0.4, 0.6, 0.9] * 20, "labels": [0, 1, 0, 1] * 20}
    api.post("/maps", json=rows | {"method": "identity", "name": "inbox"}).raise_for_status()
    api.put("/maps/inbox/aliases/champion", json={"version": 1}).raise_for_status()
    create_of_event(api, map="inbox@champion")
    request(api)
    process(store)
    assert "after the map of the monitor" in declined(api)["detail"]


def test_requests_for_different_corrections_are_separate_and_repeats_are_one(api: httpx.Client) -> None:
    create_of_event(api)
    assert [request(api)["number"] for _ in range(2)] == [1, 1]
    assert api.post("/monitors/inbox/recalibrate").json()["number"] == 2
    assert request(api)["number"] == 1


@pytest.mark.parametrize("query", ["correction=covariate-shift", "correction=", "correct=label-shift", "correction=1"])
def test_an_unknown_correction_is_refused(api: httpx.Client, query: str) -> None:
    create_of_event(api)
    answer = api.post(f"/monitors/inbox/recalibrate?{query}")
    assert answer.status_code in (400, 422)
    assert answer.json()["type"] == "/problems/invalid-field"
    assert api.get("/monitors/inbox/audit").json()["items"] == []


def test_a_map_that_follows_the_stream_is_not_corrected(api: httpx.Client) -> None:
    create_of_event(api, recalibration={"policy": "online"})
    answer = api.post("/monitors/inbox/recalibrate?correction=label-shift")
    assert (answer.json()["type"], answer.json()["errors"][0]["parameter"]) == (
        "/problems/invalid-field",
        "correction",
    )
    assert api.get("/monitors/inbox/audit").json()["items"] == []


def test_regression_has_no_label_shift(api: httpx.Client) -> None:
    forecast = {"kind": "quantiles", "levels": [0.1, 0.5, 0.9]}
    body = {"name": "inbox", "prediction_kind": "regression", "forecast": forecast, "rules": []}
    api.post("/monitors", json=body).raise_for_status()
    answer = api.post("/monitors/inbox/recalibrate?correction=label-shift")
    assert answer.json()["type"] == "/problems/prediction-kind-mismatch"
