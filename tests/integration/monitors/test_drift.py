"""Alarms of prediction drift: raised once, acknowledged, paused when the map changes, and valid at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from backend.monitors.alarms import acknowledge
from backend.monitors.looks import reference_state
from backend.monitors.rules.drift import DRIFT, RememberedCounts, look_at_drift
from backend.store.clock import at
from backend.store.errors import NoAlarm
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ledger import Ledger, RowChanges
from backend.store.store import Store
from calibrant.monitoring.tally import Tally, merged, tally_of
from schemas.monitor_alarms import AlarmData, Standing
from schemas.monitor_rules import DriftRule
from schemas.monitors import MonitorRecord, ReferenceSpec
from tests.integration.monitors.stored import put_reference
from tests.integration.monitors.streams import BEGAN, HOUR, begun, entries_of, events_of, looked, pour, standing_of
from tests.integration.monitors.test_coverage import counted, watched
from tests.integration.responses import body_of, patched
from tests.known import known

RULE = {"kind": "drift", "alpha": 0.01}
BATCH = {"batch": "batch_" + "0" * 30}
FIRST = int(BEGAN // HOUR)


def drawn(n: int, seed: int, power: float = 1.0, label: int = 0) -> Tally:
    """Predictions with this label, moved by a power; the test does not use labels."""
    p = np.random.default_rng(seed).beta(2.0, 2.0, n) ** power
    return tally_of(p, np.full(n, label, dtype=np.int8))


def new_monitor(store: Store, **changes: Any) -> MonitorRecord:
    fields: dict[str, Any] = {"windows": [{"name": "hours", "seconds": 7200}], "rules": [RULE], "reference": BATCH}
    record = begun(store, **fields | changes)
    put_reference(store, record.id, drawn(10_000, 99))
    return record


def test_drift_raises_one_alarm_that_describes_the_change(store: Store) -> None:
    record = new_monitor(store)
    for hour in range(5):
        assert looked(store, record, hour, drawn(1000, hour)).status == "ok"
    for hour in range(5, 9):
        state = looked(store, record, hour, drawn(1000, hour, 1.6))
    assert (state.status, state.alarms, state.rows) == ("alarm", 1, 9000)
    drift = known(state.drift)
    assert drift.largest >= drift.bound == pytest.approx(np.log(100.0))
    assert drift.since.startswith("2023-11-15T03:00") or drift.since.startswith("2023-11-15T02:00")
    assert drift.share > drift.reference_share or drift.low > 0.0
    assert "of the predictions are from" in drift.message
    events = events_of(store, record)
    assert [event.type for event in events] == ["monitor.alarm.raised"]
    alarm = events[0].data
    assert isinstance(alarm, AlarmData)
    assert (alarm.kind, alarm.bound) == ("drift", drift.bound)
    assert known(alarm.value) >= drift.bound
    audit = [(entry.action, entry.detail) for entry in entries_of(store, record)]
    assert audit == [("alarm-raised", known(alarm.drift).message)]


@pytest.mark.parametrize(
    ("kind", "begun_with", "calm", "off"),
    [
        ("drift", new_monitor, drawn, lambda n, seed: drawn(n, seed, 1.6)),
        ("coverage", watched, lambda n, _: counted(n, n * 91 // 100), lambda n, _: counted(n, n * 76 // 100)),
    ],
    ids=["drift", "coverage"],
)
def test_an_alarm_stays_until_it_is_acknowledged_and_then_only_later_rows_count(
    store: Store,
    kind: str,
    begun_with: Callable[..., MonitorRecord],
    calm: Callable[[int, int], Tally],
    off: Callable[[int, int], Tally],
) -> None:
    record = begun_with(store, **({"recalibration": {"policy": "propose"}} if kind == "drift" else {}))
    assert looked(store, record, 0, off(5000, 1)).status == "alarm"
    assert not standing_of(store, record).asked  # a challenger would not help
    for hour in range(1, 4):
        assert looked(store, record, hour, calm(20_000, hour)).status == "alarm"
    now = BEGAN + 4 * HOUR
    before = Definitions(store.redis, store.keys).get(record.name)
    after = acknowledge(store, before, kind, "ann", now)
    assert (after.status, getattr(after, kind), after.alarms) == ("unknown", None, 1)
    assert after.started_at == BEGAN + 5 * HOUR
    assert Definitions(store.redis, store.keys).get(record.name).started_at == before.started_at
    with pytest.raises(NoAlarm):
        acknowledge(store, record, kind, "ann", now)
    assert looked(store, record, 5, calm(2000, 5)).status == "ok"
    assert looked(store, record, 6, off(5000, 6)).alarms == 2


def test_predictions_without_a_label_count_once(store: Store) -> None:
    record = new_monitor(store)
    p = np.random.default_rng(3).beta(2.0, 2.0, 3000) ** 1.6
    ledger = Ledger(store.redis, store.keys, record)
    zeros, ones = np.zeros(3000, dtype=np.int8), np.ones(3000, dtype=np.int8)
    now, remembered = BEGAN + HOUR, RememberedCounts()
    arrived = RowChanges(
        None, None, None, now, waiting={FIRST: tally_of(p, zeros)}, counts={FIRST: {"predictions": 3000}}
    )
    assert ledger.commit(arrived) is None
    rule = record.rules[0]
    assert isinstance(rule, DriftRule)
    state, reference = DRIFT.begin(rule, None, record), drawn(10_000, 99)
    before = look_at_drift(ledger.buckets, record, reference, state, remembered, now)
    assert before.rows == 3000
    labelled = RowChanges(None, None, None, now, {FIRST: (tally_of(p, ones), None)}, waiting={FIRST: tally_of(p, ones)})
    assert ledger.commit(labelled) is None
    after = look_at_drift(ledger.buckets, record, reference, state, remembered, now)
    assert after.rows == 3000
    assert after.found.log_e == pytest.approx(before.found.log_e)


def test_dropped_buckets_never_raise_the_evidence_of_the_others(store: Store) -> None:
    record = new_monitor(store)
    for hour in range(4):
        pour(store, record, hour, drawn(500, hour, 1.1))
    ledger, rule = Ledger(store.redis, store.keys, record), record.rules[0]
    assert isinstance(rule, DriftRule)
    state, reference, now = DRIFT.begin(rule, None, record), drawn(2000, 99), BEGAN + 4 * HOUR
    evidence = []
    for before in range(FIRST, FIRST + 4):
        ledger.buckets.drop(before)
        evidence.append(look_at_drift(ledger.buckets, record, reference, state, RememberedCounts(), now).found.log_e)
    assert evidence == sorted(evidence, reverse=True)


def test_the_rule_is_paused_when_the_map_changes_until_a_new_reference_is_set(store: Store) -> None:
    record = new_monitor(store).model_copy(update={"map": "m@champion"})
    first = reference_state(record, None, "map_1")
    assert reference_state(record, first, "map_2") == first
    other = record.model_copy(update={"reference": ReferenceSpec(batch="batch_1")})
    again = known(reference_state(other, first, "map_2"))
    assert again.map == "map_2"
    assert reference_state(record.model_copy(update={"reference": None}), first, None) is None


def test_a_rule_needs_a_reference_and_a_fixed_map(api: httpx.Client) -> None:
    body = {"name": "inbox", "rules": [RULE]}
    refused = body_of(api.post("/monitors", json=body), 422)
    assert refused["errors"][0]["pointer"] == "/rules/0"
    whole = body | {"reference": {"start": at(1.0), "end": at(2.0)}}
    online = whole | {"recalibration": {"policy": "online"}}
    assert api.post("/monitors", json=online).json()["errors"][0]["pointer"] == "/rules/0"
    for alpha in (0, 0.5, -1, "x", None):
        assert api.post("/monitors", json=whole | {"rules": [RULE | {"alpha": alpha}]}).status_code == 422
    assert api.post("/monitors", json=whole).status_code == 201
    removed = body_of(patched(api, "/monitors/inbox", {"reference": None}), 422)
    assert removed["errors"][0]["pointer"] == "/rules/0"
    assert api.get("/monitors/inbox/alarms").json()["rules"][0]["kind"] == "drift"


def test_a_reference_without_rows_is_a_reason(store: Store) -> None:
    record = new_monitor(store)
    put_reference(store, record.id, None)
    state = looked(store, record, 0, drawn(100, 1))
    assert (state.status, state.reason) == ("unknown", "the reference has no labelled rows")


def test_standings_of_earlier_versions_load_unchanged() -> None:
    stored = '{"format":1,"rules":{"evidence":{"rule":"evidence","kind":"evidence","status":"ok"}},"asked":[]}'
    standing = Standing.model_validate_json(stored)
    assert (standing.reference, standing.rules["evidence"].drift, standing.rules["evidence"].reason) == (
        None,
        None,
        None,
    )


def test_the_page_describes_the_drift_and_the_label_shift(store: Store, api: httpx.Client) -> None:
    record = new_monitor(store)
    put_reference(store, record.id, merged([drawn(5000, 98), drawn(5000, 99, label=1)]))
    state = looked(store, record, 0, drawn(5000, 1, 1.6))
    page = api.get(f"/ui/monitors/{record.name}").raise_for_status().text
    assert known(state.drift).message.removeprefix("since ") in page
    assert 'id="acknowledge-drift"' in page
    assert "event rate without labels" in page
