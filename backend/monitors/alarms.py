"""Alarms of a monitor's rules: their events, and acknowledgement."""

from __future__ import annotations

from typing import Literal

from backend.monitors.evidence import next_start
from backend.monitors.rules.catalogue import RULE_TYPES
from backend.monitors.rules.rule import restarted
from backend.monitors.webhooks import event_of
from backend.store.chores import Chore
from backend.store.clock import at
from backend.store.errors import NoAlarm, UnknownRule
from backend.store.monitors.standings import StandingChange, Standings
from backend.store.pages import PageRequest
from backend.store.store import Store
from schemas.monitor_alarms import (
    AlarmData,
    AlarmsAnswer,
    AlarmType,
    AuditAction,
    AuditEntry,
    JournalQuery,
    MonitorEvent,
    Occasion,
    RecalibrationData,
    RecalibrationType,
    Standing,
)
from schemas.monitor_rules import (
    RuleState,
)
from schemas.monitors import MonitorRecord

# --- Events of alarms, for webhooks and the audit log

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
    """The event of an alarm; its id is deterministic, because the alarms of a rule are numbered."""
    description = RULE_TYPES[state.kind].describe(state)
    data = AlarmData(
        monitor=record.name,
        rule=state.rule,
        kind=state.kind,
        rows=state.rows,
        since=state.since,
        description=description.message,
        **description.alarm,
    )
    return event_of(record, f"{state.rule}:{state.alarms}", _TYPES[turn], data, moment=moment)


def entry_of(state: RuleState, turn: Turn, moment: float, who: str | None = None) -> AuditEntry:
    """The audit entry of an alarm."""
    detail = RULE_TYPES[state.kind].describe(state).message if turn == "raised" else None
    return AuditEntry(at=at(moment), action=_ACTIONS[turn], who=who, rule=state.rule, alarm=state.alarms, detail=detail)


def recalibrated(
    record: MonitorRecord, occasion: Occasion, type_: RecalibrationType, data: RecalibrationData, now: float
) -> MonitorEvent:
    """The event of an action after an alarm."""
    return event_of(record, occasion.seed, type_, data, moment=now)


def step_of(
    action: AuditAction,
    now: float,
    occasion: Occasion,
    data: RecalibrationData,
    *,
    who: str | None = None,
    detail: str | None = None,
) -> AuditEntry:
    """The audit entry of an action after an alarm."""
    return AuditEntry(
        at=at(now), action=action, who=who, rule=occasion.rule, alarm=occasion.number, detail=detail, found=data
    )


# --- Acknowledging an alarm


def acknowledge(store: Store, record: MonitorRecord, name: str, who: str | None, now: float) -> RuleState:
    """Acknowledge an alarm; rules of evidence and drift restart, and others stay raised until they clear.

    Raises ``UnknownRule``, and ``NoAlarm`` if no alarm is raised or it was already acknowledged.
    """
    look = Chore("look", store.keys.tenant, record.id)

    def change(record: MonitorRecord, standing: Standing) -> StandingChange:
        rule = next((rule for rule in record.rules if rule.name == name), None)
        state = standing.rules.get(name)
        if rule is None:
            raise UnknownRule("the monitor has no such rule")
        if state is None or state.status != "alarm" or state.acknowledged_at is not None:
            raise NoAlarm("the alarm of the rule is not raised, or was already acknowledged")
        event, entries = happened(record, state, "acknowledged", now), [entry_of(state, "acknowledged", now, who)]
        restarts, started_at = RULE_TYPES[rule.kind].restarts, None
        if restarts is None:
            after = state.model_copy(update={"acknowledged_at": at(now), "acknowledged_by": who})
        else:
            after = restarted(state, next_start(record, now))
            of_rule = restarts == "rule"
            entries.append(AuditEntry(at=at(now), action="evidence-restarted", who=who, rule=name if of_rule else None))
            started_at = None if of_rule else after.started_at
        left = standing.model_copy(update={"rules": standing.rules | {name: after}})
        return StandingChange(left, [event], entries, started_at, [look])

    changed = Standings(store.redis, store.keys, record, store.audit).change(change)
    if changed is None:
        raise NoAlarm("the alarm of the rule is not raised")
    return changed.standing.rules[name]


# --- The alarms of a monitor for a request


def find_alarms(store: Store, name: str, query: JournalQuery) -> AlarmsAnswer:
    """The rules of a monitor in order, including rules not checked yet, and a page of its events."""
    record = store.monitors.get(name)
    standings = Standings(store.redis, store.keys, record)
    standing = standings.read()
    rules = [standing.state_of(rule) for rule in record.rules]
    page = standings.events(PageRequest(query.limit, query.cursor))
    return AlarmsAnswer(rules=rules, items=list(page.items), next=page.next)
