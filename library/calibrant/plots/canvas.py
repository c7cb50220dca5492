"""The canvas: a sheet of given size in pixels, on which shapes and text are drawn; themes and errors."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, get_args
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import numpy.typing as npt

from calibrant.plots import engine

# --- Text: its width, the characters that the fonts have, and names from users

#: Stands for a character that no font of ours has, in PNG alone: SVG leaves it to the reader's fonts.
MISSING = "\N{REPLACEMENT CHARACTER}"
#: Controls, marks that turn the direction of what follows, line ends, surrogates, what Unicode has no use for yet.
_UNSHOWN = frozenset(("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"))
#: Characters of a name that are looked at: more than any picture has room for.
_MOST = 500


def cleaned(name: str) -> str:
    r"""A name as a picture may show it: on one line, without controls, runs of blanks as one.

    >>> cleaned("two\nlines\u202e and  \x00more ")
    'two lines and more'
    """
    kept = (" " if c.isspace() else c for c in name[:_MOST] if c.isspace() or unicodedata.category(c) not in _UNSHOWN)
    return " ".join("".join(kept).split())


def shortened(text: str, room: float, size: float, weight: str = "normal") -> str:
    """The text, or as much of its two ends as ``room`` pixels hold at a font size of ``size``.

    >>> shortened("a rather long name", 60, 12)
    'a rat…me'
    """
    if width(text, size, weight) <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if width(_ends(text, middle), size, weight) <= room else (low, middle - 1)
    return _ends(text, low)


def width(text: str, size: float, weight: str = "normal") -> float:
    """Pixels that the text takes at a font size of ``size`` pixels, in our font; most others are narrower."""
    return sum(_advance(c, weight) for c in text) * size


def settable(text: str, weight: str = "normal") -> str:
    """The text with ``MISSING`` for what our font lacks."""
    have = _characters(weight)
    return "".join(c if ord(c) in have else MISSING for c in text)


def _ends(text: str, kept: int) -> str:
    tail = kept // 3
    return text[: kept - tail].rstrip() + "…" + text[len(text) - tail :].lstrip()


@lru_cache(maxsize=4096)
def _advance(character: str, weight: str) -> float:
    """Width of a character in units of the font size; a wide one where our font lacks it."""
    if ord(character) not in _characters(weight):
        return 0.0 if unicodedata.combining(character) else 1.1
    with engine.LOCK:
        from matplotlib.ft2font import LoadFlags

        advance: int = _font(weight).load_char(ord(character), LoadFlags.NO_HINTING).linearHoriAdvance
    return advance / 65536 / 100.0


@lru_cache(maxsize=2)
def _characters(weight: str) -> frozenset[int]:
    with engine.LOCK:
        return frozenset(_font(weight).get_charmap())


@lru_cache(maxsize=2)
def _font(weight: str) -> Any:
    engine.load()
    from matplotlib.ft2font import FT2Font

    font = FT2Font(str(engine.font_path(weight)))
    font.set_size(100.0, 72.0)
    return font


# --- Input and output

Format = Literal["svg", "png"]
#: ``auto`` follows the reader's own preference, in SVG alone; a PNG of it is light.
Theme = Literal["auto", "light", "dark"]


@dataclass(frozen=True)
class About:
    """What a picture's title and alternative text say beside the diagram's own figures.

    ``n`` rows, the ``reduction`` in full, the ``name`` of what was measured where it has one, and an ``error`` (its
    name as people read it, its value in [0, 1]) with its ``interval`` if there is one.
    """

    n: int
    reduction: str
    name: str | None = None
    error: tuple[str, float] | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Drawn:
    """A picture: its bytes, their media type, and in ``alt`` the same figures as text."""

    content: bytes
    media_type: str
    alt: str


# --- Errors


class PictureError(Exception):
    """What all of them are: a stable ``code``, and ``detail`` for people."""

    code = "picture-error"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class NothingToDraw(PictureError):
    """A diagram without data; ``detail`` is the problem that stands beside it."""

    code = "nothing-to-draw"


class UnknownPicture(PictureError):
    """No diagram of this name can be drawn."""

    code = "unknown-picture"


class InvalidPicture(PictureError):
    """A form, theme or width that no picture has, or diagrams that do not go together."""

    code = "invalid-picture"


# --- Colours by role, light and dark
#
# Okabe & Ito's palette (2008), which people with any colour vision tell apart; pictures never tell by colour alone.
# On dark paper each hue is lightened until it has the contrast there that it has on white.

#: What a colour stands for: text and its quieter kinds, lines that help, and what is measured (series and tints).
Role = Literal[
    "paper", "ink", "quiet", "rule", "faint", "first", "second", "third", "fourth", "first-tint", "second-tint", "band"
]
ROLES: tuple[Role, ...] = get_args(Role)
#: Several models take these in turn, each with a dash of its own.
SERIES: tuple[Role, ...] = ("first", "second", "third", "fourth")


@dataclass(frozen=True)
class Palette:
    """A colour, ``#rrggbb``, for each role; no two are the same."""

    colours: Mapping[Role, str]

    def __getitem__(self, role: Role) -> str:
        return self.colours[role]


