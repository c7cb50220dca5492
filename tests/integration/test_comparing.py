"""Comparisons over HTTP: at once and by a worker, and the power law over batches."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

import calibrant
from backend.kinds.classes import read_operation, training_of
from backend.store.store import Store
from calibrant.client import Calibrant
from calibrant.comparison import RAW
from calibrant.core.batch import read_batch
from calibrant.core.digest import digest
from schemas.evaluations import EvaluateSpec
from schemas.maps import MapRecord
from tests.integration.responses import body_of, problem_of, result_of
from tests.known import known

RANDOM = np.random.default_rng(1)
TRUE = RANDOM.random(3000)
P, Y = TRUE**1.5, (RANDOM.random(3000) < TRUE).astype(int)


def _evaluate(http: httpx.Client, body: dict[str, Any]) -> httpx.Response:
    return http.post("/evaluate", json=body)


@pytest.fixture(scope="module")
def batches() -> list[tuple[Any, Any]]:
    """Six batches of rising noise, in which both errors grow."""
    rows = []
    for noise in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0):
        logit = RANDOM.normal(0, 3, 1500)
        y = (RANDOM.random(1500) < 1 / (1 + np.exp(-logit))).astype(int)
        rows.append((1 / (1 + np.exp(-1.5 * (logit + noise * RANDOM.normal(size=1500)))), y))
    return rows


def test_a_comparison_is_that_of_a_notebook(http: httpx.Client, client: Calibrant) -> None:
    half, unseen = client.upload(P[:1500], Y[:1500]), client.upload(P[1500:], Y[1500:])
    records = [client.fit(method, half.id, name="compared") for method in ("platt", "isotonic")]
    report = client.compare(unseen.id, ["compared:1", records[1].id], measures=["ece", "brier"])
    maps = {"compared:1": calibrant.load(records[0].document), records[1].id: calibrant.load(records[1].document)}
    local = calibrant.compare(P[1500:], Y[1500:], maps, measures=["ece", "brier"])
    assert report.comparison is not None
    assert [contestant.map for contestant in report.comparison.contestants] == [None, records[0].id, records[1].id]
    for key, comparison in report.comparison.measures.items():
        assert comparison.ranking == list(local.measures[key].ranking or ())
        assert [pair.interval for pair in comparison.pairs] == [pair.interval for pair in local.measures[key].pairs]
        assert [pair.p_value for pair in comparison.pairs] == [pair.p_value for pair in local.measures[key].pairs]
    assert report.measures["ece"].value == local.report.measures["ece"].value


def test_arrays_in_the_request_are_compared_too(http: httpx.Client, client: Calibrant) -> None:
    record = client.fit("platt", client.upload(P[:1500], Y[:1500]).id)
    body = {"predictions": P[1500:].tolist(), "labels": Y[1500:].tolist(), "maps": [record.id], "correction": "holm"}
    comparison = _evaluate(http, body).json()["comparison"]
    assert comparison["correction"] == "holm"
    assert comparison["measures"]["ece"]["of"] == "debiased"
    plain = _evaluate(http, body | {"of": "plain"}).json()["comparison"]
    assert plain["measures"]["ece"]["of"] == "value"
    calls = known(client.compare(predictions=P[1500:], labels=Y[1500:], maps=[record.id], of="plain").comparison)
    assert calls.measures["ece"].of == "value"
    assert [contestant["name"] for contestant in comparison["contestants"]] == [RAW, record.id]
    assert comparison["level"] == 0.95


def test_a_long_comparison_is_a_job_with_the_same_answer(http: httpx.Client, client: Calibrant) -> None:
    record = client.fit("platt", client.upload(P[:1500], Y[:1500]).id)
    unseen = client.upload(P[1500:], Y[1500:])
    queued = _evaluate(http, {"batch": unseen.id, "maps": [record.id], "measures": ["ece", "ece-pl"]})
    long = result_of(client, queued)["report"]["comparison"]
    quick = _evaluate(http, {"batch": unseen.id, "maps": [record.id], "measures": ["ece"]}).json()["comparison"]
    assert long["measures"]["ece"] == quick["measures"]["ece"]
    assert long["measures"]["ece-pl"]["problem"].startswith("no intervals and no p-values")
    assert len(long["measures"]["ece-pl"]["ranking"]) == 2


@pytest.mark.slow
def test_five_batches_have_a_power_law_and_four_have_not(client: Calibrant, batches: list[tuple[Any, Any]]) -> None:
    stored = [client.upload(p, y).id for p, y in batches]
    record = client.fit("platt", stored[0])
    answer = client.power_law(stored, maps=[record.id], measures=["ece"])
    assert [row.batch for row in answer.batches] == stored
    assert answer.batches[0].report.comparison is not None
    assert answer.power_law is not None
    assert set(answer.power_law) == {RAW, record.id}
    law = answer.power_law[RAW]["ece"]
    assert law.exponent is not None
    assert law.interval is not None
    assert law.interval[0] <= law.exponent <= law.interval[1]
    assert law.plain is not None
    assert known(law.plain.exponent) != law.exponent
    few = client.power_law(stored[:4], measures=["ece"])
    assert few.power_law is None
    assert few.problem == "a power law needs at least 5 batches"


@pytest.mark.slow
def test_a_law_over_batches_by_a_worker_is_that_at_once(
    http: httpx.Client, client: Calibrant, batches: list[tuple[Any, Any]]
) -> None:
    stored = [client.upload(p, y).id for p, y in batches[:5]]
    quick = body_of(_evaluate(http, {"batches": stored, "measures": ["ece"]}))
    report = result_of(client, _evaluate(http, {"batches": stored, "measures": ["ece", "ece-pl"]}))["report"]
    assert report["power_law"][RAW]["ece"] == quick["power_law"][RAW]["ece"]


@pytest.mark.parametrize(
    ("body", "status", "code", "pointer"),
    [
        ({"maps": ["nowhere"]}, 422, "unknown-map-reference", "/maps/0"),
        ({"maps": []}, 422, "invalid-field", "/maps"),
        ({"maps": ["uncalibrated"]}, 422, "invalid-field", "/maps/0"),
        ({"maps": ["a"], "map": "b"}, 422, "invalid-field", "/maps"),
        ({"maps": ["a"], "correction": "none"}, 422, "invalid-field", "/correction"),
        ({"maps": ["a"], "of": "value"}, 422, "invalid-field", "/of"),
        ({"batches": ["batch_x", "batch_y"]}, 422, "invalid-field", "/batches"),
        ({"batches": ["batch_x"]}, 422, "invalid-field", "/batches"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    http: httpx.Client, body: dict[str, Any], status: int, code: str, pointer: str
) -> None:
    refused = _evaluate(http, {"predictions": [0.1, 0.9], "labels": [0, 1]} | body)
    problem = refused.json()
    assert (refused.status_code, problem["type"]) == (status, f"/problems/{code}")
    assert problem["errors"][0]["pointer"] == pointer


def test_batches_are_known_and_differ(http: httpx.Client, client: Calibrant) -> None:
    batch = client.upload(P[:100], Y[:100]).id
    assert _evaluate(http, {"batches": [batch, batch]}).json()["type"] == "/problems/invalid-field"
    gone = _evaluate(http, {"batches": [batch, "batch_gone"]})
    assert problem_of(gone) == (422, "unknown-batch-reference", "/batches/1")


def test_a_stored_map_tells_how_it_was_fitted() -> None:
    fitted = calibrant.fit("platt", P, Y)
    record = MapRecord(
        id="map_1",
        name=None,
        version=None,
        method="platt",
        options={},
        reduction="binary",
        scale="probability",
        n_classes=None,
        n=3000,
        seed=3,
        created_at="2026-01-01T00:00:00Z",
        document=fitted.to_document(),
    )
    training = training_of(record)
    assert (known(training.fitting).method.name, training.seed) == ("platt", 3)
    assert training_of(record.model_copy(update={"method": "elsewhere"})).fitting is None


def test_documents_hold_plain_json(redis: Redis, store: Store) -> None:
    spec = EvaluateSpec(
        batch=None, batches=["a", "b"], measures=["ece"], reduction=None, map=None, interval=None, resamples=100, seed=0
    )
    batch = read_batch(P[:200], Y[:200])
    documents = read_operation(spec, store.maps.get).documents([("a", batch, None), ("b", batch, None)], 2)
    assert json.loads(json.dumps(documents))["problem"] == "a power law needs at least 5 batches"
    assert len(digest(batch)) == 32
