"""The OpenAPI document, made from the declarations of the calls.

Each call declares its own problems. This module adds the problems and headers that every call, or every call with a
body, can have, and the examples of requests and responses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, get_args

from fastapi import FastAPI, Request, Response
from fastapi.encoders import jsonable_encoder
from pydantic import BaseModel, TypeAdapter

from calibrant.io.strict import CLASSIFICATION, REGRESSION
from calibrant.sets.fitting import SET_METHODS
from schemas.audit import MAX_NOTE
from schemas.evaluations import BySizePicture, CostPlanePicture
from schemas.inference import InferenceError
from schemas.jobs import JobAnswer
from schemas.problem_table import TABLE
from schemas.problems import Problem
from schemas.sources import ScoredAnswer
from service.calls import Body, Call, Schema, model_of
from service.examples import answer_of, problem_example
from service.examples.calls import examples_of, parameter
from service.formats.catalogue import FORMATS
from service.formats.media import JSON, MERGE_PATCH, schema_of
from service.formats.options import structured_fields
from service.headers import NOTE, Conditions, entity_tag, tagged
from service.inference.errors import status_of, uses_protocol
from service.problems import MEDIA_TYPE
from service.route_table import RouteTable
from service.threads import run_in_thread

# --- Problems of calls with a body, with conditions and so on

#: Problems of every call.
ANYWHERE = (
    "foreign-origin",
    "internal-error",
    "url-too-long",
    "headers-too-large",
    "unsupported-transfer-coding",
    "request-timeout",
    "too-many-connections",
)
#: Problems of every call except those that are open.
BEHIND_A_KEY = (
    *("unauthorized", "invalid-token", "forbidden", "rate-limited", "deadline-exceeded", "store-unavailable"),
    "issuer-unavailable",
)
#: Problems of every call with a body.
OF_BODIES = (
    *dict.fromkeys(body_format.malformed.code for body_format in FORMATS),
    "malformed-encoding",
    "request-timeout",
    "too-large",
    "unsupported-media-type",
    "invalid-field",
    "busy",
)
#: Problems of every call with an idempotency key.
REPEATED = ("idempotency-conflict", "idempotency-in-progress", "invalid-field")
#: Problems of every call with conditions on entity tags.
CONDITIONAL = ("precondition-failed", "bad-request")
#: Problems of the tensors of an inference request.
OF_TENSORS = ("not-a-number", "not-finite", "out-of-range", "wrong-shape", "empty-batch", "scale-mismatch")


def common_problems(call: Call) -> list[str]:
    """The problems that a call can have because of its path, access, body and headers."""
    codes = [*ANYWHERE]
    if not call.is_open:
        codes += BEHIND_A_KEY
    if call.body is not None:
        codes += OF_BODIES
    if call.query is not None:
        codes.append("invalid-field")
    if call.is_paged:
        codes.append("invalid-cursor")
    if call.method == "POST":
        codes += REPEATED
    if call.conditional:
        codes += CONDITIONAL
    if _is_noted(call):
        codes.append("invalid-field")
    if call.method == "POST" or call.stores:
        codes.append("store-full")
    if "{" in call.path:
        codes.append("not-found")
    if "{" in call.path and uses_protocol(call.path):
        codes += ["unknown-map", "invalid-field", *(OF_TENSORS if call.body is not None else ())]
    if "busy" in (*call.problems, *codes):  # the same limits for a tenant
        codes.append("too-many-requests")
    return codes


# --- Headers

_TEXT = {"type": "string"}
#: Headers of responses, which the document has once.
_SENT: dict[str, str] = {
    "X-Request-Id": "id of the request, that of its own header `X-Request-Id` if it is valid",
    "RateLimit-Policy": "the requests per minute that the API key may send; missing without a limit",
    "RateLimit": "the requests that remain, and the seconds until they are restored; missing without a limit",
    "Idempotency-Replayed": "`true` for the stored response to an earlier request with the same key",
    "Idempotency-Ignored": "`true` if the key of the request was ignored, because the store was unavailable",
    "Calibrant-Stale": "seconds since the maps and API keys in memory were those of the store, while it is unavailable",
    "Preference-Applied": "the preferences that were honoured",
    "ETag": "entity tag of the state",
    "Link": "path of the next page; missing on the last",
    "Vary": "the request headers that the response depends on",
    "Content-Encoding": "the coding of a compressed body, as `Accept-Encoding` prefers",
}
_SECONDS = {"description": "seconds after which to try again", "schema": {"type": "string", "pattern": "^[0-9]+$"}}
#: The headers of problem responses.
_HEADERS: dict[int, Schema] = {
    401: {"WWW-Authenticate": {"description": "the scheme, and why a token is refused", "schema": _TEXT}},
    403: {"WWW-Authenticate": {"description": "the scope that the caller lacks", "schema": _TEXT}},
    408: {"Retry-After": _SECONDS},
    429: {"Retry-After": _SECONDS},
    503: {"Retry-After": _SECONDS},
    507: {"Retry-After": _SECONDS},
}
#: Those of a single problem, besides those of its status.
_OF_CODES: dict[str, Schema] = {
    "idempotency-in-progress": {"Retry-After": _SECONDS},
    "unsupported-media-type": {
        "Accept-Encoding": {"description": "the codings of bodies, if the request had another", "schema": _TEXT}
    },
}


def _header(name: str, description: str, **schema: Any) -> Schema:
    """An optional request header, as a parameter."""
    return {"name": name, "in": "header", "required": False, "description": description, "schema": _TEXT | schema}


_PREFER = _header("Prefer", "`respond-async` always creates a job; `wait=10` waits up to 10 seconds for its end")
_CONDITIONS = [
    _header("If-Match", "entity tags, one of which must match the current state; `*` matches any state"),
    _header("If-None-Match", "entity tags, none of which may match the current state; `*` matches any state"),
]
_KEY = _header(
    "Idempotency-Key",
    "A repeated request with the same key gets the same response and takes effect only once.",
    pattern="^[!-~]{1,255}$",
)


_NOTE = _header(NOTE, f"why the caller makes the change, for the audit log: UTF-8, at most {MAX_NOTE} characters")
#: Scopes of calls whose changes are in the audit log.
_NOTED = ("maps:write", "maps:promote", "monitors:write", "admin")


def _is_noted(call: Call) -> bool:
    """Whether a call changes what has entries in the audit log."""
    return call.needed_scope in _NOTED and call.method != "GET"


def _located(what: str) -> Schema:
    """The header with the path of a new resource."""
    return {"Location": {"description": f"path of the {what}", "schema": _TEXT}}


def _sent(*names: str) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _add_headers(call: Call, responses: Schema) -> None:
    """Add the headers that responses have because of the access and the headers of the call."""
    everywhere = ["X-Request-Id"]
    if not call.is_open:
        everywhere += ["RateLimit-Policy", "RateLimit"]
    if call.method == "POST":
        everywhere.append("Idempotency-Replayed")
    if call.from_memory:
        everywhere += ["Calibrant-Stale", *(["Idempotency-Ignored"] if call.method == "POST" else [])]
    if call.queues is not None or call.waits:
        everywhere.append("Preference-Applied")
    everywhere += ["Vary", "Content-Encoding"]
    if call.method == "PATCH":
        described = {"description": "the content type of a change", "schema": _TEXT}
        responses["415"]["headers"] = {**responses["415"]["headers"], "Accept-Patch": described}
    for response in responses.values():
        response["headers"] = {**response.get("headers", {}), **_sent(*everywhere)}


# --- The document


def install(app: FastAPI, table: RouteTable) -> None:
    """Make the application serve this document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            table.load_all()
            app.openapi_schema = _document(app, [call for call in table.calls if call.is_documented])
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


