"""Names and texts of a file as a message tells them: cut short, few, and without control characters."""

from __future__ import annotations

from collections.abc import Sequence

#: Characters of a name, and names in a list, that are told.
MAX_CHARACTERS, MAX_LISTED = 40, 8


def plain(text: str) -> str:
    """A text without what is not printed, cut to ``MAX_CHARACTERS``."""
    clean = "".join(c if c.isprintable() else " " for c in text[: MAX_CHARACTERS + 1])
    return clean if len(clean) <= MAX_CHARACTERS else clean[: MAX_CHARACTERS - 3] + "..."


def quoted(text: str) -> str:
    """A text between quotation marks."""
    return f"'{plain(text)}'"


def listed(texts: Sequence[str], most: int = MAX_LISTED) -> str:
    """Some texts, each between quotation marks; those beyond ``most`` are counted."""
    told = ", ".join(map(quoted, texts[:most]))
    return told if len(texts) <= most else f"{told} and {len(texts) - most} more"


def span(texts: Sequence[str]) -> str:
    """A column, two, or the first and the last of several."""
    if len(texts) == 1:
        return f"column {quoted(texts[0])}"
    return f"columns {quoted(texts[0])} {'and' if len(texts) == 2 else 'to'} {quoted(texts[-1])}"


def row_of(row: int, line: int | None = None) -> str:
    """A row as people count: the first after the header is row 1, in a plain file line 2, if lines are known."""
    return f"row {row + 1}" if line is None else f"row {row + 1} (line {line})"
