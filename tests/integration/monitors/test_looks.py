"""Looks: alarms raised once, told to every hook, acknowledged; what is over is forgotten."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from calibrant.tallies.tally import Tally
from monitoring.acknowledging import acknowledge
from monitoring.looking import LOOK_SECONDS, look, look_at
from monitoring.taking.entries import LABEL, PREDICTION, WAITING_LABEL, WAITING_PREDICTION, Entries, padded
from schemas.monitor_alarms import RuleState
from schemas.monitors import DAY, MonitorRecord
from storage.chores import Chore
from storage.errors import NoAlarm, UnknownMonitor, UnknownRule
from storage.monitors.definitions import Definitions
from storage.monitors.deliveries import Deliveries
from storage.monitors.latest import read_latest
from storage.monitors.ledger import Change, Ledger
from storage.monitors.standings import Standings
from storage.monitors.strings import Ids
from storage.pages import Asked
from storage.store import Store
from tests.integration.monitors.stored import monitor
from tests.integration.monitors.streams import BEGAN, HOUR, pour, rows

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


def made(store: Store, **changes: Any) -> MonitorRecord:
    fields: dict[str, Any] = {"windows": WINDOWS, "horizon": DAY, "retention": 10 * DAY, "bucket": int(HOUR)} | changes
    return monitor(store, **fields)


def begun(store: Store, **changes: Any) -> MonitorRecord:
    """A monitor that began with the stream."""
    record = made(store, **changes)
    return Definitions(store.redis, store.keys).patch(
        record.name, lambda record: record.model_copy(update={"started_at": BEGAN})
    )


def looked(store: Store, record: MonitorRecord, hour: int, tally: Tally) -> RuleState:
    """The state of the first rule after a look at the end of an hour."""
    now = pour(store, record, hour, tally)
    look_at(store, Definitions(store.redis, store.keys).get(record.name), now)
    return next(iter(Standings(store.redis, store.keys, record).read().rules.values()))


def types(store: Store, record: MonitorRecord) -> list[str]:
    """What happened, oldest first."""
    page = Standings(store.redis, store.keys, record).events(Asked(100))
    return [event.type.rpartition(".")[2] for event in reversed(page.items)]


def actions(store: Store, record: MonitorRecord) -> list[str]:
    page = Standings(store.redis, store.keys, record).audit(Asked(100))
    return [entry.action for entry in reversed(page.items)]


def test_a_stream_that_drifts_raises_one_alarm_which_every_hook_is_told(store: Store) -> None:
    record = begun(store, hooks=HOOKS)
    for hour in range(5):
        state = looked(store, record, hour, rows(1000, hour))
        assert state.status == "ok"
    for hour in range(5, 10):
        state = looked(store, record, hour, rows(1000, hour, shift=0.6))
    assert (state.status, state.alarms, state.rows) == ("alarm", 1, 10_000)
    found = state.evidence
    assert found is not None
    assert found.largest >= found.bound > 0.0
    assert (found.delta > 0.0, "too low" in found.told) == (True, True)
    assert found.since is not None
    assert abs(np.datetime64(found.since[:-1]).astype("datetime64[s]").astype(float) - (BEGAN + 5 * HOUR)) <= HOUR
    assert types(store, record) == ["raised"]
    deliveries = Deliveries(store.redis, store.keys, record.uid).page(Asked(10), status=None, hook=None).items
    assert sorted(one.hook for one in deliveries) == ["a", "b"]
    assert {one.event.type for one in deliveries} == {"monitor.alarm.raised"}


def test_of_many_looks_at_once_one_raises_the_alarm(store: Store) -> None:
    record = begun(store, rules=[{"kind": "evidence"}, THRESHOLD], hooks=HOOKS)
    now = pour(store, record, 0, rows(5000, 0, shift=1.0))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: look_at(store, record, now), range(16)))
    standing = Standings(store.redis, store.keys, record).read()
    assert {name: (state.status, state.alarms) for name, state in standing.rules.items()} == {
        "evidence": ("alarm", 1),
        "gap": ("alarm", 1),
    }
    assert types(store, record) == ["raised", "raised"]
    assert actions(store, record) == ["alarm-raised", "alarm-raised"]
    assert Standings(store.redis, store.keys, record).untold() == []


def test_evidence_begins_anew_once_it_is_acknowledged(store: Store) -> None:
    record = begun(store)
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
    assert actions(store, record) == ["alarm-raised", "alarm-acknowledged", "evidence-restarted", "alarm-raised"]
    page = Standings(store.redis, store.keys, record).audit(Asked(100))
    assert [entry.who for entry in page.items] == [None, "anna", "anna", None]


def test_a_threshold_is_cleared_by_its_own_rows_acknowledged_or_not(store: Store) -> None:
    record = begun(store, rules=[THRESHOLD])
    told = []
    for hour, shift in enumerate([0.0, 1.0, 1.0, 0.0, 0.0, 0.0]):
        told.append(looked(store, record, hour, rows(20_000, hour, shift=shift)).status)
        if hour == 1:
            acknowledge(store, record, "gap", None, BEGAN + 2 * HOUR)
            assert next(iter(Standings(store.redis, store.keys, record).read().rules.values())).status == "alarm"
    assert told == ["ok", "alarm", "alarm", "alarm", "ok", "ok"]
    assert types(store, record) == ["raised", "acknowledged", "cleared"]


@pytest.mark.parametrize("by", ["value", "lower", "debiased"])
def test_a_threshold_compares_the_number_that_it_names_of_one_group(store: Store, by: str) -> None:
    rule = THRESHOLD | {"by": by, "group": "b"}
    record = begun(store, rules=[rule])
    store.redis.hset(store.keys.monitor(record.uid).groups(), mapping={"a": 2, "b": 3})
    assert looked(store, record, 0, rows(20_000, 0, shift=1.0, group=2)).status == "unknown"
    assert looked(store, record, 1, rows(20_000, 1, shift=1.0, group=3)).status == "alarm"


def test_rules_that_go_take_their_alarms_with_them(store: Store) -> None:
    record = begun(store)
    looked(store, record, 0, rows(5000, 0, shift=1.0))
    Definitions(store.redis, store.keys).patch("m", lambda record: record.model_copy(update={"rules": []}))
    look_at(store, Definitions(store.redis, store.keys).get("m"), BEGAN + 2 * HOUR)
    assert Standings(store.redis, store.keys, record).read().rules == {}
    assert types(store, record) == ["raised", "cleared"]


def test_ids_whose_horizon_has_passed_are_forgotten_and_counted(store: Store) -> None:
    record = begun(store)
    ledger = Ledger(store.redis, store.keys, record)
    bucket = int(BEGAN // HOUR)
    waiting: Entries = np.zeros(7, PREDICTION)
    waiting["kind"], waiting["bucket"] = WAITING_PREDICTION, bucket
    labels = np.zeros(3, LABEL)
    labels["kind"] = WAITING_LABEL
    for names, entries in (("abcdefg", waiting), ("xyz", padded(labels))):
        ledger.commit(Change(Ids.of([name.encode() for name in names]), None, entries, BEGAN))
    look_at(store, record, BEGAN + DAY - 1)
    assert ledger.known() == 10
    assert look_at(store, record, BEGAN + 1.1 * DAY) == LOOK_SECONDS
    assert (ledger.known(), ledger.totals()) == (0, {"expired": 7, "unmatched": 3})
    assert ledger.buckets.counts(bucket, bucket) == {"expired": 7}


def test_buckets_past_retention_are_dropped_and_the_evidence_goes_on(store: Store) -> None:
    record = begun(store)
    looked(store, record, 0, rows(1000, 0))
    state = looked(store, record, 11 * 24, rows(1000, 1))
    assert state.rows == 1000
    assert Ledger(store.redis, store.keys, record).buckets.numbers(0, 2**32) == [int(BEGAN // HOUR) + 11 * 24]


def test_a_look_leaves_the_latest_values(store: Store) -> None:
    record = begun(store)
    looked(store, record, 0, rows(1000, 0))
    told = read_latest(store.redis)["default", record.uid]
    assert told["windows"]["hours"]["rows"] == 1000
    assert set(told["windows"]["hours"]["measures"]) == {"ece", "ks", "log-loss"}
    assert told["alarms"] == {"evidence": False}


def test_a_look_at_a_monitor_that_is_deleted_is_the_last(store: Store) -> None:
    record = begun(store)
    looked(store, record, 0, rows(1000, 0))
    chore = Chore("look", "default", record.uid)
    assert look(store.redis, chore) == LOOK_SECONDS
    Definitions(store.redis, store.keys).delete("m")
    with pytest.raises(UnknownMonitor):
        look_at(store, record, BEGAN + DAY)  # one that had begun before
    assert look(store.redis, chore) is None
    assert store.redis.keys("calibrant*monitor_*") == []
