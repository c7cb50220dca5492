"""Monitors over HTTP: made and changed, their rows counted, and their windows read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import time

from starlette.datastructures import Headers

from backend.monitors.answers import (
    LARGEST,
    LIGHT_SECONDS,
    MOST_SECONDS,
    Reader,
    SeriesOptions,
    read_series,
    seconds_of,
    together,
)
from backend.monitors.definitions import check, made_secret, settled
from backend.monitors.ingestion import Account, Taking
from backend.monitors.readings import definitions, read_measures
from backend.monitors.reference import tally_of_batch
from backend.monitors.rows import What
from backend.monitors.webhooks import prepare
from backend.monitors.windows import Span, kept_span, time_span, window_named, window_span
from backend.store.batches import read_stored_batch
from backend.store.chores import Chore, ask
from backend.store.clock import now, stamp
from backend.store.errors import StorageError, UnknownMap
from backend.store.monitors.ledger import Groups, Ledger
from backend.store.monitors.reference import put_reference
from backend.telemetry.observed import note_rows, traced
from calibrant.batch import Predictions
from calibrant.cells import Floats
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.tally import Tally
from schemas.monitor_answers import MonitorReading, ReadingQuery, SeriesAnswer, SeriesPoint, SeriesQuery, told
from schemas.monitors import HookSpec, MonitorBody, MonitorPatch, MonitorRecord, Taken, WindowSpec
from service.context import Context
from service.errors import InvalidField
from service.headers import Conditions
from service.monitor_bodies.payloads import By, rows_of_events
from service.monitor_bodies.reading import Sent
from service.rows import check_weight

# --- Creating, changing and deleting monitors: requests checked against what is stored

#: What a patch may remove.
_REMOVABLE = ("description", "interval", "reference")

#: The names of the hooks whose secrets were made now.
Fresh = frozenset[str]


def define_monitor(here: Context, asked: MonitorBody) -> tuple[MonitorRecord, Fresh]:
    """Check a definition and store it; raises ``MonitorExists``."""
    fitted = _map_of(here, asked)
    body = settled(asked, fitted)
    reference = _reference(here, body, fitted)
    hooks, fresh = _with_secrets(here, body.hooks, [])
    moment = now()
    record = MonitorRecord(
        **body.model_copy(update={"hooks": hooks}).model_dump(),
        uid=here.new_id("monitor"),
        created_at=stamp(moment),
        created_by=here.who,
        started_at=moment.timestamp(),
    )
    stored = here.store.monitors.put(record)
    if reference is not None:
        put_reference(here.store.redis, here.store.keys, stored.uid, reference)
    _have_looked_at(here, stored)
    return stored, fresh


def change_monitor(
    here: Context, name: str, changes: MonitorPatch, conditions: Conditions
) -> tuple[MonitorRecord, Fresh]:
    """Merge what is given into a monitor, unless the conditions fail."""
    asked = changes.model_dump(exclude_unset=True)
    for field, value in asked.items():
        if value is None and field not in _REMOVABLE:
            raise InvalidField.at(f"/{field}", "may not be null: leave it out, and it stays as it is")
    before = here.store.monitors.get(name)
    conditions.require(told(before))
    hooks, fresh = _with_secrets(here, changes.hooks or [], before.hooks)
    given = {field: getattr(changes, field) for field in asked} | ({"hooks": hooks} if "hooks" in asked else {})
    again = "reference" in asked and changes.reference != before.reference
    reference = _reference(here, _merged(before, given), _map_of(here, before)) if again else None

    def change(record: MonitorRecord) -> MonitorRecord:
        conditions.require(told(record))
        changed = _merged(record, given)
        check(changed)
        return changed

    changed = here.store.monitors.patch(name, change)
    if again:
        put_reference(here.store.redis, here.store.keys, changed.uid, reference)
    _have_looked_at(here, changed)
    return changed, fresh


def forget_monitor(here: Context, name: str, conditions: Conditions) -> None:
    """Delete a monitor, unless the conditions fail."""
    conditions.require(told(here.store.monitors.get(name)))
    here.store.monitors.delete(name)


def _have_looked_at(here: Context, record: MonitorRecord) -> None:
    ask(here.store.redis, Chore("look", here.store.keys.tenant, record.uid))


def _merged(record: MonitorRecord, given: dict[str, object]) -> MonitorRecord:
    return record.model_copy(update=given)


def _map_of(here: Context, body: MonitorBody) -> CalibrationMap | None:
    if body.map is None:
        return None
    try:
        return here.find_map(body.map).map
    except UnknownMap as error:
        raise UnknownMap(error.detail, "/map") from error


def _reference(here: Context, body: MonitorBody, fitted: CalibrationMap | None) -> Tally | None:
    """The tally of the batch that windows are compared with; None where it is none."""
    if body.reference is None or body.reference.batch is None:
        return None
    try:
        check_weight(here, body.reference.batch)
        batch, _ = read_stored_batch(here.store.batches, body.reference.batch)
    except StorageError as error:
        raise type(error)(error.detail, "/reference/batch") from error
    return tally_of_batch(batch, body, fitted)


def _with_secrets(here: Context, hooks: list[HookSpec], known: list[HookSpec]) -> tuple[list[HookSpec], Fresh]:
    """The hooks, looked at, each with a secret: its own, that of the known hook of its name, or a fresh one."""
    names = {hook.name for hook in known}
    found = prepare(
        hooks,
        here.targets,
        now=now().timestamp(),
        make=lambda name: made_secret(here.seed, name),
        before=known,
    )
    return found, frozenset(hook.name for hook in hooks if hook.secret is None and hook.name not in names)


# --- Rows that come to a monitor: found, read, and counted

#: Seconds from new rows to the look at them; the rows that come meanwhile are looked at with them.
LOOK_AFTER = 1.0


@traced("work")
def take_rows(here: Context, name: str, what: What, sent: Sent) -> Taken:
    """Count the rows of a body; raises ``UnknownMonitor``, ``MonitorFull``, or what is wrong with the body."""
    record = here.store.monitors.get(name)
    rows = sent.rows(what, record.n_classes)
    note_rows((len(rows),))
    account = Account()
    taking, now = taking_of(here, record), time()
    taking.take(what, rows, now, account)
    return _closed(here, record, taking, account, now)


@traced("work")
def take_events(here: Context, name: str, headers: Headers, sent: Sent, output: str | None, by: By = "id") -> Taken:
    """Count what the events of a body tell of, in their order; raises as ``take_rows`` does."""
    record = here.store.monitors.get(name)
    account = Account()
    parts, ignored = rows_of_events(sent.events(headers), sent.limits, record.n_classes, output, by)
    account.ignore(ignored)
    taking, now, numbered = taking_of(here, record), time(), 0
    for what, rows in parts:
        taking.take(what, replace(rows, numbers=rows.numbers + numbered), now, account)
        numbered += len(rows)
    note_rows((numbered,))
    return _closed(here, record, taking, account, now)


def _closed(here: Context, record: MonitorRecord, taking: Taking, account: Account, now: float) -> Taken:
    """The account of a request, all of whose rows were taken in; a look at the monitor is due."""
    taking.close(now, account)
    taken = account.taken()
    if taken.accepted:
        ask(here.store.redis, Chore("look", here.store.keys.tenant, record.uid), LOOK_AFTER)
    return taken


def taking_of(here: Context, record: MonitorRecord) -> Taking:
    """What takes in the rows of a monitor for this request."""
    store = here.store
    ledger, groups = Ledger(store.redis, store.keys, record), Groups(store.redis, store.keys, record)
    return Taking(ledger, groups, record, _map_of_monitor(here, record), here.seed)


def _map_of_monitor(here: Context, record: MonitorRecord) -> Callable[[Predictions], Floats] | None:
    """The monitor's map as it is now; raises ``UnknownMap`` where it has been deleted."""
    if record.map is None:
        return None
    fitted = here.find_map(record.map).map
    return fitted.apply_checked


# --- Monitors read: what a request wants to know, found in the buckets


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


def series_points(here: Context, reader: Reader, asked: SeriesOptions) -> list[SeriesPoint]:
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


def asked_of(reader: Reader, query: SeriesQuery, moment: float) -> SeriesOptions:
    """The buckets and the group of a query; raises ``InvalidField``."""
    return SeriesOptions(
        _span(reader.record, query, moment), query.points, group_index(reader, query.group), query.intervals
    )


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
