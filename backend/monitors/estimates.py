"""Estimates of a window's performance from its predictions and the reference, beside the figures from labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from backend.monitors.kinds import estimated_event, kind_of_monitor
from backend.monitors.readings import ReadingsCache
from backend.monitors.windows import event_of_batch
from calibrant.core.batch import Batch
from calibrant.core.errors import OneClass, TooFewRows
from calibrant.io.errors import InvalidField
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.drift import prediction_drift
from calibrant.monitoring.estimates import (
    PerformanceEstimate,
    PerformanceEstimator,
    estimator_of_event,
    fit_performance_estimator,
)
from calibrant.monitoring.event_tally import EventTally
from calibrant.monitoring.figures import binary_figures
from calibrant.monitoring.tally import CELLS, FOLDS, Tally, merged
from schemas.monitor_answers import DriftReading, EstimatedReading, EstimatesReading
from schemas.monitors import MonitorRecord

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Level of the intervals of a monitor without a level of its own.
LEVEL = 0.95
#: Fewest rows of each part of the reference.
_FEWEST = 20
#: Largest share of a window's predictions of which there is no tally, because an older version counted them.
_MISSING = 0.01
#: Level of the test that late labels agree with the calibration of the reference.
_ALPHA = 0.01
#: The query field with the batch of weighted rows, and the most rows of it.
_QUERY, MOST_WEIGHTED = "/reference", 200_000
_PER_FOLD = np.uint32(2 * CELLS)
#: Figures of a decision between two classes.
_OF_TWO_CLASSES = ("precision", "recall", "f1", "confusion")


@dataclass(frozen=True)
class Estimated:
    """What an estimate uses: tallies of labelled and unlabelled rows of the window, of the reference, and late rows.

    ``predictions`` is the number of predictions in the window, None for a window of rows. ``reference`` has its
    consecutive parts as folds; None without a reference.
    """

    labelled: Tally
    unlabelled: Tally
    predictions: int | None
    reference: Tally | None
    late: Tally


class Weighted(NamedTuple):
    """A batch of labelled rows with covariate-shift weights for one window, and their estimator; None: one class."""

    batch: str
    estimator: PerformanceEstimator | None


def read_estimates(
    rows_of_window: Estimated,
    record: MonitorRecord,
    memory: ReadingsCache,
    threshold: float,
    weighted: Weighted | None = None,
) -> EstimatesReading:
    """The estimated figures of a window with the realised ones, or why there are none. O(cells).

    Rows that are ``weighted`` for the window replace the reference. Only labels of the window can contradict them.
    """
    level, labelled, kind = record.interval or LEVEL, len(rows_of_window.labelled), kind_of_monitor(record)
    if kind.not_estimated is not None:
        return EstimatesReading(
            status="not-applicable",
            reason=kind.not_estimated,
            rows=rows_of_window.predictions or labelled,
            labelled=labelled,
            threshold=threshold,
            level=level,
        )
    rows, event = labelled + len(rows_of_window.unlabelled), estimated_event(record)
    estimate, fitted, missing = (
        None,
        None,
        withheld(rows_of_window, rows) if weighted is None else _unread(rows_of_window, rows),
    )
    if missing is None:
        fitted = _fitted(rows_of_window, event, threshold, memory) if weighted is None else weighted.estimator
        if fitted is None:
            missing = "the labels of the reference, or of all but one of its parts, are of one class"
    if fitted is not None:
        contradicting = rows_of_window.late if weighted is None else rows_of_window.labelled
        late = EventTally(contradicting, event) if len(contradicting) else None
        estimate = fitted.estimate(EventTally(all_rows(rows_of_window), event), level=level, late=late, alpha=_ALPHA)
        missing = estimate.withheld
    realised = _realised(rows_of_window.labelled, event, threshold)
    names = list({} if estimate is None else estimate.figures) or list(realised)
    matrix = None if estimate is None or event == "confidence" else estimate.confusion
    return EstimatesReading(
        status="estimated" if missing is None else "withheld",
        reason=missing,
        reference=None if weighted is None else weighted.batch,
        effective=None if fitted is None or weighted is None else fitted.effective,
        rows=rows,
        labelled=labelled,
        threshold=threshold,
        level=level,
        figures={name: _figure(estimate, name, realised.get(name)) for name in names},
        confusion=None if matrix is None else matrix.tolist(),
        confusion_low=None if matrix is None else _listed(estimate, "confusion_low"),
        confusion_high=None if matrix is None else _listed(estimate, "confusion_high"),
        confusion_realised=_confusion(rows_of_window.labelled, threshold)
        if labelled and event != "confidence"
        else None,
        not_applicable={}
        if event != "confidence"
        else dict.fromkeys(_OF_TWO_CLASSES, "a monitor of confidences does not store the classes of its rows"),
    )


def read_drift(rows_of_window: Estimated, record: MonitorRecord) -> DriftReading:
    """Evidence that the predictions of a window are distributed differently than in the reference. O(cells)."""
    kind = kind_of_monitor(record)
    if kind.uncounted is not None:
        return DriftReading(reason=f"not applicable: {kind.uncounted}")
    if rows_of_window.reference is None:
        return DriftReading(reason="the monitor has no reference")
    rows = len(rows_of_window.labelled) + len(rows_of_window.unlabelled)
    if not len(rows_of_window.reference) or not rows:
        return DriftReading(reason="the window or the reference has no rows")
    event = record.reduction or "binary"
    drift = prediction_drift(EventTally(rows_of_window.reference, event), [EventTally(all_rows(rows_of_window), event)])
    return DriftReading.with_fields_of(drift, rows=rows, reference_share=drift.before, window_share=drift.since)


def withheld(rows_of_window: Estimated, rows: int) -> str | None:
    """The reason why a window cannot be compared with the reference, if any."""
    if rows_of_window.reference is None:
        return "the monitor has no reference"
    least = FOLDS * _FEWEST
    if len(rows_of_window.reference) < least:
        return f"the reference has {len(rows_of_window.reference)} labelled rows; at least {least} are needed"
    return _unread(rows_of_window, rows)


def _unread(rows_of_window: Estimated, rows: int) -> str | None:
    """The reason why the predictions of a window cannot be used, if any."""
    if not rows:
        return "the window has no predictions"
    missing = (rows_of_window.predictions or rows) - rows
    if missing > _MISSING * rows:
        return f"{missing} predictions of the window were counted by a version that stored no tally of them"
    return None


def _fitted(
    rows_of_window: Estimated, event: str, threshold: float, memory: ReadingsCache
) -> PerformanceEstimator | None:
    """The estimator of the monitor's reference; None if its labels are of one class."""
    try:
        return (
            None if rows_of_window.reference is None else _estimator(rows_of_window.reference, event, threshold, memory)
        )
    except OneClass:
        return None


