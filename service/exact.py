"""What the wire's models cannot say of bodies, queries and results, added to the OpenAPI document.

Every model that a body names becomes a component, because generators of clients resolve references only there.
"""

from __future__ import annotations

from typing import Any

from fastapi.encoders import jsonable_encoder
from pydantic import BaseModel

from calibrant.calibrators import METHODS
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.measures.catalogue import MEASURES
from schemas.diagrams import PictureReport
from schemas.evaluate import BySizePicture, CostPlanePicture
from service.formats.options import STRUCTURED
from service.formats.payload import ARRAYS
from service.pictures import PICTURED

Schema = dict[str, Any]

#: Where the components are that references name.
REF = "#/components/schemas/"
_REDUCTION = (
    "^(binary|confidence|pooled|classwise|canonical|top-label|ranks|within-ranks|(class|top|within-top):[0-9]+)$"
)
_NULL = {"type": "null"}
#: The fields that name the source of the rows, by the suffix of the model that requires them.
_SOURCES = {"Rows": ("predictions", "labels"), "Batch": ("batch",), "Batches": ("batches",)}


def ref(name: str) -> Schema:
    """A reference to a component."""
    return {"$ref": REF + name}


def add_choices(schemas: Schema) -> None:
    """Add the names of the catalogues, and the objects of a name and options that stand for them."""
    for what, names in (("Measure", [*MEASURES]), ("Diagram", [*DIAGRAMS])):
        schemas[f"{what}Name"] = {"type": "string", "enum": names}
        schemas[f"{what}Spec"] = {
            "type": "object",
            "description": f"A {what.lower()} by its name, and its options beside the name",
            "properties": {"name": ref(f"{what}Name")},
            "required": ["name"],
            "additionalProperties": True,
        }
    schemas["MethodName"] = {"type": "string", "enum": [*METHODS]}
    schemas["PictureName"] = {"type": "string", "enum": [*DIAGRAMS, *PICTURED]}
    for model in (BySizePicture, CostPlanePicture):
        add_model(model, schemas)
    _name_choices(schemas["BySizePicture"]["properties"])


def add(schemas: Schema, name: str, schema: Schema) -> None:
    """Add a component; raises ``ValueError`` if another one has its name."""
    if schemas.setdefault(name, schema) != schema:
        raise ValueError(f"two models are called {name}")


def add_model(model: type[BaseModel], schemas: Schema) -> None:
    """Add the component of a model, written as FastAPI writes those that it finds itself: without nulls."""
    _add_schema(jsonable_encoder(model.model_json_schema(ref_template=REF + "{model}"), exclude_none=True), schemas)


def exact_body(operation: Schema, schemas: Schema) -> None:
    """Make the bodies of a call exact and name their models; add the options that a binary body has in the query."""
    content = operation.get("requestBody", {}).get("content", {})
    for about in content.values():
        schema = about["schema"]
        of_rows = "predictions" in schema.get("properties", ())
        if of_rows and len(content) > 1:
            fields = {name: field for name, field in schema["properties"].items() if name not in ARRAYS}
            operation.setdefault("parameters", []).extend(_parameter(name, field) for name, field in fields.items())
        about["schema"] = _named(schema, schemas)


def exact_query(operation: Schema) -> None:
    """Take null out of the query, which has none, and describe parameters where generators look for it."""
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "query":
            schema = parameter["schema"] = _without_null(parameter["schema"])
            if "description" in schema:
                parameter.setdefault("description", schema.pop("description"))


def exact_result(schemas: Schema) -> None:
    """Say what the result of a job is: a fit's map, or an evaluation's report."""
    reports = [ref(name) for name in ("ReportAnswer", "ReportsAnswer", "PictureReport")]
    add_model(PictureReport, schemas)
    for name, field, of in (
        ("FitResult", "map", {"type": "string", "description": "id of the map"}),
        ("EvaluationResult", "report", {"anyOf": reports}),
    ):
        model = {"type": "object", "properties": {field: of}, "required": [field], "additionalProperties": False}
        add(schemas, name, model)
    schemas["JobAnswer"]["properties"]["result"]["anyOf"] = [ref("FitResult"), ref("EvaluationResult"), _NULL]


def _named(schema: Schema, schemas: Schema) -> Schema:
    """A reference to the component that a model's schema becomes; anything else as it is."""
    if "title" not in schema:
        return schema
    _name_choices(schema["properties"])
    variants = _by_source(schema)
    if variants:
        described = {"title": schema["title"], "description": schema["description"]}
        schema = described | {"anyOf": [_add_schema(variant, schemas) for variant in variants]}
    return _add_schema(schema, schemas)


def _add_schema(schema: Schema, schemas: Schema) -> Schema:
    """Add a model and those that it names; a reference to it."""
    for name, definition in schema.pop("$defs", {}).items():
        add(schemas, name, definition)
    add(schemas, schema["title"], schema)
    return ref(schema["title"])


def _name_choices(fields: Schema) -> None:
    """Name the entries of the catalogues in the fields that take them; the wire's models do not know them."""
    if "method" in fields:
        del fields["method"]["type"]
        fields["method"] |= ref("MethodName")
    for field, what in (("measures", "Measure"), ("diagrams", "Diagram")):
        if field in fields:
            _array_in(fields[field])["items"] = {"anyOf": [ref(f"{what}Name"), ref(f"{what}Spec")]}
    if "diagram" in fields:
        names = ("PictureName", "BySizePicture", "CostPlanePicture", "DiagramSpec")
        fields["diagram"]["anyOf"] = [ref(name) for name in names]
    if "reduction" in fields:
        fields["reduction"]["anyOf"] = [{"type": "string", "pattern": _REDUCTION}, _NULL]


def _array_in(field: Schema) -> Schema:
    found: Schema = next(kind for kind in field.get("anyOf", [field]) if kind.get("type") == "array")
    return found


def _by_source(schema: Schema) -> list[Schema]:
    """A model for each source of the rows, where a body may name several: rows, one stored batch, or several.

    Each is a whole model, which a generated client can make; conditions on one model they pass over.
    """
    fields = schema["properties"]
    if not {"batch", "predictions"} <= set(fields):
        return []
    elsewhere = {*ARRAYS, "batch", "batches"}
    found = []
    for suffix, names in _SOURCES.items():
        required = [name for name in names if name in fields]
        if required:
            kept = set(ARRAYS) if suffix == "Rows" else set(required)
            own = {name: field for name, field in fields.items() if name in kept or name not in elsewhere}
            found.append(
                schema
                | {
                    "title": schema["title"].removesuffix("Body") + suffix,
                    "description": f"{schema['description'].removesuffix('.')}, with `{'` and `'.join(required)}`.",
                    "properties": own | {name: _without_null(own[name]) for name in required},
                    "required": [*schema.get("required", ()), *required],
                }
            )
    return found


def _without_null(field: Schema) -> Schema:
    """A field that is not null."""
    if "anyOf" not in field:
        return field
    kinds = [kind for kind in field["anyOf"] if kind != _NULL]
    rest = {key: value for key, value in field.items() if key != "anyOf"}
    return rest | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds})


def _parameter(name: str, field: Schema) -> Schema:
    """A field as a parameter of the query."""
    schema = {"type": "string"} if name in STRUCTURED else _without_null(field)
    schema = {key: value for key, value in schema.items() if key not in _WORDS}
    description = "of a binary body; JSON text" if name in STRUCTURED else "of a binary body"
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


#: What a field tells to people, beside its values.
_WORDS = ("title", "description", "examples", "default")
