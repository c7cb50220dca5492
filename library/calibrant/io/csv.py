"""Reader of CSV and of text tables separated by semicolons, tabs, bars or blanks, by pyarrow or Python."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt

from calibrant.io.errors import (
    VECTORS,
    EmptyFile,
    Field,
    FileTooLarge,
    NoHeader,
    NotUtf8,
    RaggedRow,
    TabularError,
    UnclosedQuote,
    UnmatchedArrays,
    WrongKind,
    pyarrow,
)
from calibrant.io.limits import MAX_LINE, NUMBER_BYTES, FileLimits, Limits
from calibrant.io.source import OpenFile
from calibrant.io.table import Array, Column, ColumnPlaces, Floats, Values, sample_rows
from calibrant.io.texts import (
    PLAIN_CELLS,
    Coding,
    DecimalCommas,
    TextCells,
    check_distinct,
    is_missing,
    is_number,
    lacks_number,
    listed,
    not_encoded,
    number,
    number_or_nan,
    quoted,
    refusal,
    row_of,
    vector_of,
    without_sign,
)

# --- Rows of a text table, read by the standard library in blocks, with row and line numbers for errors


@dataclass(frozen=True)
class Block:
    """Consecutive rows; ``row`` is the index of the first, ``line`` its line number if every row has one line."""

    row: int
    line: int | None
    rows: list[list[str]]

    def line_of(self, i: int) -> int | None:
        """Return the line number of the i-th row, if known."""
        return None if self.line is None else self.line + i


#: Characters after which a block of rows ends, and the rows of a sample: as many as usual cells have.
_BLOCK_CHARACTERS, _SAMPLE_CHARACTERS = 1 << 21, 1 << 24
#: The most blank lines that are skipped, besides one per row.
_MOST_BLANK = 100_000


@dataclass(frozen=True)
class Start:
    """The separator of a text file, the lines before its header, and the header line.

    The header may be ``commented``, ``unnamed`` columns may precede its names, and Excel's ``sep=;`` may have
    ``stated`` the separator.
    """

    separator: str = ","
    skipped: int = 0
    header: str = ""
    stated: bool = False
    commented: bool = False
    unnamed: int = 0


class TextRows:
    """The rows of a text file; lines, and rows with line breaks in quoted cells, have at most ``longest`` characters.

    Blank lines are skipped and bytes that the encoding does not have become lone surrogates; if ``strict``, both are
    errors.
    """

    def __init__(
        self,
        file: BinaryIO,
        encoding: str,
        start: Start = Start(),
        *,
        strict: bool = False,
        longest: int = MAX_LINE,
    ) -> None:
        file.seek(0)
        errors = "strict" if strict else _errors(encoding)
        self._text = io.TextIOWrapper(io.BufferedReader(OpenFile(file)), encoding, errors=errors, newline="")
        self._reader = csv.reader(self._lines(longest), delimiter=start.separator, strict=True)
        self._encoding, self._start, self._strict = encoding, start, strict
        self._width = 0
        self._row = 0
        self._characters = 0  # of the lines read for the current row
        self._blank = 0  # blank lines less rows
        self._empty = 0  # rows of empty cells after the last block
        self._owed = 0  # empty rows before the block ``_later``, which has been read
        self._later: Block | None = None
        self.header_lines = 0

    def header(self) -> list[str]:
        """Read the column names from the first line, or from the first line that is not blank."""
        for cells in self._next(1, _BLOCK_CHARACTERS):
            self._width = self._start.unnamed + len(cells)
            self.header_lines = self._reader.line_num
            return [""] * self._start.unnamed + [cell.strip() for cell in cells]
        return []

    def sample(self, rows: int) -> list[list[str]]:
        """Read at most ``rows`` rows, fewer if they are long."""
        return self._block(rows, _SAMPLE_CHARACTERS).rows

    def blocks(self, rows: int) -> Iterator[Block]:
        """Yield all rows in blocks of at most ``rows``, fewer if they are long."""
        while (block := self._block(rows, _BLOCK_CHARACTERS)).rows:
            yield block

    def _block(self, rows: int, characters: int) -> Block:
        """Read the next block; rows at the end of the file in which every cell is empty are left out."""
        while self._later is None:
            block = self._any_block(rows, characters)
            if self._strict or not block.rows:
                return block
            n_rows = len(block.rows)
            while n_rows and not any(map(str.strip, block.rows[n_rows - 1])):
                n_rows -= 1
            if n_rows:
                self._later, self._owed, self._empty = replace(block, rows=block.rows[:n_rows]), self._empty, 0
            self._empty += len(block.rows) - n_rows
        if self._owed:  # empty rows were not at the end
            count, first = min(rows, self._owed), self._later.row - self._owed
            self._owed -= count
            return Block(first, None, [[""] * self._width] * count)
        block, self._later = self._later, None
        return block

    def _any_block(self, rows: int, characters: int) -> Block:
        first, before = self._row, self._reader.line_num
        next_rows = self._next(rows, characters)
        plain = self._reader.line_num - before == len(next_rows)
        block = Block(first, before + 1 + self._start.skipped if plain else None, next_rows)
        if next_rows and set(map(len, next_rows)) != {self._width}:
            self._refuse_ragged(block)
        self._row += len(next_rows)
        return block

    def _next(self, rows: int, characters: int) -> list[list[str]]:
        """Read the next rows, until they have this many characters; an empty list only at the end."""
        filled: list[list[str]] = []
        try:
            while not filled and (read := list(self._some(rows, characters))):
                filled = read if self._strict else [row for row in read if row and (len(row) > 1 or row[0].strip())]
                self._blank += len(read) - 2 * len(filled)
                if self._blank > _MOST_BLANK:
                    raise FileTooLarge(f"the file has more than {_MOST_BLANK:,} blank lines beyond one per row")
        except csv.Error as error:
            raise self._malformed(error) from error
        except UnicodeError as error:
            raise self._undecodable() from error
        return filled

    def _some(self, rows: int, left: int) -> Iterator[list[str]]:
        for cells in islice(self._reader, rows):
            left -= self._characters
            self._characters = 0
            yield cells
            if left <= 0:
                return

    def _lines(self, longest: int) -> Iterator[str]:
        """Yield the lines; raises ``FileTooLarge`` before a long line or row fills the memory."""
        number = 0
        while line := self._text.readline(longest + 1):
            number += 1
            if len(line) > longest:
                raise FileTooLarge(f"line {number} has more than the limit of {longest:,} characters")
            if number > self._start.skipped:
                self._characters += len(line)
                if self._characters > longest:
                    raise FileTooLarge(f"the row up to line {number} has more than the limit of {longest:,} characters")
                is_header = self._start.commented and number == self._start.skipped + 1
                yield _uncommented(line) if is_header else line

    def _refuse_ragged(self, block: Block) -> NoReturn:
        i = next(i for i, cells in enumerate(block.rows) if len(cells) != self._width)
        has, where = len(block.rows[i]), row_of(block.row + i, block.line_of(i))
        if self._strict:  # programs count from 0
            raise RaggedRow(f"row {block.row + i} has {has} cells, but the header has {self._width}")
        hint = (
            "; if it has a decimal comma, write 0.5, not 0,5"
            if self._start.separator == "," and has > self._width
            else ""
        )
        if block.row + i == 0 and has == self._width + 1:
            hint += "; if R wrote names of rows, use write.csv(..., row.names = FALSE)"
        if self._width == 1 and (has > 2 or not is_number(block.rows[i][-1])):
            hint = "; if there is a title above the header, remove it"
        raise RaggedRow(
            f"{where} has {has:,} {'cell' if has == 1 else 'cells'}, but the header has {self._width:,}{hint}"
        )

    def _malformed(self, error: csv.Error) -> TabularError:
        """Return the error for one of the standard library's reader, which has no row or column."""
        line = self._reader.line_num + self._start.skipped
        if "NUL" in str(error):
            return NotUtf8(f"line {line} has a NUL byte; the file is damaged or not a text file")
        return UnclosedQuote(
            f"a quotation mark in or before line {line} is not closed, or text follows a closing one; "
            'write "" for a quotation mark in a quoted cell'
        )

    def _undecodable(self) -> NotUtf8:
        if self._encoding == "utf-16":
            return NotUtf8("the file begins with a UTF-16 byte order mark but is not UTF-16; save it as UTF-8")
        if self._strict:  # programs count from 0
            return NotUtf8(f"the text is not UTF-8 in row {self._row} or later")
        return not_encoded(f"the text in {row_of(self._row)} or later", self._encoding)


