"""The options of a request: a payload's, checked by their model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin

import orjson
from pydantic import BaseModel, ValidationError
from starlette.datastructures import QueryParams

from calibrant.batch import MAX_OFFENCES
from calibrant.errors import Offence
from schemas.base import Document
from service.errors import InvalidField
from service.formats.json_structure import check_keys, skeleton_of
from service.formats.payload import Payload

Options = TypeVar("Options", bound=Document)

#: No request has more fields, and no field more entries: pydantic reports each wrong one, at some cost.
_MOST_FIELDS, _MOST_ENTRIES = 100, 10_000
#: Options that a query carries as JSON text.
STRUCTURED = ("measures", "diagrams", "diagram", "options", "classes", "tags", "maps", "batches")
#: Those that may also be names separated by commas.
_NAMED = ("measures", "diagrams", "maps", "batches")
#: Those that may also be one name.
_ONE_NAME = ("diagram",)


def read_options(payload: Payload, model: type[Options]) -> Options:
    """Check the options; raises ``InvalidField`` naming each wrong field, never its value."""
    if len(payload.options) > _MOST_FIELDS:
        raise InvalidField.at("", f"may have at most {_MOST_FIELDS} fields")
    options = dict(payload.options)
    if payload.from_query:
        _check_numbers(options, model)
        options |= {name: _structured(name, options[name]) for name in STRUCTURED if name in options}
    for name, value in options.items():
        if isinstance(value, list) and len(value) > _MOST_ENTRIES:
            raise InvalidField.at(_pointer((name,)), f"may have at most {_MOST_ENTRIES} entries")
    try:
        # A query knows only strings; JSON knows better, and there "5" is no number.
        return model.model_validate(options, strict=None if payload.from_query else True)
    except ValidationError as error:
        raise invalid_field(error.errors(include_url=False, include_context=False, include_input=False)) from error


def query_fields(query: QueryParams, several: Sequence[str] = ()) -> dict[str, str]:
    """The fields of a query, each once but for ``several``; raises ``InvalidField`` for one that stands twice."""
    fields: dict[str, str] = {}
    for name, value in query.multi_items():
        if name in fields and name not in several:
            raise InvalidField.at(pointer_of(name), "stands twice in the query")
        fields[name] = value
    return fields


def pointer_of(name: str) -> str:
    """The pointer of a field that a caller named, as far as a person would read it."""
    return _pointer((name,))


def _check_numbers(options: Mapping[str, Any], model: type[BaseModel]) -> None:
    """Raise ``InvalidField`` for a number with an underscore, which pydantic takes for one as Python does."""
    for name, value in options.items():
        if isinstance(value, str) and "_" in value and name in _numbers_of(model):
            raise InvalidField.at(pointer_of(name), "must be a number of plain digits")


@cache
def _numbers_of(model: type[BaseModel]) -> frozenset[str]:
    """The fields of a model that hold numbers and no text."""
    kinds = {name: set(_kinds_of(field.annotation)) for name, field in model.model_fields.items()}
    return frozenset(name for name, found in kinds.items() if found & {int, float} and str not in found)


def _kinds_of(annotation: Any) -> Iterator[Any]:
    """The types of a union, of whatever depth."""
    inner = get_args(annotation)
    if not inner or get_origin(annotation) is Literal:
        yield annotation
    for one in inner:
        yield from _kinds_of(one)


def invalid_field(found: Sequence[Mapping[str, Any]]) -> InvalidField:
    """The error of what pydantic found wrong, without the values."""
    offences = [Offence(_pointer(e["loc"]), _message(e)) for e in found[:MAX_OFFENCES]]
    return InvalidField(f"{offences[0].pointer or 'the body'}: {offences[0].detail}", offences)


def _message(error: Mapping[str, Any]) -> str:
    """The message of what pydantic found, as an API writes it."""
    kinds = {"extra_forbidden": "is not a field of this request", "missing": "is missing"}
    message = str(error["msg"])
    return kinds.get(error["type"], message[:1].lower() + message[1:])


def _structured(name: str, text: str) -> Any:
    """JSON text, or for some names separated by commas, or one name."""
    if name in _ONE_NAME and not text.lstrip().startswith("{"):
        return text
    if name in _NAMED and not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",")]
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidField.at(f"/{name}", "must be JSON text in a query") from error
    check_keys(b"", skeleton_of(text.encode()), {name: value}, 0, f"/{name}")
    return value


def _pointer(location: tuple[int | str, ...]) -> str:
    """A JSON Pointer; parts that pydantic adds to name a union's branch are left out."""
    # A caller's own field name is repeated only as far as a person would read it.
    parts = [
        str(part)[:64] for part in location if isinstance(part, int) or ("[" not in part and part not in _BRANCHES)
    ]
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts)


_BRANCHES = ("str", "int", "float", "constrained-str")
