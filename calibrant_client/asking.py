"""Requests from what a caller says, and answers as the contract's documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import orjson
from pydantic import BaseModel

from calibrant_client.errors import unreadable
from calibrant_client.packing import NPZ, Arrays, pack
from calibrant_client.steps import JSON, Answer, Request

Model = TypeVar("Model", bound=BaseModel)


def path_of(*parts: str) -> str:
    """The path of names that may hold anything.

    >>> path_of("maps", "spam@champion", "aliases", "a/b")
    '/maps/spam@champion/aliases/a%2Fb'
    """
    return "".join(f"/{quote(part, safe=':@')}" for part in parts)


def get(path: str, query: Mapping[str, Any] | None = None, *, accept: str = JSON) -> Request:
    """A request that reads; what is None in its query is left out."""
    return Request("GET", path, _said(query or {}), {"Accept": accept})


def with_fields(
    method: str, path: str, fields: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
) -> Request:
    """A request whose body is these fields, but those that are None."""
    told = {"Accept": JSON, "Content-Type": JSON, **(headers or {})}
    return Request(method, path, headers=told, content=_json(_said(fields)))


def with_rows(
    path: str, arrays: Arrays, fields: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
) -> Request:
    """A post of arrays, as NPZ with the fields in the query; of fields alone where there are no arrays."""
    if not arrays:
        return with_fields("POST", path, fields, headers=headers)
    query = {name: _text(value) for name, value in _said(fields).items()}
    return Request("POST", path, query, {"Accept": JSON, "Content-Type": NPZ, **(headers or {})}, pack(arrays))


def read(model: type[Model], answer: Answer) -> Model:
    """The document of an answer. Fields that a later server has beside those known are passed over."""
    try:
        return model.model_validate_json(answer.content, extra="ignore")
    except ValueError as error:
        raise unreadable(answer) from error


def read_list(model: type[Model], answer: Answer) -> list[Model]:
    """The documents of an answer that is a list of them."""
    try:
        return [model.model_validate(each, extra="ignore") for each in orjson.loads(answer.content)]
    except (ValueError, TypeError) as error:
        raise unreadable(answer) from error


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _text(value: Any) -> str:
    """A field as a query has it: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else _json(value).decode()


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
