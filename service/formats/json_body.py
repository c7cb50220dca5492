"""JSON bodies: parsed by orjson and converted to numpy; booleans and strings are rejected, not converted."""

from __future__ import annotations

from array import array
from itertools import chain
from typing import Any

import numpy as np

from calibrant.batch import MAX_OFFENCES
from calibrant.errors import NotANumber, Offence, WrongShape
from calibrant.io.strict import REGRESSION, read_names
from service.errors import InvalidField
from service.formats.json_pieces import PIECE, LongArray, check_values, parse_json, plain, read_document
from service.formats.json_structure import check_depth, check_keys, skeleton
from service.formats.payload import Array, Body, BodyLimits, Payload, fields_of_kind


def read_json(body: Body, limits: BodyLimits) -> Payload:
    """Read a body; raises ``MalformedJson`` with the byte offset, or the error of the first invalid array."""
    check_values(body, limits)
    if len(body) > PIECE:
        return _read_large(body, limits)
    bones = skeleton(body, limits)
    document = _object(parse_json(body, limits))
    check_depth(bones, limits)
    entries = len(document)
    # Without these literals there is no boolean, and the conversion to doubles rejects everything else.
    numbers_alone = b"true" not in bones and b"false" not in bones
    sent = _arrays_of(document)
    arrays = {
        name: _names(name, values, limits)
        if _are_names(name, values)
        else _numbers(name, values, limits, trusted=numbers_alone)
        for name, values in sent.items()
        if values is not None
    }
    check_keys(body, bones, document, entries)
    return Payload(arrays, document, from_query=False)


def _read_large(body: Body, limits: BodyLimits) -> Payload:
    document = _object(read_document(body, limits))
    sent = _arrays_of(document)
    arrays = {}
    for name, values in sent.items():
        if isinstance(values, LongArray):
            of_names = _are_names(name, next(values.pieces()) if name == "labels" else [])
            arrays[name] = _long_names(name, values, limits) if of_names else _long_numbers(name, values, limits)
        elif values is not None:
            of_names = _are_names(name, values)
            arrays[name] = _names(name, values, limits) if of_names else _numbers(name, values, limits)
    return Payload(arrays, {name: plain(value) for name, value in document.items()}, from_query=False)


def _arrays_of(document: dict[str, Any]) -> dict[str, Any]:
    """Remove the arrays of the declared prediction kind from a document, and return them."""
    fields = fields_of_kind(document)
    names = (*fields.arrays, *(name for name in fields.shared if name != "level"))
    return {name: document.pop(name) for name in names if name in document}


def _object(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise InvalidField.at("", "the body must be an object")
    return document


def _long_numbers(name: str, values: LongArray, limits: BodyLimits) -> Array:
    """Convert a long array in pieces, like ``_numbers`` does with a short one."""
    found: list[Array] = []
    rows = 0
    for piece, plain_numbers in values.numbers():
        limits.check_rows(rows + len(piece), f"/{name}")
        array = _numbers(name, piece, limits, plain=plain_numbers, first=rows)
        if found and array.ndim > found[0].ndim:
            raise NotANumber.at(f"/{name}/{rows}", "must be a number, not an array")
        if found and array.shape[1:] != found[0].shape[1:]:
            raise WrongShape.at(f"/{name}/{rows}", "must have the same length as the rows before it")
        found.append(array)
        rows += len(piece)
    return np.concatenate(found)


def _long_names(field: str, values: LongArray, limits: BodyLimits) -> Array:
    """Convert a long array to names."""
    found: list[Array] = []
    rows = 0
    for piece in values.pieces():
        limits.check_rows(rows + len(piece), f"/{field}")
        found.append(read_names(piece, limits, rows, field))
        rows += len(piece)
    return np.concatenate(found)


def _numbers(
    name: str, values: Any, limits: BodyLimits, *, trusted: bool = False, plain: bool = False, first: int = 0
) -> Array:
    """Convert a list of numbers, or of equally long lists of numbers, to an array.

    ``trusted`` means that there is no boolean among them: the only JSON value that numpy would silently convert to a
    double. Otherwise every type is checked first. ``plain`` means that there are only numbers. ``first`` is the index
    of the first row.
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
        raise WrongShape.at(f"{pointer}/{place}", "must have the same length as the rows before it")
    limits.check_classes(width, pointer)


def _small_integers(values: list[Any]) -> Array:
    """One-byte integers, as labels usually are; raises ``ValueError`` or ``TypeError`` for anything else."""
    return np.frombuffer(bytes(values), dtype=np.uint8)


def _doubles(values: list[Any], *, nested: bool) -> Array:
    """Numbers as doubles; raises ``TypeError`` for anything else except booleans. Twice as fast as numpy."""
    if not nested:
        return np.frombuffer(array("d", values), dtype=np.float64)
    found = array("d")
    for row in values:
        found.fromlist(row)
    return np.frombuffer(found, dtype=np.float64).reshape(len(values), -1)


def _are_names(name: str, values: Any) -> bool:
    """Whether an array holds strings: the names of groups, or labels that ``class_names`` lists."""
    return name in REGRESSION.texts or (
        name == "labels" and isinstance(values, list) and bool(values) and isinstance(values[0], str)
    )


def _names(field: str, values: Any, limits: BodyLimits) -> Array:
    if not isinstance(values, list):
        raise WrongShape.at(f"/{field}", "must be an array")
    limits.check_rows(len(values), f"/{field}")
    return read_names(values, limits, field=field)


def _not_numbers(values: list[Any], pointer: str, first: int, *, nested: bool) -> NotANumber:
    offences = []
    for i, row in enumerate(values, first):
        cells = enumerate(row) if nested else [(None, row)]
        for j, value in cells:
            if type(value) not in (int, float):
                where = f"{pointer}/{i}" if j is None else f"{pointer}/{i}/{j}"
                offences.append(Offence(where, f"must be a number, not {_kind(value)}"))
        if len(offences) >= MAX_OFFENCES:
            break
    return NotANumber(
        f"{pointer[1:]}: must contain only numbers; the first other value is at {offences[0].pointer}",
        offences[:MAX_OFFENCES],
    )


def _kind(value: object) -> str:
    kinds = {bool: "a boolean", str: "a string", type(None): "null", list: "an array", dict: "an object"}
    return kinds.get(type(value), "something else")
