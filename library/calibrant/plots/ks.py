"""The four KS graphs: cumulative labels and scores, and their slopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.plots.canvas import SMALL, Canvas, Drawn, shortened
from calibrant.plots.panel import (
    AFTER,
    BEFORE,
    MARGIN,
    Data,
    Key,
    Look,
    Panel,
    Plot,
    Range,
    Shown,
    about_lines,
    alternative,
    beside,
    both_keys,
    data_of,
    decimal,
    evenly,
    half_window_of,
    heading,
    notes,
    percent,
    plain_mark,
    signed,
    values,
)

_SCORE = (5.0, 3.0)
#: Pixels above and below each graph, and between graphs.
_ABOVE, _BELOW, _BETWEEN = 20.0, 42.0, 10.0
_TALLEST = 230.0
_TICKS = 4
#: Fractions of the rows at which the alternative text gives values.
_DESCRIBED = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True)
class _Graph:
    """The fields on the x axis, of the labels and of the scores; ``straight`` if the scores are the diagonal."""

    letter: str
    x: str
    label: str
    score: str
    axes: tuple[str, str]

    @property
    def straight(self) -> bool:
        return self.x == self.score


_GRAPHS = (
    _Graph("a", "fractile", "cumulative_label", "cumulative_score", ("fraction of rows", "cumulative")),
    _Graph("b", "cumulative_score", "cumulative_label", "cumulative_score", ("cumulative score", "cumulative")),
    _Graph("c", "fractile", "probability", "score", ("fraction of rows", "probability")),
    _Graph("d", "score", "probability", "score", ("score", "probability")),
)


def show(panel: Panel, data: Data, look: Look) -> None:
    """Draw graph (b): cumulative labels against cumulative scores, and their largest difference."""
    _curves(panel, _GRAPHS[1], data, look)


def window(shown: Sequence[Data]) -> tuple[Range, Range]:
    """Return the ranges of the axes: from 0 to the largest sum."""
    most = max(float(np.max(values(data[name]))) for data in shown for name in ("cumulative_label", "cumulative_score"))
    reach = (0.0, most if most > 0.0 else 1.0)
    return reach, reach


def keys(_: Data, __: Mapping[str, Any], look: Look) -> list[Key]:
    """Return the legend."""
    return [
        Key("labels", look.colour),
        Key("scores", "quiet", dash=_SCORE),
        Key("difference", look.tint, "area"),
        Key("KS error: largest difference", look.colour, "bar"),
    ]


def describe(data: Data, _: Mapping[str, Any]) -> str:
    """Describe the largest difference and the two curves."""
    fractile, score, label = (values(data[name]) for name in ("fractile", "cumulative_score", "cumulative_label"))
    at = np.unique([int(np.argmin(np.abs(fractile - place))) for place in _DESCRIBED])
    points = "; ".join(f"{percent(fractile[i])}: {decimal(score[i])} and {decimal(label[i])}" for i in at)
    which = "more" if data["signed"] > 0.0 else "fewer"
    return (
        f"The KS error is {decimal(data['ks'])}, reached at a fraction of {decimal(data['reached_fractile'])} of the "
        f"rows and a score of {decimal(data['reached_score'])}; up to there, positives are {which} than predicted. "
        f"Over all rows, cumulative label minus score is {signed(data['end'])}. "
        f"Cumulative score and label by fraction of rows: {points}."
    )


def four_graphs(canvas: Canvas, shown: Shown) -> Drawn:
    """Draw the graphs of Gupta et al. (2021), Figure 1."""
    data, about = data_of(shown[0]), shown[1]
    title, lines = about_lines("KS graphs", about, KS.error(data))
    top = heading(canvas, title, lines, keys(data, {}, BEFORE))
    bottom = _grid(canvas, top, [(data, BEFORE)], _GRAPHS)
    return canvas.drawn(notes(canvas, bottom, [shown[0].get("problem")]), title, alternative(KS, [shown], [data]))


def two_graphs(canvas: Canvas, before: Shown, after: Shown) -> Drawn:
    """Draw graphs (b) and (d), in which the scores are the diagonal, before and after a map."""
    shown = [before, after]
    every = [data_of(diagram) for diagram, _ in shown]
    title, lines = about_lines("KS graphs before and after the map", before[1], None)
    top = heading(canvas, title, lines[:1], both_keys(KS, shown, every))
    bottom = _grid(canvas, top, list(zip(every, (BEFORE, AFTER), strict=True)), _GRAPHS[1::2])
    height = notes(canvas, bottom, [diagram.get("problem") for diagram, _ in shown])
    return canvas.drawn(height, title, alternative(KS, shown, every))


def _grid(canvas: Canvas, top: float, curves: list[tuple[Data, Look]], graphs: tuple[_Graph, ...]) -> float:
    left = MARGIN + 46.0
    wide = (canvas.width - left - MARGIN - _BETWEEN - 46.0) / 2.0
    tall = min(wide, _TALLEST)
    for i, graph in enumerate(graphs):
        row, column = divmod(i, 2)
        box = (left + column * (wide + _BETWEEN + 46.0), top + _ABOVE + row * (_ABOVE + tall + _BELOW), wide, tall)
        _graph(canvas, box, graph, curves)
    return top + ((len(graphs) + 1) // 2) * (_ABOVE + tall + _BELOW) + 4.0


def _graph(
    canvas: Canvas, box: tuple[float, float, float, float], graph: _Graph, curves: list[tuple[Data, Look]]
) -> None:
    x, y = (0.0, 1.0), (0.0, 1.0)
    if graph.label == "cumulative_label":
        y = window([data for data, _ in curves])[1]
    else:
        y = half_window_of([data for data, _ in curves], ["score"], ["score", "probability"])[1]
    x = y if graph.straight else x
    panel = Panel(canvas, box, x, y)
    upright = evenly(*y, _TICKS)
    panel.base(evenly(*x, _TICKS), graph.axes[0])
    panel.side(upright)
    room = box[2] + beside(upright, "")
    about = f"({graph.letter}) {graph.axes[1]}"
    canvas.text(box[0] - beside(upright, ""), box[1] - 8.0, shortened(about, room, SMALL), colour="ink")
    for data, look in curves:
        _curves(panel, graph, data, look)


def _curves(panel: Panel, graph: _Graph, data: Data, look: Look) -> None:
    x, label, score = (values(data[name]) for name in (graph.x, graph.label, graph.score))
    if look.hatch is None:
        panel.between(x, score, label, look.tint, stroke=look.tint)
        panel.line(x, score, "quiet", width=1.2, dash=_SCORE)
    panel.line(x, label, look.colour, width=1.8, dash=look.dash)
    if x[0] == x[-1]:  # all predictions are equal
        panel.dots(x[-1:], label[-1:], 3.0, look.colour, square=look.square)
    if graph.label == "cumulative_label":
        at = int(np.argmax(np.abs(label - score)))
        panel.line([x[at]] * 2, [score[at], label[at]], look.colour, width=3.0)


KS = Plot(
    "KS graphs",
    ("cumulative score", "cumulative label"),
    lambda data: ("KS", float(data["ks"])),
    show,
    keys,
    describe,
    window,
    mark=plain_mark,
)
