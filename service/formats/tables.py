"""Tables as bodies: Arrow and Parquet by pyarrow, their columns as numpy arrays."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from calibrant.errors import CalibrationError, NotANumber, WrongShape
from calibrant.io.arrow import check_file, check_messages
from calibrant.io.errors import DamagedFile, FileTooLarge
from service.errors import InvalidField, MalformedArrow, MalformedParquet, TooLarge
from service.formats.extra import pyarrow
from service.formats.limits import Limits
from service.formats.names import read_coded_names
from service.formats.payload import ARRAYS, Array, Arrays, Body

# --- The columns of a table: which of them are which array of a body
#
# ``predictions`` is one column of P(Y=1), in Arrow and Parquet also of lists [p_1..p_K]; or there are K columns
# ``predictions.0`` to ``predictions.K-1``, in any order. ``labels``, ``weights`` and ``groups`` are a column each.

_OF_CLASS = re.compile(r"predictions\.(0|[1-9][0-9]{0,8})")


def find_columns(names: Sequence[str], limits: Limits) -> dict[str, list[int]]:
    """The places of each array's columns, those of ``predictions.k`` in the order of k.

    Raises ``InvalidField`` for a column that is none of them, which is told by its place: a name may be a secret
    too. The same for a column that stands twice or is missing among the classes; ``TooLarge`` for too many.
    """
    limits.check_classes(len(names) - len(ARRAYS) + 1)
    single: dict[str, list[int]] = {}
    classes: dict[int, int] = {}
    for at, name in enumerate(names):
        of_class = _OF_CLASS.fullmatch(name)
        if of_class is None and name not in ARRAYS:
            raise InvalidField.at("", f"column {at + 1} is none of {', '.join(ARRAYS)} and predictions.k")
        field, k = ("predictions", int(of_class[1])) if of_class else (name, -1)
        if (k in classes) if of_class else (field in single):
            raise InvalidField.at(f"/{field}", f"stands twice, the second time in column {at + 1}")
        if of_class:
            classes[k] = at
        else:
            single[field] = [at]
    if not classes:
        return single
    if "predictions" in single:
        raise InvalidField.at("/predictions", "stands as one column and as one a class; send one of the two")
    if max(classes) != len(classes) - 1:
        missing = next(k for k in range(len(classes)) if k not in classes)
        raise InvalidField.at("/predictions", f"has no column predictions.{missing}")
    return {"predictions": [classes[k] for k in range(len(classes))], **single}


def read_columns(columns: Mapping[str, Sequence[int]], read: Callable[[int, str], Array]) -> Arrays:
    """The arrays of a table whose column at a place ``read(place, field)`` gives."""
    return {
        field: read(places[0], field) if len(places) == 1 else np.column_stack([read(at, field) for at in places])
        for field, places in columns.items()
    }


# --- Tables of pyarrow, from a stream or from Parquet, as numpy arrays; without a copy where a column is in one piece


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


# --- Arrow IPC streams: a column a field, in as many batches as the sender liked

Read = TypeVar("Read")


def read_arrow(body: Body, limits: Limits) -> Arrays:
    """Read a stream; the names of its columns are those of ``service.formats.tables``.

    Numbers may be integers or floats of any width, ``predictions`` also lists of them, ``groups`` strings, each of
    them dictionary-encoded or not. Raises ``MalformedArrow``, ``TooLarge``, or the error of the first bad column or
    row.
    """
    return read_stream(
        body, limits, lambda schema: check_schema(schema, limits), lambda table: read_table(table, limits)
    )


def read_stream(body: Body, limits: Limits, check: Callable[[Any], None], read: Callable[[Any], Read]) -> Read:
    """What ``read`` makes of the table of a stream whose schema ``check`` has let pass, before any row is read.

    Raises ``MalformedArrow``, ``TooLarge``, or what the two raise.
    """
    arrow = pyarrow()
    limits.check_bytes(len(body))
    buffer = arrow.py_buffer(body)
    try:
        check_messages(arrow, buffer, len(body), limits)
        with arrow.ipc.open_stream(buffer) as reader:
            check(reader.schema)
            return read(reader.read_all())
    except CalibrationError:
        raise
    except FileTooLarge as error:
        raise TooLarge(error.detail) from error
    except DamagedFile as error:
        raise MalformedArrow(error.detail) from error
    except (arrow.ArrowException, OSError, MemoryError, IndexError, ValueError) as error:
        raise MalformedArrow("the body is not an Arrow IPC stream, or a damaged one") from error


# --- Parquet bodies: a column a field


def read_parquet(body: Body, limits: Limits) -> Arrays:
    """Read a file; columns and types are those of ``service.formats.tables``.

    Raises ``MalformedParquet``, ``TooLarge``, or the error of the first bad column or row.
    """
    arrow = pyarrow()
    limits.check_bytes(len(body))
    try:
        # Names stay codes: a dictionary of one long name and a million codes is not written out.
        coded = ["groups"] if "groups" in check_file(memoryview(body), limits) else None
        with arrow.BufferReader(arrow.py_buffer(body)) as source:
            file = arrow.parquet.ParquetFile(source, read_dictionary=coded)
            check_schema(file.schema_arrow, limits)
            return read_table(file.read(use_threads=False), limits)
    except CalibrationError:
        raise
    except FileTooLarge as error:
        raise TooLarge(error.detail) from error
    except DamagedFile as error:
        raise MalformedParquet(error.detail) from error
    except (arrow.ArrowException, OSError, MemoryError, LookupError, ValueError) as error:
        raise MalformedParquet("the body is not a Parquet file, or a damaged one") from error


# --- A body as a file, without a copy of it


class View(io.RawIOBase):
    """The bytes of a body as the readable, seekable file that parsers want."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; one before the beginning is an error."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._view)}[whence]
        if base + offset < 0:
            raise ValueError("before the beginning")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        data = self._view[self._at : self._at + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
