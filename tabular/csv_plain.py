"""A text table by the standard library: the rule of what is read, and of what is said to be wrong."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import BinaryIO

import numpy as np

from tabular.bounds import Bounds
from tabular.cells import number, refusal
from tabular.csv_layout import Layout
from tabular.csv_rows import Block, Rows
from tabular.sheet import Floats
from tabular.table import Coded, Places, Values
from tabular.texts import Coding

#: Cells that are worked on at once.
_BLOCK_CELLS = 1 << 16


def read_plain(file: BinaryIO, layout: Layout, places: Places, bounds: Bounds) -> Values:
    """Read some columns of every row; raises the ``TabularError`` of the first bad block's first bad column."""
    numbers = {at: array("d") for at in places.numbers}
    texts = {at: Coding(layout.header[at], places.field_of(at)) for at in places.texts}
    rows = Rows(file, layout.encoding, layout.separator)
    rows.header()
    read = 0
    for block in rows.blocks(max(1, _BLOCK_CELLS // len(layout.header))):
        read += len(block.rows)
        bounds.check_rows(read, len(numbers))
        for at, found in numbers.items():
            cells = [row[at] for row in block.rows]
            found.frombytes(_numbers(cells, block, layout.header[at], places, at).tobytes())
        for at, coding in texts.items():
            coding.add([row[at] for row in block.rows])
    arrays = {at: np.frombuffer(found, dtype=np.float64) for at, found in numbers.items()}
    return _values(places, arrays.__getitem__, {at: coding.done() for at, coding in texts.items()})


def _numbers(cells: Sequence[str], block: Block, name: str, places: Places, at: int) -> Floats:
    """Cells as finite numbers."""
    joined = "".join(cells)
    parse: Callable[[str], float] = float if joined.isascii() and "_" not in joined else number
    try:
        found = np.array([*map(parse, cells)], dtype=np.float64)
        if np.isfinite(found).all():
            return found
    except ValueError:
        pass
    i = next(i for i, cell in enumerate(cells) if not _is_finite(cell))
    raise refusal(cells[i], name, places.field_of(at), block.row + i, block.line_of(i))


def _is_finite(cell: str) -> bool:
    try:
        return bool(np.isfinite(number(cell)))
    except ValueError:
        return False


def _values(places: Places, column: Callable[[int], Floats], texts: dict[int, Coded]) -> Values:
    predictions = [column(at) for at in places.predictions]
    return Values(
        predictions[0] if len(predictions) == 1 else np.column_stack(predictions),
        None if places.weights is None else column(places.weights),
        None if places.labels is None else texts[places.labels],
        None if places.groups is None else texts[places.groups],
    )
