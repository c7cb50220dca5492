"""Looks: alarms raised once, sent to every hook, acknowledged; what is over is forgotten."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from backend.monitors.alarms import acknowledge
from backend.monitors.answers import MonitorCache, MonitorReader
from backend.monitors.kinds import event_of, read_rows
from backend.monitors.looks import LOOK_SECONDS, look, look_at
from backend.monitors.outcomes import LABEL, PREDICTION, WAITING_LABEL, WAITING_PREDICTION, Entries, padded
from backend.monitors.readings import ReadingsCache
from backend.store.chores import Chore
from backend.store.clock import at
from backend.store.errors import NoAlarm, UnknownMonitor, UnknownRule
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.deliveries import Deliveries
from backend.store.monitors.ids import Ids
from backend.store.monitors.ledger import Ledger, RowChanges
from backend.store.monitors.standings import Standings, read_latest
from backend.store.pages import PageRequest
from backend.store.store import Store
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import PLAIN
from calibrant.measures.measure import answers
from calibrant.monitoring.tally import merged
from schemas.base import DAY
from schemas.monitors import MonitorRecord
from tests.integration.monitors.stored import put_reference
from tests.integration.monitors.streams import (
    BEGAN,
    HOUR,
    actions_of,
    begun,
    entries_of,
    events_of,
    looked,
    pour,
    rows,
    standing_of,
)
from tests.known import known

THRESHOLD = {
    "kind": "threshold",
    "name": "gap",
    "measure": "ece",
    "window": "hours",
    "above": 0.05,
    "clear_below": 0.03,
}
WINDOWS = [{"name": "hours", "seconds": 7200}]
HOOKS = [{"name": name, "url": "https://alerts.example.com", "secret": "whsec_" + "A" * 32} for name in "ab"]


def watched(store: Store, **changes: Any) -> MonitorRecord:
    return begun(store, **{"windows": WINDOWS} | changes)


def types(store: Store, record: MonitorRecord) -> list[str]:
    return [event.type.rpartition(".")[2] for event in events_of(store, record)]


def test_a_drifting_stream_raises_one_alarm_that_every_hook_receives(store: Store) -> None:
    record = watched(store, hooks=HOOKS)
    for hour in range(5):
        state = looked(store, record, hour, rows(1000, hour))
        assert state.status == "ok"
    for hour in range(5, 10):
        state = looked(store, record, hour, rows(1000, hour, shift=0.6))
    assert (state.status, state.alarms, state.rows) == ("alarm", 1, 10_000)
    evidence = known(state.evidence)
    assert evidence.largest >= evidence.bound > 0.0
    assert (evidence.delta > 0.0, "too low" in evidence.description) == (True, True)
    assert (
        abs(np.datetime64(known(evidence.since)[:-1]).astype("datetime64[s]").astype(float) - (BEGAN + 5 * HOUR))
        <= HOUR
    )
    assert types(store, record) == ["raised"]
    deliveries = Deliveries(store.redis, store.keys, record.id).page(PageRequest(10), status=None, hook=None).items
    assert sorted(delivery.hook for delivery in deliveries) == ["a", "b"]
    assert {delivery.event.type for delivery in deliveries} == {"monitor.alarm.raised"}


@pytest.mark.slow
def test_concurrent_looks_raise_one_alarm(store: Store) -> None:
    record = watched(store, rules=[{"kind": "evidence"}, THRESHOLD], hooks=HOOKS)
    now = pour(store, record, 0, rows(5000, 0, shift=1.0))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: look_at(store, record, now), range(16)))
    standing = standing_of(store, record)
    assert {name: (state.status, state.alarms) for name, state in standing.rules.items()} == {
        "evidence": ("alarm", 1),
        "gap": ("alarm", 1),
    }
    assert types(store, record) == ["raised", "raised"]
    assert actions_of(store, record) == ["alarm-raised", "alarm-raised"]
    assert Standings(store.redis, store.keys, record).unqueued_events() == []


def test_evidence_is_reset_by_an_acknowledgement(store: Store) -> None:
    record = watched(store)
    state = looked(store, record, 0, rows(5000, 0, shift=1.0))
    assert state.status == "alarm"
    now = BEGAN + HOUR + 1
    after = acknowledge(store, record, "evidence", "anna", now)
    assert (after.status, after.alarms, after.started_at) == ("unknown", 1, BEGAN + 2 * HOUR)
    with pytest.raises(NoAlarm):
        acknowledge(store, record, "evidence", "anna", now)
    with pytest.raises(UnknownRule):
        acknowledge(store, record, "other", "anna", now)
    # What was predicted before is none any more.
    assert looked(store, record, 1, rows(5000, 1, shift=1.0)).status == "unknown"
    assert looked(store, record, 2, rows(5000, 2)).status == "ok"
    assert looked(store, record, 3, rows(5000, 3, shift=1.0)).status == "alarm"
    assert types(store, record) == ["raised", "acknowledged", "raised"]
    assert actions_of(store, record) == ["alarm-raised", "alarm-acknowledged", "evidence-restarted", "alarm-raised"]
    assert [entry.who for entry in entries_of(store, record)] == [None, "anna", "anna", None]


def test_a_threshold_is_cleared_by_its_own_rows_acknowledged_or_not(store: Store) -> None:
    record = watched(store, rules=[THRESHOLD])
    statuses = []
    for hour, shift in enumerate([0.0, 1.0, 1.0, 0.0, 0.0, 0.0]):
        statuses.append(looked(store, record, hour, rows(20_000, hour, shift=shift)).status)
        if hour == 1:
            acknowledge(store, record, "gap", None, BEGAN + 2 * HOUR)
            assert next(iter(standing_of(store, record).rules.values())).status == "alarm"
    assert statuses == ["ok", "alarm", "alarm", "alarm", "ok", "ok"]
    assert types(store, record) == ["raised", "acknowledged", "cleared"]


@pytest.mark.parametrize("by", ["value", "lower", "debiased"])
def test_a_threshold_compares_the_number_that_it_names_of_one_group(store: Store, by: str) -> None:
    rule = THRESHOLD | {"by": by, "group": "b"}
    record = watched(store, rules=[rule])
    store.redis.hset(store.keys.monitor(record.id).groups(), mapping={"a": 2, "b": 3})
    assert looked(store, record, 0, rows(20_000, 0, shift=1.0, group=2)).status == "unknown"
    assert looked(store, record, 1, rows(20_000, 1, shift=1.0, group=3)).status == "alarm"


@pytest.mark.parametrize("measure", ["ece", "ks", "smooth-ece", "log-loss"])
def test_a_threshold_compares_the_reported_lower_end(store: Store, measure: str) -> None:
    rule = THRESHOLD | {"by": "lower", "measure": measure}
    record = watched(store, measures=[measure], rules=[rule])
    tally = rows(5000, 0, shift=0.3)
    state = looked(store, record, 0, tally)
    reading = read_rows(tally, record, ReadingsCache(), intervals=True).measures[measure]
    assert known(state.threshold).value == known(reading.interval)[0]


def test_removed_rules_remove_their_alarms(store: Store) -> None:
    record = watched(store)
    looked(store, record, 0, rows(5000, 0, shift=1.0))
    Definitions(store.redis, store.keys).patch("m", lambda record: record.model_copy(update={"rules": []}))
    look_at(store, Definitions(store.redis, store.keys).get("m"), BEGAN + 2 * HOUR)
    assert standing_of(store, record).rules == {}
    assert types(store, record) == ["raised", "cleared"]


def test_ids_whose_horizon_has_passed_are_forgotten_and_counted(store: Store) -> None:
    record = watched(store)
    ledger = Ledger(store.redis, store.keys, record)
    bucket = int(BEGAN // HOUR)
    waiting: Entries = np.zeros(7, PREDICTION)
    waiting["kind"], waiting["bucket"] = WAITING_PREDICTION, bucket
    labels = np.zeros(3, LABEL)
    labels["kind"] = WAITING_LABEL
    for names, entries in (("abcdefg", waiting), ("xyz", padded(labels))):
        ledger.commit(RowChanges(Ids.of([name.encode() for name in names]), None, entries, BEGAN))
    look_at(store, record, BEGAN + DAY - 1)
    assert ledger.known() == 10
    assert look_at(store, record, BEGAN + 1.1 * DAY) == LOOK_SECONDS
    assert (ledger.known(), ledger.totals()) == (0, {"expired": 7, "unmatched": 3})
    assert ledger.buckets.counts(bucket, bucket) == {"expired": 7}


def test_buckets_past_retention_are_dropped_and_the_evidence_goes_on(store: Store) -> None:
    record = watched(store)
    looked(store, record, 0, rows(1000, 0))
    state = looked(store, record, 11 * 24, rows(1000, 1))
    assert state.rows == 1000
    assert Ledger(store.redis, store.keys, record).buckets.numbers(0, 2**32) == [int(BEGAN // HOUR) + 11 * 24]


@pytest.mark.slow
@pytest.mark.parametrize("hours", [[24 * day + 5 for day in range(8, 14)], [24 * 30]], ids=["day by day", "at once"])
def test_a_reference_outlives_its_buckets_with_what_came_late(store: Store, hours: list[int]) -> None:
    span = {"start": at(BEGAN), "end": at(BEGAN + 60 * HOUR)}
    record = watched(store, reference=span, rules=[])
    reader = MonitorReader(store.redis, store.keys, record, MonitorCache())
    for hour in range(70):
        pour(store, record, hour, rows(100, hour))
    look_at(store, record, BEGAN + 9 * DAY)
    pour(store, record, 59, rows(100, 59))  # long after the span, and before it is dropped
    expected = merged([*(rows(100, hour) for hour in range(60)), rows(100, 59)])
    for hour in hours:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda now: look_at(store, record, now), [BEGAN + hour * HOUR] * 4))
        reference = reader.reference()
        assert reference is not None
        assert reference.tally is not None
        assert len(reference.tally) == 6100
        assert reference.tally.p_sum.sum() == pytest.approx(expected.p_sum.sum())
    assert Ledger(store.redis, store.keys, record).buckets.numbers(0, 2**32) == []
    # Another reference begins with nothing kept.
    put_reference(store, record.id, None)
    reference = reader.reference()
    assert reference is not None
    assert reference.tally is not None
    assert len(reference.tally) == 0


def test_a_look_measures_only_rows_since_the_last_look(store: Store) -> None:
    rule = THRESHOLD | {"above": 0.9, "by": "value", "group": "b"}
    record = watched(store, windows=[{"name": "hours", "seconds": 9 * DAY}], rules=[rule])
    store.redis.hset(store.keys.monitor(record.id).groups(), mapping={"b": 2})
    for hour in range(200):
        pour(store, record, hour, rows(20, hour, group=2 * (hour % 2)))
    now, parts = BEGAN + 200 * HOUR, [rows(20, hour, group=2 * (hour % 2)) for hour in range(200)]
    for late in (3, 70, 199):
        look_at(store, record, now)
        pour(store, record, late, rows(50, late, group=2))
        parts.append(rows(50, late, group=2))
        look_at(store, record, now)
        state = standing_of(store, record).rules["gap"]
        whole = merged(parts)
        assert state.rows == len(whole.of_group(2))
        latest = read_latest(store.redis)["default", record.id]["windows"]["hours"]
        expected = answers(read_requests(["ece", "ks", "log-loss"]), event_of(whole, "binary"), PLAIN)
        assert (latest["rows"], latest["coverage"]) == (len(whole), 1.0)
        assert latest["measures"] == {key: pytest.approx(measure.value) for key, measure in expected.items()}
        own = answers(read_requests(["ece"]), event_of(whole.of_group(2), "binary"), PLAIN)["ece"]
        assert known(state.threshold).value == pytest.approx(own.value)


def test_a_look_leaves_the_latest_values(store: Store) -> None:
    record = watched(store)
    looked(store, record, 0, rows(1000, 0))
    latest = read_latest(store.redis)["default", record.id]
    assert latest["windows"]["hours"]["rows"] == 1000
    assert set(latest["windows"]["hours"]["measures"]) == {"ece", "ks", "log-loss"}
    assert latest["alarms"] == {"evidence": False}
    assert latest["looked_at"] == BEGAN + HOUR


def test_no_look_follows_the_deletion_of_its_monitor(store: Store) -> None:
    record = watched(store)
    looked(store, record, 0, rows(1000, 0))
    chore = Chore("look", "default", record.id)
    assert look(store.redis, chore) == LOOK_SECONDS
    Definitions(store.redis, store.keys).delete("m")
    with pytest.raises(UnknownMonitor):
        look_at(store, record, BEGAN + DAY)  # one that had begun before
    assert look(store.redis, chore) is None
    assert store.redis.keys("calibrant*monitor_*") == []
