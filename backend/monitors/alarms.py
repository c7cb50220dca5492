"""Alarms: the state of a monitor's rules, their events, and acknowledgement."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Literal

from backend.monitors.evidence import CheckedEvidence, next_start
from backend.monitors.webhooks import event_of
from backend.store.chores import Chore
from backend.store.clock import at
from backend.store.errors import NoAlarm, UnknownRule
from backend.store.monitors.standings import Change, Standings
from backend.store.pages import PageRequest
from backend.store.store import Store
from schemas.monitor_alarms import (
    AlarmData,
    AlarmsAnswer,
    AlarmType,
    AuditAction,
    AuditEntry,
    ChangeReading,
    EvidenceReading,
    JournalQuery,
    MonitorEvent,
    Occasion,
    RecalibrationData,
    RecalibrationType,
    RuleState,
    Standing,
    ThresholdReading,
)
from schemas.monitors import DriftRule, EvidenceRule, MonitorRecord, Rule, ThresholdRule

# --- The state of a rule after a check; pure functions


@dataclass(frozen=True)
class Measured:
    """What a check measured for a threshold: the number of labelled rows and the compared value, None if undefined."""

    rows: int
    value: float | None


def begun(rule: Rule, before: RuleState | None, started_at: float) -> RuleState:
    """The state to continue from: the previous state, or a new one if the rule or its start has changed."""
    definition = hashlib.sha256(rule.model_dump_json().encode()).hexdigest()[:16]
    started = started_at if isinstance(rule, EvidenceRule) else 0.0
    if before is not None and (before.definition, before.started_at) == (definition, started):
        return before
    alarms = 0 if before is None else before.alarms
    return RuleState(rule=rule.name, kind=rule.kind, alarms=alarms, started_at=started, definition=definition)


def restarted(state: RuleState, started_at: float) -> RuleState:
    """The state of a rule of drift that starts again, with a time bucket that has no rows yet."""
    return RuleState(
        rule=state.rule, kind=state.kind, alarms=state.alarms, started_at=started_at, definition=state.definition
    )


def check_evidence(
    rule: EvidenceRule,
    state: RuleState,
    seen: CheckedEvidence,
    moment: float,
    change: ChangeReading | None = None,
) -> RuleState:
    """Raise an alarm once the e-value reaches 1 / alpha at any check since the start; it lasts until the next start.

    The reported evidence is that of the check with the largest e-value. An alarm that is raised reports the ``change``.
    """
    if not seen.rows:
        return state.model_copy(update={"looked_at": at(moment)})
    bound, found, largest = math.log(1.0 / rule.alpha), seen.evidence, state.evidence
    if largest is None or found.log_e >= largest.largest:
        shift = found.shift
        largest = EvidenceReading(
            log_e=found.log_e,
            largest=found.log_e,
            bound=bound,
            level=found.level,
            since=at(seen.since),
            shape=shift.shape,
            delta=shift.delta,
            spread=shift.spread,
            low=shift.low,
            high=shift.high,
            description=seen.message(),
        )
    raised = largest.largest >= bound
    if state.status == "alarm" and state.evidence is not None:
        change = state.evidence.change
    reading = largest.model_copy(
        update={"log_e": found.log_e, "bound": bound, "change": change if raised else None},
    )
    after = state.model_copy(update={"rows": seen.rows, "looked_at": at(moment), "evidence": reading})
    return moved(after, "alarm" if raised else "ok", moment)


def is_raised(rule: EvidenceRule, state: RuleState, seen: CheckedEvidence) -> bool:
    """Whether a check raises the alarm of a rule in this state."""
    return state.status != "alarm" and seen.rows > 0 and seen.evidence.log_e >= math.log(1.0 / rule.alpha)


def check_threshold(rule: ThresholdRule, state: RuleState, seen: Measured, moment: float) -> RuleState:
    """Raise an alarm after ``looks`` checks in a row above the bound; clear it after as many up to ``clear_below``.

    A check of unchanged rows, or of too few rows, does not count.
    """
    clear = rule.above if rule.clear_below is None else rule.clear_below
    known = state.threshold
    looks = 0 if known is None else known.looks
    same = known is not None and (state.rows, known.value) == (seen.rows, seen.value)
    counts = seen.value is not None and seen.rows >= rule.least_rows and not same
    status = state.status
    if counts and seen.value is not None:
        turns = seen.value > rule.above if status != "alarm" else seen.value <= clear
        looks = looks + 1 if turns else 0
        if looks >= rule.looks:
            status, looks = "ok" if status == "alarm" else "alarm", 0
        elif status == "unknown" and not turns:
            status = "ok"
    reading = ThresholdReading(
        measure=rule.measure,
        window=rule.window,
        group=rule.group,
        value=seen.value,
        above=rule.above,
        clear_below=clear,
        looks=looks,
    )
    after = state.model_copy(update={"rows": seen.rows, "looked_at": at(moment), "threshold": reading})
    return moved(after, status, moment)


def moved(state: RuleState, status: str, moment: float) -> RuleState:
    """The state with a new status, which starts now if it has changed."""
    if status == state.status:
        return state
    raised = status == "alarm"
    changes = {"status": status, "since": at(moment), "alarms": state.alarms + raised, "challengers": 0}
    return state.model_copy(update=changes | {"acknowledged_at": None, "acknowledged_by": None})


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
    data = AlarmData(
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
        change=None if state.evidence is None else state.evidence.change,
        description=_description(state),
        drift=state.drift,
    )
    return event_of(record, f"{state.rule}:{state.alarms}", _TYPES[turn], data, moment=moment)


def entry_of(state: RuleState, turn: Turn, moment: float, who: str | None = None) -> AuditEntry:
    """The audit entry of an alarm."""
    detail = _description(state) if turn == "raised" else None
    return AuditEntry(at=at(moment), action=_ACTIONS[turn], who=who, rule=state.rule, alarm=state.alarms, detail=detail)


def _description(state: RuleState) -> str | None:
    """The error or the drift in words, with the time since when if it is known; None for a threshold."""
    if state.drift is not None:
        return state.drift.message
    if state.evidence is None:
        return None
    return state.evidence.description if state.evidence.change is None else state.evidence.change.message


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


def _value(state: RuleState) -> float | None:
    test = state.evidence or state.drift
    if test is not None:
        return test.largest
    return None if state.threshold is None else state.threshold.value


def _bound(state: RuleState) -> float | None:
    test = state.evidence or state.drift
    if test is not None:
        return test.bound
    return None if state.threshold is None else state.threshold.above


# --- Acknowledging an alarm


def acknowledge(store: Store, record: MonitorRecord, name: str, who: str | None, now: float) -> RuleState:
    """Acknowledge an alarm; evidence and drift restart, and a threshold stays raised until it clears.

    Raises ``UnknownRule``, and ``NoAlarm`` if no alarm is raised or it was already acknowledged.
    """
    look = Chore("look", store.keys.tenant, record.uid)

    def change(record: MonitorRecord, standing: Standing) -> Change:
        rule = next((rule for rule in record.rules if rule.name == name), None)
        state = standing.rules.get(name)
        if rule is None:
            raise UnknownRule("the monitor has no such rule")
        if state is None or state.status != "alarm" or state.acknowledged_at is not None:
            raise NoAlarm("the alarm of the rule is not raised, or was already acknowledged")
        event, entries = happened(record, state, "acknowledged", now), [entry_of(state, "acknowledged", now, who)]
        started_at = None
        if isinstance(rule, EvidenceRule):
            started_at = next_start(record, now)
            after = begun(rule, state, started_at)
            entries.append(AuditEntry(at=at(now), action="evidence-restarted", who=who))
        elif isinstance(rule, DriftRule):
            after = restarted(state, next_start(record, now))
            entries.append(AuditEntry(at=at(now), action="evidence-restarted", who=who, rule=name))
        else:
            after = state.model_copy(update={"acknowledged_at": at(now), "acknowledged_by": who})
        left = standing.model_copy(update={"rules": standing.rules | {name: after}})
        return Change(left, [event], entries, started_at, [look])

    changed = Standings(store.redis, store.keys, record).change(change)
    if changed is None:
        raise NoAlarm("the alarm of the rule is not raised")
    return changed.standing.rules[name]


# --- The alarms of a monitor for a request


def find_alarms(store: Store, name: str, query: JournalQuery) -> AlarmsAnswer:
    """The rules of a monitor in order, including rules not checked yet, and a page of its events."""
    record = store.monitors.get(name)
    standings = Standings(store.redis, store.keys, record)
    states = standings.read().rules
    rules = [states.get(rule.name, RuleState(rule=rule.name, kind=rule.kind)) for rule in record.rules]
    page = standings.events(PageRequest(query.limit, query.cursor))
    return AlarmsAnswer(rules=rules, items=list(page.items), next=page.next)
