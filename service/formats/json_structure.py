"""The structure of a JSON body, seen without its numbers: how deep it nests, and whether a key occurs twice.

orjson silently keeps the last of two equal keys. Here the body is stripped of the characters of numbers, in
one pass; of a body of numbers that leaves some dozen bytes, of which everything is found by counting. The bytes
between quotes that go too change nothing: quotes and backslashes stay, and what they enclose is never looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from service.errors import InvalidField, TooLarge
from service.formats.payload import Body, BodyLimits

_NUMBERS = b"0123456789.,-+ \t\r\n"
_QUOTE, _COLON, _OPENING, _CLOSING = ord('"'), ord(":"), b"[{", b"]}"
_CONTAINERS = frozenset((dict, list))
#: Brackets beside those of the rows; each costs 56 bytes or more once it is parsed.
_FREE_BRACKETS = 100_000
#: Bytes that are looked through at once, so that other threads need not wait for all of them.
_PIECE = 1024 * 1024
#: Up to this size the duplicate key is searched for, so that the answer can name it.
_NAMED_BYTES = 1024 * 1024


def skeleton(body: Body, limits: BodyLimits) -> bytes:
    """A body without its numbers. O(bytes).

    Raises ``TooLarge`` for more brackets than the rows that are allowed can have, before any is parsed.
    """
    if len(body) <= _FREE_BRACKETS:
        return bytes(body).translate(None, _NUMBERS)
    pieces, brackets = [], 0
    for start in range(0, len(body), _PIECE):
        piece = bytes(body[start : start + _PIECE].translate(None, _NUMBERS))
        brackets += piece.count(b"[") + piece.count(b"{")
        if brackets > limits.max_rows + _FREE_BRACKETS:
            raise TooLarge(f"the body may have at most {limits.max_rows} rows")
        pieces.append(piece)
    return b"".join(pieces)


def skeleton_of(text: bytes) -> bytes:
    """A short text without its numbers."""
    return text.translate(None, _NUMBERS)


def check_depth(bones: bytes, limits: BodyLimits, depth: int = 0) -> None:
    """Raise ``TooLarge`` for JSON that nests deeper than the limit; ``bones`` are those of valid JSON.

    ``depth`` is how deep the JSON itself is nested in the body.
    """
    if depth + bones.count(b"[") + bones.count(b"{") <= limits.max_json_depth:
        return
    if depth + int(_depths(_outside_strings(bones)).max()) > limits.max_json_depth:
        raise TooLarge(f"the body nests deeper than {limits.max_json_depth}")


def check_keys(body: Body, bones: bytes, options: Mapping[str, Any], entries: int, where: str = "") -> None:
    """Raise ``InvalidField`` if a key occurs twice in any object of the body, or of a field ``where``.

    There are as many colons outside strings as keys. ``entries`` are those of the parsed body's outermost object;
    those of the objects within it are all in ``options``.
    """
    if b":" not in bones:
        return
    kept = entries + _entries(list(options.values()))
    if has_keys(bones, kept):
        return
    pointer = where or (_named_twice(body) if len(body) <= _NAMED_BYTES else "")
    raise InvalidField.at(pointer, "holds a key that stands twice")


def has_keys(bones: bytes, kept: int) -> bool:
    """Whether a body has so many keys in all of its objects together."""
    return bones.count(b":") == kept or int(np.count_nonzero(_outside_strings(bones) == _COLON)) == kept


def _entries(values: list[Any]) -> int:
    """How many entries all objects in these values have together."""
    found = 0
    while values:
        value = values.pop()
        if isinstance(value, dict):
            found += len(value)
            value = list(value.values())
        if isinstance(value, list) and not _CONTAINERS.isdisjoint(map(type, value)):
            values.extend(one for one in value if type(one) in _CONTAINERS)
    return found


def _unescaped(text: bytes) -> bytes:
    """The text with every escaped quote and backslash made two other characters, so that quotes only enclose."""
    return text if b"\\" not in text else text.replace(b"\\\\", b"__").replace(b'\\"', b"__")


def _outside_strings(text: bytes) -> npt.NDArray[np.uint8]:
    """The characters outside strings, and the quotes that end them."""
    characters = np.frombuffer(_unescaped(text), dtype=np.uint8)
    return characters[~_inside_strings(characters)]


def _inside_strings(characters: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Whether an odd number of quotes has been met."""
    inside: npt.NDArray[np.bool_] = np.logical_xor.accumulate(characters == _QUOTE)
    return inside


def _depths(characters: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    """How many arrays and objects are open after each character. None is inside a string."""
    steps = np.zeros(len(characters), dtype=np.int8)
    steps[(characters == _OPENING[0]) | (characters == _OPENING[1])] = 1
    steps[(characters == _CLOSING[0]) | (characters == _CLOSING[1])] = -1
    depths: npt.NDArray[np.int32] = np.cumsum(steps, dtype=np.int32)
    return depths


def _named_twice(body: Body) -> str:
    """The pointer of a duplicate key of the outermost object; that of the body for one further inside."""
    text = _unescaped(bytes(body))
    characters = np.frombuffer(text, dtype=np.uint8)
    outside = np.where(_inside_strings(characters), 0, characters).astype(np.uint8)
    met: set[str] = set()
    for colon in np.flatnonzero((outside == _COLON) & (_depths(outside) == 1)).tolist():
        end = text.rindex(b'"', 0, colon)
        key: str = orjson.loads(bytes(body[text.rindex(b'"', 0, end) : end + 1]))
        if key in met:
            return "/" + key[:64].replace("~", "~0").replace("/", "~1")
        met.add(key)
    return ""
