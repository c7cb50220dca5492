"""Monitors of regression: forecasts and outcomes, at once or late, and what they answer."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from scipy.special import ndtri
from typer.testing import CliRunner, Result

from backend.monitors.definitions import check
from backend.monitors.ingestion import Account, Ingestion
from backend.monitors.kinds import kind_of_monitor
from backend.monitors.looks import expire, look_at
from backend.monitors.recalibration import recalibrate_at, request_challenger
from backend.monitors.rows import MonitorRows, What
from backend.store.clock import at, stamp
from backend.store.keyspace import new_id
from backend.store.monitors.ids import Ids
from backend.store.monitors.ledger import Ledger, MonitorGroups
from backend.store.monitors.standings import Standings
from backend.store.pages import PageRequest
from backend.store.store import Store
from calibrant.cli.main import app
from calibrant.client import Calibrant
from calibrant.core.errors import UnusableRows
from calibrant.distributions.evaluation import evaluate_distribution
from calibrant.distributions.maps.distribution_map import load_distribution
from calibrant.monitoring.pit_tally import counts_of
from schemas.base import DAY, HOUR
from schemas.monitor_alarms import AlarmData
from schemas.monitors import MonitorBody, MonitorRecord, RecalibrationSpec
from service.stack import Stack
from tests.body_formats import ARROW, NDJSON, NPZ
from tests.commands import invoked, succeeded
from tests.integration.monitors.monitored import answered, new_monitor, send, window_of
from tests.integration.monitors.streams import actions_of, entries_of, standing_of
from tests.integration.responses import body_of, patched
from tests.known import known
from tests.packed import arrow, npz

LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
KINDS: dict[str, dict[str, Any]] = {
    "normal": {"kind": "normal"},
    "quantiles": {"kind": "quantiles", "levels": LEVELS},
    "samples": {"kind": "samples", "n_samples": 3},
    "interval": {"kind": "interval", "level": 0.9},
}
#: A forecast of each kind in its own fields.
FORECASTS: dict[str, dict[str, Any]] = {
    "normal": {"mean": 0.0, "std": 1.0},
    "quantiles": {"quantiles": ndtri(LEVELS).tolist()},
    "samples": {"samples": [1.0, -1.0, 0.0]},
    "interval": {"lower": -1.645, "upper": 1.645},
}


def of_kind(http: httpx.Client, kind: str) -> str:
    """The path of a new monitor of forecasts."""
    return new_monitor(http, prediction_kind="regression", forecast=KINDS[kind])


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of forecasts."""
    return str(request.param)


@pytest.mark.slow
def test_a_forecast_counts_the_same_at_once_and_late_in_either_order(http: httpx.Client, kind: str) -> None:
    monitor = of_kind(http, kind)
    forecast = FORECASTS[kind]
    assert send(http, monitor, "rows", [{**forecast, "observed": 0.3, "group": "a"}]) == {"accepted": 1, "joined": 1}
    late = [{"id": "p", **forecast, "group": "a"}]
    assert send(http, monitor, "predictions", late) == {"accepted": 1}
    assert send(http, monitor, "labels", [{"id": "p", "observed": 0.3}]) == {"accepted": 1, "joined": 1}
    assert send(http, monitor, "labels", [{"id": "o", "observed": 0.3}]) == {"accepted": 1, "waiting": 1}
    assert send(http, monitor, "predictions", [{"id": "o", **forecast}]) == {"accepted": 1, "joined": 1}
    shown = window_of(http, monitor)
    assert (shown["rows"], shown["predictions"], shown["groups"]["a"]["rows"]) == (3, 3, 2)
    assert sum(count > 0 for count in shown["pit"]["count"]) == 1
    edges, bins = shown["pit"]["edges"], shown["pit"]["count"]
    at = bins.index(3)
    assert edges[at] < 0.62 < edges[at + 1] or kind == "samples"
    assert shown["estimates"]["status"] == shown["label_shift"]["status"] == "not-applicable"
    assert (shown["mean_prediction"], shown["diagram"]) == (None, None)


