"""Cells of an open table: columns as strings, groups, and distinct and missing values."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from calibrant.core.arrays import NO_GROUP, joined
from calibrant.core.groups import MAX_GROUPS
from calibrant.io.csv import CsvTable
from calibrant.io.errors import MissingValue, NotLabels, TabularError, TooManyGroups, UnknownColumn, UnmatchedArrays
from calibrant.io.rules import MAX_OFFERED
from calibrant.io.table import Coded, ColumnPlaces, OpenTable, Values, cells_at
from calibrant.io.texts import (
    DASHES,
    MAX_LISTED,
    MAX_TEXT,
    is_missing,
    lacks_number,
    listed,
    not_encoded,
    quoted,
    row_of,
)


def texts_at(table: OpenTable, places: Sequence[int]) -> list[list[str]]:
    """Read some columns as strings; raises ``NotUtf8`` for lone surrogates, which stand for undecodable bytes."""
    columns = cells_at(table, places)
    for at, cells in zip(places, columns, strict=True):
        bad = next((row for row, cell in enumerate(cells) if not cell.isascii() and _SURROGATE.search(cell)), None)
        if bad is not None:
            where = f"{row_of(bad)} of column {quoted(table.columns[at].name)}"
            raise not_encoded(where, table.encoding if isinstance(table, CsvTable) else None)
    return columns


_SURROGATE = re.compile("[\ud800-\udfff]")


def complete(cells: list[str], name: str, is_gap: Callable[[str], bool] = operator.not_) -> list[str]:
    """Return cells without surrounding blanks; raises ``MissingValue`` if one is a gap."""
    stripped = [cell.strip() for cell in cells]
    rows = [row for row, cell in enumerate(stripped) if is_gap(cell)]
    if rows:
        many = f"values are missing in {len(rows):,} rows of column {quoted(name)}, first in {row_of(rows[0])}"
        raise MissingValue(many if len(rows) > 1 else f"{row_of(rows[0])} of column {quoted(name)} is empty")
    return stripped


def names_at(table: OpenTable, at: int, *, with_gaps: bool = False) -> list[str]:
    """Read a column of names; raises an error for missing ones, unless there may be gaps."""
    cells, name = texts_at(table, [at])[0], table.columns[at].name
    names = ["" if is_missing(cell) else cell.strip() for cell in cells] if with_gaps else complete(cells, name)
    if max(map(len, names), default=0) > MAX_TEXT:
        raise NotLabels(f"column {quoted(name)} has a value of more than {MAX_TEXT} characters", field="file")
    return names


def ids_at(table: OpenTable, name: str, file: str) -> list[str]:
    """Read the ids of the rows; raises ``UnknownColumn`` and ``MissingValue``."""
    names = tuple(column.name for column in table.columns)
    if name not in names:
        has = f"{quoted(file)} has no column {quoted(name)}; it has {listed(names)}"
        raise UnknownColumn(has, field="ids", offer=names[:MAX_OFFERED])
    return complete(texts_at(table, [names.index(name)])[0], name, is_missing)


def groups_of_rows(values: Values, table: OpenTable, places: ColumnPlaces) -> list[str] | None:
    """Return the group of every row, of missing and of several values as ``calibrant.core.arrays`` names them."""
    if "groups" not in values.texts:
        return None
    names = [table.columns[at].name for at in places["groups"]]
    columns = [replace(of, texts=tuple(text or NO_GROUP for text in of.texts)) for of in values.texts["groups"]]
    coded = columns[0]
    _check_groups(len(coded.texts), names)
    for other in columns[1:]:
        pairs, codes = np.unique(coded.codes * len(other.texts) + other.codes, return_inverse=True)
        _check_groups(len(pairs), names)
        pairs_of_codes = (divmod(pair, len(other.texts)) for pair in pairs.tolist())
        coded = Coded(tuple(joined((coded.texts[i], other.texts[j])) for i, j in pairs_of_codes), codes)
    return [coded.texts[code] for code in coded.codes.tolist()]


def _check_groups(count: int, names: Sequence[str]) -> None:
    if count > MAX_GROUPS:
        of = f"column {quoted(names[0])} has" if len(names) == 1 else f"columns {listed(names)} together have"
        raise TooManyGroups(f"{of} more than {MAX_GROUPS:,} distinct groups")


def check_lengths(values: Values, n: int, of: str) -> None:
    """Raise ``UnmatchedArrays`` for columns of another length than ``n``, which the arrays of an archive can have.

    ``of`` is the field with ``n`` rows.
    """
    lengths = [(name, len(array)) for name, array in values.numbers.items() if name not in ("levels", "level")]
    lengths += [(name, len(column.codes)) for name, columns in values.texts.items() for column in columns]
    for name, length in lengths:
        if length != n:
            what = "predicted classes" if name == "predicted" else name
            raise UnmatchedArrays(f"{what} has length {length:,}, but {of} has length {n:,}")


#: The most cells in which missing values are counted, or distinct values are looked for.
_MOST_COUNTED = 10_000_000
#: About the most distinct values of a column that are collected.
_MOST_DISTINCT = 1000


class EnoughCells(Exception):
    """Ends a scan of a table."""


def distinct_values(table: OpenTable, places: Sequence[int]) -> dict[int, set[str]]:
    """Return the distinct values of some columns: some of many, and in up to ``_MOST_COUNTED`` cells."""
    values: dict[int, set[str]] = {at: set() for at in places}
    total = 0

    def add(at: int, cells: Sequence[str]) -> None:
        nonlocal total
        total += len(cells)
        if len(values[at]) <= _MOST_DISTINCT:
            values[at].update(cells)
        if total > _MOST_COUNTED:
            raise EnoughCells

    try:
        table.scan(places, add)
    except EnoughCells:
        pass
    except TabularError:
        return {}  # raised again when the columns are read
    return values


def all_missing(
    table: OpenTable, places: ColumnPlaces, error: MissingValue, known: AbstractSet[str] = frozenset()
) -> MissingValue:
    """Return the error that counts the missing values of all columns; ``error`` if there is one, or too many cells.

    ``known`` are names of classes, which are not missing values.
    """
    columns = [at for at in places.fields if at not in places["groups"]]
    gaps: dict[int, dict[str, tuple[int, int]]] = {at: {} for at in columns}  # marker -> cells, first row
    read, total = dict.fromkeys(columns, 0), 0
    without_dashes = set[int]()  # the labels + and -

    def add(at: int, cells: Sequence[str]) -> None:
        nonlocal total
        total += len(cells) * table.columns[at].width
        if total > _MOST_COUNTED:
            raise error
        distinct = set(cells)
        if at not in places.numbers and "+" in map(str.strip, distinct):
            without_dashes.add(at)
        missing = {cell for cell in distinct if lacks_number(cell) and cell.strip() not in known}
        for row, cell in enumerate(cells, read[at]) if missing else ():
            if cell in missing:
                mark = "" if table.columns[at].width > 1 else cell.strip()
                count, first = gaps[at].get(mark, (0, row))
                gaps[at][mark] = count + 1, first
        read[at] += len(cells)

    try:
        table.scan(columns, add)
    except TabularError:
        return error
    dashes = DASHES if error.field == "labels" else DASHES & {mark for at in places.numbers for mark in gaps[at]}
    for at in columns:
        if at not in places.numbers:
            allowed = set() if at in without_dashes else dashes
            gaps[at] = {mark: where for mark, where in gaps[at].items() if is_missing(mark) or mark in allowed}
    counts = {at: sum(count for count, _ in marks.values()) for at, marks in gaps.items() if marks}
    first = min((row for marks in gaps.values() for _, row in marks.values()), default=None)
    leaves_rows = sum(counts.values()) < max(read.values())
    if first is None or sum(counts.values()) < 2:
        error.leaves_rows = leaves_rows
        return error
    listing = [f"{count:,} of column {quoted(table.columns[at].name)}" for at, count in counts.items()]
    unit = "row" if next(iter(counts.values())) == 1 else "rows"
    rest = len(listing) - MAX_LISTED
    shown = ", ".join(listing[:MAX_LISTED]) + (f" and those of {rest} more columns" if rest > 0 else "")
    missing = MissingValue(
        f"values are missing in {shown.replace(' of', f' {unit} of', 1)}, first in {row_of(first)}; fill them in or "
        "remove the rows",
        field=error.field,
    )
    missing.leaves_rows = leaves_rows
    return missing
