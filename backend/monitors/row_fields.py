"""The fields of the rows of monitors, and how tables of Arrow have them; ids never become Python objects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from backend.monitors.rows import MAX_GROUP_BYTES, MonitorRows, What, Why, lengths_of
from backend.store.monitors.ids import Ids
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import WrongShape
from calibrant.io import arrow
from calibrant.io.arrow import bytes_to_convert, check_decoded
from calibrant.io.errors import InvalidField, needed_pyarrow
from calibrant.io.limits import Limits
from calibrant.io.strict import place_columns

#: The reason why each row is refused, 0 for none.
Whys = npt.NDArray[np.uint8]
#: Bytes of memory for a row in addition to its values.
ROW_BYTES = 64
_OF_CLASS = re.compile(r"predictions?\.(0|[1-9][0-9]{0,8})")

#: The fields that a row of each call may have.
FIELDS: Mapping[What, tuple[str, ...]] = MappingProxyType(
    {
        "rows": ("id", "prediction", "label", "timestamp", "group"),
        "predictions": ("id", "prediction", "timestamp", "group"),
        "labels": ("id", "label", "timestamp"),
    }
)
#: The fields that a body of columns must have.
NEEDED: Mapping[What, tuple[str, ...]] = MappingProxyType(
    {"rows": ("prediction", "label"), "predictions": ("id", "prediction"), "labels": ("id", "label")}
)


class PredictionColumns(Protocol):
    """What the predictions of a monitor consist of: ``backend.monitors.kinds`` has one for each kind of predictions."""

    @property
    def meaning(self) -> str: ...  # noqa: D102
    @property
    def width(self) -> int | None: ...  # noqa: D102
    @property
    def takes_booleans(self) -> bool: ...  # noqa: D102
    def renamed(self, documents: Sequence[Any], fields: Sequence[str], /) -> Sequence[Any]: ...  # noqa: D102


def plural(field: str) -> str:
    """The name of an array: the plural of its field."""
    return field + "s"


def find_columns(names: list[str], what: What, n_classes: int | None) -> dict[str, list[int]]:
    """The indices of each field's columns; ``prediction`` may have several. Raises ``InvalidField``."""
    fields = FIELDS[what]
    known = {name: field for field in fields for name in (field, plural(field))}
    families = {"prediction": _OF_CLASS} if "prediction" in fields else {}
    places, members = place_columns(names, known, families, ", ".join(fields))
    if (classes := members.get("prediction")) is not None:
        if n_classes is None or sorted(classes) != list(range(n_classes)):
            raise WrongShape.at("/prediction", "must have one column for each class of the monitor")
        places["prediction"] = [classes[k] for k in range(n_classes)]
    for field in NEEDED[what]:
        if field not in places:
            raise InvalidField.at(f"/{field}", "is missing")
    return places


def refuse_long(codes: npt.NDArray[np.int64], names: Sequence[str], why: Whys) -> None:
    """Refuse the rows of groups with too long names; ``codes (n,)`` are indices into ``names``."""
    long = np.array([len(name.encode("utf-8", "replace")) > MAX_GROUP_BYTES for name in names] + [False])
    if long.any():
        why[long[codes] & (why == 0)] = Why.INVALID_GROUP


# --- Tables of Arrow

#: The column types of some fields; all other columns contain numbers.
_TYPES = {"id": "strings, binary values or integers", "group": "strings", "timestamp": "timestamps"}
#: Timestamp units per second.
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _pyarrow() -> Any:
    return needed_pyarrow("types", "Arrow data")


def check_schema(schema: Any, what: What, columns: PredictionColumns) -> None:
    """Raise an error about a whole column of a schema: one that is missing, unknown or of the wrong type."""
    for field, places in find_columns(schema.names, what, columns.width).items():
        for at in places:
            _check_type(schema.types[at], field, columns.width if len(places) == 1 else None, columns)


def rows_of_table(table: Any, limits: Limits, what: What, columns: PredictionColumns) -> MonitorRows:
    """Read the columns ``id``, ``prediction``, ``label``, ``timestamp`` and ``group``, or their plurals.

    ``prediction`` is a column of numbers or of lists of K, or K columns named ``prediction.0`` and so on. Null means
    missing. The schema must have passed ``check_schema``. Raises the error of the limits.
    """
    limits.reserve(ROW_BYTES * table.num_rows + sum(map(bytes_to_convert, table.columns)))
    places = find_columns(table.schema.names, what, columns.width)
    columns_of_fields = {field: [table.column(at) for at in own] for field, own in places.items()}
    return _rows(columns_of_fields, columns.width, table.num_rows, limits)


def _check_type(kind: Any, field: str, width: int | None, columns: PredictionColumns) -> None:
    """Raise ``InvalidField`` for a column of the wrong type, and ``WrongShape`` for the wrong list structure."""
    types = _pyarrow().types
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


def _rows(columns: dict[str, list[Any]], n_classes: int | None, n: int, limits: Limits) -> MonitorRows:
    why = np.zeros(n, np.uint8)
    column = {field: arrays[0] for field, arrays in columns.items()}
    groups, names = _groups(column["group"], why, limits) if "group" in column else (None, [])
    ids = _ids(column["id"], why, limits) if "id" in column else None
    vectors = columns.get("prediction")
    predictions, places = (None, None) if vectors is None else _predictions(vectors, n_classes, why)
    return MonitorRows(
        why,
        np.arange(n),
        ids,
        predictions,
        _numbers(column["label"], why, Why.NO_LABEL) if "label" in column else None,
        _arrow_times(column["timestamp"]) if "timestamp" in column else None,
        groups,
        names,
        places=places,
    )


def _ids(column: Any, why: Whys, limits: Limits) -> Ids:
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
    types = _pyarrow().types
    if types.is_integer(column.type):
        column = column.cast(_pyarrow().string())
    if column.null_count:
        column = column.fill_null(b"" if types.is_binary(column.type) or types.is_large_binary(column.type) else "")
    if not len(column):
        return Ids(b"", np.zeros(0, np.uint32))
    wide = types.is_large_string(column.type) or types.is_large_binary(column.type)
    _, offsets, text = column.buffers()
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[column.offset : column.offset + len(column) + 1]
    characters = b"" if text is None else bytes(memoryview(text)[int(ends[0]) : int(ends[-1])])
    return Ids(characters, (ends[1:] - ends[0]).astype(np.uint32))


def _numbers(column: Any, why: Whys, null: Why) -> Floats:
    """The numbers of a column, NaN for null; those rows are refused with the reason ``null``."""
    nulls = arrow.null_rows(column)
    why[nulls[why[nulls] == 0]] = null
    if _pyarrow().types.is_boolean(arrow.value_type(column.type)):
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
        accepted = numbers[np.repeat(right, np.maximum(lengths, 0))].reshape(-1, width)
        return accepted, np.where(right, np.cumsum(right) - 1, -1)
    return numbers.reshape(-1, width), None


def _arrow_times(column: Any) -> Floats:
    """Seconds since 1970, NaN for null; a timestamp without a time zone is UTC."""
    plain = arrow.decoded(column)
    return arrow.number_array(plain.cast(_pyarrow().int64())) / float(_UNITS[plain.type.unit])


def _groups(column: Any, why: Whys, limits: Limits) -> tuple[Integers, list[str]]:
    codes, values = arrow.codes_of(column, limits)
    names = [name or "" for name in values]
    refuse_long(codes, names, why)
    return codes, names