def test_rows_are_counted_in_the_bin_of_their_outcome(http: httpx.Client, kind: str) -> None:
    monitor = of_kind(http, kind)
    send(http, monitor, "rows", [{"id": str(i), **FORECASTS[kind], "observed": 0.3} for i in range(20)])
    reading = http.get(monitor).json()
    window_of_rows = reading["windows"][0]
    assert window_of_rows["rows"] == 20
    assert reading["monitor"]["measures"] == list(window_of_rows["measures"])
    assert all(measure["value"] is not None for measure in window_of_rows["measures"].values()), window_of_rows[
        "measures"
    ]


def test_an_id_counts_once_and_a_second_outcome_contradicts(http: httpx.Client) -> None:
    monitor = of_kind(http, "quantiles")
    row = {"id": "a", **FORECASTS["quantiles"], "observed": 0.25}
    assert send(http, monitor, "rows", [row, row]) == {"accepted": 1, "joined": 1, "duplicates": 1}
    assert send(http, monitor, "rows", [row])["duplicates"] == 1
    other = send(http, monitor, "labels", [{"id": "a", "observed": 0.75}])
    assert other["contradicted"] == 1
    assert window_of(http, monitor)["rows"] == 1


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("normal", {"mean": 0.0, "variance": 0.0, "observed": 1.0}, "invalid-variance"),
    ("normal", {"mean": 0.0, "std": -2.0, "observed": 1.0}, "invalid-variance"),
    ("normal", {"mean": 0.0, "std": 1e200, "observed": 1.0}, "not-finite"),
    ("normal", {"mean": 0.0, "observed": 1.0}, "wrong-shape"),
    ("normal", {"mean": 0.0, "variance": 1.0, "std": 1.0, "observed": 1.0}, "wrong-shape"),
    ("normal", {"mean": "0", "variance": 1.0, "observed": 1.0}, "not-a-number"),
    ("normal", {"mean": True, "variance": 1.0, "observed": 1.0}, "not-a-number"),
    ("normal", {"mean": 0.0, "variance": 1.0}, "missing-label"),
    ("normal", {"mean": 0.0, "variance": 1.0, "observed": "1"}, "invalid-label"),
    ("normal", {"mean": 0.0, "variance": 1.0, "observed": 1.0, "label": 1.0}, "invalid-field"),
    ("normal", {"mean": 0.0, "variance": 1.0, "prediction": [0.0, 1.0], "observed": 1.0}, "invalid-field"),
    ("normal", {"quantiles": [0.0], "observed": 1.0}, "invalid-field"),
    ("normal", {"observed": 1.0}, "missing-prediction"),
    ("quantiles", {"quantiles": [0.0, 1.0, 0.5, 2.0, 3.0], "observed": 1.0}, "crossing-quantiles"),
    ("quantiles", {"quantiles": [0.0, 1.0, 2.0, 3.0], "observed": 1.0}, "wrong-shape"),
    ("quantiles", {"quantiles": 1.0, "observed": 1.0}, "wrong-shape"),
    ("quantiles", {"quantiles": [0.0, 1.0, None, 2.0, 3.0], "observed": 1.0}, "not-a-number"),
    ("quantiles", {"quantiles": list(range(5000)), "observed": 1.0}, "wrong-shape"),
    ("samples", {"samples": [0.0, 1.0], "observed": 1.0}, "wrong-shape"),
    ("interval", {"lower": 1.0, "upper": 0.0, "observed": 1.0}, "crossing-quantiles"),
    ("interval", {"lower": 1.0, "observed": 1.0}, "wrong-shape"),
]


