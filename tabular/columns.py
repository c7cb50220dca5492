"""Columns of a file as texts, as they stand: ids and times, which no measure reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tabular.bounds import MAX_BYTES, Bounds
from tabular.errors import MissingValue, UnknownColumn
from tabular.kinds import open_table
from tabular.source import opened
from tabular.table import Table
from tabular.told import listed, quoted, row_of


def read_columns(
    source: Path | BinaryIO, names: Sequence[str], *, name: str, max_bytes: int = MAX_BYTES
) -> list[list[str]]:
    """The cells of some columns of every row, without the blanks around them; ``name`` is what the file is called.

    Raises the ``TabularError`` of a file that cannot be read, of a column that it has not, or of the first empty cell.
    """
    bounds = Bounds(rows=None, bytes=max_bytes, heavy=None)
    with opened(source, bounds) as file, open_table(file, name, bounds) as table:
        places = [_place(table, column) for column in names]
        return [_whole(table.texts(at), table.columns[at].name) for at in places]


def _place(table: Table, asked: str) -> int:
    names = [column.name for column in table.columns]
    if asked.strip() not in names:
        raise UnknownColumn(f"the file has no column {quoted(asked.strip())}; it has {listed(names)}")
    return names.index(asked.strip())


def _whole(cells: list[str], name: str) -> list[str]:
    found = [cell.strip() for cell in cells]
    if "" in found:
        raise MissingValue(f"{row_of(found.index(''))} of column {quoted(name)} is empty")
    return found
