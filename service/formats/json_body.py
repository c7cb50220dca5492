"""JSON bodies: orjson to numpy, with what numpy would quietly convert refused."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import orjson

from calibrant.batch import MAX_OFFENCES
from calibrant.errors import NotANumber, Offence, WrongShape
from service.errors import InvalidField, MalformedJson, TooLarge
from service.formats.json_structure import check_depth, check_keys, skeleton
from service.formats.limits import Limits
from service.formats.names import read_names
from service.formats.payload import ARRAYS, Array, Body, Payload

#: How orjson calls what nests deeper than it can follow, which is far over any limit of ours.
_TOO_DEEP = "depth limit"


def read_json(body: Body, limits: Limits) -> Payload:
    """Read a body; raises ``MalformedJson`` with the byte at fault, or the error of the first bad array."""
    bones = skeleton(body, limits)
    document = parse_json(body, limits)
    if not isinstance(document, dict):
        raise InvalidField.at("", "the body must be an object")
    check_depth(bones, limits)
    entries = len(document)
    # Without these words there is no boolean, and converting to an array of doubles refuses everything else.
    numbers_alone = b"true" not in bones and b"false" not in bones
    sent = {name: document.pop(name) for name in ARRAYS if name in document}
    arrays = {
        name: _names(values, limits) if name == "groups" else _numbers(name, values, limits, trusted=numbers_alone)
        for name, values in sent.items()
        if values is not None
    }
    check_keys(body, bones, document, entries)
    return Payload(arrays, document, from_query=False)


def parse_json(body: Body, limits: Limits) -> Any:
    """Any JSON; raises ``MalformedJson`` with the byte at fault, ``TooLarge`` for what nests too deep to parse."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith(_TOO_DEEP):
            raise TooLarge(f"the body nests deeper than {limits.max_json_depth}") from error
        at = len(error.doc[: error.pos].encode("utf-8", "replace"))
        raise MalformedJson(f"the body is not JSON from byte {at} on") from error


def _numbers(name: str, values: Any, limits: Limits, *, trusted: bool) -> Array:
    """Turn a list of numbers, or of equally long lists of numbers, into an array.

    ``trusted`` says that there is no boolean among them: the one thing of JSON that an array of doubles takes
    for a number. Without it every type is looked at first.
    """
    pointer = f"/{name}"
    if not isinstance(values, list):
        raise WrongShape.at(pointer, "must be an array")
    limits.check_rows(len(values), pointer)
    nested = bool(values) and all(isinstance(row, list) for row in values)
    if nested:
        _check_widths(values, pointer, limits)
    if trusted and values:
        try:
            return _small_integers(values) if name == "labels" else _doubles(values, nested=nested)
        except (TypeError, ValueError):
            pass  # what is wrong is told below
    flat: Iterable[object] = chain.from_iterable(values) if nested else values
    if not set(map(type, flat)) <= {int, float}:
        raise _not_numbers(values, pointer, nested=nested)
    return np.array(values)


def _check_widths(rows: list[list[Any]], pointer: str, limits: Limits) -> None:
    width = len(rows[0])
    if len(set(map(len, rows))) > 1:
        first = next(i for i, row in enumerate(rows) if len(row) != width)
        raise WrongShape.at(f"{pointer}/{first}", "has another length than the rows before it")
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


def _names(values: Any, limits: Limits) -> Array:
    if not isinstance(values, list):
        raise WrongShape.at("/groups", "must be an array")
    limits.check_rows(len(values), "/groups")
    return read_names(values, limits)


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
