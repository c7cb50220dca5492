"""Several lines over time with a bound, areas from zero over time, and the groups of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.plots.canvas import BODY, Canvas, Drawn, Format, Role, Theme, cleaned, shortened
from calibrant.plots.canvas import width as width_of
from calibrant.plots.over_time import ALARM, time_ticks
from calibrant.plots.panel import MARGIN, Key, Panel, Range, beside, count, decimal, evenly, heading, reach, rows_of

_TALL, _BELOW = 170.0, 46.0
#: Height of a group, and the largest part of the width for names of groups.
_ROW, _NAMES = 22.0, 0.4
_AXIS = "time of prediction (UTC)"
_ROLES: tuple[Role, ...] = ("first", "second")
_TINTS: tuple[Role, ...] = ("first-tint", "second-tint")

Array = npt.NDArray[np.float64]


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
        return canvas.drawn(top + _TALL + _BELOW, title, f"{title}: {chart['empty']}.")
    # An alarm is raised after its rows were predicted, so perhaps after the last span.
    alarms = [min(at, chart["spans"][-1][1]) for at in chart["alarms"] if at >= chart["spans"][0][0]]
    top = heading(canvas, title, [], _keys(chart, alarms))
    ends = [end for line in lines for pair in line["intervals"] or () if pair is not None for end in pair]
    y = reach([*seen, *ends, *([] if bound is None else [bound["value"]]), *([0.0] if chart["filled"] else [])])
    marks = evenly(*y, 5)
    left = MARGIN + beside(marks, chart["axis"])
    spans = np.asarray(chart["spans"], dtype=np.float64)
    x = float(spans[0, 0]), float(spans[-1, 1])
    panel = Panel(canvas, (left, top, width - left - 2 * MARGIN, _TALL), x, y)
    for i, line in enumerate(lines):
        (_filled if chart["filled"] else _line)(panel, spans, line, i)
    for at in alarms:
        panel.line([at] * 2, list(y), ALARM.colour, width=1.4, dash=ALARM.dash)
    if bound is not None:
        panel.line(list(x), [bound["value"]] * 2, "ink", width=1.2, dash=(2.0, 3.0))
    panel.side(marks, chart["axis"])
    panel.base(time_ticks(*x, panel.box[2]), _AXIS)
    return canvas.drawn(top + _TALL + _BELOW, title, _describe(chart, len(alarms)))


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


def _keys(chart: Mapping[str, Any], alarms: Sequence[float]) -> list[Key]:
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


def _describe(chart: Mapping[str, Any], alarms: int) -> str:
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
        return canvas.drawn(top + _TALL + _BELOW, title, "Groups: no labelled rows with a group.")
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
