"""Cleaning of untrusted text for reports."""

from __future__ import annotations

import unicodedata

#: Replaces characters that are not shown.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
#: Names longer than this are cut.
_MOST = 256


def cleaned(text: str, most: int = _MOST) -> str:
    """Remove characters that could hide or rearrange the rest of the page.

    Control characters, lone surrogates, unassigned characters and marks of text direction are replaced; line ends and
    tabs become spaces; the text is cut to ``most`` characters.
    """
    if not text:
        return "(no name)"
    if len(text) <= most and text.isascii() and text.isprintable():  # fast path, also for whole pictures
        return text
    kept = [" " if c in "\t\n\r" else _REPLACEMENT if _hidden(c) else c for c in text[:most]]
    return "".join(kept) + ("…" if len(text) > most else "")


def _hidden(character: str) -> bool:
    # Cc: control; Cf: direction marks, zero width; Cs: surrogates; Cn: unassigned; Zl, Zp: line and paragraph ends.
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")
