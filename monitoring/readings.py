"""What is read off a tally: the measures with their intervals, and the reliability diagram."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, TypeVar

import orjson

from calibrant.diagrams.catalogue import read_diagrams
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureRequest, MeasureResult, answers
from calibrant.reductions import Event
from calibrant.tallies.tally import Tally
from monitoring.coarse import coarse
from monitoring.readable import has_interval, read_measures
from schemas.monitor_answers import MeasureReading, Readings, ReliabilityReading, RowsReading, Told
from schemas.monitors import MonitorRecord

Value = TypeVar("Value")

#: Resamples of an interval: its ends are off by at most a seventh of a standard error, in 1 to 10 ms a measure.
RESAMPLES = 400
#: Readings that a process keeps.
_MOST_KEPT = 2048
_NO_INTERVAL = "no interval: it would resample rows, and a monitor keeps cells"
_DIAGRAM = read_diagrams(["reliability"])[0]
#: Measures whose intervals are read at the ends of blocks: else they take ten times as long.
_ROUGH = ("Cumulative calibration errors", "Smooth calibration errors")
#: Reductions of which the event is that a decision already taken is right.
_DECIDED = ("confidence", "top:")


class Memory:
    """The latest of what was computed, by all that it was computed from: it is the same whenever it is read."""

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._turn = Lock()

    def of(self, tally: Tally, asked: object, compute: Callable[[], Value]) -> Value:
        """What ``compute`` gives of a tally and what is ``asked`` of it, plain JSON."""
        key = _digest(tally, asked)
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


def _digest(tally: Tally, asked: object) -> bytes:
    told = hashlib.blake2b(orjson.dumps(asked), digest_size=24)
    for array in (tally.keys, tally.rows, tally.p_sum):
        told.update(array.tobytes())
    return told.digest()


def event_of(tally: Tally, reduction: str) -> Event:
    """The rows of a tally as the event that they were counted for; raises ``EmptyBatch``."""
    return replace(tally.event(), decided=reduction.startswith(_DECIDED))


def read_rows(tally: Tally, record: MonitorRecord, memory: Memory, *, intervals: bool) -> RowsReading:
    """The measures of some rows, their mean prediction and label rate; of none every measure tells that."""
    asked = [record.measures, record.reduction, record.interval if intervals else None]
    return memory.of(tally, ["rows", *asked], lambda: _rows(tally, record, intervals=intervals))


def read_diagram(tally: Tally, record: MonitorRecord, memory: Memory) -> ReliabilityReading | None:
    """The reliability diagram of some rows, as plain as ``POST /diagrams`` tells it; None of no rows."""
    shown = diagram_of(tally, record, memory)
    return None if shown is None or shown["data"] is None else ReliabilityReading.model_validate(shown["data"])


def diagram_of(tally: Tally, record: MonitorRecord, memory: Memory) -> Mapping[str, Any] | None:
    """The same with its definition, as reports hold diagrams."""
    reduction = record.reduction or "binary"
    if not len(tally.rows):
        return None
    return memory.of(tally, ["diagram", reduction], lambda: _drawn(tally, reduction))


def _drawn(tally: Tally, reduction: str) -> dict[str, Any]:
    """The diagram with the rows counted: to the diagram itself each cell and outcome is one, with a weight."""
    shown, n = _DIAGRAM.drawn(event_of(tally, reduction)), len(tally)
    data = shown["data"]
    if data is None:
        return shown
    count = [round(share * n) for share in data["histogram"]["share"]]
    return shown | {"data": data | {"count": data["rows"], "histogram": data["histogram"] | {"count": count}}}


def rates(tally: Tally) -> tuple[int, float | None, float | None]:
    """The number of rows, their mean prediction and the share of them whose event came true."""
    n = len(tally)
    if not n:
        return 0, None, None
    return n, float(tally.p_sum.sum()) / n, int(tally.rows[tally.keys & 1 == 1].sum()) / n


def definitions(record: MonitorRecord) -> dict[str, Told]:
    """What each measure is, in full."""
    asked = read_measures(record.measures, record.reduction or "binary")
    return {request.key: {"name": request.measure.name, **request.options} for request in asked}


def _rows(tally: Tally, record: MonitorRecord, *, intervals: bool) -> RowsReading:
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
    """Every measure of an event, in the order asked for: as answers tell it, and rules compare it."""
    ranged = Resampling(level, RESAMPLES)
    own = [request for request in requests if request.measure.own_interval]
    others = [request for request in requests if not request.measure.own_interval]
    found = answers(own, event, ranged) | answers(others, event, Resampling(None, RESAMPLES))
    rough, told = coarse(event), {}
    for request in requests:
        result, missing = found[request.key], None
        if level is not None and not has_interval(request.measure):
            missing = _NO_INTERVAL if request.measure.resampled else None
        elif level is not None and request in others:
            result = request.finished(result, rough if request.measure.family in _ROUGH else event, ranged)
        told[request.key] = _reading(result, missing)
    return told


def _reading(result: MeasureResult, missing: str | None) -> MeasureReading:
    return MeasureReading(
        value=result.value,
        debiased=result.debiased,
        interval=result.interval,
        p_value=result.p_value,
        parts={name: part for name, part in result.parts.items() if not isinstance(part, dict)},
        problem=result.problem or missing,
    )
