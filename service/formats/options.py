"""The options of a request, validated by their model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np
import orjson
from pydantic import BaseModel, ValidationError
from starlette.datastructures import QueryParams

from calibrant.core.column_names import integer
from calibrant.core.errors import MAX_OFFENCES, InvalidLabel, Offence, token
from calibrant.io.strict import CLASSIFICATION, REGRESSION
from schemas.base import REQUEST, Document, Instant
from schemas.decisions import DecideOptions
from schemas.evaluations import CompareOptions
from schemas.monitor_rules import RuleKind
from service.errors import InvalidField
from service.formats.format import Array, Payload
from service.formats.json_body import check_keys, skeleton_of

Options = TypeVar("Options", bound=Document)
Other = TypeVar("Other", bound=Document)

#: Upper bounds for fields and entries: pydantic reports each invalid one at some cost.
_MOST_FIELDS, _MOST_ENTRIES = 100, 10_000
#: How a query writes a list or an object: as JSON text, which may also be a name, or names separated by commas.
Written = Literal["json", "name", "names"]
#: A whole number, and any number, in a query.
_WHOLE, _NUMBER = re.compile(r"-?[0-9]+"), re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
#: How messages of pydantic begin: "input should be at most 100", "list should have at most 20 items".
_SHOULD = re.compile(r"^[a-z]+ should ")


def read_options_of_kind(payload: Payload, model: type[Options], distributions: type[Other]) -> Options | Other:
    """Validate the options with the model of their prediction kind; raises as ``read_options``."""
    kind = payload.options.get("prediction_kind", "classification")
    if kind not in ("classification", "regression"):
        raise InvalidField.at("/prediction_kind", "must be classification or regression")
    return read_options(payload, distributions if kind == "regression" else model)


def read_options(payload: Payload, model: type[Options], *, is_change: bool = False) -> Options:
    """Validate the options; raises ``InvalidField``, which names each invalid field but never its value.

    ``is_change`` means that they are changed fields of a stored object, which may have others.
    """
    if not issubclass(model, CompareOptions | DecideOptions) and any(map(CLASSIFICATION.is_model, payload.arrays)):
        raise InvalidField.at("/models", "is not a field of this request")
    if len(payload.options) > _MOST_FIELDS:
        raise InvalidField.at("", f"may have at most {_MOST_FIELDS} fields")
    options = dict(payload.options)
    if payload.from_query:
        _check_arrays(payload, model)
        _check_numbers(options, model)
        for name, written in structured_fields(model).items():
            if isinstance(options.get(name), str):  # a field that may be repeated is a list
                options[name] = _structured(name, options[name], written)
    for name, value in options.items():
        if isinstance(value, list) and len(value) > _MOST_ENTRIES:
            raise InvalidField.at(_pointer((name,)), f"may have at most {_MOST_ENTRIES} entries")
    try:
        # A query contains only strings; in JSON the string "5" is not a number.
        read = model.model_validate(options, strict=None if payload.from_query else True, context=REQUEST)
    except ValidationError as error:
        raise invalid_field(error.errors(include_url=False, include_input=False), is_change=is_change) from error
    if payload.is_text:
        _check_numbered_names(payload.arrays.get("labels"), getattr(read, "class_names", None))
    return read


def _check_numbered_names(labels: Array | None, class_names: Sequence[str] | None) -> None:
    """Raise ``InvalidLabel`` if labels of a text are numbers that are places of classes, and names of others."""
    place_of = {number: place for place, name in enumerate(class_names or ()) if (number := integer(name)) is not None}
    if labels is None or labels.dtype.kind not in "iuf" or all(number == k for number, k in place_of.items()):
        return
    if set(np.unique(labels).tolist()) <= place_of.keys():
        text = "are numbers, and class_names has these in another order: leave class_names out if a label is the place "
        raise InvalidLabel.at("/labels", f"{text}of its column; if it is a name, send JSON with labels as strings")


def query_fields(query: QueryParams, several: Sequence[str] = ()) -> dict[str, str]:
    """The fields of a query; raises ``InvalidField`` for a field that occurs twice and is not in ``several``."""
    fields: dict[str, str] = {}
    for name, value in query.multi_items():
        if name in fields and name not in several:
            raise InvalidField.at(pointer_of(name), "occurs twice in the query")
        fields[name] = value
    return fields


def pointer_of(name: str) -> str:
    """The pointer of a field named by the caller, shortened to a readable length."""
    return _pointer((name,))


def _check_arrays(payload: Payload, model: type[BaseModel]) -> None:
    """Raise ``InvalidField`` for an array in the query of a body that contains the arrays."""
    for name in payload.options:
        if payload.arrays and name not in model.model_fields and _kind_of_array(name) is not None:
            raise InvalidField.at(pointer_of(name), "is an array: send it in the body, not in the query")


def _check_numbers(options: Mapping[str, Any], model: type[BaseModel]) -> None:
    """Raise ``InvalidField`` for texts such as ``1_0``, ``+5`` and an integer ``5.0``, which pydantic accepts."""
    numbers = _numbers_of(model)
    for name, value in options.items():
        if isinstance(value, str) and name in numbers and not numbers[name].fullmatch(value):
            whole = "a whole number" if numbers[name] is _WHOLE else "a number"
            raise InvalidField.at(pointer_of(name), f"must be {whole} in plain digits")


@cache
def _numbers_of(model: type[BaseModel]) -> Mapping[str, re.Pattern[str]]:
    """The fields of a model that contain one number and no text, and how a query writes the number."""
    kinds = {name: set(_kinds_of(field.annotation)) for name, field in model.model_fields.items()}
    return {
        name: _NUMBER if float in types else _WHOLE
        for name, types in kinds.items()
        if name not in structured_fields(model) and types & {int, float} and str not in types
    }


@cache
def structured_fields(model: type[BaseModel]) -> Mapping[str, Written]:
    """The fields of a model that are lists or objects, and how a query writes them."""
    fields: dict[str, Written] = {}
    for name, field in model.model_fields.items():
        members = [*_members(field.annotation)]
        items = [get_args(member)[0] for member in members if get_origin(member) is list]
        if items or any(get_origin(member) is dict or isinstance(member, type(BaseModel)) for member in members):
            of_names = any(str in _members(item) for item in items)
            fields[name] = "name" if str in members else "names" if of_names else "json"
    return fields


def _members(annotation: Any) -> Iterator[Any]:
    """The types of a union, without their constraints."""
    if get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    elif get_origin(annotation) is Annotated:
        yield from _members(get_args(annotation)[0])
    else:
        yield annotation


def _kinds_of(annotation: Any) -> Iterator[Any]:
    """The types of a nested union."""
    inner = () if annotation == Instant else get_args(annotation)
    if not inner or get_origin(annotation) is Literal:
        yield str if annotation == Instant else annotation
    for part in inner:
        yield from _kinds_of(part)


def invalid_field(errors: Sequence[Mapping[str, Any]], *, is_change: bool = False) -> InvalidField:
    """Convert errors of pydantic to ``InvalidField``, without the values."""
    offences = [Offence(_pointer(_place(e)), _message(e, is_change)) for e in errors[:MAX_OFFENCES]]
    return InvalidField(f"{offences[0].pointer or 'the body'}: {offences[0].detail}", offences)


def _place(error: Mapping[str, Any]) -> tuple[int | str, ...]:
    """The place of a pydantic error: with the field that says which object of a union is meant."""
    return (*error["loc"], error["ctx"]["discriminator"].strip("'")) if error["type"] in _TAG_ERRORS else error["loc"]


def _message(error: Mapping[str, Any], is_change: bool) -> str:
    """The message of a pydantic error in the style of the service."""
    if is_change and error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        return "is not a field that this request can change"
    if error["type"] == "union_tag_invalid":  # pydantic's message has the value
        return f"must be one of: {error['ctx']['expected_tags'].replace(chr(39), '')}"
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        kind = _kind_of_array(error["loc"][0])
        if kind is not None:
            return f"is not a field of this request; it is an array of {kind}, which prediction_kind declares"
        if error["loc"][0] == "source":
            return "is not a field of this request; POST /datasets applies a map to the files of a source"
    kinds = {
        "extra_forbidden": "is not a field of this request",
        "missing": "is missing",
        "union_tag_not_found": "is missing",
    }
    message = str(error["msg"]).removeprefix("Value error, ").replace(" after validation", "")
    return kinds.get(error["type"], _SHOULD.sub("must ", message[:1].lower() + message[1:]))


def _kind_of_array(name: str | int) -> str | None:
    """The prediction kind of the array with this name; None if there is no such array."""
    for kind, fields in (("classification", CLASSIFICATION), ("regression", REGRESSION)):
        if name in (*fields.arrays, *fields.shared):
            return kind
    return None


def _structured(name: str, text: str, written: Written) -> Any:
    """Parse JSON text, which may also be a name, or names separated by commas."""
    if written == "name" and not text.lstrip().startswith("{"):
        return text
    if written == "names" and not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",")]
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidField.at(f"/{name}", "must be JSON text in the query") from error
    check_keys(b"", skeleton_of(text.encode()), {name: value}, 0, f"/{name}")
    return value


def _pointer(location: tuple[int | str, ...]) -> str:
    """A JSON Pointer, without the parts that pydantic adds for branches of a union."""
    # A field name sent by the caller is repeated only up to a readable length.
    parts = [
        str(part)[:64]
        for before, part in zip((None, *location), location, strict=False)
        if isinstance(part, int)
        or ("[" not in part and part not in _BRANCHES and not (isinstance(before, int) and part in _TAGS))
    ]
    return "".join(f"/{token(part)}" for part in parts)


_BRANCHES = ("str", "int", "float", "constrained-str")
#: Branches of a list of objects: kinds of rules.
_TAGS = get_args(RuleKind)
_TAG_ERRORS = ("union_tag_invalid", "union_tag_not_found")
