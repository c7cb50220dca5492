"""The OpenAPI document: FastAPI's document, completed with every status, problem and example.

Each route declares its own problems with ``raises``. This module adds the problems that every operation, or every
operation with a body, can return, and the examples of requests and responses.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from calibrant.io.strict import CLASSIFICATION, REGRESSION
from schemas.diagrams import PictureReport
from schemas.evaluate import BySizePicture, CostPlanePicture
from schemas.inference import InferenceError
from schemas.jobs import JobAnswer
from schemas.problem_table import TABLE
from schemas.problem_table.of_numbers import OF_NUMBERS
from schemas.problems import Problem
from service.access import is_open, needed_scope
from service.descriptions import DescribedRoute
from service.examples import answer_of, problem_example
from service.examples.calls import CALLS, PARAMETERS
from service.formats.options import STRUCTURED
from service.headers import Conditions, entity_tag, tagged
from service.inference.errors import status_of, uses_protocol
from service.problems import MEDIA_TYPE
from service.route_groups import every_route
from service.threads import run_in_thread

JSON = "application/json"

#: Problems of every operation.
ANYWHERE = (
    "foreign-origin",
    "internal-error",
    "url-too-long",
    "headers-too-large",
    "unsupported-transfer-coding",
    "request-timeout",
    "too-many-connections",
)
#: Problems of every operation except those of open paths.
BEHIND_A_KEY = ("unauthorized", "forbidden", "rate-limited", "deadline-exceeded", "store-unavailable")
#: Problems of every operation with a body.
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
#: Problems of every operation with an idempotency key.
REPEATED = ("idempotency-conflict", "idempotency-in-progress", "invalid-field")
#: Problems of every operation with conditions on entity tags.
CONDITIONAL = ("precondition-failed", "bad-request")
#: Problems of rows in a body; ``raises(*OF_ROWS, ...)``.
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
#: Further problems of predictive distributions.
OF_FORECASTS = ("crossing-quantiles", "invalid-variance", "prediction-kind-mismatch")
#: Problems of every evaluation of rows, whatever the form of the response.
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
    "prediction-kind-mismatch",
    "not-acceptable",
)

#: Problems of a job that ended without a result, which a request that waits for the job returns.
OF_ENDED_JOBS = (
    *(code for code in OF_NUMBERS if code != "calibration-error"),
    "unknown-batch",
    "unknown-map",
    "quota-exceeded",
    "store-full",
    "output-shape-changed",
    "job-cancelled",
    "worker-lost",
    "time-limit",
)

#: Problems of the tensors of an inference request.
OF_TENSORS = ("not-a-number", "not-finite", "out-of-range", "wrong-shape", "empty-batch", "scale-mismatch")

_SECONDS = {"description": "seconds after which to try again", "schema": {"type": "string", "pattern": "^[0-9]+$"}}
#: The headers of problem responses.
_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"description": "the authentication scheme", "schema": {"type": "string"}}},
    429: {"Retry-After": _SECONDS},
    503: {"Retry-After": _SECONDS},
    507: {"Retry-After": _SECONDS},
}

Responses = dict[int | str, dict[str, Any]]


def header(name: str, description: str) -> dict[str, Any]:
    """An optional request header, as a parameter."""
    return {"name": name, "in": "header", "required": False, "description": description, "schema": {"type": "string"}}


_PREFER = header("Prefer", "`respond-async` always creates a job; `wait=10` waits up to 10 seconds for its end")
_CONDITIONS = [
    header("If-Match", "entity tags, one of which must match the current state; `*` matches any state"),
    header("If-None-Match", "entity tags, none of which may match the current state; `*` matches any state"),
]


#: The response to a condition on an entity tag that the caller already has.
NOT_MODIFIED: Responses = {304: {"description": "If-None-Match matches the current state"}}


def raises(*codes: str) -> Responses:
    """Build the responses of a route that can return these problems."""
    found: Responses = {}
    codes = tuple(dict.fromkeys(codes))
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
    """The header with the path of the new resource."""
    return {"Location": {"description": f"path of the {what}", "schema": {"type": "string"}}}


def queues(why: str) -> Responses:
    """The response of a route that can turn a request into a job."""
    return {202: {"model": JobAnswer, "description": why, "headers": {**located("job"), "Retry-After": _SECONDS}}}


def install(app: FastAPI) -> None:
    """Make the application serve this document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    @lru_cache
    def served() -> tuple[bytes, str]:
        """The document in the form that is sent, with its tag; it never changes, and takes long to create and write."""
        body = json.dumps(openapi(), ensure_ascii=False, separators=(",", ":")).encode()
        return body, entity_tag(body)

    async def get_openapi_document(request: Request) -> Response:
        body, tag = await run_in_thread(served)
        known = Conditions.of(request.headers).known(tag)
        return known or Response(body, headers=tagged(tag), media_type="application/json")

    app.openapi = openapi  # type: ignore[method-assign]
    app.add_route("/openapi.json", get_openapi_document, include_in_schema=False)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the path, method and operation object of every operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def problem_codes(operation: dict[str, Any]) -> dict[str, list[str]]:
    """The problem codes that an operation can return, by status."""
    contents = {status: response.get("content", {}) for status, response in operation["responses"].items()}
    return {
        status: list(content[MEDIA_TYPE]["examples"]) for status, content in contents.items() if MEDIA_TYPE in content
    }


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=[route.described() if isinstance(route, DescribedRoute) else route for route in every_route(app.routes)],
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
    """Add the parts that all operations share."""
    responses = operation["responses"]
    if JSON in responses.get("422", {}).get("content", {}):
        del responses["422"]  # FastAPI's validation error, which this service never returns
    operation["summary"] = operation["description"].split("\n\n")[0].replace("\n", " ").rstrip(".")
    # Without keys the service accepts local requests only, and they need no key.
    operation["security"] = [] if is_open(path) else [{"key": []}, {}]
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path" and parameter["name"] in PARAMETERS:
            parameter["description"], parameter["example"] = PARAMETERS[parameter["name"]]
    if headers := _headers(path, method, responses):
        operation.setdefault("parameters", []).extend(headers)
    exact_body(operation, schemas)
    exact_query(operation)
    codes = everywhere(path, method, operation)
    if uses_protocol(path):
        operation["responses"] = responses = {**responses, **inference_errors(codes)}
    else:
        _add_problems(operation, codes)
    _add_examples(f"{method.upper()} {path}", operation)
    operation["responses"] = {status: responses[status] for status in sorted(responses)}


