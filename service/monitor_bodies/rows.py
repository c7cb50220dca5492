"""Rows of a monitor as a body: JSON, NDJSON, NPZ and Arrow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import orjson

from backend.monitors.rows import Rows, What, Why, lengths_of, together
from backend.store.monitors.ledger import Ids
from calibrant.cells import Floats
from calibrant.errors import LengthMismatch, WrongShape
from service.errors import InvalidField, MalformedJson
from service.formats.extra import pyarrow
from service.formats.json_pieces import PIECE, LongArray, plain, read_document
from service.formats.json_structure import check_keys, has_keys, skeleton
from service.formats.limits import Limits
from service.formats.npz_body import NUMBERS, STRINGS, read_npz
from service.formats.payload import Body
from service.formats.tables import read_stream
from service.monitor_bodies.bounds import lines_of
from service.monitor_bodies.documents import FIELDS, NEEDED, plural, refuse_long, rows_of

# --- Rows as JSON: an object with the list ``rows``, or a line each


def read_json_rows(body: Body, limits: Limits, what: What, n_classes: int | None) -> Rows:
    """Read ``{"rows": [...]}``; raises ``MalformedJson`` with the byte at fault, ``InvalidField``, ``TooLarge``."""
    document = read_document(body, limits)
    return together([rows_of(piece, what, n_classes) for piece in pieces_of(rows_in(document), limits)])


def rows_in(document: Any, where: str = "") -> list[Any] | LongArray:
    """The rows of an object that holds them and nothing else; raises ``InvalidField``."""
    if not isinstance(document, dict):
        raise InvalidField.at(where, "must be an object" if where else "the body must be an object")
    for name in document:
        if name != "rows":
            raise InvalidField.at(f"{where}/{name[:64]}", "is not a field of this request")
    rows = document.get("rows")
    if not isinstance(rows, list | LongArray):
        raise InvalidField.at(f"{where}/rows", "must be an array")
    return rows


class InPieces(Protocol):
    """An array that is read some elements at a time."""

    def pieces(self) -> Iterator[list[Any]]: ...  # noqa: D102


def pieces_of(rows: list[Any] | InPieces, limits: Limits, where: str = "/rows") -> Iterator[list[Any]]:
    """An array some elements at a time; raises ``TooLarge`` for more than the most rows."""
    found = 0
    for piece in [rows] if isinstance(rows, list) else rows.pieces():
        found += len(piece)
        limits.check_rows(found, where)
        yield piece


def read_lines(body: Body, limits: Limits, what: What, n_classes: int | None) -> Rows:
    """Read a JSON object a line; a line that is none refuses that row alone. Blank lines are no rows.

    Raises ``TooLarge``, and ``InvalidField`` where a key stands twice in an object.
    """
    parts = [rows_of(_documents(lines, limits), what, n_classes) for lines in lines_of(body, limits)]
    return together(parts) if parts else rows_of([], what, n_classes)


def _documents(lines: list[bytes], limits: Limits) -> list[Any]:
    documents = [_document(line, limits) for line in lines]
    text = b"\n".join(lines)
    bones = skeleton(text, limits)
    # The quotes of a line that is not JSON may hide the keys of those after it.
    if not all(isinstance(one, dict) for one in documents) or not has_keys(bones, sum(map(len, documents))):
        for line, one in zip(lines, documents, strict=True):
            if isinstance(one, dict):
                check_keys(line, skeleton(line, limits), {"": one}, 0)
    return documents


def _document(line: bytes, limits: Limits) -> Any:
    try:
        return plain(read_document(line, limits)) if len(line) > PIECE else orjson.loads(line)
    except (orjson.JSONDecodeError, MalformedJson):
        return None


# --- Rows as the arrays of an NPZ archive

Array = npt.NDArray[Any]

#: What an array of each field may hold: numpy's kinds of types.
_KINDS = {"id": "USiu", "prediction": NUMBERS, "label": NUMBERS, "timestamp": NUMBERS + "M", "group": STRINGS}
_CHARACTER_BYTES = 4


def read_npz_rows(body: Body, limits: Limits, what: What, n_classes: int | None) -> Rows:
    """Read the arrays ``ids``, ``predictions``, ``labels``, ``timestamps`` and ``groups``, as the call has them.

    Raises ``MalformedNpz``, ``TooLarge``, or what is wrong with the shape of an array.
    """
    fields = {plural(field): _KINDS[field] for field in FIELDS[what]}
    arrays = read_npz(body, limits, fields)
    for field in NEEDED[what]:
        if plural(field) not in arrays:
            raise InvalidField.at(f"/{plural(field)}", "is missing")
    n = len(arrays[plural(NEEDED[what][1])])
    for name, array in arrays.items():
        check_shape(name, array, n, n_classes)
    why = np.zeros(n, np.uint8)
    ids = npz_ids(arrays["ids"]) if "ids" in arrays else None
    if ids is not None:
        why[lengths_of(ids) == 0] = Why.EMPTY_ID
    groups, names = _coded(arrays["groups"], why) if "groups" in arrays else (None, [])
    return Rows(
        why,
        np.arange(n),
        ids,
        arrays.get("predictions"),
        arrays["labels"].astype(np.float64) if "labels" in arrays else None,
        _npz_times(arrays["timestamps"], why) if "timestamps" in arrays else None,
        groups,
        names,
    )


def check_shape(name: str, array: Array, n: int, n_classes: int | None) -> None:
    """Raise ``WrongShape`` or ``LengthMismatch`` for an array that is no column of ``n`` rows."""
    width = n_classes if name == "predictions" else None
    if array.shape[1:] != (() if width is None else (width,)) or not array.ndim:
        raise WrongShape.at(f"/{name}", "must be (n,)" if width is None else f"must be (n, {width}), as the monitor's")
    if len(array) != n:
        raise LengthMismatch.at(f"/{name}", f"has {len(array)} rows, where another array has {n}")


def npz_ids(values: Array) -> Ids:
    """Ids of text or of integers, which are told by their digits. O(bytes)."""
    if not len(values):  # the width of no text is nothing that a shape could be found from
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
    """Text as UTF-8; of ASCII alone without looking at each string."""
    width = values.dtype.itemsize // _CHARACTER_BYTES
    units = values.view(np.uint32).reshape(len(values), width)
    if units.size and units.max() >= 128:
        return np.char.encode(values, "utf-8")
    return units.astype(np.uint8).view(f"S{max(1, width)}").reshape(len(values))


def _npz_times(values: Array, why: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Seconds since 1970; a row with NaN, or what is not a time, is refused: now is where no array is given."""
    if values.dtype.kind == "M":
        micro = values.astype("M8[us]")
        seconds = np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / 1e6)
    else:
        seconds = values.astype(np.float64)
    why[np.isnan(seconds) & (why == 0)] = Why.INVALID_TIME
    return seconds