def _document(app: FastAPI, calls: Sequence[Call]) -> dict[str, Any]:
    schemas: Schema = {}
    for model in (Problem, InferenceError):
        add_model(model, schemas)
    add_choices(schemas)
    paths: dict[str, Any] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call, schemas)
    exact_result(schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": app.title,
            "description": app.description,
            "license": app.license_info,
            "version": app.version,
        },
        "servers": app.servers,
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "headers": {name: {"description": text, "schema": _TEXT} for name, text in _SENT.items()},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "an API key"},
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "a token of the issuer that the service is configured for, if any",
                },
            },
        },
    }


def _operation(call: Call, schemas: Schema) -> Schema:
    body, options = (None, []) if call.body is None else _body(call.body, schemas)
    parameters = [*_path(call), *_query(call), *options, *_request_headers(call)]
    codes = [*call.problems, *common_problems(call)]
    problems = inference_errors(codes) if uses_protocol(call.path) else problem_responses(codes)
    responses = _successes(call, schemas) | problems
    _add_headers(call, responses)
    scopes = [] if call.needed_scope is None else [call.needed_scope]
    operation = {
        "tags": [call.tag],
        "summary": call.description.split("\n\n")[0].replace("\n", " ").rstrip("."),
        "description": call.description,
        "operationId": call.name,
        # Without keys the service accepts local requests only, and they need no key.
        "security": [] if call.is_open else [{scheme: scopes} for scheme in ("key", "token")] + [{}],
        **({"parameters": parameters} if parameters else {}),
        **({} if body is None else {"requestBody": {"required": True, "content": body}}),
        "responses": {status: responses[status] for status in sorted(responses)},
    }
    _add_examples(call, operation)
    return operation


