"""Text from elsewhere, as a report may show it."""

from __future__ import annotations

import unicodedata

#: Stands in the place of what may not be shown.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
#: Names longer than this are cut.
_MOST = 256


def cleaned(text: str, most: int = _MOST) -> str:
    """The text without what could hide or rearrange the rest of the page.

    Control characters, lone surrogates, characters of no meaning and those that turn the direction of writing are
    replaced; line ends and tabs become spaces; what is beyond ``most`` characters is cut.
    """
    if not text:
        return "(no name)"
    if len(text) <= most and text.isascii() and text.isprintable():  # nearly all, and whole pictures
        return text
    kept = [" " if c in "\t\n\r" else _REPLACEMENT if _hidden(c) else c for c in text[:most]]
    return "".join(kept) + ("…" if len(text) > most else "")


def _hidden(character: str) -> bool:
    # Cc: control; Cf: directions, zero width; Cs: surrogates; Cn: no character at all; Zl, Zp: line and paragraph ends.
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")