def _coded(values: Array, why: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The place of each row's name among the names, -1 for an empty one."""
    names, codes = np.unique(values, return_inverse=True)
    nameless = int(len(names) > 0 and names[0] == "")
    codes, told = codes.astype(np.int64) - nameless, names[nameless:].tolist()
    refuse_long(codes, told, why)
    return codes, told


# --- Rows as the columns of an Arrow stream, whose ids are never made into objects of Python

Whys = npt.NDArray[np.uint8]

_OF_CLASS = re.compile(r"predictions?\.(0|[1-9][0-9]{0,8})")
#: What the columns of some fields hold; those of the others hold numbers.
_TYPES = {"id": "strings, binary values or integers", "group": "strings", "timestamp": "numbers or timestamps"}
#: Units of a timestamp, as so many of a second.
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def read_arrow_rows(body: Body, limits: Limits, what: What, n_classes: int | None) -> Rows:
    """Read the columns ``id``, ``prediction``, ``label``, ``timestamp`` and ``group``, or their plurals.

    ``prediction`` is a column of numbers, or of lists of K, or there are K columns ``prediction.0`` and so on. What is
    null is not given. Raises ``MalformedArrow``, ``TooLarge``, or what is wrong with a column as a whole.
    """

    def check(schema: Any) -> None:
        columns = find_columns(schema.names, what, n_classes)
        for field, places in columns.items():
            for at in places:
                _check_type(schema.types[at], field, n_classes if len(places) == 1 else None)

    def read(table: Any) -> Rows:
        limits.check_rows(table.num_rows)
        table.validate(full=True)  # what a stream says of its buffers is believed by nothing before this
        columns = find_columns(table.schema.names, what, n_classes)
        whole = {field: [_whole(table.column(at)) for at in places] for field, places in columns.items()}
        return _rows(whole, n_classes, table.num_rows)

    return read_stream(body, limits, check, read)


def find_columns(names: list[str], what: What, n_classes: int | None) -> dict[str, list[int]]:
    """The places of each field's column, of ``prediction`` as many as it has; raises ``InvalidField``."""
    found: dict[str, list[int]] = {}
    classes: dict[int, int] = {}
    known = {name: field for field in FIELDS[what] for name in (field, plural(field))}
    for at, name in enumerate(names):
        of_class = _OF_CLASS.fullmatch(name) if "prediction" in FIELDS[what] else None
        if of_class is None and name not in known:
            raise InvalidField.at("", f"column {at + 1} is none of {', '.join(FIELDS[what])}")
        field = "prediction" if of_class else known[name]
        if (int(of_class[1]) in classes) if of_class else (field in found):
            raise InvalidField.at(f"/{field}", f"stands twice, the second time in column {at + 1}")
        if of_class:
            classes[int(of_class[1])] = at
        else:
            found[field] = [at]
    if classes:
        if "prediction" in found:
            raise InvalidField.at("/prediction", "stands as one column and as one a class; send one of the two")
        if n_classes is None or sorted(classes) != list(range(n_classes)):
            raise WrongShape.at("/prediction", "must have a column for each class of the monitor")
        found["prediction"] = [classes[k] for k in range(n_classes)]
    for field in NEEDED[what]:
        if field not in found:
            raise InvalidField.at(f"/{field}", "is missing")
    return found


def _check_type(kind: Any, field: str, width: int | None) -> None:
    """Raise ``InvalidField`` for a column of a type that its field cannot have, ``WrongShape`` for one of lists."""
    types = pyarrow().types
    inner = kind.value_type if types.is_dictionary(kind) else kind
    is_text = types.is_string(inner) or types.is_large_string(inner)
    is_number = types.is_integer(inner) or types.is_floating(inner)
    if field == "prediction" and (_is_list(kind) or width is not None):
        if width is None or not _is_list(kind):
            raise WrongShape.at("/prediction", "must be numbers" if width is None else f"must be lists of {width}")
        is_number = types.is_integer(kind.value_type) or types.is_floating(kind.value_type)
    allowed = {
        "id": is_text or types.is_binary(inner) or types.is_large_binary(inner) or types.is_integer(inner),
        "group": is_text,
        "timestamp": is_number or types.is_timestamp(kind),
    }
    if not allowed.get(field, is_number):
        raise InvalidField.at(f"/{field}", f"must be a column of {_TYPES.get(field, 'numbers')}")


def _is_list(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind))


