"""JSON bodies: parsed by orjson and converted to numpy; strings are rejected, and booleans unless they are labels."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import orjson

from calibrant.core.batch import MAX_NAME
from calibrant.core.errors import MAX_OFFENCES, NotANumber, Offence, WrongShape, token
from calibrant.io.strict import CLASSIFICATION, REGRESSION, Names, feature_array
from service.errors import InvalidField, MalformedJson, TooLarge
from service.formats.format import Array, Body, BodyLimits, Payload, fields_of_kind

#: Bytes that are parsed at once; smaller bodies are parsed as a whole.
PIECE = 256 * 1024
#: Allowed brackets besides those of the rows; each uses at least 56 bytes once parsed.
_FREE_BRACKETS = 100_000
#: Maximum number of values in a body besides its rows; a calibration map has the most.
MOST_OPTIONS = 1024 * 1024
#: Maximum bytes of a single string or number; ``data_base64`` of an event is the longest useful one.
LONGEST = 16 * 1024 * 1024
#: Maximum members of an object that is read in pieces; each is parsed separately.
MOST_MEMBERS = 65_536
#: Maximum bytes of a key.
_LONGEST_KEY = 64 * 1024
#: Bytes of a value once parsed besides the characters of strings, and of an array or object besides its values.
_VALUE_BYTES, _BRACKET_BYTES = 64, 192
#: Copies of the text of a long string or number while it is parsed.
_TEXT_COPIES = 2
#: Up to this size the duplicate key is searched for, so that the error can name it.
_NAMED_BYTES = 1024 * 1024
#: orjson's message for nesting beyond its own limit, which is far above ours.
_TOO_DEEP = "depth limit"
#: orjson's message for a number such as 1e999.
_TOO_LARGE = "number is infinity"

_QUOTE, _COMMA, _COLON, _ZERO = ord('"'), ord(","), ord(":"), ord("0")
#: ``[`` and ``{`` differ only in this bit, and so do ``]`` and ``}``.
_OPENING, _CLOSING, _BRACE_BIT = ord("{"), ord("}"), 0x20
_SPACE = b" \t\r\n"
_BRACKETS = (b"[", b"]", b"{", b"}")
_NUMBERS = b"0123456789.,-+ \t\r\n"
_CONTAINERS = frozenset((dict, list))
_KEY = re.compile(rb'[ \t\r\n]*+("(?:[^"\\]|\\.)*+")[ \t\r\n]*+:', re.DOTALL)

#: Python's names of numbers that JSON does not have, and the value that replaces them in a body.
_NAMES = re.compile(rb"-?\b(?:NaN|Infinity)\b")
_LONGEST_NAME = len(b"-Infinity")
NOT_FINITE: dict[str, Any] = {}
#: The options in the query of a JSON body.
NO_QUERY: Mapping[str, str] = MappingProxyType({})

Text = Body | memoryview
Characters = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


# --- Bodies


def read_json(body: Body, limits: BodyLimits, _query: Mapping[str, str] = NO_QUERY) -> Payload:
    """Read a body, which has all options; raises ``MalformedJson`` with the byte offset, or the error of an array."""
    check_values(body, limits)
    if len(body) > PIECE:
        return payload_of(read_document(body, limits), limits)
    bones = skeleton(body, limits)
    document = _object(parse_json(body, limits))
    check_depth(bones, limits)
    entries = len(document)
    # Without these literals there is no boolean, and the conversion to doubles rejects everything else.
    numbers_alone = b"true" not in bones and b"false" not in bones
    sent = _arrays_of(document)
    arrays = {
        name: array_of(name, values, limits, trusted=numbers_alone)
        for name, values in sent.items()
        if values is not None
    }
    below = sum(CLASSIFICATION.is_model(name) or CLASSIFICATION.is_feature(name) for name in sent)
    check_keys(body, bones, document, entries + below)
    return Payload(arrays, document, from_query=False)


def payload_of(document: Any, limits: BodyLimits) -> Payload:
    """The arrays and options of a parsed body; raises ``InvalidField``, or the error of the first invalid array."""
    document = _object(document)
    sent = _arrays_of(document)
    arrays = {name: array_of(name, values, limits) for name, values in sent.items() if values is not None}
    return Payload(arrays, {name: plain(value) for name, value in document.items()}, from_query=False)


def array_of(name: str, values: Any, limits: BodyLimits, *, first: int = 0, trusted: bool = False) -> Array:
    """Convert an array of a parsed body, whose errors call it ``name``.

    ``first`` is the index of its first row, and ``trusted`` means that there are no booleans.
    """
    if not isinstance(values, list | LongArray):
        raise WrongShape.at(f"/{name}", "must be an array")
    if CLASSIFICATION.is_feature(name):
        listed: list[Any] = []
        for piece in pieces_of(values, limits, f"/{name}"):
            limits.reserve(_VALUE_BYTES * len(piece))
            listed += piece
        return feature_array(name, listed, limits)
    start = next(values.pieces()) if name == "labels" and isinstance(values, LongArray) else values
    if name in REGRESSION.texts or (name == "labels" and isinstance(start, list) and start and type(start[0]) is str):
        names = Names(limits, name)
        for piece in pieces_of(values, limits, f"/{name}"):
            names.add(piece)
        return names.array()
    if isinstance(values, LongArray):
        return _long_numbers(name, values, limits)
    limits.check_rows(len(values), f"/{name}")
    return _numbers(name, values, limits, trusted=trusted, first=first)


class InPieces(Protocol):
    """An array that is read in pieces."""

    def pieces(self) -> Iterator[list[Any]]: ...  # noqa: D102


def pieces_of(rows: list[Any] | InPieces, limits: BodyLimits, where: str = "/rows") -> Iterator[list[Any]]:
    """Yield an array in pieces; raises ``TooLarge`` if it has more rows than allowed."""
    n_rows = 0
    for piece in [rows] if isinstance(rows, list) else rows.pieces():
        n_rows += len(piece)
        limits.check_rows(n_rows, where)
        yield piece


def _arrays_of(document: dict[str, Any]) -> dict[str, Any]:
    """Remove the arrays of the declared prediction kind from a document, and return them.

    Those in an object ``models`` or ``features`` are called as in other formats, such as ``models/forest``.
    """
    fields = fields_of_kind(document)
    names = (*fields.arrays, *(name for name in fields.shared if name != "level"))
    sent = {name: document.pop(name) for name in names if name in document}
    for prefix, is_known, what in (
        (fields.models, fields.is_model, "predictions"),
        (fields.features, fields.is_feature, "arrays"),
    ):
        members = document.pop(prefix[:-1], None) if prefix else None
        if members is not None and not isinstance(members, dict):
            raise InvalidField.at(f"/{prefix[:-1]}", f"must be an object of names and {what}")
        for name, values in (members or {}).items():
            if not is_known(field := f"{prefix}{token(name)}"):
                raise InvalidField.at(f"/{prefix[:-1]}", f"must have names of 1 to {MAX_NAME} characters")
            if values is None:
                raise WrongShape.at(f"/{field}", "must be an array")
            sent[field] = values
    return sent


def _object(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise InvalidField.at("", "must be an object")
    return document


def _long_numbers(name: str, values: LongArray, limits: BodyLimits) -> Array:
    """Convert a long array in pieces, like ``_numbers`` does with a short one."""
    arrays: list[Array] = []
    rows = 0
    for piece, plain_numbers in values.numbers(are_labels=name == "labels"):
        limits.check_rows(rows + len(piece), f"/{name}")
        if isinstance(piece, np.ndarray):
            array = piece
        else:
            are_rows = arrays[0].ndim > 1 if arrays else None
            array = _numbers(name, piece, limits, plain=plain_numbers, first=rows, are_rows=are_rows)
        limits.reserve(2 * array.nbytes)  # the pieces, and the array that they become
        if arrays and (array.dtype.kind == "b") != (arrays[0].dtype.kind == "b"):
            raise NotANumber.at(f"/{name}/{rows}", "must be of the same type as the labels before it")
        if arrays and array.ndim > arrays[0].ndim:
            raise NotANumber.at(f"/{name}/{rows}", "must be a number, not an array")
        if arrays and array.shape[1:] != arrays[0].shape[1:]:
            raise WrongShape.at(f"/{name}/{rows}", "must have the same length as the rows before it")
        arrays.append(array)
        rows += len(piece)
    return np.concatenate(arrays)


def _numbers(
    name: str,
    values: Any,
    limits: BodyLimits,
    *,
    trusted: bool = False,
    plain: bool = False,
    first: int = 0,
    are_rows: bool | None = None,
) -> Array:
    """Convert a list of numbers, or of equally long lists of numbers, to an array.

    ``trusted`` means that there is no boolean among them: the only JSON value that numpy would silently convert to a
    double. Otherwise every type is checked first. ``plain`` means that there are only numbers. ``first`` is the index
    of the first row. ``are_rows`` states whether an error expects lists; by default if most values are.
    """
    pointer, trusted = f"/{name}", trusted or plain
    kinds = set() if plain else set(map(type, values))
    nested = kinds == {list}
    if list in kinds and not nested:
        if are_rows is None:
            are_rows = 2 * sum(isinstance(value, list) for value in values) > len(values)
        raise _not_numbers(values, pointer, first, nested=are_rows)
    if nested:
        _check_widths(values, pointer, limits, first)
        kinds = set() if trusted else set(map(type, chain.from_iterable(values)))
    if kinds == {bool} and name == "labels" and not nested:
        return np.array(values)
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
    numbers = array("d")
    for row in values:
        numbers.fromlist(row)
    return np.frombuffer(numbers, dtype=np.float64).reshape(len(values), -1)


def _not_numbers(values: list[Any], pointer: str, first: int, *, nested: bool) -> NotANumber:
    """The error of values that are not all numbers, or if ``nested`` not all lists of numbers."""
    offences = list(islice(_offences(values, pointer, first, nested=nested), MAX_OFFENCES))
    content = "arrays of numbers" if nested else "numbers"
    return NotANumber(
        f"{pointer[1:]}: must contain only {content}; the first other value is at {offences[0].pointer}", offences
    )


def _offences(values: list[Any], pointer: str, first: int, *, nested: bool) -> Iterator[Offence]:
    for i, value in enumerate(values, first):
        if nested and isinstance(value, list):
            yield from _offences(value, f"{pointer}/{i}", 0, nested=False)
        elif nested:
            yield Offence(f"{pointer}/{i}", f"must be an array of numbers, not {_kind(value)}")
        elif type(value) not in (int, float):
            yield Offence(f"{pointer}/{i}", f"must be a number, not {_kind(value)}")


def _kind(value: object) -> str:
    kinds = {bool: "a boolean", str: "a string", type(None): "null", list: "an array", dict: "an object"}
    return kinds.get(type(value), "a number")


# --- Large bodies, read in pieces
#
# Parsing a whole body would hold the GIL until the end, and create an object of about 64 bytes for each value, which
# may have only three bytes of text. So a body over ``PIECE`` bytes is split at the commas of its arrays, and each piece
# is parsed and converted to a compact form before the next one. A piece of a valid array is a valid array, and an array
# is valid if all its pieces are.


_NO_NUMBER = ", which has no NaN and no infinite numbers; leave out rows without a number"
#: What programs write that is no JSON.
_NOT_JSON = {
    **dict.fromkeys((b"NaN", b"Infinity", b"-Infinity", b"nan", b"inf", b"-inf"), _NO_NUMBER),
    b"\xef\xbb\xbf": ", a byte order mark; send UTF-8 without it",
}


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
        begins = bytes(text[place - at : place - at + 9])
        why = next((reason for begin, reason in _NOT_JSON.items() if begins.startswith(begin)), "")
        raise MalformedJson(f"the body is not valid JSON at byte {place}{why}") from error


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
    replaced, tail = bytearray(text), b""
    for at, characters in _blocks(text, 0, len(text)):
        piece, start = tail + characters.tobytes(), at - len(tail)
        end = 0
        for name in _NAMES.finditer(piece):
            end = name.end()
            replaced[start + name.start() : start + end] = b"{" + b" " * (end - name.start() - 2) + b"}"
        tail = piece[max(end, len(piece) - _LONGEST_NAME) :]  # a name may continue in the next block
    return replaced


def check_values(text: Text, limits: BodyLimits) -> None:
    """Raise ``TooLarge`` if there are more commas and colons outside strings than the limit. O(bytes)."""
    most, separators = limits.max_json_values, 0
    if len(text) <= most:
        return
    characters = np.frombuffer(text, np.uint8)
    for start in range(0, len(text), PIECE):
        separators += _separators(characters[start : start + PIECE])
        if separators > most:
            break
    else:
        return
    separators = 0  # now the exact count, without strings
    for _, block in _blocks(text, 0, len(text)):
        separators += _separators(block)
        if separators > most:
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
    return _parsed(bytes(text), limits, named=text)


def _parsed(text: bytes, limits: BodyLimits, at: int = 0, depth: int = 0, named: Text = b"") -> Any:
    """Parse JSON as ``parse_json``, and check its nesting and its keys; a duplicate one in ``named`` is named."""
    bones = skeleton(text, limits)
    document = parse_json(text, limits, at)
    check_depth(bones, limits, depth)
    check_keys(named, bones, {"": document}, 0)
    return document


def plain(value: Any) -> Any:
    """Replace the long arrays of a tree by lists; raises ``TooLarge`` for more than ``MOST_OPTIONS`` values."""
    if isinstance(value, LongArray):
        return [plain(element) for element in value.elements()]
    if isinstance(value, dict) and any(isinstance(element, dict | LongArray) for element in value.values()):
        return {name: plain(element) for name, element in value.items()}
    return value


def check_tree(value: Any) -> None:
    """Read a whole tree; raises the error of any of its long arrays."""
    if isinstance(value, LongArray):
        for piece in value.pieces(trees=True):
            if len(piece) == 1:
                check_tree(piece[0])
    elif isinstance(value, dict):
        for element in value.values():
            check_tree(element)


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
                element = alone.tree(start, end, self.depth)
                yield [element if trees else plain(element)]
            else:
                yield self._load(start, end)

    def numbers(self, *, are_labels: bool) -> Iterator[tuple[list[Any] | Array, bool]]:
        """Yield ``pieces``, and whether each is known to contain only numbers, which needs no further check.

        Labels of one digit are yielded as an array.
        """
        text, start = self.reader.text, self.start
        while (end := _numbers_until(text, start, self.end)) is not None:
            run = bytes(text[start:end])
            digits = _digits(run) if are_labels else None
            if digits is None:
                yield self._filled(parse_json(b"[" + run + b"]", self.reader.limits, start - 1), end), True
            else:
                yield digits, True
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
    def _filled(elements: list[Any], end: int) -> list[Any]:
        if not elements:
            raise MalformedJson(f"the body is not valid JSON at byte {end}")
        return elements


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
        self.limits.reserve(_TEXT_COPIES * (end - start) + self._text_bytes(start, end))
        return parse_json(bytes(self.text[start:end]), self.limits, start)

    def load(self, before: bytes, start: int, end: int, after: bytes, depth: int) -> Any:
        """Parse a section with added brackets, and check its nesting and its keys."""
        piece = before + self.text[start:end] + after
        return _parsed(piece, self.limits, start - len(before), depth - len(before))

    def spend(self, start: int, end: int) -> None:
        """Count the values and brackets of a section; raises ``TooLarge`` if there are too many besides the rows."""
        characters = np.frombuffer(self.text, np.uint8, end - start, start)
        brackets = np.count_nonzero((characters | _BRACE_BIT) == _OPENING)
        values = 1 + _separators(characters)
        self._left -= values + int(brackets)
        if self._left < 0:
            raise TooLarge(f"a JSON body may have at most {MOST_OPTIONS} values besides its rows")
        self.limits.reserve(values * _VALUE_BYTES + int(brackets) * _BRACKET_BYTES + self._text_bytes(start, end))

    def _text_bytes(self, start: int, end: int) -> int:
        """The most bytes of the strings of a section: up to four per character if one is not ASCII."""
        piece = bytes(self.text[start:end])
        return len(piece) if piece.isascii() and b"\\u" not in piece else 4 * len(piece)

    def _object(self, start: int, end: int, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
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
            if len(members) == MOST_MEMBERS:
                raise TooLarge(f"an object in a large JSON body may have at most {MOST_MEMBERS} members")
            if name in members:
                raise InvalidField.at("/" + token(name[:64]), "occurs twice")
            members[name] = value
        return members

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


def _digits(text: bytes) -> Array | None:
    """Numbers of one digit, separated by commas; None for any other text. O(bytes)."""
    characters = np.frombuffer(text.translate(None, _SPACE), np.uint8)
    digits, commas = characters[::2] - _ZERO, characters[1::2]
    is_complete = len(characters) % 2 == 1 and bool((commas == _COMMA).all()) and bool((digits <= 9).all())
    return digits if is_complete else None


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
        block = characters.tobytes()
        has_brackets = any(bracket in block for bracket in _BRACKETS)
        if depth and not has_brackets:
            continue
        commas = np.flatnonzero(characters == _COMMA)
        if has_brackets:
            depths = _depths(characters)
            commas = commas[depths[commas] == -depth]
            depth += int(depths[-1])
        yield commas + at


def _blocks(text: Text, start: int, end: int) -> Iterator[tuple[int, Characters]]:
    """Yield the characters of a section in blocks, with the offset of each block; those in strings are 0."""
    inside = False
    while start < end:
        piece = bytes(text[start : min(start + PIECE, end)])
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # keeps a backslash and the escaped character together
            piece = bytes(text[start : min(start + PIECE + 1, end)])
        characters = np.frombuffer(_unescaped(piece), np.uint8)
        if inside or b'"' in piece:
            within = _inside_strings(characters) ^ inside
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


# --- The structure of a body without its numbers: nesting depth and duplicate keys
#
# orjson silently keeps the last of two equal keys. One pass removes the characters of numbers from a body, which leaves
# a few dozen bytes for a body of numbers, and counting answers both questions. It also removes such characters inside
# strings, which is harmless: quotes and backslashes remain, and the content of strings is not used.


def skeleton(body: Body, limits: BodyLimits) -> bytes:
    """A body without its numbers. O(bytes).

    Raises ``TooLarge`` for more brackets than the allowed rows can have, before anything is parsed.
    """
    if len(body) <= _FREE_BRACKETS:
        return bytes(body).translate(None, _NUMBERS)
    pieces, brackets = [], 0
    for start in range(0, len(body), PIECE):
        piece = bytes(body[start : start + PIECE].translate(None, _NUMBERS))
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


def check_keys(body: Text, bones: bytes, options: Mapping[str, Any], entries: int, where: str = "") -> None:
    """Raise ``InvalidField`` if a key occurs twice in any object of the body, or of the field ``where``.

    There are as many colons outside strings as keys. ``entries`` counts the keys of the outermost object; all nested
    objects are in ``options``.
    """
    if b":" not in bones:
        return
    n_keys = entries + _entries(list(options.values()))
    if has_keys(bones, n_keys):
        return
    pointer = where or (_named_twice(body) if len(body) <= _NAMED_BYTES else "")
    raise InvalidField.at(pointer, "contains a duplicate key")


def has_keys(bones: bytes, n_keys: int) -> bool:
    """Whether all objects of a body together have this many keys."""
    return bones.count(b":") == n_keys or int(np.count_nonzero(_outside_strings(bones) == _COLON)) == n_keys


def _entries(values: list[Any]) -> int:
    """The number of entries of all objects in these values."""
    n_entries = 0
    while values:
        value = values.pop()
        if isinstance(value, dict):
            n_entries += len(value)
            value = list(value.values())
        if isinstance(value, list) and not _CONTAINERS.isdisjoint(map(type, value)):
            values.extend(element for element in value if type(element) in _CONTAINERS)
    return n_entries


def _unescaped(text: bytes) -> bytes:
    """The text with escaped quotes and backslashes replaced, so that every quote delimits a string."""
    return text if b"\\" not in text else text.replace(b"\\\\", b"__").replace(b'\\"', b"__")


def _outside_strings(text: bytes) -> Characters:
    """The characters outside strings, and closing quotes."""
    characters = np.frombuffer(_unescaped(text), dtype=np.uint8)
    return characters[~_inside_strings(characters)]


def _inside_strings(characters: Characters) -> npt.NDArray[np.bool_]:
    """Whether each character follows an odd number of quotes."""
    return np.logical_xor.accumulate(characters == _QUOTE)


def _depths(characters: Characters) -> npt.NDArray[np.int32]:
    """The number of open arrays and objects after each character; the characters are outside strings."""
    kinds = characters | _BRACE_BIT
    steps = (kinds == _OPENING).view(np.int8) - (kinds == _CLOSING).view(np.int8)
    return np.cumsum(steps, dtype=np.int32)


class _ObjectMembers(list[tuple[str, Any]]):
    """The members of an object, of which several may have the same name."""


def _named_twice(body: Text) -> str:
    """The pointer of the first duplicate key of a body; empty if there is none."""
    return _duplicate_in(json.loads(bytes(body), object_pairs_hook=_ObjectMembers), "") if body else ""


def _duplicate_in(value: Any, where: str) -> str:
    """The pointer of the first duplicate key of a value at the place ``where``; empty if there is none."""
    names: set[str] = set()
    members = value if isinstance(value, _ObjectMembers) else []
    for name, inner in members:
        pointer = f"{where}/{token(name[:64])}"
        if name in names or (pointer := _duplicate_in(inner, pointer)):
            return pointer
        names.add(name)
    elements = value if isinstance(value, list) and not isinstance(value, _ObjectMembers) else []
    return next(filter(None, (_duplicate_in(element, f"{where}/{i}") for i, element in enumerate(elements))), "")
