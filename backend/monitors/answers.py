"""Readings of a monitor: its windows, the comparison with its reference, and values over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
from redis import Redis
from scipy.special import kolmogorov, ndtri

from backend.kinds import take_slot_for
from backend.kinds.classes import read_stored_batch
from backend.monitors.adaptive_levels import read_adaptive
from backend.monitors.class_shift import NOT_YET, estimate_shift, read_label_shift
from backend.monitors.definitions import current_map_of
from backend.monitors.estimates import (
    LEVEL,
    Estimated,
    Weighted,
    read_drift,
    read_estimates,
    read_weighted,
)
from backend.monitors.evidence import first_bucket
from backend.monitors.kinds import kind_of_monitor, measure_keys, read_rows
from backend.monitors.online_maps import read_online
from backend.monitors.outcomes import delay_quantiles
from backend.monitors.readings import ReadingsCache
from backend.monitors.windows import (
    GROUP_KEYS,
    WIDTH,
    Gathered,
    Gatherer,
    Leaves,
    Span,
    buckets_left,
    in_parts,
    kept_span,
    pooled,
    reference_span,
    tally_of_cells,
    time_span,
    window_named,
    window_span,
)
from backend.requester import Requester
from backend.store.clock import now
from backend.store.errors import StorageError
from backend.store.keyspace import Keyspace
from backend.store.monitors.buckets import SPAN, Buckets
from backend.store.monitors.ids import NO_GROUP, OTHER, OTHER_GROUP
from backend.store.monitors.ledger import Ledger, MonitorGroups
from backend.store.monitors.reference import read_reference
from backend.store.monitors.standings import Standings, read_label_shifts
from backend.store.pages import PageRequest
from calibrant.core.cells import Floats
from calibrant.core.errors import PredictionKindMismatch
from calibrant.diagrams.reliability import wilson
from calibrant.io.errors import InvalidField
from calibrant.monitoring.label_shift import LabelShift
from calibrant.monitoring.tally import Tally, merged
from schemas.monitor_alarms import MonitorEvent
from schemas.monitor_answers import (
    DelayReading,
    Difference,
    DriftReading,
    EstimatesReading,
    LabelShiftReading,
    MeasureReading,
    MonitorReading,
    ReadingQuery,
    Readings,
    ReferenceReading,
    RowsReading,
    SeriesAnswer,
    SeriesPoint,
    SeriesQuery,
    Shift,
    StoredLabelShifts,
    WindowReading,
    answer_of,
)
from schemas.monitor_online import AdaptiveReading, OnlineReading
from schemas.monitor_rules import RuleState
from schemas.monitors import Counts, MonitorRecord, WindowSpec

# --- Comparison of two independent sets of rows: measures, event rates and predictions

Interval = tuple[float, float]


def measures_beside(here: Readings, there: Readings) -> dict[str, Difference]:
    """Each measure of some rows minus that of others; debiased values if both have one."""
    return {key: _beside(here[key], there[key]) for key in here if key in there}


def _beside(here: MeasureReading, there: MeasureReading) -> Difference:
    debiased = here.debiased is not None and there.debiased is not None
    value, other = (here.debiased, there.debiased) if debiased else (here.value, there.value)
    return difference(value, other, here.interval, there.interval)


def difference(
    first: float | None, other: float | None, of_one: Interval | None, of_other: Interval | None
) -> Difference:
    """Two values and their difference, with an interval derived from theirs.

    The squared distances to the ends are added (Newcombe 1998; Zou & Donner 2008, section 2). For two normal estimates
    this is the interval of their difference, and it preserves the asymmetry of theirs. A value outside its interval,
    which is possible for a plug-in calibration error, is replaced by the nearest end.
    """
    if first is None or other is None:
        return Difference(value=first, reference=other, difference=None)
    if of_one is None or of_other is None:
        return Difference(value=first, reference=other, difference=first - other)
    a, b = (min(max(value, low), high) for value, (low, high) in ((first, of_one), (other, of_other)))
    low = a - b - math.hypot(a - of_one[0], of_other[1] - b)
    high = a - b + math.hypot(of_one[1] - a, b - of_other[0])
    gap = first - other
    return Difference(value=first, reference=other, difference=gap, interval=(min(low, gap), max(high, gap)))


def figures_beside(
    figure: Callable[[Tally, float], tuple[float, Interval]], here: Tally, there: Tally, level: float | None
) -> Difference:
    """A figure of two sets of rows and their difference, with its interval at the ``level``; None without rows."""

    def at(tally: Tally) -> tuple[float | None, Interval | None]:
        value, ends = figure(tally, LEVEL if level is None else level) if len(tally) else (None, None)
        return value, None if level is None else ends

    (first, of_one), (other, of_other) = at(here), at(there)
    return difference(first, other, of_one, of_other)


def shift(here: Tally, there: Tally) -> Shift | None:
    """The largest gap between the two distributions of predictions; None if either has no rows.

    The p-value is Kolmogorov's (Smirnov 1939) for the gap at the ends of the cells. That gap is at most the gap of the
    rows, so the p-value is conservative. O(cells).
    """
    n, m = len(here), len(there)
    if not n or not m:
        return None
    gaps = np.cumsum(_by_cell(here)) / n - np.cumsum(_by_cell(there)) / m
    distance = min(float(np.abs(gaps).max()), 1.0)
    return Shift(distance=distance, p_value=float(kolmogorov(math.sqrt(n * m / (n + m)) * distance)))


def _by_cell(tally: Tally) -> Floats:
    rows: Floats = pooled([tally])[0].reshape(WIDTH // 2, 2).sum(axis=1)
    return rows


def label_rate(tally: Tally, level: float) -> tuple[float, Interval]:
    """The event rate, with Wilson's interval; that of a difference is Newcombe's (1998, method 10)."""
    n = len(tally)
    share = int(tally.rows[tally.keys & 1 == 1].sum()) / n
    low, high = wilson(np.array([share]), np.array([float(n)]), level)
    return share, (float(low[0]), float(high[0]))


def mean_prediction(tally: Tally, level: float) -> tuple[float, Interval]:
    """The mean prediction, with its normal interval; the rows of a cell count at its mean."""
    n = len(tally)
    mean = float(tally.p_sum.sum()) / n
    spread = math.sqrt(max(float((tally.p_sum**2 / tally.rows).sum()) / n - mean * mean, 0.0) / n)
    reach = float(ndtri((1.0 + level) / 2.0)) * spread
    return mean, (mean - reach, mean + reach)


# --- The windows of a monitor

#: Default number of groups that are reported, the largest first.
LARGEST = 20
#: Predictions from this value on are decided positive by default.
THRESHOLD = 0.5
#: From this number of labelled rows on, a window's own labels test its estimates.
MANY_LATE = 1000
#: Number of events that are searched for alarms.
MOST_EVENTS = 1000
_SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class MonitorCache:
    """What a process caches about all monitors, so that unchanged data is neither read nor computed again."""

    leaves: Leaves = field(default_factory=Leaves)
    memory: ReadingsCache = field(default_factory=ReadingsCache)


class MonitorReader:
    """Reads one monitor as defined by ``record``."""

    def __init__(self, redis: Redis, keys: Keyspace, record: MonitorRecord, kept: MonitorCache) -> None:
        self._redis = redis
        self._keys = keys
        self.record = record
        self.kept = kept
        self.buckets = Buckets(redis, keys, record)
        self._standings = Standings(redis, keys, record)
        self.gatherer = Gatherer(kept.leaves, self.buckets, record.id)

    def of(self, record: MonitorRecord) -> MonitorReader:
        """A reader of the same monitor with another record."""
        return MonitorReader(self._redis, self._keys, record, self.kept)

    def rules(self) -> list[RuleState]:
        """The state of each rule at the last check; unchecked rules are left out."""
        known = self._standings.read().rules
        return [known[rule.name] for rule in self.record.rules if rule.name in known]

    def online(self) -> OnlineReading | None:
        """The map that follows the stream, if there is one."""
        return read_online(self.record, self._standings.read())

    def adaptive(self) -> AdaptiveReading | None:
        """The error level that follows the stream, if there is one."""
        return read_adaptive(self.record, self._standings.read())

    def raised(self) -> list[MonitorEvent]:
        """The latest raised alarms, oldest first."""
        events = self._standings.events(PageRequest(MOST_EVENTS)).items
        return [event for event in reversed(events) if event.type == "monitor.alarm.raised"]

    def counts(self) -> Counts:
        """The counts since the monitor was created."""
        return Counts.of(Ledger(self._redis, self._keys, self.record).totals())

    def group_names(self) -> dict[int, str]:
        """The names of the groups by index."""
        known = MonitorGroups(self._redis, self._keys, self.record).all()
        return {OTHER_GROUP: OTHER, **{index: name for name, index in known.items()}}

    def gathered(self, window: WindowSpec, now: float) -> Gathered:
        """The rows of a window."""
        return self.gatherer.window(self.record, window, now)

    def window(
        self,
        window: WindowSpec,
        now: float,
        *,
        reference: ReferenceTally | None = None,
        groups: int = LARGEST,
        threshold: float = THRESHOLD,
        weighted: Weighted | None = None,
    ) -> WindowReading:
        """A window as it is now, beside the reference if there is one, with the largest of its groups.

        Predictions from ``threshold`` on are decided positive. Estimates use the ``weighted`` rows, if there are any.
        """
        record, memory = self.record, self.kept.memory
        gathered = self.gathered(window, now)
        whole = read_rows(gathered.tally, record, memory, intervals=True)
        timed = window.seconds is not None
        estimated = self._estimated(gathered, window, now, reference)
        return WindowReading(
            **dict(whole),
            name=window.name,
            seconds=window.seconds,
            at_least=window.rows,
            start=window_span(record, window.seconds, now).start if window.seconds is not None else None,
            end=now if timed else None,
            predictions=gathered.predictions if timed else None,
            coverage=gathered.coverage if timed else None,
            delay=_delay(gathered),
            **kind_of_monitor(record).window_diagrams(gathered.tally, memory),
            groups=self.groups(gathered, groups),
            reference=None if reference is None else self._beside(whole, gathered.tally, reference),
            estimates=read_estimates(estimated, record, memory, threshold, weighted),
            drift=read_drift(estimated, record),
            label_shift=self._label_shift(window, estimated),
        )

    @cached_property
    def _label_shifts(self) -> StoredLabelShifts | None:
        """The estimates of all windows from the reservoir."""
        return read_label_shifts(self._redis, self._keys, self.record.id)

    def _label_shift(self, window: WindowSpec, estimated: Estimated) -> LabelShiftReading:
        """The class frequencies of a window: from tallies, or as a worker last estimated them from the reservoir."""
        if self.record.reservoir is None:
            return read_label_shift(estimated, self.record, self.kept.memory)
        reading = None if self._label_shifts is None else self._label_shifts.windows.get(window.name)
        if reading is not None:
            return reading
        return LabelShiftReading(status="withheld", reason=NOT_YET, level=self.record.interval or LEVEL)

    def event_shift(self, window: WindowSpec, now: float) -> LabelShift | str:
        """The estimated event rate of a window with the map corrected for it, or why there is none."""
        estimated = self._estimated(self.gathered(window, now), window, now, self.reference())
        return estimate_shift(estimated, self.record, self.kept.memory)

    def _estimated(
        self, gathered: Gathered, window: WindowSpec, now: float, reference: ReferenceTally | None
    ) -> Estimated:
        """What the estimates of a window use.

        Late labels are those of the window, or if it has few all stored ones since the reference.
        """
        record = self.record
        parts = merged([]) if reference is None or reference.parts is None else reference.parts
        if window.seconds is None:
            return Estimated(gathered.tally, merged([]), None, None if reference is None else parts, gathered.tally)
        span = window_span(record, window.seconds, now)
        left, late = self.gatherer.unlabelled(span.first, span.last), gathered.tally
        if len(late) < MANY_LATE and reference is not None:
            past = reference_span(record)
            first = kept_span(record, now).first if past is None else past.last + 1
            first = max(first, first_bucket(record))
            late = self.gatherer.span(first, span.last).tally if first <= span.last else merged([])
        return Estimated(gathered.tally, left, gathered.predictions, None if reference is None else parts, late)

    def estimates(
        self, window: WindowSpec, now: float, reference: ReferenceTally | None
    ) -> tuple[EstimatesReading, DriftReading, LabelShiftReading]:
        """The estimated figures of a window, the drift of its predictions, and its class frequencies."""
        record, memory = self.record, self.kept.memory
        estimated = self._estimated(self.gathered(window, now), window, now, reference)
        return (
            read_estimates(estimated, record, memory, THRESHOLD),
            read_drift(estimated, record),
            self._label_shift(window, estimated),
        )

    def rows_of(self, gathered: Gathered, group: int | None) -> Tally:
        """The rows of the group with this index, or all rows for None."""
        if group is None:
            return gathered.tally
        return merged(()) if gathered.groups is None else gathered.groups.of_group(group)

    def groups(self, gathered: Gathered, most: int) -> dict[str, RowsReading]:
        """The largest groups of some rows, by name, without intervals."""
        if gathered.groups is None or not most:
            return {}
        names = self.group_names()
        return {
            names[index]: read_rows(gathered.groups.of_group(index), self.record, self.kept.memory, intervals=False)
            for index in largest_groups(gathered.groups, most)
            if index in names
        }

    def reference(self) -> ReferenceTally | None:
        """The reference, if there is one: its stored tally plus the stored buckets of its span."""
        if self.record.reference is None:
            return None
        stored, span = read_reference(self._redis, self._keys, self.record.id), reference_span(self.record)
        if span is None:
            return ReferenceTally(stored.tally)
        first, last = buckets_left(span, stored)
        left = in_parts(span, first, last, lambda begin, end: self.gatherer.span(begin, end).tally)
        return ReferenceTally(left if stored.tally is None else merged([stored.tally, left]))

    def _beside(self, whole: RowsReading, tally: Tally, reference: ReferenceTally) -> ReferenceReading:
        spec, there, level = self.record.reference, reference.tally, self.record.interval
        fields = {} if spec is None else spec.model_dump()
        if there is None or not len(there):
            return ReferenceReading(**fields, rows=0, problem="no comparison: the reference has no labelled rows")
        other = read_rows(there, self.record, self.kept.memory, intervals=True)
        return ReferenceReading(
            **fields,
            rows=other.rows,
            measures=measures_beside(whole.measures, other.measures),
            label_rate=figures_beside(label_rate, tally, there, level),
            mean_prediction=figures_beside(mean_prediction, tally, there, level),
            shift=shift(tally, there),
            problem=None if whole.rows else "no comparison: the window has no labelled rows",
        )


@dataclass(frozen=True)
class ReferenceTally:
    """The rows that windows are compared with, with consecutive ``parts`` as folds; None if a batch's are missing."""

    parts: Tally | None

    @property
    def tally(self) -> Tally | None:
        """The rows of all parts."""
        return None if self.parts is None else tally_of_cells(pooled([self.parts]))


