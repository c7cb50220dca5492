"""Panels (two axes on a part of the canvas), headings and legends, and the definition of a plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calibrant.distributions.forecasts import KINDS
from calibrant.plots.canvas import (
    BODY,
    SMALL,
    TITLE,
    Box,
    Canvas,
    Caption,
    Drawn,
    NothingToDraw,
    Points,
    Role,
    cleaned,
    shortened,
)
from calibrant.plots.canvas import width as width_of

# --- Panels: two axes on a part of the canvas

Values = npt.ArrayLike
Range = tuple[float, float]
UNIT: Range = (0.0, 1.0)
#: The dashes of the borders of bands.
BORDER = (1.5, 2.0)
#: Positions of the ticks of an axis, and their labels.
Ticks = tuple[Sequence[float], Sequence[str]]
#: Corners of a circle.
_ROUND = 16
_TICK = 4.0
#: The least pixels between the labels of an axis.
_LABELS_APART = 1.0


def values(of: Values) -> npt.NDArray[np.float64]:
    """Convert values to an array of float64; None becomes NaN."""
    return np.asarray(of, dtype=np.float64)


@dataclass(frozen=True)
class Panel:
    """A part of the canvas, ``box`` (left, top, width, height in pixels), with the ranges ``x`` and ``y``."""

    canvas: Canvas
    box: Box
    x: Range = UNIT
    y: Range = UNIT

    @property
    def grain(self) -> float:
        """Scale of marks, smaller on a small panel."""
        return min(1.0, max(0.7, self.box[2] / 300.0))

    def at(self, x: Values, y: Values) -> Points:
        """Convert data to positions on the canvas (m, 2)."""
        left, top, width, height = self.box
        across = (values(x) - self.x[0]) / (self.x[1] - self.x[0])
        up = (values(y) - self.y[0]) / (self.y[1] - self.y[0])
        across, up = np.broadcast_arrays(across, up)
        # Positions far outside are clipped, since matplotlib cannot draw huge coordinates.
        return np.stack([left + width * np.clip(across, -9, 9), top + height * (1.0 - np.clip(up, -9, 9))], axis=-1)

    def line(
        self, x: Values, y: Values, colour: Role, *, width: float = 1.0, dash: tuple[float, ...] | None = None
    ) -> None:
        """Draw a line through points."""
        self.canvas.line([self.at(x, y)], colour, width=width, dash=dash, clip=self._clip(width))

    def pieces(
        self, x: Values, y: Values, colour: Role, *, width: float = 1.0, dash: tuple[float, ...] | None = None
    ) -> None:
        """Draw separate lines, one for each row of ``x`` and ``y`` (k, m)."""
        self.canvas.line(list(self.at(x, y)), colour, width=width, dash=dash, clip=self._clip(width))

    def between(
        self,
        x: Values,
        low: Values,
        high: Values,
        fill: Role | None,
        *,
        hatch: str | None = None,
        stroke: Role | None = None,
    ) -> None:
        """Fill the area between two curves over ``x`` (m,)."""
        corners = np.concatenate([self.at(x, low), self.at(x, high)[::-1]])
        self.canvas.polygon([corners], fill, hatch=hatch, stroke=stroke, width=0.0, clip=self.box)

    def areas(self, x: Values, y: Values, fill: Role | None, *, hatch: str | None = None, stroke: Role | None = None,
              opacity: float = 1.0) -> None:  # fmt: skip
        """Fill separate polygons, one for each row of ``x`` and ``y`` (k, m)."""
        corners = list(self.at(x, y))
        self.canvas.polygon(corners, fill, hatch=hatch, stroke=stroke, width=0.0, opacity=opacity, clip=self.box)

    def dots(self, x: Values, y: Values, radius: Values, fill: Role, *, stroke: Role | None = None,
             square: bool = False) -> None:  # fmt: skip
        """Draw circles with radii in pixels, or squares of similar size."""
        corners = 4 if square else _ROUND
        angles = np.pi * (2.0 * np.arange(corners) + 1.0) / corners
        reach = np.broadcast_to(values(radius), np.shape(values(x))) * (1.25 if square else 1.0)
        shape = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        outlines = self.at(x, y)[:, None, :] + reach[:, None, None] * shape
        edge = 1.2 * min(1.0, float(np.mean(reach)) / 3.0) if stroke == "paper" else 1.2
        self.canvas.polygon(list(outlines), fill, stroke=stroke, width=edge, clip=self._clip(8.0), layer="point")

    def base(self, marks: Ticks, title: str = "") -> None:
        """Draw the x axis, its ticks and its title."""
        left, top, width, height = self.box
        bottom = top + height
        xs = self.at(marks[0], self.y[0])[:, 0]
        self.canvas.line([np.array([[left, bottom], [left + width, bottom]])], "rule")
        self.canvas.line([np.array([[x, bottom], [x, bottom + _TICK]]) for x in xs], "rule")
        for x, label in self._with_room(xs, marks[1]):
            self.canvas.text(x, bottom + 15.0, label, anchor="middle")
        below = 31.0 if marks[1] else 16.0
        self.canvas.text(left + width / 2, bottom + below, title, colour="ink", anchor="middle")

    def _with_room(self, xs: Points, labels: Sequence[str]) -> list[tuple[float, str]]:
        """Return the centres of labels on the x axis, inside the canvas; every second, third, ... if all overlap."""
        half = np.array([width_of(label, SMALL) / 2.0 for label in labels])
        centres = np.clip(xs, half, self.canvas.width - half) if len(half) else xs
        for step in range(1, len(half)):
            x, wide = centres[::step], half[::step]
            if np.all(np.diff(x) >= wide[1:] + wide[:-1] + _LABELS_APART):
                break
        else:
            step = max(1, len(half))
        return list(zip(centres[::step].tolist(), labels[::step], strict=True))

    def side(self, marks: Ticks, title: str = "") -> None:
        """Draw the y axis, its ticks and its title; ``beside`` gives its width."""
        left, top, _, height = self.box
        ys = self.at(self.x[0], marks[0])[:, 1]
        self.canvas.line([np.array([[left, top], [left, top + height]])], "rule")
        self.canvas.line([np.array([[left - _TICK, y], [left, y]]) for y in ys], "rule")
        for y, label in zip(ys, marks[1], strict=True):
            self.canvas.text(left - 6.0, y + 4.0, label, anchor="end")
        place = left - beside(marks, "") - 8.0
        self.canvas.text(place, top + height / 2, title, colour="ink", anchor="middle", upright=False)

    def diagonal(self) -> None:
        """Draw the diagonal."""
        low, high = max(self.x[0], self.y[0]), min(self.x[1], self.y[1])
        if low < high:
            self.line([low, high], [low, high], "quiet", width=1.0, dash=(5.0, 3.0))

    def _clip(self, width: float) -> Box:
        """Return the box, widened for a line along its border."""
        left, top, wide, tall = self.box
        return left - width, top - width, wide + 2 * width, tall + 2 * width


def beside(marks: Ticks, title: str) -> float:
    """Return the width of a y axis in pixels."""
    return max((width_of(label, SMALL) for label in marks[1]), default=0.0) + (26.0 if title else 6.0)


# --- Numbers in titles, on axes and in alternative texts

MINUS = "\N{MINUS SIGN}"


#: Numbers beyond this size, and below its inverse, are written with an exponent.
_LONG = 1e9


def decimal(value: float) -> str:
    """Format a number with three decimals, a small or huge one with two significant digits.

    >>> decimal(0.04137), decimal(-0.25).replace(MINUS, "-"), decimal(0.0), decimal(1e300)
    ('0.041', '-0.250', '0.000', '1.0e+300')
    """
    text = f"{value:.3f}" if value == 0.0 or 0.0005 <= abs(value) < _LONG else f"{value:.1e}"
    return text.replace("-", MINUS)


def signed(value: float) -> str:
    """Format a number like ``decimal``, with its sign.

    >>> signed(0.04), signed(-0.04).replace(MINUS, "-")
    ('+0.040', '-0.040')
    """
    return ("+" if value >= 0.0 else "") + decimal(value)


def count(number: float) -> str:
    """Format a number of rows.

    >>> count(10000), count(2.5)
    ('10,000', '2.5')
    """
    return f"{number:,.0f}" if float(number).is_integer() or number >= 100.0 else f"{number:.3g}"


def rows_of(number: float) -> str:
    """Format a number of rows with its noun.

    >>> rows_of(1), rows_of(10000)
    ('1 row', '10,000 rows')
    """
    return f"{count(number)} row" if number == 1 else f"{count(number)} rows"


def percent(share: float) -> str:
    """Format a fraction as a percentage.

    >>> percent(0.25), percent(0.004)
    ('25 %', '0.4 %')
    """
    return f"{100.0 * share:.0f} %" if share >= 0.095 or share == 0.0 else f"{100.0 * share:.2g} %"


def level_text(level: float) -> str:
    """Format the level of an interval or an abstention rate as a percentage, in full.

    >>> level_text(0.95), level_text(0.975), level_text(0.999)
    ('95 %', '97.5 %', '99.9 %')
    """
    return f"{100.0 * level:.6g} %"


def level_in(definition: Mapping[str, Any], default: float = 0.95) -> str:
    """Format the level of the intervals of a diagram."""
    return level_text(float(definition.get("level", default)))


def spread(number: int, most: int) -> list[int]:
    """Return the indices of at most so many of a number of points, evenly spaced."""
    places: list[int] = np.unique(np.linspace(0, number - 1, most).round().astype(int)).tolist()
    return places


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most ``most`` round numbers from ``low`` to ``high``, in steps of 1, 2 or 5 times a power of ten.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = high - low
    if not span > 0.0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(s * power for s in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0) if span / (s * power) <= most - 1 + 1e-9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = 3 - math.floor(math.log10(step))
    return [round(i * step, digits) for i in range(first, last + 1)]


def tick_labels(places: Sequence[float]) -> list[str]:
    """Return the labels of ticks.

    >>> tick_labels([0.0, 0.25, 0.5]), tick_labels([0.0, 1e6]), tick_labels([2e300])
    (['0', '0.25', '0.5'], ['0', '1,000,000'], ['2e+300'])
    """
    return [_tick_label(place).replace("-", MINUS) for place in places]


def _tick_label(place: float) -> str:
    if place != 0.0 and not 1.0 / _LONG < abs(place) < _LONG:
        return f"{place:.6g}"
    return np.format_float_positional(place + 0.0, trim="-") if abs(place) < 1e4 else f"{place:,.0f}"


def listed(parts: Sequence[str]) -> str:
    """Join words with commas and "and".

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


