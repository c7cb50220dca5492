"""Rules: their states after checks, and what every kind of rule has."""

from __future__ import annotations

from inspect import get_annotations
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, TypeAdapter

from backend.monitors.rules.catalogue import RULE_TYPES
from backend.monitors.rules.rule import RuleType
from backend.monitors.rules.threshold import THRESHOLD, ComparedValue
from calibrant.core.errors import CalibrationError
from schemas.base import DAY
from schemas.monitor_alarms import AlarmData
from schemas.monitor_rules import Rule, RuleKind, RuleState, ThresholdRule
from schemas.monitors import MonitorBody, MonitorFields, MonitorRecord
from service.errors import InvalidField
from service.formats.format import Payload
from service.formats.options import read_options
from service.monitor_charts import chart_titles


def watched(rule: ThresholdRule, *seen: tuple[int, float | None]) -> list[RuleState]:
    """The states after looks that saw so many rows and such values."""
    state, states = THRESHOLD.begin(rule, None, RECORD), []
    for moment, (n, error) in enumerate(seen):
        state = THRESHOLD.conclude(rule, state, ComparedValue(n, error), float(moment))
        states.append(state)
    return states


def statuses(rule: ThresholdRule, *seen: tuple[int, float | None]) -> str:
    return "".join(state.status[0] for state in watched(rule, *seen))


RECORD = MonitorRecord(name="inbox", id="monitor_1", created_at="", started_at=0.0, bucket=3600)
RULE = ThresholdRule(kind="threshold", measure="ece", window="day", above=0.05, clear_below=0.03, looks=2)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([0.01, 0.02, 0.04], "ooo"),
        ([0.06, 0.07, 0.04, 0.04, 0.02, 0.01], "uaaaao"),
        ([0.06, 0.04, 0.06, 0.04, 0.06], "uoooo"),
        ([0.06, 0.06, 0.02, 0.04, 0.02, 0.04], "uaaaaa"),
        ([0.06, 0.06, 0.06, 0.06, 0.03, 0.03], "uaaaao"),
    ],
)
def test_a_threshold_is_raised_and_cleared_by_looks_in_a_row(errors: list[float], expected: str) -> None:
    assert statuses(RULE, *((1000 + i, error) for i, error in enumerate(errors))) == expected


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
    assert THRESHOLD.begin(RULE, raised, RECORD.model_copy(update={"started_at": 5.0})) is raised
    again = THRESHOLD.begin(RULE.model_copy(update={"above": 0.04}), raised, RECORD)
    assert (again.status, again.alarms) == ("unknown", 1)


@pytest.mark.parametrize("kind", get_args(RuleKind))
def test_every_kind_of_rule_has_an_object_a_model_and_a_field_of_its_state(kind: str) -> None:
    rule_type = RULE_TYPES[kind]
    assert get_args(rule_type.model.model_fields["kind"].annotation) == (kind,)
    definitions = TypeAdapter(MonitorFields).json_schema()["$defs"]
    assert rule_type.model.__name__ in definitions
    assert kind in RuleState.model_fields
    assert not rule_type.describe(RuleState(rule=kind, kind=rule_type.kind)).facts
    assert all(hasattr(rule_type, name) for name in get_annotations(RuleType))
    assert set(rule_type.charts) <= set(chart_titles(RECORD, "ece"))


#: Of each kind, a rule that does not fit a monitor without sets, without a reference and with the default retention.
UNFIT: dict[str, dict[str, Any]] = {
    "evidence": {"after": 400 * DAY},
    "threshold": {"measure": "unheard-of", "window": "day", "above": 0.05},
    "drift": {},
    "coverage": {},
}


@pytest.mark.parametrize("kind", get_args(RuleKind))
def test_every_kind_of_rule_is_refused_by_a_monitor_that_it_does_not_fit(kind: str) -> None:
    rule_type = RULE_TYPES[kind]
    with pytest.raises(CalibrationError) as caught:
        rule_type.validate(rule_type.model(kind=kind, **UNFIT[kind]), MonitorBody(name="inbox"), "/rules/0")
    assert caught.value.offences[0].pointer.startswith("/rules/0")


def _example(annotation: Any) -> Any:
    """A value of a field: the first type of a union."""
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return parts[0]
    if get_origin(annotation) is tuple:
        return tuple(map(_example, parts))
    if parts:
        return _example(parts[0])
    if issubclass(annotation, BaseModel):
        return annotation.model_construct(**{n: _example(f.annotation) for n, f in annotation.model_fields.items()})
    return "2026-03-14T00:00:00Z" if annotation is str else annotation(3)


@pytest.mark.parametrize("kind", get_args(RuleKind))
def test_a_checked_rule_has_a_card_and_an_alarm_of_known_fields(kind: str) -> None:
    reading = _example(RuleState.model_fields[kind].annotation)
    description = RULE_TYPES[kind].describe(
        RuleState(rule=kind, kind=RULE_TYPES[kind].kind).model_copy(update={kind: reading})
    )
    terms = [fact.term for fact in description.facts]
    assert len(terms) == len({*terms}) > 0
    assert {"value", "bound"} <= {*description.alarm} <= {*AlarmData.model_fields}


def test_the_kinds_of_rules_are_the_same_in_each_of_their_four_places() -> None:
    models = get_args(get_args(Rule)[0])
    of_models = {model.__name__: get_args(model.model_fields["kind"].annotation)[0] for model in models}
    kinds = get_args(RuleKind)
    assert tuple(of_models.values()) == kinds, "Rule and RuleKind of schemas/monitor_rules.py"
    assert [name for name in RuleState.model_fields if name in kinds] == [*kinds], "RuleState has a field of each kind"
    assert tuple(RULE_TYPES) == kinds, "RULE_TYPES of backend/monitors/rules/catalogue.py has an object of each kind"


@pytest.mark.parametrize("kind", get_args(RuleKind))
def test_a_wrong_field_of_a_rule_is_named_without_its_kind(kind: str) -> None:
    with pytest.raises(InvalidField) as raised:
        read_options(
            Payload({}, {"name": "inbox", "rules": [{"kind": kind, "name": 5}]}, from_query=False), MonitorBody
        )
    assert "/rules/0/name" in [offence.pointer for offence in raised.value.offences]
