"""The class frequencies of a window without labels: estimated, withheld with a reason, or not applicable."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest


def _drawn(n: int, seed: int, kept: float = 1.0, warp: float = 1.0) -> tuple[list[float], list[int]]:
    """Calibrated predictions, of which this share of the positives is kept, moved by a power."""
    random = np.random.default_rng(seed)
    p = random.beta(1.0, 1.5, 6 * n)
    y = random.random(6 * n) < p
    there = np.flatnonzero(~y | (random.random(6 * n) < kept))[:n]
    return (p[there] ** warp).tolist(), y[there].astype(int).tolist()


def _create(api: httpx.Client, n: int = 10_000, labels: list[int] | None = None, **fields: Any) -> None:
    p, y = _drawn(n, 1)
    stored = api.post("/batches", json={"predictions": p, "labels": labels or y}).raise_for_status().json()["id"]
    body = {"name": "inbox", "measures": ["ece"], "rules": [], "reference": {"batch": stored}, **fields}
    assert api.post("/monitors", json=body).status_code == 201


def _send(api: httpx.Client, p: list[float]) -> None:
    rows = [{"id": f"row-{i}", "prediction": value} for i, value in enumerate(p)]
    api.post("/monitors/inbox/predictions", json={"rows": rows}).raise_for_status()


def _window(api: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = api.get("/monitors/inbox").raise_for_status().json()["windows"][0]["label_shift"]
    return found


def test_the_event_rate_of_a_window_is_estimated_before_its_labels(api: httpx.Client) -> None:
    _create(api)
    p, y = _drawn(4000, 2, kept=0.3)
    _send(api, p)
    found = _window(api)
    assert (found["status"], found["rows"], found["level"]) == ("estimated", 4000, 0.95)
    assert found["low"][1] < np.mean(y) < found["high"][1] < found["reference"][1]
    assert abs(found["bbse"][1] - np.mean(y)) < 0.05
    assert found["weights"] == pytest.approx(np.divide(found["estimated"], found["reference"]))
    low, weights, high = (np.array(found[f"weights{end}"]) for end in ("_low", "", "_high"))
    assert ((low <= weights) & (weights <= high)).all()


def test_a_window_that_is_no_mixture_of_the_classes_is_withheld_with_the_reason(api: httpx.Client) -> None:
    _create(api)
    p, _ = _drawn(4000, 3, warp=0.4)
    _send(api, [0.25 + value / 2.0 for value in p])
    found = _window(api)
    assert (found["status"], found["estimated"], found["weights"]) == ("withheld", None, None)
    assert "not a mixture" in found["reason"]
    assert found["p_value"] < 0.001


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
    found = _window(api)
    assert (found["status"], found["estimated"]) == ("not-applicable", None)
