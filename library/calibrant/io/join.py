"""Joins of files by the ids of their rows; nothing is left out silently."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from calibrant.io.errors import UnclearColumns, UnmatchedIds
from calibrant.io.table import Coded, Column, ColumnPlaces, Ints, OpenTable, Values
from calibrant.io.texts import quoted, row_of


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
