"""Tables of a page, as headings and cells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_NUMBER = re.compile(r"(?<![\w.,^])[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?(?![\w^])")


class PageTable(NamedTuple):
    """A table under a heading: its column heads, and rows of as many cells."""

    section: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class CellFigure(NamedTuple):
    """A number of a cell, half of the unit of its last digit, and whether it is a percentage."""

    value: float
    half: float
    percent: bool = False


def tables(text: str) -> Iterator[PageTable]:
    """Return the tables of a page in their order; a section is the text of the last heading."""
    section, block = "", list[str]()
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            block.append(line)
            continue
        if len(block) > 1:
            head, _, *rows = (_cells(row) for row in block)
            yield PageTable(section, head, tuple(row + ("",) * (len(head) - len(row)) for row in rows))
        block = []
        if line.startswith("#"):
            section = line.lstrip("#").strip()


def _cells(line: str) -> tuple[str, ...]:
    parts = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
    return tuple(part.strip() for part in parts)


def figures(cell: str) -> list[CellFigure]:
    """Return the numbers of a cell; percentages as they are printed.

    >>> figures("**-1,234.50** (3%)")
    [CellFigure(value=-1234.5, half=0.005, percent=False), CellFigure(value=3.0, half=0.5, percent=True)]
    """
    numbers = []
    text = re.sub("`[^`]*`", "", cell).replace("*", " ").replace("\N{MINUS SIGN}", "-")
    for match in _NUMBER.finditer(text):
        mantissa, _, exponent = match[0].replace(",", "").partition("e")
        digits = len(mantissa.partition(".")[2])
        half = 0.5 * 10.0 ** (int(exponent or 0) - digits)
        percent = text[match.end() :].lstrip().startswith("%")
        numbers.append(CellFigure(float(match[0].replace(",", "")), half, percent))
    return numbers
