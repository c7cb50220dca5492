"""The rule ``evidence``: an anytime-valid test of calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from backend.monitors.evidence import (
    CheckedEvidence,
    Remembered,
    check_after,
    first_bucket,
    last_counted,
    look_at_evidence,
    oldest_kept,
)
from backend.monitors.kinds import kind_of_monitor
from backend.monitors.rules.rule import NOTHING, Check, Description, EProcessRuleType, Fact
from backend.monitors.windows import bucket_seconds
from backend.store.clock import at
from backend.store.monitors.buckets import SPAN, Buckets
from calibrant.core.errors import CalibrationError
from calibrant.monitoring.change import ChangeTime, change_time
from calibrant.monitoring.event_tally import EventTally
from calibrant.monitoring.tally import Tally, merged
from schemas.monitor_rules import ChangeReading, EvidenceReading, EvidenceRule, RuleState
from schemas.monitors import MonitorBody, MonitorRecord

# --- When calibration changed: the estimate that an alarm of evidence reports

#: The most time buckets that are compared; more are first compared by span. A bucket takes about 0.5 ms.
MOST = 512
#: Level of the interval by span, whose buckets are then compared.
_COARSE = 0.999


def estimate_change(buckets: Buckets, record: MonitorRecord, now: float, after: int = 0) -> ChangeReading | None:
    """The time of the change that the evidence of a rule with this ``after`` shows; None if it cannot be estimated.

    It uses the buckets that count as evidence at time ``now``. At most about a second.
    """
    if kind_of_monitor(record).uncounted is not None:  # the change is estimated from predictions of an event
        return None
    first = max(first_bucket(record), oldest_kept(record, now), buckets.dropped())
    numbers = buckets.numbers(first, last_counted(record, now, after))
    if not numbers:
        return None
    start, end, later = numbers[0], numbers[-1] + 1, list[int]()
    try:
        if end - start > MOST:
            cuts = [start, *range((start // SPAN + 1) * SPAN, end, SPAN), end]
            low, high = _estimated(record, [buckets.tally(a, b - 1) for a, b in pairwise(cuts)], cuts, _COARSE).interval
            start = max(cut for cut in cuts if cut <= low)
            end = min(cut for cut in cuts if cut >= high)
            later = [cut for cut in cuts if cut > end]
        step = -(-(end - start) // MOST)
        edges = [*range(start, end, step), end, *later]
        single = buckets.tallies(start, end - 1)
        tallies = [
            buckets.tally(a, b - 1) if a >= end else merged(single[n] for n in range(a, b) if n in single)
            for a, b in pairwise(edges)
        ]
        times = _times(record, edges, buckets.began(start), now)
        change = _estimated(record, tallies, times)
    except CalibrationError:
        return None
    # Where the rows of a bucket are in it is not known, so the interval has whole buckets.
    low = max(moment for moment in times if moment <= change.interval[0])
    high = min(moment for moment in times if moment >= change.interval[1])
    interval = (at(low.timestamp()), at(high.timestamp()))
    return ChangeReading.with_fields_of(change, time=at(change.time.timestamp()), interval=interval)


def _estimated(
    record: MonitorRecord, tallies: Sequence[Tally], times: Sequence[int | datetime], level: float = 0.95
) -> ChangeTime:
    event = record.reduction or "binary"
    events = [EventTally(tally, event, record.scale, record.n_classes) if len(tally) else None for tally in tallies]
    return change_time(events, times, level=level)


def _times(record: MonitorRecord, edges: Sequence[int], began: float, now: float) -> list[datetime]:
    """The ends of buckets, the first of which ``began`` then; the last one may still be open, and then ends now."""
    seconds = bucket_seconds(record)
    ends = [began, *(float(edge * seconds) for edge in edges[1:])]
    ends[-1] = max(min(ends[-1], math.ceil(now)), ends[-2] + 1.0)
    return [datetime.fromtimestamp(moment, UTC) for moment in ends]


# --- The rule ``evidence``: an anytime-valid test of calibration

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
        reading = EvidenceReading.with_fields_of(
            shift,
            log_e=strongest.log_e,
            largest=strongest.log_e,
            bound=math.log(1.0 / rule.alpha),
            level=strongest.level,
            since=at(seen.evidence.since),
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
