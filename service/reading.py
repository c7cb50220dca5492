"""Monitors read: what a request wants to know, found in the buckets."""

from __future__ import annotations

from monitoring.answers import LARGEST, Reader
from monitoring.estimates import LIGHT_SECONDS, MOST_SECONDS, seconds_of
from monitoring.readable import read_measures
from monitoring.readings import definitions
from monitoring.series import Asked, read_series, together
from monitoring.windows import Span, kept_span, time_span, window_named, window_span
from schemas.monitor_answers import MonitorReading, ReadingQuery, SeriesAnswer, SeriesPoint, SeriesQuery, told
from schemas.monitors import MonitorRecord, WindowSpec
from service.context import Context
from service.errors import InvalidField
from storage.clock import now


def reader_of(here: Context, name: str) -> Reader:
    """What reads a monitor; raises ``UnknownMonitor``."""
    record = here.store.monitors.get(name)
    return Reader(here.store.redis, here.store.keys, record, here.process.monitors)


def read_monitor(here: Context, name: str, query: ReadingQuery) -> MonitorReading:
    """The counts and the windows of a monitor as they are now."""
    reader, moment = reader_of(here, name), now().timestamp()
    windows = _windows(reader.record, query.windows)
    _begin_reading(here, reader.record, len(windows), query.groups)
    reference = reader.reference()
    read = []
    for window in windows:
        here.go_on()
        read.append(reader.window(window, moment, reference=reference, groups=query.groups))
    return MonitorReading(
        monitor=told(reader.record),
        counts=reader.counts(),
        definitions=definitions(reader.record),
        windows=read,
        rules=reader.rules(),
        read_at=moment,
    )


def _windows(record: MonitorRecord, names: str | None) -> list[WindowSpec]:
    """The windows of some names, in the monitor's order; raises ``InvalidField``."""
    if names is None:
        return record.windows
    asked = {name.strip() for name in names.split(",")}
    known = {window.name for window in record.windows}
    if not asked <= known:
        raise InvalidField.at("/windows", f"must be among the monitor's: {', '.join(sorted(known))}")
    return [window for window in record.windows if window.name in asked]


def read_series_of(here: Context, name: str, query: SeriesQuery) -> SeriesAnswer:
    """The values of a monitor over time."""
    reader = reader_of(here, name)
    asked = asked_of(reader, query, now().timestamp())
    reader = narrowed(reader, query.measure)
    points = series_points(here, reader, asked)
    span = min(together(asked.span, asked.points), asked.span.last - asked.span.first + 1) * asked.span.bucket
    return SeriesAnswer(name=name, group=query.group, span=span, points=points)


def series_points(here: Context, reader: Reader, asked: Asked) -> list[SeriesPoint]:
    """The points of a series; raises ``InvalidField`` for too many of them, ``Busy``, ``DeadlineExceeded``."""
    each = seconds_of(reader.record, intervals=asked.intervals)

    def begin(points: int) -> None:
        if points * each > MOST_SECONDS:
            less = f"ask for at most {int(MOST_SECONDS / each)}, or for one measure"
            raise InvalidField.at("/points", f"would take an estimated {points * each:.0f} s: {less}")
        _take_place(here, points * each)

    return read_series(reader, asked, begin, here.go_on)


def _begin_reading(here: Context, record: MonitorRecord, windows: int, groups: int) -> None:
    """Take a place for windows that take long; raises ``InvalidField`` for more groups than can be told in time."""
    of_groups = windows * min(groups, record.max_groups) * seconds_of(record, intervals=False)
    seconds = windows * seconds_of(record, intervals=True) + of_groups
    if seconds > MOST_SECONDS and groups > LARGEST:
        raise InvalidField.at("/groups", f"is estimated to take {seconds:.0f} s: ask for fewer, or for one window")
    _take_place(here, seconds)


def begin_diagram(here: Context, record: MonitorRecord) -> None:
    """Take a place for the rows of a window and their diagram, if they take long; raises ``Busy``."""
    _take_place(here, seconds_of(record, intervals=False))


def _take_place(here: Context, seconds: float) -> None:
    if seconds > LIGHT_SECONDS:
        here.take_place(seconds)


def asked_of(reader: Reader, query: SeriesQuery, moment: float) -> Asked:
    """The buckets and the group of a query; raises ``InvalidField``."""
    return Asked(_span(reader.record, query, moment), query.points, group_index(reader, query.group), query.intervals)


def narrowed(reader: Reader, measure: str | None) -> Reader:
    """The reader of one measure alone; raises ``InvalidField``."""
    if measure is None:
        return reader
    record = reader.record
    keys = [request.key for request in read_measures(record.measures, record.reduction or "binary")]
    if measure not in keys:
        raise InvalidField.at("/measure", f"must be one of the monitor's: {', '.join(keys)}")
    return reader.of(record.model_copy(update={"measures": [record.measures[keys.index(measure)]]}))


def group_index(reader: Reader, group: str | None) -> int | None:
    """The index of a group; raises ``InvalidField`` for one that the monitor has not seen."""
    if group is None:
        return None
    found = {name: index for index, name in reader.group_names().items()}.get(group)
    if found is None:
        raise InvalidField.at("/group", "is none that the monitor has seen")
    return found


def window_of(record: MonitorRecord, name: str | None) -> WindowSpec:
    """A window by its name, the first without one; raises ``InvalidField``."""
    window = window_named(record, name)
    if window is None:
        known = ", ".join(window.name for window in record.windows)
        raise InvalidField.at("/window", f"must be one of the monitor's: {known}")
    return window


def _span(record: MonitorRecord, query: SeriesQuery, moment: float) -> Span:
    """The buckets that a query is about, of those that are kept."""
    kept = kept_span(record, moment)
    if query.window is not None:
        if query.start is not None or query.end is not None:
            raise InvalidField.at("/window", "stands in the place of start and end")
        window = window_of(record, query.window)
        if window.seconds is None:
            raise InvalidField.at("/window", "must be one of time")
        return window_span(record, window.seconds, moment)
    start = kept.start if query.start is None else max(query.start, kept.start)
    end = kept.end if query.end is None else min(query.end, kept.end)
    if not start < end:
        raise InvalidField.at("/end", "must be after the start, within what is kept")
    return time_span(record, start, end)
