"""The rule ``evidence``: an anytime-valid test of calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass

from backend.monitors.change_times import estimate_change
from backend.monitors.evidence import CheckedEvidence, Remembered, check_after, look_at_evidence
from backend.monitors.rules.rule import NOTHING, Check, Description, EProcessRuleType, Fact
from backend.store.clock import at
from schemas.monitor_rules import ChangeReading, EvidenceReading, EvidenceRule, RuleState
from schemas.monitors import MonitorBody, MonitorRecord

_REMEMBERED = Remembered()


@dataclass(frozen=True)
class EvidenceSeen:
    """The evidence at a check; with the time of the change if the check raises the alarm."""

    evidence: CheckedEvidence
    change: ChangeReading | None = None


class EvidenceRuleType(EProcessRuleType[EvidenceRule, EvidenceSeen]):
    """Rules of evidence start with the monitor's evidence, and restart together."""

    model = EvidenceRule
    calm = "the evidence against calibration does not reach the threshold"
    restarts = "evidence"
    recalibrates = True
    charts = ("error", "frequency", "evidence")

    def validate(self, rule: EvidenceRule, body: MonitorBody, where: str) -> None:
        """Buckets must count before they are dropped."""
        check_after(rule.after, body, where)

    def start(self, record: MonitorRecord) -> float:
        """The start of the monitor's evidence."""
        return record.started_at

    def continues(self, state: RuleState, record: MonitorRecord) -> bool:
        """Whether the monitor's evidence has not restarted since."""
        return state.started_at == record.started_at

    def observe(self, rule: EvidenceRule, state: RuleState, check: Check) -> EvidenceSeen:
        """The evidence of the rows since the start, and when calibration changed if the alarm is about to be raised."""
        strongest = look_at_evidence(check.buckets, check.record, _REMEMBERED, check.now, rule.after)
        is_raised = (
            state.status != "alarm" and strongest.rows > 0 and strongest.evidence.log_e >= math.log(1.0 / rule.alpha)
        )
        if not is_raised:
            return EvidenceSeen(strongest)
        return EvidenceSeen(strongest, estimate_change(check.buckets, check.record, check.now, rule.after))

    def conclude(self, rule: EvidenceRule, state: RuleState, seen: EvidenceSeen, moment: float) -> RuleState:
        """The reported evidence is that of the check with the largest e-value; the change is that of the alarm."""
        if not seen.evidence.rows:
            return state.model_copy(update={"looked_at": at(moment)})
        strongest, shift = seen.evidence.evidence, seen.evidence.evidence.shift
        known = state.evidence.change if state.status == "alarm" and state.evidence is not None else seen.change
        reading = EvidenceReading(
            log_e=strongest.log_e,
            largest=strongest.log_e,
            bound=math.log(1.0 / rule.alpha),
            level=strongest.level,
            since=at(seen.evidence.since),
            shape=shift.shape,
            delta=shift.delta,
            spread=shift.spread,
            low=shift.low,
            high=shift.high,
            description=seen.evidence.message,
            change=known,
        )
        return self.tested(state, reading, seen.evidence.rows, moment, change=known)

    def describe(self, state: RuleState) -> Description:
        """The error with the strongest evidence, or when calibration changed."""
        evidence = state.evidence
        if evidence is None:
            return NOTHING
        facts, change = self.facts(evidence), evidence.change
        if change is not None:
            facts.append(Fact("Changed", (change.time, *change.interval), "times"))
            facts.append(Fact("Rows since then", change.rows, "count"))
        elif evidence.since is not None:
            facts.append(Fact("Strongest since", (evidence.since,), "times"))
        message = evidence.description if change is None else change.message
        return Description(message, facts, {"value": evidence.largest, "bound": evidence.bound, "change": change})


EVIDENCE = EvidenceRuleType()
