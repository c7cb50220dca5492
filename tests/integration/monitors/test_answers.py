"""What is read off a monitor: its windows, beside its reference, and exact beside ``POST /evaluate``."""

from __future__ import annotations

import time
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.store.clock import at
from calibrant.monitoring.tally import CELLS, borders
from tests.integration.monitors.writing import Floats, Outcomes, Writer
from tests.integration.responses import body_of

HOUR, DAY = 3600, 86_400
_MEASURES = ["ece", "ks", "log-loss", "brier", {"name": "ece", "norm": 2, "as": "l2"}, "auroc"]


def _monitor(api: httpx.Client, redis: Redis, **fields: Any) -> Writer:
    asked = {"name": "inbox", "measures": _MEASURES, "rules": [], **fields}
    answer = api.post("/monitors", json=asked)
    assert answer.status_code == 201, answer.text
    return Writer(redis, "inbox")


def _read(api: httpx.Client, **query: Any) -> dict[str, Any]:
    return body_of(api.get("/monitors/inbox", params=query))


def _window(api: httpx.Client, **query: Any) -> dict[str, Any]:
    windows = _read(api, **query)["windows"]
    assert len(windows) == 1
    window: dict[str, Any] = windows[0]
    return window


def _drawn(n: int, seed: int = 0, power: float = 1.0) -> tuple[Floats, Outcomes]:
    random = np.random.default_rng(seed)
    p = random.beta(1.0, 2.0, n)
    return p, (random.random(n) < p**power).astype(np.int8)


def _evaluated(api: httpx.Client, p: Floats, y: Outcomes, **options: Any) -> dict[str, Any]:
    body = {"predictions": p.tolist(), "labels": y.tolist(), "measures": _MEASURES, **options}
    document: dict[str, Any] = api.post("/evaluate", json=body).json()
    return document


def test_a_monitor_without_rows_reports_counts_of_zero(api: httpx.Client, redis: Redis) -> None:
    _monitor(api, redis)
    monitor = _read(api)
    assert set(monitor["counts"].values()) == {0}
    window = monitor["windows"][0]
    assert (window["rows"], window["predictions"], window["coverage"], window["delay"]) == (0, 0, None, None)
    assert window["measures"]["ece"]["problem"] == "no value: no row has a label yet"
    assert window["diagram"] is None


def test_a_window_answers_as_an_evaluation_of_the_same_rows(api: httpx.Client, redis: Redis) -> None:
    writer, now = _monitor(api, redis), time.time()
    p, y = _drawn(100_000, power=1.2)
    for part, own in zip(np.split(p, 10), np.split(y, 10), strict=True):
        writer.labelled(part, own, now - 5 * HOUR)
        now -= HOUR
    window, report = _window(api), _evaluated(api, p, y, interval=0.95)
    assert window["rows"] == 100_000
    for key, answer in report["measures"].items():
        reading = window["measures"][key]
        assert reading["value"] == pytest.approx(answer["value"], abs=1e-4)
        assert reading["interval"] == pytest.approx(answer["interval"], abs=1.5e-3)
        if answer["debiased"] is not None:
            assert reading["debiased"] == pytest.approx(answer["debiased"], abs=1e-4)
    assert window["mean_prediction"] == pytest.approx(p.mean(), abs=1e-12)
    assert window["label_rate"] == pytest.approx(y.mean(), abs=1e-12)