def _palette(*colours: str) -> Palette:
    return Palette(MappingProxyType(dict(zip(ROLES, colours, strict=True))))


LIGHT = _palette(
    "#ffffff", "#1b1f24", "#57606a", "#8c959f", "#e3e6ea", "#0072b2", "#c24e00", "#007f5c", "#9c4f80",
    "#a9d0e8", "#f6c8a6", "#d9dee4",
)  # fmt: skip
DARK = _palette(
    "#14181d", "#e8ebee", "#a3acb6", "#6e7883", "#2b323a", "#56b4e9", "#f0954a", "#2fc99b", "#dd93bd",
    "#24506b", "#6b4223", "#3a434d",
)  # fmt: skip


def palette(theme: Theme) -> Palette:
    """The colours that a theme is drawn in; ``auto`` begins as light."""
    if theme not in get_args(Theme):
        raise InvalidPicture(f"the theme must be one of {', '.join(get_args(Theme))}")
    return DARK if theme == "dark" else LIGHT


def variable(role: Role) -> str:
    """The CSS custom property of a role, as a colour: light where nothing defines it.

    >>> variable("ink")
    'var(--picture-ink, #1b1f24)'
    """
    return f"var(--picture-{role}, {LIGHT[role]})"


def style_sheet() -> str:
    """The rules by which a picture of theme ``auto`` follows its reader; a page that holds pictures may have its own.

    >>> style_sheet().startswith(".picture{--picture-paper:#ffffff;")
    True
    """
    light, dark = ("".join(f"--picture-{role}:{colours[role]};" for role in ROLES) for colours in (LIGHT, DARK))
    return f".picture{{{light}}}@media (prefers-color-scheme:dark){{.picture{{{dark}}}}}"


# --- SVG: matplotlib's shapes, made small and safe, with our text and colours
#
# Shapes carry presentation attributes instead of ``style``, so that a picture inside a page needs no exception from a
# content security policy; nothing in it refers to anything outside.

