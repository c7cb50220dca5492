"""Monitors of prediction sets: sets and late labels, what is counted, and alarms of the rule ``coverage``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from backend.monitors.kinds import CountedSets, SetMonitor, entries_of_sets, kind_of_monitor
from backend.monitors.looks import look_at
from backend.store.keyspace import new_id
from backend.store.store import Store
from calibrant.client import Calibrant
from calibrant.monitoring.tally import FOLDS, Tally, tally_of
from schemas.base import DAY
from schemas.monitor_alarms import AlarmData
from schemas.monitors import MonitorRecord
from service.stack import Stack
from tests.body_formats import WRITE_ROWS
from tests.commands import succeeded
from tests.integration.monitors.monitored import answered, new_monitor, refusals_of, send, window_of
from tests.integration.monitors.streams import BEGAN, HOUR, actions_of, begun, events_of, looked, standing_of
from tests.integration.redis_server import until
from tests.integration.responses import body_of, patched, problem_of, text_of
from tests.known import known

SETS = {"n_classes": 3, "coverage": 0.9}


# --- Rows


def test_a_set_counts_the_same_at_once_and_late_in_either_order(http: httpx.Client) -> None:
    monitor = new_monitor(http, **SETS)
    assert send(http, monitor, "rows", [{"prediction": [1, 0, 1], "label": 2, "group": "a"}])["joined"] == 1
    assert send(http, monitor, "predictions", [{"id": "p", "prediction": [1, 0, 1], "group": "a"}]) == {"accepted": 1}
    assert send(http, monitor, "labels", [{"id": "p", "label": 1}]) == {"accepted": 1, "joined": 1}
    assert send(http, monitor, "labels", [{"id": "o", "label": 0}]) == {"accepted": 1, "waiting": 1}
    assert send(http, monitor, "predictions", [{"id": "o", "prediction": [1, 0, 1]}])["joined"] == 1
    assert send(http, monitor, "labels", [{"id": "p", "label": 0}])["contradicted"] == 1
    shown = window_of(http, monitor)
    assert (shown["rows"], shown["predictions"], shown["groups"]["a"]["rows"]) == (3, 3, 2)
    assert shown["label_rate"] == pytest.approx(2 / 3)
    assert shown["mean_prediction"] == pytest.approx(0.9)
    assert shown["measures"]["ks-end"]["value"] == pytest.approx(2 / 3 - 0.9)
    assert shown["groups"]["a"]["label_rate"] == 0.5
    assert shown["estimates"]["status"] == shown["label_shift"]["status"] == "not-applicable"


@pytest.mark.parametrize("kind", list(WRITE_ROWS))
def test_every_format_of_rows_has_sets(http: httpx.Client, kind: str) -> None:
    monitor = new_monitor(http, **SETS)
    rows = [{"id": str(i), "prediction": [1.0, 0.0, float(i % 2)], "label": i % 3} for i in range(12)]
    response = http.post(f"{monitor}/rows", content=WRITE_ROWS[kind](rows), headers={"Content-Type": kind})
    assert answered(response)["joined"] == 12
    covered = [i % 3 == 0 or (i % 3 == 2 and i % 2 == 1) for i in range(12)]
    assert window_of(http, monitor)["label_rate"] == pytest.approx(np.mean(covered))


def test_waiting_sets_keep_every_class() -> None:
    rng = np.random.default_rng(0)
    for n_classes in (2, 8, 9, 100):
        members = (rng.random((50, n_classes)) < 0.5).astype(float)
        labels = rng.integers(0, n_classes, 50)
        base = rng.integers(0, FOLDS * 3, 50)
        entries = entries_of_sets(members, np.full(50, 7200.0), 3600, base)
        (tally, raw) = CountedSets(entries, 0.9).tallies(np.ones(50, bool), labels.astype(float))[2]
        assert raw is None
        assert int(tally.rows[tally.keys & 1 == 1].sum()) == members[np.arange(50), labels].sum()
        expected = tally_of(
            np.full(50, 0.9), members[np.arange(50), labels].astype(np.int8), base // FOLDS, base % FOLDS
        )
        assert tally.keys.tolist() == expected.keys.tolist()
        assert tally.rows.tolist() == expected.rows.tolist()


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"prediction": [1, 0, 0.5], "label": 0}, "not-a-set"),
        ({"prediction": [1, 0, 2], "label": 0}, "not-a-set"),
        ({"prediction": [1, 0, -1], "label": 0}, "not-a-set"),
        ({"prediction": [1, 0, 1e-12], "label": 0}, "not-a-set"),
        ({"prediction": [1, 0], "label": 0}, "wrong-shape"),
        ({"prediction": [1, 0, 0, 0], "label": 0}, "wrong-shape"),
        ({"prediction": 1, "label": 0}, "wrong-shape"),
        ({"prediction": [True, False, True], "label": 0}, "not-a-number"),
        ({"prediction": ["1", 0, 0], "label": 0}, "not-a-number"),
        ({"prediction": [None, 0, 0], "label": 0}, "not-a-number"),
        ({"label": 0}, "missing-prediction"),
        ({"prediction": [1, 0, 0]}, "missing-label"),
        ({"prediction": [1, 0, 0], "label": 3}, "invalid-label"),
        ({"prediction": [1, 0, 0], "label": -1}, "invalid-label"),
        ({"prediction": [1, 0, 0], "label": 0.5}, "invalid-label"),
        ({"prediction": [1, 0, 0], "label": "0"}, "invalid-label"),
    ],
)
def test_rows_that_are_no_sets_are_refused_one_by_one(http: httpx.Client, row: dict[str, Any], code: str) -> None:
    monitor = new_monitor(http, **SETS)
    answer = send(http, monitor, "rows", [{"id": "good", "prediction": [1, 0, 0], "label": 0}, {"id": "bad", **row}])
    assert (answer["accepted"], answer["refused"]) == (1, 1)
    assert refusals_of(answer) == [(1, code)]


# --- Definitions


def test_a_monitor_of_sets_has_a_rule_of_coverage_and_fitting_measures_by_default(http: httpx.Client) -> None:
    definition = body_of(http.get(new_monitor(http, **SETS)))["monitor"]
    assert (definition["coverage"], definition["n_classes"], definition["reduction"]) == (0.9, 3, "binary")
    assert [rule["kind"] for rule in definition["rules"]] == ["coverage"]
    assert definition["measures"] == ["ks-end", "ece"]


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"coverage": 0}, "invalid-field", "/coverage"),
        ({"coverage": 1}, "invalid-field", "/coverage"),
        ({"coverage": 90}, "invalid-field", "/coverage"),
        ({"coverage": "0.9"}, "invalid-field", "/coverage"),
        ({"coverage": True}, "invalid-field", "/coverage"),
        ({"n_classes": None}, "invalid-option", "/n_classes"),
        ({"scale": "logit"}, "invalid-option", "/scale"),
        ({"reservoir": 1000}, "invalid-option", "/reservoir"),
        ({"reduction": "confidence"}, "unknown-reduction", "/reduction"),
        ({"prediction_kind": "regression"}, "prediction-kind-mismatch", "/coverage"),
        ({"forecast": {"kind": "normal"}}, "prediction-kind-mismatch", "/forecast"),
        ({"reference": {"batch": "batch_none"}}, "invalid-option", "/reference/batch"),
        ({"recalibration": {"policy": "propose"}}, "invalid-option", "/recalibration/policy"),
        ({"recalibration": {"policy": "online"}}, "invalid-option", "/recalibration/policy"),
        ({"rules": [{"kind": "drift"}]}, "prediction-kind-mismatch", "/rules/0"),
        ({"rules": [{"kind": "coverage", "alpha": 0}]}, "invalid-field", "/rules/0/alpha"),
        ({"rules": [{"kind": "coverage", "alpha": 0.5}]}, "invalid-field", "/rules/0/alpha"),
        ({"rules": [{"kind": "coverage", "after": -1}]}, "invalid-field", "/rules/0/after"),
        ({"rules": [{"kind": "coverage", "after": 90 * DAY}]}, "invalid-option", "/rules/0/after"),
        ({"rules": [{"kind": "coverage", "above": 0.1}]}, "invalid-field", "/rules/0/above"),
        ({"rules": [{"kind": "coverage"}, {"kind": "coverage"}]}, "invalid-option", "/rules/1/name"),
        ({"coverage": None, "rules": [{"kind": "coverage"}]}, "invalid-option", "/rules/0"),
    ],
)
def test_definitions_that_do_not_fit_sets_are_refused(
    http: httpx.Client, changes: dict[str, Any], code: str, pointer: str
) -> None:
    body = {"name": "sets"} | SETS | changes
    body = {name: content for name, content in body.items() if content is not None}
    response = http.post("/monitors", json=body)
    assert problem_of(response)[1:] == (code, pointer)


def test_a_challenger_of_sets_is_refused(http: httpx.Client) -> None:
    assert problem_of(http.post(f"{new_monitor(http, **SETS)}/recalibrate"))[1] == "prediction-kind-mismatch"


# --- Alarms


def counted(n: int, covered: int) -> Tally:
    y = np.zeros(n, np.int8)
    y[:covered] = 1
    return tally_of(np.full(n, 0.9), y)


def watched(store: Store, **changes: Any) -> MonitorRecord:
    fields: dict[str, Any] = {"windows": [{"name": "hours", "seconds": 7200}], "reduction": "binary"}
    record = begun(store, rules=[{"kind": "coverage", "alpha": 0.01}], **fields | SETS | changes)
    assert isinstance(kind_of_monitor(record), SetMonitor)
    return record


def test_a_drop_of_the_coverage_raises_one_alarm_that_describes_it(store: Store) -> None:
    record = watched(store)
    for hour in range(5):
        assert looked(store, record, hour, counted(200, 182)).status == "ok"
    for hour in range(5, 8):
        state = looked(store, record, hour, counted(200, 156))
    assert (state.status, state.alarms, state.rows) == ("alarm", 1, 1600)
    reading = known(state.coverage)
    assert reading.largest >= reading.bound == pytest.approx(np.log(100.0))
    assert reading.since.startswith("2023-11-15T03:00")
    assert (reading.rows, reading.coverage, reading.nominal) == (600, 0.78, 0.9)
    assert reading.message == "since 15 November 78 % of 600 sets have their label, nominally 90 %"
    events = events_of(store, record)
    assert [event.type for event in events] == ["monitor.alarm.raised"]
    alarm = events[0].data
    assert isinstance(alarm, AlarmData)
    assert (alarm.kind, alarm.bound) == ("coverage", reading.bound)
    assert known(alarm.coverage).coverage == 0.78
    assert actions_of(store, record) == ["alarm-raised"]


def test_sets_that_cover_too_often_raise_no_alarm(store: Store) -> None:
    record = watched(store)
    for hour in range(6):
        state = looked(store, record, hour, counted(5000, 5000))
    assert (state.status, state.rows) == ("ok", 30_000)


def test_without_rows_the_status_is_unknown(store: Store) -> None:
    record = watched(store)
    look_at(store, record, BEGAN + HOUR)
    state = standing_of(store, record).rules["coverage"]
    assert (state.status, state.coverage) == ("unknown", None)


@pytest.mark.parametrize(("after", "rows"), [(0, 100), (2 * 3600, 0)])
def test_buckets_count_once_their_labels_are_in(store: Store, after: int, rows: int) -> None:
    record = begun(store, rules=[{"kind": "coverage", "after": after}])
    assert looked(store, record, 0, counted(100, 90)).rows == rows
    look_at(store, record, BEGAN + 3 * HOUR)
    assert standing_of(store, record).rules["coverage"].rows == 100


def test_late_labels_of_a_stream_raise_an_alarm_that_callers_see(http: httpx.Client, client: Calibrant) -> None:
    name = new_id("monitor").replace("_", "-").lower()
    client.create_monitor(name, n_classes=3, coverage=0.9)
    labels = np.random.default_rng(0).choice(3, 400, p=[0.4, 0.3, 0.3])
    ids = [str(i) for i in range(400)]
    client.send_predictions(name, ids, np.tile([1, 1, 0], (400, 1)))
    assert client.send_labels(name, ids, labels).joined == 400

    def state() -> dict[str, Any]:
        (rule,) = body_of(http.get(f"/monitors/{name}/alarms"))["rules"]
        return dict(rule)

    until(lambda: state()["status"] == "alarm")
    reading = state()["coverage"]
    assert reading["coverage"] == pytest.approx((labels < 2).mean())
    assert "of 400 sets have their label, nominally 90 %" in reading["message"]
    alarm = known(client.alarms(name)[0].coverage)
    assert alarm.nominal == 0.9
    http.post(f"/monitors/{name}/alarms/coverage/acknowledge").raise_for_status()
    assert state()["coverage"] is None
    assert patched(http, f"/monitors/{name}", {"rules": [{"kind": "coverage", "alpha": 0.2}]}).status_code == 200
    page = text_of(http.get(f"/ui/monitors/{name}"))
    assert "coverage" in page


def test_the_command_creates_a_monitor_of_sets_and_sends_their_rows(service: Stack, tmp_path: Path) -> None:
    name = new_id("monitor").replace("_", "-").lower()
    path = tmp_path / "sets.csv"
    path.write_text("y,ant,bee\nant,1,0\nbee,1,1\nbee,0,0\nant,0,1\n", "utf-8")

    def run(*arguments: str) -> str:
        printed = succeeded(service.url, "monitors", *arguments)
        return printed.stdout

    run("create", name, "--classes", "2", "--coverage", "0.9")
    columns = ["--prediction", "ant", "--prediction", "bee", "--label", "y"]
    run("send", name, str(path), *columns)
    shown = httpx.get(f"{service.url}/monitors/{name}").json()["windows"][0]
    assert (shown["rows"], shown["label_rate"]) == (4, 0.5)
