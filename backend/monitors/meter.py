"""What a check measures: each window is read once, each measure computed once."""

from __future__ import annotations

from backend.monitors.forecasts import measure_pit
from backend.monitors.readings import ReadingsCache, event_of, measured, read_rows
from backend.monitors.windows import Gathered, Gatherer, Leaves
from backend.store.monitors.buckets import Buckets
from backend.store.monitors.ledger import MonitorGroups
from backend.store.store import Store
from calibrant.core.errors import CalibrationError
from calibrant.core.reductions import Event
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import PLAIN
from calibrant.measures.measure import answers
from calibrant.monitoring.tally import Tally
from schemas.monitor_answers import MeasureReading
from schemas.monitors import MonitorRecord


class Meter:
    """The measurements of one check at time ``now``; ``leaves`` caches what the process has read before."""

    def __init__(self, store: Store, record: MonitorRecord, now: float, leaves: Leaves) -> None:
        self._store = store
        self._record = record
        self._now = now
        self._gatherer = Gatherer(leaves, Buckets(store.redis, store.keys, record), record.uid)
        self._memory = ReadingsCache()
        self._windows: dict[str, Gathered] = {}
        forecast = record.forecast is not None
        self._requests = {} if forecast else {request.key: request for request in read_requests(list(record.measures))}

    def rows(self, window: str, group: str | None) -> Tally | None:
        """The labelled rows of a window, or of one of its groups; None if there is no such window or group."""
        found = self._window(window)
        if found is None or group is None:
            return None if found is None else found.tally
        index = MonitorGroups(self._store.redis, self._store.keys, self._record).all().get(group)
        return None if index is None or found.groups is None else found.groups.of_group(index)

    def values(self, window: str) -> tuple[int, dict[str, float | None]]:
        """The number of labelled rows of a window, and the value of each measure."""
        found = self._window(window)
        if found is None or not len(found.tally):
            return 0, {}
        if self._record.forecast is not None:
            results = measure_pit(found.tally, self._record, None)
            return len(found.tally), {key: result.value for key, result in results.items()}
        found_values = answers(self._requests.values(), self._event(found.tally), PLAIN)
        return len(found.tally), {key: result.value for key, result in found_values.items()}

    def coverage(self, window: str) -> float | None:
        """The share of a time window's predictions that have a label; None for other windows or without predictions."""
        found = self._window(window)
        return None if found is None else found.coverage

    def reading(self, tally: Tally, key: str, level: float | None) -> MeasureReading | None:
        """One measure of some rows, with an interval of this level; None if it is unknown or undefined."""
        if self._record.forecast is not None:
            only = self._record.model_copy(update={"interval": level})
            return read_rows(tally, only, self._memory, intervals=True).measures.get(key)
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
