"""Large JSON bodies, read in pieces.

Parsing a whole body would hold the GIL until the end, and create an object of about 64 bytes for each value, which may
have only three bytes of text. So a body over ``PIECE`` bytes is split at the commas of its arrays, and each piece is
parsed and converted to a compact form before the next one. A piece of a valid array is a valid array, and an array is
valid if all its pieces are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from service.errors import InvalidField, MalformedJson, TooLarge
from service.formats.json_structure import check_depth, check_keys, skeleton, skeleton_of
from service.formats.payload import Body, BodyLimits

#: Bytes that are parsed at once; smaller bodies are parsed as a whole.
PIECE = 256 * 1024
#: Maximum number of values in a body besides its rows; a calibration map has the most.
MOST_OPTIONS = 1024 * 1024
#: Maximum bytes of a single string or number; ``data_base64`` of an event is the longest useful one.
LONGEST = 16 * 1024 * 1024
#: Maximum members of an object that is read in pieces; each is parsed separately.
MOST_MEMBERS = 65_536
#: Maximum bytes of a key.
_LONGEST_KEY = 64 * 1024
#: orjson's message for nesting beyond its own limit, which is far above ours.
_TOO_DEEP = "depth limit"
#: orjson's message for a number such as 1e999.
_TOO_LARGE = "number is infinity"

_QUOTE, _COMMA, _COLON = ord('"'), ord(","), ord(":")
#: ``[`` and ``{`` differ only in this bit, and so do ``]`` and ``}``.
_OPENING, _CLOSING, _BRACE_BIT = ord("{"), ord("}"), 0x20
_SPACE = b" \t\r\n"
_KEY = re.compile(rb'[ \t\r\n]*+("(?:[^"\\]|\\.)*+")[ \t\r\n]*+:', re.DOTALL)

#: Python's names of numbers that JSON does not have, and the value that replaces them in a body.
_NAMES = re.compile(rb"-?\b(?:NaN|Infinity)\b")
_LONGEST_NAME = len(b"-Infinity")
NOT_FINITE: dict[str, Any] = {}

Text = Body | memoryview
Characters = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


def parse_json(text: Text, limits: BodyLimits, at: int = 0) -> Any:
    """Parse any JSON; raises ``MalformedJson`` with the byte offset, and ``TooLarge`` if it is nested too deeply.

    ``at`` is the offset of the text in the body.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith(_TOO_DEEP):
            raise TooLarge(f"the body is nested deeper than {limits.max_json_depth} levels") from error
        place = at + _fault(text, error)
        if error.msg.startswith(_TOO_LARGE):
            raise MalformedJson(f"the number at byte {place} is too large for double precision") from error
        raise MalformedJson(f"the body is not valid JSON at byte {place}") from error


def _fault(text: Text, error: orjson.JSONDecodeError) -> int:
    """The byte offset of the first error."""
    try:
        str(text, "utf-8")
    except UnicodeDecodeError as undecodable:  # orjson does not report the position of these
        return undecodable.start
    return len(error.doc[: error.pos].encode("utf-8", "replace"))


def may_be_infinite(text: Body) -> bool:
    """Whether a name of a number that JSON does not have occurs, perhaps in a string. O(bytes)."""
    return text.find(b"NaN") >= 0 or text.find(b"Infinity") >= 0


def finite(text: Body) -> Body:
    """Replace NaN and infinities outside strings by ``NOT_FINITE``, an empty object of the same length. O(bytes).

    JSON does not have them, but Python's ``json`` writes them; so the row of one can be refused instead of the body.
    """
    if not may_be_infinite(bytes(text) if len(text) <= PIECE else text):
        return text
    found, tail = bytearray(text), b""
    for at, characters in _blocks(text, 0, len(text)):
        piece, start = tail + characters.tobytes(), at - len(tail)
        end = 0
        for name in _NAMES.finditer(piece):
            end = name.end()
            found[start + name.start() : start + end] = b"{" + b" " * (end - name.start() - 2) + b"}"
        tail = piece[max(end, len(piece) - _LONGEST_NAME) :]  # a name may continue in the next block
    return found


def check_values(text: Text, limits: BodyLimits) -> None:
    """Raise ``TooLarge`` if there are more commas and colons outside strings than the limit. O(bytes)."""
    most, found = limits.max_json_values, 0
    if len(text) <= most:
        return
    characters = np.frombuffer(text, np.uint8)
    for start in range(0, len(text), PIECE):
        found += _separators(characters[start : start + PIECE])
        if found > most:
            break
    else:
        return
    found = 0  # now the exact count, without strings
    for _, block in _blocks(text, 0, len(text)):
        found += _separators(block)
        if found > most:
            raise TooLarge(
                f"a JSON body may have at most {most} values (commas and colons, the limit max_json_values); "
                "the binary formats NPZ, Arrow and Parquet have no such limit"
            )


