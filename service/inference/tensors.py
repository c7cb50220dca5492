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


def read_tensor(given: InferenceInput, raw: memoryview, pointer: str) -> Numbers:
    """The array of an input, (n,) or (n, K).

    ``raw`` is all that follows the JSON object, which must be this input's alone. A tensor of shape [n, 1] is
    read as (n,): MLServer's codecs send arrays of one dimension in that shape.

    ``pointer`` is where the input stands. Raises what names the first place at fault; nothing is allocated for a
    shape before its elements are there.
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
        found = _from_json(given.data, given, pointer)
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


def _from_json(values: list[Any], given: InferenceInput, pointer: str) -> Numbers:
    where = f"{pointer}/data"
    width = given.shape[1] if len(given.shape) == 2 and values and isinstance(values[0], list) else None
    if width is not None:
        _check_rows(values, given.shape[0], width, where)
        values = list(chain.from_iterable(values))
    elif len(values) != math.prod(given.shape):
        raise WrongShape.at(f"{pointer}/shape", "is one that the tensor's data do not fill")
    integer = DTYPES[given.datatype].kind in "iu"
    allowed: set[type] = {int} if integer else {int, float}
    if not set(map(type, values)) <= allowed:
        raise _not_numbers(values, width, where, "an integer" if integer else "a number", allowed)
    return _typed(values, given.datatype, where).reshape(given.shape)


def _check_rows(rows: list[Any], height: int, width: int, where: str) -> None:
    """Nested data are as many rows as the shape says, each as wide as it says."""
    if len(rows) != height:
        raise WrongShape.at(where, "has another number of rows than the shape")
    if {type(row) for row in rows} != {list} or set(map(len, rows)) != {width}:
        first = next(i for i, row in enumerate(rows) if not isinstance(row, list) or len(row) != width)
        raise WrongShape.at(f"{where}/{first}", "is no row of the shape's width")


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


def _not_numbers(values: list[Any], width: int | None, where: str, what: str, allowed: set[type]) -> NotANumber:
    bad = islice((i for i, value in enumerate(values) if type(value) not in allowed), MAX_OFFENCES)
    places = [f"{where}/{i}" if width is None else f"{where}/{i // width}/{i % width}" for i in bad]
    detail = f"{where[1:]}: something else than {what}, first at {places[0]}"
    return NotANumber(detail, [Offence(place, f"is not {what}") for place in places])
