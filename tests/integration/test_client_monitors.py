"""The calls of both clients that are about monitors, against the whole service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import numpy as np
import pandas as pd
import polars as pl
import pytest

from calibrant.client import Calibrant, ProblemResponse
from calibrant.client.answers import AlarmData, Proposal
from calibrant.client.monitored import Encoding
from service.stack import Stack
from tests.commands import invoked
from tests.integration.clients import Kind, connected
from tests.integration.monitors.test_label_shift import K, drawn
from tests.integration.redis_server import until

NUMBERS = np.random.default_rng(12)
P = np.round(NUMBERS.uniform(size=500), 3)
Y = (NUMBERS.uniform(size=500) < P).astype(int)
GROUPS = np.where(NUMBERS.uniform(size=500) < 0.5, "a", "b")
IDS = [f"row-{i}" for i in range(500)]


@pytest.fixture(params=["sync", "async"])
def either(request: pytest.FixtureRequest, service: Stack) -> Iterator[Calibrant]:
    kind: Kind = request.param
    with connected(kind, service.url) as client:
        yield client


@pytest.fixture
def monitor(either: Calibrant) -> Iterator[str]:
    yield either.create_monitor("of-a-client", windows=[{"name": "day", "seconds": 86400}]).name
    either.delete_monitor("of-a-client")


def test_a_monitor_is_made_read_changed_listed_and_forgotten(either: Calibrant) -> None:
    asked: dict[str, Any] = {"windows": [{"name": "last", "rows": 1000}], "measures": ["ece", "brier"], "interval": 0.9}
    monitor = either.create_monitor("client", description="first", horizon=3600, reduction="binary", **asked)
    assert (monitor.name, monitor.horizon, monitor.measures, monitor.windows[0].rows) == (
        "client",
        3600,
        ["ece", "brier"],
        1000,
    )
    with pytest.raises(ProblemResponse) as refusal:
        either.create_monitor("client")
    assert refusal.value.code == "monitor-exists"
    changed = either.change_monitor("client", description=None, interval=None, measures=["ks"])
    assert (changed.description, changed.interval, changed.measures, changed.horizon) == (None, None, ["ks"], 3600)
    assert "client" in [listed.name for listed in either.monitors()]
    either.delete_monitor("client")
    with pytest.raises(ProblemResponse) as refusal:
        either.monitor("client")
    assert refusal.value.code == "unknown-monitor"


@pytest.mark.parametrize("form", ["npz", "arrow", "json"])
def test_rows_in_pieces_count_once_in_every_form(either: Calibrant, monitor: str, form: Encoding) -> None:
    sent: dict[str, Any] = {"ids": IDS, "groups": GROUPS, "timestamps": np.full(500, time.time())}
    first = either.send_rows(monitor, P, Y, **sent, form=form, piece=200)
    assert (first.accepted, first.joined, first.refused) == (500, 500, 0)
    again = either.send_rows(monitor, pd.Series(P), pl.Series(Y), **sent, form=form)
    assert (again.accepted, again.duplicates) == (0, 500)
    reading = either.monitor(monitor, windows=["day"])
    assert (reading.counts.predictions, reading.counts.joined) == (500, 500)
    (window,) = reading.windows
    expected = either.evaluate(predictions=P, labels=Y, measures=["ks", "log-loss"])
    for name, measure in expected.measures.items():
        assert window.measures[name].value == pytest.approx(measure.value, abs=1e-4)
    assert {name: group.rows for name, group in window.groups.items()} == {g: GROUPS.tolist().count(g) for g in "ab"}


def test_labels_find_their_predictions_and_refusals_name_rows_of_the_whole(either: Calibrant, monitor: str) -> None:
    p = P.copy()
    p[450] = np.nan
    predicted = either.send_predictions(monitor, IDS, p, piece=200)
    assert (predicted.accepted, predicted.refused) == (499, 1)
    assert [refusal.row for refusal in predicted.refusals] == [450]
    waiting = either.monitor(monitor).counts
    assert (waiting.pending, waiting.joined) == (499, 0)
    joined = either.send_labels(monitor, pd.Series(IDS), Y == 1, piece=300)
    assert (joined.joined, joined.waiting) == (499, 1)
    contradicted = either.send_labels(monitor, IDS[:1], [1 - Y[0]])
    assert (contradicted.contradicted, contradicted.accepted) == (1, 0)


def test_rows_without_ids_count_once_by_a_key_of_ones_own(either: Calibrant, monitor: str) -> None:
    for _ in range(2):
        assert either.send_rows(monitor, P, Y, key=f"nightly-{id(either)}", piece=300).joined == 500
    assert either.monitor(monitor).counts.joined == 500


def test_values_over_time_and_pictures_are_of_the_same_rows(either: Calibrant, monitor: str) -> None:
    either.send_rows(monitor, P, Y)
    series = either.series(monitor, measure="ece", points=10)
    assert sum(point.rows for point in series.points) == 500
    assert either.monitor_diagram(monitor, "day", theme="light", width=400).startswith(b"<svg")
    assert either.series_diagram(monitor, "ece", width=400).startswith(b"<svg")


def test_readings_and_series_are_frames(either: Calibrant, monitor: str) -> None:
    began = datetime.now(UTC) - timedelta(hours=2)
    either.send_rows(monitor, P, Y, groups=GROUPS)
    reading, series = either.monitor(monitor, windows="day"), either.series(monitor, start=began)
    frame = reading.to_frame()
    whole = frame[frame.group.isna()].set_index("measure")
    measures = reading.windows[0].measures
    assert whole.value.to_dict() == {key: measure.value for key, measure in measures.items()}
    assert (whole.low["ece"], whole.high["ece"]) == measures["ece"].interval
    assert (set(frame.group.dropna()), whole.rows["ece"]) == ({"a", "b"}, 500)
    points = series.to_frame()
    assert len(points) == len(series.points) * len(measures)
    assert points.start[0] == datetime.fromisoformat(series.points[0].start)
    assert series == either.series(monitor, start=began.replace(tzinfo=None)) == either.series(monitor)
    later = either.series(monitor, start=began - timedelta(days=9), end=pd.Timestamp(began) - timedelta(days=8))
    assert (later.points, later.to_frame().empty) == ([], True)
    assert either.series_diagram(monitor, "ece", start=began)[:4] == b"<svg"


def test_a_monitor_at_rest_has_neither_alarms_nor_deliveries(either: Calibrant, monitor: str) -> None:
    assert [(rule.rule, rule.kind) for rule in either.alarms(monitor)] == [("evidence", "evidence")]
    assert list(either.alarm_events(monitor)) == []
    assert list(either.audit(monitor)) == []
    assert list(either.deliveries(monitor, status="dead")) == []
    assert either.recalibrate(monitor).number == 1
    assert [entry.action for entry in either.audit(monitor)] == ["recalibration-requested"]
    refused: list[Any] = [
        lambda: either.proposal(monitor),
        lambda: either.accept_proposal(monitor),
        lambda: either.reject_proposal(monitor),
        lambda: either.acknowledge(monitor, "unheard-of"),
        lambda: either.resend(monitor, "delivery_" + "0" * 30),
    ]
    for ask in refused:
        with pytest.raises(ProblemResponse) as refusal:
            ask()
        assert refusal.value.status in (404, 409)


#: Seconds until workers have checked a monitor and recalibrated.
PATIENCE = 600.0


def test_an_online_map_and_the_time_of_a_change_are_answered(either: Calibrant, service: Stack) -> None:
    name = f"followed-{time.time_ns()}"  # its maps stay
    policy = {"policy": "online", "options": {"memories": [500]}}
    either.create_monitor(name, bucket=60, retention=5 * 86_400, recalibration=policy)
    random = np.random.default_rng(1)
    p = random.uniform(size=3000)
    labels = (random.uniform(size=3000) < np.sqrt(p)).astype(int)
    either.send_rows(name, p, labels, timestamps=time.time() - 3600.0 + np.arange(3000))
    either.send_rows(name, p, labels)  # the evidence counts only rows since the monitor was created
    requested = False

    def followed() -> bool:
        nonlocal requested
        online, (rule,) = either.monitor(name).online, either.alarms(name)
        # A look before the first rows arrive leaves only the second ones, in one or two buckets, without enough
        # evidence for a version.
        if online is not None and online.rows == 3000 and online.rounds <= 2 and not requested:
            either.recalibrate(name)
            requested = True
        return bool(online is not None and online.versions and online.versions[0].version and rule.status == "alarm")

    until(followed, PATIENCE)
    online, (rule,) = either.monitor(name).online, either.alarms(name)
    assert online is not None
    assert (online.rows == 6000 and online.rounds >= 50) or (online.rows == 3000 and online.rounds >= 1)
    assert (online.in_force, online.versions[0].version) == (online.versions[-1].map, 1)
    assert sum(online.weights.values()) == pytest.approx(1.0)
    assert either.calibrate(f"{name}@champion", [0.25])[0] == pytest.approx(0.5, abs=0.05)
    assert either.map(f"{name}@champion").method == "online"
    with httpx.Client(base_url=service.url, timeout=600) as http:
        assert http.get(f"/ui/maps/{online.in_force}").status_code == 200
        assert "Online recalibration" in http.get(f"/ui/monitors/{name}").text
    assert rule.evidence is not None
    assert rule.evidence.change is not None
    assert "too low" in rule.evidence.change.message
    raised = next(event for event in either.alarm_events(name) if event.type == "monitor.alarm.raised")
    assert isinstance(raised.data, AlarmData)
    assert raised.data.change == rule.evidence.change
    either.delete_monitor(name)


def _decide_about(either: Calibrant, name: str, proposal: Proposal) -> None:
    """No other proposal than the one that was reviewed is accepted or rejected."""
    other = replace(proposal, id="proposal_" + "0" * 30)
    for decide in (either.accept_proposal, either.reject_proposal):
        with pytest.raises(ProblemResponse) as refusal:
            decide(name, if_match=other)
        assert (refusal.value.status, refusal.value.code) == (412, "precondition-failed")
        with pytest.raises(ProblemResponse) as refusal:
            decide(name, if_match=replace(proposal, map="map_" + "0" * 30))
        assert refusal.value.code == "precondition-failed"
    assert either.proposal(name) == proposal
    assert either.reject_proposal(name, if_match=proposal) == proposal
    with pytest.raises(ProblemResponse) as refusal:
        either.accept_proposal(name, if_match=proposal)
    assert refusal.value.code == "unknown-proposal"


@pytest.mark.slow
def test_class_frequencies_and_the_map_corrected_for_them_are_answered_and_shown(
    either: Calibrant, service: Stack
) -> None:
    name = f"sampled-{time.time_ns()}"  # its maps stay
    logits, labels = drawn(3000, 1)
    reference = {"batch": either.upload(logits, labels, scale="logit").id}
    monitor = either.create_monitor(name, n_classes=K, scale="logit", rules=[], reservoir=2000, reference=reference)
    assert monitor.reservoir == 2000
    window = drawn(1500, 2, share=0.2)[0]
    either.send_predictions(name, [f"row-{i}" for i in range(1500)], window)
    assert either.recalibrate(name, correction="label-shift").number == 1

    def estimated_and_proposed() -> bool:
        shift = either.monitor(name).windows[0].label_shift
        proposed = any(entry.action == "challenger-proposed" for entry in either.audit(name))
        return shift is not None and shift.estimated is not None and proposed

    until(estimated_and_proposed, PATIENCE)
    shift = either.monitor(name).windows[0].label_shift
    assert shift is not None
    assert shift.estimated is not None
    assert (shift.sampled, len(shift.estimated), shift.estimated_at is not None) == (1500, K, True)
    proposal = either.proposal(name)
    assert proposal.found.assumption is not None
    assert proposal.found.assumption.startswith("only class frequencies changed")
    assert (proposal.found.gain, proposal.occasion.correction) == (None, "label-shift")
    rate = f"{100 * shift.estimated[1]:.1f} %"
    with httpx.Client(base_url=service.url, timeout=600) as http:
        page = http.get(f"/ui/monitors/{name}").text
    assert "from a sample of 1,500 predictions of the window" in page
    assert rate in page
    assert f"It assumes that {proposal.found.assumption}." in page
    shown = invoked(None, "monitors", "show", name, "--server", service.url).stdout
    (line,) = [line for line in shown.split("classes of day")[1].splitlines() if line.startswith("1 ")]
    assert rate in line
    _decide_about(either, name, proposal)
    either.delete_monitor(name)
