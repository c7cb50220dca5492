"""The frequencies of K classes under label shift, from the reservoir of a monitor: estimated by a worker."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property

from redis import Redis

from backend.monitors.estimates import LEVEL, Estimated, all_rows, withheld
from backend.monitors.kinds import kind_of_monitor
from backend.monitors.readings import ReadingsCache
from backend.monitors.windows import reference_span, window_span
from backend.store.chores import Chore, schedule
from backend.store.errors import UnknownMonitor
from backend.store.keyspace import Keyspace
from backend.store.monitors.buckets import Buckets
from backend.store.monitors.definitions import Definitions, delete_keys
from backend.store.monitors.ledger import Ledger
from backend.store.monitors.reference import read_reference_vectors
from backend.store.monitors.standings import put_label_shifts, read_label_shifts
from backend.store.store import Store
from calibrant.core.batch import read_batch, read_predictions
from calibrant.core.errors import CalibrationError
from calibrant.monitoring.event_shift import ShiftReference, fit_shift_reference, shift_from
from calibrant.monitoring.event_tally import EventTally
from calibrant.monitoring.label_shift import LabelShift, VectorReference, fit_vector_reference, shift_of_window
from calibrant.monitoring.reservoir import Reservoir, together
from calibrant.monitoring.tally import Tally
from schemas.monitor_answers import LabelShiftReading, StoredLabelShifts
from schemas.monitors import MonitorRecord, WindowSpec

# --- The class frequencies of a window under label shift, from its predictions and the reference

#: Level of the test that the window is a mixture of the classes of the reference.
ALPHA = 0.001
#: Fewest predictions of a window.
LEAST = 100


def read_label_shift(rows_of_window: Estimated, record: MonitorRecord, memory: ReadingsCache) -> LabelShiftReading:
    """The class frequencies of a window, or why there are none. O(cells)."""
    level, why = record.interval or LEVEL, kind_of_monitor(record).without_label_shift
    rows = len(rows_of_window.labelled) + len(rows_of_window.unlabelled)
    if why is not None:
        return LabelShiftReading(status="not-applicable", reason=why, rows=rows, level=level)
    shift = estimate_shift(rows_of_window, record, memory)
    if isinstance(shift, str):
        return LabelShiftReading(status="withheld", reason=shift, rows=rows, level=level)
    return reading_of(shift)


def estimate_shift(rows_of_window: Estimated, record: MonitorRecord, memory: ReadingsCache) -> LabelShift | str:
    """The estimate of a window of one event per row, or why there is none. O(cells)."""
    event, rows = record.reduction or "binary", len(rows_of_window.labelled) + len(rows_of_window.unlabelled)
    reason = withheld(rows_of_window, rows)
    if reason is None and rows < LEAST:
        reason = f"the window has {rows} predictions; at least {LEAST} are needed"
    if reason is not None or rows_of_window.reference is None:
        return reason or "the monitor has no reference"
    try:
        fitted = _fitted(rows_of_window.reference, event, memory)
    except CalibrationError as error:
        return f"the reference cannot be used: {error.detail}"
    return shift_from(fitted, EventTally(all_rows(rows_of_window), event), record.interval or LEVEL, ALPHA)


def _fitted(reference: Tally, event: str, memory: ReadingsCache) -> ShiftReference:
    """The fits to a reference; computed once for each state of it."""
    return memory.of(reference, ["label shift", event], lambda: fit_shift_reference(EventTally(reference, event)))


def reading_of(shift: LabelShift) -> LabelShiftReading:
    """An estimate as it is answered."""
    reading = LabelShiftReading(
        status="estimated" if shift.withheld is None else "withheld",
        reason=shift.withheld,
        rows=shift.n,
        level=shift.level,
        reference=shift.reference.tolist(),
        p_value=shift.p_value,
    )
    if shift.estimated is None or shift.low is None or shift.high is None:
        return reading
    return reading.model_copy(
        update={
            "estimated": shift.estimated.tolist(),
            "low": shift.low.tolist(),
            "high": shift.high.tolist(),
            "weights": (shift.estimated / shift.reference).tolist(),
            "weights_low": (shift.low / shift.reference).tolist(),
            "weights_high": (shift.high / shift.reference).tolist(),
            "bbse": None if shift.bbse is None else shift.bbse.tolist(),
        }
    )


# --- The frequencies of K classes under label shift, from the reservoir of a monitor: estimated by a worker

NOT_YET = "a worker has not estimated it yet"
OF_ROWS = "the reservoir samples windows of time, and not windows of rows"
#: The pause after an estimate, in multiples of its duration.
_REST = 10


def is_due(record: MonitorRecord, last: StoredLabelShifts | None, totals: Mapping[str, int], now: float) -> bool:
    """Whether to estimate again: after a time bucket, or if the number of predictions has doubled."""
    if record.reservoir is None:
        return False
    if last is None:
        return True
    if now < last.at + _REST * last.seconds:
        return False
    return now >= last.at + (record.bucket or 0) or totals.get("predictions", 0) > 2 * last.predictions


def estimate(redis: Redis, chore: Chore) -> float | None:
    """Estimate the label shift of the windows of a monitor; the background task ``estimate``."""
    keys = Keyspace(chore.tenant)
    before = read_label_shifts(redis, keys, chore.id)
    try:
        record = Definitions(redis, keys).by_uid(chore.id)
        if record.reservoir is None:
            return None
        estimates = estimate_at(Store.of(redis, chore.tenant), record, time.time())
    except UnknownMonitor:
        delete_keys(redis, keys, chore.id)  # it may have been deleted meanwhile
        return None
    if estimates is None:
        return 0.0
    if before is None or estimates.predictions != before.predictions:
        schedule(redis, Chore("look", chore.tenant, chore.id))  # which updates the metrics
    return None


def estimate_at(store: Store, record: MonitorRecord, now: float) -> StoredLabelShifts | None:
    """Thin the reservoir, and store estimates from it at time ``now``; None if the monitor was changed meanwhile."""
    began = time.monotonic()
    totals = Ledger(store.redis, store.keys, record).totals()
    sampled = SampledMonitor(store, record)
    sampled.thin()
    estimates = StoredLabelShifts(
        at=now,
        seconds=0.0,
        predictions=totals.get("predictions", 0),
        windows={window.name: sampled.read(window, now) for window in record.windows},
    )
    timed = estimates.model_copy(update={"seconds": time.monotonic() - began})
    return timed if put_label_shifts(store.redis, store.keys, record, timed) else None


class SampledMonitor:
    """A monitor that keeps a reservoir."""

    def __init__(self, store: Store, record: MonitorRecord) -> None:
        self._store = store
        self._record = record
        self._buckets = Buckets(store.redis, store.keys, record)
        self._vectors = self._buckets.vectors

    def thin(self) -> None:
        """Remove the rows that no sample needs."""
        span = reference_span(self._record)
        self._vectors.thin(*((1, 0) if span is None else (span.first, span.last)))

    def read(self, window: WindowSpec, now: float) -> LabelShiftReading:
        """The class frequencies of a window, or why there are none."""
        level = self._record.interval or LEVEL
        if window.seconds is None:
            return LabelShiftReading(status="not-applicable", reason=OF_ROWS, level=level)
        rows = self._rows(window, now)
        sample = self._sample(window, now)
        about = {"rows": rows, "sampled": len(sample), "estimated_at": now}
        try:
            estimated = self._estimate(sample, level)
        except CalibrationError as error:
            reason = f"the reference cannot be used: {error.detail}"
        else:
            if not isinstance(estimated, str):
                return reading_of(estimated).model_copy(update=about)
            reason = estimated
        return LabelShiftReading(status="withheld", reason=reason, level=level, **about)

    def estimate(self, window: WindowSpec, now: float) -> LabelShift | str:
        """The estimate of a time window with its map, or why there is none; raises ``CalibrationError``."""
        return self._estimate(self._sample(window, now), self._record.interval or LEVEL)

    def _estimate(self, sample: Reservoir, level: float) -> LabelShift | str:
        if self._record.reference is None:
            return "the monitor has no reference"
        if len(sample) < LEAST:
            return f"the window has {len(sample)} sampled predictions; at least {LEAST} are needed"
        window = read_predictions(sample.vectors, scale=self._record.scale)
        return shift_of_window(self._reference, window, level, ALPHA)

    @cached_property
    def _reference(self) -> VectorReference:
        """The fits to the labelled rows of the reference."""
        record, span = self._record, reference_span(self._record)
        rows = read_reference_vectors(self._store.redis, self._store.keys, record)
        if span is not None:
            rows = together([rows, self._vectors.sample(span.first, span.last)], record.reservoir or 0)
        labelled = rows.labelled()
        return fit_vector_reference(read_batch(labelled.vectors, labelled.labels, scale=record.scale))

    def _sample(self, window: WindowSpec, now: float) -> Reservoir:
        span = window_span(self._record, window.seconds or 0, now)
        return self._vectors.sample(span.first, span.last)

    def _rows(self, window: WindowSpec, now: float) -> int:
        span = window_span(self._record, window.seconds or 0, now)
        return self._buckets.counts(span.first, span.last).get("predictions", 0)
