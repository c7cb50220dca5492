"""Readings of a tally: measures with intervals, the reliability diagram, counts and delays."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from backend.monitors.forecasts import measure_pit, read_forecast_measures, read_pit
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption
from calibrant.core.reductions import Event
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import Extent, Measure, MeasureRequest, MeasureResult, answers
from calibrant.monitoring.tally import CELLS, Tally, tally_of
from schemas.monitor_answers import (
    MeasureReading,
    PitReading,
    PlainFields,
    Readings,
    ReliabilityReading,
    RowsReading,
)
from schemas.monitors import Counts, MonitorBody, MonitorRecord

# --- The measures that a tally supports: of one event, quick, and equal for cells and rows

#: The extent of a tally with all cells: one row per cell and outcome.
_EXTENT = Extent(2 * CELLS)
#: Measures with a longer estimate are not supported.
_MOST_SECONDS = 0.5
#: Measures of the whole probability vector, which a tally does not store.
_OF_VECTORS = ("optimal-temperature", "ece-after-temperature", "ece-temperature")


def read_measures(measures: Sequence[str | Mapping[str, Any]], reduction: str) -> tuple[MeasureRequest, ...]:
    """Read a monitor's measures; raises ``UnknownMeasure`` or ``InvalidOption`` at ``/measures/i``."""
    requests = read_requests(list(measures))
    for i, request in enumerate(requests):
        reason = _hindered(request, reduction)
        if reason is not None:
            raise InvalidOption.at(f"/measures/{i}", f"is not supported by monitors: {reason}")
    return requests


def measure_keys(body: MonitorBody) -> list[str]:
    """The keys of a monitor's measures, in order."""
    return list(numbers_by_measure(body))


def numbers_by_measure(body: MonitorBody) -> dict[str, Callable[[], Sequence[str]]]:
    """For the key of each measure the function that returns which of its numbers a rule may compare.

    Raises ``UnknownMeasure`` or ``InvalidOption`` at ``/measures/i``.
    """
    if body.forecast is not None:
        requests = read_forecast_measures(body)
        return {key: partial(_of_forecast, measure.name, body.interval) for key, measure, _ in requests}
    reduction = body.reduction or "binary"
    found = read_measures(body.measures, reduction)
    return {request.key: partial(numbers_of, request, reduction, body.interval) for request in found}


def _of_forecast(name: str, level: float | None) -> list[str]:
    """Which of ``value``, ``lower`` and ``debiased`` a measure of forecasts provides."""
    lower = ["lower"] if level is not None and name in ("quantile-calibration-error", "coverage") else []
    return ["value", *lower]


def has_interval(measure: Measure) -> bool:
    """Whether the interval of a measure needs no resampling of rows, which a tally does not have."""
    return measure.own_interval or measure.distance is not None or measure.influence is not None


def _hindered(request: MeasureRequest, reduction: str) -> str | None:
    """The reason why a tally does not support a measure, if any."""
    measure = request.measure
    if measure.event is None:
        return "it needs the whole probability vector, and a monitor stores one event per row"
    if measure.runs == "job":
        return "it needs a long fit"
    if request.options.get("binning") == "exact":
        return "exact binning needs individual predictions, and a monitor stores cells"
    if reduction != "binary" and measure.name in _OF_VECTORS:
        return "with this reduction it needs the whole probability vector"
    if request.seconds(_EXTENT, PLAIN) > _MOST_SECONDS:
        return "it takes too long"
    return None


# --- A coarser event for intervals, which need no fine grid and whose cost grows with it

#: Number of blocks of equal mass.
BLOCKS = 256


