"""Tensors: as JSON numbers, and as bytes after the JSON object; little-endian, row by row, without padding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain, islice
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.batch import MAX_OFFENCES
from calibrant.errors import EmptyBatch, NotANumber, Offence, WrongShape
from schemas.inference import Datatype, InferenceInput
from service.errors import InvalidField
from service.formats.json_pieces import LongArray

Numbers = npt.NDArray[Any]

#: The protocol's datatypes as numpy's, in the byte order of the wire.
DTYPES: Mapping[Datatype, np.dtype[Any]] = MappingProxyType(
    {
        "FP64": np.dtype("<f8"),
        "FP32": np.dtype("<f4"),
        "FP16": np.dtype("<f2"),
        "INT64": np.dtype("<i8"),
        "INT32": np.dtype("<i4"),
        "INT16": np.dtype("<i2"),
        "INT8": np.dtype("<i1"),
        "UINT64": np.dtype("<u8"),
        "UINT32": np.dtype("<u4"),
        "UINT16": np.dtype("<u2"),
        "UINT8": np.dtype("<u1"),
    }
)


def read_tensor(given: InferenceInput, raw: memoryview, pointer: str, elements: LongArray | None = None) -> Numbers:
    """The array of an input, (n,) or (n, K).

    ``raw`` is all that follows the JSON object, which must be this input's alone. A tensor of shape [n, 1] is
    read as (n,): MLServer's codecs send arrays of one dimension in that shape.

    ``pointer`` is where the input stands, ``elements`` are its data if they are long. Raises what names the first
    place at fault; nothing is allocated for a shape before its elements are there.
    """
    if len(given.shape) not in (1, 2):
        raise WrongShape.at(f"{pointer}/shape", "must be [n] or [n, K]")
    if math.prod(given.shape) == 0:
        raise EmptyBatch.at(f"{pointer}/shape", "has no rows")
    size = None if given.parameters is None else given.parameters.binary_data_size
    if size is not None and given.data is not None:
        raise InvalidField.at(f"{pointer}/data", "must be absent where parameters/binary_data_size is given")
    if (size or 0) != len(raw):
        where = f"{pointer}/parameters/binary_data_size"
        raise InvalidField.at(where, "must be the number of bytes that follow the JSON object")
    if size is not None:
        found = _from_bytes(raw, given, pointer)
    elif given.data is not None:
        found = _from_json(given.data if elements is None else elements, given, pointer)
    else:
        raise InvalidField.at(f"{pointer}/data", "is missing")
    return found[:, 0] if given.shape[1:] == [1] else found


def to_bytes(values: Numbers) -> memoryview:
    """The elements of FP64 as they stand after a JSON object."""
    return np.ascontiguousarray(values, dtype=DTYPES["FP64"]).reshape(-1).view(np.uint8).data


def _from_bytes(raw: memoryview, given: InferenceInput, pointer: str) -> Numbers:
    dtype = DTYPES[given.datatype]
    if math.prod(given.shape) * dtype.itemsize != len(raw):
        raise WrongShape.at(f"{pointer}/shape", "is one that the tensor's bytes do not fill")
    array = np.frombuffer(raw, dtype).reshape(given.shape).astype(dtype.newbyteorder("="), copy=False)
    # Where a JSON object ends is any byte. numpy adds elements that are not aligned in another order.
    return np.require(array, requirements="A")


def _from_json(elements: list[Any] | LongArray, given: InferenceInput, pointer: str) -> Numbers:
    where, size = f"{pointer}/data", math.prod(given.shape)
    found: list[Numbers] = []
    read, width = 0, None  # elements so far, and how many of them a row has where they are nested
    for piece in elements.pieces() if isinstance(elements, LongArray) else [elements]:
        values = piece
        if not found and len(given.shape) == 2 and values and isinstance(values[0], list):
            width = given.shape[1]
        if width is not None:
            _check_rows(values, read // width, width, where)
            values = list(chain.from_iterable(values))
        if read + len(values) > size:
            break
        found.append(_of_numbers(values, given, read, width, where))
        read += len(values)
    else:
        if read == size:
            return np.concatenate(found).reshape(given.shape)
    if width is not None:
        raise WrongShape.at(where, "has another number of rows than the shape")
    raise WrongShape.at(f"{pointer}/shape", "is one that the tensor's data do not fill")


def _of_numbers(values: list[Any], given: InferenceInput, first: int, width: int | None, where: str) -> Numbers:
    integer = DTYPES[given.datatype].kind in "iu"
    allowed: set[type] = {int} if integer else {int, float}
    if not set(map(type, values)) <= allowed:
        raise _not_numbers(values, first, width, where, "an integer" if integer else "a number", allowed)
    return _typed(values, given.datatype, where)


def _check_rows(rows: list[Any], first: int, width: int, where: str) -> None:
    """Nested data are rows as wide as the shape says."""
    if {type(row) for row in rows} != {list} or set(map(len, rows)) != {width}:
        place = next(i for i, row in enumerate(rows, first) if not isinstance(row, list) or len(row) != width)
        raise WrongShape.at(f"{where}/{place}", "is no row of the shape's width")


def _typed(values: list[Any], datatype: Datatype, where: str) -> Numbers:
    """The numbers in the datatype that the tensor states; a number that it cannot hold is refused, not wrapped."""
    dtype = DTYPES[datatype].newbyteorder("=")
    try:
        if dtype.kind in "iu":
            return np.array(values, dtype)
        with np.errstate(over="ignore"):
            found = np.array(values, np.float64).astype(dtype, copy=False)
    except OverflowError as error:
        raise InvalidField.at(where, f"holds a number that {datatype} cannot") from error
    if not np.isfinite(found).all():
        raise InvalidField.at(where, f"holds a number that {datatype} cannot")
    return found


def _not_numbers(
    values: list[Any], first: int, width: int | None, where: str, what: str, allowed: set[type]
) -> NotANumber:
    bad = islice((i for i, value in enumerate(values, first) if type(value) not in allowed), MAX_OFFENCES)
    places = [f"{where}/{i}" if width is None else f"{where}/{i // width}/{i % width}" for i in bad]
    detail = f"{where[1:]}: something else than {what}, first at {places[0]}"
    return NotANumber(detail, [Offence(place, f"is not {what}") for place in places])
