"""The OpenAPI document: what FastAPI makes of the routes, with every status, problem and example added.

A route tells by ``raises`` which problems are its own. What every call may answer, and every call with a body, is
added here; so are the examples of requests and answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from schemas.inference import InferenceError
from schemas.jobs import JobAnswer
from schemas.problem_table import TABLE
from schemas.problems import Problem
from service.access import needed_scope
from service.exact import REF, add_choices, add_model, exact_body, exact_query, exact_result
from service.examples import answer_of, problem_example
from service.examples.calls import CALLS, PARAMETERS
from service.inference.errors import spoken_at, status_of
from service.open_paths import is_open
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
        told = {"summary": example.summary}
        if example.body is not None:
            sent = operation["requestBody"]["content"][JSON].setdefault("examples", {})
            sent[example.name] = told | {"value": example.body}
        answer = answer_of(call, example.name)
        if answer is not None:
            got = operation["responses"][str(example.status)]["content"][JSON].setdefault("examples", {})
            got[example.name] = told | {"value": answer}
