"""What a kind of diagram is to those that put it on paper: how it looks, what it says, how far its axes reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pictures.errors import NothingToDraw
from pictures.heading import Key
from pictures.panel import UNIT, Panel, Range
from pictures.theme import Role

Data = Mapping[str, Any]


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


@dataclass(frozen=True)
class Plot:
    """A kind of diagram on one panel.

    ``error`` answers the diagram's own, by name. ``window`` how far the axes reach that show all of several. ``show``
    draws one, ``keys`` says what its marks are, and ``words`` tells its figures to those who cannot see it; both take
    the definition too. ``rows`` answers edges and shares of a histogram below, where there is one.
    """

    kind: str
    axes: tuple[str, str]
    error: Callable[[Data], tuple[str, float] | None]
    show: Callable[[Panel, Data, Look], None]
    keys: Callable[[Data, Mapping[str, Any], Look], list[Key]]
    words: Callable[[Data, Mapping[str, Any]], str]
    window: Callable[[Sequence[Data]], tuple[Range, Range]] = lambda _: (UNIT, UNIT)
    rows: Callable[[Data], tuple[Any, Any]] | None = None


def data_of(shown: Mapping[str, Any]) -> Data:
    """The data of a diagram as reports hold it. Raises ``NothingToDraw`` where it has none."""
    data = shown.get("data")
    if data is None:
        raise NothingToDraw(str(shown.get("problem") or "the diagram has no data"))
    found: Data = data
    return found
