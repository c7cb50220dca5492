"""The rules of a monitor: what becomes of each at a look. Nothing is read or written here."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from monitoring.evidence import Seen
from monitoring.windows import bucket_seconds
from schemas.monitor_alarms import EvidenceReading, RuleState, ThresholdReading
from schemas.monitors import EvidenceRule, MonitorRecord, Rule, ThresholdRule
from storage.clock import at


@dataclass(frozen=True)
class Measured:
    """What a look saw of a measure: the labelled rows, and the number that a rule compares, if there is one."""

    rows: int
    value: float | None


def begun(rule: Rule, before: RuleState | None, started_at: float) -> RuleState:
    """The state from which a look goes on: that before, or a new one where the rule or the start is another."""
    definition = hashlib.sha256(rule.model_dump_json().encode()).hexdigest()[:16]
    started = started_at if isinstance(rule, EvidenceRule) else 0.0
    if before is not None and (before.definition, before.started_at) == (definition, started):
        return before
    alarms = 0 if before is None else before.alarms
    return RuleState(rule=rule.name, kind=rule.kind, alarms=alarms, started_at=started, definition=definition)


def judged_by_evidence(
    rule: EvidenceRule, state: RuleState, seen: Seen, record: MonitorRecord, moment: float
) -> RuleState:
    """An alarm once the e-value has reached 1 / alpha at any look since the start, and until there is another start.

    What the rows speak for is told as of the look with the largest value.
    """
    if not seen.rows:
        return state.model_copy(update={"looked_at": at(moment)})
    bound, found, told = math.log(1.0 / rule.alpha), seen.evidence, state.evidence
    if told is None or found.log_e >= told.largest:
        shift = found.shift
        told = EvidenceReading(
            log_e=found.log_e,
            largest=found.log_e,
            bound=bound,
            level=found.level,
            since=at(seen.first * bucket_seconds(record)),
            shape=shift.shape,
            delta=shift.delta,
            spread=shift.spread,
            low=shift.low,
            high=shift.high,
            told=shift.told(),
        )
    reading = told.model_copy(update={"log_e": found.log_e, "bound": bound})
    after = state.model_copy(update={"rows": seen.rows, "looked_at": at(moment), "evidence": reading})
    return _moved(after, "alarm" if reading.largest >= bound else "ok", moment)


def judged_by_threshold(rule: ThresholdRule, state: RuleState, seen: Measured, moment: float) -> RuleState:
    """An alarm after so many looks in a row above the bound, until as many at or below the lower one.

    A look on the same rows as the one before, or on too few, counts as none.
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
    return _moved(after, status, moment)


def _moved(state: RuleState, status: str, moment: float) -> RuleState:
    """The state with a status, which began now where it is another one."""
    if status == state.status:
        return state
    raised = status == "alarm"
    changes = {"status": status, "since": at(moment), "alarms": state.alarms + raised, "challengers": 0}
    return state.model_copy(update=changes | {"acknowledged_at": None, "acknowledged_by": None})
