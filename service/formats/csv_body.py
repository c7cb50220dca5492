"""CSV bodies: UTF-8 with a header row, read by the standard library, a block of rows at a time.

Read so it takes one to two seconds for a million pairs, where Arrow takes milliseconds, but neither the extra
``arrow`` nor a parser whose errors repeat what they found.
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from calibrant.errors import NotANumber
from calibrant.io.texts import number
from service.errors import MalformedCsv, TooLarge
from service.formats.limits import Limits
from service.formats.names import read_names
from service.formats.payload import Array, Arrays, Body
from service.formats.tables import View, find_columns, read_columns

#: Cells that are worked on at once.
_BLOCK_CELLS = 1 << 16
#: A line may be so long, or longer where there may be more classes than that leaves room for.
_LINE, _CELL = 1024 * 1024, 64


def read_csv(body: Body, limits: Limits) -> Arrays:
    """Read a table with a header; the names of its columns are those of ``service.formats.tables``.

    Raises ``MalformedCsv`` or ``NotANumber`` with the first row at fault, counted from 0 after the header, or
    ``InvalidField`` or ``TooLarge``.
    """
    limits.check_bytes(len(body))
    text = io.TextIOWrapper(io.BufferedReader(View(memoryview(body))), "utf-8-sig", newline="")
    rows = csv.reader(_lines(text, limits), strict=True)
    read = 0
    try:
        header = [name.strip() for name in next(rows, [])]
        if not header:
            raise MalformedCsv("the body has no header row")
        columns = find_columns(header, limits)
        cells = _Cells(header, number=float if body.isascii() and b"_" not in body else number)
        while block := list(islice(rows, max(1, _BLOCK_CELLS // len(header)))):
            cells.add(block)
            read = len(cells)
            limits.check_rows(read)
    except (csv.Error, UnicodeDecodeError) as error:
        raise MalformedCsv(f"the body is not CSV in UTF-8 from row {read} on, or a later one") from error
    return read_columns(columns, lambda at, field: cells.column(at, field, limits))


def _lines(text: Iterable[str], limits: Limits) -> Iterator[str]:
    """The lines of a text, none of them so long that its cells alone fill the memory."""
    longest = max(_LINE, limits.max_classes * _CELL)
    for line in text:
        if len(line) > longest:
            raise TooLarge(f"a line may have at most {longest} characters")
        yield line


class _Cells:
    """The cells read so far: numbers by column, or names."""

    def __init__(self, header: Sequence[str], number: Callable[[str], float]) -> None:
        self._width = len(header)
        self._fields = ["predictions" if name.startswith("predictions.") else name for name in header]
        self._number = number
        self._numbers = [array("d") for _ in header]
        self._names: list[str] = []
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def add(self, block: Sequence[Sequence[str]]) -> None:
        """Take in some rows; raises the error of the first bad one."""
        if set(map(len, block)) != {self._width}:
            row = next(i for i, cells in enumerate(block) if len(cells) != self._width)
            raise MalformedCsv(f"row {self._rows + row} has {len(block[row])} cells where the header has {self._width}")
        for at, texts in enumerate(zip(*block, strict=True)):
            if self._fields[at] == "groups":
                self._names.extend(texts)
                continue
            try:
                self._numbers[at].fromlist(list(map(self._number, texts)))
            except ValueError as error:
                raise self._refusal(at, texts) from error
        self._rows += len(block)

    def column(self, at: int, field: str, limits: Limits) -> Array:
        """A whole column as an array."""
        if field == "groups":
            return read_names(self._names, limits)
        return np.frombuffer(self._numbers[at], dtype=np.float64) if self._rows else np.empty(0)

    def _refusal(self, at: int, texts: Sequence[str]) -> NotANumber:
        row = next(i for i, text in enumerate(texts) if not _is_number(text, self._number))
        what = "is empty" if not texts[row].strip() else "is not a number"
        return NotANumber.at(f"/{self._fields[at]}/{self._rows + row}", what)


def _is_number(text: str, number: Callable[[str], float]) -> bool:
    try:
        number(text)
    except ValueError:
        return False
    return True
