"""The client's responses are generated from the models of the wire contract, and read what the models write."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import schemas
from benchmarks.pages import answers as generated
from benchmarks.pages import client_methods
from calibrant.client import answers
from calibrant.client.answers import WireAnswer, decode
from schemas.base import Instant
from service.app import create_app
from service.openapi import operations
from service.settings import Settings
from tests.commands import printed_by
from tests.drawn import examples

ANSWERS: dict[str, Any] = {
    name: answer
    for name, answer in ((name, getattr(answers, name)) for name in answers.__all__)
    if isinstance(answer, type) and issubclass(answer, WireAnswer) and answer is not WireAnswer
}
WRITTEN_BY_HAND = ("conveniences", "document")
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def _models() -> Iterator[tuple[str, type[BaseModel]]]:
    for module in pkgutil.walk_packages(schemas.__path__, "schemas."):
        for name, member in vars(importlib.import_module(module.name)).items():
            if isinstance(member, type) and issubclass(member, BaseModel) and member.__module__ == module.name:
                yield name, member


MODELS = dict(_models())


def _is_class(hint: Any, base: type) -> bool:
    return isinstance(hint, type) and issubclass(hint, base)


def _values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type hint of the schemas; constraints such as patterns and bounds do not matter to the client."""
    origin, args = get_origin(hint), get_args(hint)
    if hint == Instant:
        return st.floats(0, 253_402_300_799)
    if origin is Annotated:
        return _values(args[0])
    if origin in (Union, types.UnionType):
        return st.one_of([_values(arg) for arg in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is list:
        return st.lists(_values(args[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(_values(args[0]), _values(args[1]), max_size=2)
    if origin is tuple:
        return st.tuples(*(_values(arg) for arg in args))
    if _is_class(hint, BaseModel):
        return _instances(hint)
    of = {str: st.text(max_size=5), bool: st.booleans(), type(None): st.none(), Any: _JSON}
    of |= {int: st.integers(-(2**53), 2**53), float: st.floats(allow_nan=False, allow_infinity=False)}
    return of[hint]


def _instances(model: type[BaseModel]) -> st.SearchStrategy[BaseModel]:
    hints = get_type_hints(model, include_extras=True)
    fields = {name: _values(hints[name]) for name in model.model_fields}
    required = {name: strategies for name, strategies in fields.items() if model.model_fields[name].is_required()}
    optional = {name: strategies for name, strategies in fields.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: model.model_construct(**fields))


def test_every_answer_is_of_a_schema() -> None:
    assert len(ANSWERS) > 60
    assert ANSWERS.keys() <= MODELS.keys()
    assert not {path.stem for path in generated.FOLDER.glob("*.py")} - {*generated.files(), *WRITTEN_BY_HAND}


# Generated in the tests: with names of files as parameters, every collection of tests would generate them.
def test_every_module_of_responses_is_generated_from_the_schemas() -> None:
    for name, text in generated.files().items():
        assert (generated.FOLDER / f"{name}.py").read_text("utf-8") == text, f"{name}: run make reference"


def test_the_clients_are_generated_from_their_steps_and_the_declared_calls() -> None:
    for name, text in client_methods.client_files().items():
        assert (client_methods.FOLDER / f"{name}.py").read_text("utf-8") == text, f"{name}: run make reference"


def _without_null_places(part: Any) -> Any:
    """A response without the null places of problems, which the service omits."""
    if isinstance(part, list):
        return [_without_null_places(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    omitted = [name for name in ("pointer", "parameter", "header") if part.get(name, ...) is None]
    return {name: _without_null_places(inner) for name, inner in part.items() if name not in omitted}


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_read_and_written_without_a_change(name: str) -> None:
    @settings(max_examples=examples(5, 500))
    @given(_instances(MODELS[name]))
    def check(answer: BaseModel) -> None:
        sent = answer.model_dump_json()
        read = decode(ANSWERS[name], orjson.loads(sent))
        assert _without_null_places(read.to_dict()) == json.loads(sent)
        assert decode(ANSWERS[name], read.to_dict()) == read

    check()


def _examples() -> Iterator[tuple[str, list[str], Any]]:
    """Each JSON example of a success in the OpenAPI document, with the classes that its schema names."""
    for path, method, operation in operations(create_app(Settings(redis_url="unix:///nowhere")).openapi()):
        for status, response in operation["responses"].items():
            about = response.get("content", {}).get("application/json", {})
            named = re.findall(r"schemas/(\w+)", str(about.get("schema")))
            for name, example in about.get("examples", {}).items() if status.startswith("2") else ():
                yield f"{method} {path} {name}", named, example["value"]


def test_the_examples_of_the_document_are_read_as_their_schemas_read_them() -> None:
    read = 0
    for call, named, example in _examples():
        listed = example if isinstance(example, list) else [example]
        for name in ANSWERS.keys() & set(named):
            try:
                models = [MODELS[name].model_validate(example) for example in listed]
            except ValueError:  # an example of the other class
                assert len(named) > 1
                continue
            ours = [decode(ANSWERS[name], example).to_dict() for example in listed]
            assert ours == [model.model_dump(mode="json") for model in models], call
            read += 1
    assert read > 45


def test_the_client_loads_neither_pydantic_nor_the_packages_of_the_server() -> None:
    code = (
        "import sys, calibrant.client, calibrant.client.answers\n"
        "unwanted = {'schemas', 'backend', 'service', 'workers', 'pydantic', 'pydantic_core', 'fastapi'}\n"
        "print(sorted(unwanted & set(sys.modules)))"
    )
    assert printed_by(code).strip() == "[]"