# --- Headings: title, number of rows, error, and legend

MARGIN = 12.0
#: Widths of the mark of a legend entry, of the space to its label and to the next entry.
_MARK, _SPACE, _NEXT = 20.0, 5.0, 14.0


@dataclass(frozen=True)
class Key:
    """A legend entry; ``brief`` is the label in a legend for several diagrams."""

    label: str
    colour: Role
    kind: Literal["line", "dot", "square", "ring", "whisker", "bar", "span", "area"] = "line"
    dash: tuple[float, ...] | None = None
    hatch: str | None = None
    stroke: Role | None = None
    brief: str | None = None


def heading(canvas: Canvas, title: str, lines: Sequence[str], keys: Sequence[Key]) -> float:
    """Draw title, lines and legend; returns their height. Long text is shortened and the legend wraps."""
    room = canvas.width - 2 * MARGIN
    y = 23.0
    canvas.text(MARGIN, y, shortened(title, room, TITLE, "bold"), size=TITLE, colour="ink", bold=True)
    for line in lines:
        y += 17.0
        canvas.text(MARGIN, y, shortened(line, room, BODY), size=BODY)
    x = MARGIN
    y += 20.0 if keys else 0.0
    for key in keys:
        takes = _MARK + _SPACE + width_of(key.label, SMALL)
        if x > MARGIN and x + takes > canvas.width - MARGIN:
            x, y = MARGIN, y + 16.0
        _mark(canvas, key, x, y - 4.0)
        canvas.text(x + _MARK + _SPACE, y, shortened(key.label, room - _MARK - _SPACE, SMALL), colour="ink")
        x += takes + _NEXT
    return y + 12.0


