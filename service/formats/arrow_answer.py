"""Arrays as an Arrow IPC stream, in batches; the fields of text are the metadata of its schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from calibrant.cells import Floats
from service.formats.extra import pyarrow
from service.formats.pieces import Pieces

#: Numbers in a batch.
_BLOCK = 1 << 17


def write_arrow(fields: Mapping[str, str], arrays: Mapping[str, Floats]) -> Iterator[bytes]:
    """A column an array: of doubles for (n,), of lists of K doubles for (n, K)."""
    arrow = pyarrow()
    columns = [(name, _type(array)) for name, array in arrays.items()]
    schema = arrow.schema(columns, metadata=dict(fields))
    widest = max(max(1, array[:1].size) for array in arrays.values())
    height = max(1, _BLOCK // widest)
    n = max(map(len, arrays.values()))
    pieces = Pieces()
    with arrow.ipc.new_stream(arrow.PythonFile(pieces, "w"), schema) as writer:
        for start in range(0, n, height):
            blocks = [_column(array[start : start + height]) for array in arrays.values()]
            writer.write_batch(arrow.record_batch(blocks, schema=schema))
            yield pieces.take()
    yield pieces.take()


def _type(array: Floats) -> Any:
    arrow = pyarrow()
    number = arrow.from_numpy_dtype(array.dtype)
    return number if array.ndim == 1 else arrow.list_(number, array.shape[1])


def _column(rows: Floats) -> Any:
    arrow = pyarrow()
    flat = arrow.array(np.ascontiguousarray(rows).reshape(-1))
    return flat if rows.ndim == 1 else arrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])
