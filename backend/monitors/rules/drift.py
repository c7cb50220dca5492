"""The rule ``drift``: an anytime-valid test of whether predictions are distributed as in the reference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from backend.monitors.evidence import oldest_kept
from backend.monitors.kinds import kind_of_monitor
from backend.monitors.rules.rule import NOTHING, Check, Description, EProcessRuleType, Fact, moved
from backend.monitors.windows import BucketCache, bucket_seconds, reference_span, without_label
from backend.store.clock import at
from backend.store.monitors.buckets import MEASURED, WAITING, Buckets, Tail
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption, PredictionKindMismatch
from calibrant.monitoring.drift import PredictionDrift, drift_counts, drift_of_counts, drift_ranges
from calibrant.monitoring.tally import Tally, merged
from schemas.monitor_rules import DriftEvidence, DriftRule, RuleState
from schemas.monitors import MonitorBody, MonitorRecord

#: Bytes of counts that a process caches for all monitors: at 500 bytes per bucket, 30,000 buckets.
_MOST_BYTES = 16 * 2**20


@dataclass(frozen=True)
class CheckedDrift:
    """The drift at a check, of ``rows`` predictions ``since`` then."""

    found: PredictionDrift
    rows: int
    since: float


# --- The numbers of predictions in each range, by time bucket; only changed buckets are read again


class RememberedCounts(BucketCache[Floats]):
    """A cache of the counts of buckets, of labelled and unlabelled predictions together."""

    def __init__(self) -> None:
        # A row whose label arrives in between is in neither tally, rather than in both.
        super().__init__((MEASURED, WAITING), _MOST_BYTES // (2 * drift_ranges().shape[0] * 8))


def _counts(labelled: Tail, waiting: Tail) -> Floats:
    left = without_label(merged(waiting.parts)) if waiting.parts else merged([])
    return drift_counts(merged([*labelled.parts, left]))


_COUNTS = RememberedCounts()


def look_at_drift(
    buckets: Buckets,
    record: MonitorRecord,
    reference: Tally,
    state: RuleState,
    remembered: RememberedCounts,
    now: float,
) -> CheckedDrift:
    """The drift of the predictions since a rule's start, from stored buckets. O(buckets, changed cells)."""
    start = int(state.started_at // bucket_seconds(record))
    first = max(start, oldest_kept(record, now), buckets.dropped())
    counts = remembered.of(buckets, record.id, buckets.numbers(first, 2**32), _counts)
    last = max(counts, default=first - 1)
    stream = np.zeros((last + 1 - first, 2, len(drift_ranges())))
    for number, counts_of_bucket in counts.items():
        stream[number - first] = counts_of_bucket
    drift = drift_of_counts(drift_counts(reference), stream, first - start)
    return CheckedDrift(drift, int(stream[:, 1, 0].sum()), buckets.began(start + drift.start))


# --- The rule


class DriftRuleType(EProcessRuleType[DriftRule, CheckedDrift | str]):
    """A check sees the drift, or the reason why the predictions cannot be compared with the reference.

    A challenger does not help against drift.
    """

    model = DriftRule
    calm = "no evidence that predictions are distributed differently than in the reference"
    restarts = "rule"
    recalibrates = False
    charts = ("error", "frequency")

    def validate(self, rule: DriftRule, body: MonitorBody, where: str) -> None:
        """Predictions can be compared with a reference, and no online map changes them."""
        uncounted = kind_of_monitor(body).uncounted
        if uncounted is not None:
            raise PredictionKindMismatch.at(where, f"drift is not applicable: {uncounted}")
        if body.reference is None:
            raise InvalidOption.at(where, "needs a reference, which predictions are compared with; set reference")
        if body.recalibration.policy == "online":
            raise InvalidOption.at(where, "drift is not supported with online recalibration, which changes predictions")

    def definition(self, rule: DriftRule, record: MonitorRecord) -> str:
        """The rule and the reference."""
        return rule.model_dump_json() + ("" if record.reference is None else record.reference.model_dump_json())

    def start(self, record: MonitorRecord) -> float:
        """The test starts with the monitor, or after the end of the reference."""
        bucket, span = bucket_seconds(record), reference_span(record)
        return float(bucket * max(int(record.started_at // bucket), 0 if span is None else span.last + 1))

    def observe(self, rule: DriftRule, state: RuleState, check: Check) -> CheckedDrift | str:
        """The drift, or why there is none."""
        known = check.reference
        if known is not None and None not in (known.map, check.applied) and known.map != check.applied:
            return f"the monitor's map {check.record.map} has changed since the reference was set; set a new reference"
        reference = check.reference_tally()
        if reference is None or not len(reference):
            return "the reference has no labelled rows"
        return look_at_drift(check.buckets, check.record, reference, state, _COUNTS, check.now)

    def conclude(self, rule: DriftRule, state: RuleState, seen: CheckedDrift | str, moment: float) -> RuleState:
        """The reported drift is that of the check with the largest e-value.

        A rule that cannot be checked keeps its alarm.
        """
        if isinstance(seen, str):
            after = state.model_copy(update={"looked_at": at(moment), "reason": seen})
            return after if state.status == "alarm" else moved(after, "unknown", moment)
        if not seen.rows:
            return state.model_copy(update={"looked_at": at(moment), "reason": None})
        drift, since = seen.found, at(seen.since)
        reading = DriftEvidence.with_fields_of(
            drift,
            largest=drift.log_e,
            bound=math.log(1.0 / rule.alpha),
            since=since,
            reference_share=drift.before,
            share=drift.since,
            message=_message(drift, since),
        )
        return self.tested(state, reading, seen.rows, moment)

    def describe(self, state: RuleState) -> Description:
        """The predictions that changed most clearly."""
        drift = state.drift
        if drift is None:
            return NOTHING
        facts = [*self.facts(drift), Fact("Strongest since", (drift.since,), "times")]
        return Description(drift.message, facts, {"value": drift.largest, "bound": drift.bound, "drift": drift})


def _message(drift: PredictionDrift, since: str) -> str:
    day = datetime.fromisoformat(since)
    now, before = (f"{100.0 * share:.3g} %" for share in (drift.since, drift.before))
    return (
        f"since {day.day} {day:%B} {now} of the predictions are from {drift.low:.2g} to {drift.high:.2g}, "
        f"{before} in the reference"
    )


DRIFT = DriftRuleType()
