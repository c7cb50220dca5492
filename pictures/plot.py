"""What a kind of diagram is to those that put it on paper: how it looks, what it says, how far its axes reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pictures.errors import NothingToDraw
from pictures.figures import tick_labels, ticks
from pictures.heading import Key
from pictures.panel import UNIT, Panel, Range
from pictures.theme import Role

Data = Mapping[str, Any]
#: Axes end at a multiple of the step.
_HALF, _STEP, _ROUNDING = 0.5, 0.05, 1e-9


@dataclass(frozen=True)
class Look:
    """How one of two overlaid diagrams is told from the other: by colour, dash, shape of its points and filling."""

    colour: Role
    tint: Role
    dash: tuple[float, ...] | None = None
    hatch: str | None = None
    square: bool = False


BEFORE = Look("first", "first-tint")
AFTER = Look("second", "second-tint", (6.0, 2.5), "////", True)
#: The key of the line of perfect calibration.
CALIBRATED = Key("calibrated", "quiet", dash=(5.0, 3.0))


def evenly(low: float, high: float, most: int) -> tuple[list[float], list[str]]:
    """Round places of an axis, and what stands there."""
    places = ticks(low, high, most)
    return places, tick_labels(places)


@dataclass(frozen=True)
class Plot:
    """A kind of diagram on one panel.

    ``error`` answers the diagram's own, by name. ``window`` how far the axes reach that show all of several. ``show``
    draws one, ``keys`` says what its marks are, and ``words`` tells its figures to those who cannot see it; both take
    the definition too. ``rows`` answers edges and shares of a histogram below, where there is one; ``places`` where
    the axes have ticks, at most so many, and what stands there.
    """

    kind: str
    axes: tuple[str, str]
    error: Callable[[Data], tuple[str, float] | None]
    show: Callable[[Panel, Data, Look], None]
    keys: Callable[[Data, Mapping[str, Any], Look], list[Key]]
    words: Callable[[Data, Mapping[str, Any]], str]
    window: Callable[[Sequence[Data]], tuple[Range, Range]] = lambda _: (UNIT, UNIT)
    rows: Callable[[Data], tuple[Any, Any]] | None = None
    places: Callable[[float, float, int], tuple[list[float], list[str]]] = evenly


def half_window(extents: Sequence[tuple[float, float, float, float]]) -> tuple[Range, Range]:
    """All of [0, 1] on both axes, or of one half where everything lies in it the part up to where that ends.

    ``extents`` hold the least and largest value on the one axis and on the other, of each thing shown.

    >>> half_window([(0.001, 0.12, 0.0, 0.2)])
    ((0.0, 0.2), (0.0, 0.2))
    >>> half_window([(0.1, 0.6, 0.2, 0.4)])
    ((0.0, 1.0), (0.0, 1.0))
    """
    least = min(min(a, c) for a, _, c, _ in extents)
    most = max(max(b, d) for _, b, _, d in extents)
    if most <= _HALF:
        return ((0.0, max(_STEP, math.ceil(most / _STEP - _ROUNDING) * _STEP)),) * 2
    if least >= _HALF:
        return ((min(1.0 - _STEP, math.floor(least / _STEP + _ROUNDING) * _STEP), 1.0),) * 2
    return UNIT, UNIT


def data_of(shown: Mapping[str, Any]) -> Data:
    """The data of a diagram as reports hold it. Raises ``NothingToDraw`` where it has none."""
    data = shown.get("data")
    if data is None:
        raise NothingToDraw(str(shown.get("problem") or "the diagram has no data"))
    found: Data = data
    return found
