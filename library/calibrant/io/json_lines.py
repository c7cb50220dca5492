"""Reader of JSON Lines: one object per line, with the names of the columns as keys."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from calibrant.io.errors import (
    TEXTS,
    VECTORS,
    DamagedFile,
    DuplicateColumns,
    EmptyFile,
    Field,
    FileTooLarge,
    NotANumber,
    NotUtf8,
    RaggedRow,
    WrongShape,
)
from calibrant.io.limits import MAX_LINE, FileLimits
from calibrant.io.npz import values_at
from calibrant.io.table import Coded, Column, Floats, Places, Values
from calibrant.io.texts import Coding, quoted, refusal, row_of

_SAMPLE_ROWS, _SAMPLE_BYTES = 1000, 4 << 20
#: The most rows per step, and the bytes of their lines.
_BLOCK, _BLOCK_BYTES = 1 << 12, 4 << 20


class JsonLinesTable:
    """A ``Table`` of JSON Lines; raises a ``TabularError`` if a line is not an object with the keys of the first."""

    notes = ("the file has one JSON object per line",)

    def __init__(self, file: BinaryIO, limits: FileLimits) -> None:
        self._file, self._limits = file, limits
        sample = []
        for row in self._rows():
            sample.append(row)
            if len(sample) == _SAMPLE_ROWS or self._file.tell() > _SAMPLE_BYTES:
                break
        if not sample:
            raise EmptyFile("the file has no rows")
        limits.check_classes(len(sample[0]))
        self.columns = tuple(_column(name, [row.get(name) for row in sample]) for name in sample[0])
        limits.check_classes(max(column.width for column in self.columns))

    def read(self, places: Places) -> Values:
        """Read some columns; raises the ``TabularError`` of the first bad value."""
        columns: dict[int, list[Floats]] = {at: [] for at in places.numbers}
        coding = {at: Coding(self.columns[at].name, places.field_of(at)) for at in places.texts}
        width = sum(self.columns[at].width for at in places.numbers)
        n = 0
        for rows in self._blocks():
            self._limits.check_rows(n + len(rows), width=width)
            for at, texts in coding.items():
                texts.add([_text(cell) for cell in self._cells(rows, at)])
            for at, blocks in columns.items():
                blocks.append(self._numbers(self._cells(rows, at), at, places.field_of(at), n))
            n += len(rows)

        def column(at: int, field: Field) -> Floats | Coded:
            return coding[at].done() if field in TEXTS else np.concatenate(columns[at])

        return values_at(places, column)

    def scan(self, places: Sequence[int], add: Callable[[int, Sequence[str]], object]) -> None:
        """Pass on the cells of some columns as strings, in blocks of rows; null becomes empty."""
        for rows in self._blocks():
            for at in places:
                add(at, [_text(cell) for cell in self._cells(rows, at)])

    def rows(self) -> Iterator[list[str]]:
        """Yield the values of every row as strings, in the order of the columns; null becomes empty."""
        for row in self._rows():
            yield [_text(row.get(column.name)) for column in self.columns]

    def _cells(self, rows: Sequence[dict[str, Any]], at: int) -> list[Any]:
        name = self.columns[at].name
        return [row.get(name) for row in rows]

    def _blocks(self) -> Iterator[list[dict[str, Any]]]:
        """Yield all rows in blocks of at most ``_BLOCK`` rows and about ``_BLOCK_BYTES``."""
        block: list[dict[str, Any]] = []
        begun = 0
        for row in self._rows():
            block.append(row)
            if len(block) == _BLOCK or self._file.tell() - begun > _BLOCK_BYTES:
                yield block
                block, begun = [], self._file.tell()
        if block:
            yield block

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Yield the object of every line that is not blank."""
        self._file.seek(0)
        number, keys = 0, None
        while line := self._file.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise FileTooLarge(f"line {number} has more than the limit of {MAX_LINE:,} bytes")
            row = _parsed(line, number)
            if row is None:
                continue
            keys = row.keys() if keys is None else keys
            if not row.keys() <= keys:
                raise RaggedRow(f"line {number} has keys that the first line does not have")
            yield row

    def _numbers(self, cells: list[Any], at: int, field: Field, first: int) -> Floats:
        """Convert the numbers, or the lists of numbers, of some rows."""
        name, width = self.columns[at].name, self.columns[at].width
        if width > 1 and field in VECTORS:
            for i, cell in enumerate(cells):
                if not isinstance(cell, list) or len(cell) != width:
                    raise WrongShape(
                        f"{row_of(first + i)} of {quoted(name)} is not a list of {width} numbers", field=field
                    )
            flat = [number for cell in cells for number in cell]
            return self._plain(flat, name, field, first, width).reshape(-1, width)
        return self._plain(cells, name, field, first, 1)

    def _plain(self, cells: list[Any], name: str, field: Field, first: int, width: int) -> Floats:
        if set(map(type, cells)) <= {int, float}:
            with contextlib.suppress(OverflowError):  # an integer beyond doubles, which is named below
                numbers = np.array(cells, dtype=np.float64)
                if np.isfinite(numbers).all():
                    return numbers
        found = np.empty(len(cells))
        for i, cell in enumerate(cells):
            value = cell if type(cell) in (int, float) else None
            try:
                found[i] = np.nan if value is None else value
            except OverflowError:
                found[i] = np.inf
            if not np.isfinite(found[i]):
                if isinstance(cell, list | dict | bool):
                    what = f"{row_of(first + i // width)} of {quoted(name)} is not a number"
                    raise NotANumber(what, field=field)
                text = "inf" if value is not None and value == value else _text(cell)
                raise refusal(text, name, field, first + i // width)
        return found


def _parsed(line: bytes, number: int) -> dict[str, Any] | None:
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise NotUtf8(f"line {number} is not UTF-8; save the file as UTF-8") from error
    if not text:
        return None
    try:
        row = json.loads(text, object_pairs_hook=_each_once)
    except _Duplicate as error:
        raise DuplicateColumns(f"line {number} has the key {quoted(str(error))} twice") from error
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not row:
        raise DamagedFile(f"line {number} is not a JSON object; in JSON Lines, each line is one object")
    return row


class _Duplicate(ValueError):
    """The name of a key that an object has twice."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Duplicate(Counter(name for name, _ in pairs).most_common(1)[0][0])
    return found


def _column(name: str, cells: list[Any]) -> Column:
    first = cells[0]
    if isinstance(first, list):
        return Column(name, (), max(1, len(first)))
    if isinstance(first, dict):
        return Column(name, ("a value of another kind",))
    return Column(name, tuple(map(_text, cells)))


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else json.dumps(cell) if isinstance(cell, list | dict) else str(cell)
