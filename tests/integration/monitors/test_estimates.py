"""Estimates of a window's performance without labels, beside the figures that labels show later."""

from __future__ import annotations

import io
import time
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

import calibrant
from backend.monitors.looks import look_at
from backend.store.clock import at
from backend.store.keyspace import Keyspace
from backend.store.monitors.buckets import Buckets, by_span
from backend.store.monitors.definitions import Definitions
from backend.store.store import Store
from tests.integration.monitors.writing import Writer
from tests.integration.responses import body_of, patched

HOUR, DAY = 3600, 86_400
FIGURES = {"accuracy", "auroc", "brier", "log-loss", "precision", "recall", "f1"}


def _drawn(n: int, seed: int, event: float = 1.0) -> tuple[list[float], list[int]]:
    """Predictions, and labels that are positive with probability ``p ** event``."""
    random = np.random.default_rng(seed)
    p = random.beta(1.0, 1.5, n)
    return p.tolist(), (random.random(n) < p**event).astype(int).tolist()


def _send(api: httpx.Client, path: str, **columns: list[Any]) -> dict[str, Any]:
    fields = [{"ids": "id", "predictions": "prediction", "labels": "label"}[name] for name in columns]
    rows = [dict(zip(fields, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return body_of(api.post(f"/monitors/inbox/{path}", json={"rows": rows}))


def _create(api: httpx.Client, *, event: float = 1.0, reference: bool = True, **fields: Any) -> None:
    """A monitor with a reference batch, calibrated for ``event`` of 1."""
    if reference:
        p, y = _drawn(20_000, 1, event)
        stored = api.post("/batches", json={"predictions": p, "labels": y}).raise_for_status().json()
        fields["reference"] = {"batch": stored["id"]}
    body = {"name": "inbox", "measures": ["ece"], "rules": [], "horizon": DAY, **fields}
    answer = api.post("/monitors", json=body)
    assert answer.status_code == 201, answer.text


def _window(api: httpx.Client, **query: Any) -> dict[str, Any]:
    window: dict[str, Any] = body_of(api.get("/monitors/inbox", params=query))["windows"][0]
    return window


def _waiting(api: httpx.Client, p: list[float]) -> list[str]:
    """Send predictions without labels; returns their ids."""
    ids = [f"row-{i}" for i in range(len(p))]
    assert _send(api, "predictions", ids=ids, predictions=p)["accepted"] == len(p)
    return ids


def test_figures_are_estimated_before_the_first_label_and_compared_with_labels_later(api: httpx.Client) -> None:
    _create(api)
    p, y = _drawn(4000, 2)
    ids = _waiting(api, p)
    before = _window(api)["estimates"]
    assert (before["status"], before["rows"], before["labelled"]) == ("estimated", 4000, 0)
    assert set(before["figures"]) == FIGURES
    assert all(figure["realised"] is None for figure in before["figures"].values())
    _send(api, "labels", ids=ids, labels=y)
    after = _window(api)["estimates"]
    assert (after["status"], after["rows"], after["labelled"]) == ("estimated", 4000, 4000)
    accuracy = float(np.mean((np.array(p) >= 0.5) == np.array(y)))
    assert after["figures"]["accuracy"]["realised"] == pytest.approx(accuracy, abs=1e-12)
    for name, figure in after["figures"].items():
        assert figure["estimated"] == pytest.approx(before["figures"][name]["estimated"], abs=1e-9)
        assert figure["interval"][0] < figure["realised"] < figure["interval"][1]
    assert np.sum(after["confusion"]) == pytest.approx(4000.0)
    assert np.sum(after["confusion_realised"]) == 4000
    low, high, seen = (np.array(after[f"confusion_{end}"]) for end in ("low", "high", "realised"))
    assert (low <= seen).all()
    assert (seen <= high).all()


def test_labels_of_some_rows_leave_the_estimate_of_all(api: httpx.Client) -> None:
    _create(api)
    p, y = _drawn(2000, 3)
    ids = _waiting(api, p)
    _send(api, "labels", ids=ids[:500], labels=y[:500])
    estimates = _window(api)["estimates"]
    assert (estimates["rows"], estimates["labelled"]) == (2000, 500)


@pytest.mark.slow
def test_late_labels_that_reject_the_calibration_withhold_the_estimates(api: httpx.Client) -> None:
    _create(api)
    p, y = _drawn(4000, 4, event=3.0)
    ids = _waiting(api, p)
    assert _window(api)["estimates"]["status"] == "estimated"
    _send(api, "labels", ids=ids, labels=y)
    estimates = _window(api)["estimates"]
    assert estimates["status"] == "withheld"
    assert estimates["reason"] == "labels that arrived later reject the calibration of the reference at alpha = 0.01"
    assert estimates["figures"]["accuracy"]["estimated"] is None
    assert estimates["figures"]["accuracy"]["realised"] is not None
    assert estimates["confusion"] is None


def test_without_a_reference_or_with_a_small_one_estimates_are_withheld(api: httpx.Client) -> None:
    _create(api, reference=False)
    p, _ = _drawn(100, 5)
    _waiting(api, p)
    window = _window(api)
    assert window["estimates"]["reason"] == "the monitor has no reference"
    assert window["drift"]["reason"] == "the monitor has no reference"
    small = api.post("/batches", json={"predictions": [0.2, 0.7] * 20, "labels": [0, 1] * 20}).json()["id"]
    patched(api, "/monitors/inbox", {"reference": {"batch": small}}).raise_for_status()
    reason = _window(api)["estimates"]["reason"]
    assert reason == "the reference has 40 labelled rows; at least 100 are needed"


@pytest.mark.parametrize("labels", [[0] * 400, [1] * 400, [1] * 80 + [0] * 320])
def test_a_reference_whose_parts_have_one_class_withholds_the_estimates(api: httpx.Client, labels: list[int]) -> None:
    p, _ = _drawn(400, 8)
    batch = api.post("/batches", json={"predictions": p, "labels": labels}).raise_for_status().json()["id"]
    _create(api, reference=False)
    patched(api, "/monitors/inbox", {"reference": {"batch": batch}}).raise_for_status()
    _waiting(api, p[:100])
    estimates = _window(api)["estimates"]
    assert (estimates["status"], "one class" in estimates["reason"]) == ("withheld", True)


def test_the_threshold_decides_and_must_be_a_fraction(api: httpx.Client) -> None:
    _create(api)
    p, y = _drawn(1000, 6)
    _send(api, "rows", predictions=p, labels=y)
    estimates = _window(api, threshold=0.2)["estimates"]
    decided = np.array(p) >= 0.2
    recall = float(np.mean(decided[np.array(y) == 1]))
    assert estimates["threshold"] == 0.2
    assert estimates["figures"]["recall"]["realised"] == pytest.approx(recall, abs=0.01)  # rows of a cell are together
    for wrong in ("0", "1", "nan", "-1", "x"):
        assert api.get("/monitors/inbox", params={"threshold": wrong}).status_code == 422


def test_a_monitor_of_confidences_has_figures_of_the_decision_and_says_which_it_cannot_have(api: httpx.Client) -> None:
    random = np.random.default_rng(7)
    probs = random.dirichlet([1.0, 1.0, 1.0], 3000)
    labels = np.array([random.choice(3, p=row) for row in probs])
    stored = api.post("/batches", json={"predictions": probs[:2000].tolist(), "labels": labels[:2000].tolist()}).json()
    _create(api, reference=False, n_classes=3)
    patched(api, "/monitors/inbox", {"reference": {"batch": stored["id"]}}).raise_for_status()
    _send(api, "rows", predictions=probs[2000:].tolist(), labels=labels[2000:].tolist())
    estimates = _window(api)["estimates"]
    assert estimates["status"] == "estimated"
    assert set(estimates["figures"]) == {"accuracy", "auroc", "brier", "log-loss"}
    accuracy = float(np.mean(probs[2000:].argmax(axis=1) == labels[2000:]))
    assert estimates["figures"]["accuracy"]["realised"] == pytest.approx(accuracy)
    assert set(estimates["not_applicable"]) == {"precision", "recall", "f1", "confusion"}
    assert estimates["confusion"] is None


def test_the_class_of_a_lower_rank_is_not_a_decision(api: httpx.Client) -> None:
    _create(api, reference=False, n_classes=3, reduction="top:2")
    estimates = _window(api)["estimates"]
    assert estimates["status"] == "not-applicable"
    assert estimates["figures"] == {}


def test_a_window_of_rows_estimates_the_labelled_rows(api: httpx.Client) -> None:
    _create(api, windows=[{"name": "last", "rows": 1000}])
    p, y = _drawn(3000, 8)
    _send(api, "rows", predictions=p, labels=y)
    estimates = _window(api)["estimates"]
    assert estimates["status"] == "estimated"
    assert estimates["rows"] == estimates["labelled"] >= 1000


@pytest.mark.slow
def test_a_span_of_buckets_is_a_reference_also_after_it_expired(api: httpx.Client, redis: Redis) -> None:
    now = time.time()
    start = (now // HOUR - 20) * HOUR
    reference = {"start": at(start), "end": at(start + 10 * HOUR)}
    _create(
        api,
        reference=False,
        bucket=HOUR,
        horizon=HOUR,
        windows=[{"name": "now", "seconds": HOUR}],
        retention=2 * DAY,
    )
    patched(api, "/monitors/inbox", {"reference": reference}).raise_for_status()
    writer = Writer(redis, "inbox")
    for hour in range(10):
        p, y = _drawn(500, 10 + hour)
        writer.labelled(np.array(p), np.array(y, dtype=np.int8), start + hour * HOUR)
    p, _ = _drawn(1000, 9)
    _waiting(api, p)
    before = _window(api)["estimates"]
    assert before["status"] == "estimated"
    look_at(Store.of(redis, Keyspace().tenant), writer.record, start + 2 * DAY + 5 * HOUR)  # half of it has expired
    assert writer.ledger.buckets.numbers(0, int(start // HOUR) + 4) == []
    assert _window(api)["estimates"]["figures"] == before["figures"]


def test_predictions_of_an_older_version_have_no_tally_and_the_estimate_says_so(
    api: httpx.Client, redis: Redis
) -> None:
    _create(api)
    Writer(redis, "inbox").predicted(50, time.time())
    p, _ = _drawn(200, 11)
    _waiting(api, p)
    estimates = _window(api)["estimates"]
    assert estimates["status"] == "withheld"
    assert estimates["reason"] == "50 predictions of the window were counted by a version that stored no tally of them"


def test_a_prediction_that_is_sent_or_labelled_again_is_estimated_once(api: httpx.Client) -> None:
    _create(api)
    p, y = _drawn(500, 12)
    ids = _waiting(api, p)
    _send(api, "predictions", ids=ids, predictions=p)
    _send(api, "rows", ids=ids[:100], predictions=p[:100], labels=y[:100])
    _send(api, "labels", ids=ids[:200], labels=y[:200])
    _send(api, "labels", ids=["early"], labels=[1])
    _send(api, "predictions", ids=["early"], predictions=[0.9])
    estimates = _window(api)["estimates"]
    assert (estimates["rows"], estimates["labelled"]) == (501, 201)


def test_drift_of_the_predictions_is_found_without_labels(api: httpx.Client) -> None:
    _create(api)
    p, _ = _drawn(2000, 13)
    _waiting(api, p)
    calm = _window(api)["drift"]
    assert calm["rows"] == 2000
    assert calm["level"] > 0.05
    moved = (np.array(p) ** 2).tolist()
    _send(api, "predictions", ids=[f"moved-{i}" for i in range(2000)], predictions=moved)
    drift = _window(api)["drift"]
    assert drift["level"] < 1e-6
    assert drift["window_share"] != drift["reference_share"]


def test_a_deleted_monitor_leaves_no_tallies_of_predictions(api: httpx.Client, redis: Redis) -> None:
    _create(api, bucket=HOUR)
    p, _ = _drawn(100, 14)
    _waiting(api, p)
    record = Definitions(redis, Keyspace()).get("inbox")
    keys = Keyspace().monitor(record.id)
    bucket = Buckets(redis, Keyspace(), record).numbers(0, 2**31)[0]
    lists = [keys.tallies("waiting", bucket), keys.tallies(by_span("waiting"), bucket // 64)]
    assert redis.exists(*lists) == 2
    Buckets(redis, Keyspace(), record).drop(2**31)
    assert redis.exists(*lists) == 0


# --- Reference rows with covariate-shift weights for one window


def _shifted(n: int, seed: int, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A binary feature that is 1 for this share of the rows, predictions, and labels that depend on both."""
    random = np.random.default_rng(seed)
    feature = (random.random(n) < share).astype(int)
    p = random.beta(2.0, 2.0, n)
    return feature, p, (random.random(n) < np.where(feature == 1, p**3.0, p)).astype(int)


def _store(api: httpx.Client, **arrays: Any) -> str:
    body = {name: column.tolist() if isinstance(column, np.ndarray) else column for name, column in arrays.items()}
    return str(api.post("/batches", json=body).raise_for_status().json()["id"])


@pytest.mark.slow
def test_weights_of_reference_rows_correct_the_estimates_of_a_window(api: httpx.Client) -> None:
    old, old_p, old_y = _shifted(20_000, 21, 0.1)
    new, new_p, new_y = _shifted(4000, 22, 0.9)
    _create(api, reference=False)
    patched(api, "/monitors/inbox", {"reference": {"batch": _store(api, predictions=old_p, labels=old_y)}})
    ids = _waiting(api, new_p.tolist())
    ratios = calibrant.density_ratios(old[:, None], new[:, None])
    batch = _store(api, predictions=old_p, labels=old_y, weights=ratios, weights_kind="importance")
    plain, weighted = (_window(api, **query)["estimates"] for query in ({}, {"reference": batch}))
    assert (plain["reference"], plain["effective"]) == (None, None)
    assert weighted["reference"] == batch
    estimator = calibrant.fit_performance_estimator(old_p, old_y, weights=ratios)
    assert weighted["effective"] == pytest.approx(estimator.effective, rel=1e-9)
    for name, figure in estimator.estimate(new_p).figures.items():
        assert weighted["figures"][name]["estimated"] == pytest.approx(figure.value, rel=1e-3)
    realised = float(np.mean((new_p >= 0.5) == new_y))
    low, high = weighted["figures"]["accuracy"]["interval"]
    assert low < realised < high
    assert not plain["figures"]["accuracy"]["interval"][0] < realised < plain["figures"]["accuracy"]["interval"][1]
    _send(api, "labels", ids=ids, labels=new_y.tolist())
    plain, weighted = (_window(api, **query)["estimates"] for query in ({}, {"reference": batch}))
    assert (plain["status"], weighted["status"]) == ("withheld", "estimated")
    assert weighted["figures"]["accuracy"]["realised"] == pytest.approx(realised)


def test_confidences_are_estimated_from_weighted_rows(api: httpx.Client) -> None:
    random = np.random.default_rng(23)
    z = random.normal(size=(3000, 3)) * 1.5
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > random.random((3000, 1))).argmax(axis=1)
    _create(api, reference=False, n_classes=3, reduction="confidence")
    _send(api, "predictions", ids=[f"row-{i}" for i in range(1000)], predictions=p[:1000].tolist())
    weights = random.uniform(0.5, 2.0, 3000)
    batch = _store(api, predictions=p, labels=y, weights=weights, weights_kind="importance")
    estimates = _window(api, reference=batch)["estimates"]
    assert estimates["status"] == "estimated"
    assert estimates["figures"]["accuracy"]["estimated"] == pytest.approx(p[:1000].max(axis=1).mean(), abs=0.03)


@pytest.mark.parametrize("n", [199, 200])
def test_few_weighted_rows_are_refused(api: httpx.Client, n: int) -> None:
    _create(api, reference=False)
    _waiting(api, [0.2, 0.7])
    _, p, y = _shifted(n, 24, 0.5)
    answer = api.get("/monitors/inbox", params={"reference": _store(api, predictions=p, labels=y)})
    assert answer.status_code == (422 if n < 200 else 200), answer.text
    if n < 200:
        assert answer.json()["errors"][0]["parameter"] == "reference"


def test_many_weighted_rows_are_refused(api: httpx.Client) -> None:
    _create(api, reference=False)
    arrays = {"predictions": np.full(200_001, 0.5), "labels": np.arange(200_001) % 2}
    body = io.BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]
    stored = api.post("/batches", content=body.getvalue(), headers={"Content-Type": "application/x-npz"})
    answer = body_of(api.get("/monitors/inbox", params={"reference": stored.raise_for_status().json()["id"]}), 422)
    assert answer["errors"][0] == {
        "parameter": "reference",
        "detail": "must have at most 200,000 rows; store a random sample of them",
    }


def test_weighted_rows_that_do_not_fit_are_refused_at_the_field(api: httpx.Client) -> None:
    windows = [{"name": "hour", "seconds": HOUR}, {"name": "day", "seconds": DAY}]
    _create(api, reference=False, windows=windows)
    _, p, y = _shifted(300, 25, 0.5)
    fitting = _store(api, predictions=p, labels=y)
    unlabelled = _store(api, predictions=p)
    vectors = _store(api, predictions=np.stack([1 - p, p], axis=1), labels=y)
    logits = _store(api, predictions=p, labels=y, scale="logit")
    forecasts = _store(api, prediction_kind="regression", observed=p, mean=p, variance=p)
    cases = [
        ({"reference": fitting}, 422, "name that window"),
        ({"reference": "batch_0", "windows": "hour"}, 422, ""),
        ({"reference": 65 * "b", "windows": "hour"}, 422, ""),
        ({"reference": unlabelled, "windows": "hour"}, 422, "without labels"),
        ({"reference": vectors, "windows": "hour"}, 422, "must have predictions (n,)"),
        ({"reference": logits, "windows": "hour"}, 422, "has the scale logit"),
        ({"reference": forecasts, "windows": "hour"}, 422, "of regression"),
    ]
    for query, status, text in cases:
        answer = api.get("/monitors/inbox", params=query)
        assert answer.status_code == status, answer.text
        assert text in answer.text
        if status == 422:
            assert answer.json()["errors"][0]["parameter"] == "reference", answer.text
    readings = api.get("/monitors/inbox", params={"reference": fitting, "windows": "hour"}).json()["windows"]
    assert readings[0]["estimates"]["reason"] == "the window has no predictions"
    one_class = _store(api, predictions=p, labels=np.zeros(300, int))
    _waiting(api, [0.2, 0.7])
    readings = api.get("/monitors/inbox", params={"reference": one_class, "windows": "hour"}).json()["windows"]
    assert "one class" in readings[0]["estimates"]["reason"]


@pytest.mark.parametrize("weights", [[0.0] * 100 + [1.0] * 200, [1e-300] + [1e300] * 299])
def test_rows_without_weight_do_not_count(api: httpx.Client, weights: list[float]) -> None:
    _create(api, reference=False)
    _waiting(api, [0.2, 0.7] * 50)
    _, p, y = _shifted(300, 26, 0.5)
    batch = _store(api, predictions=p, labels=y, weights=weights, weights_kind="importance")
    estimates = _window(api, reference=batch)["estimates"]
    assert estimates["status"] == "estimated"
    assert estimates["effective"] == pytest.approx(sum(weight > 0.5 for weight in weights))


def test_rows_of_which_one_has_weight_are_refused(api: httpx.Client) -> None:
    _create(api, reference=False)
    _waiting(api, [0.2, 0.7])
    _, p, y = _shifted(300, 26, 0.5)
    batch = _store(api, predictions=p, labels=y, weights=[1e-300] * 299 + [1.0], weights_kind="importance")
    answer = api.get("/monitors/inbox", params={"reference": batch})
    assert (answer.status_code, answer.json()["errors"]) == (
        422,
        [
            {
                "parameter": "reference",
                "detail": "has 1 row of positive weight, but 10 windows need at least 200",
            }
        ],
    )


def test_a_monitor_of_regression_takes_no_weighted_rows(api: httpx.Client) -> None:
    forecast = {"kind": "normal"}
    created = api.post(
        "/monitors", json={"name": "inbox", "prediction_kind": "regression", "forecast": forecast, "rules": []}
    )
    assert created.status_code == 201, created.text
    _, p, y = _shifted(300, 27, 0.5)
    answer = body_of(api.get("/monitors/inbox", params={"reference": _store(api, predictions=p, labels=y)}), 422)
    assert answer["errors"][0]["parameter"] == "reference"
