"""Panels side by side under one heading, each with a caption of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calibrant.plots.canvas import BODY, SMALL, Canvas, shortened
from calibrant.plots.panel import MARGIN, UNIT, Panel, Range

#: Pixels left of the first panel, between panels, above each for its caption and below each row for its axis.
LEFT, BETWEEN, CAPTION, BELOW = 46.0, 30.0, 44.0, 40.0


@dataclass(frozen=True)
class Grid:
    """Where the panels of a row begin: ``top`` pixels below the canvas's upper edge, ``columns`` of them.

    ``between`` is the number of pixels between two panels.
    """

    canvas: Canvas
    top: float
    columns: int
    between: float = BETWEEN

    @property
    def side(self) -> float:
        """Width of a panel in pixels."""
        room = self.canvas.width - LEFT - MARGIN - (self.columns - 1) * self.between
        return room / self.columns

    def panels(self, captions: Sequence[tuple[str, str]], *, height: float | None = None, x: Range = UNIT,
               y: Range = UNIT) -> Iterator[Panel]:  # fmt: skip
        """A panel for each caption, which is a line in bold and one below it."""
        for column, (title, below) in enumerate(captions):
            left = LEFT + column * (self.side + self.between)
            room = self.side + self.between - 8.0
            self.canvas.text(
                left, self.top + 14.0, shortened(title, room, BODY, "bold"), size=BODY, colour="ink", bold=True
            )
            self.canvas.text(left, self.top + 30.0, shortened(below, room, SMALL))
            yield Panel(self.canvas, (left, self.top + CAPTION, self.side, height or self.side), x, y)

    def below(self, height: float | None = None) -> float:
        """Where the next row may begin."""
        return self.top + CAPTION + (height or self.side) + BELOW
