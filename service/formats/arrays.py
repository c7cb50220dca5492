"""Bodies of arrays: NPZ archives and NPY arrays, Arrow streams and Parquet files."""

from __future__ import annotations

import importlib
import importlib.util
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import orjson

from backend.monitors.row_fields import (
    FIELDS,
    NEEDED,
    ROW_BYTES,
    PredictionColumns,
    Whys,
    check_schema,
    plural,
    refuse_long,
    rows_of_table,
)
from backend.monitors.rows import MonitorRows, What, Why, lengths_of
from backend.store.monitors.ids import Ids
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, LengthMismatch, WrongShape
from calibrant.io.errors import MalformedArrow, MalformedNpy, MalformedNpz, MalformedParquet
from calibrant.io.strict import (
    CLASSIFICATION,
    LABELS,
    NUMBERS,
    STRINGS,
    Arrays,
    Fields,
    TableReader,
    read_arrow,
    read_file,
    read_npy,
    read_npz,
    read_parquet,
    read_stream,
)
from service.errors import InvalidField, UnsupportedMediaType
from service.formats.format import STOPS, Array, Body, BodyLimits, Format, Memory, Pieces, with_query

# --- Bodies as numpy writes them


def _archive(body: Body, limits: BodyLimits, fields: Fields) -> Arrays:
    return read_npz(body, limits, fields.kinds, fields)


def _one_array(body: Body, limits: BodyLimits, fields: Fields) -> Arrays:
    if fields is not CLASSIFICATION:
        raise UnsupportedMediaType("an NPY body holds one array; send forecasts as NPZ")
    return read_npy(body, limits)


# --- Rows as the arrays of an NPZ archive

#: Allowed types of the array of each field, as numpy kinds.
_ROW_KINDS = {"id": "USiu", "prediction": NUMBERS, "label": NUMBERS, "timestamp": "M", "group": STRINGS}
_CHARACTER_BYTES = 4
#: Characters of an integer as text.
_DIGITS = 21


def read_npz_rows(body: Body, limits: BodyLimits, what: What, columns: PredictionColumns) -> MonitorRows:
    """Read the arrays ``ids``, ``predictions``, ``labels``, ``timestamps`` and ``groups``, as the call needs them.

    Raises ``MalformedNpz``, ``TooLarge``, or an error about the shape of an array.
    """
    fields = {plural(field): _ROW_KINDS[field] for field in FIELDS[what]}
    if "labels" in fields and columns.takes_booleans:
        fields["labels"] = LABELS
    arrays = read_npz(body, limits, fields)
    for field in NEEDED[what]:
        if plural(field) not in arrays:
            raise InvalidField.at(f"/{plural(field)}", "is missing")
    n = len(np.atleast_1d(arrays[plural(NEEDED[what][1])]))
    limits.reserve(ROW_BYTES * n + sum(_bytes_of_text(arrays[name]) for name in ("ids", "groups") if name in arrays))
    for name, array in arrays.items():
        check_shape(name, array, n, columns)
    why = np.zeros(n, np.uint8)
    ids = npz_ids(arrays["ids"]) if "ids" in arrays else None
    if ids is not None:
        why[lengths_of(ids) == 0] = Why.EMPTY_ID
    groups, names = _coded(arrays["groups"], why) if "groups" in arrays else (None, [])
    return MonitorRows(
        why,
        np.arange(n),
        ids,
        arrays.get("predictions"),
        arrays["labels"].astype(np.float64) if "labels" in arrays else None,
        _npz_times(arrays["timestamps"], why) if "timestamps" in arrays else None,
        groups,
        names,
    )


def check_shape(name: str, array: Array, n: int, columns: PredictionColumns) -> None:
    """Raise ``WrongShape`` or ``LengthMismatch`` if an array is not a column of ``n`` rows."""
    width = columns.width if name == "predictions" else None
    if array.shape[1:] != (() if width is None else (width,)) or not array.ndim:
        raise WrongShape.at(f"/{name}", "must be (n,)" if width is None else f"must be (n, {width}), {columns.meaning}")
    if len(array) != n:
        raise LengthMismatch.at(f"/{name}", f"has {len(array)} rows, but another array has {n}")


def _bytes_of_text(values: Array) -> int:
    """The most bytes for the ids or groups of rows: copies of their characters, and codes."""
    width = _DIGITS if values.dtype.kind in "iu" else values.dtype.itemsize
    return values.size * (_CHARACTER_BYTES + 4) * width


