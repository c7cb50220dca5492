"""JSON bodies: orjson to numpy, which would convert booleans and strings silently; here they are errors."""

from __future__ import annotations

from array import array
from itertools import chain
from typing import Any

import numpy as np

from calibrant.batch import MAX_OFFENCES
from calibrant.errors import NotANumber, Offence, WrongShape
from calibrant.io.strict import read_names
from service.errors import InvalidField
from service.formats.json_pieces import PIECE, LongArray, check_values, parse_json, plain, read_document
from service.formats.json_structure import check_depth, check_keys, skeleton
from service.formats.payload import ARRAYS, Array, Body, BodyLimits, Payload


def read_json(body: Body, limits: BodyLimits) -> Payload:
    """Read a body; raises ``MalformedJson`` with the byte at fault, or the error of the first bad array."""
    check_values(body, limits)
    if len(body) > PIECE:
        return _read_large(body, limits)
    bones = skeleton(body, limits)
    document = _object(parse_json(body, limits))
    check_depth(bones, limits)
    entries = len(document)
    # Without these literals there is no boolean, and converting to an array of doubles refuses everything else.
    numbers_alone = b"true" not in bones and b"false" not in bones
    sent = {name: document.pop(name) for name in ARRAYS if name in document}
    arrays = {
        name: _names(values, limits) if name == "groups" else _numbers(name, values, limits, trusted=numbers_alone)
        for name, values in sent.items()
        if values is not None
    }
    check_keys(body, bones, document, entries)
    return Payload(arrays, document, from_query=False)


def _read_large(body: Body, limits: BodyLimits) -> Payload:
    document = _object(read_document(body, limits))
    sent = {name: document.pop(name) for name in ARRAYS if name in document}
    arrays = {}
    for name, values in sent.items():
        if isinstance(values, LongArray):
            arrays[name] = _long_names(values, limits) if name == "groups" else _long_numbers(name, values, limits)
        elif values is not None:
            arrays[name] = _names(values, limits) if name == "groups" else _numbers(name, values, limits)
    return Payload(arrays, {name: plain(value) for name, value in document.items()}, from_query=False)


def _object(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise InvalidField.at("", "the body must be an object")
    return document


def _long_numbers(name: str, values: LongArray, limits: BodyLimits) -> Array:
    """Turn a long array into one of numbers, as ``_numbers`` does with one in a single piece."""
    found: list[Array] = []
    rows = 0
    for piece, plain_numbers in values.numbers():
        limits.check_rows(rows + len(piece), f"/{name}")
        array = _numbers(name, piece, limits, plain=plain_numbers, first=rows)
        if found and array.ndim > found[0].ndim:
            raise NotANumber.at(f"/{name}/{rows}", "is an array, not a number")
        if found and array.shape[1:] != found[0].shape[1:]:
            raise WrongShape.at(f"/{name}/{rows}", "has another length than the rows before it")
        found.append(array)
        rows += len(piece)
    return np.concatenate(found)


def _long_names(values: LongArray, limits: BodyLimits) -> Array:
    """Turn a long array into one of names."""
    found: list[Array] = []
    rows, longest = 0, 0
    for piece in values.pieces():
        limits.check_rows(rows + len(piece), "/groups")
        found.append(read_names(piece, limits, rows))
        rows, longest = rows + len(piece), max(longest, found[-1].itemsize)
        limits.check_bytes(rows * longest)
    return np.concatenate(found)


def _numbers(
    name: str, values: Any, limits: BodyLimits, *, trusted: bool = False, plain: bool = False, first: int = 0
) -> Array:
    """Turn a list of numbers, or of equally long lists of numbers, into an array.

    ``trusted`` says that there is no boolean among them: the one thing of JSON that an array of doubles takes
    for a number. Without it every type is looked at first. ``plain`` says that there are numbers and nothing else.
    ``first`` is the place of the first row.
    """
    pointer = f"/{name}"
    if not isinstance(values, list):
        raise WrongShape.at(pointer, "must be an array")
    limits.check_rows(len(values), pointer)
    trusted = trusted or plain
    kinds = set() if plain else set(map(type, values))
    nested = kinds == {list}
    if nested:
        _check_widths(values, pointer, limits, first)
        kinds = set() if trusted else set(map(type, chain.from_iterable(values)))
    if not trusted and not kinds <= {int, float}:
        raise _not_numbers(values, pointer, first, nested=nested)
    if not values:
        return np.array(values)
    try:
        return _small_integers(values) if name == "labels" else _doubles(values, nested=nested)
    except (TypeError, ValueError):
        if trusted:
            return _numbers(name, values, limits, first=first)  # which finds the bad value
        return np.array(values)


def _check_widths(rows: list[list[Any]], pointer: str, limits: BodyLimits, first: int) -> None:
    width = len(rows[0])
    if len(set(map(len, rows))) > 1:
        place = first + next(i for i, row in enumerate(rows) if len(row) != width)
        raise WrongShape.at(f"{pointer}/{place}", "has another length than the rows before it")
    limits.check_classes(width, pointer)


def _small_integers(values: list[Any]) -> Array:
    """Integers of one byte, as labels mostly are; ``ValueError`` or ``TypeError`` for any other."""
    return np.frombuffer(bytes(values), dtype=np.uint8)


def _doubles(values: list[Any], *, nested: bool) -> Array:
    """Numbers as doubles; ``TypeError`` for anything else but a boolean. Half the time that numpy takes."""
    if not nested:
        return np.frombuffer(array("d", values), dtype=np.float64)
    found = array("d")
    for row in values:
        found.fromlist(row)
    return np.frombuffer(found, dtype=np.float64).reshape(len(values), -1)


def _names(values: Any, limits: BodyLimits) -> Array:
    if not isinstance(values, list):
        raise WrongShape.at("/groups", "must be an array")
    limits.check_rows(len(values), "/groups")
    return read_names(values, limits)


def _not_numbers(values: list[Any], pointer: str, first: int, *, nested: bool) -> NotANumber:
    offences = []
    for i, row in enumerate(values, first):
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
