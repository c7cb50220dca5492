"""Bodies as Arrow streams and Parquet files."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import orjson

from backend.monitors.rows import MonitorRows, What, Why, lengths_of
from backend.store.monitors.ids import Ids
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, WrongShape
from calibrant.io import arrow
from calibrant.io.errors import MalformedArrow, MalformedParquet
from calibrant.io.shared import bytes_to_convert, check_decoded
from calibrant.io.strict import Arrays, Fields, TableReader, read_arrow, read_file, read_parquet, read_stream
from service.errors import InvalidField, UnsupportedMediaType
from service.formats.format import STOPS, Format, Memory, Pieces, with_query
from service.formats.monitor_fields import ROW_BYTES, PredictionColumns, Whys, find_columns, refuse_long
from service.formats.payload import Body, BodyLimits

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


# --- Rows of monitors; ids are never converted to Python objects

#: The column types of some fields; all other columns contain numbers.
_TYPES = {"id": "strings, binary values or integers", "group": "strings", "timestamp": "timestamps"}
#: Timestamp units per second.
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _rows_of(
    read_table: TableReader, body: Body, limits: BodyLimits, what: What, columns: PredictionColumns
) -> MonitorRows:
    """Read the columns ``id``, ``prediction``, ``label``, ``timestamp`` and ``group``, or their plurals.

    ``prediction`` is a column of numbers or of lists of K, or K columns named ``prediction.0`` and so on. Null means
    missing. Raises the error of the format, ``TooLarge``, or an error about a whole column.
    """
    pyarrow()
    n_classes = columns.width

    def check(schema: Any) -> None:
        for field, places in find_columns(schema.names, what, n_classes).items():
            for at in places:
                _check_type(schema.types[at], field, n_classes if len(places) == 1 else None, columns)

    def read(table: Any) -> MonitorRows:
        limits.reserve(ROW_BYTES * table.num_rows + sum(map(bytes_to_convert, table.columns)))
        places = find_columns(table.schema.names, what, n_classes)
        found = {field: [table.column(at) for at in own] for field, own in places.items()}
        return _rows(found, n_classes, table.num_rows, limits)

    rows: MonitorRows = read_table(body, limits, check, read)
    return rows


def _check_type(kind: Any, field: str, width: int | None, columns: PredictionColumns) -> None:
    """Raise ``InvalidField`` for a column of the wrong type, and ``WrongShape`` for the wrong list structure."""
    types = pyarrow().types
    inner = arrow.value_type(kind)
    is_text, is_number = arrow.is_text(inner), arrow.is_number(inner)
    if field == "prediction" and (arrow.is_list(kind) or width is not None):
        if width is None or not arrow.is_list(kind):
            raise WrongShape.at("/prediction", "must be numbers" if width is None else f"must be lists of {width}")
        is_number = arrow.is_number(kind.value_type)
    allowed = {
        "id": is_text or types.is_binary(inner) or types.is_large_binary(inner) or types.is_integer(inner),
        "group": is_text,
        "label": is_number or (columns.takes_booleans and types.is_boolean(inner)),
        "timestamp": types.is_timestamp(kind),
    }
    if not allowed.get(field, is_number):
        raise InvalidField.at(f"/{field}", f"must be a column of {_TYPES.get(field, 'numbers')}")


def _rows(columns: dict[str, list[Any]], n_classes: int | None, n: int, limits: BodyLimits) -> MonitorRows:
    why = np.zeros(n, np.uint8)
    one = {field: arrays[0] for field, arrays in columns.items()}
    groups, names = _groups(one["group"], why, limits) if "group" in one else (None, [])
    ids = _ids(one["id"], why, limits) if "id" in one else None
    given = columns.get("prediction")
    predictions, places = (None, None) if given is None else _predictions(given, n_classes, why)
    return MonitorRows(
        why,
        np.arange(n),
        ids,
        predictions,
        _numbers(one["label"], why, Why.NO_LABEL) if "label" in one else None,
        _arrow_times(one["timestamp"]) if "timestamp" in one else None,
        groups,
        names,
        places=places,
    )


def _ids(column: Any, why: Whys, limits: BodyLimits) -> Ids:
    """The ids of a column; null means no id, and a row with an empty id is refused."""
    if not arrow.is_number(arrow.value_type(column.type)):
        check_decoded([column], limits)
    plain = arrow.decoded(column)
    limits.reserve(plain.nbytes)  # the text is copied
    ids = arrow_ids(plain)
    there = plain.is_valid().to_numpy(zero_copy_only=False)
    why[(lengths_of(ids) == 0) & there & (why == 0)] = Why.EMPTY_ID
    return ids


def arrow_ids(column: Any) -> Ids:
    """The ids of a column, read from its buffers; integers become digits, and null is empty."""
    types = pyarrow().types
    if types.is_integer(column.type):
        column = column.cast(pyarrow().string())
    if column.null_count:
        column = column.fill_null(b"" if types.is_binary(column.type) or types.is_large_binary(column.type) else "")
    if not len(column):
        return Ids(b"", np.zeros(0, np.uint32))
    wide = types.is_large_string(column.type) or types.is_large_binary(column.type)
    _, offsets, text = column.buffers()
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[column.offset : column.offset + len(column) + 1]
    found = b"" if text is None else bytes(memoryview(text)[int(ends[0]) : int(ends[-1])])
    return Ids(found, (ends[1:] - ends[0]).astype(np.uint32))


def _numbers(column: Any, why: Whys, null: Why) -> Floats:
    """The numbers of a column, NaN for null; those rows are refused with the reason ``null``."""
    nulls = arrow.null_rows(column)
    why[nulls[why[nulls] == 0]] = null
    if pyarrow().types.is_boolean(arrow.value_type(column.type)):
        column = arrow.decoded(column).cast("uint8")
    return arrow.number_array(column)


def _predictions(columns: list[Any], n_classes: int | None, why: Whys) -> tuple[Floats, Integers | None]:
    """The predictions, and their places if some rows have none."""
    if n_classes is None:
        return _numbers(columns[0], why, Why.NO_PREDICTION), None
    if len(columns) > 1:
        return np.column_stack([_numbers(column, why, Why.NO_PREDICTION) for column in columns]), None
    return _vectors(columns[0], n_classes, why)


def _vectors(column: Any, width: int, why: Whys) -> tuple[Floats, Integers | None]:
    """A column of lists as (m, K), and their places if rows are refused for a null or another length."""
    lengths, flat = arrow.lists_of(column)
    why[(lengths == -1) & (why == 0)] = Why.NO_PREDICTION
    why[(lengths != width) & (why == 0)] = Why.WRONG_SHAPE
    numbers = arrow.number_array(flat)  # null rows contribute none
    right = lengths == width
    if not right.all():
        found = numbers[np.repeat(right, np.maximum(lengths, 0))].reshape(-1, width)
        return found, np.where(right, np.cumsum(right) - 1, -1)
    return numbers.reshape(-1, width), None


def _arrow_times(column: Any) -> Floats:
    """Seconds since 1970, NaN for null; a timestamp without a time zone is UTC."""
    plain = arrow.decoded(column)
    return arrow.number_array(plain.cast(pyarrow().int64())) / float(_UNITS[plain.type.unit])


def _groups(column: Any, why: Whys, limits: BodyLimits) -> tuple[Integers, list[str]]:
    codes, values = arrow.codes_of(column, limits)
    names = [name or "" for name in values]
    refuse_long(codes, names, why)
    return codes, names


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
