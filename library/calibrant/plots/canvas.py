"""The canvas for shapes and text with coordinates in pixels; themes, SVG and PNG output, and errors."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import numpy.typing as npt

from calibrant.core.choices import PictureFormat
from calibrant.core.choices import Theme as Theme
from calibrant.core.errors import CalibrationError
from calibrant.plots import engine

# --- Text: width, available characters, and names from users

#: Replaces a character that the font lacks, only in PNG; an SVG uses the fonts of the viewer.
MISSING = "\N{REPLACEMENT CHARACTER}"
#: Unicode categories that are removed: control and format characters, surrogates, unassigned, private, line separators.
_UNSHOWN = frozenset(("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"))
#: The most characters of a name that are used.
_MOST = 500


def cleaned(name: str) -> str:
    r"""Clean a name for display: on one line, without control characters, with single blanks.

    >>> cleaned("two\nlines\u202e and  \x00more ")
    'two lines and more'
    """
    characters = (
        " " if c.isspace() else c for c in name[:_MOST] if c.isspace() or unicodedata.category(c) not in _UNSHOWN
    )
    return " ".join("".join(characters).split())


def shortened(text: str, room: float, size: float, weight: str = "normal") -> str:
    """Shorten a text in the middle to ``room`` pixels at the font size ``size``.

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
    """Return the width of a text in pixels at the font size ``size``, in DejaVu Sans."""
    return sum(_advance(c, weight) for c in text) * size


def settable(text: str, weight: str = "normal") -> str:
    """Replace characters that the font lacks by ``MISSING``."""
    have = _characters(weight)
    return "".join(c if ord(c) in have else MISSING for c in text)


def _ends(text: str, length: int) -> str:
    tail = length // 3
    return text[: length - tail].rstrip() + "…" + text[len(text) - tail :].lstrip()


@lru_cache(maxsize=4096)
def _advance(character: str, weight: str) -> float:
    """Width of a character in units of the font size; assumed wide if the font lacks it."""
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

Format = PictureFormat
#: What pictures say of a map that was fitted to their rows.
IN_SAMPLE = "in-sample (the map was fitted to these rows)"


@dataclass(frozen=True)
class Caption:
    """Information for the title and the alternative text of a picture.

    Parameters
    ----------
    n : int
        Number of rows.
    reduction : str
        Reduction, such as ``binary``.
    name : str, optional
        Name of the model or data.
    error : (str, float), optional
        Name and value of the error.
    interval : (float, float), optional
        Confidence interval of the error.
    """

    n: int
    reduction: str
    name: str | None = None
    error: tuple[str, float] | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Drawn:
    """A picture: its bytes, their media type, and its alternative text."""

    content: bytes
    media_type: str
    alt: str


# --- Errors


class PictureError(Exception):
    """Base class of errors of pictures, with a stable ``code`` and a message ``detail``."""

    code: ClassVar[str] = "picture-error"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class NothingToDraw(PictureError, CalibrationError):
    """A diagram without data; ``detail`` is the reason."""

    code = "nothing-to-draw"


class UnknownPicture(PictureError):
    """An unknown diagram."""

    code = "unknown-picture"


class InvalidPicture(PictureError):
    """An unsupported form, theme or width, or too many diagrams or measures."""

    code = "invalid-picture"


# --- Colours by role, light and dark
#
# The palette of Okabe & Ito (2008), which works with colour vision deficiencies; nothing is distinguished by colour
# alone. In the dark theme, hues are lightened to have the same contrast as on white.

#: The use of a colour: background, text, rules, series and their tints.
Role = Literal[
    "paper", "ink", "quiet", "rule", "faint", "first", "second", "third", "fourth", "first-tint", "second-tint", "band"
]
ROLES: tuple[Role, ...] = get_args(Role)
#: Colours of several series, in order.
SERIES: tuple[Role, ...] = ("first", "second", "third", "fourth")


@dataclass(frozen=True)
class Palette:
    """A distinct colour, ``#rrggbb``, for each role."""

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
    """Return the colours of a theme; light for ``auto``."""
    if theme not in get_args(Theme):
        raise InvalidPicture(f"the theme must be one of {', '.join(get_args(Theme))}")
    return DARK if theme == "dark" else LIGHT