@pytest.mark.parametrize(("kind", "row", "code"), REFUSED)
def test_an_invalid_row_is_refused_alone(http: httpx.Client, kind: str, row: dict[str, Any], code: str) -> None:
    monitor = of_kind(http, kind)
    good = {**FORECASTS[kind], "observed": 0.0}
    receipt = send(http, monitor, "rows", [good, row, good])
    assert (receipt["accepted"], receipt["refused"]) == (2, 1)
    (refusal,) = receipt["refusals"]
    assert (refusal["row"], refusal["code"]) == (1, code)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("normal", "must be (n, 2), the means and the variances"),
        ("quantiles", "must be (n, 5), the quantiles at the levels of the monitor"),
        ("interval", "must be (n, 2), the lower and the upper ends"),
    ],
)
def test_refusals_of_arrays_name_the_parts_of_forecasts(http: httpx.Client, kind: str, expected: str) -> None:
    body = npz(predictions=np.zeros(3), labels=np.zeros(3))
    answer = body_of(http.post(f"{of_kind(http, kind)}/rows", content=body, headers={"Content-Type": NPZ}), 422)
    assert answer["errors"] == [{"pointer": "/predictions", "detail": expected}]


def test_nan_and_infinity_refuse_their_row(http: httpx.Client) -> None:
    monitor = of_kind(http, "quantiles")
    body = '{"rows": [{"quantiles": [0, 1, NaN, 3, 4], "observed": 1}, {"quantiles": [0, 1, 2, 3, 4], "observed": NaN},'
    body += '{"quantiles": [0, 1, 2, 3, Infinity], "observed": 1}, {"quantiles": [0, 1, 2, 3, 4], "observed": 1}]}'
    receipt = answered(http.post(f"{monitor}/rows", content=body, headers={"Content-Type": "application/json"}))
    assert (receipt["accepted"], receipt["refused"]) == (1, 3)
    assert [refusal["code"] for refusal in receipt["refusals"]] == ["not-finite", "invalid-label", "not-finite"]


def test_quantiles_that_cross_by_rounding_are_counted(http: httpx.Client) -> None:
    monitor = of_kind(http, "quantiles")
    rows = [{"quantiles": [0.0, 1.0, 1.0 - 1e-9, 2.0, 3.0], "observed": 1.5}]
    assert send(http, monitor, "rows", rows)["joined"] == 1


@pytest.mark.parametrize("form", [NDJSON, NPZ, ARROW])
def test_every_format_comes_to_the_same_counts(http: httpx.Client, kind: str, form: str) -> None:
    rng, n = np.random.default_rng(8), 60
    width = {"normal": 2, "quantiles": 5, "samples": 3, "interval": 2}[kind]
    predictions = np.sort(rng.normal(size=(n, width)), axis=1)
    predictions[:, 1] = np.maximum(predictions[:, 1], 0.1) if kind == "normal" else predictions[:, 1]
    y, ids = rng.normal(size=n), [f"r{i}" for i in range(n)]
    predictions[7], y[9] = np.nan, np.inf
    rows = [
        {"id": i, "prediction": v.tolist(), "label": o} for i, v, o in zip(ids, predictions, y.tolist(), strict=True)
    ]
    bodies = {
        NDJSON: "\n".join(json.dumps(row) for row in rows).encode(),
        NPZ: npz(ids=np.array(ids), predictions=predictions, labels=y),
        ARROW: arrow({"id": ids, "prediction": predictions.tolist(), "label": y}),
    }
    monitor, other = of_kind(http, kind), of_kind(http, kind)
    receipt = answered(http.post(f"{monitor}/rows", content=bodies[form], headers={"Content-Type": form}))
    assert (receipt["accepted"], receipt["refused"]) == (58, 2)
    body = json.dumps({"rows": rows}).encode()
    answered(http.post(f"{other}/rows", content=body, headers={"Content-Type": "application/json"}))
    first, two = (window_of(http, name) for name in (monitor, other))
    assert first["pit"] == two["pit"]
    for key, reading in first["measures"].items():  # folds are random, and so is the order of sums
        assert reading["value"] == pytest.approx(two["measures"][key]["value"], rel=1e-12)


