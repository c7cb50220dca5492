"""The OpenAPI document: what FastAPI makes of the routes, with every status, problem and example added.

A route tells by ``raises`` which problems are its own. What every call may answer, and every call with a body, is
added here; so are the examples of requests and answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel

from calibrant.calibrators import METHODS
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.measures.catalogue import MEASURES
from schemas.diagrams import PictureReport
from schemas.evaluate import BySizePicture, CostPlanePicture
from schemas.inference import InferenceError
from schemas.jobs import JobAnswer
from schemas.problem_table import TABLE
from schemas.problems import Problem
from service.access import is_open, needed_scope
from service.examples import answer_of, problem_example
from service.examples.calls import CALLS, PARAMETERS
from service.formats.options import STRUCTURED
from service.formats.payload import ARRAYS
from service.inference.errors import spoken_at, status_of
from service.pictures import PICTURED
from service.problems import MEDIA_TYPE

JSON = "application/json"

#: What any call may answer.
ANYWHERE = (
    "foreign-origin",
    "internal-error",
    "url-too-long",
    "headers-too-large",
    "request-timeout",
    "too-many-connections",
)
#: What any call may answer but those of open paths.
BEHIND_A_KEY = ("unauthorized", "forbidden", "rate-limited", "deadline-exceeded", "store-unavailable")
#: What any call with a body may answer.
OF_BODIES = (
    "malformed-json",
    "malformed-npz",
    "malformed-npy",
    "malformed-arrow",
    "malformed-parquet",
    "malformed-csv",
    "malformed-encoding",
    "request-timeout",
    "too-large",
    "unsupported-media-type",
    "invalid-field",
    "busy",
)
#: What a call with an idempotency key may answer.
REPEATED = ("idempotency-conflict", "idempotency-in-progress", "invalid-field")
#: What a call with conditions on entity tags may answer.
CONDITIONAL = ("precondition-failed", "bad-request")
#: What is wrong with rows, wherever a body may hold them; ``raises(*OF_ROWS, ...)``.
OF_ROWS = (
    "not-a-number",
    "not-finite",
    "out-of-range",
    "wrong-shape",
    "length-mismatch",
    "empty-batch",
    "invalid-label",
    "invalid-weight",
    "invalid-option",
)
#: Problems of every evaluation of rows, whatever is made of its answer.
OF_EVALUATIONS = (
    *OF_ROWS,
    "unknown-batch",
    "quota-exceeded",
    "too-many-jobs",
    "queue-full",
    "unknown-map",
    "unknown-measure",
    "unknown-diagram",
    "unknown-reduction",
    "scale-mismatch",
    "not-acceptable",
)

#: What is wrong with the tensors of an inference.
OF_TENSORS = ("not-a-number", "not-finite", "out-of-range", "wrong-shape", "empty-batch", "scale-mismatch")

_SECONDS = {"description": "seconds after which to ask again", "schema": {"type": "string", "pattern": "^[0-9]+$"}}
#: The headers of problems.
_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"description": "how to identify oneself", "schema": {"type": "string"}}},
    429: {"Retry-After": _SECONDS},
    503: {"Retry-After": _SECONDS},
    507: {"Retry-After": _SECONDS},
}

Responses = dict[int | str, dict[str, Any]]


def header(name: str, description: str) -> dict[str, Any]:
    """An optional header of a request, as a parameter."""
    return {"name": name, "in": "header", "required": False, "description": description, "schema": {"type": "string"}}


_PREFER = header("Prefer", "`respond-async` makes a job in any case; `wait=10` waits up to so many seconds for its end")
_CONDITIONS = [
    header("If-Match", "entity tags, one of which must be the present state's; `*` is any state"),
    header("If-None-Match", "entity tags, none of which may be the present state's; `*` is any state"),
]


def raises(*codes: str) -> Responses:
    """The responses of a route that may answer these problems."""
    found: Responses = {}
    for code in codes:
        status = TABLE[code].status
        response = found.setdefault(
            status,
            {
                "description": "A problem: " + "; ".join(c for c in codes if TABLE[c].status == status),
                "content": {MEDIA_TYPE: {"schema": {"$ref": f"{REF}Problem"}, "examples": {}}},
            },
        )
        if status in _HEADERS:
            response["headers"] = _HEADERS[status]
        example = {"summary": TABLE[code].title, "description": TABLE[code].cause, "value": problem_example(code)}
        response["content"][MEDIA_TYPE]["examples"][code] = example
    return found


def located(what: str) -> dict[str, Any]:
    """The header that tells where the thing made stands."""
    return {"Location": {"description": f"path of the {what}", "schema": {"type": "string"}}}


def queues(why: str) -> Responses:
    """The response of a route that may make a job of a request."""
    return {202: {"model": JobAnswer, "description": why, "headers": {**located("job"), "Retry-After": _SECONDS}}}


def install(app: FastAPI) -> None:
    """Have the application answer this document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def operation_id(route: APIRoute) -> str:
    """The name of a call for generated clients: its function's."""
    return route.name


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and description of every call."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def problem_codes(operation: dict[str, Any]) -> dict[str, list[str]]:
    """The codes that a call may answer, by status."""
    contents = {status: response.get("content", {}) for status, response in operation["responses"].items()}
    return {
        status: list(content[MEDIA_TYPE]["examples"]) for status, content in contents.items() if MEDIA_TYPE in content
    }


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
        servers=app.servers,
        license_info=app.license_info,
    )
    schemas = document["components"]["schemas"]
    for model in (Problem, InferenceError):
        add_model(model, schemas)
    add_choices(schemas)
    exact_result(schemas)
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, method, operation in operations(document):
        _complete(path, method, operation, schemas)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return document