def about_lines(kind: str, about: Caption, error: tuple[str, float] | None) -> tuple[str, list[str]]:
    """Return the title (the name or the kind of picture) and lines with rows, reduction and error.

    ``error`` is the error of the diagram, used if ``about`` has none.
    """
    rows = f"n = {count(about.n)} · {cleaned(about.reduction)}"
    text = error_line(about, error)
    below = [text] if text else []
    name = cleaned(about.name or "")
    return (name, [f"{kind} · {rows}", *below]) if name else (kind, [rows, *below])


def error_line(about: Caption, error: tuple[str, float] | None, *, brief: bool = False) -> str:
    """Return the name and value of the error, with its interval; empty without an error."""
    shown = about.error if about.error is not None else error
    if shown is None:
        return ""
    text = f"{cleaned(shown[0])} {decimal(shown[1])}"
    if about.error is not None and about.interval is not None:
        interval = f"{decimal(about.interval[0])} to {decimal(about.interval[1])}"
        return f"{text} ({interval})" if brief else f"{text}, interval {interval}"
    return text


def about_sentence(about: Caption, error: tuple[str, float] | None, joint: str = " of ") -> str:
    """Return the first sentence of an alternative text: name after ``joint``, rows, reduction and error."""
    name = cleaned(about.name or "")
    of = f"{joint}{name}" if name else ""
    text = error_line(about, error)
    kind = f"forecasts: {about.reduction}" if about.reduction in KINDS else f"reduction {cleaned(about.reduction)}"
    return f"{of}: {rows_of(about.n)}, {kind}" + (f", {text}." if text else ".")


def _mark(canvas: Canvas, key: Key, x: float, y: float) -> None:
    panel = Panel(canvas, (x, y - 5.0, _MARK, 10.0))
    if key.kind == "area":
        panel.areas([[0.0, 1.0, 1.0, 0.0]], [[0.0, 0.0, 1.0, 1.0]], key.colour, hatch=key.hatch, stroke=key.stroke)
        return
    if key.kind == "line" or key.dash is not None:
        canvas.line([np.array([[x, y], [x + _MARK, y]])], key.colour, width=2.0, dash=key.dash or None)
    if key.kind in ("whisker", "bar", "span"):
        panel.line([0.5, 0.5], [-0.1, 1.1], key.colour, width=3.0 if key.kind == "bar" else 1.0)
    if key.kind == "ring":
        panel.dots([0.5], [0.5], 2.6, "paper", stroke=key.colour)
    elif key.kind in ("dot", "square", "whisker"):
        panel.dots([0.5], [0.5], 3.0, key.colour, stroke="paper", square=key.kind == "square")


# --- Kinds of diagrams

Data = Mapping[str, Any]
#: Axes of one half end at a multiple of the step, or before it. Shorter ones than the shortest are not drawn.
_HALF, _STEP, _SHORTEST, _ROUNDING = 0.5, 0.05, 1e-6, 1e-9


@dataclass(frozen=True)
class Look:
    """The style of one of two overlaid diagrams: colours, dash, hatching and shape of points."""

    colour: Role
    tint: Role
    dash: tuple[float, ...] | None = None
    hatch: str | None = None
    square: bool = False


BEFORE = Look("first", "first-tint")
AFTER = Look("second", "second-tint", (6.0, 2.5), "////", True)
#: The legend entry of the diagonal.
CALIBRATED = Key("perfect calibration", "quiet", dash=(5.0, 3.0))


def mark_of(look: Look, *, dots: bool = True, dash: tuple[float, ...] | None = ()) -> Key:
    """Return the legend entry, without a label, of a diagram in a style; ``dash`` is that of its line, if any."""
    if not dots:
        return Key("", look.colour, dash=dash)
    return Key("", look.colour, "square" if look.square else "dot", dash)


def dashed_mark(_: Data, look: Look) -> Key:
    """Return the legend entry of a curve with points, which is dashed after a map."""
    return mark_of(look, dash=look.dash or ())


def plain_mark(_: Data, look: Look) -> Key:
    """Return the legend entry of a curve without points, which is dashed after a map."""
    return mark_of(look, dots=False, dash=look.dash)


def evenly(low: float, high: float, most: int) -> tuple[list[float], list[str]]:
    """Return ticks at round numbers."""
    places = ticks(low, high, most)
    return places, tick_labels(places)


def reach(ends: Sequence[float]) -> Range:
    """Return a range that contains all values: from 0 if that is near, to above the largest."""
    low, high = float(min(ends)), float(max(ends))
    low = 0.0 if 0.0 <= low < 0.6 * high else low
    margin = 0.05 * (high - low) or 0.05 * max(abs(high), 0.1)
    return (low if low == 0.0 else low - margin), high + margin


