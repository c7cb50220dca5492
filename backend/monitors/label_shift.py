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
