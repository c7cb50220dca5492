"""A measure over time, with its interval and the alarms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.plots.canvas import Canvas, Caption, Drawn, Format, NothingToDraw, Theme, cleaned
from calibrant.plots.panel import (
    MARGIN,
    Key,
    Panel,
    Ticks,
    about_lines,
    about_sentence,
    beside,
    decimal,
    evenly,
    heading,
    notes,
    reach,
)

_KIND = "Over time"
_TALL, _BELOW = 260.0, 46.0
#: Steps between ticks in seconds, and the format of their labels.
_STEPS = (
    *((60 * minutes, "%H:%M") for minutes in (1, 2, 5, 10, 30)),
    *((3600 * hours, "%H:%M") for hours in (1, 2, 3, 6, 12)),
    *((86_400 * days, "%d %b") for days in (1, 2, 5, 10, 30, 60, 180)),
)
#: The first and the last moment with a date.
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC).timestamp(), datetime.max.replace(tzinfo=UTC).timestamp() - 1.0
#: The legend entry of an alarm, in a colour that no line over time has.
ALARM = Key("alarm raised", "fourth", dash=(4.0, 3.0))
#: Pixels of a tick label.
_APART = 62.0
#: The most alarms that the alternative text lists.
_DESCRIBED = 5

Array = npt.NDArray[np.float64]


def draw_over_time(
    series: Mapping[str, Any], about: Caption, *, form: Format = "svg", theme: Theme = "auto", width: int = 560
) -> Drawn:
    """Draw a measure over time.

    Parameters
    ----------
    series : mapping
        ``measure``, the name for the axis; ``points``, each with ``start`` and ``end`` in seconds since 1970, ``value``
        and ``interval``, which may be None; and ``alarms``, each with ``at`` and ``rule``. Adjacent points are
        connected.
    about : Caption
        Rows, reduction and name for the title.
    form, theme, width
        As for ``calibrant.plots.diagram.draw``.

    Raises
    ------
    NothingToDraw
        If no point has a value.
    """
    points = [point for point in series["points"] if point["value"] is not None]
    if not points:
        raise NothingToDraw("no time span has a value")
    name = cleaned(series["measure"])
    canvas = Canvas(width, theme=theme, form=form)
    title, lines = about_lines(f"{name} over time", about, None)
    alarms = [alarm for alarm in series["alarms"] if points[0]["start"] <= alarm["at"] <= points[-1]["end"]]
    top = heading(canvas, title, lines, _keys(points, alarms))
    y = reach([end for point in points for end in (point["value"], *(point["interval"] or ()))])
    marks = evenly(*y, 6)
    left = MARGIN + beside(marks, name)
    x = float(points[0]["start"]), float(points[-1]["end"])
    panel = Panel(canvas, (left, top, width - left - 2 * MARGIN, _TALL), x, y)
    for alarm in alarms:
        panel.line([alarm["at"]] * 2, list(y), ALARM.colour, width=1.4, dash=ALARM.dash)
    for run in _runs(points):
        _run(panel, run)
    panel.side(marks, name)
    panel.base(time_ticks(*x, panel.box[2]), "time of prediction (UTC)")
    return canvas.drawn(notes(canvas, top + _TALL + _BELOW, []), title, _describe(name, about, points, alarms))


def _keys(points: Sequence[Mapping[str, Any]], alarms: Sequence[Mapping[str, Any]]) -> list[Key]:
    keys = [Key("value", "first", "dot", ())]
    if any(point["interval"] is not None for point in points):
        keys.append(Key("interval", "first-tint", "area"))
    if alarms:
        keys.append(ALARM)
    return keys


def _run(panel: Panel, points: Sequence[Mapping[str, Any]]) -> None:
    """Draw connected points: their intervals as steps, and a line through their values."""
    middle = np.array([(point["start"] + point["end"]) / 2.0 for point in points])
    for point in points:
        if point["interval"] is not None:
            low, high = point["interval"]
            panel.between([point["start"], point["end"]], [low, low], [high, high], "first-tint")
    value = np.array([point["value"] for point in points], dtype=float)
    panel.line(middle, value, "first", width=1.6)
    panel.dots(middle, value, max(1.4, 2.6 - len(points) / 100.0), "first", stroke="paper")


def _runs(points: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Split the points at gaps in time."""
    runs: list[list[Mapping[str, Any]]] = []
    for point in points:
        if runs and point["start"] <= runs[-1][-1]["end"]:
            runs[-1].append(point)
        else:
            runs.append([point])
    return runs


def time_ticks(start: float, end: float, room: float) -> Ticks:
    """Return ticks at round times in UTC that have room for their labels."""
    most = max(2.0, room / _APART)
    start, end = max(start, _FIRST), min(end, _LAST)
    fitting = [(step, form) for step, form in _STEPS if (end - start) / step <= most]
    if not fitting:
        return _years(start, end, most)
    step, form = fitting[0]
    places = [step * k for k in range(math.ceil(start / step), math.floor(end / step) + 1)]
    return places, [datetime.fromtimestamp(place, UTC).strftime(_form(place, step, form)) for place in places]


def _years(start: float, end: float, most: float) -> Ticks:
    """Return ticks at the first days of round years."""
    first, last = (datetime.fromtimestamp(moment, UTC).year for moment in (start, end))
    step = next(step for k in range(5) for step in (10**k, 2 * 10**k, 5 * 10**k) if (last - first) / step <= most)
    years = range(first + (-first) % step, last + 1, step)
    starts = [(datetime(year, 1, 1, tzinfo=UTC).timestamp(), str(year)) for year in years]
    inside = [(place, label) for place, label in starts if start <= place <= end]
    return [place for place, _ in inside], [label for _, label in inside]


def _form(place: float, step: float, form: str) -> str:
    """Return the format of a time; midnight is written as the day."""
    return "%d %b" if step < 86_400 and place % 86_400 == 0 else form


def _describe(
    name: str, about: Caption, points: Sequence[Mapping[str, Any]], alarms: Sequence[Mapping[str, Any]]
) -> str:
    values = [float(point["value"]) for point in points]
    last = points[-1]
    text = (
        f"{name} over time{about_sentence(about, None)} From {_moment(points[0]['start'])} to {_moment(last['end'])}, "
        f"{len(points)} time spans: minimum {decimal(min(values))}, maximum {decimal(max(values))}, "
        f"last {decimal(values[-1])}"
    )
    if last["interval"] is not None:
        text += f", interval {decimal(last['interval'][0])} to {decimal(last['interval'][1])}"
    listed = "; ".join(f"{cleaned(alarm['rule'])} at {_moment(alarm['at'])}" for alarm in alarms[-_DESCRIBED:])
    return f"{text}. " + (f"Alarms raised: {len(alarms)}; {listed}." if alarms else "No alarms were raised.")


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
