"""The structure of a JSON body without its numbers: nesting depth and duplicate keys.

orjson silently keeps the last of two equal keys. This module removes the characters of numbers from the body in one
pass, which leaves a few dozen bytes for a body of numbers, and answers both questions by counting. It also removes
such characters inside strings, which is harmless: quotes and backslashes remain, and the content of strings is not
used.
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
#: Allowed brackets besides those of the rows; each uses at least 56 bytes once parsed.
_FREE_BRACKETS = 100_000
#: Bytes processed at once, so that other threads can run in between.
_PIECE = 1024 * 1024
#: Up to this size the duplicate key is searched for, so that the error can name it.
_NAMED_BYTES = 1024 * 1024


def skeleton(body: Body, limits: BodyLimits) -> bytes:
    """A body without its numbers. O(bytes).

    Raises ``TooLarge`` for more brackets than the allowed rows can have, before anything is parsed.
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
    """Raise ``TooLarge`` if JSON is nested deeper than the limit; ``bones`` must come from valid JSON.

    ``depth`` is the nesting depth of the JSON itself in the body.
    """
    if depth + bones.count(b"[") + bones.count(b"{") <= limits.max_json_depth:
        return
    if depth + int(_depths(_outside_strings(bones)).max()) > limits.max_json_depth:
        raise TooLarge(f"the body is nested deeper than {limits.max_json_depth} levels")


def check_keys(body: Body, bones: bytes, options: Mapping[str, Any], entries: int, where: str = "") -> None:
    """Raise ``InvalidField`` if a key occurs twice in any object of the body, or of the field ``where``.

    There are as many colons outside strings as keys. ``entries`` counts the keys of the outermost object; all nested
    objects are in ``options``.
    """
    if b":" not in bones:
        return
    kept = entries + _entries(list(options.values()))
    if has_keys(bones, kept):
        return
    pointer = where or (_named_twice(body) if len(body) <= _NAMED_BYTES else "")
    raise InvalidField.at(pointer, "contains a duplicate key")


def has_keys(bones: bytes, kept: int) -> bool:
    """Whether all objects of a body together have this many keys."""
    return bones.count(b":") == kept or int(np.count_nonzero(_outside_strings(bones) == _COLON)) == kept


def _entries(values: list[Any]) -> int:
    """The number of entries of all objects in these values."""
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
    """The text with escaped quotes and backslashes replaced, so that every quote delimits a string."""
    return text if b"\\" not in text else text.replace(b"\\\\", b"__").replace(b'\\"', b"__")


def _outside_strings(text: bytes) -> npt.NDArray[np.uint8]:
    """The characters outside strings, and closing quotes."""
    characters = np.frombuffer(_unescaped(text), dtype=np.uint8)
    return characters[~_inside_strings(characters)]


def _inside_strings(characters: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Whether each character follows an odd number of quotes."""
    inside: npt.NDArray[np.bool_] = np.logical_xor.accumulate(characters == _QUOTE)
    return inside


def _depths(characters: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    """The number of open arrays and objects after each character; the characters are outside strings."""
    steps = np.zeros(len(characters), dtype=np.int8)
    steps[(characters == _OPENING[0]) | (characters == _OPENING[1])] = 1
    steps[(characters == _CLOSING[0]) | (characters == _CLOSING[1])] = -1
    depths: npt.NDArray[np.int32] = np.cumsum(steps, dtype=np.int32)
    return depths


def _named_twice(body: Body) -> str:
    """The pointer of a duplicate key of the outermost object; empty for a key of a nested object."""
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
