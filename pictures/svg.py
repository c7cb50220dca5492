"""The SVG of a picture: matplotlib's shapes, made small and safe, with our words and colours.

Shapes carry presentation attributes instead of ``style``, so that a picture inside a page needs no exception from a
content security policy; nothing in it refers to anything outside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from pictures.theme import ROLES, Palette, Role, style_sheet, variable

#: All of about the same width as the font that places were measured in, or narrower.
_FAMILY = "Inter, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_STYLE = re.compile(r' style="([^"]*)"')
_COLOUR = re.compile(r'"(#[0-9a-f]{6})"')
_IDENTIFIED = re.compile(r'<g id="[^"]*"')
#: What XML has no way to hold.
_FORBIDDEN = re.compile("[^\\t\\n\\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Word:
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
    told: str, size: tuple[float, float], title: str, alt: str, words: Sequence[Word], colours: Palette, *, auto: bool
) -> bytes:
    """The SVG, from what matplotlib told of its shapes. ``auto``: colours follow the reader's preference."""
    inks = {colours[role]: variable(role) if auto else colours[role] for role in ROLES}
    body = told[told.index("</metadata>") + len("</metadata>") : told.rindex("</svg>")]
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
    letters = "\n".join(_word(word, inks[colours[word.colour]]) for word in words)
    whole = f"{head}\n{described}{sheet}{body.strip()}\n<g font-family={quoteattr(_FAMILY)}>\n{letters}\n</g>\n</svg>\n"
    return re.sub(r" ?\n\s*", "\n", whole).encode()


def _attributes(style: str) -> str:
    """Declarations of a style as presentation attributes."""
    pairs = (declaration.partition(":") for declaration in style.split(";") if declaration.strip())
    return "".join(f' {name.strip()}="{value.strip()}"' for name, _, value in pairs)


def _escaped(text: str) -> str:
    return escape(_FORBIDDEN.sub("", text))


def _word(word: Word, ink: str) -> str:
    turned = "" if word.upright else f' transform="rotate(-90 {word.x:.1f} {word.y:.1f})"'
    anchor = "" if word.anchor == "start" else f' text-anchor="{word.anchor}"'
    bold = ' font-weight="600"' if word.bold else ""
    return (
        f'<text x="{word.x:.1f}" y="{word.y:.1f}" font-size="{word.size:g}" fill="{ink}"{anchor}{bold}{turned}>'
        f"{_escaped(word.text)}</text>"
    )
