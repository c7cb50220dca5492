"""What happened to an alarm, and was done about it: as it is told to those who listen, and as the audit has it."""

from __future__ import annotations

from typing import Literal

from monitoring.delivering.asking import event_of
from schemas.monitor_alarms import AuditAction, AuditEntry, Occasion, RuleState
from schemas.monitor_events import AlarmTold, AlarmType, MonitorEvent, RecalibrationTold, RecalibrationType
from schemas.monitors import MonitorRecord
from storage.clock import at

Turn = Literal["raised", "cleared", "acknowledged"]
_TYPES: dict[Turn, AlarmType] = {
    "raised": "monitor.alarm.raised",
    "cleared": "monitor.alarm.cleared",
    "acknowledged": "monitor.alarm.acknowledged",
}
_ACTIONS: dict[Turn, AuditAction] = {
    "raised": "alarm-raised",
    "cleared": "alarm-cleared",
    "acknowledged": "alarm-acknowledged",
}


def happened(record: MonitorRecord, state: RuleState, turn: Turn, moment: float) -> MonitorEvent:
    """The event of an alarm, the same one whoever tells of it: a rule's alarms are numbered."""
    told = AlarmTold(
        monitor=record.name,
        rule=state.rule,
        kind=state.kind,
        measure=None if state.threshold is None else state.threshold.measure,
        window=None if state.threshold is None else state.threshold.window,
        group=None if state.threshold is None else state.threshold.group,
        value=_value(state),
        bound=_bound(state),
        rows=state.rows,
        since=state.since,
    )
    return event_of(record, f"{state.rule}:{state.alarms}", _TYPES[turn], told, moment=moment)


def entry_of(state: RuleState, turn: Turn, moment: float, who: str | None = None) -> AuditEntry:
    """The entry of the audit."""
    detail = None if state.evidence is None or turn != "raised" else state.evidence.told
    return AuditEntry(at=at(moment), action=_ACTIONS[turn], who=who, rule=state.rule, alarm=state.alarms, detail=detail)


def recalibrated(
    record: MonitorRecord, occasion: Occasion, type_: RecalibrationType, told: RecalibrationTold, now: float
) -> MonitorEvent:
    """The event of what was done upon an alarm."""
    return event_of(record, occasion.seed, type_, told, moment=now)


def step_of(
    action: AuditAction,
    now: float,
    occasion: Occasion,
    told: RecalibrationTold,
    *,
    who: str | None = None,
    detail: str | None = None,
) -> AuditEntry:
    """The entry of the audit for a step that was taken upon an alarm."""
    return AuditEntry(
        at=at(now), action=action, who=who, rule=occasion.rule, alarm=occasion.number, detail=detail, found=told
    )


def _value(state: RuleState) -> float | None:
    if state.evidence is not None:
        return state.evidence.largest
    return None if state.threshold is None else state.threshold.value


def _bound(state: RuleState) -> float | None:
    if state.evidence is not None:
        return state.evidence.bound
    return None if state.threshold is None else state.threshold.above
