"""Challengers without labels: the map of the reference, corrected for the class frequencies of a window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from backend.kinds.classes import record_without_fit
from backend.monitors.answers import MonitorCache, MonitorReader
from backend.monitors.challengers import Challenge, opponent, tags_of
from backend.monitors.class_shift import OF_ROWS, SampledMonitor
from backend.monitors.windows import window_named
from backend.store.keyspace import derived_id
from backend.store.store import Store
from calibrant.core.errors import CalibrationError
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.label_shift import LabelShift
from schemas.maps import MapRecord, Registration
from schemas.monitor_alarms import Occasion
from schemas.monitors import MonitorRecord, WindowSpec

ASSUMPTION = "only class frequencies changed: the predictions of each class are distributed as in the reference"
_AFTER_THE_MAP = (
    "without a reservoir, predictions without labels are counted after the map of the monitor, which has one"
)
_OF_CONFIDENCE = "without a reservoir, the event must be binary or class:k"


def prior_challenge(store: Store, record: MonitorRecord, occasion: Occasion, now: float) -> Challenge:
    """Correct a map for the class frequencies of the window, without storing anything.

    It is not compared with the champion, because it has no labels; it must be accepted.
    """
    candidate, _ = opponent(store, record)
    window = window_named(record, record.recalibration.window)
    if candidate.why is not None or window is None:
        return candidate
    try:
        shift = _estimate(store, record, window, now)
    except CalibrationError as error:
        shift = f"the reference cannot be used: {error.detail}"
    if isinstance(shift, str):
        return replace(candidate, why=shift, code="label-shift-withheld")
    candidate = replace(candidate, labelled=shift.n)
    if shift.withheld is not None or shift.map is None:
        return replace(candidate, why=shift.withheld, code="label-shift-withheld")
    if not _moved(shift):
        why = f"no class frequency differs significantly from the reference at the level {shift.level:g}"
        return replace(candidate, why=why, code="not-shifted")
    return replace(candidate, assumption=ASSUMPTION, draft=_draft(record, occasion, shift, shift.map))


def _estimate(store: Store, record: MonitorRecord, window: WindowSpec, now: float) -> LabelShift | str:
    if record.reservoir is not None:
        return OF_ROWS if window.seconds is None else SampledMonitor(store, record).estimate(window, now)
    if record.map is not None:
        return _AFTER_THE_MAP
    if record.reduction is None or not record.reduction.startswith(("binary", "class:")):
        return _OF_CONFIDENCE
    shift = MonitorReader(store.redis, store.keys, record, MonitorCache()).event_shift(window, now)
    if isinstance(shift, str) or shift.map is None:
        return shift
    corrected = replace(shift.map, reduction=record.reduction, scale=record.scale, n_classes=record.n_classes)
    return replace(shift, map=corrected)


def _moved(shift: LabelShift) -> bool:
    """Whether an interval excludes the frequency of the reference, at the level of all K - 1 comparisons together."""
    if shift.estimated is None or shift.low is None or shift.high is None:
        return False
    beyond = (1.0 - shift.level) / 2.0
    wider = float(ndtri(1.0 - beyond / (len(shift.reference) - 1)) / ndtri(1.0 - beyond))
    low = shift.estimated - wider * (shift.estimated - shift.low)
    high = shift.estimated + wider * (shift.high - shift.estimated)
    return bool(np.any((shift.reference < low) | (high < shift.reference)))


def _draft(record: MonitorRecord, occasion: Occasion, shift: LabelShift, corrected: CalibrationMap) -> MapRecord:
    """The record of the corrected map, without a name until it is accepted."""
    return record_without_fit(
        derived_id("map", f"{record.id} {occasion.seed}"),
        corrected,
        Registration(
            tags=tags_of(record, occasion, shift.n) | {"correction": "label-shift"},
            description=f"corrected for the class frequencies of a window; assumes that {ASSUMPTION}",
        ),
    )
