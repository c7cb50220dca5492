"""Rules: what becomes of them at a look."""

from __future__ import annotations

import pytest

from backend.monitors.alarms import Measured, begun, check_threshold
from schemas.monitor_alarms import RuleState
from schemas.monitors import ThresholdRule


def watched(rule: ThresholdRule, *seen: tuple[int, float | None]) -> list[RuleState]:
    """The states after looks that saw so many rows and such values."""
    state, found = begun(rule, None, 0.0), []
    for moment, (n, value) in enumerate(seen):
        state = check_threshold(rule, state, Measured(n, value), float(moment))
        found.append(state)
    return found


def statuses(rule: ThresholdRule, *seen: tuple[int, float | None]) -> str:
    return "".join(state.status[0] for state in watched(rule, *seen))


RULE = ThresholdRule(kind="threshold", measure="ece", window="day", above=0.05, clear_below=0.03, looks=2)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.01, 0.02, 0.04], "ooo"),
        ([0.06, 0.07, 0.04, 0.04, 0.02, 0.01], "uaaaao"),
        ([0.06, 0.04, 0.06, 0.04, 0.06], "uoooo"),
        ([0.06, 0.06, 0.02, 0.04, 0.02, 0.04], "uaaaaa"),
        ([0.06, 0.06, 0.06, 0.06, 0.03, 0.03], "uaaaao"),
    ],
)
def test_a_threshold_is_raised_and_cleared_by_looks_in_a_row(values: list[float], expected: str) -> None:
    assert statuses(RULE, *((1000 + i, value) for i, value in enumerate(values))) == expected


def test_a_value_that_swings_about_the_bound_raises_one_alarm() -> None:
    seen = [(1000 + i, 0.05 + 0.01 * (-1) ** i) for i in range(100)]
    last = watched(RULE.model_copy(update={"looks": 1}), *seen)[-1]
    assert (last.status, last.alarms) == ("alarm", 1)
    without = watched(ThresholdRule(kind="threshold", measure="ece", window="day", above=0.05), *seen)[-1]
    assert without.alarms == 50


def test_a_look_on_the_same_rows_or_on_too_few_counts_as_none() -> None:
    assert statuses(RULE, *[(1000, 0.06)] * 5) == "uuuuu"
    assert statuses(RULE, (99, 0.06), (98, 0.06), (97, 0.06)) == "uuu"
    assert statuses(RULE, (1000, 0.06), (50, None), (1001, 0.06)) == "uua"


def test_an_alarm_whose_rows_are_gone_stays() -> None:
    assert statuses(RULE, (1000, 0.06), (1001, 0.07), (0, None), (0, None)) == "uaaa"


def test_a_changed_rule_is_reset_and_keeps_counting() -> None:
    raised = watched(RULE, (1000, 0.06), (1001, 0.07))[-1]
    assert begun(RULE, raised, 5.0) is raised
    again = begun(RULE.model_copy(update={"above": 0.04}), raised, 0.0)
    assert (again.status, again.alarms) == ("unknown", 1)