#: Cells per block.
_BLOCK_CELLS = 1 << 16


def read_cells(
    rows: TextRows,
    width: int,
    numbers: Mapping[int, Callable[[Sequence[str], Block], Floats]],
    texts: Mapping[int, Callable[[Sequence[str]], object]],
    limits: Limits,
) -> dict[int, Floats]:
    """Read the numeric columns of all rows and pass the cells of the string columns on.

    Parameters
    ----------
    rows : TextRows
        The rows after the header.
    width : int
        Number of columns of the table.
    numbers : mapping of int to callable
        For the index of each numeric column, the function that converts the cells of a block.
    texts : mapping of int to callable
        For the index of each string column, the function that receives the cells of a block.
    limits : Limits
        Raises its own error.
    """
    # Each block is one array. Thousands of growing arrays would be in memory twice, with gaps between them.
    blocks: list[tuple[Floats, npt.NDArray[np.int64]]] = []
    read = 0
    for block in rows.blocks(max(1, _BLOCK_CELLS // width)):
        read += len(block.rows)
        limits.check_rows(read, width=len(numbers))
        converted = [convert([row[at] for row in block.rows], block) for at, convert in numbers.items()]
        ends = np.cumsum([0, *map(len, converted)])
        # The blocks, and the columns that they become.
        limits.reserve(2 * NUMBER_BYTES * int(ends[-1]) + len(block.rows) * len(texts) * NUMBER_BYTES)
        blocks.append((np.concatenate([*converted, np.empty(0)]), ends))
        for at, add in texts.items():
            add([row[at] for row in block.rows])
    return {
        at: np.concatenate([flat[ends[i] : ends[i + 1]] for flat, ends in blocks] or [np.empty(0)])
        for i, at in enumerate(numbers)
    }


# --- The layout of a text file, inferred from its beginning: encoding, separator, header, first rows

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_BLANK = " "
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Layout:
    """The layout; ``data_at`` is the byte at which data begins if the header is a plain first line, else None."""

    encoding: str
    start: Start
    header: tuple[str, ...]
    sample: tuple[tuple[str, ...], ...]
    data_at: int | None
    notes: tuple[str, ...]
    #: The length of the vectors of each column; None if its cells are no vectors.
    widths: tuple[int | None, ...]
    cells: TextCells

    @property
    def stated(self) -> str | None:
        """The encoding, if it was given."""
        return self.encoding if self.encoding not in _DETECTED else None

    def rows(self, file: BinaryIO) -> TextRows:
        """Return the rows of the file after the header."""
        rows = TextRows(file, self.encoding, self.start)
        rows.header()
        return rows


def layout_of(file: BinaryIO, limits: FileLimits, cells: TextCells = PLAIN_CELLS) -> Layout:
    """Infer the layout from the beginning of a file; raises a ``TabularError`` if it is not a table."""
    file.seek(0)
    head = file.read(MAX_LINE)
    if not head.strip(b"\xef\xbb\xbf\xff\xfe \t\r\n"):
        raise EmptyFile("the file is empty")
    encoding = _encoding(head, cells.encoding)
    start = _start(_first_lines(head, encoding))
    limits.check_classes(start.header.count(start.separator) + 1 + start.unnamed)
    rows = TextRows(file, encoding, start)
    header = tuple(rows.header())
    limits.check_classes(len(header))
    _check_header(header, encoding)
    sample = tuple(map(tuple, rows.sample(sample_rows(len(header)))))
    if not sample:
        raise EmptyFile(f"the file has a header ({listed(header)}) but no rows")
    separated = _SEPARATORS.get(start.separator, "blanks")
    notes = () if start.separator == "," else (f"the columns are separated by {separated}",)
    if start.skipped > start.stated:
        notes = ("the first lines are comments", *notes)
    if start.unnamed:
        notes = (*notes, "the first column has no name; it is read as the names of the rows")
    if encoding == "utf-16":
        notes = ("the text is UTF-16", *notes)
    columns = list(zip(*sample, strict=True))
    has_vectors = any(mark in cell for row in sample for cell in row for mark in "[({")
    widths = tuple(map(_width, columns)) if has_vectors else (None,) * len(header)
    data_at = _data_at(head, encoding, rows.header_lines, start.skipped)
    return Layout(encoding, start, header, sample, data_at, notes, widths, cells)


#: The encodings that are detected.
_DETECTED = ("utf-8-sig", "utf-16")
#: Encodings with units of several bytes, which have NUL bytes.
_WIDE = ("utf-16", "utf-32")


def _errors(encoding: str) -> str:
    """Return how to decode bytes that the encoding does not have; wide ones cannot become lone surrogates."""
    return "strict" if encoding.startswith(_WIDE) else "surrogateescape"


def _encoding(head: bytes, stated: str | None) -> str:
    """Return the encoding: that of the byte order mark, the stated one, or UTF-8."""
    if head.startswith(_UTF16):
        return "utf-16"
    encoding = "utf-8" if stated is None or head.startswith(codecs.BOM_UTF8) else codecs.lookup(stated).name
    if encoding.startswith(_WIDE):
        return "utf-16-le" if encoding == "utf-16" else encoding  # without a byte order mark, as Python reads it here
    if b"\0" in head:
        first, second = any(head[:_HEAD:2]), any(head[1:_HEAD:2])
        raise WrongKind(
            "the file has NUL bytes: it is not a text file, or it is UTF-16 without a byte order mark; save it as "
            "UTF-8",
            encoding=None if first == second else "utf-16-le" if first else "utf-16-be",
        )
    return "utf-8-sig" if encoding in ("utf-8", "utf-8-sig") else encoding


#: The first bytes, of which every other one is NUL in UTF-16 without a byte order mark.
_HEAD = 128


def _first_lines(head: bytes, encoding: str) -> list[str]:
    """Return the lines of the beginning; raises ``FileTooLarge`` if the first one does not end there."""
    decoder = codecs.getincrementaldecoder(encoding)(_errors(encoding))
    try:
        text = decoder.decode(head)
    except UnicodeError as error:
        if encoding != "utf-16":
            raise not_encoded("the text", encoding) from error
        raise NotUtf8("the file begins with a UTF-16 byte order mark but is not UTF-16; save it as UTF-8") from error
    lines = list(islice(io.StringIO(text, newline=None), _MOST_COMMENTS))
    if lines and len(lines[-1]) >= len(text) and len(head) >= MAX_LINE:
        raise FileTooLarge(f"the first line has more than the limit of {MAX_LINE:,} characters")
    return lines


#: The most lines before the header that are skipped.
_MOST_COMMENTS = 1000
_STATED = re.compile(r"sep=([,;\t|])\s*", re.IGNORECASE)


def _start(lines: Sequence[str]) -> Start:
    """Find the header. Lines that begin with ``#`` are comments.

    The last comment is the header, as ``numpy.savetxt`` writes it, if numbers in as many columns follow.
    """
    stated, comment = None, None
    for at, line in enumerate(lines):
        if not line.strip():
            continue
        declared = _STATED.fullmatch(line.strip("\r\n \ufeff"))
        if declared is not None and stated is None:
            stated = declared[1]
        elif line.startswith("#"):
            comment = at
        else:
            break
    else:
        raise EmptyFile("the file has only comments")
    cells = _cells(line, stated or _separator(line, line))
    if comment is not None and cells and _are_numbers(cells):
        header = _uncommented(lines[comment])
        separator = stated or _separator(header, line)
        if header.count(separator) == line.count(separator) > 0:
            return Start(separator, comment, header, stated is not None, commented=True)
    skipped = at if comment is not None or stated else 0
    after = next((later for later in lines[at + 1 :] if later.strip()), "")
    separator = stated or _separator(line, after)
    unnamed = int(_has_row_names(line, after, separator))
    return Start(separator, skipped, line, stated is not None, unnamed=unnamed)


def _uncommented(line: str) -> str:
    return line.lstrip("#").lstrip(" ")


def _separator(line: str, after: str) -> str:
    """Return the most frequent separator outside quotation marks; a comma if there is none.

    It is a blank only if there is no other one, and if the line ``after`` has as many, or one more.
    """
    outside = "".join(line.split('"')[::2])
    frequent = max(_SEPARATORS, key=outside.count)
    if outside.count(frequent):
        return frequent
    blanks = len(_cells(line, _BLANK))
    return _BLANK if blanks > 1 and len(_cells(after, _BLANK)) in (blanks, blanks + 1) else frequent


def _has_row_names(header: str, after: str, separator: str) -> bool:
    """Whether the rows have one cell more than the header, as R's ``write.table`` writes the names of rows.

    Without quotation marks, that may be a decimal comma.
    """
    more = len(_cells(after, separator)) == len(_cells(header, separator)) + 1
    return more and (separator == _BLANK or (header.startswith('"') and after.startswith('"')))


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line.strip("\r\n")], delimiter=separator), [])
    except csv.Error:  # reported with its line when the rows are read
        return []