def _whole(column: Any) -> Any:
    """A column in one piece, dictionaries unified."""
    if pyarrow().types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.combine_chunks()


def _rows(columns: dict[str, list[Any]], n_classes: int | None, n: int) -> Rows:
    why = np.zeros(n, np.uint8)
    one = {field: arrays[0] for field, arrays in columns.items()}
    groups, names = _groups(one["group"], why) if "group" in one else (None, [])
    return Rows(
        why,
        np.arange(n),
        _ids(one["id"], why) if "id" in one else None,
        _predictions(columns["prediction"], n_classes, why) if "prediction" in columns else None,
        _numbers(one["label"], why, Why.NO_LABEL) if "label" in one else None,
        _arrow_times(one["timestamp"], why) if "timestamp" in one else None,
        groups,
        names,
    )


def _ids(column: Any, why: Whys) -> Ids:
    """The ids of a column; null is none, and a row with an empty one is refused."""
    ids = arrow_ids(column)
    plain = column.dictionary_decode() if pyarrow().types.is_dictionary(column.type) else column
    there = plain.is_valid().to_numpy(zero_copy_only=False)
    why[(lengths_of(ids) == 0) & there & (why == 0)] = Why.EMPTY_ID
    return ids


def arrow_ids(column: Any) -> Ids:
    """The ids of a column from its buffers; integers are told by their digits, and null is empty."""
    arrow = pyarrow()
    types = arrow.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_integer(column.type):
        column = column.cast(arrow.string())
    if column.null_count:
        column = column.fill_null(b"" if types.is_binary(column.type) or types.is_large_binary(column.type) else "")
    if not len(column):
        return Ids(b"", np.zeros(0, np.uint32))
    wide = types.is_large_string(column.type) or types.is_large_binary(column.type)
    _, offsets, text = column.buffers()
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[column.offset : column.offset + len(column) + 1]
    found = b"" if text is None else bytes(memoryview(text)[int(ends[0]) : int(ends[-1])])
    return Ids(found, (ends[1:] - ends[0]).astype(np.uint32))