MANY = [i / 300 for i in range(1, 300)]
INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({"forecast": None}, "invalid-option", "/forecast"),
    ({"forecast": {"kind": "quantiles"}}, "invalid-option", "/forecast/levels"),
    ({"forecast": {"kind": "quantiles", "levels": [0.5, 0.5]}}, "out-of-range", "/forecast/levels"),
    ({"forecast": {"kind": "quantiles", "levels": [0.5, 1.5]}}, "invalid-field", "/forecast/levels/1"),
    ({"forecast": {"kind": "quantiles", "levels": [5e-324, 0.5]}}, "out-of-range", "/forecast/levels"),
    ({"forecast": {"kind": "interval", "level": 1.0 - 2.0**-53}}, "out-of-range", "/forecast/level"),
    (
        {"forecast": {"kind": "quantiles", "levels": [i / 300 for i in range(1, 300)]}},
        "invalid-field",
        "/forecast/levels",
    ),
    ({"forecast": {"kind": "normal", "level": 0.9}}, "invalid-option", "/forecast/level"),
    ({"forecast": {"kind": "samples", "n_samples": 10_000}}, "invalid-field", "/forecast/n_samples"),
    ({"reduction": "confidence"}, "prediction-kind-mismatch", "/reduction"),
    ({"n_classes": 3}, "prediction-kind-mismatch", "/n_classes"),
    ({"scale": "logit"}, "prediction-kind-mismatch", "/scale"),
    ({"reference": {"start": at(1.0), "end": at(2.0)}}, "prediction-kind-mismatch", "/reference"),
    ({"recalibration": {"policy": "online"}}, "prediction-kind-mismatch", "/recalibration/policy"),
    ({"recalibration": {"policy": "auto", "method": "platt"}}, "unknown-method", "/recalibration/method"),
    (
        {"recalibration": {"policy": "propose", "options": {"scale": "log1p"}}},
        "invalid-option",
        "/recalibration/options/scale",
    ),
    ({"recalibration": {"policy": "auto", "options": {"knots": 3}}}, "invalid-option", "/recalibration/options"),
    ({"recalibration": {"method": "platt"}}, "unknown-method", "/recalibration/method"),
    ({"recalibration": {"options": {"shape": "beta"}}}, "invalid-option", "/recalibration/options/shape"),
    (
        {"recalibration": {"policy": "auto", "options": {"where": "/x", "tally": 1}}},
        "invalid-option",
        "/recalibration/options",
    ),
    (
        {"recalibration": {"policy": "auto", "options": {"support": [1.0, "x"]}}},
        "invalid-option",
        "/recalibration/options/support",
    ),
    ({"rules": [{"kind": "drift", "alpha": 0.01}]}, "prediction-kind-mismatch", "/rules/0"),
    ({"prediction_kind": "classification"}, "prediction-kind-mismatch", "/forecast"),
    ({"measures": ["ece"]}, "unknown-measure", "/measures/0"),
    ({"measures": ["sharpness"]}, "invalid-option", "/measures/0"),
    ({"measures": [{"name": "coverage", "level": 0.33333}]}, "invalid-option", "/measures/0/level"),
    ({"rules": [{"kind": "threshold", "window": "day", "above": 0.1}]}, "invalid-option", "/rules/0/measure"),
    (
        {"rules": [{"kind": "threshold", "measure": "crps", "window": "day", "above": 0.1, "by": "lower"}]},
        "invalid-option",
        "/rules/0/by",
    ),
]


@pytest.mark.parametrize(("changes", "code", "pointer"), INVALID)
def test_an_invalid_definition_names_its_field(
    http: httpx.Client, changes: dict[str, Any], code: str, pointer: str
) -> None:
    body = {"name": "r", "prediction_kind": "regression", "forecast": KINDS["normal"]} | changes
    problem = body_of(http.post("/monitors", json=body), 422)
    assert problem["type"].endswith(code), problem
    assert pointer in [error["pointer"].removeprefix("#") for error in problem["errors"]], problem