@dataclass(frozen=True)
class Plot:
    """A kind of diagram with one panel.

    Attributes
    ----------
    kind : str
        Title.
    axes : (str, str)
        Titles of the axes.
    error : callable
        Name and value of the error of the diagram, or None.
    show : callable
        Draws the data.
    keys : callable
        Returns the legend.
    describe : callable
        Returns the alternative text.
    window : callable
        Ranges of the axes for several diagrams.
    rows : callable or None
        Edges and shares of the histogram below the panel.
    places : callable
        Ticks of a range.
    across : callable or None
        Ticks of the x axis, if not those of ``places``.
    diagonal : bool
        Whether the diagonal is drawn.
    mark : callable
        The legend entry, without a label, of one of two overlaid diagrams.
    shared : tuple of Key
        The legend of what overlaid diagrams have in common.
    """

    kind: str
    axes: tuple[str, str]
    error: Callable[[Data], tuple[str, float] | None]
    show: Callable[[Panel, Data, Look], None]
    keys: Callable[[Data, Mapping[str, Any], Look], list[Key]]
    describe: Callable[[Data, Mapping[str, Any]], str]
    window: Callable[[Sequence[Data]], tuple[Range, Range]] = lambda _: (UNIT, UNIT)
    rows: Callable[[Data], tuple[Any, Any]] | None = None
    places: Callable[[float, float, int], tuple[list[float], list[str]]] = evenly
    across: Callable[[float, float, int], tuple[list[float], list[str]]] | None = None
    diagonal: bool = True
    mark: Callable[[Data, Look], Key] = dashed_mark
    shared: tuple[Key, ...] = (CALIBRATED,)


def draw_borders(panel: Panel, x: Values, low: Values, high: Values, look: Look) -> None:
    """Draw the two borders of a band."""
    for border in (low, high):
        panel.line(x, border, look.colour, width=0.9, dash=BORDER)


def half_window(extents: Sequence[tuple[float, float, float, float]]) -> tuple[Range, Range]:
    """Return the ranges of both axes: [0, 1], or a part that ends at 0 or 1 if everything lies in one half.

    ``extents`` are the smallest and the largest value on the x axis and on the y axis, for each diagram.

    >>> half_window([(0.001, 0.12, 0.0, 0.2)])
    ((0.0, 0.2), (0.0, 0.2))
    >>> half_window([(0.0, 0.0007, 0.0, 0.0015)])
    ((0.0, 0.002), (0.0, 0.002))
    >>> half_window([(0.1, 0.6, 0.2, 0.4)])
    ((0.0, 1.0), (0.0, 1.0))
    """
    least = min(min(a, c) for a, _, c, _ in extents)
    most = max(max(b, d) for _, b, _, d in extents)
    if most <= _HALF:
        return ((0.0, _rounded_up(most)),) * 2
    if least >= _HALF:
        return ((1.0 - _rounded_up(1.0 - least), 1.0),) * 2
    return UNIT, UNIT


def extent(x: Sequence[Values], y: Sequence[Values | None]) -> tuple[float, float, float, float]:
    """Return the smallest and the largest value on each axis, for ``half_window``; None is left out."""
    across, up = (np.concatenate([values(part) for part in parts if part is not None]) for parts in (x, y))
    return float(across.min()), float(across.max()), float(up.min()), float(up.max())


def half_window_of(shown: Sequence[Data], x: Sequence[str], y: Sequence[str]) -> tuple[Range, Range]:
    """Return the ``half_window`` of these fields of each diagram on the two axes."""
    return half_window([extent([data[name] for name in x], [data[name] for name in y]) for data in shown])


def _rounded_up(length: float) -> float:
    """Round up to a multiple of the step, or a shorter length to 1, 2 or 5 times a power of ten."""
    if not _SHORTEST <= length < _STEP:
        return max(_STEP, math.ceil(length / _STEP - _ROUNDING) * _STEP)
    power = 10.0 ** math.floor(math.log10(length))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if length <= step * power * (1.0 + _ROUNDING))