def _headers(path: str, method: str, responses: dict[str, Any]) -> list[dict[str, Any]]:
    """The headers that an operation uses: ``Prefer`` if it can create or await a job, conditions if it has states."""
    makes = "202" in responses and not {"200", "201"}.isdisjoint(responses)
    waits = method == "get" and path.startswith("/jobs/{job_id}") and not path.endswith("/events")
    return [*([_PREFER] if makes or waits else []), *(_CONDITIONS if {"304", "412"} & set(responses) else [])]


def everywhere(path: str, method: str, operation: dict[str, Any]) -> list[str]:
    """The problems that an operation can return because of its path, body and headers."""
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
    if "{" in path and uses_protocol(path):
        codes += ["unknown-map", "invalid-field", *(OF_TENSORS if "requestBody" in operation else ())]
    return codes


def inference_errors(codes: Iterable[str]) -> dict[str, Any]:
    """The responses of an operation of the inference protocol, in the form of the protocol."""
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
    """Add problem codes to those of the route; each status appears once."""
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


# --- What pydantic models cannot express about bodies, queries and results
#
# Every model of a body becomes a component, because client generators resolve references only there.

Schema = dict[str, Any]

#: Prefix of references to components.
REF = "#/components/schemas/"
_REDUCTION = (
    "^(binary|confidence|pooled|classwise|canonical|top-label|ranks|within-ranks|(class|top|within-top):[0-9]+)$"
)
_NULL = {"type": "null"}
#: The fields that give the source of the rows, by the suffix of the model that requires them.
_SOURCES = {"Rows": ("predictions", "labels", "observed"), "Batch": ("batch",), "Batches": ("batches",)}
#: The arrays of bodies of rows.
_ROWS = {*CLASSIFICATION.arrays, *REGRESSION.arrays, "levels"}


