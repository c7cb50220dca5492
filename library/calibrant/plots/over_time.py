"""Charts over time: a measure with its alarms, lines with a bound, areas from zero; and the groups of a window."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.plots.canvas import BODY, Canvas, Caption, Drawn, Format, NothingToDraw, Role, Theme, cleaned, shortened
from calibrant.plots.canvas import width as width_of
from calibrant.plots.panel import (
    MARGIN,
    Key,
    Panel,
    Range,
    Ticks,
    about_lines,
    about_sentence,
    beside,
    count,
    decimal,
    evenly,
    heading,
    notes,
    reach,
    rows_of,
)

_KIND = "Over time"
_TALL, _BELOW = 260.0, 46.0
_AXIS = "time of prediction (UTC)"
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
    panel.base(time_ticks(*x, panel.box[2]), _AXIS)
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


# --- Lines with a bound, areas from zero, and groups

_LOW = 170.0
#: Height of a group, and the largest part of the width for names of groups.
_ROW, _NAMES = 22.0, 0.4
_ROLES: tuple[Role, ...] = ("first", "second")
_TINTS: tuple[Role, ...] = ("first-tint", "second-tint")


def draw_timeline(chart: Mapping[str, Any], *, form: Format = "svg", theme: Theme = "auto", width: int = 420) -> Drawn:
    """Draw one or two lines over time, or areas from zero.

    Parameters
    ----------
    chart : mapping
        ``title`` and ``axis``; ``spans (m, 2)``, starts and ends in seconds since 1970; ``lines``, one or two mappings
        with ``name``, ``values (m,)`` with None for no value, and ``intervals (m,)`` or None; ``filled``, whether they
        are areas from zero; ``bound``, a mapping with ``name`` and ``value``, or None; ``alarms``, seconds since 1970,
        drawn at the end of the last span if they are later; and ``empty``, the text of a chart without values.
    form, theme, width
        As for ``calibrant.plots.diagram.draw``.

    Returns
    -------
    Drawn
        A chart without values has ``empty`` in place of the panel.
    """
    canvas = Canvas(width, theme=theme, form=form)
    title, lines, bound = chart["title"], chart["lines"], chart["bound"]
    seen = [value for line in lines for value in line["values"] if value is not None]
    if not seen:
        top = heading(canvas, title, [], [])
        canvas.text(MARGIN, top + 24.0, chart["empty"], size=BODY)
        return canvas.drawn(top + _LOW + _BELOW, title, f"{title}: {chart['empty']}.")
    # An alarm is raised after its rows were predicted, so perhaps after the last span.
    alarms = [min(at, chart["spans"][-1][1]) for at in chart["alarms"] if at >= chart["spans"][0][0]]
    top = heading(canvas, title, [], _line_keys(chart, alarms))
    ends = [end for line in lines for pair in line["intervals"] or () if pair is not None for end in pair]
    y = reach([*seen, *ends, *([] if bound is None else [bound["value"]]), *([0.0] if chart["filled"] else [])])
    marks = evenly(*y, 5)
    left = MARGIN + beside(marks, chart["axis"])
    spans = np.asarray(chart["spans"], dtype=np.float64)
    x = float(spans[0, 0]), float(spans[-1, 1])
    panel = Panel(canvas, (left, top, width - left - 2 * MARGIN, _LOW), x, y)
    for i, line in enumerate(lines):
        (_filled if chart["filled"] else _line)(panel, spans, line, i)
    for at in alarms:
        panel.line([at] * 2, list(y), ALARM.colour, width=1.4, dash=ALARM.dash)
    if bound is not None:
        panel.line(list(x), [bound["value"]] * 2, "ink", width=1.2, dash=(2.0, 3.0))
    panel.side(marks, chart["axis"])
    panel.base(time_ticks(*x, panel.box[2]), _AXIS)
    return canvas.drawn(top + _LOW + _BELOW, title, _describe_lines(chart, len(alarms)))


def _line(panel: Panel, spans: Array, line: Mapping[str, Any], place: int) -> None:
    """Draw the values at the middle of their spans, connected between neighbours, over their intervals."""
    values = np.array([np.nan if value is None else value for value in line["values"]], dtype=np.float64)
    boxes = [(*span, *pair) for span, pair in zip(spans, line["intervals"] or [], strict=False) if pair is not None]
    if boxes:
        start, end, low, high = np.array(boxes).T
        corners = np.stack([start, end, end, start], axis=1)
        panel.areas(corners, np.stack([low, low, high, high], axis=1), _TINTS[place])
    there = np.flatnonzero(np.isfinite(values))
    middle = spans.mean(axis=1)
    apart = (np.diff(there) > 1) | (spans[there[1:], 0] > spans[there[:-1], 1])
    for run in np.split(there, np.flatnonzero(apart) + 1):
        panel.line(middle[run], values[run], _ROLES[place], width=1.6, dash=(5.0, 2.0) if place else None)
    panel.dots(middle[there], values[there], 2.0, _ROLES[place], stroke="paper", square=place > 0)


def _filled(panel: Panel, spans: Array, line: Mapping[str, Any], place: int) -> None:
    values = np.array([value or 0.0 for value in line["values"]], dtype=np.float64)
    corners = np.stack([spans[:, 0], spans[:, 1], spans[:, 1], spans[:, 0]], axis=1)
    heights = np.stack([values * 0.0, values * 0.0, values, values], axis=1)
    panel.areas(corners, heights, "first" if place else "first-tint")


def _line_keys(chart: Mapping[str, Any], alarms: Sequence[float]) -> list[Key]:
    keys = []
    for i, line in enumerate(chart["lines"]):
        if chart["filled"]:
            keys.append(Key(line["name"], "first" if i else "first-tint", "area"))
        else:
            keys.append(Key(line["name"], _ROLES[i], dash=(5.0, 2.0) if i else ()))
            if line["intervals"] is not None and any(pair is not None for pair in line["intervals"]):
                keys.append(Key("interval", _TINTS[i], "area"))
    if chart["bound"] is not None:
        keys.append(Key(chart["bound"]["name"], "ink", dash=(2.0, 3.0)))
    if alarms:
        keys.append(ALARM)
    return keys


def _describe_lines(chart: Mapping[str, Any], alarms: int) -> str:
    parts = []
    for line in chart["lines"]:
        values = [value for value in line["values"] if value is not None]
        if values:
            show = count if chart["filled"] else decimal
            parts.append(f"{line['name']}: minimum {show(min(values))}, maximum {show(max(values))}, "
                         f"last {show(values[-1])}")  # fmt: skip
    if chart["bound"] is not None:
        parts.append(f"{chart['bound']['name']}: {decimal(chart['bound']['value'])}")
    parts.append(f"alarms raised: {alarms}")
    return f"{chart['title']}, {len(chart['spans'])} time spans. " + "; ".join(parts) + "."


def draw_groups(
    groups: Sequence[Mapping[str, Any]], *, form: Format = "svg", theme: Theme = "auto", width: int = 420
) -> Drawn:
    """Draw the mean prediction and the observed frequency of each group, with its interval.

    Parameters
    ----------
    groups : sequence of mappings
        ``name``, ``rows``, ``predicted``, ``observed`` and ``interval`` of each group, in the order of drawing; may be
        empty.
    form, theme, width
        As for ``calibrant.plots.diagram.draw``.
    """
    canvas, title = Canvas(width, theme=theme, form=form), "Groups"
    if not groups:
        top = heading(canvas, title, [], [])
        canvas.text(MARGIN, top + 24.0, "no labelled rows with a group", size=BODY)
        return canvas.drawn(top + _LOW + _BELOW, title, "Groups: no labelled rows with a group.")
    keys = [Key("observed frequency", "first", "dot"), Key("interval", "first-tint", "area")]
    keys.append(Key("mean prediction", "second", "square"))
    top = heading(canvas, title, [], keys)
    room = _NAMES * width
    names = [shortened(f"{cleaned(group['name'])} ({count(group['rows'])})", room, BODY) for group in groups]
    left = MARGIN + max(width_of(name, BODY) for name in names) + 10.0
    x: Range = reach([end for group in groups for end in (group["predicted"], group["observed"], *group["interval"])])
    n = len(groups)
    panel = Panel(canvas, (left, top, width - left - 2 * MARGIN, _ROW * n), x, (0.0, float(n)))
    at = n - 0.5 - np.arange(n)
    for name, place, group in zip(names, at, groups, strict=True):
        panel.between(list(group["interval"]), [place - 0.25] * 2, [place + 0.25] * 2, "first-tint")
        canvas.text(left - 8.0, float(panel.at(x[0], place)[1]) + 4.0, name, size=BODY, colour="ink", anchor="end")
    panel.dots([group["observed"] for group in groups], at, 3.2, "first", stroke="paper")
    panel.dots([group["predicted"] for group in groups], at, 2.8, "second", stroke="paper", square=True)
    panel.base(evenly(*x, 5), "frequency")
    listed = "; ".join(
        f"{cleaned(group['name'])}: {rows_of(group['rows'])}, observed {decimal(group['observed'])}, "
        f"predicted {decimal(group['predicted'])}"
        for group in groups
    )
    return canvas.drawn(top + _ROW * n + _BELOW, title, f"Groups. {listed}.")
