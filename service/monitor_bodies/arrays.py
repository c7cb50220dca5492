"""Rows of a monitor as the arrays of an NPZ archive or the columns of an Arrow stream."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from backend.monitors.rows import MonitorRows, What, Why, lengths_of
from backend.store.monitors.ledger import Ids
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import LengthMismatch, WrongShape
from calibrant.io import arrow
from calibrant.io.shared import bytes_to_convert, check_decoded
from calibrant.io.strict import NUMBERS, STRINGS, place_columns, read_npz, read_stream
from schemas.monitors import MonitorForecast
from service.errors import InvalidField
from service.formats.extra import pyarrow
from service.formats.payload import Array, Body, BodyLimits
from service.monitor_bodies.documents import FIELDS, NEEDED, Columns, Whys, plural, refuse_long, width_of

# --- Rows as the arrays of an NPZ archive

#: Allowed types of the array of each field, as numpy kinds.
_KINDS = {"id": "USiu", "prediction": NUMBERS, "label": NUMBERS, "timestamp": NUMBERS + "M", "group": STRINGS}
_CHARACTER_BYTES = 4
#: Bytes of memory for a row in addition to its values, and characters of an integer as text.
_OF_ROW, _DIGITS = 64, 21


def read_npz_rows(body: Body, limits: BodyLimits, what: What, columns: Columns) -> MonitorRows:
    """Read the arrays ``ids``, ``predictions``, ``labels``, ``timestamps`` and ``groups``, as the call needs them.

    Raises ``MalformedNpz``, ``TooLarge``, or an error about the shape of an array.
    """
    fields = {plural(field): _KINDS[field] for field in FIELDS[what]}
    arrays = read_npz(body, limits, fields)
    for field in NEEDED[what]:
        if plural(field) not in arrays:
            raise InvalidField.at(f"/{plural(field)}", "is missing")
    n = len(np.atleast_1d(arrays[plural(NEEDED[what][1])]))
    limits.reserve(_OF_ROW * n + sum(_bytes_of_text(arrays[name]) for name in ("ids", "groups") if name in arrays))
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


#: The columns of each kind of forecasts.
_OF_FORECASTS = {
    "normal": "the means and the variances",
    "quantiles": "the quantiles at the levels of the monitor",
    "samples": "the samples of each row",
    "interval": "the lower and the upper ends",
}


def check_shape(name: str, array: Array, n: int, columns: Columns) -> None:
    """Raise ``WrongShape`` or ``LengthMismatch`` if an array is not a column of ``n`` rows."""
    width = width_of(columns) if name == "predictions" else None
    if array.shape[1:] != (() if width is None else (width,)) or not array.ndim:
        of_classes = "the number of classes of the monitor"
        what = _OF_FORECASTS[columns.kind] if isinstance(columns, MonitorForecast) else of_classes
        raise WrongShape.at(f"/{name}", "must be (n,)" if width is None else f"must be (n, {width}), {what}")
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
    kept = np.arange(table.shape[1]) < lengths[:, None]
    return Ids(table[kept].tobytes(), np.cumsum(lengths, dtype=np.uint32))


def _encoded(values: Array) -> Array:
    """Text as UTF-8; fast for pure ASCII, without a look at each string."""
    width = values.dtype.itemsize // _CHARACTER_BYTES
    units = values.view(np.uint32).reshape(len(values), width)
    if units.size and units.max() >= 128:
        return np.char.encode(values, "utf-8")
    return units.astype(np.uint8).view(f"S{max(1, width)}").reshape(len(values))


def _npz_times(values: Array, why: Whys) -> Floats:
    """Seconds since 1970; a row with NaN or NaT is refused, because only an omitted array means now.

    So is a date too far away for microseconds since 1970 in 64 bits.
    """
    if values.dtype.kind == "M":
        micro = values.astype("M8[us]")
        seconds = np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / 1e6)
        if np.can_cast(values.dtype, micro.dtype):  # from a coarser unit, a time may overflow to another one
            seconds[micro.astype(values.dtype) != values] = np.nan
    else:
        seconds = values.astype(np.float64)
    why[np.isnan(seconds) & (why == 0)] = Why.INVALID_TIME
    return seconds


def _coded(values: Array, why: Whys) -> tuple[Integers, list[str]]:
    """The index of each row's name in the list of names, -1 for an empty name."""
    names, codes = np.unique(values, return_inverse=True)
    nameless = int(len(names) > 0 and names[0] == "")
    codes, texts = codes.astype(np.int64) - nameless, names[nameless:].tolist()
    refuse_long(codes, texts, why)
    return codes, texts


