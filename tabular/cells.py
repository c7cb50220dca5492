"""Cells of text: which are numbers, which say that nothing is there, and what is wrong with the others."""

from __future__ import annotations

import re

from tabular.errors import DecimalComma, Field, LooksLikePercent, MissingValue, NotANumber, NotFinite, TabularError
from tabular.told import quoted, row_of

#: What people and programs write where they have no value, in lower case.
MISSING = frozenset(("", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none", "nil", "?"))
_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)


def is_missing(text: str) -> bool:
    """Whether a cell says that it has no value."""
    return text.strip().lower() in MISSING


def number(text: str) -> float:
    """A number as every reader would see it: Python's own takes 1_0 for 10, and digits of every script."""
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