def ref(name: str) -> Schema:
    """A reference to a component."""
    return {"$ref": REF + name}


def add_choices(schemas: Schema) -> None:
    """Add the names in the catalogues, and the objects with a name and options that may replace a name."""
    from calibrant.calibrators import METHODS
    from calibrant.diagrams.catalogue import DIAGRAMS
    from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS
    from calibrant.distributions.calibrators import DISTRIBUTION_METHODS
    from calibrant.distributions.measures import DISTRIBUTION_MEASURES
    from calibrant.measures.catalogue import MEASURES
    from service.pictures import PICTURED

    known = {
        "Measure": MEASURES,
        "Diagram": DIAGRAMS,
        "DistributionMeasure": DISTRIBUTION_MEASURES,
        "DistributionDiagram": DISTRIBUTION_DIAGRAMS,
    }
    for what, names in known.items():
        schemas[f"{what}Name"] = {"type": "string", "enum": [*names]}
        schemas[f"{what}Spec"] = {
            "type": "object",
            "description": f"The name of a {_noun(what)}, and its options as further fields",
            "properties": {"name": ref(f"{what}Name")},
            "required": ["name"],
            "additionalProperties": True,
        }
    schemas["MethodName"] = {"type": "string", "enum": [*METHODS]}
    schemas["DistributionMethodName"] = {"type": "string", "enum": [*DISTRIBUTION_METHODS]}
    schemas["PictureName"] = {"type": "string", "enum": [*DIAGRAMS, *PICTURED]}
    for model in (BySizePicture, CostPlanePicture):
        add_model(model, schemas)
    _name_choices(schemas["BySizePicture"]["properties"])


def _noun(name: str) -> str:
    return name.lower().replace("distributionmeasure", "measure of predictive distributions")


def add(schemas: Schema, name: str, schema: Schema) -> None:
    """Add a component; raises ``ValueError`` if the name is taken by a different one."""
    if schemas.setdefault(name, schema) != schema:
        raise ValueError(f"two models have the name {name}")


def add_model(model: type[BaseModel], schemas: Schema) -> None:
    """Add the component of a model in the form that FastAPI uses: without nulls."""
    _add_schema(jsonable_encoder(model.model_json_schema(ref_template=REF + "{model}"), exclude_none=True), schemas)


def exact_body(operation: Schema, schemas: Schema) -> None:
    """Name the models of an operation's bodies, and add the options of binary bodies to the query."""
    content = operation.get("requestBody", {}).get("content", {})
    for about in content.values():
        found = about["schema"].get("anyOf", [about["schema"]])
        fields: Schema = {}
        for schema in found:
            for name, field in schema.get("properties", {}).items():
                if _is_of_rows(schema) and name not in _ROWS:
                    fields.setdefault(name, []).append(field)
        if fields and len(content) > 1:
            operation.setdefault("parameters", []).extend(_parameter(name, each) for name, each in fields.items())
        named = [_named(schema, schemas) for schema in found]
        about["schema"] = named[0] if len(named) == 1 else _choice(found[0]["title"], named, schemas)


def _choice(title: str, named: list[Schema], schemas: Schema) -> Schema:
    """Add the component of a body of one of several models; ``title`` is that of the first."""
    name = title.removesuffix("Body") + "Request"
    description = "`prediction_kind` declares which of the models a body has."
    add(schemas, name, {"title": name, "description": description, "anyOf": named})
    return ref(name)


def _is_of_rows(schema: Schema) -> bool:
    return not {"predictions", "quantiles"}.isdisjoint(schema.get("properties", ()))


def exact_query(operation: Schema) -> None:
    """Remove null from query parameters, and move descriptions to where client generators expect them."""
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "query":
            schema = parameter["schema"] = _without_null(parameter["schema"])
            if "description" in schema:
                parameter.setdefault("description", schema.pop("description"))


