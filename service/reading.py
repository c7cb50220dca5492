"""Monitors read: what a request wants to know, found in the buckets."""

from __future__ import annotations

from monitoring.answers import Reader
from monitoring.readings import definitions
from schemas.monitor_answers import MonitorReading, ReadingQuery, told
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
    reference = reader.reference()
    return MonitorReading(
        monitor=told(reader.record),
        counts=reader.counts(),
        definitions=definitions(reader.record),
        windows=[reader.window(window, moment, reference=reference, groups=query.groups) for window in windows],
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
