"""JSON bodies: orjson to numpy, with what numpy would quietly convert refused."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from calibrant.batch import MAX_OFFENCES
from calibrant.errors import InvalidOption, NotANumber, Offence, WrongShape
from calibrant.evaluation import MAX_NAME
from service.errors import InvalidField, MalformedJson
from service.formats.payload import ARRAYS, Payload


def read_json(body: bytes) -> Payload:
    """Read a body; raises ``MalformedJson`` with the byte at fault, or the error of the first bad array."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        at = len(error.doc[: error.pos].encode("utf-8", "replace"))
        raise MalformedJson(f"the body is not JSON from byte {at} on") from error
    if not isinstance(document, dict):
        raise InvalidField.at("", "the body must be an object")
    arrays = {
        name: _names(document[name]) if name == "groups" else _numbers(document[name], f"/{name}")
        for name in ARRAYS
        if document.get(name) is not None
    }
    return Payload(arrays, {name: value for name, value in document.items() if name not in ARRAYS}, from_query=False)


def _numbers(values: Any, pointer: str) -> npt.NDArray[Any]:
    """Turn a list of numbers, or of equally long lists of numbers, into an array.

    numpy alone would take true for 1, null for NaN and "0.5" for a half.
    """
    if not isinstance(values, list):
        raise WrongShape.at(pointer, "must be an array")
    nested = bool(values) and all(isinstance(row, list) for row in values)
    if nested and len({len(row) for row in values}) > 1:
        width = len(values[0])
        first = next(i for i, row in enumerate(values) if len(row) != width)
        raise WrongShape.at(f"{pointer}/{first}", "has another length than the rows before it")
    flat: Iterable[object] = chain.from_iterable(values) if nested else values
    if not set(map(type, flat)) <= {int, float}:
        raise _not_numbers(values, pointer, nested=nested)
    try:
        return np.array(values)
    except (OverflowError, ValueError) as error:
        raise NotANumber.at(pointer, "must hold numbers that fit a double") from error


def _names(values: Any) -> npt.NDArray[Any]:
    if not isinstance(values, list):
        raise WrongShape.at("/groups", "must be an array")
    for i, name in enumerate(values):
        if not isinstance(name, str):
            raise NotANumber.at(f"/groups/{i}", "must be a string")
        # An array of strings is as wide as its longest, and drops NULs at an end.
        if len(name) > MAX_NAME or "\0" in name:
            raise InvalidOption.at(f"/groups/{i}", f"must have at most {MAX_NAME} characters, none of them NUL")
    return np.array(values, dtype=np.str_)


def _not_numbers(values: list[Any], pointer: str, *, nested: bool) -> NotANumber:
    offences = []
    for i, row in enumerate(values):
        cells = enumerate(row) if nested else [(None, row)]
        for j, value in cells:
            if type(value) not in (int, float):
                where = f"{pointer}/{i}" if j is None else f"{pointer}/{i}/{j}"
                offences.append(Offence(where, f"is {_kind(value)}, not a number"))
        if len(offences) >= MAX_OFFENCES:
            break
    return NotANumber(
        f"{pointer[1:]}: something else than a number, first at {offences[0].pointer}", offences[:MAX_OFFENCES]
    )


def _kind(value: object) -> str:
    kinds = {bool: "a boolean", str: "a string", type(None): "null", list: "an array", dict: "an object"}
    return kinds.get(type(value), "something else")