def _separators(characters: Characters) -> int:
    return int(np.count_nonzero(characters == _COMMA)) + int(np.count_nonzero(characters == _COLON))


def read_document(text: Text, limits: BodyLimits) -> Any:
    """Read JSON of any size as a tree in which arrays of more than ``PIECE`` bytes are ``LongArray`` objects.

    Raises ``MalformedJson``, ``TooLarge``, and ``InvalidField`` for a duplicate key.
    """
    if len(text) > PIECE:
        return _Reader(text, limits).tree(0, len(text), 0)
    body = bytes(text)
    bones = skeleton(body, limits)
    document = parse_json(body, limits)
    check_depth(bones, limits)
    check_keys(body, bones, {"": document}, 0)
    return document


def plain(value: Any) -> Any:
    """Replace the long arrays of a tree by lists; raises ``TooLarge`` for more than ``MOST_OPTIONS`` values."""
    if isinstance(value, LongArray):
        return [plain(one) for one in value.elements()]
    if isinstance(value, dict) and any(isinstance(one, dict | LongArray) for one in value.values()):
        return {name: plain(one) for name, one in value.items()}
    return value


def check_tree(value: Any) -> None:
    """Read a whole tree; raises the error of any of its long arrays."""
    if isinstance(value, LongArray):
        for piece in value.pieces(trees=True):
            if len(piece) == 1:
                check_tree(piece[0])
    elif isinstance(value, dict):
        for one in value.values():
            check_tree(one)


@dataclass(frozen=True)
class LongArray:
    """An array between ``start`` and ``end`` of a body; parsed in pieces on each use."""

    reader: _Reader
    start: int
    end: int
    depth: int

    def pieces(self, *, trees: bool = False) -> Iterator[list[Any]]:
        """Yield the elements in lists; a large element is yielded alone, as a tree if ``trees``.

        Raises ``TooLarge`` for an element with more than ``MOST_OPTIONS`` values, not counting long arrays of a tree.
        """
        for start, end in _stretches(self.reader.text, self.start, self.end):
            if end - start > 2 * PIECE:  # a single element
                alone = _Reader(self.reader.text, self.reader.limits)
                one = alone.tree(start, end, self.depth)
                yield [one if trees else plain(one)]
            else:
                yield self._load(start, end)

    def numbers(self) -> Iterator[tuple[list[Any], bool]]:
        """Yield ``pieces``, and whether each is known to contain only numbers, which needs no further check."""
        text, start = self.reader.text, self.start
        while (end := _numbers_until(text, start, self.end)) is not None:
            yield self._filled(parse_json(b"[" + text[start:end] + b"]", self.reader.limits, start - 1), end), True
            if end == self.end:
                return
            start = end + 1
        for piece in replace(self, start=start).pieces():
            yield piece, False

    def elements(self) -> Iterator[Any]:
        """Yield the elements one by one, as trees that count towards ``MOST_OPTIONS``."""
        for start, end in _stretches(self.reader.text, self.start, self.end):
            if end - start > 2 * PIECE:
                yield self.reader.tree(start, end, self.depth)
            else:
                self.reader.spend(start, end)
                yield from self._load(start, end)

    def _load(self, start: int, end: int) -> list[Any]:
        return self._filled(self.reader.load(b"[", start, end, b"]", self.depth), end)

    @staticmethod
    def _filled(found: list[Any], end: int) -> list[Any]:
        if not found:
            raise MalformedJson(f"the body is not valid JSON at byte {end}")
        return found