def data_of(shown: Mapping[str, Any]) -> Data:
    """Return the data of a diagram of a report; raises ``NothingToDraw`` if it has none."""
    data = shown.get("data")
    if data is None:
        raise NothingToDraw(str(shown.get("problem") or "the diagram has no data"))
    known: Data = data
    return known


# --- A picture with one panel: heading, panel, histogram of the rows, and notes

#: Pixels left of a panel and below it, of the histogram and above it.
_LEFT, _BELOW, _HISTOGRAM, _GAP = 54.0, 46.0, 44.0, 26.0
_TICKS = 6
#: Panels are square up to this height.
_TALLEST = 400.0

Shown = tuple[Mapping[str, Any], Caption]


def one_panel(canvas: Canvas, plot: Plot, before: Shown, after: Shown | None) -> Drawn:
    """Draw a diagram, or overlay the diagrams before and after a map."""
    shown = [before] if after is None else [before, after]
    looks: list[Look] = [BEFORE, AFTER][: len(shown)]
    every = [data_of(diagram) for diagram, _ in shown]
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
    if plot.diagonal:
        panel.diagonal()
    for data, look in zip(every, looks, strict=True):
        plot.show(panel, data, look)
    panel.side(upright, plot.axes[1])
    bottom = _base(panel, plot, every, looks)
    height = notes(canvas, bottom, [diagram.get("problem") for diagram, _ in shown])
    return canvas.drawn(height, title, alternative(plot, shown, every))


def _base(panel: Panel, plot: Plot, every: Sequence[Data], looks: Sequence[Look]) -> float:
    """Draw the x axis, with a histogram of the rows if there is one; returns its lower end."""
    left, top, side, tall = panel.box
    marks = (plot.across or plot.places)(*panel.x, _TICKS)
    if plot.rows is None:
        panel.base(marks, plot.axes[0])
        return top + tall + _BELOW
    panel.base(marks)
    lower = Panel(panel.canvas, (left, top + tall + _GAP, side, _HISTOGRAM), panel.x)
    histogram(lower, [plot.rows(data) for data in every], looks)
    lower.base(((), ()), plot.axes[0])
    return top + tall + _GAP + _HISTOGRAM + _BELOW - 15.0


def histogram(panel: Panel, rows: Sequence[tuple[Any, Any]], looks: Sequence[Look], *, bare: bool = False) -> None:
    """Draw histograms of the rows: the first as bars, a second as an outline; ``bare`` omits the axis."""
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
    panel.canvas.text(panel.box[0] - 6.0, panel.box[1] + panel.box[3] + 1.0, "rows", anchor="end")


def notes(canvas: Canvas, y: float, problems: Sequence[Any]) -> float:
    """Write notes on missing data below the panel; returns the height of the picture."""
    texts = [cleaned(str(problem)) for problem in dict.fromkeys(problems) if problem]
    for problem in texts:
        canvas.text(MARGIN, y, shortened(problem, canvas.width - 2 * MARGIN, SMALL))
        y += 15.0
    return float(round(y + (0.0 if texts else -4.0)))


def both_keys(plot: Plot, shown: Sequence[Shown], every: Sequence[Data]) -> list[Key]:
    """Return the legend of two overlaid diagrams, with their errors."""
    keys = []
    for word, look, (_, about), data in zip(("before", "after"), (BEFORE, AFTER), shown, every, strict=True):
        error = about.error if about.error is not None else plot.error(data)
        text = "" if error is None else f": {cleaned(error[0])} {decimal(error[1])}"
        keys.append(replace(plot.mark(data, look), label=word + text))
    return [*keys, *plot.shared]


def alternative(plot: Plot, shown: Sequence[Shown], every: Sequence[Data]) -> str:
    """Return the alternative text of a diagram, or of the diagrams before and after a map."""
    openings = (
        [plot.kind] if len(shown) == 1 else [f"{plot.kind} before and after a map. Before the map", "After the map"]
    )
    joint = " of " if len(shown) == 1 else ", "
    sentences = []
    for opening, (diagram, about), data in zip(openings, shown, every, strict=True):
        sentences.append(opening + about_sentence(about, plot.error(data), joint))
        sentences.append(plot.describe(data, diagram.get("definition") or {}))
        if diagram.get("problem"):
            sentences.append(f"Note: {cleaned(str(diagram['problem']))}.")
    return " ".join(sentences)
