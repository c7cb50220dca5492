"""The change time that an alarm of evidence reports."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from backend.monitors.alarms import find_alarms
from backend.monitors.ingestion import Account, Ingestion
from backend.monitors.looks import look_at
from backend.monitors.rows import MonitorRows
from backend.monitors.rules.evidence import MOST, estimate_change
from backend.store.monitors.buckets import SPAN
from backend.store.monitors.ledger import Ledger, MonitorGroups, RowChanges
from backend.store.store import Store
from schemas.base import DAY
from schemas.monitor_alarms import JournalQuery
from schemas.monitors import MonitorRecord
from tests.integration.monitors.streams import BEGAN, HOUR, begun, pour, rows, standing_of
from tests.known import known

MINUTES = 60


def watched(store: Store, **changes: Any) -> MonitorRecord:
    """A monitor whose evidence starts with the stream."""
    return begun(store, **{"windows": [{"name": "day", "seconds": DAY}], "retention": 5 * DAY} | changes)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_an_alarm_reports_when_calibration_changed_and_keeps_the_estimate(store: Store) -> None:
    record = watched(store)
    now = BEGAN
    for hour in range(30):
        now = pour(store, record, hour, rows(1000, hour, shift=0.0 if hour < 20 else 0.6))
        look_at(store, record, now)
        if standing_of(store, record).rules["evidence"].status == "alarm":
            break
    answer = find_alarms(store, "m", JournalQuery())
    (event,) = answer.items
    (rule,) = answer.rules
    assert rule.evidence is not None
    change = known(rule.evidence.change)
    assert event.data.model_dump()["change"] == json.loads(change.model_dump_json()) | {
        "interval": change.interval,
        "predictions": change.predictions,
    }
    low, high = map(moment, change.interval)
    assert low <= BEGAN + 20 * HOUR <= high <= now
    assert abs(moment(change.time) - (BEGAN + 20 * HOUR)) <= HOUR
    assert change.gap > 0.0
    assert change.message.startswith("since 15 November predictions")
    assert change.message.endswith("points too low")
    # Later checks raise no further alarm, so that the estimate stays, whatever the strongest evidence is then.
    for hour in range(30, 34):
        look_at(store, record, pour(store, record, hour, rows(1000, hour, shift=0.6)))
    later = known(standing_of(store, record).rules["evidence"].evidence)
    assert later.largest > rule.evidence.largest
    assert later.change == change


def test_a_stored_alarm_without_a_change_time_is_read(store: Store) -> None:
    record = watched(store)
    look_at(store, record, pour(store, record, 0, rows(5000, 0, shift=1.0)))
    key = store.keys.monitor(record.id).standing()
    standing = json.loads(store.redis.get(key))  # type: ignore[arg-type]
    del standing["rules"]["evidence"]["evidence"]["change"]
    store.redis.set(key, json.dumps(standing))
    (rule,) = find_alarms(store, "m", JournalQuery()).rules
    assert (rule.status, known(rule.evidence).change) == ("alarm", None)


@pytest.mark.slow
@pytest.mark.parametrize("minute", [200, 1500])
def test_many_buckets_are_compared_by_span_first(store: Store, minute: int) -> None:
    record = watched(store, bucket=MINUTES)
    ledger, n = Ledger(store.redis, store.keys, record), 1600
    first = int(BEGAN // MINUTES)
    everything = [rows(20, at, shift=0.0 if at < minute else 0.8) for at in range(n)]
    for start in range(0, n, 100):
        some = {first + at: (everything[at], None) for at in range(start, start + 100)}
        counts = {bucket: {"joined": 20} for bucket in some}
        assert ledger.commit(RowChanges(None, None, None, BEGAN, some, counts, {"joined": 2000})) is None
    assert n > MOST
    change = known(estimate_change(ledger.buckets, record, BEGAN + n * MINUTES))
    low, high = ((moment(end) - BEGAN) / MINUTES for end in change.interval)
    assert low <= minute <= high
    assert high - low < 2 * SPAN
    assert abs((moment(change.time) - BEGAN) / MINUTES - minute) < SPAN
    # The rows that count are those of the evidence.
    later = replace_start(record, BEGAN + 1400 * MINUTES)
    again = known(estimate_change(ledger.buckets, later, BEGAN + n * MINUTES))
    assert moment(again.interval[0]) >= BEGAN + 1400 * MINUTES


def replace_start(record: MonitorRecord, started_at: float) -> MonitorRecord:
    return record.model_copy(update={"started_at": started_at})


def test_there_is_no_estimate_without_rows(store: Store) -> None:
    record = watched(store)
    assert estimate_change(Ledger(store.redis, store.keys, record).buckets, record, BEGAN + HOUR) is None


def test_the_open_bucket_ends_now(store: Store) -> None:
    record = watched(store)
    pour(store, record, 0, rows(5000, 0))
    pour(store, record, 1, rows(5000, 1, shift=1.0))
    now = BEGAN + HOUR + 60.0
    change = known(estimate_change(Ledger(store.redis, store.keys, record).buckets, record, now))
    assert BEGAN + HOUR - 60.0 <= moment(change.time) <= moment(change.interval[1]) <= now
    assert np.isclose(change.rows, 5000, rtol=0.5)


def test_a_change_in_the_first_second_of_the_open_bucket_is_dated(store: Store) -> None:
    record = watched(store)
    ledger = Ledger(store.redis, store.keys, record)
    ledger.commit(RowChanges(None, None, None, BEGAN, {}, {}, {}, first=BEGAN + 0.1))
    pour(store, record, 0, rows(5000, 0))
    pour(store, record, 1, rows(200, 1, shift=0.8))
    now = BEGAN + HOUR + 0.5
    change = known(estimate_change(ledger.buckets, record, now))
    low, time, high = map(moment, (change.interval[0], change.time, change.interval[1]))
    assert BEGAN + 0.1 <= low <= time <= high <= now + 1.0


def arrive(store: Store, record: MonitorRecord, times: np.ndarray[Any, np.dtype[np.float64]], now: float) -> None:
    """Count rows with these times, whose outcomes are much more frequent than predicted."""
    p = np.random.default_rng(len(times)).uniform(0.1, 0.9, len(times))
    labels = (np.random.default_rng(0).random(len(times)) < p**0.4).astype(float)
    rows = MonitorRows(np.zeros(len(p), np.uint8), np.arange(len(p)), predictions=p, labels=labels, times=times)
    ingestion = Ingestion(
        Ledger(store.redis, store.keys, record), MonitorGroups(store.redis, store.keys, record), record
    )
    ingestion.add("rows", rows, now, Account())


def test_nothing_is_dated_before_the_first_row(store: Store) -> None:
    record = watched(store)
    first, now = BEGAN + 40 * MINUTES + 0.1234, BEGAN + 50 * MINUTES
    # A later request has the first row, and it is not the first of the request.
    arrive(store, record, np.linspace(first + 60.0, now, 2000), now)
    arrive(store, record, np.linspace(first, now, 2001)[::-1], now)
    look_at(store, record, now)
    answer = find_alarms(store, "m", JournalQuery())
    (rule,) = answer.rules
    assert rule.status == "alarm"
    assert rule.evidence is not None
    change = known(rule.evidence.change)
    low, high = map(moment, change.interval)
    assert first <= low <= moment(change.time) <= high
    assert [low, high] == pytest.approx([first, now], abs=0.002)
    assert rule.evidence.since == change.interval[0]
    assert answer.items[0].data.model_dump()["change"]["time"] == change.time


def test_the_interval_has_whole_buckets(store: Store) -> None:
    record = watched(store)
    for hour in range(24):
        now = pour(store, record, hour, rows(2000, hour, shift=0.0 if hour < 20 else 0.8))
    change = known(estimate_change(Ledger(store.redis, store.keys, record).buckets, record, now))
    ends = [(moment(end) - BEGAN) / HOUR for end in change.interval]
    assert ends == [round(end) for end in ends]
    assert ends[0] <= 20 <= ends[1]
    assert ends[0] <= (moment(change.time) - BEGAN) / HOUR <= ends[1]


def test_a_monitor_with_rows_of_an_earlier_version_dates_from_the_start_of_a_bucket(store: Store) -> None:
    record = watched(store)
    ledger = Ledger(store.redis, store.keys, record)
    ledger.commit(RowChanges(None, None, None, BEGAN, {}, {}, {"predictions": 1}))
    arrive(store, record, np.full(10, BEGAN + 40 * MINUTES), BEGAN + HOUR)
    assert ledger.buckets.began(int(BEGAN // HOUR)) == BEGAN
