"""What the page of a monitor shows over time: calibration error, frequencies, volume, label delay and evidence."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from backend.monitors.answers import (
    LIGHT_SECONDS,
    Interval,
    MonitorReader,
    narrowed,
    series_options,
)
from backend.monitors.evidence import first_bucket
from backend.monitors.kinds import kind_of_monitor, read_rows
from backend.monitors.outcomes import delay_quantiles
from backend.monitors.windows import SPANS, Gathered, Span, added, joined
from backend.requester import Requester
from backend.store.monitors.buckets import MEASURED, SPAN
from backend.store.monitors.deliveries import Deliveries
from backend.store.monitors.ledger import Ledger, MonitorGroups
from backend.store.monitors.standings import Standings, read_label_shifts
from backend.store.pages import PageRequest
from backend.store.store import Store
from calibrant.diagrams.reliability import wilson
from calibrant.monitoring.evidence import weight_from
from schemas.monitor_alarms import DeliveryRecord
from schemas.monitor_answers import SeriesQuery
from schemas.monitors import MonitorRecord

#: Number of points of a chart.
POINTS = 60
#: Number of deliveries that the page lists.
DELIVERIES = 10
#: Up to this number of buckets each of them is read; of more, the stored spans.
_SINGLE = 900
_MEDIAN, _LATE = 0.5, 0.9
_LEVEL = 0.95


@dataclass(frozen=True)
class TimelinePoint:
    """The rows of one span of time, from ``start`` to ``end`` in seconds since 1970.

    ``rows`` are those with a label; ``error`` is one measure; ``delay`` the median and the 90th percentile in seconds.
    ``log_e`` is the evidence at the end of the span, None before the evidence starts.
    """

    start: float
    end: float
    predictions: int
    rows: int
    error: float | None
    error_interval: Interval | None
    predicted: float | None
    observed: float | None
    observed_interval: Interval | None
    delay: tuple[float, float] | None
    log_e: float | None


def read_timeline(requester: Requester, reader: MonitorReader, measure: str, moment: float) -> list[TimelinePoint]:
    """The points from the first stored rows until now; raises ``InvalidField``, ``Busy`` and ``DeadlineExceeded``."""
    narrow = narrowed(reader, measure)
    seconds_per_point = kind_of_monitor(narrow.record).seconds(intervals=True)

    spans = gathered_points(narrow, series_options(narrow, SeriesQuery(), moment).span)
    if len(spans) * seconds_per_point > LIGHT_SECONDS:
        requester.take_slot(len(spans) * seconds_per_point)
    path = evidence_path(reader.record, spans)
    return [_point(narrow, span, rows, log_e) for (span, rows), log_e in zip(spans, path, strict=True)]


def gathered_points(reader: MonitorReader, chosen: Span) -> list[tuple[Span, Gathered]]:
    """At most about ``POINTS`` spans with predictions, oldest first, each with its rows.

    Many buckets are combined at the borders of the stored spans, so that few lists are read.
    """
    n = chosen.last - chosen.first + 1
    if n <= _SINGLE:
        width = -(-n // POINTS)
        spans: list[int] = []
        buckets = reader.buckets.numbers(chosen.first, chosen.last)
    else:
        width = SPAN * -(-n // (SPAN * POINTS))
        spans, buckets = reader.buckets.cover(chosen.first, chosen.last)
    parts: dict[int, list[Gathered]] = {}
    for series, numbers in ((SPANS, spans), (MEASURED, buckets)):
        versions = reader.buckets.versions(series, numbers)
        leaves = reader.gatherer.leaves(numbers, series, versions)
        places = np.array(numbers, dtype=np.int64) * (SPAN if series == SPANS else 1) // width
        for place in np.unique(places).tolist():
            own = np.flatnonzero(places == place).tolist()
            gathered = added([leaves[i] for i in own], [versions[i] for i in own], timed=True)
            parts.setdefault(place, []).append(gathered)
    return [
        (
            Span(max(place * width, chosen.first), min((place + 1) * width - 1, chosen.last), chosen.bucket),
            reduce(joined, parts[place]),
        )
        for place in sorted(parts)
    ]


def _point(reader: MonitorReader, span: Span, gathered: Gathered, log_e: float | None) -> TimelinePoint:
    rows = read_rows(gathered.tally, reader.record, reader.kept.memory, intervals=True)
    (error,) = rows.measures.values()
    delay = None if gathered.delays is None else delay_quantiles(gathered.delays, (_MEDIAN, _LATE))
    return TimelinePoint(
        start=span.start,
        end=span.end,
        predictions=gathered.predictions,
        rows=rows.rows,
        error=error.value,
        error_interval=error.interval,
        predicted=rows.mean_prediction,
        observed=rows.label_rate,
        observed_interval=frequency_interval(rows.label_rate, rows.rows),
        delay=None if delay is None else (delay[0], delay[1]),
        log_e=log_e,
    )


def frequency_interval(share: float | None, rows: int) -> Interval | None:
    """Wilson's 95 % interval of an observed frequency; None without rows."""
    if share is None or not rows:
        return None
    low, high = wilson(np.array([share]), np.array([float(rows)]), _LEVEL)
    return float(low[0]), float(high[0])


@lru_cache(maxsize=4096)
def _weight_from(start: int) -> float:
    return weight_from(start)  # O(start), and mostly of the same ends of spans


def evidence_path(record: MonitorRecord, spans: Sequence[tuple[Span, Gathered]]) -> list[float | None]:
    """The natural logarithm of the e-value at the end of each span, None before the start of the evidence.

    It is the evidence of ``calibrant.monitoring.evidence`` with the rows and starts of each span combined: exact if
    spans are single buckets. O(spans).
    """
    start = first_bucket(record)
    path: list[float | None] = []
    kind = kind_of_monitor(record)
    prior = kind.log_prior()
    bets, numbered = np.full(len(prior), -np.inf), 0
    for span, gathered in spans:
        if span.first < start:
            path.append(None)
            continue
        end = span.last + 1 - start
        weight = _weight_from(numbered) - _weight_from(end)  # of all starts since the previous span
        numbered = end
        bets = np.logaddexp(bets, math.log(weight) + prior) + kind.log_factors(gathered.tally)
        path.append(float(np.logaddexp(np.logaddexp.reduce(bets), math.log(_weight_from(end)))))
    return path


def state_of(store: Store, record: MonitorRecord) -> str:
    """A digest that changes with everything that the page of a monitor shows, except with the time."""
    totals = Ledger(store.redis, store.keys, record).totals()
    standing = Standings(store.redis, store.keys, record).read()
    groups = MonitorGroups(store.redis, store.keys, record).all()
    sent = latest_deliveries(store, record)
    parts = [record.model_dump_json(), repr(sorted(totals.items())), standing.model_dump_json(), repr(len(groups))]
    parts += [delivery.model_dump_json() for delivery in sent]
    shifts = read_label_shifts(store.redis, store.keys, record.id)
    parts.append("" if shifts is None else repr(shifts.at))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def latest_deliveries(store: Store, record: MonitorRecord) -> Sequence[DeliveryRecord]:
    """The latest deliveries of a monitor, newest first."""
    deliveries = Deliveries(store.redis, store.keys, record.id)
    return deliveries.page(PageRequest(DELIVERIES, None), status=None, hook=None).items
