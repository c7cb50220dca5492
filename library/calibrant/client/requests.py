"""Building requests and decoding responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

import orjson

from calibrant.client.answers import WireAnswer, decode
from calibrant.client.errors import unreadable
from calibrant.client.packing import NPY, NPZ, Array, Arrays, pack, pack_one
from calibrant.client.steps import JSON, Answer, Request

T = TypeVar("T")


def path_of(*parts: str | WireAnswer) -> str:
    """Build a path from parts, which are percent-encoded; a record stands for its id.

    >>> path_of("maps", "spam@champion", "aliases", "a/b")
    '/maps/spam@champion/aliases/a%2Fb'
    """
    return "".join(f"/{quote(_text_of(part), safe=':@')}" for part in parts)


def id_of(value: Any) -> Any:
    """Return the id of a record that a call returned, such as a batch, a map or a job; other values unchanged."""
    return getattr(value, "id", value) if isinstance(value, WireAnswer) else value


def _text_of(part: Any) -> str:
    text = id_of(part)
    if not isinstance(text, str):
        raise TypeError(f"pass an id or a name as a string, not {type(part).__name__}")
    return text


def get(path: str, query: Mapping[str, Any] | None = None, *, accept: str = JSON) -> Request:
    """Build a GET request; None is omitted from the query."""
    return Request("GET", path, _given(query or {}), {"Accept": accept}, reads=True)


def with_fields(
    method: str, path: str, fields: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
) -> Request:
    """Build a request with a JSON body; fields that are None are omitted."""
    all_headers = {"Accept": JSON, "Content-Type": JSON, **(headers or {})}
    return Request(method, path, headers=all_headers, content=_json(_given(fields)))


def with_changes(path: str, changes: Mapping[str, Any]) -> Request:
    """Build a PATCH request with a JSON merge patch, in which None removes a field."""
    headers = {"Accept": JSON, "Content-Type": "application/merge-patch+json"}
    return Request("PATCH", path, headers=headers, content=_json(changes))


def with_rows(
    path: str,
    arrays: Arrays,
    fields: Mapping[str, Any],
    *,
    headers: Mapping[str, str] | None = None,
    reads: bool = False,
) -> Request:
    """Build a POST request with arrays as NPZ and fields in the query; without arrays, with fields as JSON."""
    if not arrays:
        return replace(with_fields("POST", path, fields, headers=headers), reads=reads)
    query = {name: _text(value) for name, value in _given(fields).items()}
    return Request("POST", path, query, {"Accept": JSON, "Content-Type": NPZ, **(headers or {})}, pack(arrays), reads)


def with_predictions(
    path: str, predictions: Array, fields: Mapping[str, Any], beside: Mapping[str, Array] | None = None
) -> Request:
    """Build a POST request with predictions as NPY, which stores nothing and is answered with NPZ.

    With arrays ``beside`` them, such as features, by the names that these have in a body, it has an NPZ archive.
    """
    query = {name: _text(value) for name, value in _given(fields).items()}
    headers = {"Accept": NPZ, "Content-Type": NPY if beside is None else NPZ}
    if beside is not None:
        return Request("POST", path, query, headers, pack({"predictions": predictions, **beside}), reads=True)
    return Request("POST", path, query, headers, pack_one(predictions), reads=True)


def read(kind: type[T], answer: Answer) -> T:
    """Decode a response as ``kind``, an answer class or a list of one."""
    try:
        return decode(kind, orjson.loads(answer.content))
    except ValueError as error:
        raise unreadable(answer, error) from error


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    stated = {name: _ids_in(value) for name, value in fields.items() if value is not None}
    listed = {name: [stated[name]] for name in _LISTS if isinstance(stated.get(name), str)}
    return stated | listed


#: Fields with several values, of which a caller may give one.
_LISTS = ("measures", "diagrams", "maps", "batches")


def _ids_in(value: Any) -> Any:
    """Replace a record, or the records of a list, by their ids."""
    return [id_of(record) for record in value] if isinstance(value, list | tuple) else id_of(value)


def _text(value: Any) -> str:
    """Encode a query field: strings unchanged, other values as JSON."""
    return value if isinstance(value, str) else _json(value).decode()


def _json(value: Any) -> bytes:
    return orjson.dumps(value, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)


def _plain(value: Any) -> dict[Any, Any]:
    """Return a mapping of another type as a dictionary."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError
