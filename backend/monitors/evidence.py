"""The evidence of a monitor against calibration, from its time buckets; only changed buckets are read again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from backend.monitors.kinds import kind_of_monitor
from backend.monitors.windows import BucketCache, bucket_seconds
from backend.store.monitors.buckets import MEASURED, Buckets, Tail
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption
from calibrant.monitoring.evidence import Evidence, log_weights
from calibrant.monitoring.tally import merged
from schemas.base import MINUTE
from schemas.monitor_rules import EvidenceRule
from schemas.monitors import MonitorBody, MonitorRecord

#: Bytes of bets that a process caches for all monitors: at 3.4 kB per bucket, 14,800 buckets.
_MOST_BYTES = 48 * 2**20


@dataclass(frozen=True)
class CheckedEvidence:
    """The evidence at a check, with its number of rows and start, and the error with the strongest one in words."""

    evidence: Evidence
    rows: int
    since: float
    message: str


@dataclass(frozen=True)
class BucketBets:
    """The bets on one bucket, and its number of rows; of forecasts also by bin."""

    rows: int
    factors: Floats
    counts: Integers


class Remembered(BucketCache[BucketBets]):
    """A cache of the bets on buckets."""

    def __init__(self) -> None:
        super().__init__((MEASURED,), _MOST_BYTES // log_weights().nbytes)


def _bets(tail: Tail, record: MonitorRecord) -> BucketBets:
    """The bets on the rows of a bucket."""
    tally, kind = merged(tail.parts), kind_of_monitor(record)
    return BucketBets(len(tally), kind.log_factors(tally), kind.counts(tally))


def first_bucket(record: MonitorRecord) -> int:
    """The number of the bucket in which a monitor's evidence starts."""
    return int(record.started_at // bucket_seconds(record))


def next_start(record: MonitorRecord, now: float) -> float:
    """When evidence restarts if it is reset now: with the first bucket that has no rows yet.

    Timestamps of rows may be up to ``skew`` seconds in the future.
    """
    seconds = bucket_seconds(record)
    return ((now + record.skew) // seconds + 1) * seconds


def look_at_evidence(
    buckets: Buckets, record: MonitorRecord, remembered: Remembered, now: float, after: int = 0
) -> CheckedEvidence:
    """The evidence of the rows predicted since a monitor's start, from stored buckets. O(changed cells).

    Only buckets that ended at least ``after`` seconds ago count. Start times in dropped buckets stay excluded, even if
    a longer retention would keep those buckets now: their rows are gone, and their weight must not be used again.
    """
    start = first_bucket(record)
    first = max(start, oldest_kept(record, now), buckets.dropped())
    numbers = buckets.numbers(first, last_counted(record, now, after))
    bets = remembered.of(buckets, record.id, numbers, lambda tail: _bets(tail, record))
    last = max(numbers, default=first - 1)
    width = len(next(iter(bets.values())).factors) if bets else 0
    factors = np.zeros((last + 1 - first, width))
    for number, bet in bets.items():
        factors[number - first] = bet.factors
    rows = sum(bet.rows for bet in bets.values())
    counts = {number - start: bet.counts for number, bet in bets.items()}
    evidence, message = kind_of_monitor(record).evidence(factors, first - start, counts)
    return CheckedEvidence(evidence, rows, buckets.began(start + evidence.start), message)


def settling(body: MonitorBody) -> int:
    """The seconds after which the labels of the window that a challenger is fitted to are complete."""
    after = body.recalibration.after
    afters = [rule.after for rule in body.rules if isinstance(rule, EvidenceRule)]
    return max(afters, default=0) if after is None else after


def check_after(after: int, body: MonitorBody, where: str) -> None:
    """Raise ``InvalidOption`` if buckets would be dropped before they count, ``after`` seconds after their end."""
    if after + (body.bucket or MINUTE) > body.retention:
        raise InvalidOption.at(f"{where}/after", "is too long: buckets would be dropped before they count")


def check_times(body: MonitorBody, after: int) -> None:
    """Raise ``InvalidOption`` for times of a policy that follows the stream."""
    if body.recalibration.every < (bucket := body.bucket or MINUTE):
        raise InvalidOption.at("/recalibration/every", f"must be at least the length of a bucket, {bucket}")
    check_after(after, body, "/recalibration")


def last_counted(record: MonitorRecord, now: float, after: int) -> int:
    """The last bucket that ended at least ``after`` seconds ago; for 0 any bucket, including open ones."""
    return math.floor((now - after) / bucket_seconds(record)) - 1 if after else 2**32


def last_settled(record: MonitorRecord, now: float) -> int:
    """The last bucket that has ended and whose labels are complete, for recalibration."""
    return math.floor((now - settling(record)) / bucket_seconds(record)) - 1


def oldest_kept(record: MonitorRecord, now: float) -> int:
    """The oldest bucket within the retention."""
    return math.floor((now - record.retention) / bucket_seconds(record))