def test_patches_of_classification_are_refused(http: httpx.Client) -> None:
    monitor = of_kind(http, "normal")
    for changes in ({"recalibration": {"policy": "online"}}, {"reference": {"start": at(1.0), "end": at(2.0)}}):
        assert patched(http, monitor, changes).json()["type"].endswith("prediction-kind-mismatch")
    assert patched(http, monitor, {"measures": ["pit-ks"]}).json()["measures"] == ["pit-ks"]


def test_a_monitor_stored_before_forecasts_had_challengers_can_be_changed(store: Store) -> None:
    record = _stored(store, recalibration=RecalibrationSpec().model_dump())
    assert record.recalibration.method == "platt"
    check(record)


@pytest.mark.parametrize("kind", ["samples", "interval"])
def test_samples_and_intervals_have_no_challengers(http: httpx.Client, kind: str) -> None:
    monitor = of_kind(http, kind)
    for answer in (
        http.post(f"{monitor}/recalibrate"),
        patched(http, monitor, {"recalibration": {"policy": "auto"}}),
    ):
        assert answer.json()["type"].endswith("prediction-kind-mismatch"), answer.text


@pytest.mark.slow
def test_the_page_the_pictures_and_the_series_show_forecasts(http: httpx.Client, kind: str) -> None:
    monitor = of_kind(http, kind)
    page = f"/ui{monitor}"
    assert http.get(page).status_code == 200
    rng = np.random.default_rng(3)
    rows = [{**FORECASTS[kind], "observed": float(y), "group": f"g{i % 3}"} for i, y in enumerate(rng.normal(size=300))]
    send(http, monitor, "rows", rows)
    text = http.get(page).text
    assert "PIT histogram of the 300 outcomes" in text
    assert "Observed frequency" not in text
    for path in (f"{monitor}/diagram.svg", f"{monitor}/diagram.png", f"{monitor}/series.svg"):
        assert http.get(path).status_code == 200, path
    for key in ("error", "evidence", "volume", "delay", "diagram"):
        assert http.get(f"{page}/charts/{key}.svg").status_code == 200, key
    (point,) = http.get(f"{monitor}/series", params={"intervals": True}).json()["points"]
    assert point["measures"]["quantile-calibration-error"]["interval"] is not None
    assert (
        http.get(f"{monitor}/series", params={"measure": "quantile-calibration-error", "group": "g1"}).json()["points"][
            0
        ]["rows"]
        == 100
    )


def _stored(store: Store, **changes: Any) -> MonitorRecord:
    body = {"name": "m", "prediction_kind": "regression", "bucket": HOUR, "horizon": DAY}
    body |= {"forecast": KINDS["quantiles"], "measures": ["quantile-calibration-error", "coverage"]} | changes
    own = {"id": new_id("monitor"), "created_at": stamp(), "started_at": 0.0}
    return store.monitors.put(MonitorRecord(**MonitorBody.model_validate(body).model_dump(), **own))


def _ingest(store: Store, record: MonitorRecord, what: What, now: float, **columns: Any) -> None:
    n = len(next(iter(columns.values())))
    ledger = Ledger(store.redis, store.keys, record)
    rows = MonitorRows(np.zeros(n, np.uint8), np.arange(n), **columns)
    Ingestion(ledger, MonitorGroups(store.redis, store.keys, record), record).add(what, rows, now, Account())


