"""An alarm that stays is seen to again: once the pause has passed and rows have come, on those it speaks of."""

from __future__ import annotations

from typing import Any

from backend.monitors.looks import look_at
from backend.monitors.recalibration import recalibrate_at, request_challenger
from backend.store.store import Store
from schemas.base import DAY
from schemas.monitors import MonitorRecord
from tests.integration.monitors.streams import BEGAN, HOUR, begun, events_of, pour, rows, standing_of
from tests.integration.monitors.test_recalibrating import actions, entries
from tests.known import known

#: An hour of calibrated rows is over, and one of drifted rows has begun.
NOW = BEGAN + 2 * HOUR


def drifted(store: Store, **asked: Any) -> MonitorRecord:
    """A monitor whose alarm is raised by 300 rows of the second hour, after 20,000 calibrated ones."""
    recalibration = {"policy": "auto", "least_rows": 1000, "pause": 600} | asked
    record = begun(store, windows=[{"name": "day", "seconds": DAY}], recalibration=recalibration)
    pour(store, record, 0, rows(20_000, 0))
    pour(store, record, 1, rows(300, 1, shift=1.0))
    look_at(store, record, NOW)
    return record


def seen_to(store: Store, record: MonitorRecord, now: float) -> None:
    """A look, and the chore that it may ask for."""
    look_at(store, record, now)
    recalibrate_at(store, record, now)


def test_a_continuing_alarm_is_handled_again_with_its_own_rows(store: Store) -> None:
    record = drifted(store)
    recalibrate_at(store, record, NOW)
    assert actions(store, record) == ["recalibration-declined"]  # the window is that of the hour before
    pour(store, record, 1, rows(3000, 2, shift=1.0))
    seen_to(store, record, NOW + 599)
    assert actions(store, record) == ["recalibration-declined"]
    seen_to(store, record, NOW + 600)
    assert actions(store, record)[1:] == ["challenger-proposed", "alias-moved", "evidence-restarted"]
    proposed = known(entries(store, record)[1].found)
    assert proposed.since == "2023-11-14T23:00:00.000Z"
    assert 500 < (proposed.rows or 0) < 800  # a fifth of 3,300
    state = standing_of(store, record).rules["evidence"]
    assert (state.alarms, state.challengers) == (1, 2)


def test_no_fit_is_retried_before_enough_rows_have_arrived(store: Store) -> None:
    record = drifted(store, pause=0)
    recalibrate_at(store, record, NOW)
    pour(store, record, 1, rows(99, 2, shift=1.0))
    seen_to(store, record, NOW + 60)
    assert actions(store, record) == ["recalibration-declined"]
    pour(store, record, 1, rows(1, 3, shift=1.0))
    seen_to(store, record, NOW + 61)
    assert actions(store, record) == ["recalibration-declined"] * 2


def test_too_few_rows_are_not_an_attempt_and_are_reported_once(store: Store) -> None:
    record = drifted(store, least_rows=21_000, pause=DAY)
    recalibrate_at(store, record, NOW)
    for i in range(2):
        pour(store, record, 1, rows(300, 2 + i, shift=1.0))
        seen_to(store, record, NOW + 60 * i)
    assert [(entry.action, entry.found and entry.found.code) for entry in entries(store, record)] == [
        ("recalibration-declined", "too-few-rows")
    ]
    assert standing_of(store, record).last_asked is None
    pour(store, record, 1, rows(9000, 9, shift=1.0))
    seen_to(store, record, NOW + 600)
    assert actions(store, record)[1] == "challenger-proposed"


def test_a_waiting_proposal_is_replaced_only_on_request(store: Store) -> None:
    record = drifted(store, policy="propose", pause=0)
    pour(store, record, 1, rows(3000, 2, shift=1.0))
    recalibrate_at(store, record, NOW)
    pour(store, record, 1, rows(3000, 3, shift=1.0))
    seen_to(store, record, NOW + 600)
    assert actions(store, record) == ["challenger-proposed"]


def test_a_declined_recalibration_reports_its_code_and_details(store: Store) -> None:
    record = drifted(store)
    recalibrate_at(store, record, NOW)
    declined = events_of(store, record)[-1]
    assert declined.type == "monitor.recalibration.declined"
    reason = declined.data.model_dump()
    assert (reason["code"], reason["champion"], reason["challenger"]) == ("not-better", None, None)
    assert reason["low"] <= 0.0 <= reason["high"]
    assert reason["rows"] > 3000


def test_a_request_is_handled_once_and_without_the_pause(store: Store) -> None:
    record = drifted(store, policy="propose", pause=DAY)
    recalibrate_at(store, record, NOW)
    pour(store, record, 1, rows(3000, 2, shift=1.0))
    assert [request_challenger(store, record, who, NOW + 1).number for who in ("anna", "ben")] == [1, 1]
    recalibrate_at(store, record, NOW + 2)
    assert [(entry.action, entry.who, entry.rule) for entry in entries(store, record)[1:]] == [
        ("recalibration-requested", "anna", None),
        ("challenger-proposed", None, None),
    ]
    proposed = known(entries(store, record)[-1].found)
    assert proposed.since == "2023-11-14T23:00:00.000Z"  # an alarm is raised, though nobody asked upon it
    assert request_challenger(store, record, None, NOW + 3).number == 2