def _are_numbers(names: Sequence[str]) -> bool:
    """Whether all names are numbers, but not the classes 0 to K - 1."""
    return all(map(is_number, names)) and not (len(names) > 2 and list(names) == [str(k) for k in range(len(names))])


def _check_header(header: tuple[str, ...], encoding: str) -> None:
    """Raise the error for names that are numbers, not in the encoding or duplicates."""
    names = [name for name in header if name]
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise not_encoded("the header", None if encoding in _DETECTED else encoding) from error
    if _are_numbers(names):
        raise NoHeader(
            f"the first line has numbers instead of column names; add a header line such as {quoted('label,p')}"
        )
    check_distinct(names, "header")


def _data_at(head: bytes, encoding: str, header_lines: int, skipped: int) -> int | None:
    """Return the byte at which the rows begin if the header is one line and lines end in LF or CR LF."""
    end = -1
    for _ in range(skipped + 1):
        begin, end = end + 1, head.find(b"\n", end + 1)
        if end < 0 or b"\r" in head[begin : end - 1]:
            return None
    return end + 1 if encoding == "utf-8-sig" and header_lines == 1 else None


def _width(cells: Sequence[str]) -> int | None:
    """Return the length of the vectors of a column, or None if its cells are no vectors; they may be missing."""
    vectors = (vector_of(cell) for cell in cells if not is_missing(cell))
    lengths = {len(of) if of and all(is_number(text) or is_missing(text) for text in of) else None for of in vectors}
    return (next(iter(lengths)) or None) if len(lengths) == 1 else None