def test_an_alarm_says_what_is_wrong_in_words(store: Store) -> None:
    rules = [
        {"kind": "evidence"},
        {"kind": "threshold", "measure": "quantile-calibration-error", "window": "day", "above": 0.03, "by": "lower"},
    ]
    record = _stored(store, rules=rules)
    now = time.time()
    y = np.random.default_rng(2).normal(size=3000)
    _ingest(store, record, "rows", now, predictions=np.tile(0.6 * ndtri(LEVELS), (3000, 1)), labels=y)
    look_at(store, record, now)
    standings = Standings(store.redis, store.keys, record)
    states = standings.read().rules
    assert [states[name].status for name in ("evidence", "threshold")] == ["alarm", "alarm"]
    share = 100 * np.mean(np.abs(y) <= 0.6 * ndtri(0.95))
    words = known(states["evidence"].evidence)
    assert words.description == f"forecasts are too narrow: 90 % intervals contain {share:.3g} % of outcomes"
    raised = {
        event.data.rule: event.data
        for event in standings.events(PageRequest(10)).items
        if isinstance(event.data, AlarmData)
    }
    assert raised["evidence"].description == words.description
    assert raised["threshold"].description is None


def test_calibrated_forecasts_raise_no_alarm(store: Store) -> None:
    record = _stored(store)
    now = time.time()
    y = np.random.default_rng(3).normal(size=3000)
    _ingest(store, record, "rows", now, predictions=np.tile(ndtri(LEVELS), (3000, 1)), labels=y)
    look_at(store, record, now)
    assert standing_of(store, record).rules["evidence"].status == "ok"


def test_forecasts_without_outcomes_expire(store: Store) -> None:
    record, now = _stored(store), 1_700_000_000.0
    ids = Ids.of([b"%d" % i for i in range(50)])
    _ingest(store, record, "predictions", now, ids=ids, predictions=np.tile(ndtri(LEVELS), (50, 1)))
    ledger = Ledger(store.redis, store.keys, record)
    assert ledger.known() == 50
    later = now + 3 * DAY
    assert expire(ledger, later, 60, kind_of_monitor(record).layout)
    assert (ledger.known(), ledger.totals()["expired"]) == (0, 50)
    assert counts_of(ledger.buckets.tally(0, 2**31), 5).sum() == 0


def test_the_client_creates_sends_and_reads(client: Calibrant) -> None:
    name = new_id("monitor").replace("_", "-").lower()
    created = client.create_monitor(name, prediction_kind="regression", forecast={"kind": "interval", "level": 0.9})
    assert (created.prediction_kind, known(created.forecast).level) == ("regression", 0.9)
    ids, forecasts = ["a", "b", "c"], np.array([[-1.0, 1.0]] * 3)
    assert client.send_predictions(name, ids, forecasts).accepted == 3
    assert client.send_labels(name, ids, np.array([0.25, 1.5, -0.5])).joined == 3
    assert client.send_rows(name, forecasts, np.array([0.1, 0.2, 7.5])).joined == 3
    pit = known(client.monitor(name).windows[0].pit)
    assert pit.count == [0, 4, 2]
    assert pit.intervals[0].share == pytest.approx(4 / 6)


def test_the_client_sends_forecasts_by_name(client: Calibrant) -> None:
    name = new_id("monitor").replace("_", "-").lower()
    client.create_monitor(name, prediction_kind="regression", forecast={"kind": "normal"})
    mean, std, observed = np.zeros(3), np.full(3, 0.5), np.array([0.1, 0.6, -0.2])
    by_variance: dict[str, Any] = {"variance": (std**2).tolist(), "mean": mean}
    assert client.send_rows(name, {"mean": mean, "std": std}, observed).joined == 3
    assert client.send_predictions(name, ["a", "b", "c"], by_variance).accepted == 3
    assert client.send_labels(name, ["a", "b", "c"], observed).joined == 3
    pit = known(client.monitor(name).windows[0].pit)
    assert sorted(count for count in pit.count if count) == [2, 2, 2]
    assert client.send_rows(name, {"mean": mean, "std": -std}, observed).refused == 3
    wrongs: list[dict[str, Any]]
    wrongs = [{"mean": mean}, {"mean": mean, "std": std, "levels": [0.5]}, {"mean": mean, "std": std[:2]}]
    for wrong in wrongs:
        with pytest.raises(UnusableRows, match="predictions"):
            client.send_rows(name, wrong, observed)