def _path(call: Call) -> Iterator[Schema]:
    for name in re.findall(r"\{(\w+)\}", call.path):
        description, example = parameter(call.path, name)
        about = {"description": description, "example": example}
        yield {"name": name, "in": "path", "required": True, "schema": _TEXT, **about}


def _query(call: Call) -> Iterator[Schema]:
    schema = {} if call.query is None else _plain(call.query.model_json_schema())
    for name, field in schema.get("properties", {}).items():
        yield _query_parameter(name, _without_null(field), required=name in schema.get("required", ()))


def _query_parameter(name: str, schema: Schema, *, required: bool = False, description: str | None = None) -> Schema:
    """A query parameter; client generators expect its description outside its schema."""
    schema = dict(schema)
    description = schema.pop("description", None) if description is None else description
    about = {} if description is None else {"description": description}
    return {"name": name, "in": "query", "required": required, **about, "schema": schema}


def _request_headers(call: Call) -> Iterator[Schema]:
    for name, about in call.headers.items():
        yield {"name": name, "in": "header", "required": False, **about}
    if call.method == "POST":
        yield _KEY
    if call.queues is not None or call.waits:
        yield _PREFER
    if call.conditional:
        yield from _CONDITIONS
    if _is_noted(call):
        yield _NOTE


def _successes(call: Call, schemas: Schema) -> Schema:
    content: Schema = {} if call.answer is None else {JSON: {"schema": _answer(call.answer, schemas)}}
    content |= {media: {"schema": schema_of(media)} for media in call.media}
    headers = {**call.sends, **({} if call.located is None else _located(call.located))}
    if call.tagged or (call.conditional and call.method == "GET"):
        headers |= _sent("ETag")
    if call.is_paged and call.links:
        headers |= _sent("Link")
    responses: Schema = {str(call.status): _response(call.meaning, content, headers)}
    if call.queues is not None:
        job = {JSON: {"schema": _answer(JobAnswer, schemas)}}
        responses["202"] = _response(call.queues, job, {**_located("job"), "Retry-After": _SECONDS})
    if call.ends is not None:
        responses["204"] = _response(call.ends)
    if call.conditional and call.method == "GET":
        responses["304"] = _response("If-None-Match matches the current state", headers=_sent("ETag"))
    return responses


def _response(description: str, content: Schema | None = None, headers: Schema | None = None) -> Schema:
    parts = {"headers": headers, "content": content}
    return {"description": description} | {name: part for name, part in parts.items() if part}


def _answer(answer: Any, schemas: Schema) -> Schema:
    """Add the models of an answer; return its schema."""
    answer = model_of(answer)
    if get_args(answer):
        return {"anyOf": [_answer(model, schemas) for model in get_args(answer)]}
    return _add_schema(
        _plain(TypeAdapter(answer).json_schema(mode="serialization", ref_template=REF + "{model}")), schemas
    )


