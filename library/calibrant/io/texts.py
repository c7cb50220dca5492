"""Cells and columns of text: numbers, missing values, and texts coded while they are read."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from calibrant.io.errors import (
    DecimalComma,
    Field,
    LooksLikePercent,
    MissingValue,
    NotANumber,
    NotFinite,
    NotLabels,
    NotUtf8,
    TabularError,
)
from calibrant.io.table import Coded

# --- Names and texts of a file in messages: shortened, few, and without control characters

#: Characters of a name, and names in a list, that a message shows.
MAX_CHARACTERS, MAX_LISTED = 40, 8


def plain(text: str) -> str:
    """A text with unprintable characters as blanks, cut to ``MAX_CHARACTERS``."""
    clean = "".join(c if c.isprintable() else " " for c in text[: MAX_CHARACTERS + 1])
    return clean if len(clean) <= MAX_CHARACTERS else clean[: MAX_CHARACTERS - 3] + "..."


def quoted(text: str) -> str:
    """A text between quotation marks."""
    return f"'{plain(text)}'"


def listed(texts: Sequence[str], most: int = MAX_LISTED) -> str:
    """A list of quoted texts, which ends in a count of those beyond ``most``."""
    shown = ", ".join(map(quoted, texts[:most]))
    return shown if len(texts) <= most else f"{shown} and {len(texts) - most} more"


def span(texts: Sequence[str]) -> str:
    """A column, two, or the first and the last of several."""
    if len(texts) == 1:
        return f"column {quoted(texts[0])}"
    return f"columns {quoted(texts[0])} {'and' if len(texts) == 2 else 'to'} {quoted(texts[-1])}"


def row_of(row: int, line: int | None = None) -> str:
    """A row as people count: the first after the header is row 1, in a plain file line 2, if lines are known."""
    return f"row {row + 1}" if line is None else f"row {row + 1} (line {line})"


# --- Cells of text: numbers, missing values, and the errors of other cells

#: Markers of missing values, in lower case.
MISSING = frozenset(("", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none", "nil", "?"))
_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)


def is_missing(text: str) -> bool:
    """Whether a cell is empty or marked as missing."""
    return text.strip().lower() in MISSING


def number(text: str) -> float:
    """A number of plain digits: Python's ``float`` also reads 1_0 as 10, and digits of every script."""
    if "_" in text or not text.isascii():
        raise ValueError("not plain digits")
    return float(text)


def is_number(text: str) -> bool:
    """Whether a cell holds a number as ``number`` reads it."""
    try:
        number(text)
    except ValueError:
        return False
    return True


def is_numeric(text: str) -> bool:
    """Whether a cell was meant as a number, though written with a decimal comma or a percent sign."""
    clean = text.strip()
    return is_number(clean.removesuffix("%")) or _COMMA.fullmatch(clean) is not None


def refusal(text: str, name: str, field: Field, row: int, line: int | None = None) -> TabularError:
    """The error of a cell that is no finite number; rows count from 0 here."""
    clean, where = text.strip(), f"{row_of(row, line)} of column {quoted(name)}"
    if is_missing(clean):
        what = "is empty" if not clean else f"says {quoted(clean)}, which is no value"
        return MissingValue(f"{where} {what}: fill it in or leave the row out", field=field)
    if _COMMA.fullmatch(clean):
        return DecimalComma(
            f"column {quoted(name)} has decimal commas, first in {row_of(row, line)}: write 0.5, not 0,5", field=field
        )
    if clean.endswith("%") and is_number(clean[:-1]):
        return LooksLikePercent(
            f"column {quoted(name)} has percent signs, first in {row_of(row, line)}: divide by 100, so that each "
            "value is in [0, 1]",
            field=field,
        )
    if _INFINITE.fullmatch(clean):
        return NotFinite(f"{where} is infinite: every number must be finite", field=field)
    return NotANumber(f"{where} is not a number", field=field)


# --- Columns of text, coded while they are read: a file of a million labels has few different ones

#: Different texts of one column; there are at most so many classes and, in the library, a thousand groups.
MAX_TEXTS = 20_000
#: Characters of a text.
MAX_TEXT = 256


class Coding:
    """The texts of a column so far, without the blanks around them."""

    def __init__(self, name: str, field: Field) -> None:
        self._name, self._field = name, field
        self._places: dict[str, int] = {}
        self._codes = array("q")

    def add(self, texts: Sequence[str]) -> None:
        """Add some rows' texts; raises ``NotLabels`` or ``NotUtf8``."""
        places = self._places
        before = len(places)
        self._codes.extend([places.setdefault(text, len(places)) for text in texts])
        self._check(list(places)[before:] if len(places) > before else ())

    def add_coded(self, texts: Sequence[str], codes: npt.NDArray[np.integer]) -> None:
        """Add rows that are coded already, by places in ``texts``."""
        before = len(self._places)
        mine = np.array([self._places.setdefault(text, len(self._places)) for text in texts], dtype=np.int64)
        self._codes.frombytes(mine[codes].tobytes() if len(texts) else b"")
        self._check(list(self._places)[before:])

    def done(self) -> Coded:
        """The whole column; texts that differ only in surrounding blanks are one."""
        stripped: dict[str, int] = {}
        merged = np.array([stripped.setdefault(text.strip(), len(stripped)) for text in self._places], dtype=np.int64)
        codes = np.frombuffer(self._codes, dtype=np.int64) if len(self._codes) else np.empty(0, dtype=np.int64)
        return Coded(tuple(stripped), codes if len(stripped) == len(merged) else merged[codes])

    def _check(self, fresh: Sequence[str]) -> None:
        if len(self._places) > MAX_TEXTS:
            raise NotLabels(
                f"column {quoted(self._name)} has more than {MAX_TEXTS:,} different values, too many for "
                f"{self._field}: is it another column?",
                field=self._field,
            )
        for text in fresh:
            if (error := self._refusal(text)) is not None:
                raise error

    def _refusal(self, text: str) -> TabularError | None:
        where = f"column {quoted(self._name)}"
        if len(text) > MAX_TEXT:
            return NotLabels(f"{where} has a text of more than {MAX_TEXT} characters", field=self._field)
        try:
            text.encode()
        except UnicodeEncodeError:
            row = int(np.argmax(np.frombuffer(self._codes, dtype=np.int64) == self._places[text]))
            return NotUtf8(
                f"{row_of(row)} of {where} is not UTF-8 (Latin-1, perhaps): save the file as CSV in UTF-8",
                field="file",
            )
        return None
