"""What stands above every picture: of what it is, how many rows, how large the error, and the key to its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pictures.canvas import BODY, SMALL, TITLE, Canvas
from pictures.drawn import About
from pictures.figures import count, decimal, rows_of
from pictures.lettering import cleaned, shortened
from pictures.lettering import width as width_of
from pictures.panel import Panel
from pictures.theme import Role

MARGIN = 12.0
#: Widths of a key's mark, of the space to its words and to the next.
_MARK, _SPACE, _NEXT = 20.0, 5.0, 14.0


@dataclass(frozen=True)
class Key:
    """A line of this kind, or a point or an area, is this; ``brief`` where it stands for several diagrams."""

    label: str
    colour: Role
    kind: Literal["line", "dot", "square", "ring", "whisker", "bar", "span", "area"] = "line"
    dash: tuple[float, ...] | None = None
    hatch: str | None = None
    stroke: Role | None = None
    brief: str | None = None


def heading(canvas: Canvas, title: str, lines: Sequence[str], keys: Sequence[Key]) -> float:
    """Put title, lines and keys; answer how many pixels they take. What is too long is shortened, keys wrap."""
    room = canvas.width - 2 * MARGIN
    y = 23.0
    canvas.word(MARGIN, y, shortened(title, room, TITLE, "bold"), size=TITLE, colour="ink", bold=True)
    for line in lines:
        y += 17.0
        canvas.word(MARGIN, y, shortened(line, room, BODY), size=BODY)
    x = MARGIN
    y += 20.0 if keys else 0.0
    for key in keys:
        takes = _MARK + _SPACE + width_of(key.label, SMALL)
        if x > MARGIN and x + takes > canvas.width - MARGIN:
            x, y = MARGIN, y + 16.0
        _mark(canvas, key, x, y - 4.0)
        canvas.word(x + _MARK + _SPACE, y, shortened(key.label, room - _MARK - _SPACE, SMALL), colour="ink")
        x += takes + _NEXT
    return y + 12.0


def about_lines(kind: str, about: About, error: tuple[str, float] | None) -> tuple[str, list[str]]:
    """Title and lines: the name where there is one, else what kind of picture; rows and reduction; the error.

    ``error`` is the diagram's own, of which ``about`` may know a better one.
    """
    rows = f"n = {count(about.n)} · {cleaned(about.reduction)}"
    told = error_line(about, error)
    below = [part for part in (told,) if part]
    name = cleaned(about.name or "")
    return (name, [f"{kind} · {rows}", *below]) if name else (kind, [rows, *below])


def error_line(about: About, error: tuple[str, float] | None, *, brief: bool = False) -> str:
    """The error by name, with its interval; empty where there is none."""
    shown = about.error if about.error is not None else error
    if shown is None:
        return ""
    told = f"{cleaned(shown[0])} {decimal(shown[1])}"
    if about.error is not None and about.interval is not None:
        interval = f"{decimal(about.interval[0])} to {decimal(about.interval[1])}"
        return f"{told} ({interval})" if brief else f"{told}, interval {interval}"
    return told


def about_words(about: About, error: tuple[str, float] | None) -> str:
    """The same as a sentence of an alternative text."""
    name = cleaned(about.name or "")
    of = f" of {name}" if name else ""
    told = error_line(about, error)
    return f"{of}: {rows_of(about.n)}, reduction {cleaned(about.reduction)}" + (f", {told}." if told else ".")


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