def _numbers(column: Any, why: Whys, null: Why | None) -> Floats:
    """The numbers of a column, NaN where it is null; those rows are refused for the reason, if there is one."""
    if pyarrow().types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count and null is not None:
        why[column.is_null().to_numpy(zero_copy_only=False) & (why == 0)] = null
    found: Floats = column.to_numpy(zero_copy_only=False)
    return found


def _predictions(columns: list[Any], n_classes: int | None, why: Whys) -> Floats:
    if n_classes is None:
        return _numbers(columns[0], why, Why.NO_PREDICTION)
    if len(columns) > 1:
        return np.column_stack([_numbers(column, why, Why.NO_PREDICTION) for column in columns])
    return _vectors(columns[0], n_classes, why)


def _vectors(column: Any, width: int, why: Whys) -> Floats:
    """A column of lists as (n, K); a row of another length, or that holds a null, is refused."""
    lengths = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
    why[(lengths == -1) & (why == 0)] = Why.NO_PREDICTION
    why[(lengths != width) & (why == 0)] = Why.WRONG_SHAPE
    flat = column.flatten()  # without those of null rows
    numbers = _numbers(flat, why, None)
    right = lengths == width
    if not right.all():
        found = np.full((len(lengths), width), np.nan)
        found[right] = numbers[np.repeat(right, np.maximum(lengths, 0))].reshape(-1, width)
        return found
    return numbers.reshape(-1, width)


def _arrow_times(column: Any, why: Whys) -> Floats:
    """Seconds since 1970, NaN where null; a timestamp without a zone is taken for UTC, and NaN is refused."""
    if not pyarrow().types.is_timestamp(column.type):
        seconds = _numbers(column, why, None).astype(np.float64)
        there = column.is_valid().to_numpy(zero_copy_only=False)
        why[np.isnan(seconds) & there & (why == 0)] = Why.INVALID_TIME
        return seconds
    return _numbers(column.cast(pyarrow().int64()), why, None) / float(_UNITS[column.type.unit])


def _groups(column: Any, why: Whys) -> tuple[npt.NDArray[np.int64], list[str]]:
    coded = column if pyarrow().types.is_dictionary(column.type) else column.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    names = coded.dictionary.to_pylist()
    if None in names:  # a dictionary may hold the null that its codes point to
        codes = np.where(codes == names.index(None), -1, codes)
        names = [name or "" for name in names]
    refuse_long(codes, names, why)
    return codes, names
