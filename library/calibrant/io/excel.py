"""Conversion of a sheet of an Excel workbook to JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from itertools import chain, dropwhile, islice
from typing import Any, BinaryIO

from calibrant.core.errors import requires
from calibrant.io.errors import DamagedFile, DuplicateColumns, EmptyFile, FileTooLarge, NoHeader
from calibrant.io.limits import FileLimits
from calibrant.io.texts import listed, quoted

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
        rows = dropwhile(lambda cells: not _filled(cells), _rows(sheet))
        if first := [*islice(rows, _MOST_TITLES)]:
            of = "" if len(sheets) == 1 else f", the first of {len(sheets):,} with cells"
            skipped, names = _header(first)
            above = "" if not skipped else f"; the titles above {quoted(names[min(names)])} are skipped"
            note = f"the file is an Excel workbook: sheet {quoted(sheet.title)}{of}{above}"
            return note, _lines(names, chain(first[skipped + 1 :], rows), limits)
    raise EmptyFile("the workbook has no cells")


def _rows(sheet: Any) -> Iterator[Cells]:
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
    twice = sorted({name for name in names.values() if [*names.values()].count(name) > 1})
    if twice:
        raise DuplicateColumns(f"the header has {listed(twice)} more than once; rename the duplicates")
    return at, names


def _lines(names: dict[int, str], rows: Iterable[Cells], limits: FileLimits) -> Iterator[bytes]:
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
