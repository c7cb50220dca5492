"""What the wire's models cannot say of bodies and results, said in the OpenAPI document."""

from __future__ import annotations

from typing import Any

from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.measures.catalogue import MEASURES
from calibrant.methods import METHODS
from service.formats.options import STRUCTURED
from service.formats.payload import ARRAYS

_REDUCTION = (
    "^(binary|confidence|pooled|classwise|canonical|top-label|ranks|within-ranks|(class|top|within-top):[0-9]+)$"
)
_NULL = {"type": "null"}
_JSON = "application/json"


def exact_body(operation: dict[str, Any]) -> None:
    """Make the body of a call exact, and tell its options as the query of a binary body takes them."""
    content = operation.get("requestBody", {}).get("content", {})
    if _JSON not in content or "properties" not in content[_JSON]["schema"]:
        return
    schema = content[_JSON]["schema"]
    _name_choices(schema["properties"])
    _name_sources(schema)
    if len(content) > 1:
        fields = {name: field for name, field in schema["properties"].items() if name not in ARRAYS}
        operation.setdefault("parameters", []).extend(_parameter(name, field) for name, field in fields.items())


def exact_result(job: dict[str, Any]) -> None:
    """Say what the result of a job is: a fit's map, or an evaluation's report."""
    reports = [{"$ref": f"#/components/schemas/{name}"} for name in ("ReportAnswer", "BatchesAnswer")]
    each = {"map": {"type": "string"}, "report": {"anyOf": reports}}
    job["properties"]["result"]["anyOf"] = [
        *(
            {"type": "object", "properties": {name: of}, "required": [name], "additionalProperties": False}
            for name, of in each.items()
        ),
        _NULL,
    ]


def _name_choices(fields: dict[str, Any]) -> None:
    """Name the entries of the catalogues where a field asks for them; the wire's models know none."""
    if "method" in fields:
        fields["method"]["enum"] = list(METHODS)
    for field, names in (("measures", list(MEASURES)), ("diagrams", list(DIAGRAMS))):
        if field in fields:
            one = {"type": "object", "properties": {"name": {"enum": names}}, "required": ["name"]}
            items = {"anyOf": [{"type": "string", "enum": names}, one]}
            fields[field]["anyOf"] = [{"type": "array", "items": items}, _NULL]
    if "diagram" in fields and "predictions" in fields:
        one = {"type": "object", "properties": {"name": {"enum": list(DIAGRAMS)}}, "required": ["name"]}
        fields["diagram"]["anyOf"] = [{"type": "string", "enum": list(DIAGRAMS)}, one]
    if "reduction" in fields:
        fields["reduction"]["anyOf"] = [{"type": "string", "pattern": _REDUCTION}, _NULL]


def _name_sources(schema: dict[str, Any]) -> None:
    """Say that rows are either sent or those of one stored batch, or of several, where these are fields."""
    fields = schema["properties"]
    if not {"batch", "predictions"} <= set(fields):
        return
    sent = [name for name in ("predictions", "labels") if name in fields]
    arrays = [name for name in ARRAYS if name in fields]
    one = {"batch": _NULL, **{name: {"type": "array"} for name in sent}}
    other = {"batch": {"type": "string"}, **dict.fromkeys(arrays, _NULL)}
    several = {"batches": {"type": "array"}, "batch": _NULL, **dict.fromkeys(arrays, _NULL)}
    if "batches" in fields:
        one["batches"] = other["batches"] = _NULL
    schema["oneOf"] = [{"required": sent, "properties": one}, {"required": ["batch"], "properties": other}]
    if "batches" in fields:
        schema["oneOf"].append({"required": ["batches"], "properties": several})


def _parameter(name: str, field: dict[str, Any]) -> dict[str, Any]:
    """A field as a parameter of the query, which knows no null."""
    kinds = [kind for kind in field.get("anyOf", [field]) if kind != _NULL]
    schema = {"type": "string"} if name in STRUCTURED else {k: v for k, v in kinds[0].items() if k not in _WORDS}
    told = "of a binary body; JSON text" if name in STRUCTURED else "of a binary body"
    return {"name": name, "in": "query", "required": False, "description": told, "schema": schema}


#: What a field tells to people, beside its values.
_WORDS = ("title", "description", "examples", "default")
