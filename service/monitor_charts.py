"""The charts of a monitor's page, drawn from its timeline and the groups of a window."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from backend.monitors.answers import MonitorReader
from backend.monitors.kinds import kind_of_monitor
from backend.monitors.rules.catalogue import RULE_TYPES
from backend.monitors.rules.evidence import EVIDENCE
from backend.monitors.timeline import TimelinePoint, frequency_interval
from backend.store.clock import seconds
from calibrant.plots.canvas import Drawn
from calibrant.plots.over_time import draw_groups, draw_timeline
from schemas.monitor_alarms import AlarmData
from schemas.monitor_answers import RowsReading
from schemas.monitors import MonitorRecord

#: Pixels of a chart.
WIDTH = 420
#: Number of groups in their chart.
MOST_GROUPS = 12
_LN_10 = math.log(10.0)
_NO_LABELS = "no labelled rows yet"
#: Units of a delay: their seconds and names.
_UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


@dataclass(frozen=True)
class ChartData:
    """What the charts show: the points over time, the groups of a window, and the times of alarms by rule."""

    record: MonitorRecord
    measure: str
    points: Sequence[TimelinePoint]
    groups: Mapping[str, RowsReading]
    alarms: Sequence[tuple[float, AlarmData]]


def raised_alarms(reader: MonitorReader) -> list[tuple[float, AlarmData]]:
    """The raised alarms of a monitor, oldest first, with their times."""
    return [(seconds(event.timestamp), event.data) for event in reader.raised() if isinstance(event.data, AlarmData)]


def chart_titles(record: MonitorRecord, measure: str) -> dict[str, str]:
    """The title of each chart that a monitor has, by its key in URLs."""
    titles = {"error": f"Calibration error: {measure}"}
    if EVIDENCE.among(record.rules):
        titles["evidence"] = "Evidence against calibration"
    return titles | kind_of_monitor(record).chart_titles


def chart_of(data: ChartData, key: str) -> Callable[[], Drawn]:
    """The function that draws one chart."""
    return partial(_DRAWN[key], data)


def _chart(data: ChartData, key: str, axis: str, lines: Sequence[Mapping[str, Any]], **more: Any) -> Drawn:
    chart = {
        "title": chart_titles(data.record, data.measure)[key],
        "axis": axis,
        "spans": [(point.start, point.end) for point in data.points],
        "lines": lines,
        "filled": False,
        "bound": None,
        "alarms": [
            at
            for at, alarm in data.alarms
            if key in RULE_TYPES[alarm.kind].charts and alarm.measure in (None, data.measure)
        ],
        "empty": _NO_LABELS,
    }
    return draw_timeline(chart | more, width=WIDTH)


def _error(data: ChartData) -> Drawn:
    points = data.points
    line = {
        "name": data.measure,
        "values": [point.error for point in points],
        "intervals": [point.error_interval for point in points],
    }
    return _chart(data, "error", data.measure, [line])


def _evidence(data: ChartData) -> Drawn:
    alpha = min(rule.alpha for rule in EVIDENCE.among(data.record.rules))
    since = [(point, point.log_e / _LN_10) for point in data.points if point.log_e is not None]
    line = {"name": "evidence", "values": [value for _, value in since], "intervals": None}
    spans = [(point.start, point.end) for point, _ in since]
    bound = {"name": f"threshold: e-value {1.0 / alpha:,.0f}", "value": -math.log10(alpha)}
    data = replace(data, alarms=[(at, alarm) for at, alarm in data.alarms if at >= data.record.started_at])
    empty = "no rows since the evidence started"
    return _chart(data, "evidence", "log10 of the e-value", [line], spans=spans, bound=bound, empty=empty)


def _frequency(data: ChartData) -> Drawn:
    points = data.points
    observed = {
        "name": "observed",
        "values": [point.observed for point in points],
        "intervals": [point.observed_interval for point in points],
    }
    predicted = {"name": "predicted", "values": [point.predicted for point in points], "intervals": None}
    return _chart(data, "frequency", "frequency", [observed, predicted])


def _volume(data: ChartData) -> Drawn:
    predictions = {"name": "predictions", "values": [point.predictions for point in data.points], "intervals": None}
    labelled = {"name": "with a label", "values": [point.rows for point in data.points], "intervals": None}
    return _chart(data, "volume", "rows", [predictions, labelled], filled=True, empty="no rows yet")


def _delay(data: ChartData) -> Drawn:
    longest = max((point.delay[1] for point in data.points if point.delay), default=0.0)
    unit, name = next((unit_and_name for unit_and_name in _UNITS if longest >= 2.0 * unit_and_name[0]), _UNITS[-1])
    lines = [
        {
            "name": label,
            "values": [None if point.delay is None else point.delay[i] / unit for point in data.points],
            "intervals": None,
        }
        for i, label in enumerate(("median", "90th percentile"))
    ]
    return _chart(data, "delay", name, lines)


def _groups(data: ChartData) -> Drawn:
    shown = []
    for name, rows in list(data.groups.items())[:MOST_GROUPS]:
        interval = frequency_interval(rows.label_rate, rows.rows)
        if interval is not None:
            values = {"predicted": rows.mean_prediction, "observed": rows.label_rate, "interval": interval}
            shown.append({"name": name, "rows": rows.rows, **values})
    return draw_groups(shown, width=WIDTH)


_DRAWN: Mapping[str, Callable[[ChartData], Drawn]] = {
    "error": _error,
    "evidence": _evidence,
    "frequency": _frequency,
    "volume": _volume,
    "delay": _delay,
    "groups": _groups,
}