def problem_responses(codes: Iterable[str]) -> Schema:
    """The responses with these problems, by status."""
    responses: Schema = {}
    codes = tuple(dict.fromkeys(codes))
    for code in codes:
        status = TABLE[code].status
        response = responses.setdefault(
            str(status),
            {
                "description": "A problem: " + "; ".join(c for c in codes if TABLE[c].status == status),
                "content": {MEDIA_TYPE: {"schema": ref("Problem"), "examples": {}}},
            },
        )
        _add_headers_of(code, response)
        example = {"summary": TABLE[code].title, "description": TABLE[code].cause, "value": problem_example(code)}
        response["content"][MEDIA_TYPE]["examples"][code] = example
    return responses


def _add_headers_of(code: str, response: Schema) -> None:
    """Add the headers of a problem to the response with its status."""
    headers = {**_HEADERS.get(TABLE[code].status, {}), **_OF_CODES.get(code, {})}
    if headers:
        response["headers"] = {**response.get("headers", {}), **headers}


def inference_errors(codes: Iterable[str]) -> Schema:
    """The responses of an operation of the inference protocol, in the form of the protocol."""
    responses: Schema = {}
    for code in codes:
        if code.startswith("malformed-") and code != "malformed-json":
            continue
        row = TABLE[code]
        status = status_of(row.status)
        response = responses.setdefault(
            str(status),
            {
                "description": "An error of the protocol",
                "content": {JSON: {"schema": ref("InferenceError"), "examples": {}}},
            },
        )
        _add_headers_of(code, response)
        response["content"][JSON]["examples"][code] = {"summary": row.title, "value": {"error": row.cause}}
    return responses


def _add_examples(call: Call, operation: Schema) -> None:
    for example in examples_of(call):
        described = {"summary": example.summary}
        if example.body is not None:
            content = operation["requestBody"]["content"]
            sent = content[MERGE_PATCH if MERGE_PATCH in content else JSON].setdefault("examples", {})
            sent[example.name] = described | {"value": example.body}
        answer = answer_of(str(call), example.name)
        if answer is not None:
            got = operation["responses"][str(example.status)]["content"][JSON].setdefault("examples", {})
            got[example.name] = described | {"value": answer}


# --- What pydantic models cannot express about bodies, queries and results
#
# Every model of a body becomes a component, because client generators resolve references only there.

#: Prefix of references to components.
REF = "#/components/schemas/"
_REDUCTION = (
    "^(binary|confidence|pooled|classwise|canonical|top-label|ranks|within-ranks|class:.+|(top|within-top):[0-9]+)$"
)
_NULL = {"type": "null"}
#: The fields that give the source of the rows, by the suffix of the model that requires them.
_SOURCES = {
    "Rows": ("predictions", "labels", "observed"),
    "Models": ("models", "labels"),
    "Batch": ("batch",),
    "Batches": ("batches",),
    "Source": ("source",),
    "Table": ("table",),
}
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
            "properties": {"name": ref(f"{what}Name") | {"description": "the name"}},
            "required": ["name"],
            "additionalProperties": True,
        }
    schemas["MethodName"] = {"type": "string", "enum": [*METHODS, *SET_METHODS]}
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
    """Add the component of a model."""
    _add_schema(_plain(model.model_json_schema(ref_template=REF + "{model}")), schemas)


def _plain(schema: Schema) -> Schema:
    """A schema without defaults of null."""
    plain: Schema = jsonable_encoder(schema, exclude_none=True)
    return plain


def _body(body: Body, schemas: Schema) -> tuple[Schema, list[Schema]]:
    """The content of a body, and its options as parameters if they can be in the query."""
    models = [_plain(model.model_json_schema(ref_template=REF + "{model}")) for model in body.models]
    options: dict[str, list[Schema]] = {}
    for name, field in (pair for model in models for pair in model["properties"].items()):
        if body.options_in_query and name not in _ROWS and field.get("type") != "null":
            options.setdefault(name, []).append(field)
    structured = {name for model in body.models for name in structured_fields(model)}
    parameters = [_parameter(name, fields, is_json=name in structured) for name, fields in options.items()]
    named = [_named(model, schemas) for model in models]
    model = named[0] if len(named) == 1 else _choice(models[0]["title"], named, schemas)
    others = {media: {"schema": schema_of(media)} for media in body.others if media != body.media}
    return {body.media: {"schema": model}, **others}, parameters


