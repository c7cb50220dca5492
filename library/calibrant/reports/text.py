"""Text of reports, pages and commands: cleaned names, and values of JSON in one line."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

#: Replaces characters that are not shown.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
#: Names longer than this are cut.
_MOST = 256
#: A spreadsheet that opens a report computes cells that begin like this, also with full-width characters.
_FORMULA = re.compile(r"\s*[=+@\-\uff1d\uff0b\uff20\uff0d]")
_NUMBER = re.compile(r"\s*[+-]?[0-9.,]+(?:e[+-]?[0-9]+)?\s*", re.IGNORECASE)


def cleaned(text: str, most: int = _MOST) -> str:
    """Return a name as a report shows it: with printable characters, and quoted if it looks like a formula."""
    return unlike_formula(printable(text, most))


def unlike_formula(text: str) -> str:
    """Quote a text that a spreadsheet would compute if it opened the report; numbers stay as they are."""
    return f"“{text}”" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def printable(text: str, most: int = _MOST) -> str:
    """Remove characters that could hide or rearrange the rest of the page.

    Control characters, lone surrogates, unassigned characters and marks of text direction are replaced; line ends and
    tabs become spaces; the text is cut to ``most`` characters.
    """
    if not text:
        return "(no name)"
    if len(text) <= most and text.isascii() and text.isprintable():  # fast path, also for whole pictures
        return text
    characters = [" " if c in "\t\n\r" else _REPLACEMENT if _hidden(c) else c for c in text[:most]]
    return "".join(characters) + ("…" if len(text) > most else "")


def in_a_line(value: Any) -> str:
    """Return a value of JSON as one line, all of it but the parts that are null or empty.

    >>> in_a_line([{"name": "day", "seconds": 86400, "rows": None}, {"name": "last", "rows": 1000}])
    'name=day, seconds=86400; name=last, rows=1000'
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={in_a_line(part)}" for name, part in value.items() if not is_empty(part))
    if isinstance(value, list | tuple):
        return ("; " if any(isinstance(part, Mapping) for part in value) else ", ").join(map(in_a_line, value))
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_empty(value: Any) -> bool:
    """Whether a value of JSON says nothing: null, or an empty string, list or object."""
    return value is None or (not value and isinstance(value, str | list | tuple | Mapping))


def _hidden(character: str) -> bool:
    # Cc: control; Cf: direction marks, zero width; Cs: surrogates; Cn: unassigned; Zl, Zp: line and paragraph ends.
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")
