"""The class frequencies of a window without labels: estimated, withheld with a reason, or not applicable."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest


def _drawn(n: int, seed: int, share: float = 1.0, warp: float = 1.0) -> tuple[list[float], list[int]]:
    """Calibrated predictions, of which this share of the positives is kept, moved by a power."""
    random = np.random.default_rng(seed)
    p = random.beta(1.0, 1.5, 6 * n)
    y = random.random(6 * n) < p
    there = np.flatnonzero(~y | (random.random(6 * n) < share))[:n]
    return (p[there] ** warp).tolist(), y[there].astype(int).tolist()


def _create(api: httpx.Client, n: int = 10_000, labels: list[int] | None = None, **fields: Any) -> None:
    p, y = _drawn(n, 1)
    stored = api.post("/batches", json={"predictions": p, "labels": labels or y}).raise_for_status().json()["id"]
    body = {"name": "inbox", "measures": ["ece"], "rules": [], "reference": {"batch": stored}, **fields}
    assert api.post("/monitors", json=body).status_code == 201


def _send(api: httpx.Client, p: list[float]) -> None:
    rows = [{"id": f"row-{i}", "prediction": prediction} for i, prediction in enumerate(p)]
    api.post("/monitors/inbox/predictions", json={"rows": rows}).raise_for_status()


def _window(api: httpx.Client) -> dict[str, Any]:
    estimate: dict[str, Any] = api.get("/monitors/inbox").raise_for_status().json()["windows"][0]["label_shift"]
    return estimate


def test_the_event_rate_of_a_window_is_estimated_before_its_labels(api: httpx.Client) -> None:
    _create(api)
    p, y = _drawn(4000, 2, share=0.3)
    _send(api, p)
    estimate = _window(api)
    assert (estimate["status"], estimate["rows"], estimate["level"]) == ("estimated", 4000, 0.95)
    assert estimate["low"][1] < np.mean(y) < estimate["high"][1] < estimate["reference"][1]
    assert abs(estimate["bbse"][1] - np.mean(y)) < 0.05
    assert estimate["weights"] == pytest.approx(np.divide(estimate["estimated"], estimate["reference"]))
    low, weights, high = (np.array(estimate[f"weights{end}"]) for end in ("_low", "", "_high"))
    assert ((low <= weights) & (weights <= high)).all()


def test_a_window_that_is_no_mixture_of_the_classes_is_withheld_with_the_reason(api: httpx.Client) -> None:
    _create(api)
    p, _ = _drawn(4000, 3, warp=0.4)
    _send(api, [0.25 + prediction / 2.0 for prediction in p])
    estimate = _window(api)
    assert (estimate["status"], estimate["estimated"], estimate["weights"]) == ("withheld", None, None)
    assert "not a mixture" in estimate["reason"]
    assert estimate["p_value"] < 0.001


def test_few_rows_of_window_or_reference_are_a_reason(api: httpx.Client) -> None:
    _create(api, 200, [1] * 190 + [0] * 10)
    _send(api, [0.5] * 99)
    assert _window(api)["reason"] == "the window has 99 predictions; at least 100 are needed"
    _send(api, [0.5] * 100)
    assert "outcome 0 has 10" in _window(api)["reason"]


def test_without_a_reference_there_is_none(api: httpx.Client) -> None:
    api.post("/monitors", json={"name": "inbox", "rules": []}).raise_for_status()
    assert _window(api)["reason"] == "the monitor has no reference"


def test_confidences_are_no_classes(api: httpx.Client) -> None:
    api.post("/monitors", json={"name": "inbox", "rules": [], "n_classes": 3}).raise_for_status()
    estimate = _window(api)
    assert (estimate["status"], estimate["estimated"]) == ("not-applicable", None)