def _unboxed(cells: Sequence[str]) -> list[str]:
    """Return the numbers of cells such as ``[0.25]``; others as they are."""
    vectors = ((cell, vector_of(cell)) for cell in cells)
    return [cell if numbers is None or len(numbers) != 1 else numbers[0] for cell, numbers in vectors]


# --- Reading with the standard library, which defines what is accepted and the errors


def read_plain(file: BinaryIO, layout: Layout, places: ColumnPlaces, limits: FileLimits) -> Values:
    """Read some columns; raises the ``TabularError`` of the first bad column in the first bad block."""
    texts = {at: Coding(layout.header[at], places.fields[at], layout.stated) for at in places.texts}
    rows, commas = layout.rows(file), DecimalCommas() if layout.cells.decimal == "," else None
    widths = {at: layout.widths[at] for at in places.numbers if places.fields[at] in VECTORS or layout.widths[at] == 1}
    numbers: dict[int, Callable[[Sequence[str], Block], Floats]] = {
        at: partial(
            partial(_numbers, commas=commas, percent=layout.cells.percent)
            if (width := widths.get(at)) is None
            else partial(_vectors, width=width),
            name=layout.header[at],
            field=places.fields[at],
        )
        for at in places.numbers
    }
    adding: dict[int, Callable[[Sequence[str]], object]] = {
        at: partial(_add_unboxed, coding) if layout.widths[at] == 1 else coding.add for at, coding in texts.items()
    }
    columns = read_cells(rows, len(layout.header), numbers, adding, limits)
    columns = {
        at: values.reshape(-1, w) if (w := widths.get(at) or 1) > 1 else values for at, values in columns.items()
    }
    coded = {at: coding.done() for at, coding in texts.items()}
    return Values.of(places, lambda at, _: coded[at] if at in coded else columns[at])


def _add_unboxed(coding: Coding, cells: Sequence[str]) -> None:
    coding.add(_unboxed(cells))


def _vectors(cells: Sequence[str], block: Block, *, width: int, name: str, field: Field) -> Floats:
    """Convert cells such as ``[0.25 0.75]`` to the numbers of all rows, one row after the other."""
    vectors = []
    for i, cell in enumerate(cells):
        numbers = vector_of(cell)
        if numbers is None or len(numbers) != width:
            if lacks_number(cell):
                raise refusal(cell, name, field, block.row + i, block.line_of(i))
            where = row_of(block.row + i, block.line_of(i))
            raise UnmatchedArrays(f"{where} of column {quoted(name)} is not a list of {width} numbers", field=field)
        bad = next((number for number in numbers if not math.isfinite(number_or_nan(number))), None)
        if bad is not None:
            raise refusal(bad, name, field, block.row + i, block.line_of(i))
        vectors.append(np.array([*map(float, numbers)]))
    return np.concatenate(vectors)


def _numbers(
    cells: Sequence[str],
    block: Block,
    *,
    name: str,
    field: Field,
    commas: DecimalCommas | None = None,
    percent: bool = False,
) -> Floats:
    """Convert cells to finite numbers."""
    if percent and field == "predictions":
        cells = [without_sign(cell) for cell in cells]
    if commas is not None:
        cells = commas.with_points(cells, name, field, block.row, block.line_of)
    joined = "".join(cells)
    parse: Callable[[str], float] = float if joined.isascii() and "_" not in joined else number
    try:
        numbers = np.array([*map(parse, cells)], dtype=np.float64)
        if np.isfinite(numbers).all():
            return numbers
    except ValueError:
        pass
    i = next(i for i, cell in enumerate(cells) if not math.isfinite(number_or_nan(cell)))
    beside = (cell for row in block.rows for cell in row)
    raise refusal(cells[i], name, field, block.row + i, block.line_of(i), signs=True, beside=beside)


