"""When calibration changed: the estimate that an alarm of evidence reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from backend.monitors.evidence import first_bucket, last_counted, oldest_kept
from backend.monitors.kinds import kind_of_monitor
from backend.monitors.windows import bucket_seconds
from backend.store.clock import at
from backend.store.monitors.buckets import SPAN, Buckets
from calibrant.core.errors import CalibrationError
from calibrant.monitoring.change import ChangeTime, change_time
from calibrant.monitoring.event_tally import EventTally
from calibrant.monitoring.tally import Tally, merged
from schemas.monitor_rules import ChangeReading
from schemas.monitors import MonitorRecord

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
    return ChangeReading(
        time=at(change.time.timestamp()),
        interval=(at(low.timestamp()), at(high.timestamp())),
        predictions=change.predictions,
        gap=change.gap,
        rows=change.rows,
        message=change.message,
    )


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
