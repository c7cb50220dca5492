"""Problems over HTTP: every error becomes its problem document."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from backend.store.errors import StorageError, StoreFull, problem_of
from backend.store.server.connection import UNAVAILABLE, StoreRefuses, kind_of
from calibrant.errors import CalibrationError
from schemas.problem_table import TABLE, problem
from schemas.problems import Problem
from service.formats.options import invalid_field
from service.inference.errors import UNKNOWN_CALL, error_of, spoken_at
from service.web.visitor import is_page, refusal

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
#: Seconds after which a caller may try again when the store is away.
RETRY_AFTER = "2"
#: What goes with problems that do not bring headers of their own.
_HEADERS: Mapping[str, Mapping[str, str]] = {
    "idempotency-in-progress": {"Retry-After": "1"},
    "too-many-streams": {"Retry-After": "5"},
    "quota-exceeded": {"Retry-After": "60"},
    "store-full": {"Retry-After": "60"},
    "monitor-full": {"Retry-After": "60"},
    "unsuitable-store": {"Retry-After": RETRY_AFTER},
    "later-format": {"Retry-After": "30"},
}


#: Details of the answers while the store refuses writes.
_REFUSALS = {
    "MISCONF": "Redis cannot save to its disk, and so refuses changes; reads go on",
    "READONLY": "Redis is a replica, and so refuses changes; reads go on",
    "NOREPLICAS": "Redis has fewer replicas than it needs to accept changes; reads go on",
    "LOADING": "Redis reads its file",
}


class ProblemResponse(Response):
    """A problem document; where another protocol is spoken at the path of the request, that protocol's error.

    At the paths of the web page it is a page.
    """

    def __init__(self, document: Problem, headers: Mapping[str, str] | None) -> None:
        super().__init__(document.model_dump_json(), document.status, headers=headers, media_type=MEDIA_TYPE)
        self._document = document
        self._extra = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer in the form that the path of the request calls for."""
        if spoken_at(scope["path"]):
            await error_of(self._document, self._extra)(scope, receive, send)
        elif is_page(scope["path"]):
            await refusal(self._document, self._extra, scope)(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def respond(document: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Build the response of a problem."""
    return ProblemResponse(document, headers)


def internal_error() -> Response:
    """Build the response to an error that nothing else answers."""
    return respond(problem("internal-error", "an error of the service, not of the request; it has been logged"))


def refused(error: CalibrationError | StorageError) -> Response:
    """Build the response to a refusal."""
    if isinstance(error, StorageError) and error.retry_after is not None:
        return respond(problem_of(error), {"Retry-After": str(error.retry_after)})
    return respond(problem_of(error), getattr(error, "headers", None) or _HEADERS.get(error.code))


def away(error: Exception) -> Response:
    """Build the response to a request that found no store, or one that cannot serve it now."""
    log.warning("store away: %s", kind_of(error))
    if isinstance(error, StoreRefuses) and error.kind == "OOM":
        return refused(StoreFull("the store has no memory left; nothing was changed"))
    if isinstance(error, StoreRefuses):
        why = _REFUSALS.get(error.kind, "Redis refuses the command")
        detail = f"{why} ({error.kind}); nothing was changed that was not acknowledged"
    else:
        detail = "Redis cannot be reached; nothing was changed that was not acknowledged"
    return respond(problem("store-unavailable", detail), {"Retry-After": RETRY_AFTER})


def install(app: FastAPI) -> None:
    """Turn every error into a problem document."""

    async def known(_: Request, error: Exception) -> Response:
        if not isinstance(error, CalibrationError | StorageError):
            raise error
        return refused(error)

    async def unavailable(_: Request, error: Exception) -> Response:
        return away(error)

    async def parameters(_: Request, error: Exception) -> Response:
        if not isinstance(error, RequestValidationError):
            raise error
        # A place begins with what it is part of: the path, the query or a header.
        return respond(problem_of(invalid_field([{**e, "loc": e["loc"][1:]} for e in error.errors()])))

    async def http(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        codes = {404: "not-found", 405: "method-not-allowed"}
        headers = error.headers if isinstance(error, HTTPException) else None
        if status == 405:
            headers = {"Allow": _allowed(request)}
        code = codes.get(status, "bad-request" if status < 500 else "internal-error")
        is_unknown_call = code == "not-found" and spoken_at(request.scope["path"])
        return respond(problem(code, UNKNOWN_CALL if is_unknown_call else TABLE[code].title), headers)

    async def unexpected(_: Request, __: Exception) -> Response:
        # Starlette raises the error again behind this answer, and the server logs it.
        return internal_error()

    app.add_exception_handler(CalibrationError, known)
    app.add_exception_handler(StorageError, known)
    for error in UNAVAILABLE:
        app.add_exception_handler(error, unavailable)
    app.add_exception_handler(RequestValidationError, parameters)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)


def _allowed(request: Request) -> str:
    """The methods of a path, of all of its routes; each route alone knows of its own."""
    named = request.app.openapi()["paths"].get(request.url.path)
    if named is not None:  # a path without parameters is itself alone, though a parameter could stand for its end
        found = [method.upper() for method in named]
    else:
        methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
        routes = request.app.router.routes
        found = [m for m in methods if any(r.matches({**request.scope, "method": m})[0] is Match.FULL for r in routes)]
    return ", ".join(["HEAD", *found] if "GET" in found else found)