#: All of about the same width as the font that places were measured in, or narrower.
_FAMILY = "Inter, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_STYLE = re.compile(r' style="([^"]*)"')
_COLOUR = re.compile(r'"(#[0-9a-f]{6})"')
_IDENTIFIED = re.compile(r'<g id="[^"]*"')
#: What XML has no way to hold.
_FORBIDDEN = re.compile("[^\\t\\n\\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Label:
    """Text at a place."""

    x: float
    y: float
    text: str
    size: float
    colour: Role
    anchor: str
    bold: bool
    upright: bool


def finished(
    shapes: str,
    size: tuple[float, float],
    title: str,
    alt: str,
    labels: Sequence[Label],
    colours: Palette,
    *,
    auto: bool,
) -> bytes:
    """The SVG, from matplotlib's drawing of the shapes. ``auto``: colours follow the reader's preference."""
    inks = {colours[role]: variable(role) if auto else colours[role] for role in ROLES}
    body = shapes[shapes.index("</metadata>") + len("</metadata>") : shapes.rindex("</svg>")]
    # Rules of its own would hold for the whole page that a picture stands in.
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    body = _STYLE.sub(lambda found: _attributes(found[1]), body)
    body = _COLOUR.sub(lambda found: f'"{inks.get(found[1], found[1])}"', body)
    body = _IDENTIFIED.sub("<g", body).replace("<defs>\n </defs>", "")
    width, height = (f"{length:g}" for length in size)
    sheet = f"<style>{style_sheet()}</style>" if auto else ""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" class="picture" '
        f'role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}" stroke-linejoin="round">'
    )
    described = f"<title>{_escaped(title)}</title>\n<desc>{_escaped(alt)}</desc>\n"
    letters = "\n".join(_text(label, inks[colours[label.colour]]) for label in labels)
    whole = f"{head}\n{described}{sheet}{body.strip()}\n<g font-family={quoteattr(_FAMILY)}>\n{letters}\n</g>\n</svg>\n"
    return re.sub(r" ?\n\s*", "\n", whole).encode()


def _attributes(style: str) -> str:
    """Declarations of a style as presentation attributes."""
    pairs = (declaration.partition(":") for declaration in style.split(";") if declaration.strip())
    return "".join(f' {name.strip()}="{value.strip()}"' for name, _, value in pairs)


def _escaped(text: str) -> str:
    return escape(_FORBIDDEN.sub("", text))


def _text(label: Label, ink: str) -> str:
    turned = "" if label.upright else f' transform="rotate(-90 {label.x:.1f} {label.y:.1f})"'
    anchor = "" if label.anchor == "start" else f' text-anchor="{label.anchor}"'
    bold = ' font-weight="600"' if label.bold else ""
    return (
        f'<text x="{label.x:.1f}" y="{label.y:.1f}" font-size="{label.size:g}" fill="{ink}"{anchor}{bold}{turned}>'
        f"{_escaped(label.text)}</text>"
    )


# --- The canvas: shapes and text at places in pixels
#
# Pixels run from the upper left corner, as in SVG. Text stays text in SVG: it can be searched, read aloud and set
# in the reader's font.

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
    """Areas, above them lines, above them points, each in the order they are put, and text above all."""

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
        self._labels: list[Label] = []

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

    def text(
        self, x: float, y: float, text: str, *, size: float = SMALL, colour: Role = "quiet", anchor: Anchor = "start",
        bold: bool = False, upright: bool = True,
    ) -> None:  # fmt: skip
        """Text whose base line begins, or has its middle or end, at a place; not upright it is read from below."""
        if text:
            self._labels.append(Label(x, y, text, size, colour, anchor, bold, upright))

    def drawn(self, height: float, title: str, alt: str) -> Drawn:
        """The picture: ``height`` pixels of it. ``title`` and ``alt`` become the SVG's title and description."""
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

        buffer = io.StringIO()
        sheet: Any = FigureCanvasSVG(self._figure(height))
        sheet.print_svg(buffer, metadata={"Date": None})
        return finished(
            buffer.getvalue(), (self.width, height), title, alt, self._labels, self._colours, auto=self._theme == "auto"
        )

    def _png(self, height: float, alt: str) -> bytes:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure = self._figure(height, _DENSITY)
        for label in self._labels:
            figure.add_artist(self._letters(label, figure, height))
        buffer = io.BytesIO()
        sheet: Any = FigureCanvasAgg(figure)
        sheet.print_png(buffer, metadata={"Software": None, "Description": settable(alt)}, pil_kwargs=_PACKING)
        return buffer.getvalue()

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

    def _letters(self, label: Label, figure: Any, height: float) -> Any:
        from matplotlib.font_manager import FontProperties
        from matplotlib.text import Text

        weight = "bold" if label.bold else "normal"
        return Text(
            label.x,
            label.y,
            settable(label.text, weight),
            transform=self._place(figure, height),
            fontproperties=FontProperties(fname=engine.font_path(weight), size=label.size),
            color=self._colours[label.colour],
            ha={"start": "left", "middle": "center", "end": "right"}[label.anchor],
            va="baseline",
            rotation=0.0 if label.upright else 90.0,
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
        own = np.full(len(piece) + closed, Path.LINETO, dtype=Path.code_type)
        own[0] = Path.MOVETO
        if closed:
            own[-1] = Path.CLOSEPOLY
        codes.append(own)
    outlines = [np.concatenate([piece, piece[:1]]) for piece in pieces] if closed else pieces
    # Hundredths of a pixel are beyond any screen, and half the length of an SVG.
    return Path(np.round(np.concatenate(outlines), 2), np.concatenate(codes))