def test_predictions_in_cells_of_their_own_lose_nothing(api: httpx.Client, redis: Redis) -> None:
    writer, now = _monitor(api, redis), time.time()
    ends = borders()
    own = (ends[:-1] + ends[1:]) / 2.0
    p = np.random.default_rng(3).choice(own[:: CELLS // 300], 20_000)
    y = (np.random.default_rng(4).random(20_000) < p).astype(np.int8)
    for i, (part, labels) in enumerate(zip(np.split(p, 4), np.split(y, 4), strict=True)):
        writer.labelled(part, labels, now - i * HOUR)
    window = _window(api)
    report = _evaluated(api, p, y, diagrams=["reliability"])
    for key, answer in report["measures"].items():
        assert window["measures"][key]["value"] == pytest.approx(answer["value"], abs=1e-12)
    for name, numbers in report["diagrams"]["reliability"]["data"].items():
        cell = window["diagram"][name]
        if name == "histogram":
            assert cell["count"] == numbers["count"]
            continue
        assert cell == pytest.approx(numbers, abs=1e-12)


def test_a_window_holds_the_rows_predicted_in_it_alone(api: httpx.Client, redis: Redis) -> None:
    windows = [{"name": "hours", "seconds": 3 * HOUR}, {"name": "week", "seconds": 7 * DAY}]
    writer, now = _monitor(api, redis, windows=windows, bucket=HOUR), time.time()
    p, y = _drawn(600)
    for i, ago in enumerate((0, 2 * HOUR, 5 * HOUR, 3 * DAY, 8 * DAY + HOUR)):
        writer.labelled(p[100 * i : 100 * i + 100], y[100 * i : 100 * i + 100], now - ago)
    monitor = _read(api)
    assert [window["rows"] for window in monitor["windows"]] == [200, 400]
    assert monitor["counts"]["predictions"] == 500
    assert [window["name"] for window in _read(api, windows="week")["windows"]] == ["week"]
    refused = api.get("/monitors/inbox", params={"windows": "year"})
    assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (422, "windows")


def test_a_window_of_rows_holds_the_last_of_them(api: httpx.Client, redis: Redis) -> None:
    writer, now = _monitor(api, redis, windows=[{"name": "last", "rows": 1600}]), time.time()
    p, y = _drawn(4000)
    for i in range(40):
        writer.labelled(p[100 * i : 100 * i + 100], y[100 * i : 100 * i + 100], now - i)
    window = _window(api)
    assert 1600 <= window["rows"] <= 1600 + 100
    assert (window["at_least"], window["predictions"], window["coverage"]) == (1600, None, None)
    last = slice(4000 - window["rows"], 4000)
    assert window["mean_prediction"] == pytest.approx(p[last].mean(), abs=1e-12)


def test_coverage_and_delay_are_those_of_the_window(api: httpx.Client, redis: Redis) -> None:
    writer, now = _monitor(api, redis), time.time()
    p, y = _drawn(1000)
    writer.labelled(p[:900], y[:900], now - HOUR, delay=60.0)
    writer.labelled(p[900:], y[900:], now, delay=7200.0)
    writer.predicted(1000, now - HOUR)
    window = _window(api)
    assert (window["predictions"], window["rows"], window["coverage"]) == (2000, 1000, 0.5)
    delay = window["delay"]
    assert delay["labels"] == 1000
    assert delay["p50"] == pytest.approx(60.0, rel=1 / 3)
    assert delay["p99"] == pytest.approx(7200.0, rel=1 / 3)


@pytest.mark.slow
def test_what_comes_after_a_look_is_in_the_next(api: httpx.Client, redis: Redis) -> None:
    writer, now = _monitor(api, redis), time.time()
    p, y = _drawn(3000)
    rows = []
    # Past the length at which lists are made short: what is kept of them must not be counted twice.
    for i in range(150):
        writer.labelled(p[20 * i : 20 * i + 20], y[20 * i : 20 * i + 20], now - (i % 3) * HOUR)
        if i % 7 == 0:
            rows.append((_window(api)["rows"], 20 * i + 20))
    assert [row for row, _ in rows] == [wanted for _, wanted in rows]
    assert _window(api)["measures"]["log-loss"]["value"] == pytest.approx(
        _evaluated(api, p, y)["measures"]["log-loss"]["value"], abs=1e-4
    )


def test_groups_are_reported_separately_the_largest_first(api: httpx.Client, redis: Redis) -> None:
    writer, now = _monitor(api, redis, max_groups=3), time.time()
    p, y = _drawn(1000)
    names = ["a"] * 500 + ["b"] * 300 + ["c"] * 150 + ["d"] * 50
    writer.labelled(p[:600], y[:600], now, groups=names[:600])
    writer.labelled(p[600:], y[600:], now - HOUR, groups=names[600:])
    groups = _window(api)["groups"]
    assert {name: group["rows"] for name, group in groups.items()} == {"a": 500, "b": 300, "c": 150, "(other)": 50}
    own = _evaluated(api, p[500:800], y[500:800])["measures"]["brier"]["value"]
    assert groups["b"]["measures"]["brier"]["value"] == pytest.approx(own, abs=1e-4)
    assert groups["b"]["measures"]["brier"]["interval"] is None
    assert list(_window(api, groups=2)["groups"]) == ["a", "b"]


def test_a_window_is_compared_with_a_span_of_time(api: httpx.Client, redis: Redis) -> None:
    now = time.time()
    start = now - 10 * DAY
    writer = _monitor(api, redis, reference={"start": at(start), "end": at(start + DAY)})
    before, after = _drawn(20_000, 1), _drawn(20_000, 2, power=1.5)
    writer.labelled(*before, start + HOUR)
    writer.labelled(*after, now - HOUR)
    beside = _window(api)["reference"]
    assert beside["rows"] == 20_000
    for key in ("ece", "log-loss", "brier"):
        comparison = beside["measures"][key]
        assert comparison["difference"] == pytest.approx(comparison["value"] - comparison["reference"])
        assert comparison["interval"][0] <= comparison["difference"] <= comparison["interval"][1]
    assert beside["measures"]["ece"]["interval"][0] > 0.05
    assert beside["label_rate"]["interval"][1] < 0.0
    # The predictions are of one law; the labels are not.
    assert beside["shift"]["p_value"] > 0.01
    assert beside["mean_prediction"]["interval"][0] < 0.0 < beside["mean_prediction"]["interval"][1]


def test_a_window_is_compared_with_a_batch(api: httpx.Client, redis: Redis) -> None:
    p, y = _drawn(5000, 1)
    batch = api.post("/batches", json={"predictions": p.tolist(), "labels": y.tolist()}).json()["id"]
    writer = _monitor(api, redis, reference={"batch": batch})
    api.delete(f"/batches/{batch}")
    moved = np.sqrt(p)
    writer.labelled(moved, y, time.time())
    beside = _window(api)["reference"]
    ends = np.sort(np.concatenate([p, moved]))
    exact = np.abs(np.searchsorted(np.sort(p), ends, "right") - np.searchsorted(np.sort(moved), ends, "right")).max()
    assert beside["shift"]["distance"] == pytest.approx(exact / 5000, abs=2e-3)
    assert beside["shift"]["p_value"] < 1e-12
    assert beside["label_rate"]["difference"] == 0.0


def test_a_reference_without_rows_is_reported(api: httpx.Client, redis: Redis) -> None:
    writer = _monitor(api, redis, reference={"start": at(1000.0), "end": at(2000.0)})
    writer.labelled(*_drawn(100), time.time())
    assert _window(api)["reference"]["problem"] == "no comparison: the reference has no labelled rows"


def test_confidence_is_read_as_a_decision(api: httpx.Client, redis: Redis) -> None:
    writer = _monitor(api, redis, n_classes=3, measures=["accuracy", "ece"])
    p = np.random.default_rng(0).uniform(0.34, 1.0, 2000)
    y = (np.random.default_rng(1).random(2000) < p).astype(np.int8)
    writer.labelled(p, y, time.time())
    # The event is that the class predicted is right, also where its probability is below a half.
    assert _window(api)["measures"]["accuracy"]["value"] == pytest.approx(y.mean(), abs=1e-12)


def test_without_a_level_there_are_no_intervals(api: httpx.Client, redis: Redis) -> None:
    writer = _monitor(api, redis, interval=None)
    writer.labelled(*_drawn(1000), time.time())
    assert all(reading["interval"] is None for reading in _window(api)["measures"].values())
