"""The rows of a text table by the standard library, a block at a time, with the row and the line of what is wrong."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, NoReturn

from tabular.bounds import MAX_LINE
from tabular.errors import FileTooLarge, NotUtf8, RaggedRow, TabularError, UnclosedQuote
from tabular.source import Kept
from tabular.told import row_of


@dataclass(frozen=True)
class Block:
    """Some rows, the first of them ``row`` counted from 0; ``line`` is its line where each row has one line."""

    row: int
    line: int | None
    rows: list[list[str]]

    def line_of(self, i: int) -> int | None:
        """The line of the i-th of them."""
        return None if self.line is None else self.line + i


class Rows:
    """The rows of a file from its beginning; bytes that are not UTF-8 stand as lone surrogates."""

    def __init__(self, file: BinaryIO, encoding: str, separator: str) -> None:
        file.seek(0)
        errors = "strict" if encoding == "utf-16" else "surrogateescape"
        self._text = io.TextIOWrapper(io.BufferedReader(Kept(file)), encoding, errors=errors, newline="")
        self._reader = csv.reader(self._lines(), delimiter=separator, strict=True)
        self._separator = separator
        self._width = 0
        self._row = 0
        self.header_lines = 0

    def header(self) -> list[str]:
        """The names of the columns, of the first line that is not blank."""
        for cells in self._next(1):
            self._width = len(cells)
            self.header_lines = self._reader.line_num
            return [cell.strip() for cell in cells]
        return []

    def sample(self, rows: int) -> list[list[str]]:
        """At most so many of the first rows."""
        return self._block(rows).rows

    def blocks(self, rows: int) -> Iterator[Block]:
        """All rows, at most so many at once."""
        while (block := self._block(rows)).rows:
            yield block

    def _block(self, rows: int) -> Block:
        first, before = self._row, self._reader.line_num
        found = self._next(rows)
        plain = self._reader.line_num - before == len(found)
        block = Block(first, before + 1 if plain else None, found)
        if found and set(map(len, found)) != {self._width}:
            self._refuse_ragged(block)
        self._row += len(found)
        return block

    def _next(self, rows: int) -> list[list[str]]:
        """The next rows that are not blank; none only at the end."""
        found: list[list[str]] = []
        try:
            while not found and (read := list(islice(self._reader, rows))):
                found = [cells for cells in read if cells and (len(cells) > 1 or cells[0].strip())]
        except csv.Error as error:
            raise self._malformed(error) from error
        except UnicodeDecodeError as error:
            raise NotUtf8("the file is not the UTF-16 that it begins as: save it as CSV in UTF-8") from error
        return found

    def _lines(self) -> Iterator[str]:
        """The lines, none of them so long that it alone fills the memory."""
        number = 0
        while line := self._text.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise FileTooLarge(f"line {number} has more than {MAX_LINE:,} characters, which is the limit")
            yield line

    def _refuse_ragged(self, block: Block) -> NoReturn:
        i = next(i for i, cells in enumerate(block.rows) if len(cells) != self._width)
        has, where = len(block.rows[i]), row_of(block.row + i, block.line_of(i))
        hint = (
            ": is a decimal comma among them? Write 0.5, not 0,5"
            if self._separator == "," and has > self._width
            else ""
        )
        raise RaggedRow(
            f"{where} has {has:,} {'cell' if has == 1 else 'cells'} where the header has {self._width:,}{hint}"
        )

    def _malformed(self, error: csv.Error) -> TabularError:
        """What the standard library's reader found: its words name no cell."""
        line = self._reader.line_num
        if "NUL" in str(error):
            return NotUtf8(f"line {line} holds a NUL byte: the file is damaged, or not text")
        return UnclosedQuote(
            f"a quotation mark in or before line {line} is not closed, or text follows where one closed: "
            'write "" for a quotation mark within quotation marks'
        )