def exact_result(schemas: Schema) -> None:
    """Describe the result of a job: the map of a fit, or the report of an evaluation."""
    reports = [ref(name) for name in ("ReportAnswer", "ReportsAnswer", "DistributionReportAnswer", "PictureReport")]
    add_model(PictureReport, schemas)
    for name, field, of in (
        ("FitResult", "map", {"type": "string", "description": "id of the map"}),
        ("EvaluationResult", "report", {"anyOf": reports}),
    ):
        model = {"type": "object", "properties": {field: of}, "required": [field], "additionalProperties": False}
        add(schemas, name, model)
    schemas["JobAnswer"]["properties"]["result"]["anyOf"] = [ref("FitResult"), ref("EvaluationResult"), _NULL]


def _named(schema: Schema, schemas: Schema) -> Schema:
    """Turn the schema of a model into a component and return a reference; return any other schema unchanged."""
    if "title" not in schema:
        return schema
    _name_choices(schema["properties"])
    variants = _by_source(schema)
    if variants:
        described = {"title": schema["title"], "description": schema["description"]}
        schema = described | {"anyOf": [_add_schema(variant, schemas) for variant in variants]}
    return _add_schema(schema, schemas)


def _add_schema(schema: Schema, schemas: Schema) -> Schema:
    """Add a model and the models that it references; return a reference."""
    for name, definition in schema.pop("$defs", {}).items():
        add(schemas, name, definition)
    add(schemas, schema["title"], schema)
    return ref(schema["title"])


def _name_choices(fields: Schema) -> None:
    """Refer to the names in the catalogues, which the pydantic models do not list."""
    prefix = "Distribution" if fields.get("prediction_kind", {}).get("const") == "regression" else ""
    if "method" in fields:
        del fields["method"]["type"]
        fields["method"] |= ref(f"{prefix}MethodName")
    for field, what in (("measures", f"{prefix}Measure"), ("diagrams", f"{prefix}Diagram")):
        if field in fields:
            _array_in(fields[field])["items"] = {"anyOf": [ref(f"{what}Name"), ref(f"{what}Spec")]}
    if "diagram" in fields:
        of_forecasts = ("DistributionDiagramName", "DistributionDiagramSpec")
        names = of_forecasts if prefix else ("PictureName", "BySizePicture", "CostPlanePicture", "DiagramSpec")
        fields["diagram"]["anyOf"] = [ref(name) for name in names]
    if "reduction" in fields:
        fields["reduction"]["anyOf"] = [{"type": "string", "pattern": _REDUCTION}, _NULL]


def _array_in(field: Schema) -> Schema:
    found: Schema = next(kind for kind in field.get("anyOf", [field]) if kind.get("type") == "array")
    return found


def _by_source(schema: Schema) -> list[Schema]:
    """One model for each source of the rows that a body supports: rows, one stored batch, or several.

    Each is a complete model, because client generators ignore conditions within one model.
    """
    fields = schema["properties"]
    if "batch" not in fields or fields.keys().isdisjoint(_SOURCES["Rows"]):
        return []
    elsewhere = {*_ROWS, "batch", "batches"}
    found = []
    for suffix, names in _SOURCES.items():
        required = [name for name in names if name in fields]
        if required:
            kept = _ROWS if suffix == "Rows" else set(required)
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
    """A field without null."""
    if "anyOf" not in field:
        return field
    kinds = [kind for kind in field["anyOf"] if kind != _NULL]
    rest = {key: value for key, value in field.items() if key != "anyOf"}
    return rest | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds})


def _parameter(name: str, fields: Sequence[Schema]) -> Schema:
    """A field of one or several models of a body as a query parameter."""
    found: list[Schema] = []
    for field in fields:
        schema = {"type": "string"} if name in STRUCTURED else _without_null(field)
        schema = {key: value for key, value in schema.items() if key not in _WORDS}
        if schema not in found:
            found.append(schema)
    schema = found[0]
    if len(found) > 1:  # names of the two prediction kinds
        schema = {"type": "string", "enum": [name for each in found for name in each.get("enum", [each.get("const")])]}
    description = "for a binary body; JSON text" if name in STRUCTURED else "for a binary body"
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


#: The keys of a field's schema that describe it rather than restrict its values.
_WORDS = ("title", "description", "examples", "default")
