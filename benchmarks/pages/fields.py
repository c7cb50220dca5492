"""docs/reference/http-fields.md, generated from the schemas of the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from service.app import create_app
from service.settings import Settings

_HEAD = """# HTTP fields

Every object that requests and responses contain, with its fields. The [HTTP API](http.md) explains the concepts;
[calls](http-calls.md) lists the endpoints. Generated from the OpenAPI document (`make reference`).
"""
#: Longer lists of values have a page of their own, such as the names of measures.
_MOST_VALUES = 16


def fields_page() -> str:
    """The page: one section per object."""
    schemas = create_app(Settings(redis_url="unix:///nowhere")).openapi()["components"]["schemas"]
    return _HEAD + "".join(_section(name, schemas[name]) for name in sorted(schemas))


def _section(name: str, schema: dict[str, Any]) -> str:
    about = _plain(schema.get("description", ""))
    parts = [f"\n## {name}\n", *([f"\n{about}\n"] if about else [])]
    fields = schema.get("properties", {})
    if fields:
        required = set(schema.get("required", ()))
        parts.append("\n| field | type | default | meaning |\n|---|---|---|---|\n")
        parts += [_row(field, of, needed=field in required) for field, of in fields.items()]
    elif "enum" in schema or "anyOf" in schema or "oneOf" in schema:
        parts.append(f"\nA string, one of {len(schema['enum'])}.\n" if "enum" in schema else f"\n{_type(schema)}\n")
    return "".join(parts)


def _row(field: str, schema: dict[str, Any], *, needed: bool) -> str:
    default = "" if needed or "default" not in schema else f"`{json.dumps(schema['default'])}`"
    bounds = ", ".join(_bounds(schema))
    meaning = "; ".join(part for part in (_plain(schema.get("description", "")), bounds) if part)
    return f"| `{field}` | {_type(schema)} | {default} | {meaning} |\n"


def _bounds(schema: dict[str, Any]) -> Iterator[str]:
    """The limits of a value or of its alternatives, such as ``at least 100``."""
    words = {
        "minimum": "at least {}",
        "exclusiveMinimum": "above {}",
        "maximum": "at most {}",
        "exclusiveMaximum": "below {}",
        "minItems": "at least {} items",
        "maxItems": "at most {} items",
        "maxLength": "at most {} characters",
    }
    for of in (schema, *schema.get("anyOf", ())):
        for key, text in words.items():
            if key in of:
                yield text.format(f"{of[key]:,}") if of[key] != 1 else text.format(1).replace("items", "item")


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(member) for member in schema[key]))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema and len(schema["enum"]) <= _MOST_VALUES:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    values = schema.get("additionalProperties")
    if isinstance(values, dict) and values:
        return f"object of {_type(values)}"
    return str(schema.get("type", "any"))


def _plain(text: str) -> str:
    """A description on one line of a table."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")
