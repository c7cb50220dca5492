"""The class frequencies of a window under label shift, from its predictions and the reference."""

from __future__ import annotations

from backend.monitors.estimates import LEVEL, Estimated, all_rows, withheld
from backend.monitors.kinds import kind_of_monitor
from backend.monitors.readings import ReadingsCache
from calibrant.core.errors import CalibrationError
from calibrant.monitoring.event_shift import ShiftReference, fit_shift_reference, shift_from
from calibrant.monitoring.event_tally import EventTally
from calibrant.monitoring.label_shift import LabelShift
from calibrant.monitoring.tally import Tally
from schemas.monitor_answers import LabelShiftReading
from schemas.monitors import MonitorRecord

#: Level of the test that the window is a mixture of the classes of the reference.
ALPHA = 0.001
#: Fewest predictions of a window.
LEAST = 100


def read_label_shift(given: Estimated, record: MonitorRecord, memory: ReadingsCache) -> LabelShiftReading:
    """The class frequencies of a window, or why there are none. O(cells)."""
    level, why = record.interval or LEVEL, kind_of_monitor(record).without_label_shift
    rows = len(given.labelled) + len(given.unlabelled)
    if why is not None:
        return LabelShiftReading(status="not-applicable", reason=why, rows=rows, level=level)
    found = estimate_shift(given, record, memory)
    if isinstance(found, str):
        return LabelShiftReading(status="withheld", reason=found, rows=rows, level=level)
    return reading_of(found)


def estimate_shift(given: Estimated, record: MonitorRecord, memory: ReadingsCache) -> LabelShift | str:
    """The estimate of a window of one event per row, or why there is none. O(cells)."""
    event, rows = record.reduction or "binary", len(given.labelled) + len(given.unlabelled)
    reason = withheld(given, rows)
    if reason is None and rows < LEAST:
        reason = f"the window has {rows} predictions; at least {LEAST} are needed"
    if reason is not None or given.reference is None:
        return reason or "the monitor has no reference"
    try:
        fitted = _fitted(given.reference, event, memory)
    except CalibrationError as error:
        return f"the reference cannot be used: {error.detail}"
    return shift_from(fitted, EventTally(all_rows(given), event), record.interval or LEVEL, ALPHA)


def _fitted(reference: Tally, event: str, memory: ReadingsCache) -> ShiftReference:
    """The fits to a reference; computed once for each state of it."""
    return memory.of(reference, ["label shift", event], lambda: fit_shift_reference(EventTally(reference, event)))


def reading_of(found: LabelShift) -> LabelShiftReading:
    """An estimate as it is answered."""
    reading = LabelShiftReading(
        status="estimated" if found.withheld is None else "withheld",
        reason=found.withheld,
        rows=found.n,
        level=found.level,
        reference=found.reference.tolist(),
        p_value=found.p_value,
    )
    if found.estimated is None or found.low is None or found.high is None:
        return reading
    return reading.model_copy(
        update={
            "estimated": found.estimated.tolist(),
            "low": found.low.tolist(),
            "high": found.high.tolist(),
            "weights": (found.estimated / found.reference).tolist(),
            "weights_low": (found.low / found.reference).tolist(),
            "weights_high": (found.high / found.reference).tolist(),
            "bbse": None if found.bbse is None else found.bbse.tolist(),
        }
    )
