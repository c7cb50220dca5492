"""Base class of responses: frozen dataclasses, decoded from JSON by their type hints."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Self, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_Decoder: TypeAlias = Callable[[Any], Any]

_SCALARS: Mapping[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    type(None): "null",
}


class WireAnswer:
    """Base class of all responses."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the response as a JSON object of new dicts and lists, with all fields.

        >>> from calibrant.client.answers import Progress
        >>> Progress(done=3, total=10, stage="fold 3").to_dict()
        {'done': 3, 'total': 10, 'stage': 'fold 3'}
        """
        kind: Any = type(self)
        values = {name: getattr(self, name) for name in _fields(kind)}
        return {name: value if type(value) in _SCALARS else to_json(value) for name, value in values.items()}


class Mismatch(ValueError):
    """A JSON document without the expected type; the message names the place but never contains the data."""

    def __init__(self, reason: str, *pointer: str) -> None:
        super().__init__(reason)
        self._reason = reason
        self._pointer = pointer

    def __str__(self) -> str:
        return f"{''.join(f'/{part}' for part in self._pointer) or 'the document'} {self._reason}"

    def within(self, part: str) -> Self:
        """Prepend a part to the pointer."""
        self._pointer = (part, *self._pointer)
        return self


def decode(kind: type[T], value: Any) -> T:
    """Decode parsed JSON as ``kind``: a response class, or a list or dict of one.

    Unknown fields are ignored, and a ``Literal`` accepts every value of its type, so that a client can read responses
    of a newer server. Raises ``Mismatch`` if a required field is missing or a value has another type.

    >>> from calibrant.client.answers import Progress
    >>> decode(list[Progress], [{"done": 3, "total": 10, "added_later": 1}])
    [Progress(done=3, total=10, stage='')]
    >>> decode(Progress, {"done": "3"})
    Traceback (most recent call last):
    calibrant.client.answers.document.Mismatch: /done must be an integer
    """
    hint: Any = kind
    decoded: T = _decoder(hint)(value)
    return decoded


def to_json(value: Any) -> Any:
    """Convert the value of a field to JSON: responses to dicts, tuples to lists; containers are copied."""
    if isinstance(value, WireAnswer):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


@cache
def _fields(kind: Any) -> Mapping[str, bool]:
    """Return the names of the fields of a response class, and whether each is required."""
    missing = dataclasses.MISSING
    return {
        field.name: field.default is missing and field.default_factory is missing for field in dataclasses.fields(kind)
    }


@cache
def _decoder(hint: Any) -> _Decoder:
    """The decoder of a type hint, compiled once."""
    members = _members(hint)
    if Any in members:
        return _unchanged
    scalars = _scalars(hint)
    widens = float in scalars and int not in scalars
    arrays = [member for member in members if get_origin(member) in (list, tuple)]
    objects = [member for member in members if get_origin(member) is dict or _is_document(member)]
    containers: dict[type, _Decoder] = {}
    if arrays:
        containers[list] = _first_of([_array_of(array) for array in arrays])
    if objects:
        containers[dict] = _object_of(objects)
    if not scalars and not containers:
        raise TypeError(f"an answer cannot have a field of type {hint}")
    expected = [_SCALARS[scalar] for scalar in _SCALARS if scalar in scalars]
    expected += ["an array"] * bool(arrays) + ["an object"] * bool(objects)
    reason = f"must be {' or '.join(expected)}"

    def decoded(value: Any) -> Any:
        kind = type(value)
        if kind in scalars:
            return value
        if kind in containers:
            return containers[kind](value)
        if widens and kind is int:
            return float(value)
        raise Mismatch(reason)

    return decoded


def _unchanged(value: Any) -> Any:
    return value


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _scalars(hint: Any) -> frozenset[type]:
    """Return the scalar types that a type hint accepts."""
    types: set[type] = set()
    for member in _members(hint):
        if get_origin(member) is Literal:
            types |= {type(value) for value in get_args(member)}
        elif member in _SCALARS:
            types.add(member)
    return frozenset(types)


def _is_document(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, WireAnswer)


def _array_of(hint: Any) -> _Decoder:
    if get_origin(hint) is tuple:
        return _tuple_of([_decoder(item) for item in get_args(hint)])
    item = _decoder(get_args(hint)[0])

    def decoded(value: list[Any]) -> list[Any]:
        try:
            return [item(element) for element in value]
        except Mismatch:
            return _decoded_each([item] * len(value), value)  # raises it again, with the index

    return decoded


def _tuple_of(items: Sequence[_Decoder]) -> _Decoder:
    def decoded(value: list[Any]) -> tuple[Any, ...]:
        if len(value) != len(items):
            raise Mismatch(f"must be an array of {len(items)}")
        return tuple(_decoded_each(items, value))

    return decoded


def _decoded_each(decoders: Iterable[_Decoder], value: list[Any]) -> list[Any]:
    decoded = []
    for i, (item, element) in enumerate(zip(decoders, value, strict=True)):
        try:
            decoded.append(item(element))
        except Mismatch as error:
            raise error.within(str(i)) from None
    return decoded


def _first_of(decoders: Sequence[_Decoder]) -> _Decoder:
    """Return a decoder that uses the first of ``decoders`` that accepts the array; errors are those of the last."""
    *earlier, last = decoders
    if not earlier:
        return last

    def decoded(value: list[Any]) -> Any:
        for decoder in earlier:
            try:
                return decoder(value)
            except Mismatch:
                continue
        return last(value)

    return decoded


def _object_of(hints: Sequence[Any]) -> _Decoder:
    if len(hints) > 1:
        return _best_of(hints)
    return _document_of(hints[0]) if _is_document(hints[0]) else _dict_of(hints[0])


def _dict_of(hint: Any) -> _Decoder:
    item = _decoder(get_args(hint)[1])

    def decoded(value: dict[str, Any]) -> dict[str, Any]:
        try:
            return {key: item(element) for key, element in value.items()}
        except Mismatch as error:
            raise error.within("*") from None  # a key may be the caller's data, such as the name of a group

    return decoded


def _document_of(kind: Any) -> _Decoder:
    hints = get_type_hints(kind)
    fields = [
        (name, _scalars(hints[name]), _decoder(hints[name]), required) for name, required in _fields(kind).items()
    ]

    def decoded(value: dict[str, Any]) -> Any:
        values = {}
        for name, scalars, field, required in fields:
            if name in value:
                content = value[name]
                try:
                    values[name] = content if type(content) in scalars else field(content)
                except Mismatch as error:
                    raise error.within(name) from None
            elif required:
                raise Mismatch("is missing", name)
        return kind(**values)

    return decoded


def _best_of(kinds: Sequence[Any]) -> _Decoder:
    """Return a decoder that chooses the class with matching required fields and tags, and the most fields present."""
    tags = [_tags_of(kind) for kind in kinds]

    def decoded(value: dict[str, Any]) -> Any:
        fitting = []
        for kind, tagged in zip(kinds, tags, strict=True):
            fields = _fields(kind)
            complete = all(name in value for name, required in fields.items() if required)
            if complete and all(value.get(name) == tag for name, tag in tagged.items()):
                fitting.append((len(fields.keys() & value.keys()), kind))
        if not fitting:
            raise Mismatch(f"must be one of: {', '.join(kind.__name__ for kind in kinds)}")
        _, best = max(fitting, key=lambda counted: counted[0])
        return _decoder(best)(value)

    return decoded


def _tags_of(kind: Any) -> dict[str, Any]:
    """Return the fields with a constant value in this class."""
    hints = get_type_hints(kind).items()
    return {name: get_args(hint)[0] for name, hint in hints if get_origin(hint) is Literal and len(get_args(hint)) == 1}
