"""A text table by pyarrow, ten times as fast; what it refuses, or finds empty, the standard library reads again."""

from __future__ import annotations

import contextlib
import io
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tabular.bounds import MAX_LINE, Bounds
from tabular.csv_layout import Layout
from tabular.extra import pyarrow
from tabular.table import Places, Values
from tabular.texts import Coding

#: Larger files are mapped, smaller ones copied.
_IN_MEMORY = 32 << 20
_BLOCK = 1 << 20


def read_fast(file: BinaryIO, layout: Layout, places: Places, bounds: Bounds) -> Values | None:
    """Read some columns of every row, as ``read_plain`` does; None where that must find out what is wrong.

    Raises ``FileTooLarge`` and what a column of texts is refused for.
    """
    arrow = pyarrow("csv")
    if arrow is None or layout.data_at is None:
        return None
    found = _Found(layout, places)
    try:
        with (
            _native(arrow, file, layout.data_at) as rows,
            arrow.csv.open_csv(rows, **_options(arrow, layout, places)) as batches,
        ):
            for batch in batches:
                if not found.add(batch):
                    return None
                bounds.check_rows(found.rows, len(places.numbers))
    except (arrow.ArrowException, OSError, UnicodeDecodeError):
        return None
    return found.values()


def _native(arrow: Any, file: BinaryIO, start: int) -> Any:
    """The file from ``start`` on as one that pyarrow reads without Python.

    pyarrow reads ahead in threads of its own, which may still run when the caller has stopped reading. If they read a
    Python file, they would move its position under the next reader, and end the process when it exits: a thread that
    waits for the interpreter's lock is then killed inside C++ ("terminate called without an active exception").
    """
    if file.seek(0, io.SEEK_END) - start > _IN_MEMORY:
        with contextlib.suppress(io.UnsupportedOperation):  # of what lies in memory
            mapped = arrow.memory_map(f"/dev/fd/{file.fileno()}")
            mapped.seek(start)
            return mapped
    file.seek(start)
    kept = arrow.BufferOutputStream(arrow.system_memory_pool())
    while block := file.read(_BLOCK):
        kept.write(block)
    return arrow.BufferReader(kept.getvalue())


def _options(arrow: Any, layout: Layout, places: Places) -> dict[str, Any]:
    names = [str(at) for at in range(len(layout.header))]
    coded = arrow.dictionary(arrow.int32(), arrow.string())
    types = {str(at): arrow.float64() for at in places.numbers} | {str(at): coded for at in places.texts}
    quotes = any('"' in cell or "\n" in cell for row in layout.sample for cell in row)
    return {
        "read_options": arrow.csv.ReadOptions(column_names=names, block_size=2 * MAX_LINE),
        "parse_options": arrow.csv.ParseOptions(delimiter=layout.separator, newlines_in_values=quotes),
        "convert_options": arrow.csv.ConvertOptions(include_columns=list(types), column_types=types),
        # The default one keeps what a large file took.
        "memory_pool": arrow.system_memory_pool(),
    }


class _Found:
    """The batches so far."""

    def __init__(self, layout: Layout, places: Places) -> None:
        self._places = places
        self._predictions: list[Any] = []
        self._weights: list[Any] = []
        self._texts = {at: Coding(layout.header[at], places.field_of(at)) for at in places.texts}
        self.rows = 0

    def add(self, batch: Any) -> bool:
        """Take in a batch; False for one that holds what is missing or infinite."""
        columns = {at: batch.column(str(at)) for at in {*self._places.numbers, *self._places.texts}}
        if any(column.null_count for column in columns.values()):
            return False
        # pyarrow's own way to numpy imports pandas, a third of a second of every command.
        numbers = {at: np.from_dlpack(columns[at]) for at in self._places.numbers}
        if not all(np.isfinite(column).all() for column in numbers.values()):
            return False
        rows = [numbers[at] for at in self._places.predictions]
        self._predictions.append(rows[0] if len(rows) == 1 else np.column_stack(rows))
        if self._places.weights is not None:
            self._weights.append(numbers[self._places.weights])
        for at, coding in self._texts.items():
            codes: npt.NDArray[np.int32] = np.asarray(np.from_dlpack(columns[at].indices), dtype=np.int32)
            coding.add_coded(columns[at].dictionary.to_pylist(), codes)
        self.rows += batch.num_rows
        return True

    def values(self) -> Values | None:
        """All of them; None where there is no row."""
        if not self.rows:
            return None
        coded = {at: coding.done() for at, coding in self._texts.items()}
        return Values(
            np.concatenate(self._predictions),
            np.concatenate(self._weights) if self._weights else None,
            None if self._places.labels is None else coded[self._places.labels],
            None if self._places.groups is None else coded[self._places.groups],
        )