def _choice(title: str, named: list[Schema], schemas: Schema) -> Schema:
    """Add the component of a body of one of several models; ``title`` is that of the first."""
    name = title.removesuffix("Body") + "Request"
    description = "`prediction_kind` declares which of the models a body has."
    add(schemas, name, {"title": name, "description": description, "anyOf": named})
    return ref(name)


def exact_result(schemas: Schema) -> None:
    """Describe the result of a job: the map of a fit, the report of an evaluation, or what was written or counted."""
    from schemas.backfills import BackfillAnswer  # with the monitors, which a start does not load
    from schemas.results import PictureReport

    reports = [ref(name) for name in ("ReportAnswer", "ReportsAnswer", "DistributionReportAnswer", "PictureReport")]
    add_model(PictureReport, schemas)
    for name, field, of in (
        ("FitResult", "map", {"type": "string", "description": "id of the map"}),
        ("EvaluationResult", "report", {"anyOf": reports, "description": "the report"}),
    ):
        model = {"type": "object", "properties": {field: of}, "required": [field], "additionalProperties": False}
        add(schemas, name, model)
    for answer in (ScoredAnswer, BackfillAnswer):
        add_model(answer, schemas)
    results = [ref(name) for name in ("ScoredAnswer", "BackfillAnswer", "FitResult", "EvaluationResult")]
    schemas["JobAnswer"]["properties"]["result"]["anyOf"] = [*results, _NULL]


def _named(schema: Schema, schemas: Schema) -> Schema:
    """Turn the schema of a model into a component and return a reference."""
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
    return next(kind for kind in field.get("anyOf", [field]) if kind.get("type") == "array")


def _by_source(schema: Schema) -> list[Schema]:
    """One model for each source of the rows that a body supports: rows, those of models, batches, or files.

    Each is a complete model, because client generators ignore conditions within one model.
    """
    fields = schema["properties"]
    if "batch" not in fields or fields.keys().isdisjoint(_SOURCES["Rows"]):
        return []
    elsewhere = {*_ROWS, "models", "batch", "batches", "source", "table"}
    models = []
    for suffix, names in _SOURCES.items():
        required = [name for name in names if name in fields]
        if required and (suffix != "Models" or "models" in fields):
            names_of_model = {*required, *(_ROWS if suffix in ("Rows", "Models") else ())}
            if suffix == "Models":
                names_of_model.remove("predictions")
            own = {name: field for name, field in fields.items() if name in names_of_model or name not in elsewhere}
            models.append(
                schema
                | {
                    "title": schema["title"].removesuffix("Body") + suffix,
                    "description": f"{schema['description'].removesuffix('.')}, with `{'` and `'.join(required)}`.",
                    "properties": own | {name: _without_null(own[name]) for name in required},
                    "required": [*schema.get("required", ()), *required],
                }
            )
    return models


def _without_null(field: Schema) -> Schema:
    """A field without null."""
    if "anyOf" not in field:
        return field
    kinds = [kind for kind in field["anyOf"] if kind != _NULL]
    rest = {key: value for key, value in field.items() if key != "anyOf"}
    return rest | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds})


def _parameter(name: str, fields: Sequence[Schema], *, is_json: bool) -> Schema:
    """A field of one or several models of a body as a query parameter."""
    schemas: list[Schema] = []
    for field in fields:
        schema = {"type": "string"} if is_json else _without_null(field)
        schema = {key: value for key, value in schema.items() if key not in _WORDS}
        if schema not in schemas:
            schemas.append(schema)
    schema = schemas[0]
    if len(schemas) > 1:  # names of the two prediction kinds
        schema = {
            "type": "string",
            "enum": [name for variant in schemas for name in variant.get("enum", [variant.get("const")])],
        }
    description = "for a binary body; JSON text" if is_json else "for a binary body"
    return _query_parameter(name, schema, description=description)


#: The keys of a field's schema that describe it rather than restrict its values.
_WORDS = ("title", "description", "examples", "default")
