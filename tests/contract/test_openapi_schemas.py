"""The schemas of the OpenAPI document, by the rules that generators of clients need."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from service.openapi import operations

_REF = "#/components/schemas/"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DOCUMENT = "urn:openapi"
Found = Iterator[tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def schemas(openapi: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every schema of the document, by its place: of components, parameters, headers, bodies and answers."""
    places = [(name, schema) for name, schema in openapi["components"]["schemas"].items()]
    for path, method, operation in operations(openapi):
        call = f"{method.upper()} {path}"
        places += [(f"{call} {p['in']} {p['name']}", p["schema"]) for p in operation.get("parameters", ())]
        places += [(f"{call} body {kind}", schema) for kind, schema in _media(operation.get("requestBody", {}))]
        for status, response in operation["responses"].items():
            places += [(f"{call} {status} {kind}", schema) for kind, schema in _media(response)]
            own = {name: about for name, about in response["headers"].items() if "$ref" not in about}
            places += [(f"{call} {status} {name}", about["schema"]) for name, about in own.items()]
    return places + [(name, about["schema"]) for name, about in openapi["components"]["headers"].items()]


def _media(response: dict[str, Any]) -> Found:
    for kind, about in response.get("content", {}).items():
        yield kind, about.get("schema", {})


def _parts(schema: Any, place: str = "") -> Found:
    """A schema and every schema in it, by their places."""
    if not isinstance(schema, dict):
        return
    yield place, schema
    for key in ("items", "additionalProperties", "not"):
        yield from _parts(schema.get(key), f"{place}/{key}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for i, part in enumerate(schema.get(key, ())):
            yield from _parts(part, f"{place}/{key}/{i}")
    for key in ("properties", "patternProperties"):
        for name, part in schema.get(key, {}).items():
            yield from _parts(part, f"{place}/{key}/{name}")


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def test_every_reference_resolves_to_a_component_and_every_component_is_used(openapi: dict[str, Any]) -> None:
    kinds = ("schemas", "headers")
    components = {
        f"#/components/{kind}/{name}": part for kind in kinds for name, part in openapi["components"][kind].items()
    }
    seen, waiting = set[str](), [*_references(openapi["paths"])]
    while waiting:
        reference = waiting.pop()
        assert reference in components
        if reference not in seen:
            seen.add(reference)
            waiting += _references(components[reference])
    assert components.keys() == seen
    assert '"$defs"' not in str(openapi).replace("'", '"')


def test_every_model_has_one_name_in_camel_case(openapi: dict[str, Any]) -> None:
    for name, schema in openapi["components"]["schemas"].items():
        assert re.fullmatch(r"[A-Z][A-Za-z0-9]*", name), name
        assert schema.get("title", name) == name


def test_every_schema_is_one_and_its_examples_are_of_it(
    openapi: dict[str, Any], schemas: list[tuple[str, dict[str, Any]]]
) -> None:
    wrong, validators = [], _Validators(openapi)
    for place, schema in schemas:
        jsonschema_rs.meta.validate(schema)
        for inside, part in _parts(schema):
            examples = part.get("examples", [])
            wrong += [f"{place}{inside}: {example}" for example in examples if not validators.is_valid(part, example)]
    assert not wrong


@pytest.mark.slow
def test_every_example_of_a_body_and_of_an_answer_is_of_its_schema(openapi: dict[str, Any]) -> None:
    wrong, validators = [], _Validators(openapi)
    for path, method, operation in operations(openapi):
        parts = {"body": operation.get("requestBody", {}), **operation["responses"]}
        for place, part in parts.items():
            for kind, about in part.get("content", {}).items():
                for name, example in about.get("examples", {}).items():
                    if not validators.is_valid(about["schema"], example["value"]):
                        wrong.append(f"{method.upper()} {path} {place} {kind}: {name}")
        wrong += [
            f"{method.upper()} {path} {parameter['name']}"
            for parameter in operation.get("parameters", ())
            if "example" in parameter and not validators.is_valid(parameter["schema"], parameter["example"])
        ]
    assert not wrong


class _Validators:
    """A validator for each schema of the document; most examples share one of a few.

    The document is registered once: a validator that had it in its own schema would read all of it again.
    """

    def __init__(self, openapi: dict[str, Any]) -> None:
        self._components = openapi["components"]
        self._by_schema: dict[str, jsonschema_rs.Validator] = {}
        self._registry = jsonschema_rs.Registry([(_DOCUMENT, {"$schema": _DIALECT, "components": self._components})])

    def is_valid(self, schema: dict[str, Any], document: Any) -> bool:
        key = json.dumps(schema, sort_keys=True)
        if key not in self._by_schema:
            absolute = json.loads(key.replace('"#/components/', f'"{_DOCUMENT}#/components/'))
            registered: dict[str, Any] = {"$schema": _DIALECT, **absolute}
            self._by_schema[key] = jsonschema_rs.validator_for(registered, registry=self._registry)
        return self._by_schema[key].is_valid(document)


def test_every_successful_answer_has_a_schema_or_no_content(openapi: dict[str, Any]) -> None:
    for path, method, operation in operations(openapi):
        call = f"{method.upper()} {path}"
        successes = {status: r for status, r in operation["responses"].items() if status[0] == "2"}
        assert successes, call
        for status, response in operation["responses"].items():
            if status in ("204", "304"):
                assert "content" not in response, f"{call} {status}"
            else:
                assert response["content"], f"{call} {status}"
                for kind, schema in _media(response):
                    assert schema, f"{call} {status} {kind}"


def test_every_body_has_a_schema_and_json_bodies_are_models(openapi: dict[str, Any]) -> None:
    for path, method, operation in operations(openapi):
        for kind, schema in _media(operation.get("requestBody", {})):
            assert schema, f"{method.upper()} {path} {kind}"
            if kind == "application/json" and not path.endswith("/events"):
                assert "$ref" in schema, f"{method.upper()} {path} {kind}"


def test_parameters_are_listed_once_and_none_of_the_path_is_missing(openapi: dict[str, Any]) -> None:
    for path, method, operation in operations(openapi):
        parameters = operation.get("parameters", [])
        places = [(parameter["in"], parameter["name"]) for parameter in parameters]
        assert len(set(places)) == len(places), f"{method.upper()} {path}"
        assert {name for where, name in places if where == "path"} == set(re.findall(r"{(\w+)}", path))
        assert all(parameter["required"] for parameter in parameters if parameter["in"] == "path")


def test_a_query_has_neither_objects_nor_nulls(openapi: dict[str, Any]) -> None:
    for path, method, operation in operations(openapi):
        for parameter in operation.get("parameters", ()):
            schema = parameter["schema"]
            if "$ref" in schema:
                schema = openapi["components"]["schemas"][schema["$ref"].removeprefix(_REF)]
            kind = schema.get("items", {}).get("type") if schema.get("type") == "array" else schema.get("type")
            place = f"{method.upper()} {path} {parameter['name']}"
            assert kind in ("string", "integer", "number", "boolean"), place


def test_generators_can_make_every_part(schemas: list[tuple[str, dict[str, Any]]]) -> None:
    """Lists have a schema for their items, and objects have no conditions beside their fields."""
    for place, schema in schemas:
        if place == "POST /monitors/{name}/events body application/cloudevents-batch+json":
            continue  # with items, the client generated for this call refuses every body
        for inside, part in _parts(schema):
            assert part.get("type") != "array" or {"items", "prefixItems"} & set(part), f"{place}{inside}"
            assert "properties" not in part or not {"anyOf", "oneOf", "allOf"} & set(part), f"{place}{inside}"


def test_the_discriminating_field_of_a_union_is_required(
    openapi: dict[str, Any], schemas: list[tuple[str, dict[str, Any]]]
) -> None:
    for place, schema in schemas:
        for inside, part in _parts(schema):
            for reference in part.get("discriminator", {}).get("mapping", {}).values():
                model = openapi["components"]["schemas"][reference.removeprefix(_REF)]
                assert part["discriminator"]["propertyName"] in model["required"], f"{place}{inside}"


def test_no_member_of_a_union_takes_what_a_later_one_describes(
    openapi: dict[str, Any], schemas: list[tuple[str, dict[str, Any]]]
) -> None:
    """Generated clients take the first member whose required fields are there, and lose the fields that it lacks."""
    for place, schema in schemas:
        for inside, part in _parts(schema):
            references = [alternative["$ref"] for alternative in part.get("anyOf", ()) if "$ref" in alternative]
            models = [openapi["components"]["schemas"][r.removeprefix(_REF)] for r in references]
            models = [model for model in models if "properties" in model]
            for i, model in enumerate(models):
                required = set(model.get("required", ()))
                if any("const" in model["properties"][name] for name in required):
                    continue
                taken = [later for later in models[i + 1 :] if required <= set(later["properties"])]
                assert not taken, f"{place}{inside}: {model['title']}"
