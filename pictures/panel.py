"""A place on the canvas with two axes, on which data are drawn by their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pictures.canvas import SMALL, Box, Canvas, Points
from pictures.lettering import width as width_of
from pictures.theme import Role

Values = npt.ArrayLike
Range = tuple[float, float]
UNIT: Range = (0.0, 1.0)
#: Places of an axis, and what stands there.
Ticks = tuple[Sequence[float], Sequence[str]]
#: Corners of a circle.
_ROUND = 16
_TICK = 4.0


def values(of: Values) -> npt.NDArray[np.float64]:
    """What JSON holds, as numbers."""
    return np.asarray(of, dtype=np.float64)


@dataclass(frozen=True)
class Panel:
    """``box`` of the canvas, left, top, width and height in pixels, that shows ``x`` and ``y`` from low to high."""

    canvas: Canvas
    box: Box
    x: Range = UNIT
    y: Range = UNIT

    @property
    def grain(self) -> float:
        """How large marks are here: on a small panel smaller."""
        return min(1.0, max(0.55, self.box[2] / 300.0))

    def at(self, x: Values, y: Values) -> Points:
        """Places on the canvas ``(m, 2)``."""
        left, top, width, height = self.box
        across = (values(x) - self.x[0]) / (self.x[1] - self.x[0])
        up = (values(y) - self.y[0]) / (self.y[1] - self.y[0])
        across, up = np.broadcast_arrays(across, up)
        # Far outside is as good as just outside, and safe to draw.
        return np.stack([left + width * np.clip(across, -9, 9), top + height * (1.0 - np.clip(up, -9, 9))], axis=-1)

    def line(
        self, x: Values, y: Values, colour: Role, *, width: float = 1.0, dash: tuple[float, ...] | None = None
    ) -> None:
        """A line through points."""
        self.canvas.line([self.at(x, y)], colour, width=width, dash=dash, clip=self._clip(width))

    def pieces(
        self, x: Values, y: Values, colour: Role, *, width: float = 1.0, dash: tuple[float, ...] | None = None
    ) -> None:
        """Lines apart, each through its row of ``x`` and ``y (k, m)``."""
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
        """The area between two curves over ``x (m,)``."""
        corners = np.concatenate([self.at(x, low), self.at(x, high)[::-1]])
        self.canvas.polygon([corners], fill, hatch=hatch, stroke=stroke, width=0.0, clip=self.box)

    def areas(self, x: Values, y: Values, fill: Role | None, *, hatch: str | None = None, stroke: Role | None = None,
              opacity: float = 1.0) -> None:  # fmt: skip
        """Areas apart, each with its row of corners ``x`` and ``y (k, m)``."""
        corners = list(self.at(x, y))
        self.canvas.polygon(corners, fill, hatch=hatch, stroke=stroke, width=0.0, opacity=opacity, clip=self.box)

    def dots(self, x: Values, y: Values, radius: Values, fill: Role, *, stroke: Role | None = None,
             square: bool = False) -> None:  # fmt: skip
        """Circles of radii in pixels, or squares about as large."""
        corners = 4 if square else _ROUND
        angles = np.pi * (2.0 * np.arange(corners) + 1.0) / corners
        reach = np.broadcast_to(values(radius), np.shape(values(x))) * (1.25 if square else 1.0)
        shape = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        outlines = self.at(x, y)[:, None, :] + reach[:, None, None] * shape
        edge = 1.2 * min(1.0, float(np.mean(reach)) / 3.0) if stroke == "paper" else 1.2
        self.canvas.polygon(list(outlines), fill, stroke=stroke, width=edge, clip=self._clip(8.0), layer="point")

    def base(self, marks: Ticks, title: str = "") -> None:
        """The axis below, and what it shows. It takes 18 pixels, and 16 with a title."""
        left, top, width, height = self.box
        bottom = top + height
        xs = self.at(marks[0], self.y[0])[:, 0]
        self.canvas.line([np.array([[left, bottom], [left + width, bottom]])], "rule")
        self.canvas.line([np.array([[x, bottom], [x, bottom + _TICK]]) for x in xs], "rule")
        for x, label in zip(xs, marks[1], strict=True):
            self.canvas.word(x, bottom + 15.0, label, anchor="middle")
        below = 31.0 if marks[1] else 16.0
        self.canvas.word(left + width / 2, bottom + below, title, colour="ink", anchor="middle")

    def side(self, marks: Ticks, title: str = "") -> None:
        """The axis at the left. It takes ``beside`` of its labels."""
        left, top, _, height = self.box
        ys = self.at(self.x[0], marks[0])[:, 1]
        self.canvas.line([np.array([[left, top], [left, top + height]])], "rule")
        self.canvas.line([np.array([[left - _TICK, y], [left, y]]) for y in ys], "rule")
        for y, label in zip(ys, marks[1], strict=True):
            self.canvas.word(left - 6.0, y + 4.0, label, anchor="end")
        place = left - beside(marks, "") - 8.0
        self.canvas.word(place, top + height / 2, title, colour="ink", anchor="middle", upright=False)

    def diagonal(self) -> None:
        """Where the two axes are equal."""
        low, high = max(self.x[0], self.y[0]), min(self.x[1], self.y[1])
        if low < high:
            self.line([low, high], [low, high], "quiet", width=1.0, dash=(5.0, 3.0))

    def _clip(self, width: float) -> Box:
        """The box, and around it what a line along its border needs."""
        left, top, wide, tall = self.box
        return left - width, top - width, wide + 2 * width, tall + 2 * width


def beside(marks: Ticks, title: str) -> float:
    """Pixels that an axis at the left takes."""
    return max((width_of(label, SMALL) for label in marks[1]), default=0.0) + (26.0 if title else 6.0)