def _complete(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Add what every call has."""
    responses = operation["responses"]
    if JSON in responses.get("422", {}).get("content", {}):
        del responses["422"]  # FastAPI's own refusal, which this service does not answer
    operation["summary"] = operation["description"].split("\n\n")[0].replace("\n", " ").rstrip(".")
    # Without keys only this machine is served, and needs none.
    operation["security"] = [] if is_open(path) else [{"key": []}, {}]
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path" and parameter["name"] in PARAMETERS:
            parameter["description"], parameter["example"] = PARAMETERS[parameter["name"]]
    if headers := _headers(path, method, responses):
        operation.setdefault("parameters", []).extend(headers)
    exact_body(operation, schemas)
    exact_query(operation)
    codes = everywhere(path, method, operation)
    if spoken_at(path):
        operation["responses"] = responses = {**responses, **inference_errors(codes)}
    else:
        _add_problems(operation, codes)
    _add_examples(f"{method.upper()} {path}", operation)
    operation["responses"] = {status: responses[status] for status in sorted(responses)}


def _headers(path: str, method: str, responses: dict[str, Any]) -> list[dict[str, Any]]:
    """The headers that a call heeds: preferences if it may make or wait for a job, conditions if it knows states."""
    makes = "202" in responses and not {"200", "201"}.isdisjoint(responses)
    waits = method == "get" and path.startswith("/jobs/{job_id}") and not path.endswith("/events")
    return [*([_PREFER] if makes or waits else []), *(_CONDITIONS if {"304", "412"} & set(responses) else [])]


def everywhere(path: str, method: str, operation: dict[str, Any]) -> list[str]:
    """The problems that a call may answer for what it is: open or not, with a body, with an id in its path."""
    codes = [*ANYWHERE]
    if not is_open(path):
        codes += BEHIND_A_KEY
    if "requestBody" in operation:
        codes += OF_BODIES
    headers = {parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "header"}
    if "Idempotency-Key" in headers:
        codes += REPEATED
    if "If-Match" in headers:
        codes += CONDITIONAL
    if "Idempotency-Key" in headers or (method.upper() != "DELETE" and needed_scope(method.upper(), path) == "write"):
        codes.append("store-full")
    if "{" in path:
        codes.append("not-found")
    if "{" in path and spoken_at(path):
        codes += ["unknown-map", "invalid-field", *(OF_TENSORS if "requestBody" in operation else ())]
    return codes


def inference_errors(codes: Iterable[str]) -> dict[str, Any]:
    """The responses of a call of the inference protocol, in its own form."""
    found: dict[str, Any] = {}
    for code in codes:
        if code.startswith("malformed-") and code != "malformed-json":
            continue
        row = TABLE[code]
        status = status_of(row.status)
        response = found.setdefault(
            str(status),
            {
                "description": "An error of the protocol",
                "content": {JSON: {"schema": {"$ref": f"{REF}InferenceError"}, "examples": {}}},
            },
        )
        if status in _HEADERS:
            response["headers"] = _HEADERS[status]
        response["content"][JSON]["examples"][code] = {"summary": row.title, "value": {"error": row.cause}}
    return found


def _add_problems(operation: dict[str, Any], codes: list[str]) -> None:
    """Add codes to those of the route itself, each status once."""
    own = [code for known in problem_codes(operation).values() for code in known]
    for status, response in raises(*dict.fromkeys([*own, *codes])).items():
        operation["responses"][str(status)] = operation["responses"].get(str(status), {}) | response


def _add_examples(call: str, operation: dict[str, Any]) -> None:
    for example in (e for e in CALLS if e.call == call):
        described = {"summary": example.summary}
        if example.body is not None:
            sent = operation["requestBody"]["content"][JSON].setdefault("examples", {})
            sent[example.name] = described | {"value": example.body}
        answer = answer_of(call, example.name)
        if answer is not None:
            got = operation["responses"][str(example.status)]["content"][JSON].setdefault("examples", {})
            got[example.name] = described | {"value": answer}


# --- What the wire's models cannot say of bodies, queries and results
#
# Every model that a body names becomes a component, because generators of clients resolve references only there.

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