def npz_ids(values: Array) -> Ids:
    """Ids from text, or from the digits of integers. O(bytes)."""
    if not len(values):  # the text of no rows has no width to reshape to
        return Ids(b"", np.zeros(0, np.uint32))
    if values.dtype.kind in "iu":
        values = values.astype(np.str_)
    if values.dtype.kind == "U":
        values = _encoded(np.ascontiguousarray(values))
    table = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    lengths = np.char.str_len(values)
    is_text = np.arange(table.shape[1]) < lengths[:, None]
    return Ids(table[is_text].tobytes(), np.cumsum(lengths, dtype=np.uint32))


def _encoded(values: Array) -> Array:
    """Text as UTF-8; fast for pure ASCII, without a look at each string."""
    width = values.dtype.itemsize // _CHARACTER_BYTES
    units = values.view(np.uint32).reshape(len(values), width)
    if units.size and units.max() >= 128:
        return np.char.encode(values, "utf-8")
    return units.astype(np.uint8).view(f"S{max(1, width)}").reshape(len(values))


def _npz_times(values: Array, why: Whys) -> Floats:
    """Seconds since 1970; a row with NaT is refused, because only an omitted array means now.

    So is a date too far away for microseconds since 1970 in 64 bits.
    """
    micro = values.astype("M8[us]")
    seconds = np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / 1e6)
    if np.can_cast(values.dtype, micro.dtype):  # from a coarser unit, a time may overflow to another one
        seconds[micro.astype(values.dtype) != values] = np.nan
    why[np.isnan(seconds) & (why == 0)] = Why.INVALID_TIME
    return seconds


def _coded(values: Array, why: Whys) -> tuple[Integers, list[str]]:
    """The index of each row's name in the list of names, -1 for an empty name."""
    names, codes = np.unique(values, return_inverse=True)
    nameless = int(len(names) > 0 and names[0] == "")
    codes, texts = codes.astype(np.int64) - nameless, names[nameless:].tolist()
    refuse_long(codes, texts, why)
    return codes, texts


# --- Arrays of responses as NPZ, in pieces

#: Numbers per piece.
_NPZ_BLOCK = 1 << 17
#: The fields that an archive has too, as arrays.
_FIELDS = ("level", "alpha", "classes")


def write_npz(fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> Iterator[bytes]:
    """An archive that ``numpy.load`` can read, with each array and some fields under their names."""
    named = {name: np.nan if fields[name] is None else fields[name] for name in _FIELDS if name in fields}
    arrays = {**arrays, **{name: np.atleast_1d(value) for name, value in named.items()}}
    pieces = Pieces()
    with zipfile.ZipFile(pieces, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                for piece in write_npy(array):
                    member.write(piece)
                    yield pieces.drain()
    yield pieces.drain()


def write_npy(array: Floats) -> Iterator[bytes]:
    """One array as ``numpy.save`` writes it."""
    rows = np.ascontiguousarray(array)
    yield _header(rows)
    numbers = rows.reshape(-1)
    for start in range(0, numbers.size, _NPZ_BLOCK):
        yield numbers[start : start + _NPZ_BLOCK].tobytes()


def _header(array: Floats) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, np.lib.format.header_data_from_array_1_0(array))
    return out.getvalue()


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


# --- Bodies as Arrow streams and Parquet files


def _with_pyarrow(read: Callable[[Body, BodyLimits, Fields], Arrays]) -> Callable[[Body, BodyLimits, Fields], Arrays]:
    def read_with_pyarrow(body: Body, limits: BodyLimits, fields: Fields) -> Arrays:
        pyarrow()
        return read(body, limits, fields)

    return read_with_pyarrow


# --- Rows in tables of Arrow


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

NPZ = Format(
    "application/x-npz",
    MalformedNpz,
    read=with_query(_archive),
    read_rows=read_npz_rows,
    write=write_npz,
    request="arrays `predictions`, `labels`, `weights`, `groups` (as text)",
    rows="arrays `ids`, `predictions`, `labels`, `timestamps` (`datetime64`), `groups`",
    response="arrays",
    memory=Memory(
        "the arrays that the headers state; twice if they are text or of the other byte order",
        "sizes, checksums and methods of the archive",
    ),
    rows_memory=Memory("as for batches, 64 bytes per row, and 8 bytes per character of ids and groups"),
    makes_objects=False,
)
NPY = Format(
    "application/x-npy",
    MalformedNpy,
    read=with_query(_one_array),
    request="predictions of a classifier only",
    memory=Memory(
        "as NPZ",
        "shape and size must agree",
        "tests/unit/io/test_strict_npz.py::test_a_shape_of_other_than_whole_numbers_is_a_damaged_header",
    ),
    makes_objects=False,
)


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
