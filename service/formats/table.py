"""Tables of pyarrow, from a stream or from Parquet, as numpy arrays; without a copy where a column is in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.errors import NotANumber, WrongShape
from service.formats.columns import find_columns, read_columns
from service.formats.extra import pyarrow
from service.formats.limits import Limits
from service.formats.names import read_coded_names
from service.formats.payload import Array, Arrays


def check_schema(schema: Any, limits: Limits) -> None:
    """Raise the error of the first column whose name or type no field has, before any of it is read."""
    for field, places in find_columns(schema.names, limits).items():
        for at in places:
            _check_type(schema.types[at], field, alone=len(places) == 1)


def read_table(table: Any, limits: Limits) -> Arrays:
    """The arrays of a pyarrow Table whose schema has been checked; raises the error of the first bad row."""
    limits.check_rows(table.num_rows)
    # What a stream says of its buffers is believed by nothing before this.
    table.validate(full=True)
    columns = find_columns(table.schema.names, limits)
    return read_columns(columns, lambda at, field: _read_column(table.column(at), field, limits))


def _check_type(kind: Any, field: str, *, alone: bool) -> None:
    types = pyarrow().types
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if field == "groups":
        if not (types.is_string(inner) or types.is_large_string(inner)):
            raise NotANumber.at("/groups", "must be a column of strings")
        return
    if field == "predictions" and alone and _is_list(kind):
        inner = kind.value_type
        if types.is_fixed_size_list(kind) and kind.list_size < 1:
            raise WrongShape.at("/predictions", "must hold at least one number a row")
    if types.is_boolean(inner):
        raise NotANumber.at(f"/{field}", "holds booleans, not numbers")
    if not (types.is_integer(inner) or types.is_floating(inner)):
        raise NotANumber.at(f"/{field}", "must be a column of numbers")


def _is_list(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind))


def _read_column(column: Any, field: str, limits: Limits) -> Array:
    _refuse_null(column, f"/{field}")
    if field == "groups":
        return _names(column, limits)
    if _is_list(column.type):
        return _vectors(column.combine_chunks(), limits)
    return _numbers(column)


def _refuse_null(column: Any, pointer: str, width: int | None = None) -> None:
    """Raise ``NotANumber`` for the first null; of numbers in rows of ``width``, where a column of lists holds them."""
    # A dictionary may hold the null that its codes point to.
    plain = column.dictionary_decode() if column.num_chunks and _is_coded_null(column) else column
    if plain.null_count:
        place = int(np.flatnonzero(plain.is_null().to_numpy())[0])
        where = f"/{place}" if width is None else f"/{place // width}/{place % width}"
        raise NotANumber.at(pointer + where, "is null")


def _is_coded_null(column: Any) -> bool:
    if not pyarrow().types.is_dictionary(column.type):
        return False
    return any(chunk.dictionary.null_count for chunk in column.chunks)


def _numbers(column: Any) -> Array:
    plain = column.combine_chunks()
    if pyarrow().types.is_dictionary(plain.type):
        plain = plain.dictionary_decode()
    found: Array = plain.to_numpy(zero_copy_only=False)
    return found


def _vectors(rows: Any, limits: Limits) -> Array:
    """A column of lists as (n, K); every list must have as many numbers as the first."""
    lengths = rows.value_lengths().to_numpy(zero_copy_only=False)
    width = int(lengths[0]) if len(lengths) else 0
    limits.check_classes(width)
    if np.any(lengths != width):
        row = int(np.flatnonzero(lengths != width)[0])
        raise WrongShape.at(f"/predictions/{row}", "has another length than the rows before it")
    flat = pyarrow().chunked_array([rows.flatten()])
    _refuse_null(flat, "/predictions", width)
    return _numbers(flat).reshape(len(rows), width)


def _names(column: Any, limits: Limits) -> Array:
    coded = column if pyarrow().types.is_dictionary(column.type) else column.dictionary_encode()
    whole = coded.unify_dictionaries().combine_chunks()
    codes = whole.indices.to_numpy(zero_copy_only=False)
    return read_coded_names(whole.dictionary.to_pylist(), codes, limits)
