"""The measures of a monitor's windows as a look needs them: each window is read once, each measure computed once."""

from __future__ import annotations

from backend.monitors.alarms import Measured
from backend.monitors.evidence import last_counted
from backend.monitors.readings import event_of, measured
from backend.monitors.windows import Gathered, Gatherer, Leaves, window_span
from backend.store.monitors.buckets import Buckets, TallyKind
from backend.store.monitors.ledger import Groups
from backend.store.store import Store
from calibrant.errors import CalibrationError
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import PLAIN
from calibrant.measures.measure import answers
from calibrant.monitoring.tally import Tally
from calibrant.reductions import Event
from schemas.monitor_answers import MeasureReading
from schemas.monitors import MonitorRecord, ThresholdRule, WindowSpec


class Meter:
    """What is measured at one look; ``now`` is its moment, and ``leaves`` what the process has read before."""

    def __init__(self, store: Store, record: MonitorRecord, now: float, leaves: Leaves) -> None:
        self._store = store
        self._record = record
        self._now = now
        self._gatherer = Gatherer(leaves, Buckets(store.redis, store.keys, record), record.uid)
        self._windows: dict[str, Gathered] = {}
        self._requests = {request.key: request for request in read_requests(list(record.measures))}

    def compared(self, rule: ThresholdRule) -> Measured:
        """The number that a rule compares; none where there is no such window, measure or group, or too few rows."""
        found = self._window(rule.window)
        tally, groups = (None, None) if found is None else (found.tally, found.groups)
        if found is not None and rule.group is not None:
            index = Groups(self._store.redis, self._store.keys, self._record).all().get(rule.group)
            tally = None if index is None or groups is None else groups.of_group(index)
        if tally is None or not len(tally) or len(tally) < rule.least_rows:
            return Measured(0 if tally is None else len(tally), None)
        level = self._record.interval if rule.by == "lower" else None
        told = self._measured(tally, rule.measure, level)
        if told is None:
            return Measured(len(tally), None)
        lower = None if told.interval is None else told.interval[0]
        return Measured(len(tally), {"value": told.value, "lower": lower, "debiased": told.debiased}[rule.by])

    def values(self, window: str) -> tuple[int, dict[str, float | None]]:
        """The labelled rows of a window, and the value of each measure."""
        found = self._window(window)
        if found is None or not len(found.tally):
            return 0, {}
        told = answers(self._requests.values(), self._event(found.tally), PLAIN)
        return len(found.tally), {key: result.value for key, result in told.items()}

    def coverage(self, window: str) -> float | None:
        """The share of the predictions of a window of time that have a label; None of another, or of none."""
        found = self._window(window)
        return None if found is None else found.coverage

    def _measured(self, tally: Tally, key: str, level: float | None) -> MeasureReading | None:
        request = self._requests.get(key)
        if request is None:
            return None
        try:
            return measured([request], self._event(tally), level)[key]
        except CalibrationError:
            return None

    def _event(self, tally: Tally) -> Event:
        return event_of(tally, self._record.reduction or "binary")

    def _window(self, name: str) -> Gathered | None:
        window = next((window for window in self._record.windows if window.name == name), None)
        if window is None:
            return None
        if name not in self._windows:
            self._windows[name] = self._gatherer.window(self._record, window, self._now)
        return self._windows[name]


def tally_of_window(
    buckets: Buckets,
    record: MonitorRecord,
    window: WindowSpec,
    now: float,
    kind: TallyKind = "measured",
    after: int = 0,
) -> Tally:
    """The labelled rows of a window, by group and fold; of one of time that ended ``after`` seconds ago."""
    if window.rows is not None:
        return buckets.latest_rows(window.rows, kind)
    span = window_span(record, window.seconds or 0, now - after)
    return buckets.tally(span.first, min(span.last, last_counted(record, now, after)), kind)