def variable(role: Role) -> str:
    """Return the CSS custom property of a role, with the light colour as fallback.

    >>> variable("ink")
    'var(--picture-ink, #1b1f24)'
    """
    return f"var(--picture-{role}, {LIGHT[role]})"


def style_sheet() -> str:
    """Return the CSS rules for the theme ``auto``; a page with pictures may define its own.

    >>> style_sheet().startswith(".picture{--picture-paper:#ffffff;")
    True
    """
    light, dark = ("".join(f"--picture-{role}:{colours[role]};" for role in ROLES) for colours in (LIGHT, DARK))
    return f".picture{{{light}}}@media (prefers-color-scheme:dark){{.picture{{{dark}}}}}"


# --- SVG: the shapes of matplotlib, with text and colours added
#
# Shapes have presentation attributes instead of ``style``, so that an inline picture needs no exception in a content
# security policy. Nothing refers to external resources.

#: Fonts that are about as wide as the font used for layout, or narrower.
_FAMILY = "Inter, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_STYLE = re.compile(r' style="([^"]*)"')
_COLOUR = re.compile(r'"(#[0-9a-f]{6})"')
_IDENTIFIED = re.compile(r'<g id="[^"]*"')
#: Characters that XML does not allow.
_FORBIDDEN = re.compile("[^\\t\\n\\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Label:
    """Text at a position."""

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
    """Build the SVG from matplotlib's output; with ``auto``, colours follow the colour scheme of the viewer."""
    inks = {colours[role]: variable(role) if auto else colours[role] for role in ROLES}
    body = shapes[shapes.index("</metadata>") + len("</metadata>") : shapes.rindex("</svg>")]
    # matplotlib's style rules would apply to the whole page of an inline picture.
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    body = _STYLE.sub(lambda match: _attributes(match[1]), body)
    body = _COLOUR.sub(lambda match: f'"{inks.get(match[1], match[1])}"', body)
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
    """Convert style declarations to presentation attributes."""
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


# --- The canvas: shapes and text at positions in pixels
#
# The origin is the upper left corner, as in SVG. Text remains text in SVG, so that it can be searched and read aloud.

Points = npt.NDArray[np.float64]
Anchor = Literal["start", "middle", "end"]
Box = tuple[float, float, float, float]
#: Font sizes in pixels.
TITLE, BODY, SMALL = 14.0, 12.0, 11.0
#: Allowed widths of a picture in pixels.
NARROWEST, WIDEST = 320, 2000
#: Pixels of a PNG per pixel of the canvas.
_DENSITY = 2
#: PNG compression: files a fifth larger than at the default level 6, in two thirds of the time.
_PACKING = {"compress_level": 3}
#: Settings of matplotlib for shapes, independent of those of the process.
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
    """A drawing surface. Layers from bottom to top: areas, lines, points, text."""

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
        """Add closed outlines with corners (m, 2), filled as one shape."""
        self._put(pieces, True, layer, fill, stroke, width, None, hatch, opacity, clip)

    def line(
        self, pieces: Sequence[Points], stroke: Role, *, width: float = 1.0, dash: tuple[float, ...] | None = None,
        clip: Box | None = None,
    ) -> None:  # fmt: skip
        """Add open lines through points (m, 2)."""
        self._put(pieces, False, "line", None, stroke, width, dash, None, 1.0, clip)

    def text(
        self, x: float, y: float, text: str, *, size: float = SMALL, colour: Role = "quiet", anchor: Anchor = "start",
        bold: bool = False, upright: bool = True,
    ) -> None:  # fmt: skip
        """Add text; ``anchor`` is the part of its baseline at (x, y). Text that is not ``upright`` reads upwards."""
        if text:
            self._labels.append(Label(x, y, text, size, colour, anchor, bold, upright))

    def drawn(self, height: float, title: str, alt: str) -> Drawn:
        """Finish the picture with a height in pixels; ``title`` and ``alt`` become its title and description."""
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
    # Rounding to hundredths of a pixel halves the size of an SVG.
    return Path(np.round(np.concatenate(outlines), 2), np.concatenate(codes))