def largest_groups(groups: Tally, most: int) -> list[int]:
    """The indices of the groups with the most rows, largest first; rows without a group are excluded."""
    if not len(groups.keys):
        return []
    rows = np.bincount(groups.keys // GROUP_KEYS, groups.rows)
    rows[NO_GROUP] = 0
    order: Sequence[int] = np.argsort(-rows, kind="stable")[:most].tolist()
    return [index for index in order if rows[index] > 0]


def _delay(gathered: Gathered) -> DelayReading | None:
    ends = None if gathered.delays is None else delay_quantiles(gathered.delays, _SHARES)
    if ends is None or gathered.delays is None:
        return None
    return DelayReading(labels=sum(gathered.delays.values()), p50=ends[0], p90=ends[1], p99=ends[2])


# --- Estimated durations

#: Requests with a longer estimate are refused.
MOST_SECONDS = 45.0
#: Requests with a longer estimate need a slot; shorter ones do not, because most results are cached.
LIGHT_SECONDS = 1.0


# --- Values over time: one point per bucket, or per group of buckets


class SeriesOptions(NamedTuple):
    """The buckets, the group (None: all rows), and the maximum number of points of a series."""

    span: Span
    points: int
    group: int | None = None
    intervals: bool = False


def together(span: Span, points: int) -> int:
    """The number of buckets per point; points start at multiples of it, so that they are stable over time."""
    if points == 1:
        return span.last + 1
    width = max(1, -(-(span.last - span.first + 1) // points))
    while span.last // width - span.first // width >= points:
        width += 1
    return width


def read_series(
    reader: MonitorReader,
    options: SeriesOptions,
    begin: Callable[[int], None] = lambda _: None,
    go_on: Callable[[], None] = lambda: None,
) -> list[SeriesPoint]:
    """The points of all spans with predictions, oldest first.

    Calls ``begin`` with the number of points, and ``go_on`` before each point; their exceptions are propagated.
    """
    width = together(options.span, options.points)
    numbers = reader.buckets.numbers(options.span.first, options.span.last)
    begin(len({bucket // width for bucket in numbers}))
    points = []
    for place, own in groupby(numbers, lambda bucket: bucket // width):
        go_on()
        first = max(place * width, options.span.first)
        last = min((place + 1) * width - 1, options.span.last)
        # Spans need fewer reads, but are not worth a lookup if none fits into a point.
        gathered = reader.gatherer.of(list(own)) if width < 2 * SPAN else reader.gatherer.span(first, last)
        points.append(_point(reader, gathered, Span(first, last, options.span.bucket), options))
    return points


def _point(reader: MonitorReader, gathered: Gathered, span: Span, options: SeriesOptions) -> SeriesPoint:
    whole = options.group is None
    rows = read_rows(
        reader.rows_of(gathered, options.group), reader.record, reader.kept.memory, intervals=options.intervals
    )
    return SeriesPoint(
        **dict(rows),
        start=span.start,
        end=span.end,
        predictions=gathered.predictions if whole else None,
        coverage=gathered.coverage if whole else None,
    )


# --- For a request: the whole monitor, or values over time


def reader_of(requester: Requester, cache: MonitorCache, name: str) -> MonitorReader:
    """The reader of a monitor; raises ``UnknownMonitor``."""
    store = requester.store
    return MonitorReader(store.redis, store.keys, store.monitors.get(name), cache)


def read_monitor(requester: Requester, cache: MonitorCache, name: str, query: ReadingQuery) -> MonitorReading:
    """The current counts and windows of a monitor."""
    reader, moment = reader_of(requester, cache, name), now().timestamp()
    windows = _windows(reader.record, query.windows)
    _begin_reading(requester, reader.record, len(windows), query.groups)
    reference, weighted = reader.reference(), None
    if query.reference is not None:
        if len(windows) != 1:
            raise InvalidField.at("/reference", "has weights for one window; name that window in windows")
        weighted = weighted_rows(requester, reader.record, query.reference, query.threshold)
    read = []
    for window in windows:
        requester.go_on()
        shown = reader.window(
            window,
            moment,
            reference=reference,
            groups=query.groups,
            threshold=query.threshold,
            weighted=weighted,
        )
        read.append(shown)
    return MonitorReading(
        monitor=answer_of(reader.record),
        counts=reader.counts(),
        definitions=kind_of_monitor(reader.record).definitions(),
        windows=read,
        rules=reader.rules(),
        online=reader.online(),
        adaptive=reader.adaptive(),
        read_at=moment,
    )


def weighted_rows(requester: Requester, record: MonitorRecord, batch_id: str, threshold: float = THRESHOLD) -> Weighted:
    """The estimator of a batch of weighted rows; raises an error at ``/reference``."""
    uncounted = kind_of_monitor(record).uncounted
    if uncounted is not None:
        raise PredictionKindMismatch.at("/reference", f"is not applicable: {uncounted}")
    try:
        take_slot_for(requester, batch_id)
        batch = read_stored_batch(requester.store.batches, batch_id, where="/reference")
    except StorageError as error:
        raise type(error)(error.detail, "/reference") from error
    return read_weighted(batch, batch_id, record, current_map_of(requester, record), threshold)


def _windows(record: MonitorRecord, names: str | None) -> list[WindowSpec]:
    """The windows with these names, in the order of the monitor; raises ``InvalidField``."""
    if names is None:
        return record.windows
    wanted = {name.strip() for name in names.split(",")}
    known = {window.name for window in record.windows}
    if not wanted <= known:
        raise InvalidField.at("/windows", f"must be windows of the monitor: {', '.join(sorted(known))}")
    return [window for window in record.windows if window.name in wanted]


def read_series_of(requester: Requester, cache: MonitorCache, name: str, query: SeriesQuery) -> SeriesAnswer:
    """The values of a monitor over time."""
    reader = reader_of(requester, cache, name)
    options = series_options(reader, query, now().timestamp())
    reader = narrowed(reader, query.measure)
    points = series_points(requester, reader, options)
    chosen = options.span
    span = min(together(chosen, options.points), chosen.last - chosen.first + 1) * chosen.bucket
    return SeriesAnswer(name=name, group=query.group, span=span, points=points)


def series_points(requester: Requester, reader: MonitorReader, options: SeriesOptions) -> list[SeriesPoint]:
    """The points of a series; raises ``InvalidField`` for too many of them, ``Busy``, ``DeadlineExceeded``."""
    seconds_per_point = kind_of_monitor(reader.record).seconds(intervals=options.intervals)

    def begin(points: int) -> None:
        if points * seconds_per_point > MOST_SECONDS:
            less = f"request at most {int(MOST_SECONDS / seconds_per_point)} points, or one measure"
            raise InvalidField.at("/points", f"would take an estimated {points * seconds_per_point:.0f} s: {less}")
        _take_slot(requester, points * seconds_per_point)

    return read_series(reader, options, begin, requester.go_on)


def _begin_reading(requester: Requester, record: MonitorRecord, windows: int, groups: int) -> None:
    """Take a slot for windows that take long; raises ``InvalidField`` for more groups than can be read in time."""
    kind = kind_of_monitor(record)
    of_groups = windows * min(groups, record.max_groups) * kind.seconds(intervals=False)
    seconds = windows * kind.seconds(intervals=True) + of_groups
    if seconds > MOST_SECONDS and groups > LARGEST:
        raise InvalidField.at(
            "/groups", f"would take an estimated {seconds:.0f} s: request fewer groups, or one window"
        )
    _take_slot(requester, seconds)


def begin_diagram(requester: Requester, record: MonitorRecord) -> None:
    """Take a slot for the rows of a window and their diagram if they take long; raises ``Busy``."""
    _take_slot(requester, kind_of_monitor(record).seconds(intervals=False))


def _take_slot(requester: Requester, seconds: float) -> None:
    if seconds > LIGHT_SECONDS:
        requester.take_slot(seconds)


def series_options(reader: MonitorReader, query: SeriesQuery, moment: float) -> SeriesOptions:
    """The buckets and the group of a query; raises ``InvalidField``."""
    return SeriesOptions(_span(reader, query, moment), query.points, group_index(reader, query.group), query.intervals)


def narrowed(reader: MonitorReader, measure: str | None) -> MonitorReader:
    """The reader of a single measure; raises ``InvalidField``."""
    if measure is None:
        return reader
    record = reader.record
    keys = measure_keys(record)
    if measure not in keys:
        raise InvalidField.at("/measure", f"must be a measure of the monitor: {', '.join(keys)}")
    return reader.of(record.model_copy(update={"measures": [record.measures[keys.index(measure)]]}))


def group_index(reader: MonitorReader, group: str | None) -> int | None:
    """The index of a group; raises ``InvalidField`` for an unknown one."""
    if group is None:
        return None
    index_of_group = {name: index for index, name in reader.group_names().items()}.get(group)
    if index_of_group is None:
        raise InvalidField.at("/group", "is unknown: the monitor has no rows of this group")
    return index_of_group


def window_of(record: MonitorRecord, name: str | None) -> WindowSpec:
    """A window by name, by default the first; raises ``InvalidField``."""
    window = window_named(record, name)
    if window is None:
        known = ", ".join(window.name for window in record.windows)
        raise InvalidField.at("/window", f"must be a window of the monitor: {known}")
    return window


def _span(reader: MonitorReader, query: SeriesQuery, moment: float) -> Span:
    """The stored buckets of a query, by default from the first one with rows."""
    record = reader.record
    stored = kept_span(record, moment)
    if query.window is not None:
        if query.start is not None or query.end is not None:
            raise InvalidField.at("/window", "cannot be combined with start and end")
        window = window_of(record, query.window)
        if window.seconds is None:
            raise InvalidField.at("/window", "must be a window of time")
        return window_span(record, window.seconds, moment)
    if query.start is None:
        oldest = reader.buckets.oldest(stored.first, stored.last)
        start = stored.start if oldest is None else float(oldest * stored.bucket)
    else:
        start = max(query.start, stored.start)
    end = stored.end if query.end is None else min(query.end, stored.end)
    if not start < end:
        raise InvalidField.at("/end", "must be after the start, within the stored period")
    return time_span(record, start, end)
