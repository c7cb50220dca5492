"""Cleaning of untrusted text for reports."""

from __future__ import annotations

import re
import unicodedata

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


def _hidden(character: str) -> bool:
    # Cc: control; Cf: direction marks, zero width; Cs: surrogates; Cn: unassigned; Zl, Zp: line and paragraph ends.
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")
