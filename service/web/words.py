"""How values are written on a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from schemas.problems import Problem
from schemas.row_words import in_rows
from service.html import prose as marked

_MINUS = "\u2212"
_NOTHING = "\u2013"


def number(value: float | None, digits: int = 3) -> str:
    """A number with so many significant digits, a dash for none; the minus is a minus."""
    if value is None:
        return _NOTHING
    return f"{value:.{digits}g}".replace("-", _MINUS)


def decimals(value: float | None, places: int = 4) -> str:
    """A number with so many places, so that a column of them lines up; a dash for none."""
    if value is None:
        return _NOTHING
    return f"{value:.{places}f}".replace("-", _MINUS)


def count(value: int | None) -> str:
    """A whole number with its thousands apart."""
    return _NOTHING if value is None else f"{value:,}"


def moment(stamp: str | None) -> str:
    """A time as people write it, in UTC."""
    if stamp is None:
        return _NOTHING
    return datetime.fromisoformat(stamp).astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def size(n_bytes: int) -> str:
    """A number of bytes, rounded down."""
    for unit, one in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n_bytes >= one:
            return f"{n_bytes // one:,} {unit}"
    return f"{n_bytes} bytes"


def sentence(text: str) -> str:
    """A problem's words with a capital and a full stop."""
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters, cut between two words."""
    if len(text) <= most:
        return text
    return f"{text[:most].rpartition(' ')[0].rstrip(',;:')}\u2026"


def said(problem: Problem) -> str:
    """What is wrong, in sentences: a place that is wrong by the name of its field, not by its pointer."""
    if (told := in_rows(problem.detail)) is not None:
        return sentence(told)
    if not problem.errors:
        return sentence(problem.detail)
    return " ".join(sentence(f"{e.pointer.strip('/').replace('/', ' ')} {e.detail}".strip()) for e in problem.errors)


def prose(text: str) -> Markup:
    """A sentence of ours; what stands between backticks is code, and everything in it is escaped."""
    return Markup(marked(text))  # noqa: S704


FILTERS: Mapping[str, Callable[..., Any]] = {
    "number": number,
    "decimals": decimals,
    "count": count,
    "moment": moment,
    "size": size,
    "sentence": sentence,
    "shortened": shortened,
    "said": said,
    "prose": prose,
}
