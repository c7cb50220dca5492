"""Bodies as CSV in UTF-8 with a header."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from backend.monitors.row_fields import ROW_BYTES, PredictionColumns, find_columns
from backend.monitors.rows import MonitorRows, What, together
from calibrant.core.errors import WrongShape
from calibrant.io.errors import MalformedCsv
from calibrant.io.limits import NUMBER_BYTES, STRING_BYTES
from calibrant.io.strict import WORDS, csv_table, read_csv
from calibrant.io.texts import number
from service.formats.documents import rows_of_columns
from service.formats.format import Body, BodyLimits, Format, Memory, with_query

#: Cells that are converted at once.
_BLOCK_CELLS = 1 << 16
#: Copies of numbers and ids: the pieces, and the arrays that they become.
_COPIES = 2


def read_csv_rows(body: Body, limits: BodyLimits, what: What, columns: PredictionColumns) -> MonitorRows:
    """Read the columns ``id``, ``prediction``, ``label``, ``timestamp`` and ``group``, or their plurals.

    ``prediction`` may be K columns ``prediction.0`` and so on; empty cells are missing values. Raises
    ``MalformedCsv``, ``TooLarge``, or an error about a whole column; a row with an invalid cell is refused.
    """
    width, parts, n = columns.width, list[MonitorRows](), 0
    with csv_table(body, limits) as (header, rows):
        limits.check_classes(len(header), "/prediction")
        places = find_columns(header, what, width)
        if width is not None and "prediction" in places and len(places["prediction"]) != width:
            raise WrongShape.at("/prediction", f"must be the {width} columns prediction.0 to prediction.{width - 1}")
        for block in rows.blocks(max(1, _BLOCK_CELLS // len(header))):
            n += len(block.rows)
            limits.check_rows(n)
            column = {field: _cells(block.rows, own, field, width) for field, own in places.items()}
            _reserve(column, len(block.rows), width, limits)
            parts.append(rows_of_columns(column, np.zeros(len(block.rows), np.uint8), columns))
    return (
        together(parts) if parts else rows_of_columns({field: [] for field in places}, np.zeros(0, np.uint8), columns)
    )


def _cells(rows: Sequence[Sequence[str]], places: Sequence[int], field: str, width: int | None) -> list[Any]:
    """The values of a field: None for an empty cell, and the text of a cell that is not what it has to be."""
    if field in ("id", "group", "timestamp"):
        return [row[places[0]] or None for row in rows]
    if field == "label":
        return [_label_of(row[places[0]]) for row in rows]
    if width is None:
        return [_number_of(row[places[0]]) for row in rows]
    return [_vector_of([row[at] for at in places]) for row in rows]


def _number_of(cell: str) -> float | str | None:
    try:
        return number(cell)
    except ValueError:
        return cell if cell.strip() else None


def _label_of(cell: str) -> float | str | bool | None:
    word = WORDS.get(cell.strip().lower())
    return _number_of(cell) if word is None else bool(word)


def _vector_of(cells: Sequence[str]) -> list[float | str | None] | None:
    values = [_number_of(cell) for cell in cells]
    return None if all(value is None for value in values) else values


def _reserve(column: dict[str, list[Any]], n: int, width: int | None, limits: BodyLimits) -> None:
    """Reserve the memory of a block of rows: its numbers, ids and names of groups."""
    ids = sum(4 * len(row_id) for row_id in column.get("id", ()) if row_id is not None)
    names = sum(STRING_BYTES + sys.getsizeof(name) for name in {*column.get("group", ())} - {None})
    limits.reserve(_COPIES * (n * (ROW_BYTES + NUMBER_BYTES * (width or 1)) + ids) + names)


CSV = Format(
    "text/csv",
    MalformedCsv,
    read=with_query(read_csv, is_text=True),
    read_rows=read_csv_rows,
    request="UTF-8 with a header row",
    rows="columns as those of Arrow, vectors as `prediction.0` to `prediction.K-1`; empty cells are missing",
    memory=Memory("16 bytes per number and row of a name, in blocks, and each distinct name", "longest line"),
    rows_memory=Memory(
        "twice 64 bytes and the numbers of each row, in blocks, eight bytes per character of ids, and names"
    ),
    makes_objects=False,
)
