"""HTTP responses for errors: every error becomes a problem document."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from backend.store.errors import StorageError, StoreFull, UnknownBatch, UnknownMap, of_options, problem_of
from backend.store.server.connection import UNAVAILABLE, StoreRefuses, error_name
from backend.telemetry.observed import note_problem
from calibrant.core.errors import CalibrationError
from calibrant.io.strict import CLASSIFICATION, REGRESSION
from schemas.problem_table import TABLE, problem
from schemas.problems import Problem, ProblemError, in_body
from service.errors import HEADER
from service.formats.catalogue import BY_TYPE, READERS
from service.formats.options import invalid_field
from service.inference.errors import UNKNOWN_CALL, error_of, uses_protocol
from service.web.visitor import is_page, refusal

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
#: Seconds after which a client may try again while the store is unavailable.
RETRY_AFTER = "2"
#: Headers of problems that do not set headers of their own.
_HEADERS: Mapping[str, Mapping[str, str]] = {
    "idempotency-in-progress": {"Retry-After": "1"},
    "too-many-streams": {"Retry-After": "5"},
    "quota-exceeded": {"Retry-After": "60"},
    "store-full": {"Retry-After": "60"},
    "monitor-full": {"Retry-After": "60"},
    "unsuitable-store": {"Retry-After": RETRY_AFTER},
    "later-format": {"Retry-After": "30"},
}


#: Details of responses while Redis refuses writes.
_REFUSALS = {
    "MISCONF": "Redis cannot save to disk and refuses writes; reads are still possible",
    "READONLY": "Redis is a read-only replica and refuses writes; reads are still possible",
    "NOREPLICAS": "Redis has too few replicas and refuses writes; reads are still possible",
    "LOADING": "Redis is loading its data",
}


class ProblemAnswer(Response):
    """A problem document; below the path of the inference protocol, an error of that protocol.

    At the paths of the web page it is an HTML page.
    """

    def __init__(self, document: Problem, headers: Mapping[str, str] | None) -> None:
        super().__init__(document.model_dump_json(), document.status, headers=headers, media_type=MEDIA_TYPE)
        self._document = document
        self._extra = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response in the form that the path of the request requires."""
        note_problem(self._document.code)
        if uses_protocol(scope["path"]):
            await error_of(self._document, self._extra)(scope, receive, send)
        elif is_page(scope["path"]):
            await refusal(self._document, self._extra, scope)(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def respond(document: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Build the response for a problem."""
    return ProblemAnswer(document, headers)


def internal_error() -> Response:
    """Build the response for an unexpected error."""
    return respond(problem("internal-error", "the service failed; the error has been logged"))


def refused(error: CalibrationError | StorageError, scope: Scope | None = None) -> Response:
    """Build the response for a rejected request, whose places are found in its ``scope``."""
    if scope is None:
        document = problem_of(error)
    elif _is_of_path(error, scope):
        named = next(iter(scope.get("path_params", ())), "path")
        document = problem_of(error, lambda _, detail: ProblemError(parameter=named, detail=detail))
    else:
        error = of_options(error)
        document = problem_of(error, partial(_place_in, scope))
    if isinstance(error, StorageError) and error.retry_after is not None:
        return respond(document, {"Retry-After": str(error.retry_after)})
    return respond(document, getattr(error, "headers", None) or _HEADERS.get(error.code))


#: What paths with a reference to a map or a batch contain; the other calls name them in their options.
_PATHS: Mapping[type[StorageError], tuple[str, ...]] = {
    UnknownMap: ("/maps/{", "/v2/", "/ui/"),
    UnknownBatch: ("/batches/{", "/ui/"),
}
_ROWS = frozenset((*CLASSIFICATION.arrays, *CLASSIFICATION.shared, *REGRESSION.arrays, *REGRESSION.shared))


def _is_of_path(error: CalibrationError | StorageError, scope: Scope) -> bool:
    """Whether a reference that leads nowhere is in the path of the request."""
    path = str(getattr(scope.get("route"), "path", scope["path"]))
    return isinstance(error, StorageError) and any(part in path for part in _PATHS.get(type(error), ()))


def _place_in(scope: Scope, pointer: str, detail: str) -> ProblemError:
    """The place that a pointer means in a request: options of calls without a body, and with rows of most formats, are
    parameters.
    """
    if pointer.startswith(HEADER):
        return ProblemError(header=pointer.removeprefix(HEADER), detail=detail)
    name, _, rest = pointer[1:].partition("/")
    name = name.replace("~1", "/").replace("~0", "~")
    if not pointer or not _is_parameter(scope, name):
        return in_body(pointer, detail)
    return ProblemError(parameter=name, detail=f"{rest}: {detail}" if rest else detail)


def _is_parameter(scope: Scope, name: str) -> bool:
    if scope["method"] not in ("POST", "PUT", "PATCH") or name in QueryParams(scope["query_string"]):
        return True
    kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    of_monitor = scope["path"].startswith("/monitors/")  # whose rows have other fields, and no options
    return kind in READERS and not BY_TYPE[kind].options_in_body and name not in _ROWS and not of_monitor


def unavailable_response(error: Exception) -> Response:
    """Build the response for a request that could not use the store."""
    log.warning("store unavailable: %s", error_name(error))
    if isinstance(error, StoreRefuses) and error.kind == "OOM":
        return refused(StoreFull("Redis is out of memory; nothing was changed"))
    if isinstance(error, StoreRefuses):
        why = _REFUSALS.get(error.kind, "Redis refused the command")
        detail = f"{why} ({error.kind}); the request may not have been applied"
    else:
        detail = "Redis cannot be reached; the request may not have been applied"
    return respond(problem("store-unavailable", detail), {"Retry-After": RETRY_AFTER})


def install(app: FastAPI) -> None:
    """Install handlers that turn every error into a problem document."""

    async def known(request: Request, error: Exception) -> Response:
        if not isinstance(error, CalibrationError | StorageError):
            raise error
        return refused(error, request.scope)

    async def unavailable(_: Request, error: Exception) -> Response:
        return unavailable_response(error)

    async def parameters(_: Request, error: Exception) -> Response:
        if not isinstance(error, RequestValidationError):
            raise error
        # The first part of a location is its source: the path or the query.
        invalid = invalid_field([{**e, "loc": e["loc"][1:]} for e in error.errors()])
        return respond(problem_of(invalid, lambda at, detail: ProblemError(parameter=at[1:], detail=detail)))

    async def http(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        codes = {404: "not-found", 405: "method-not-allowed"}
        headers = error.headers if isinstance(error, HTTPException) else None
        code = codes.get(status, "bad-request" if status < 500 else "internal-error")
        detail = TABLE[code].title
        if status == 405:
            allowed = _allowed(request)
            headers, detail = {"Allow": allowed}, f"this path supports the methods {allowed}"
        elif status == 404:
            detail = UNKNOWN_CALL if uses_protocol(request.scope["path"]) else _nothing_at(request.scope["path"])
        return respond(problem(code, detail), headers)

    async def unexpected(_: Request, __: Exception) -> Response:
        # Starlette raises the error again after this response, and the server logs it.
        return internal_error()

    app.add_exception_handler(CalibrationError, known)
    app.add_exception_handler(StorageError, known)
    for error in UNAVAILABLE:
        app.add_exception_handler(error, unavailable)
    app.add_exception_handler(RequestValidationError, parameters)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)


def _nothing_at(path: str) -> str:
    """The detail of a 404 for a path that no route matches."""
    remedy = "remove the slash at its end" if path.endswith("/") else "GET /docs lists the endpoints"
    return f"there is nothing at this path; {remedy}"


def _allowed(request: Request) -> str:
    """The methods of all routes that match the path; Starlette's own header covers a single route."""
    named = request.app.openapi()["paths"].get(request.url.path)
    if named is not None:  # an exact path, even if a route with a parameter would match it too
        found = [method.upper() for method in named]
    else:
        methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
        routes = request.app.router.routes
        found = [m for m in methods if any(r.matches({**request.scope, "method": m})[0] is Match.FULL for r in routes)]
        found = found or ["GET"]  # a file, which has no route
    return ", ".join(["HEAD", *found] if "GET" in found else found)