def test_the_command_line_shows_the_coverage(client: Calibrant, service: Stack) -> None:
    name = new_id("monitor").replace("_", "-").lower()
    client.create_monitor(name, prediction_kind="regression", forecast={"kind": "normal"})
    client.send_rows(name, np.array([[0.0, 1.0]] * 30), np.linspace(-1.5, 1.5, 30))
    for words in (["show", name], ["list"]):
        succeeded(None, "monitors", *words, "--server", service.url)
    shown = invoked(None, "monitors", "show", name, "--server", service.url).output
    assert "quantile-calibration-error" in shown
    assert "outcomes inside" in shown


# --- Files of forecasts


def _file(folder: Path, name: str, header: str, rows: list[list[object]]) -> Path:
    path = folder / f"{name}.csv"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows), ""]))
    return path


def _sent(service: Stack, *arguments: str | Path) -> Result:
    return CliRunner().invoke(
        app, ["monitors", "send", *map(str, arguments)], env={"CALIBRANT_SERVER": service.url, "COLUMNS": "200"}
    )


#: The columns of a file of each kind, and a row without its outcome.
COLUMNS: dict[str, tuple[str, list[object]]] = {
    "normal": ("mean,std", [0.0, 1.0]),
    "quantiles": (",".join(f"q{level}" for level in LEVELS), ndtri(LEVELS).tolist()),
    "samples": ("sample_0,sample_1,sample_2", [1.0, -1.0, 0.0]),
    "interval": ("lower,upper", [-1.645, 1.645]),
}


@pytest.mark.slow
def test_a_file_of_forecasts_counts_as_its_rows_at_once_and_late(
    http: httpx.Client, service: Stack, kind: str, tmp_path: Path
) -> None:
    name = of_kind(http, kind).removeprefix("/monitors/")
    header, cells = COLUMNS[kind]
    level = ("--level", "0.9") if kind == "interval" else ()
    whole = _file(tmp_path, "whole", f"id,site,day,observed,{header}", [["w", "a", 1e9, 0.3, *cells]] * 2)
    now = time.time()
    whole.write_text(whole.read_text().replace("1000000000.0", repr(now)))
    asked = (name, whole, "--regression", "--group", "site", "--time", "day", *level)
    sent = _sent(service, *asked)
    assert sent.exit_code == 0, sent.stderr
    assert "2 joined" in sent.stdout
    blind = _file(tmp_path, "blind", f"id,{header}", [["p", *cells]])
    assert _sent(service, name, blind, "--regression", "--what", "predictions", "--id", "id", *level).exit_code == 0
    outcome = _file(tmp_path, "outcome", "id,rain", [["p", 0.3]])
    late = ("--regression", "--what", "labels", "--id", "id", "--label", "rain")
    assert "1 joined" in _sent(service, name, outcome, *late).stdout
    shown = window_of(http, f"/monitors/{name}")
    assert (shown["rows"], shown["groups"]["a"]["rows"]) == (3, 2)
    assert sum(count > 0 for count in shown["pit"]["count"]) == 1


