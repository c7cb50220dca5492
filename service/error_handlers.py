"""The handlers by which every error of the API becomes a response."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from backend.store.errors import StorageError, StoreFull, problem_of
from backend.store.server.connection import UNAVAILABLE, StoreRefuses, error_name
from calibrant.core.errors import CalibrationError
from schemas.problem_table import TABLE, problem
from schemas.problems import ProblemError
from service.formats.options import invalid_field
from service.inference.errors import UNKNOWN_CALL, uses_protocol
from service.problems import RETRY_AFTER, internal_error, refused, respond

log = logging.getLogger(__name__)

#: Details of responses while Redis refuses writes.
_REFUSALS = {
    "MISCONF": "Redis cannot save to disk and refuses writes; reads are still possible",
    "READONLY": "Redis is a read-only replica and refuses writes; reads are still possible",
    "NOREPLICAS": "Redis has too few replicas and refuses writes; reads are still possible",
    "LOADING": "Redis is loading its data",
}


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
        methods_of_path = [method.upper() for method in named]
    else:
        methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
        routes = request.app.router.routes
        methods_of_path = [
            m for m in methods if any(r.matches({**request.scope, "method": m})[0] is Match.FULL for r in routes)
        ]
        methods_of_path = methods_of_path or ["GET"]  # a file, which has no route
    return ", ".join(["HEAD", *methods_of_path] if "GET" in methods_of_path else methods_of_path)
