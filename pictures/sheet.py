"""A diagram of one panel on a sheet of its own: heading, panel, histogram of the rows, and what is to be noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pictures.canvas import SMALL, Canvas
from pictures.drawn import About, Drawn
from pictures.figures import decimal, percent
from pictures.heading import MARGIN, Key, about_lines, about_words, heading
from pictures.lettering import cleaned, shortened
from pictures.panel import Panel, beside, values
from pictures.plot import AFTER, BEFORE, CALIBRATED, Data, Look, Plot, data_of

#: Pixels left of a panel and below it, of the histogram and above it.
_LEFT, _BELOW, _HISTOGRAM, _GAP = 54.0, 46.0, 44.0, 26.0
_TICKS = 6
#: Panels are square up to this height.
_TALLEST = 400.0

Shown = tuple[Mapping[str, Any], About]


def one_panel(canvas: Canvas, plot: Plot, before: Shown, after: Shown | None) -> Drawn:
    """The diagram, or that before a map and that after it, one over the other."""
    shown = [before] if after is None else [before, after]
    looks: list[Look] = [BEFORE, AFTER][: len(shown)]
    every = [data_of(one) for one, _ in shown]
    about = before[1]
    error = plot.error(every[0])
    title, lines = about_lines(plot.kind, about, error)
    if after is None:
        keys = plot.keys(every[0], before[0].get("definition") or {}, BEFORE)
    else:
        lines, keys = lines[:1], both_keys(plot, shown, every)
    top = heading(canvas, title, lines, keys)
    x, y = plot.window(every)
    upright = plot.places(*y, _TICKS)
    left = max(_LEFT, MARGIN + beside(upright, plot.axes[1]))
    side = canvas.width - left - MARGIN
    panel = Panel(canvas, (left, top, side, min(side, _TALLEST)), x, y)
    panel.diagonal()
    for data, look in zip(every, looks, strict=True):
        plot.show(panel, data, look)
    panel.side(upright, plot.axes[1])
    bottom = _base(panel, plot, every, looks)
    height = notes(canvas, bottom, [one.get("problem") for one, _ in shown])
    return canvas.drawn(height, title, alternative(plot, shown, every))


def _base(panel: Panel, plot: Plot, every: Sequence[Data], looks: Sequence[Look]) -> float:
    """The axis of predictions, below it the rows where the diagram knows them; answers where it ends."""
    left, top, side, tall = panel.box
    marks = plot.places(*panel.x, _TICKS)
    if plot.rows is None:
        panel.base(marks, plot.axes[0])
        return top + tall + _BELOW
    panel.base(marks)
    lower = Panel(panel.canvas, (left, top + tall + _GAP, side, _HISTOGRAM), panel.x)
    histogram(lower, [plot.rows(data) for data in every], looks)
    lower.base(((), ()), plot.axes[0])
    return top + tall + _GAP + _HISTOGRAM + _BELOW - 15.0


def histogram(panel: Panel, rows: Sequence[tuple[Any, Any]], looks: Sequence[Look], *, bare: bool = False) -> None:
    """Shares of the rows between edges: the first as bars, another as their outline; ``bare``: without an axis."""
    most = max(float(np.max(values(share))) for _, share in rows)
    panel = Panel(panel.canvas, panel.box, panel.x, (0.0, most))
    for (edges, share), look in zip(rows, looks, strict=True):
        edge, tall = values(edges), values(share)
        if look.hatch is None:
            filled = tall > 0.0
            left, right, up = edge[:-1][filled], edge[1:][filled], tall[filled]
            zero = np.zeros_like(up)
            gap = 0.06 * (right - left)
            corners = np.stack([left + gap, right - gap, right - gap, left + gap], axis=1)
            panel.areas(corners, np.stack([zero, zero, up, up], axis=1), look.tint)
        else:
            panel.line(np.repeat(edge, 2)[1:-1], np.repeat(tall, 2), look.colour, width=1.4)
    if bare:
        return
    panel.side(([most], [percent(most)]))
    panel.canvas.word(panel.box[0] - 6.0, panel.box[1] + panel.box[3] + 1.0, "rows", anchor="end")


def notes(canvas: Canvas, y: float, problems: Sequence[Any]) -> float:
    """What is missing of the data, in small print; answers the height of the sheet."""
    told = [cleaned(str(problem)) for problem in dict.fromkeys(problems) if problem]
    for problem in told:
        canvas.word(MARGIN, y, shortened(problem, canvas.width - 2 * MARGIN, SMALL))
        y += 15.0
    return float(round(y + (0.0 if told else -4.0)))


def both_keys(plot: Plot, shown: Sequence[Shown], every: Sequence[Data]) -> list[Key]:
    """Which is before and which after, with their errors."""
    keys = []
    for word, look, (_, about), data in zip(("before", "after"), (BEFORE, AFTER), shown, every, strict=True):
        error = about.error if about.error is not None else plot.error(data)
        told = "" if error is None else f": {cleaned(error[0])} {decimal(error[1])}"
        keys.append(Key(word + told, look.colour, "square" if look.square else "dot", look.dash or ()))
    return [*keys, CALIBRATED]


def alternative(plot: Plot, shown: Sequence[Shown], every: Sequence[Data]) -> str:
    """The figures in words: of one, or of that before and that after."""
    openings = [plot.kind] if len(shown) == 1 else [f"{plot.kind}, before and after a map. Before it", "After it"]
    told = []
    for opening, (one, about), data in zip(openings, shown, every, strict=True):
        told.append(opening + about_words(about, plot.error(data)))
        told.append(plot.words(data, one.get("definition") or {}))
        if one.get("problem"):
            told.append(f"Note: {cleaned(str(one['problem']))}.")
    return " ".join(told)
