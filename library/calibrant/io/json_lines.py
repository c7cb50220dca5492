"""Reader of JSON Lines, one object per line with the names of the columns as keys; and what is converted to them."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from itertools import chain, dropwhile, islice
from typing import Any, BinaryIO

import numpy as np

from calibrant.core.errors import requires
from calibrant.io.errors import (
    TEXTS,
    VECTORS,
    DamagedFile,
    DuplicateColumns,
    EmptyFile,
    Field,
    FileTooLarge,
    NoHeader,
    NotUtf8,
    RaggedRow,
    TextInNumbers,
    UnmatchedArrays,
    WrongKind,
)
from calibrant.io.limits import MAX_LINE, NUMBER_BYTES, FileLimits
from calibrant.io.table import Coded, Column, ColumnPlaces, Floats, Values
from calibrant.io.texts import (
    Coding,
    check_distinct,
    is_number,
    number_or_nan,
    quoted,
    refusal,
    row_of,
    vector_of,
)

_SAMPLE_ROWS, _SAMPLE_BYTES = 1000, 4 << 20
#: The most rows per step, and the bytes of their lines.
_BLOCK, _BLOCK_BYTES = 1 << 12, 4 << 20


class JsonLinesTable:
    """A ``Table`` of JSON Lines; raises a ``TabularError`` if a line is not an object with the keys of the first."""

    def __init__(self, file: BinaryIO, limits: FileLimits, note: str = "the file has one JSON object per line") -> None:
        self._file, self._limits = file, limits
        self.notes = (note,)
        self._number = 0
        self._mappings: tuple[str, ...] | None = None
        sample = []
        for row in self._rows():
            sample.append(row)
            if len(sample) == _SAMPLE_ROWS or self._file.tell() > _SAMPLE_BYTES:
                break
        if not sample:
            raise EmptyFile("the file has no rows")
        if len(sample) == 1 and _is_whole(next(self.objects())):
            raise WrongKind(_WHOLE)
        limits.check_classes(len(sample[0]))
        #: Columns of lists of one element, which is read in place of the list.
        self._boxed = {name for name in sample[0] if _is_boxed([row.get(name) for row in sample])}
        self.columns = tuple(_column(name, self._cells(sample, name)) for name in sample[0])
        limits.check_classes(max(column.width for column in self.columns))

    def read(self, places: ColumnPlaces) -> Values:
        """Read some columns; raises the ``TabularError`` of the first bad value."""
        columns: dict[int, list[Floats]] = {at: [] for at in places.numbers}
        coding = {at: Coding(self.columns[at].name, places.fields[at]) for at in places.texts}
        width = sum(self.columns[at].width for at in places.numbers)
        n = 0
        for rows in self._blocks():
            self._limits.check_rows(n + len(rows), width=width)
            self._limits.reserve(2 * len(rows) * (width + len(coding)) * NUMBER_BYTES)
            for at, texts in coding.items():
                texts.add([_text(cell) for cell in self._cells(rows, self.columns[at].name)])
            for at, blocks in columns.items():
                blocks.append(self._numbers(self._cells(rows, self.columns[at].name), at, places.fields[at], n))
            n += len(rows)

        def column(at: int, field: Field) -> Floats | Coded:
            return coding[at].done() if field in TEXTS else np.concatenate(columns[at])

        return Values.of(places, column)

    def scan(self, places: Sequence[int], add: Callable[[int, Sequence[str]], object]) -> None:
        """Pass on the cells of some columns as strings, in blocks of rows; null becomes empty."""
        for rows in self._blocks():
            for at in places:
                add(at, [_text(cell) for cell in self._cells(rows, self.columns[at].name)])

    def objects(self) -> Iterator[dict[str, Any]]:
        """Yield the object of every line that is not blank."""
        self._file.seek(0)
        number = 0
        while line := self._file.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                if number == 1 and _OF_COLUMNS.match(line[:_HEAD]):
                    raise WrongKind(_WHOLE)
                raise FileTooLarge(f"line {number} has more than the limit of {MAX_LINE:,} bytes")
            if number == 1 and line.strip() == b"{":
                raise WrongKind(_WHOLE)
            row = _parsed(line, number)
            if row is not None:
                self._number = number
                yield row

    def rows(self) -> Iterator[list[str]]:
        """Yield the values of every row as strings, in the order of the columns; null becomes empty."""
        for row in self._rows():
            yield [_text(row.get(column.name)) for column in self.columns]

    def _cells(self, rows: Sequence[dict[str, Any]], name: str) -> list[Any]:
        cells = [_dense(row.get(name)) for row in rows]
        if name not in self._boxed:
            return cells
        return [*map(_unboxed, cells)]

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
        """Yield the object of every line, without nesting; mappings of numbers become one key per number."""
        keys = None
        for nested in self.objects():
            row = unnested(nested) if any(isinstance(cell, dict) for cell in nested.values()) else nested
            if self._mappings is None:
                self._mappings = tuple(name for name, cell in row.items() if _mapping(cell) is not None)
            flat = _flat(row, self._mappings) if self._mappings else row
            keys = flat.keys() if keys is None else keys
            if not flat.keys() <= keys:
                flat = {name: cell for name, cell in flat.items() if name in keys or cell is not None}
            if not flat.keys() <= keys:
                raise RaggedRow(f"line {self._number} has keys that the first line does not have")
            yield flat

    def _numbers(self, cells: list[Any], at: int, field: Field, first: int) -> Floats:
        """Convert the numbers, or the lists of numbers, of some rows."""
        name, width = self.columns[at].name, self.columns[at].width
        if width > 1 and field in VECTORS:
            for i, cell in enumerate(cells):
                if cell is None:
                    raise refusal("", name, field, first + i)
                if not isinstance(cell, list) or len(cell) != width:
                    raise UnmatchedArrays(
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
        parsed = np.empty(len(cells))
        for i, cell in enumerate(cells):
            if isinstance(cell, list | dict | bool):
                raise TextInNumbers(f"{row_of(first + i // width)} of {quoted(name)} is not a number", field=field)
            parsed[i] = number_or_nan(_text(cell))
            if not math.isfinite(parsed[i]):
                raise refusal("inf" if math.isinf(parsed[i]) else _text(cell), name, field, first + i // width)
        return parsed


#: A file of one object in place of one per row, such as pandas writes by default.
_WHOLE = "the file is one JSON object, not one per row"
_OF_COLUMNS, _HEAD = re.compile(rb'\s*\{\s*"[^"]*"\s*:\s*[{\[]'), 512


def _is_whole(row: dict[str, Any]) -> bool:
    """Whether the only row of a file has columns or rows as values."""
    rows = (cell for cell in row.values() if isinstance(cell, list) and cell and _mapping(cell) is None)
    if any(all(isinstance(element, dict) for element in cell) for cell in rows):
        return True
    return len(row) > 1 and all(isinstance(cell, dict | list) for cell in row.values())


def _mapping(cell: Any) -> dict[str, Any] | None:
    """Return several numbers by name, also as labels with scores as Hugging Face and BigQuery write them; else None."""
    if isinstance(cell, list):
        if not all(isinstance(element, dict) and "label" in element for element in cell):
            return None
        score = next((key for key in ("score", "prob") if all(key in element for element in cell)), None)
        if score is None:
            return None
        cell = {
            str(element["label"]): element[score] for element in sorted(cell, key=lambda element: str(element["label"]))
        }
    if not isinstance(cell, dict) or len(cell) < 2 or not all(type(number) in (int, float) for number in cell.values()):
        return None
    return cell


def unnested(row: dict[str, Any], depth: int = 4) -> dict[str, Any]:
    """Return a row with names such as ``output.score`` for the values of objects; numbers by name stay together."""
    flattened: dict[str, Any] = {}
    for name, cell in row.items():
        is_nested = isinstance(cell, dict) and cell and _mapping(cell) is None and "values" not in cell
        if is_nested and depth:
            flattened |= unnested({f"{name}.{key}": value for key, value in cell.items()}, depth - 1)
        else:
            flattened[name] = cell
    return flattened


def _flat(row: dict[str, Any], mappings: Sequence[str]) -> dict[str, Any]:
    """Replace mappings by one key per number, such as ``probs_cat``."""
    flattened: dict[str, Any] = {}
    for name, cell in row.items():
        numbers = _mapping(cell) if name in mappings else None
        if numbers is None and name in mappings:
            continue  # as missing values
        flattened |= {name: cell} if numbers is None else {f"{name}_{key}": number for key, number in numbers.items()}
    return flattened


def _parsed(line: bytes, number: int) -> dict[str, Any] | None:
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise NotUtf8(f"line {number} is not UTF-8; save the file as UTF-8") from error
    if not text:
        return None
    try:
        row = json.loads(text, object_pairs_hook=each_once)
    except DuplicateKey as error:
        raise DuplicateColumns(f"line {number} has the key {quoted(str(error))} twice") from error
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not row:
        raise DamagedFile(f"line {number} is not a JSON object; in JSON Lines, each line is one object")
    return row


class DuplicateKey(ValueError):
    """The name of a key that an object has twice."""


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; raises a ``ValueError`` if it has a key twice."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise DuplicateKey(Counter(name for name, _ in pairs).most_common(1)[0][0])
    return members


def _is_boxed(cells: list[Any]) -> bool:
    """Whether cells that are not missing are lists of one element, which is no object."""
    lists = [cell for cell in map(_dense, cells) if cell is not None]
    return bool(lists) and all(
        isinstance(cell, list) and len(cell) == 1 and type(cell[0]) is not dict for cell in lists
    )


def _unboxed(cell: Any) -> Any:
    while isinstance(cell, list) and len(cell) == 1:
        cell = cell[0]
    return cell


def _column(name: str, cells: list[Any]) -> Column:
    first = _dense(next((cell for cell in cells if cell is not None), None))
    if isinstance(first, list) and not any(isinstance(element, list | dict) for element in first):
        return Column(name, (), max(1, len(first)))
    if isinstance(first, list | dict):
        return Column(name, ("a value of another kind",))
    return Column(name, tuple(map(_text, cells)))


#: How strings begin that may be vectors: brackets, ``array(`` and ``tensor(``.
_OPENS = frozenset("[({at")


def _dense(cell: Any) -> Any:
    """Return a dense vector of Spark, ``{"type": 1, "values": [0.25, 0.75]}``, as a list.

    So are log-likelihoods of lm-evaluation-harness, which are beside whether the answer is that of greedy decoding:
    ``[["-0.25", "True"], ["-3.5", "False"]]``, and vectors that are strings: ``"[0.25 0.75]"``.
    """
    if type(cell) is str:
        texts = vector_of(cell) if cell[:1] in _OPENS else None
        return [*map(float, texts)] if texts and all(map(is_number, texts)) else cell
    are_pairs = type(cell) is list and bool(cell) and all(type(pair) is list and len(pair) == 2 for pair in cell)
    if are_pairs and {str(flag) for _, flag in cell} <= {"True", "False"}:
        return [number for number, _ in cell]
    return cell["values"] if type(cell) is dict and cell.get("type") == 1 and "values" in cell else cell


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else json.dumps(cell) if isinstance(cell, list | dict) else str(cell)


# --- Conversion of a JSON document with a table, as pandas, R and services write it, to JSON Lines

Row = dict[str, Any]
#: The most bytes of a document, which is read as a whole, in some 26 times its memory at most.
MAX_DOCUMENT = 8 << 20
#: How to save JSON Lines.
_INSTEAD = "save JSON Lines, with pandas as df.to_json(path, orient='records', lines=True)"


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    r"""Yield the rows of a document as lines of JSON.

    The document is a list of rows, a mapping of columns as lists or mappings, a mapping of rows, or an object with one
    of these, beside other values. Raises ``WrongKind`` for another or too large document, ``EmptyFile``,
    ``DamagedFile``, and ``DuplicateColumns`` for a key that an object has twice.

    >>> import io
    >>> [*lines_of(io.BytesIO(b'{"model": "a", "rows": [{"label": 1, "p": 0.5}]}'))]
    [b'{"label": 1, "p": 0.5}\n']
    >>> [*lines_of(io.BytesIO(b'{"label": {"0": 1}, "p": {"0": 0.5}}'))]
    [b'{"label": 1, "p": 0.5}\n']
    """
    file.seek(0)
    data = file.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise WrongKind(f"the file is one JSON document of more than {MAX_DOCUMENT >> 20} MiB; {_INSTEAD}")
    try:
        document = json.loads(data, object_pairs_hook=each_once)
    except DuplicateKey as error:
        raise DuplicateColumns(f"an object of the file has the key {quoted(str(error))} twice") from error
    except (ValueError, RecursionError) as error:
        raise DamagedFile("the file is neither a JSON document nor JSON Lines, with one object per line") from error
    rows = _rows(document)
    if rows is None:
        raise WrongKind(f"the file is JSON without a table of rows or columns; {_INSTEAD}")
    row: Row | None = None
    for row in rows:
        yield json.dumps(row).encode() + b"\n"
    if row is None:
        raise EmptyFile("the file has no rows")


def _rows(document: Any) -> Iterable[Row] | None:
    """Return the rows of a document, or None if there are none; rows of columns are made one by one."""
    if isinstance(document, list):
        return document if all(isinstance(row, dict) for row in document) else None
    if not isinstance(document, dict):
        return None
    if isinstance(names := document.get("columns"), list) and isinstance(rows := document.get("data"), list):
        if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
            return None
        keys = [*map(str, names)]
        return (dict(zip(keys, row, strict=True)) for row in rows)  # orient="split"
    inner = {name: value for name, value in document.items() if isinstance(value, list | dict) and value}
    lists = {name: value for name, value in inner.items() if isinstance(value, list)}
    if lists:
        longest = max(map(len, lists.values()))
        columns = {name: value for name, value in lists.items() if len(value) == longest}
        if len(columns) == 1 and (of_column := _rows(*columns.values())) is not None:
            return of_column
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    of = [value for value in inner.values() if isinstance(value, dict)]
    if len(of) == 1:
        return _rows(of[0])
    if not of or len(inner) < len(document) or any(value.keys() != of[0].keys() for value in of):
        return None
    numbered = all(map(str.isdecimal, of[0]))
    if all(map(str.isdecimal, inner)) or (len(inner) > len(of[0]) and not numbered):
        return of  # orient="index"
    return ({name: value[key] for name, value in inner.items()} for key in of[0])


# --- Conversion of a sheet of an Excel workbook to JSON Lines

Cells = tuple[Any, ...]
#: The most rows of a sheet.
_MOST_ROWS = 1 << 20
#: The header is below the titles in the first rows, of which each has one cell.
_MOST_TITLES = 50


def read_workbook(file: BinaryIO, limits: FileLimits) -> tuple[str, Iterator[bytes]]:
    """Return a note on the sheet that is read, and its rows as lines of JSON.

    It is the first visible sheet with cells. Titles above the header, rows without cells at the end and columns
    without a name are left out. Formulas have the values that Excel saved.

    Raises
    ------
    TabularError
        If the workbook is damaged, has no table or is too large; also from the iterator.
    MissingExtra
        If openpyxl is not installed.
    """
    with requires("excel", "an Excel workbook", instead="or save it as CSV"):
        import openpyxl
    file.seek(0)
    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    except Exception as error:  # of many types, for any damage
        raise _damaged() from error
    for sheet in sheets:
        rows = dropwhile(lambda cells: not _filled(cells), _rows_of_sheet(sheet))
        if first := [*islice(rows, _MOST_TITLES)]:
            of = "" if len(sheets) == 1 else f", the first of {len(sheets):,} with cells"
            skipped, names = _header(first)
            above = "" if not skipped else f"; the titles above {quoted(names[min(names)])} are skipped"
            note = f"the file is an Excel workbook: sheet {quoted(sheet.title)}{of}{above}"
            return note, _lines_of_sheet(names, chain(first[skipped + 1 :], rows), limits)
    raise EmptyFile("the workbook has no cells")


def _rows_of_sheet(sheet: Any) -> Iterator[Cells]:
    sheet.reset_dimensions()  # which a program may have stated wrongly
    try:
        for number, cells in enumerate(sheet.iter_rows(values_only=True)):
            if number >= _MOST_ROWS:
                raise FileTooLarge(f"the sheet has more than {_MOST_ROWS:,} rows; save it as CSV")
            yield cells
    except FileTooLarge:
        raise
    except Exception as error:
        raise _damaged() from error


def _damaged() -> DamagedFile:
    return DamagedFile("the Excel workbook is damaged; open it, and save it again or as CSV")


def _filled(cells: Cells) -> int:
    return sum(not _is_empty(cell) for cell in cells)


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _header(rows: Sequence[Cells]) -> tuple[int, dict[int, str]]:
    """Return the place of the header in the first rows, and the name of each column that has one."""
    widths = [*map(_filled, rows)]
    at = next((at for at, width in enumerate(widths) if width > 1), None)
    at = 0 if at is None else at
    names = {place: str(cell).strip() for place, cell in enumerate(rows[at]) if not _is_empty(cell)}
    if not any(isinstance(cell, str) for cell in rows[at]) and [*names.values()] != [*map(str, range(len(names)))]:
        raise NoHeader(
            f"the first row of the sheet has numbers instead of column names; add a row such as {quoted('label')}, "
            f"{quoted('p')}"
        )
    check_distinct([*names.values()], "header")
    return at, names


def _lines_of_sheet(names: dict[int, str], rows: Iterable[Cells], limits: FileLimits) -> Iterator[bytes]:
    limits.check_classes(len(names))
    count, empty = 0, 0
    nothing = dict.fromkeys(names.values())
    for cells in rows:
        row = nothing | {names[at]: _plain(cell) for at, cell in enumerate(cells) if at in names}
        if all(cell is None for cell in row.values()):
            empty += 1
            continue
        for missing in [nothing] * empty:
            yield json.dumps(missing).encode() + b"\n"
        count, empty = count + empty + 1, 0
        limits.check_rows(count, width=len(names))
        yield json.dumps(row).encode() + b"\n"
    if not count:
        raise EmptyFile("the sheet has no rows below its header")


def _plain(cell: Any) -> Any:
    """Return a cell as JSON: empty cells are None, and times and dates are text."""
    if _is_empty(cell):
        return None
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time() else cell.isoformat(" ")
    if isinstance(cell, date | time):
        return cell.isoformat()
    return cell.total_seconds() if isinstance(cell, timedelta) else cell
