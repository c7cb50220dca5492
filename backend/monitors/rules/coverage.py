"""The rule ``coverage``: an anytime-valid test of whether prediction sets have their labels too rarely."""

from __future__ import annotations

import math
from datetime import datetime

import numpy as np

from backend.monitors.evidence import check_after, last_counted, oldest_kept
from backend.monitors.rules.rule import NOTHING, Check, Description, EProcessRuleType, Fact
from backend.monitors.windows import BucketCache, bucket_seconds
from backend.store.clock import at
from backend.store.monitors.buckets import MEASURED, Tail
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption
from calibrant.monitoring.coverage import CoverageDrop, coverage_drop
from calibrant.monitoring.tally import merged
from schemas.monitor_rules import CoverageRule, RuleState, SetCoverageReading
from schemas.monitors import MonitorBody, MonitorRecord

#: The most buckets whose counts a process caches for all monitors.
_MOST_BUCKETS = 30_000
_COUNTS: BucketCache[Floats] = BucketCache((MEASURED,), _MOST_BUCKETS)


def _counts(tail: Tail) -> Floats:
    """The rows of a bucket, and those whose set has the label."""
    tally = merged(tail.parts)
    return np.array([len(tally), int(tally.rows[tally.keys & 1 == 1].sum())], dtype=np.float64)


class CoverageRuleType(EProcessRuleType[CoverageRule, tuple[SetCoverageReading, int] | None]):
    """A check sees the reading and the rows since the rule's start, None without rows. A challenger does not help."""

    model = CoverageRule
    calm = "no evidence that the sets have their labels less often than their nominal coverage"
    restarts = "rule"
    recalibrates = False
    charts = ("error", "frequency")

    def validate(self, rule: CoverageRule, body: MonitorBody, where: str) -> None:
        """The monitor is of prediction sets, and buckets count before they are dropped."""
        if body.coverage is None:
            raise InvalidOption.at(where, "needs a monitor of prediction sets; set coverage and n_classes")
        check_after(rule.after, body, where)

    def start(self, record: MonitorRecord) -> float:
        """The test starts with the monitor."""
        return record.started_at

    def observe(self, rule: CoverageRule, state: RuleState, check: Check) -> tuple[SetCoverageReading, int] | None:
        """The evidence of the rows predicted since the rule's start, from stored buckets. O(buckets, changed cells)."""
        record, buckets = check.record, check.buckets
        start = int(state.started_at // bucket_seconds(record))
        first = max(start, oldest_kept(record, check.now), buckets.dropped())
        numbers = buckets.numbers(first, last_counted(record, check.now, rule.after))
        by_number = _COUNTS.of(buckets, record.id, numbers, _counts)
        counts = np.zeros((max(by_number, default=first - 1) + 1 - first, 2))
        for number, of_bucket in by_number.items():
            counts[number - first] = of_bucket
        nominal = record.coverage or 0.0
        drop = coverage_drop(counts, nominal, first - start)
        if drop.coverage is None:
            return None
        since = at(buckets.began(start + drop.start))
        return _reading(rule, drop, nominal, drop.coverage, since), int(counts[:, 0].sum())

    def conclude(
        self, rule: CoverageRule, state: RuleState, seen: tuple[SetCoverageReading, int] | None, moment: float
    ) -> RuleState:
        """The reported coverage is that of the check with the largest e-value."""
        if seen is None:
            return state.model_copy(update={"looked_at": at(moment), "reason": None})
        return self.tested(state, *seen, moment)

    def describe(self, state: RuleState) -> Description:
        """The coverage since the start of the period with the strongest evidence."""
        reading = state.coverage
        if reading is None:
            return NOTHING
        facts = [*self.facts(reading), Fact("Strongest since", (reading.since,), "times")]
        facts.append(Fact("Coverage since then", reading.coverage, "decimals"))
        facts.append(Fact("Nominal coverage", reading.nominal, "decimals"))
        alarm = {"value": reading.largest, "bound": reading.bound, "coverage": reading}
        return Description(reading.message, facts, alarm)


def _reading(rule: CoverageRule, drop: CoverageDrop, nominal: float, coverage: float, since: str) -> SetCoverageReading:
    day = datetime.fromisoformat(since)
    message = (
        f"since {day.day} {day:%B} {100.0 * coverage:.3g} % of {drop.rows:,} sets have their label, "
        f"nominally {100.0 * nominal:.4g} %"
    )
    return SetCoverageReading(
        log_e=drop.log_e,
        largest=drop.log_e,
        bound=math.log(1.0 / rule.alpha),
        level=math.exp(min(-drop.log_e, 0.0)),
        since=since,
        rows=drop.rows,
        coverage=coverage,
        nominal=nominal,
        message=message,
    )


COVERAGE = CoverageRuleType()
