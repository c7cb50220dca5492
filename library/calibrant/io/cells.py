"""Columns beside predictions: as strings, as groups or periods, with gaps, and of a file joined by ids."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np

from calibrant.core.arrays import NO_GROUP, joined
from calibrant.core.groups import MAX_GROUPS
from calibrant.io.csv import CsvTable
from calibrant.io.errors import (
    InvalidTimes,
    MissingValue,
    NotLabels,
    TabularError,
    TooManyGroups,
    UnclearColumns,
    UnknownColumn,
    UnmatchedArrays,
    UnmatchedIds,
)
from calibrant.io.rules import MAX_OFFERED
from calibrant.io.table import Coded, Column, ColumnPlaces, Ints, OpenTable, Values, cells_at
from calibrant.io.texts import (
    DASHES,
    MAX_LISTED,
    MAX_TEXT,
    is_missing,
    lacks_number,
    listed,
    not_encoded,
    number,
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


# --- Joins of files by the ids of their rows; nothing is left out silently


def matching_rows(ids: Mapping[str, Sequence[str]], *, inner: bool = False) -> tuple[list[Ints], tuple[str, ...]]:
    """Return, for each of several files, the numbers of its rows in the order of the first file, and notes.

    ``ids`` are those of the rows by the name of the file. Raises ``UnmatchedIds`` for an id that occurs twice in a
    file, and for ids that a file lacks; if ``inner``, these rows are left out, and the notes count them. O(n).

    >>> matching_rows({"a.csv": ["x", "y", "z"], "b.csv": ["z", "x", "y"]})[0][1].tolist()
    [1, 2, 0]
    """
    places = {name: {text: row for row, text in enumerate(own)} for name, own in ids.items()}
    for name, own in ids.items():
        repeated = [row for row, text in enumerate(own) if places[name][text] != row]
        if repeated:
            many = "1 row has the id" if len(repeated) == 1 else f"{len(repeated):,} rows have the ids"
            raise UnmatchedIds(f"{many} of a later row in {quoted(name)}, first in {row_of(repeated[0])}", field="ids")
    first, *others = places.values()
    common = [text for text in first if all(text in place for place in others)]
    if not common:
        raise UnmatchedIds(f"no id occurs in all of {', '.join(map(quoted, ids))}", field="ids")
    lacking = []
    for name, place in places.items():
        without = [other for other, theirs in places.items() if not place.keys() <= theirs.keys()]
        if without:
            count, where = f"{len(place) - len(common):,} of the {len(place):,} ids", " or ".join(map(quoted, without))
            lacking.append(f"{count} in {quoted(name)} are not in {where}")
    if lacking and not inner:
        text = f"the ids of the files differ: {', and '.join(lacking)}"
        raise UnmatchedIds(f"{text}; to leave these rows out, use --inner", field="inner")
    rows = [np.array([place[text] for text in common], dtype=np.int64) for place in places.values()]
    return rows, tuple(f"ids: {text}; these rows are left out" for text in lacking)


@dataclass(frozen=True)
class _Side:
    """A table of a join: its columns in the joined table and in itself, and the numbers of its rows."""

    table: OpenTable
    columns: Mapping[int, int]
    rows: Ints

    def read(self, places: ColumnPlaces) -> Values:
        """Read those columns that are in this table."""
        own = {name: tuple(self.columns[at] for at in of if at in self.columns) for name, of in places.by_field.items()}
        own = {name: of for name, of in own.items() if of}
        values = self.table.read(ColumnPlaces(own)) if own else Values({}, {})
        return Values(
            {name: numbers[self.rows] for name, numbers in values.numbers.items()},
            {
                name: tuple(Coded(coded.texts, coded.codes[self.rows]) for coded in of)
                for name, of in values.texts.items()
            },
        )


class JoinedTable:
    """The columns of two tables by the name of their file, joined by the column ``ids``; an ``OpenTable``.

    ``rows`` are the numbers of their rows, as ``matching_rows`` returns them with the ``notes``.
    """

    def __init__(self, tables: Mapping[str, OpenTable], ids: str, rows: Sequence[Ints], notes: Sequence[str]) -> None:
        (first, second), self._names = tables.values(), tuple(tables)
        own = [at for at, column in enumerate(second.columns) if column.name != ids]
        start = len(first.columns)
        places = {start + i: at for i, at in enumerate(own)}
        self._sides = (_Side(first, {at: at for at in range(start)}, rows[0]), _Side(second, places, rows[1]))
        self.notes = (*first.notes, *second.notes, *notes)
        shared = {column.name for column in first.columns} & {second.columns[at].name for at in own} - {""}
        self._shared = shared
        self.columns = self._joined_columns(first, second, own, rows)

    def _joined_columns(
        self, first: OpenTable, second: OpenTable, own: Sequence[int], rows: Sequence[Ints]
    ) -> tuple[Column, ...]:
        """Return the columns with first values of the same rows."""
        known = max((len(column.sample) for column in first.columns), default=0)
        shown = np.flatnonzero(rows[0] < known)
        cells: dict[int, list[str]] = {at: [] for at in own}
        single = [at for at in own if second.columns[at].width == 1]
        second.scan(single, partial(_extend, cells))
        of_first = (
            Column(
                column.name, tuple(column.sample[row] for row in rows[0][shown]) if column.sample else (), column.width
            )
            for column in first.columns
        )
        samples = {at: tuple(cells[at][row] for row in rows[1][shown]) for at in single}
        added = (replace(second.columns[at], sample=samples.get(at, ())) for at in own)
        return (*of_first, *added)

    def read(self, places: ColumnPlaces) -> Values:
        """Read some columns of the joined rows; raises ``UnclearColumns`` for a column that both files have."""
        for at in places.fields:
            self._check(at)
        first, second = (side.read(places) for side in self._sides)
        both = first.numbers.keys() & second.numbers.keys()
        if both:
            raise UnclearColumns(f"the columns of {min(both)} must all be in one of the two files")
        groups = [iter(side.texts.get("groups", ())) for side in (first, second)]
        in_order = tuple(next(groups[at not in self._sides[0].columns]) for at in places["groups"])
        texts = {**first.texts, **second.texts} | ({"groups": in_order} if in_order else {})
        return Values({**first.numbers, **second.numbers}, texts)

    def _check(self, at: int) -> None:
        name = self.columns[at].name
        if name in self._shared:
            both = f"{quoted(self._names[0])} and {quoted(self._names[1])}"
            raise UnclearColumns(f"{both} both have a column {quoted(name)}; remove or rename one of the two")

    def scan(self, places: Sequence[int], add: Callable[[int, Sequence[str]], object]) -> None:
        """Pass on the cells of some columns of the joined rows."""
        for side in self._sides:
            own = {side.columns[at]: at for at in places if at in side.columns}
            cells: dict[int, list[str]] = {at: [] for at in own}
            if own:
                side.table.scan(list(own), partial(_extend, cells))
            for at, column in cells.items():
                add(own[at], [column[row] for row in side.rows])


def _extend(cells: Mapping[int, list[str]], at: int, block: Sequence[str]) -> None:
    cells[at].extend(block)


# --- The rows of a file by hour, day, month or year

#: The shortest time between the first and the last row, and the format of the period.
_PERIODS = (
    (timedelta(days=3 * 366), "%Y"),
    (timedelta(days=45), "%Y-%m"),
    (timedelta(days=3), "%Y-%m-%d"),
    (timedelta(0), "%Y-%m-%d %H:00"),
)
#: Larger numbers are milliseconds, microseconds or nanoseconds since 1970.
_MOST_SECONDS = 1e11
#: If all numbers are in one of these ranges, they are years, or days since the end of 1899 as Excel stores dates.
_YEARS, _EXCEL_DAYS = (1900, 2100), (20_000, 80_000)
_EXCEL_START = datetime(1899, 12, 30)
_MONTH = re.compile(r"\d{4}-\d{2}")


def periods(times: Sequence[str], whose: str) -> list[str]:
    """Return the period of each time as written, such as ``2026-01``; raises ``InvalidTimes`` if one is not a time.

    >>> periods(["2026-01-31", "2026-02-01 12:00", "2026-05-01T00:00:00Z"], "column 'date'")
    ['2026-01', '2026-02', '2026-05']
    """
    distinct = dict.fromkeys(times)
    numbers = [value for text in distinct if (value := _number(text)) is not None]
    if len(numbers) == len(distinct) and all(value.is_integer() and _is_in(_YEARS, value) for value in numbers):
        return [str(int(float(text))) for text in times]
    is_excel = all(_is_in(_EXCEL_DAYS, value) for value in numbers)
    read = {text: _time(text, is_excel=is_excel) for text in distinct}
    bad = next((text for text, time in read.items() if time is None), None)
    if bad is not None:
        raise InvalidTimes(
            f"{whose} has no time in row {list(times).index(bad) + 1}; times are ISO 8601, such as 2026-01-31, "
            "2026-01-31T12:00:00 or 2026-01, years, or seconds since 1970",
            field="times",
        )
    moments = [time for time in read.values() if time is not None]
    form = next(form for least, form in _PERIODS if max(moments) - min(moments) >= least)
    named = {text: "" if time is None else time.strftime(form) for text, time in read.items()}
    return [named[text] for text in times]


def _is_in(bounds: tuple[int, int], value: float) -> bool:
    return bounds[0] <= value <= bounds[1]


def _number(text: str) -> float | None:
    try:
        return None if len(text) == 8 and text.isdigit() else number(text)  # 20260131 is a date
    except ValueError:
        return None


def _time(text: str, *, is_excel: bool) -> datetime | None:
    value = _number(text)
    try:
        if value is None:
            date = f"{text}-01" if _MONTH.fullmatch(text) else text.removesuffix(" UTC")  # as BigQuery writes it
            return datetime.fromisoformat(date).replace(tzinfo=None)
        if is_excel:
            return _EXCEL_START + timedelta(days=value)
        for _ in range(3):
            value /= 1000 if abs(value) > _MOST_SECONDS else 1
        return datetime.fromtimestamp(value, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None
