"""A sheet of given size in pixels, on which shapes and words are put, and which becomes an SVG or a PNG.

Pixels run from the upper left corner, as in SVG. Words stay words in SVG: they can be searched, read aloud and set in
the reader's font.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from pictures import engine
from pictures.drawn import Drawn, Format, Theme
from pictures.errors import InvalidPicture
from pictures.lettering import settable
from pictures.svg import Word, finished
from pictures.theme import Role, palette

Points = npt.NDArray[np.float64]
Anchor = Literal["start", "middle", "end"]
Box = tuple[float, float, float, float]
#: Font sizes in pixels.
TITLE, BODY, SMALL = 14.0, 12.0, 11.0
#: Widths in pixels that pictures may have.
NARROWEST, WIDEST = 320, 2000
#: Pixels of a PNG for one of ours.
_DENSITY = 2
#: How hard a PNG is packed: a fifth larger than at the usual 6, in two thirds of the time.
_PACKING = {"compress_level": 3}
#: Settings of matplotlib that shapes depend on, whatever the process has set.
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "path.simplify": True,
    "path.simplify_threshold": 1 / 9,
    "path.snap": False,
    "path.sketch": None,
    "path.effects": [],
    "hatch.linewidth": 1.0,
}


_Layer = Literal["area", "line", "point"]
_LAYERS: tuple[_Layer, ...] = get_args(_Layer)


@dataclass(frozen=True)
class _Shape:
    path: Any
    layer: _Layer
    fill: Role | None
    stroke: Role | None
    width: float
    dash: tuple[float, ...] | None
    hatch: str | None
    opacity: float
    clip: Box | None


class Canvas:
    """Areas, above them lines, above them points, each in the order they are put, and words above all."""

    def __init__(self, width: int, *, theme: Theme = "auto", form: Format = "svg") -> None:
        if form not in get_args(Format):
            raise InvalidPicture(f"the form must be one of {', '.join(get_args(Format))}")
        if not NARROWEST <= width <= WIDEST:
            raise InvalidPicture(f"the width must be from {NARROWEST} to {WIDEST} pixels")
        engine.load()
        self.width = width
        self._theme: Theme = theme
        self._form = form
        self._colours = palette(theme)
        self._shapes: list[_Shape] = []
        self._words: list[Word] = []

    def polygon(
        self, pieces: Sequence[Points], fill: Role | None, *, stroke: Role | None = None, width: float = 1.0,
        hatch: str | None = None, opacity: float = 1.0, clip: Box | None = None, layer: _Layer = "area",
    ) -> None:  # fmt: skip
        """Closed outlines, each of corners ``(m, 2)``, filled as one."""
        self._put(pieces, True, layer, fill, stroke, width, None, hatch, opacity, clip)

    def line(
        self, pieces: Sequence[Points], stroke: Role, *, width: float = 1.0, dash: tuple[float, ...] | None = None,
        clip: Box | None = None,
    ) -> None:  # fmt: skip
        """Open lines through points ``(m, 2)``, each."""
        self._put(pieces, False, "line", None, stroke, width, dash, None, 1.0, clip)

    def word(
        self, x: float, y: float, text: str, *, size: float = SMALL, colour: Role = "quiet", anchor: Anchor = "start",
        bold: bool = False, upright: bool = True,
    ) -> None:  # fmt: skip
        """Text whose base line begins, or has its middle or end, at a place; not upright it is read from below."""
        if text:
            self._words.append(Word(x, y, text, size, colour, anchor, bold, upright))

    def drawn(self, height: float, title: str, alt: str) -> Drawn:
        """The picture: ``height`` pixels of it. ``title`` and ``alt`` are what its SVG says of itself."""
        with engine.LOCK:
            import matplotlib

            with matplotlib.rc_context({**_SETTINGS, "svg.hashsalt": alt}):
                content = self._svg(height, title, alt) if self._form == "svg" else self._png(height, alt)
        return Drawn(content, "image/svg+xml" if self._form == "svg" else "image/png", alt)

    def _put(self, pieces: Sequence[Points], closed: bool, *looks: Any) -> None:
        drawable = [piece for piece in pieces if len(piece) > 1]
        if drawable:
            self._shapes.append(_Shape(_path(drawable, closed), *looks))

    def _svg(self, height: float, title: str, alt: str) -> bytes:
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        told = io.StringIO()
        sheet: Any = FigureCanvasSVG(self._figure(height))
        sheet.print_svg(told, metadata={"Date": None})
        return finished(
            told.getvalue(), (self.width, height), title, alt, self._words, self._colours, auto=self._theme == "auto"
        )

    def _png(self, height: float, alt: str) -> bytes:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure = self._figure(height, _DENSITY)
        for word in self._words:
            figure.add_artist(self._letters(word, figure, height))
        told = io.BytesIO()
        sheet: Any = FigureCanvasAgg(figure)
        sheet.print_png(told, metadata={"Software": None, "Description": settable(alt)}, pil_kwargs=_PACKING)
        return told.getvalue()

    def _figure(self, height: float, density: int = 1) -> Any:
        from matplotlib.figure import Figure
        from matplotlib.patches import PathPatch
        from matplotlib.transforms import Bbox, TransformedBbox

        figure = Figure((self.width / 72, height / 72), 72 * density, facecolor=self._colours["paper"])
        place = self._place(figure, height)
        for shape in sorted(self._shapes, key=lambda shape: _LAYERS.index(shape.layer)):
            fill, stroke = (None if role is None else self._colours[role] for role in (shape.fill, shape.stroke))
            patch = PathPatch(
                shape.path,
                transform=place,
                facecolor="none" if fill is None else fill,
                edgecolor="none" if stroke is None else stroke,
                linewidth=0.0 if stroke is None else shape.width,
                linestyle="-" if shape.dash is None else (0, tuple(d / shape.width for d in shape.dash)),
                hatch=shape.hatch,
                alpha=None if shape.opacity == 1.0 else shape.opacity,
                capstyle="butt",
                joinstyle="round",
            )
            if shape.clip is not None:
                left, top, width, tall = shape.clip
                patch.set_clip_box(TransformedBbox(Bbox.from_bounds(left, top, width, tall), place))
            figure.add_artist(patch)
        return figure

    def _letters(self, word: Word, figure: Any, height: float) -> Any:
        from matplotlib.font_manager import FontProperties
        from matplotlib.text import Text

        weight = "bold" if word.bold else "normal"
        return Text(
            word.x,
            word.y,
            settable(word.text, weight),
            transform=self._place(figure, height),
            fontproperties=FontProperties(fname=engine.font_path(weight), size=word.size),
            color=self._colours[word.colour],
            ha={"start": "left", "middle": "center", "end": "right"}[word.anchor],
            va="baseline",
            rotation=0.0 if word.upright else 90.0,
            rotation_mode="anchor",
            parse_math=False,
        )

    def _place(self, figure: Any, height: float) -> Any:
        from matplotlib.transforms import Affine2D

        return Affine2D().scale(1 / 72, -1 / 72).translate(0.0, height / 72) + figure.dpi_scale_trans


def _path(pieces: Sequence[Points], closed: bool) -> Any:
    from matplotlib.path import Path

    codes = []
    for piece in pieces:
        told = np.full(len(piece) + closed, Path.LINETO, dtype=Path.code_type)
        told[0] = Path.MOVETO
        if closed:
            told[-1] = Path.CLOSEPOLY
        codes.append(told)
    outlines = [np.concatenate([piece, piece[:1]]) for piece in pieces] if closed else pieces
    return Path(np.concatenate(outlines), np.concatenate(codes))
