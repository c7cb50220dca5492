"""The evidence of a monitor against calibration, from its time buckets; only those that changed are read again."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from backend.monitors.windows import bucket_seconds
from backend.store.monitors.buckets import MEASURED, Buckets
from calibrant.cells import Floats
from calibrant.monitoring.evidence import Evidence, evidence, log_factors, log_weights
from calibrant.monitoring.tally import merged
from schemas.monitors import EvidenceRule, MonitorBody, MonitorRecord

#: Bytes of bets that a process keeps in mind, of all monitors together: 3.4 kB a bucket, so those of 14,800.
_MOST_BYTES = 48 * 2**20


@dataclass(frozen=True)
class Seen:
    """The evidence at a look, of so many rows of the buckets from ``first`` on. ``started_at`` was the monitor's."""

    evidence: Evidence
    rows: int
    first: int
    started_at: float


@dataclass(frozen=True)
class Bets:
    """What the shifts have bet on one bucket, of so many rows, when it was of this version."""

    version: tuple[int, int]
    rows: int
    factors: Floats


class Remembered:
    """The bets on buckets that were read before, the last used of them."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes // log_weights().nbytes
        self._kept: OrderedDict[tuple[str, int], Bets] = OrderedDict()

    def of(self, buckets: Buckets, uid: str, numbers: list[int]) -> dict[int, Bets]:
        """The bets on some buckets of a monitor."""
        versions = [(now.generation, now.length) for now in buckets.versions(MEASURED, numbers)]
        kept = [(n, self._kept.get((uid, n)), version) for n, version in zip(numbers, versions, strict=True)]
        found = {n: bets for n, bets, version in kept if bets is not None and bets.version == version}
        stale = [n for n in numbers if n not in found]
        for number, tail in zip(stale, buckets.tails(MEASURED, [(n, 0) for n in stale]), strict=True):
            tally = merged(tail.parts)
            found[number] = Bets((tail.generation, len(tail.parts)), len(tally), log_factors(tally))
        for number, bets in found.items():
            self._kept[uid, number] = bets
            self._kept.move_to_end((uid, number))
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return found


def first_bucket(record: MonitorRecord) -> int:
    """The number of the bucket in which a monitor's evidence starts."""
    return int(record.started_at // bucket_seconds(record))


def next_start(record: MonitorRecord, now: float) -> float:
    """When evidence starts anew that is given up now: with the next bucket, of which no row has been seen.

    Rows may have been stamped by ``skew`` later than now.
    """
    seconds = bucket_seconds(record)
    return ((now + record.skew) // seconds + 1) * seconds


def look_at_evidence(
    buckets: Buckets, record: MonitorRecord, remembered: Remembered, now: float, after: int = 0
) -> Seen:
    """The evidence of the rows predicted since a monitor's start, as far as its buckets are kept. O(changed cells).

    Of those buckets alone that ended ``after`` seconds ago. The starts in buckets that were dropped stay so, though a
    longer retention would keep them now: their rows are gone, and nothing else may be bet with their weight.
    """
    start = first_bucket(record)
    first = max(start, oldest_kept(record, now), buckets.dropped())
    numbers = buckets.numbers(first, last_counted(record, now, after))
    bets = remembered.of(buckets, record.uid, numbers)
    last = max(numbers, default=first - 1)
    width = len(next(iter(bets.values())).factors) if bets else 0
    factors = np.zeros((last + 1 - first, width))
    for number, one in bets.items():
        factors[number - first] = one.factors
    found = evidence(factors, first - start)
    return Seen(found, sum(one.rows for one in bets.values()), start + found.start, record.started_at)


def settling(body: MonitorBody) -> int:
    """The seconds after which a window's labels are complete, where a challenger is fitted to it."""
    after = body.recalibration.after
    afters = [rule.after for rule in body.rules if isinstance(rule, EvidenceRule)]
    return max(afters, default=0) if after is None else after


def last_counted(record: MonitorRecord, now: float, after: int) -> int:
    """The last bucket that ended ``after`` seconds ago; of 0 any, those that have not ended too."""
    return math.floor((now - after) / bucket_seconds(record)) - 1 if after else 2**32


def oldest_kept(record: MonitorRecord, now: float) -> int:
    """The oldest bucket that retention keeps."""
    return math.floor((now - record.retention) / bucket_seconds(record))
