"""A text table: CSV, or separated by semicolons, tabs or bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from tabular.bounds import Bounds
from tabular.csv_arrow import read_fast
from tabular.csv_layout import SAMPLE_ROWS, layout_of
from tabular.csv_plain import read_plain
from tabular.csv_rows import Rows
from tabular.table import Column, Places, Values


class CsvTable:
    """A ``Table`` of text; raises the ``TabularError`` of what makes a table of it impossible."""

    def __init__(self, file: BinaryIO, bounds: Bounds) -> None:
        self._file, self._bounds = file, bounds
        self._layout = layout_of(file, bounds)
        self.said = self._layout.said
        samples = zip(*self._layout.sample, strict=True)
        self.columns = tuple(Column(name, cells) for name, cells in zip(self._layout.header, samples, strict=True))

    def read(self, places: Places) -> Values:
        """Read some columns of every row; raises the ``TabularError`` of the first bad one."""
        found = read_fast(self._file, self._layout, places, self._bounds)
        return read_plain(self._file, self._layout, places, self._bounds) if found is None else found

    def texts(self, at: int) -> list[str]:
        """The cells of one column of every row, as they stand."""
        return [row[at] for row in self.rows()]

    @property
    def separator(self) -> str:
        """What stands between two columns."""
        return self._layout.separator

    def rows(self) -> Iterator[list[str]]:
        """The cells of every row as they stand, in the order in which ``read`` takes the rows."""
        rows = Rows(self._file, self._layout.encoding, self._layout.separator)
        rows.header()
        for block in rows.blocks(SAMPLE_ROWS):
            yield from block.rows
