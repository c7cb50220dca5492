"""Requests from the arguments of a call, and answers as the contract's documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import orjson

from calibrant.client.answers import decode
from calibrant.client.errors import unreadable
from calibrant.client.packing import NPY, NPZ, Array, Arrays, pack, pack_one
from calibrant.client.steps import JSON, Answer, Request

T = TypeVar("T")


def path_of(*parts: str) -> str:
    """The path of names that may hold anything.

    >>> path_of("maps", "spam@champion", "aliases", "a/b")
    '/maps/spam@champion/aliases/a%2Fb'
    """
    return "".join(f"/{quote(part, safe=':@')}" for part in parts)


def get(path: str, query: Mapping[str, Any] | None = None, *, accept: str = JSON) -> Request:
    """A request that reads; what is None in its query is left out."""
    return Request("GET", path, _given(query or {}), {"Accept": accept}, reads=True)


def with_fields(
    method: str, path: str, fields: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
) -> Request:
    """A request whose body is these fields, but those that are None."""
    all_headers = {"Accept": JSON, "Content-Type": JSON, **(headers or {})}
    return Request(method, path, headers=all_headers, content=_json(_given(fields)))


def with_rows(
    path: str, arrays: Arrays, fields: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
) -> Request:
    """A post of arrays, as NPZ with the fields in the query; of fields alone where there are no arrays."""
    if not arrays:
        return with_fields("POST", path, fields, headers=headers)
    query = {name: _text(value) for name, value in _given(fields).items()}
    return Request("POST", path, query, {"Accept": JSON, "Content-Type": NPZ, **(headers or {})}, pack(arrays))


def with_predictions(path: str, predictions: Array, fields: Mapping[str, Any]) -> Request:
    """A post of predictions alone, of which nothing is stored; its answer is an NPZ."""
    query = {name: _text(value) for name, value in _given(fields).items()}
    headers = {"Accept": NPZ, "Content-Type": NPY}
    return Request("POST", path, query, headers, pack_one(predictions), reads=True)


def read(kind: type[T], answer: Answer) -> T:
    """Decode the body of an answer as ``kind``: an answer's class, or a list of one."""
    try:
        return decode(kind, orjson.loads(answer.content))
    except ValueError as error:
        raise unreadable(answer, error) from error


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _text(value: Any) -> str:
    """A field as a query has it: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else _json(value).decode()


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
