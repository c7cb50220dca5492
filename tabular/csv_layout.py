"""How a text file is written, told by its beginning: encoding, separator, header, first rows."""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass
from typing import BinaryIO

from tabular.bounds import MAX_LINE, Bounds
from tabular.cells import is_number
from tabular.csv_rows import Rows
from tabular.errors import DuplicateColumns, EmptyFile, FileTooLarge, NoHeader, NotUtf8, WrongKind
from tabular.told import listed, quoted

#: Rows that columns are guessed from.
SAMPLE_ROWS = 1000
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Layout:
    """``header`` are the names; rows of data begin at byte ``data_at`` where the header is a plain first line."""

    encoding: str
    separator: str
    header: tuple[str, ...]
    sample: tuple[tuple[str, ...], ...]
    data_at: int | None
    said: tuple[str, ...]


def layout_of(file: BinaryIO, bounds: Bounds) -> Layout:
    """Look at a file's beginning; raises the ``TabularError`` of what makes a table of it impossible."""
    file.seek(0)
    head = file.read(MAX_LINE)
    if not head.strip(b"\xef\xbb\xbf\xff\xfe \t\r\n"):
        raise EmptyFile("the file is empty")
    encoding = _encoding(head)
    first = _first_line(head, encoding)
    separator = _separator(first)
    bounds.check_columns(first.count(separator) + 1)
    rows = Rows(file, encoding, separator)
    header = tuple(rows.header())
    _check_header(header)
    sample = tuple(map(tuple, rows.sample(SAMPLE_ROWS)))
    if not sample:
        raise EmptyFile(f"the file has a header ({listed(header)}) and no rows")
    said = () if separator == "," else (f"the columns are separated by {_SEPARATORS[separator]}",)
    if encoding == "utf-16":
        said = ("the text is UTF-16", *said)
    return Layout(encoding, separator, header, sample, _data_at(head, encoding, rows.header_lines), said)


def _encoding(head: bytes) -> str:
    if head.startswith(_UTF16):
        return "utf-16"
    if b"\0" in head:
        raise WrongKind(
            "the file holds NUL bytes: it is not text, or text in UTF-16 without its mark; save it as UTF-8"
        )
    return "utf-8-sig"


def _first_line(head: bytes, encoding: str) -> str:
    """The first line that is not blank."""
    decoder = codecs.getincrementaldecoder(encoding)("strict" if encoding == "utf-16" else "surrogateescape")
    try:
        text = decoder.decode(head)
    except UnicodeDecodeError as error:
        raise NotUtf8("the file begins as UTF-16 and is not: save it as CSV in UTF-8") from error
    line = next((line for line in io.StringIO(text, newline=None) if line.strip()), "")
    if len(line) >= len(text) and len(head) >= MAX_LINE:
        raise FileTooLarge(f"the first line has more than {MAX_LINE:,} characters, which is the limit")
    return line


def _separator(line: str) -> str:
    """The separator that stands most often in a line outside quotation marks; a comma where none does."""
    outside = "".join(line.split('"')[::2])
    return max(_SEPARATORS, key=lambda separator: outside.count(separator))


def _check_header(header: tuple[str, ...]) -> None:
    """Raise the error of names that are numbers, not UTF-8, or twice there."""
    names = [name for name in header if name]
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise NotUtf8("the header is not UTF-8 (Latin-1, perhaps): save the file as CSV in UTF-8") from error
    classes = [str(k) for k in range(len(names))]
    if all(map(is_number, names)) and not (len(names) > 2 and names == classes):
        raise NoHeader(
            "the first line holds numbers where the names of the columns must stand: put a line such as "
            f"{quoted('label,p')} before it"
        )
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise DuplicateColumns(f"the header has {listed(twice)} more than once: rename one of them")


def _data_at(head: bytes, encoding: str, header_lines: int) -> int | None:
    """Where the rows begin, if the header is the first line and ends as lines do."""
    end = head.find(b"\n")
    return (
        end + 1 if encoding == "utf-8-sig" and header_lines == 1 and end >= 0 and b"\r" not in head[: end - 1] else None
    )