class _Reader:
    """A body being read; counts its values besides the rows."""

    def __init__(self, text: Text, limits: BodyLimits) -> None:
        self.text = text
        self.limits = limits
        self._left = MOST_OPTIONS

    def tree(self, start: int, end: int, depth: int) -> Any:
        """The value of a section at a nesting depth."""
        start, end = _stripped(self.text, start, end)
        if start == end:
            raise MalformedJson(f"the body is not valid JSON at byte {end}")
        if end - start <= PIECE:
            self.spend(start, end)
            return self.load(b"", start, end, b"", depth)
        brackets = bytes((self.text[start], self.text[end - 1]))
        if brackets in (b"[]", b"{}") and depth >= self.limits.max_json_depth:
            raise TooLarge(f"the body is nested deeper than {self.limits.max_json_depth} levels")
        if brackets == b"[]":
            begin, _ = _stripped(self.text, start + 1, end - 1)
            return [] if begin == end - 1 else LongArray(self, start + 1, end - 1, depth + 1)
        if brackets == b"{}":
            return self._object(start + 1, end - 1, depth + 1)
        if end - start > LONGEST:
            raise TooLarge(f"a string or number in a JSON body may have at most {LONGEST} bytes")
        return parse_json(bytes(self.text[start:end]), self.limits, start)

    def load(self, before: bytes, start: int, end: int, after: bytes, depth: int) -> Any:
        """Parse a section with added brackets, and check its nesting and its keys."""
        piece = before + self.text[start:end] + after
        document = parse_json(piece, self.limits, start - len(before))
        bones = skeleton(piece, self.limits)
        check_depth(bones, self.limits, depth - len(before))
        check_keys(b"", bones, {"": document}, 0)
        return document

    def spend(self, start: int, end: int) -> None:
        """Count the values and brackets of a section; raises ``TooLarge`` if there are too many besides the rows."""
        characters = np.frombuffer(self.text, np.uint8, end - start, start)
        brackets = np.count_nonzero((characters | _BRACE_BIT) == _OPENING)
        self._left -= 1 + _separators(characters) + int(brackets)
        if self._left < 0:
            raise TooLarge(f"a JSON body may have at most {MOST_OPTIONS} values besides its rows")

    def _object(self, start: int, end: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for begin, stop in _members(self.text, start, end):
            if stop - begin <= PIECE:
                self.spend(begin, stop)
                entry = self.load(b"{", begin, stop, b"}", depth)
                if len(entry) != 1:
                    raise MalformedJson(f"the body is not valid JSON at byte {begin}")
                ((name, value),) = entry.items()
            else:
                name, at = self._key(begin, stop)
                value = self.tree(at, stop, depth)
            if len(found) == MOST_MEMBERS:
                raise TooLarge(f"an object in a large JSON body may have at most {MOST_MEMBERS} members")
            if name in found:
                raise InvalidField.at("/" + name[:64].replace("~", "~0").replace("/", "~1"), "occurs twice")
            found[name] = value
        return found

    def _key(self, start: int, end: int) -> tuple[str, int]:
        """The key of a member, and the offset of its value."""
        begin, _ = _stripped(self.text, start, end)
        match = _KEY.match(bytes(self.text[begin : min(end, begin + _LONGEST_KEY)]))
        if match is None:
            raise MalformedJson(
                f"the body is not valid JSON at byte {begin}, or a key has more than {_LONGEST_KEY} bytes"
            )
        key: str = parse_json(match[1], self.limits, begin)
        return key, begin + match.end()


def _numbers_until(text: Text, start: int, end: int) -> int | None:
    """The end of a run of elements that are all numbers; None if there is anything else."""
    stop = min(start + PIECE, end)
    piece = bytes(text[start:stop])
    if stop < end:
        piece = piece[: max(piece.rfind(b","), 0)]
    return None if not piece or skeleton_of(piece).strip(b"eE") else start + len(piece)


def _stretches(text: Text, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Split an array at its own commas, into several elements of at most two pieces, or one larger element."""
    for commas in _commas(text, start, end):
        if len(commas):
            first, last = int(commas[0]), int(commas[-1])
            if first - start > PIECE:
                yield start, first
                start = first + 1
            if last >= start:
                yield start, last
                start = last + 1
    yield start, end


def _members(text: Text, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Split an object into its members."""
    for commas in _commas(text, start, end):
        for comma in commas.tolist():
            yield start, comma
            start = comma + 1
    yield start, end


def _commas(text: Text, start: int, end: int) -> Iterator[Places]:
    """Yield the offsets of the commas outside strings and nested brackets, block by block."""
    depth = 0
    for at, characters in _blocks(text, start, end):
        commas = np.flatnonzero(characters == _COMMA)
        kinds = characters | _BRACE_BIT
        steps = (kinds == _OPENING).view(np.int8) - (kinds == _CLOSING).view(np.int8)
        if steps.any():
            depths = np.cumsum(steps, dtype=np.int32)
            commas = commas[depths[commas] == -depth]
            depth += int(depths[-1])
        elif depth:
            continue
        yield commas + at


def _blocks(text: Text, start: int, end: int) -> Iterator[tuple[int, Characters]]:
    """Yield the characters of a section in blocks, with the offset of each block; those in strings are 0."""
    inside = False
    while start < end:
        piece = bytes(text[start : min(start + PIECE, end)])
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # keeps a backslash and the escaped character together
            piece = bytes(text[start : min(start + PIECE + 1, end)])
        if b"\\" in piece:
            characters = np.frombuffer(piece.replace(b"\\\\", b"__").replace(b'\\"', b"__"), np.uint8)
        else:
            characters = np.frombuffer(piece, np.uint8)
        quotes = characters == _QUOTE
        if inside or quotes.any():
            within = np.logical_xor.accumulate(quotes) ^ inside
            inside = bool(within[-1])
            characters = np.where(within, np.uint8(0), characters)
        yield start, characters
        start += len(piece)


def _stripped(text: Text, start: int, end: int) -> tuple[int, int]:
    """A section without surrounding whitespace."""
    while start < end:
        piece = bytes(text[start : min(start + PIECE, end)])
        left = piece.lstrip(_SPACE)
        start += len(piece) - len(left)
        if left:
            break
    while start < end:
        piece = bytes(text[max(start, end - PIECE) : end])
        right = piece.rstrip(_SPACE)
        end -= len(piece) - len(right)
        if right:
            break
    return start, end
