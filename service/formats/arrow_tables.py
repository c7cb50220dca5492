"""Bodies as Arrow streams and Parquet files."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import orjson

from backend.monitors.row_fields import PredictionColumns, check_schema, rows_of_table
from backend.monitors.rows import MonitorRows, What
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError
from calibrant.io.errors import MalformedArrow, MalformedParquet
from calibrant.io.strict import Arrays, Fields, TableReader, read_arrow, read_file, read_parquet, read_stream
from service.errors import UnsupportedMediaType
from service.formats.format import STOPS, Body, BodyLimits, Format, Memory, Pieces, with_query

# --- pyarrow, an optional dependency, imported when a request first needs it


@cache
def pyarrow() -> Any:
    """Import pyarrow with its readers and writers; raises ``UnsupportedMediaType`` if it is not installed."""
    try:
        arrow = importlib.import_module("pyarrow")
        importlib.import_module("pyarrow.ipc")
        importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise UnsupportedMediaType("Arrow and Parquet need the extra: pip install calibrant-server[arrow]") from error
    # The default memory pool does not return the memory of a large body.
    arrow.set_memory_pool(arrow.system_memory_pool())
    return arrow


@cache
def has_pyarrow() -> bool:
    """Whether pyarrow is installed; does not import it."""
    return importlib.util.find_spec("pyarrow") is not None


# --- Bodies of arrays


def _with_pyarrow(read: Callable[[Body, BodyLimits, Fields], Arrays]) -> Callable[[Body, BodyLimits, Fields], Arrays]:
    def read_with_pyarrow(body: Body, limits: BodyLimits, fields: Fields) -> Arrays:
        pyarrow()
        return read(body, limits, fields)

    return read_with_pyarrow


# --- Rows of monitors


def _rows_of(
    read_table: TableReader, body: Body, limits: BodyLimits, what: What, columns: PredictionColumns
) -> MonitorRows:
    """Read a table of rows; raises the error of the format, ``TooLarge``, or an error about a whole column."""
    pyarrow()
    rows: MonitorRows = read_table(
        body,
        limits,
        lambda schema: check_schema(schema, what, columns),
        lambda table: rows_of_table(table, limits, what, columns),
    )
    return rows


# --- Arrays of responses as an Arrow stream, in record batches; the fields become metadata of the schema

#: Numbers per record batch.
_ARROW_BLOCK = 1 << 17


def write_arrow(fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> Iterator[bytes]:
    """One column per array: doubles for (n,), lists of K doubles for (n, K); quantiles have one column per level."""
    arrow = pyarrow()
    if "levels" in arrays:
        columns = zip(arrays["levels"].tolist(), arrays["quantiles"].T, strict=True)
        others = {name: array for name, array in arrays.items() if name not in ("levels", "quantiles")}
        arrays = {f"q{tau:.9g}": column for tau, column in columns} | others
    texts = {name: orjson.dumps(value) if isinstance(value, list) else str(value) for name, value in fields.items()}
    metadata = {name: text for name, text in texts.items() if fields[name] is not None}
    schema = arrow.schema([(name, _type(array)) for name, array in arrays.items()], metadata=metadata)
    widest = max(max(1, array[:1].size) for array in arrays.values())
    height = max(1, _ARROW_BLOCK // widest)
    n = max(map(len, arrays.values()))
    pieces = Pieces()
    with arrow.ipc.new_stream(arrow.PythonFile(pieces, "w"), schema) as writer:
        for start in range(0, n, height):
            blocks = [_column(array[start : start + height]) for array in arrays.values()]
            writer.write_batch(arrow.record_batch(blocks, schema=schema))
            yield pieces.drain()
    yield pieces.drain()


def _type(array: Floats) -> Any:
    arrow = pyarrow()
    number = arrow.from_numpy_dtype(array.dtype)
    return number if array.ndim == 1 else arrow.list_(number, array.shape[1])


def _column(rows: Floats) -> Any:
    arrow = pyarrow()
    flat = arrow.array(np.ascontiguousarray(rows).reshape(-1))
    return flat if rows.ndim == 1 else arrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])


# --- The formats


def _format(
    media_type: str,
    malformed: type[CalibrationError],
    read: Callable[[Body, BodyLimits, Fields], Arrays],
    read_table: TableReader,
    **about: Any,
) -> Format:
    return Format(
        media_type,
        malformed,
        read=with_query(_with_pyarrow(read)),
        read_rows=partial(_rows_of, read_table),
        rows="columns `id`, `prediction`, `label`, `timestamp`, `group`, or their plurals; vectors as lists or as "
        "`prediction.0` to `prediction.K-1`; timestamps without a zone are UTC",
        rows_memory=Memory("as for batches, 64 bytes per row, and the text of ids twice"),
        makes_objects=False,
        **about,
    )


ARROW = _format(
    "application/vnd.apache.arrow.stream",
    MalformedArrow,
    read_arrow,
    read_stream,
    write=write_arrow,
    is_available=has_pyarrow,
    request="Arrow IPC stream",
    response="one column per array; other fields in the schema's metadata",
    memory=Memory(
        "the unpacked size that each buffer states; shared strings as often as rows use them; 16 bytes per value of a "
        "column that is not a plain view, 24 per name, and each distinct name",
        "number of messages; types are checked first, so that columns of nulls and run-end encoding are never read",
        STOPS,
    ),
)
PARQUET = _format(
    "application/vnd.apache.parquet",
    MalformedParquet,
    read_parquet,
    read_file,
    request="Parquet file",
    memory=Memory(
        "twice the unpacked size and the values of all pages, 80 per byte of the footer, then as Arrow",
        "size of the footer, number of pages, encodings",
        STOPS,
    ),
)