# --- Reading with pyarrow, ten times as fast; if it fails, the standard library reads again to report the error

#: Larger files are memory-mapped, smaller ones copied.
_IN_MEMORY = 32 << 20
_BLOCK = 1 << 20


def read_fast(file: BinaryIO, layout: Layout, places: ColumnPlaces, limits: FileLimits) -> Values | None:
    """Read some columns like ``read_plain``; returns None if that must read the file to report an error.

    Raises ``FileTooLarge`` and the errors of string columns.
    """
    arrow = pyarrow("csv")
    if (
        arrow is None
        or layout.data_at is None
        or any(layout.widths[at] is not None for at in (*places.numbers, *places.texts))
    ):
        return None
    codings = {at: Coding(layout.header[at], places.fields[at]) for at in places.texts}
    blocks: dict[int, list[Array]] = {at: [] for at in places.numbers}
    rows = 0
    try:
        with (
            _native(arrow, file, layout.data_at, limits) as text,
            arrow.csv.open_csv(text, **_options(arrow, layout, places)) as batches,
        ):
            for batch in batches:
                rows += batch.num_rows
                limits.check_rows(rows, width=len(places.numbers))
                # The blocks, and the array that they become.
                limits.reserve(2 * batch.num_rows * len(places.fields) * NUMBER_BYTES)
                if not _add_batch(batch, blocks, codings):
                    return None
    except (arrow.ArrowException, OSError, UnicodeDecodeError):
        return None
    if not rows:
        return None
    return Values.of(places, lambda at, _: codings[at].done() if at in codings else np.concatenate(blocks.pop(at)))


