"""What a picture is told about, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Format = Literal["svg", "png"]
#: ``auto`` follows the reader's own preference, in SVG alone; a PNG of it is light.
Theme = Literal["auto", "light", "dark"]


@dataclass(frozen=True)
class About:
    """What a picture's title and alternative text say beside the diagram's own figures.

    ``n`` rows, the ``reduction`` in full, the ``name`` of what was measured where it has one, and an ``error`` (its
    name as people read it, its value in [0, 1]) with its ``interval`` where one was asked for.
    """

    n: int
    reduction: str
    name: str | None = None
    error: tuple[str, float] | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Drawn:
    """A picture: its bytes, their media type, and in ``alt`` the same figures in words."""

    content: bytes
    media_type: str
    alt: str
