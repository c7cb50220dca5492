"""The measures of a monitor's windows as a look needs them: each window is read once, each measure computed once."""

from __future__ import annotations

from calibrant.errors import CalibrationError
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import MeasureResult, answers
from calibrant.reductions import Event
from calibrant.tallies.tally import Tally
from monitoring.readings import event_of
from monitoring.rules import Measured
from monitoring.windows import window_span
from schemas.monitors import MonitorRecord, ThresholdRule, WindowSpec
from storage.monitors.buckets import Buckets, TallyKind
from storage.monitors.groups import Groups
from storage.store import Store


class Meter:
    """What is measured at one look; ``now`` is its moment."""

    def __init__(self, store: Store, record: MonitorRecord, now: float) -> None:
        self._store = store
        self._record = record
        self._now = now
        self._tallies: dict[str, Tally] = {}
        self._requests = {request.key: request for request in read_requests(list(record.measures))}

    def compared(self, rule: ThresholdRule) -> Measured:
        """The number that a rule compares; none where there is no such window, measure or group, or too few rows."""
        tally = self._tally(rule.window)
        if tally is not None and rule.group is not None:
            index = Groups(self._store.redis, self._store.keys, self._record).all().get(rule.group)
            tally = None if index is None else tally.of_group(index)
        if tally is None or not len(tally) or len(tally) < rule.least_rows:
            return Measured(0 if tally is None else len(tally), None)
        level = self._record.interval if rule.by == "lower" else None
        found = self._measured(tally, rule.measure, Resampling(level))
        if found is None:
            return Measured(len(tally), None)
        lower = None if found.interval is None else found.interval[0]
        return Measured(len(tally), {"value": found.value, "lower": lower, "debiased": found.debiased}[rule.by])

    def values(self, window: str) -> tuple[int, dict[str, float | None]]:
        """The labelled rows of a window, and the value of each measure."""
        tally = self._tally(window)
        if tally is None or not len(tally):
            return 0, {}
        found = answers(self._requests.values(), self._event(tally), PLAIN)
        return len(tally), {key: result.value for key, result in found.items()}

    def coverage(self, window: str) -> float | None:
        """The share of the predictions of a window of time that have a label; None of another, or of none."""
        asked = next((each for each in self._record.windows if each.name == window), None)
        if asked is None or asked.seconds is None:
            return None
        span = window_span(self._record, asked.seconds, self._now)
        counts = Buckets(self._store.redis, self._store.keys, self._record).counts(span.first, span.last)
        predictions = counts.get("predictions", 0)
        return counts.get("joined", 0) / predictions if predictions else None

    def _measured(self, tally: Tally, key: str, resampling: Resampling) -> MeasureResult | None:
        request = self._requests.get(key)
        if request is None:
            return None
        try:
            return answers([request], self._event(tally), resampling)[key]
        except CalibrationError:
            return None

    def _event(self, tally: Tally) -> Event:
        return event_of(tally, self._record.reduction or "binary")

    def _tally(self, name: str) -> Tally | None:
        window = next((window for window in self._record.windows if window.name == name), None)
        if window is None:
            return None
        if name not in self._tallies:
            buckets = Buckets(self._store.redis, self._store.keys, self._record)
            self._tallies[name] = tally_of_window(buckets, self._record, window, self._now)
        return self._tallies[name]


def tally_of_window(
    buckets: Buckets, record: MonitorRecord, window: WindowSpec, now: float, kind: TallyKind = "measured"
) -> Tally:
    """The labelled rows of a window, by group and fold."""
    if window.rows is not None:
        return buckets.latest_rows(window.rows, kind)
    span = window_span(record, window.seconds or 0, now)
    return buckets.tally(span.first, span.last, kind)