def _add_batch(batch: Any, blocks: Mapping[int, list[Array]], codings: Mapping[int, Coding]) -> bool:
    """Add the columns of a batch; returns False if it has a missing or infinite number."""
    columns = {at: batch.column(str(at)) for at in (*blocks, *codings)}
    if any(column.null_count for column in columns.values()):
        return False
    for at, block in blocks.items():
        # pyarrow's to_numpy imports pandas, which takes a third of a second.
        block.append(np.from_dlpack(columns[at]))
        if not np.isfinite(block[-1]).all():
            return False
    for at, coding in codings.items():
        codes: npt.NDArray[np.int32] = np.asarray(np.from_dlpack(columns[at].indices), dtype=np.int32)
        coding.add_coded(columns[at].dictionary.to_pylist(), codes)
    return True


def _native(arrow: Any, file: BinaryIO, start: int, limits: Limits) -> Any:
    """Open the file from ``start`` on as a native pyarrow file.

    pyarrow reads ahead in its own threads, which may still run after the caller has stopped. On a Python file, they
    would move its position under the next reader, and they could abort the process at exit: a thread that waits for
    the GIL is then killed inside C++ ("terminate called without an active exception").
    """
    size = file.seek(0, io.SEEK_END) - start
    if size > _IN_MEMORY:
        with contextlib.suppress(io.UnsupportedOperation):  # raised by a file in memory
            mapped = arrow.memory_map(f"/dev/fd/{file.fileno()}")
            mapped.seek(start)
            return mapped
    file.seek(start)
    limits.reserve(2 * size)  # a growing buffer is copied
    copied = arrow.BufferOutputStream(arrow.system_memory_pool())
    while block := file.read(_BLOCK):
        copied.write(block)
    return arrow.BufferReader(copied.getvalue())


def _options(arrow: Any, layout: Layout, places: ColumnPlaces) -> dict[str, Any]:
    names = [str(at) for at in range(len(layout.header))]
    coded = arrow.dictionary(arrow.int32(), arrow.string())
    types = {str(at): arrow.float64() for at in places.numbers} | {str(at): coded for at in places.texts}
    quotes = any('"' in cell or "\n" in cell for row in layout.sample for cell in row)
    return {
        "read_options": arrow.csv.ReadOptions(column_names=names, block_size=2 * MAX_LINE),
        "parse_options": arrow.csv.ParseOptions(delimiter=layout.start.separator, newlines_in_values=quotes),
        "convert_options": arrow.csv.ConvertOptions(
            include_columns=list(types), column_types=types, decimal_point=layout.cells.decimal
        ),
        # The default pool would keep the memory of a large file.
        "memory_pool": arrow.system_memory_pool(),
    }


# --- The table


class CsvTable:
    """A ``Table`` of a text file; raises a ``TabularError`` if the file is not a table."""

    def __init__(self, file: BinaryIO, limits: FileLimits, cells: TextCells = PLAIN_CELLS) -> None:
        self._file, self._limits = file, limits
        layout = self._layout = layout_of(file, limits, cells)
        self.notes = layout.notes
        samples = [tuple(map(cells.plain, column)) for column in zip(*layout.sample, strict=True)]
        self.columns = tuple(
            Column(name, () if (width or 1) > 1 else tuple(_unboxed(own) if width else own), width or 1, signs=True)
            for name, own, width in zip(layout.header, samples, layout.widths, strict=True)
        )

    def read(self, places: ColumnPlaces) -> Values:
        """Read some columns; raises the ``TabularError`` of the first bad one."""
        values = read_fast(self._file, self._layout, places, self._limits)
        return read_plain(self._file, self._layout, places, self._limits) if values is None else values

    def scan(self, places: Sequence[int], add: Callable[[int, Sequence[str]], object]) -> None:
        """Pass on the cells of some columns, unchanged, in blocks of rows."""
        for block in self._blocks():
            for at in places:
                cells = [row[at] for row in block.rows]
                add(at, _unboxed(cells) if self._layout.widths[at] == 1 else cells)

    @property
    def separator(self) -> str:
        """The separator of columns."""
        return self._layout.start.separator

    @property
    def encoding(self) -> str | None:
        """The encoding, if it was given."""
        return self._layout.stated

    def rows(self) -> Iterator[list[str]]:
        """Yield the cells of every row, unchanged, in the same order as ``read``."""
        for block in self._blocks():
            yield from block.rows

    def _blocks(self) -> Iterator[Block]:
        return self._layout.rows(self._file).blocks(sample_rows(len(self.columns)))