def read_weighted(
    batch: Batch, batch_id: str, record: MonitorRecord, fitted: CalibrationMap | None, threshold: float
) -> Weighted:
    """The estimator of a batch whose rows are weighted for one window; raises a ``CalibrationError`` at its query."""
    if len(batch) > MOST_WEIGHTED:
        raise InvalidField.at(_QUERY, f"must have at most {MOST_WEIGHTED:,} rows; store a random sample of them")
    rows, event = event_of_batch(batch, record, fitted, _QUERY), estimated_event(record)
    weights = np.ones(len(rows.p)) if batch.weights is None else batch.weights
    try:
        return Weighted(batch_id, estimator_of_event(rows, weights, event, threshold))
    except OneClass:
        return Weighted(batch_id, None)
    except TooFewRows as error:
        raise TooFewRows.at(_QUERY, error.offences[0].detail) from error


def _estimator(reference: Tally, event: str, threshold: float, memory: ReadingsCache) -> PerformanceEstimator:
    """The estimator of a reference; fitted once for each state of it."""

    def fit() -> PerformanceEstimator:
        parts = [EventTally(part, event) for part in _parts(reference)]
        return fit_performance_estimator(parts, threshold=threshold)

    return memory.of(reference, ["estimator", event, threshold], fit)


def _parts(reference: Tally) -> list[Tally]:
    """The parts of a reference; if some have too few rows, or older versions did not store parts, a random split."""
    fold = reference.keys // _PER_FOLD % np.uint32(FOLDS)
    parts = [_of(reference, fold == part) for part in range(FOLDS)]
    if min(map(len, parts)) >= _FEWEST:
        return parts
    whole = reference.pooled()
    random = np.random.default_rng(0)
    # Rows in random order, of which every fifth is in a part: parts of equal size.
    left, drawn = whole.rows.copy(), []
    for part in range(FOLDS - 1):
        n = int(left.sum()) // (FOLDS - part)
        drawn.append(_drawn(random, left, n))
        left = left - drawn[-1]
    return [_with_rows(whole, rows) for rows in (*drawn, left)]


