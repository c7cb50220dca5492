"""Text in pictures: how wide it is, which of it the fonts can set, and names of others made fit to be shown."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Any

from pictures import engine

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