# --- Rows as the columns of an Arrow stream; ids are never converted to Python objects

_OF_CLASS = re.compile(r"predictions?\.(0|[1-9][0-9]{0,8})")
#: The column types of some fields; all other columns contain numbers.
_TYPES = {"id": "strings, binary values or integers", "group": "strings", "timestamp": "numbers or timestamps"}
#: Timestamp units per second.
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def read_arrow_rows(body: Body, limits: BodyLimits, what: What, columns: Columns) -> MonitorRows:
    """Read the columns ``id``, ``prediction``, ``label``, ``timestamp`` and ``group``, or their plurals.

    ``prediction`` is a column of numbers or of lists of K, or K columns named ``prediction.0`` and so on. Null means
    missing. Raises ``MalformedArrow``, ``TooLarge``, or an error about a whole column.
    """
    pyarrow()
    n_classes = width_of(columns)

    def check(schema: Any) -> None:
        for field, places in find_columns(schema.names, what, n_classes).items():
            for at in places:
                _check_type(schema.types[at], field, n_classes if len(places) == 1 else None)

    def read(table: Any) -> MonitorRows:
        limits.reserve(_OF_ROW * table.num_rows + sum(map(bytes_to_convert, table.columns)))
        places = find_columns(table.schema.names, what, n_classes)
        found = {field: [table.column(at) for at in own] for field, own in places.items()}
        return _rows(found, n_classes, table.num_rows, limits)

    return read_stream(body, limits, check, read)


def find_columns(names: list[str], what: What, n_classes: int | None) -> dict[str, list[int]]:
    """The indices of each field's columns; ``prediction`` may have several. Raises ``InvalidField``."""
    fields = FIELDS[what]
    known = {name: field for field in fields for name in (field, plural(field))}
    families = {"prediction": _OF_CLASS} if "prediction" in fields else {}
    found, members = place_columns(names, known, families, ", ".join(fields))
    if (classes := members.get("prediction")) is not None:
        if n_classes is None or sorted(classes) != list(range(n_classes)):
            raise WrongShape.at("/prediction", "must have one column for each class of the monitor")
        found["prediction"] = [classes[k] for k in range(n_classes)]
    for field in NEEDED[what]:
        if field not in found:
            raise InvalidField.at(f"/{field}", "is missing")
    return found


def _check_type(kind: Any, field: str, width: int | None) -> None:
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
        "timestamp": is_number or types.is_timestamp(kind),
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
        _arrow_times(one["timestamp"], why) if "timestamp" in one else None,
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


def _arrow_times(column: Any, why: Whys) -> Floats:
    """Seconds since 1970, NaN for null; a timestamp without a time zone is UTC, and a NaN in the data is refused."""
    plain = arrow.decoded(column)
    if pyarrow().types.is_timestamp(plain.type):
        return arrow.number_array(plain.cast(pyarrow().int64())) / float(_UNITS[plain.type.unit])
    seconds = arrow.number_array(plain).astype(np.float64)
    there = plain.is_valid().to_numpy(zero_copy_only=False)
    why[np.isnan(seconds) & there & (why == 0)] = Why.INVALID_TIME
    return seconds


def _groups(column: Any, why: Whys, limits: BodyLimits) -> tuple[Integers, list[str]]:
    codes, values = arrow.codes_of(column, limits)
    names = [name or "" for name in values]
    refuse_long(codes, names, why)
    return codes, names