def _drawn(random: np.random.Generator, rows: Counts, n: int) -> Counts:
    """Draw ``n`` of the rows of several cells without replacement: exactly for few rows, else in proportion."""
    total = int(rows.sum())
    if total < 10**9:  # the limit of numpy's sampler
        return random.multivariate_hypergeometric(rows, n, method="marginals")
    return np.asarray(np.floor(rows * (n / total)), dtype=np.int64)


def _with_rows(whole: Tally, rows: Counts) -> Tally:
    filled = rows > 0
    means = whole.p_sum[filled] / whole.rows[filled]
    return Tally(whole.keys[filled], rows[filled], means * rows[filled])


def _of(tally: Tally, chosen: Mask) -> Tally:
    return Tally(tally.keys[chosen] % _PER_FOLD, tally.rows[chosen], tally.p_sum[chosen])


def all_rows(rows_of_window: Estimated) -> Tally:
    """All rows of the window, with outcome 0: their labels take no part."""
    labelled = rows_of_window.labelled.pooled()
    outcomes = [labelled.keys & np.uint32(1) == outcome for outcome in (0, 1)]
    halves = [Tally(labelled.keys[at] & ~np.uint32(1), labelled.rows[at], labelled.p_sum[at]) for at in outcomes]
    return merged([rows_of_window.unlabelled, *halves])


def _realised(labelled: Tally, event: str, threshold: float) -> dict[str, float | None]:
    """The figures of labelled rows."""
    if not len(labelled):
        return {}
    rows = labelled.event()
    w = np.ones(len(rows)) if rows.w is None else rows.w
    confident = event == "confidence"
    decided = np.full(len(rows), True) if confident else rows.p >= threshold
    figures = binary_figures(rows.y.astype(np.float64), rows.p, decided, w, w, of_confidence=confident)
    return {
        name: value if math.isfinite(value) else None
        for name, value in zip(figures.names, figures.values.tolist(), strict=True)
    }


def _confusion(labelled: Tally, threshold: float) -> list[list[float]]:
    rows = labelled.event()
    w = np.ones(len(rows)) if rows.w is None else rows.w
    counts = np.zeros((2, 2))
    np.add.at(counts, (rows.y, (rows.p >= threshold).astype(np.int64)), w)
    return [[float(n) for n in row] for row in counts]


def _figure(estimate: PerformanceEstimate | None, name: str, realised: float | None) -> EstimatedReading:
    estimated = None if estimate is None else estimate.figures.get(name)
    if estimated is None:
        return EstimatedReading(realised=realised)
    return EstimatedReading(estimated=estimated.value, interval=(estimated.low, estimated.high), realised=realised)


def _listed(estimate: PerformanceEstimate | None, name: str) -> list[list[float]] | None:
    array = getattr(estimate, name)
    return None if array is None else [[float(n) for n in row] for row in array]