def coarse(event: Event) -> Event:
    """Group the cells of a weighted event into at most ``BLOCKS`` blocks of about equal mass.

    All rows of a block have its mean p, like the rows of a cell. A cumulative difference is evaluated at the ends of
    blocks, where it is exact; between two ends its supremum is larger by at most 1/256 of the rows times a gap.
    O(cells).
    """
    if event.w is None or len(event) <= 2 * BLOCKS:
        return event
    order = np.argsort(event.p, kind="stable")
    p, y, w = event.p[order], event.y[order], event.w[order]
    cells = np.cumsum(np.diff(p, prepend=-1.0) > 0.0) - 1
    mass = np.bincount(cells, w)
    middle = np.cumsum(mass) - mass / 2.0
    block = np.minimum(middle / mass.sum() * BLOCKS, BLOCKS - 1).astype(np.int64)[cells]
    p_mean = np.bincount(block, w * p, BLOCKS) / np.maximum(np.bincount(block, w, BLOCKS), 1.0)
    rows: Floats = np.bincount(2 * block + y, w, 2 * BLOCKS).astype(np.float64)
    there = np.flatnonzero(rows)
    return Event(p_mean[there // 2], (there % 2).astype(np.int8), rows[there], event.kind, event.decided)


# --- Measures with their intervals, and the reliability diagram

Value = TypeVar("Value")

#: Resamples of an interval: its ends are accurate to a seventh of a standard error, in 1 to 10 ms per measure.
RESAMPLES = 400
#: Number of readings that a process caches.
_MOST_KEPT = 2048
_NO_INTERVAL = "no interval: it needs resampling of rows, and a monitor stores cells"
_DIAGRAM = read_diagrams(["reliability"])[0]
#: Measures whose intervals use blocks; otherwise they would take ten times as long.
_ROUGH = ("Cumulative calibration errors", "Smooth calibration errors")
#: Reductions whose event is that a decision is right.
_DECIDED = ("confidence", "top:")


class ReadingsCache:
    """A cache of results, keyed by everything that they depend on."""

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._turn = Lock()

    def of(self, tally: Tally, question: object, compute: Callable[[], Value]) -> Value:
        """The result of ``compute`` for a tally; ``question`` identifies the computation, as plain JSON."""
        key = _digest(tally, question)
        with self._turn:
            if key in self._kept:
                self._kept.move_to_end(key)
                held: Value = self._kept[key]
                return held
        found = compute()
        with self._turn:
            self._kept[key] = found
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return found


def _digest(tally: Tally, question: object) -> bytes:
    digest = hashlib.blake2b(orjson.dumps(question), digest_size=24)
    for array in (tally.keys, tally.rows, tally.p_sum):
        digest.update(array.tobytes())
    return digest.digest()


def event_of(tally: Tally, reduction: str) -> Event:
    """The rows of a tally as the event that they were counted for; raises ``EmptyBatch``."""
    return replace(tally.event(), decided=reduction.startswith(_DECIDED))


def read_rows(tally: Tally, record: MonitorRecord, memory: ReadingsCache, *, intervals: bool) -> RowsReading:
    """The measures of some rows, their mean prediction and event rate; without rows every measure has a problem."""
    question: list[object] = [record.measures, record.reduction, record.interval if intervals else None]
    if record.forecast is not None:
        question.append(record.forecast.model_dump())
    return memory.of(tally, ["rows", *question], lambda: _rows(tally, record, intervals=intervals))


def read_diagram(tally: Tally, record: MonitorRecord, memory: ReadingsCache) -> ReliabilityReading | None:
    """The reliability diagram of some rows, as in ``POST /diagrams``; None without rows."""
    shown = None if record.forecast is not None else diagram_of(tally, record, memory)
    return None if shown is None or shown["data"] is None else ReliabilityReading.model_validate(shown["data"])


def read_window_pit(tally: Tally, record: MonitorRecord, memory: ReadingsCache) -> PitReading | None:
    """The PIT histogram of some rows of a monitor of regression; None for other monitors and without rows."""
    if record.forecast is None:
        return None
    return memory.of(tally, ["pit", record.forecast.model_dump()], lambda: read_pit(tally, record))


def diagram_of(tally: Tally, record: MonitorRecord, memory: ReadingsCache) -> Mapping[str, Any] | None:
    """The reliability diagram, or the PIT histogram of regression, with its definition as in reports."""
    reduction = record.reduction or "binary"
    if not len(tally.rows):
        return None
    if record.forecast is not None:
        found = read_window_pit(tally, record, memory)
        data = None if found is None else found.model_dump(exclude={"count", "intervals"})
        return {"data": data, "definition": {"name": "pit", "level": 0.95}, "problem": None}
    return memory.of(tally, ["diagram", reduction], lambda: _drawn(tally, reduction))


def _drawn(tally: Tally, reduction: str) -> dict[str, Any]:
    """The diagram with row counts; the diagram itself treats each cell and outcome as one weighted row."""
    shown, n = _DIAGRAM.drawn(event_of(tally, reduction)), len(tally)
    data = shown["data"]
    if data is None:
        return shown
    count = [round(share * n) for share in data["histogram"]["share"]]
    return shown | {"data": data | {"count": data["rows"], "histogram": data["histogram"] | {"count": count}}}


def rates(tally: Tally) -> tuple[int, float | None, float | None]:
    """The number of rows, their mean prediction and their event rate."""
    n = len(tally)
    if not n:
        return 0, None, None
    return n, float(tally.p_sum.sum()) / n, int(tally.rows[tally.keys & 1 == 1].sum()) / n


def definitions(record: MonitorRecord) -> dict[str, PlainFields]:
    """The full definition of each measure."""
    if record.forecast is not None:
        return {key: {"name": measure.name, **options} for key, measure, options in read_forecast_measures(record)}
    requests = read_measures(record.measures, record.reduction or "binary")
    return {request.key: {"name": request.measure.name, **request.options} for request in requests}


def _rows(tally: Tally, record: MonitorRecord, *, intervals: bool) -> RowsReading:
    if record.forecast is not None:
        results = measure_pit(tally, record, record.interval if intervals else None)
        measures = {key: _reading(result, None) for key, result in results.items()}
        return RowsReading(rows=len(tally), mean_prediction=None, label_rate=None, measures=measures)
    n, mean_prediction, label_rate = rates(tally)
    requests = read_measures(record.measures, record.reduction or "binary")
    if n:
        level = record.interval if intervals else None
        found = measured(requests, event_of(tally, record.reduction or "binary"), level)
    else:
        found = {
            request.key: MeasureReading(value=None, problem="no value: no row has a label yet") for request in requests
        }
    return RowsReading(rows=n, mean_prediction=mean_prediction, label_rate=label_rate, measures=found)


def measured(requests: Sequence[MeasureRequest], event: Event, level: float | None) -> Readings:
    """Every measure of an event in order, for responses and rules."""
    ranged = Resampling(level, RESAMPLES)
    own = [request for request in requests if request.measure.own_interval]
    others = [request for request in requests if not request.measure.own_interval]
    found = answers(own, event, ranged) | answers(others, event, Resampling(None, RESAMPLES))
    rough, readings = coarse(event), {}
    for request in requests:
        result, missing = found[request.key], None
        if level is not None and not has_interval(request.measure):
            missing = _NO_INTERVAL if request.measure.resampled else None
        elif level is not None and request in others:
            result = request.finished(result, rough if request.measure.family in _ROUGH else event, ranged)
        readings[request.key] = _reading(result, missing)
    return readings


def _reading(result: MeasureResult, missing: str | None) -> MeasureReading:
    return MeasureReading(
        value=result.value,
        debiased=result.debiased,
        interval=result.interval,
        p_value=result.p_value,
        parts={name: part for name, part in result.parts.items() if not isinstance(part, dict)},
        problem=result.problem or missing,
    )


# --- Which values of a measure a rule may compare, found with rows for which every value is defined

#: Enough rows that bins are not empty even for measures with many bins.
_ROWS = 20_000
_GOLDEN = 0.6180339887498949


def numbers_of(request: MeasureRequest, reduction: str, level: float | None) -> list[str]:
    """Which of ``value``, ``lower`` and ``debiased`` a measure provides; ``level`` is that of the interval."""
    reading = measured([request], event_of(_calibrated(), reduction), level)[request.key]
    found = {
        "value": reading.value is not None,
        "lower": reading.interval is not None,
        "debiased": reading.debiased is not None,
    }
    return [name for name, there in found.items() if there]


@lru_cache(maxsize=1)
def _calibrated() -> Tally:
    """Calibrated rows that cover the whole range of predictions."""
    i = np.arange(_ROWS)
    p = (i + 0.5) / _ROWS
    one = np.zeros(_ROWS, dtype=np.int64)
    return tally_of(p, ((i * _GOLDEN) % 1.0 < p).astype(np.int8), one, one)


# --- Counts


def counts_of(totals: Mapping[str, int]) -> Counts:
    """Complete the totals of a ledger with pending and waiting counts: arrived, but neither joined nor expired.

    >>> counts_of({"predictions": 5, "labels": 3, "joined": 2, "expired": 1}).pending
    2
    >>> counts_of({"labels": 3, "joined": 2, "unmatched": 1}).waiting
    0
    """
    found = {name: totals.get(name, 0) for name in Counts.model_fields}
    pending = found["predictions"] - found["joined"] - found["expired"]
    waiting = found["labels"] - found["joined"] - found["unmatched"]
    return Counts.model_validate(found | {"pending": pending, "waiting": waiting})


# --- Label delays, counted in a fixed number of bins

#: Number of bins of delays: the first is below a second, and each later one ends a third further than the one before.
#: The last begins after 650 days, which exceeds any horizon.
BINS = 64
#: The names of the bins in the counts of a time bucket.
FIELDS = tuple(f"d{k}" for k in range(BINS))
_RATIO = 4.0 / 3.0

Bins = npt.NDArray[np.int64]


def place(seconds: Floats) -> Bins:
    """The bin of each delay: ``(n,)``, 0 to ``BINS`` - 1; 0 s for a label that precedes its prediction. O(n).

    Examples
    --------
    >>> place(np.array([-3.0, 0.5, 1.0, 1.5, 60.0, 1e9])).tolist()
    [0, 0, 1, 2, 15, 63]
    """
    steps = np.log(np.maximum(seconds, 1.0)) / math.log(_RATIO)
    # A boundary belongs to the bin above it, regardless of rounding.
    found = np.where(seconds < 1.0, 0.0, 1.0 + np.floor(steps + 1e-9))
    return np.minimum(found, BINS - 1).astype(np.int64)


def counted(seconds: Floats) -> dict[str, int]:
    """The number of delays in each non-empty bin, by the field of the bin. O(n).

    Examples
    --------
    >>> counted(np.array([0.5, 1.5, 1.6]))
    {'d0': 1, 'd2': 2}
    """
    found = np.bincount(place(seconds), minlength=BINS)
    return {FIELDS[k]: int(found[k]) for k in np.flatnonzero(found)}


def quantiles(counts: Mapping[str, int], shares: Sequence[float]) -> list[float] | None:
    """Quantiles of the delays in seconds, for the given shares of the labels; None without labels.

    Within a bin delays are interpolated logarithmically, so that a quantile is accurate to a third; delays below a
    second count as 0.

    Examples
    --------
    >>> [round(seconds, 3) for seconds in quantiles({"d1": 10}, [0.5]) or ()]
    [1.155]
    """
    rows = np.array([counts.get(field, 0) for field in FIELDS], dtype=np.float64)
    total = np.cumsum(rows)
    if total[-1] <= 0.0:
        return None
    wanted = np.asarray(shares) * total[-1]
    k = np.minimum(np.searchsorted(total, wanted), BINS - 1)
    within = np.clip((wanted - (total[k] - rows[k])) / np.maximum(rows[k], 1.0), 0.0, 1.0)
    return [float(seconds) for seconds in np.where(k == 0, 0.0, _RATIO ** (k - 1.0 + within))]