def test_a_file_that_does_not_fit_the_monitor_is_refused(http: httpx.Client, service: Stack, tmp_path: Path) -> None:
    quantiles, interval = (of_kind(http, kind).removeprefix("/monitors/") for kind in ("quantiles", "interval"))
    classes = http.post("/monitors", json={"name": f"classes-{quantiles}"}).json()["name"]
    normal = _file(tmp_path, "normal", "observed,mean,std", [[0.3, 0.0, 1.0]])
    others = _file(tmp_path, "others", "observed,q0.1,q0.3,q0.5,q0.7,q0.9", [[0.3, -1, -0.5, 0, 0.5, 1]])
    ends = _file(tmp_path, "ends", "observed,lower,upper", [[0.3, -1.0, 1.0]])
    words = _file(tmp_path, "words", "id,rain", [["p", "much"]])
    late = ("--what", "labels", "--id", "id")
    for arguments, code, expected in (
        ((quantiles, normal, "--regression"), 1, "the monitor takes quantiles"),
        ((quantiles, others, "--regression"), 1, "other levels"),
        ((interval, ends, "--regression", "--level", "0.8"), 1, "intervals of level 0.8"),
        ((classes, normal, "--regression"), 1, "omit --regression"),
        ((quantiles, normal, "--level", "0.9"), 2, "needs --regression"),
        ((quantiles, words, "--regression", *late, "--label", "rain"), 1, "row 1 is not a number"),
        ((quantiles, words, "--regression", *late), 1, "needs --label"),
    ):
        refused = _sent(service, *arguments)
        assert refused.exit_code == code, refused.stderr
        assert expected in " ".join(refused.stderr.split())
        assert "much" not in refused.stderr
    assert window_of(http, f"/monitors/{quantiles}")["rows"] == 0


# --- Challengers: maps of levels, fitted to the counts


def _narrow(store: Store, now: float, kind: str = "quantiles", factor: float = 0.6, **policy: Any) -> MonitorRecord:
    """A monitor that counted 5,000 forecasts whose spread is ``factor`` times that of the outcomes."""
    recalibration = {"policy": "auto", "method": "quantile-recalibration"} | policy
    record = _stored(store, forecast=KINDS[kind], recalibration=recalibration)
    forecasts = {"quantiles": factor * ndtri(LEVELS), "normal": np.array([0.0, factor**2])}[kind]
    y = np.random.default_rng(2).normal(size=5000)
    _ingest(store, record, "rows", now, predictions=np.tile(forecasts, (5000, 1)), labels=y)
    look_at(store, record, now)
    return record


@pytest.mark.parametrize("kind", ["quantiles", "normal"])
def test_an_alarm_has_a_challenger_that_widens_forecasts(store: Store, kind: str) -> None:
    now = time.time()
    record = _narrow(store, now, kind, options={"support": [-100.0, None]})
    recalibrate_at(store, record, now)
    made_map = store.maps.get("m@champion")
    assert (made_map.prediction_kind, made_map.method, made_map.version) == (
        "regression",
        "quantile-recalibration",
        1,
    )
    assert known(made_map.accepts).kind == kind
    assert made_map.tags["monitor"] == "m"
    fitted = load_distribution(made_map.document)
    y = np.random.default_rng(3).normal(size=4000)
    forecasts = (
        {"quantiles": np.tile(0.6 * ndtri(LEVELS), (4000, 1)), "levels": LEVELS}
        if kind == "quantiles"
        else {"mean": np.zeros(4000), "variance": np.full(4000, 0.36)}
    )
    after = fitted.apply(**forecasts)
    report = evaluate_distribution(y, quantiles=after.quantiles, levels=after.levels, measures=["coverage"])
    assert 0.88 < (report.measures["coverage"].value or 0.0) < 0.92
    assert {"challenger-proposed", "alias-moved", "evidence-restarted"} <= set(actions_of(store, record))
    # A second challenger would have to be compared with the map, but a tally has only the forecasts that were sent.
    recalibrate_at(store, record, now)
    assert store.maps.versions("m") == [1]


def test_a_calibrated_monitor_gets_no_challenger(store: Store) -> None:
    now = time.time()
    record = _narrow(store, now, factor=1.0, policy="propose")
    request_challenger(store, record, None, now)
    recalibrate_at(store, record, now)
    declined = [entry for entry in entries_of(store, record) if entry.action == "recalibration-declined"]
    assert [entry.found.code for entry in declined if entry.found] == ["not-better"]
    assert store.maps.versions("m") == []
