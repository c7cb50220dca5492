"""Rows as the columns of an Arrow stream, whose ids are never made into objects of Python."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats
from calibrant.errors import WrongShape
from monitoring.taking.reasons import Why
from monitoring.taking.rows import Rows, lengths_of
from monitoring.taking.screening import What
from service.errors import InvalidField
from service.formats.arrow_body import read_stream
from service.formats.extra import pyarrow
from service.formats.limits import Limits
from service.formats.payload import Body
from service.monitor_bodies.documents import refuse_long
from service.monitor_bodies.fields import FIELDS, NEEDED, plural
from storage.monitors.strings import Ids

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
        _times(one["timestamp"], why) if "timestamp" in one else None,
        groups,
        names,
    )


def _ids(column: Any, why: Whys) -> Ids:
    """The ids of a column; null is none, and a row with an empty one is refused."""
    ids = ids_of(column)
    plain = column.dictionary_decode() if pyarrow().types.is_dictionary(column.type) else column
    there = plain.is_valid().to_numpy(zero_copy_only=False)
    why[(lengths_of(ids) == 0) & there & (why == 0)] = Why.EMPTY_ID
    return ids


def ids_of(column: Any) -> Ids:
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


def _times(column: Any, why: Whys) -> Floats:
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
