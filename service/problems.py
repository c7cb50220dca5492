"""The one table from error codes to status codes, and the problem documents made from it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from calibrant.errors import CalibrationError
from schemas.problems import Problem, ProblemError
from storage.connection import UNAVAILABLE
from storage.errors import StorageError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
#: Seconds after which a caller may try again when the store is away.
RETRY_AFTER = "2"


class Row(NamedTuple):
    """Status and title of one error code, what causes it and how to mend it."""

    status: HTTPStatus
    title: str
    cause: str = ""
    mend: str = ""


_UNPROCESSABLE = HTTPStatus.UNPROCESSABLE_CONTENT if hasattr(HTTPStatus, "UNPROCESSABLE_CONTENT") else HTTPStatus(422)

TABLE: Mapping[str, Row] = MappingProxyType(
    {
        "bad-request": Row(HTTPStatus.BAD_REQUEST, "The request cannot be read"),
        "malformed-json": Row(HTTPStatus.BAD_REQUEST, "The body is not JSON"),
        "malformed-npz": Row(HTTPStatus.BAD_REQUEST, "The body is not an NPZ archive of plain arrays"),
        "unauthorized": Row(HTTPStatus.UNAUTHORIZED, "An API key is needed"),
        "foreign-origin": Row(HTTPStatus.FORBIDDEN, "Only this machine is served"),
        "not-found": Row(HTTPStatus.NOT_FOUND, "There is nothing here"),
        "unknown-batch": Row(HTTPStatus.NOT_FOUND, "Unknown batch"),
        "unknown-map": Row(HTTPStatus.NOT_FOUND, "Unknown map"),
        "unknown-job": Row(HTTPStatus.NOT_FOUND, "Unknown job"),
        "unknown-alias": Row(
            HTTPStatus.NOT_FOUND,
            "Unknown alias",
            "The map's name has no alias of this name.",
            "List the aliases: GET /maps/{name}/aliases.",
        ),
        "map-in-use": Row(
            HTTPStatus.CONFLICT,
            "An alias points at the map",
            "A version at which aliases point cannot be deleted.",
            "Point the aliases that the detail names at another version, or delete them, and try again.",
        ),
        "precondition-failed": Row(
            HTTPStatus.PRECONDITION_FAILED,
            "The precondition does not hold",
            "If-Match names another state than the present one, or If-None-Match: * met something that exists.",
            "Read the present state with its ETag, decide again, and send that ETag in If-Match.",
        ),
        "method-not-allowed": Row(HTTPStatus.METHOD_NOT_ALLOWED, "This method is not allowed here"),
        "too-large": Row(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large"),
        "unsupported-media-type": Row(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Unsupported content type"),
        "calibration-error": Row(_UNPROCESSABLE, "The request cannot be computed"),
        "invalid-cursor": Row(
            _UNPROCESSABLE,
            "The cursor is invalid",
            "The cursor of a list is none that a page gave.",
            "Send the next of the page before as it is, or begin without a cursor.",
        ),
        "invalid-field": Row(_UNPROCESSABLE, "A field is missing, unknown or invalid"),
        "not-a-number": Row(_UNPROCESSABLE, "Something else where a number must stand"),
        "not-finite": Row(_UNPROCESSABLE, "A number is not finite"),
        "out-of-range": Row(_UNPROCESSABLE, "A probability is out of range"),
        "wrong-shape": Row(_UNPROCESSABLE, "An array has the wrong shape"),
        "length-mismatch": Row(_UNPROCESSABLE, "Arrays differ in length"),
        "empty-batch": Row(_UNPROCESSABLE, "There are no rows"),
        "invalid-label": Row(_UNPROCESSABLE, "A label is invalid"),
        "invalid-weight": Row(_UNPROCESSABLE, "A weight is invalid"),
        "no-labels": Row(_UNPROCESSABLE, "Labels are missing"),
        "one-class": Row(_UNPROCESSABLE, "The labels hold one class only"),
        "missing-class": Row(_UNPROCESSABLE, "A class has no row"),
        "one-prediction": Row(_UNPROCESSABLE, "The predictions are all equal"),
        "too-few-rows": Row(_UNPROCESSABLE, "There are too few rows"),
        "scale-mismatch": Row(_UNPROCESSABLE, "The scale is not the map's"),
        "unknown-measure": Row(_UNPROCESSABLE, "Unknown measure"),
        "unknown-diagram": Row(_UNPROCESSABLE, "Unknown diagram"),
        "unknown-method": Row(_UNPROCESSABLE, "Unknown method"),
        "unknown-reduction": Row(_UNPROCESSABLE, "Unknown or unfitting reduction"),
        "invalid-option": Row(_UNPROCESSABLE, "An option is unknown or invalid"),
        "invalid-document": Row(_UNPROCESSABLE, "A map document is damaged"),
        "not-converged": Row(_UNPROCESSABLE, "The fit did not converge"),
        "storage-error": Row(HTTPStatus.INTERNAL_SERVER_ERROR, "The store failed"),
        "embedded-store-failed": Row(HTTPStatus.INTERNAL_SERVER_ERROR, "The store did not start"),
        "unsuitable-store": Row(HTTPStatus.SERVICE_UNAVAILABLE, "The store is not suitable"),
        "store-unavailable": Row(HTTPStatus.SERVICE_UNAVAILABLE, "The store is away"),
        "worker-lost": Row(HTTPStatus.INTERNAL_SERVER_ERROR, "The worker was lost"),
        "internal-error": Row(HTTPStatus.INTERNAL_SERVER_ERROR, "The service has an error"),
    }
)


def problem(code: str, detail: str, errors: list[ProblemError] | None = None) -> Problem:
    """Build the document of a code of ``TABLE``."""
    row = TABLE[code]
    return Problem(type=f"/problems/{code}", title=row.title, status=row.status, detail=detail, errors=errors or [])


def problem_of(error: CalibrationError | StorageError) -> Problem:
    """Build the document of an error."""
    if isinstance(error, CalibrationError):
        return problem(
            error.code, error.detail, [ProblemError(pointer=o.pointer, detail=o.detail) for o in error.offences]
        )
    places = [] if error.pointer is None else [ProblemError(pointer=error.pointer, detail=error.detail)]
    return problem(error.code, error.detail, places)


def respond(document: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Build the response of a problem."""
    return Response(document.model_dump_json(), document.status, headers=headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Turn every error into a problem document."""

    async def known(_: Request, error: Exception) -> Response:
        if not isinstance(error, CalibrationError | StorageError):
            raise error
        headers = {"WWW-Authenticate": "Bearer"} if error.code == "unauthorized" else None
        return respond(problem_of(error), headers)

    async def unavailable(_: Request, error: Exception) -> Response:
        log.warning("store away: %s", type(error).__name__)
        detail = "Redis cannot be reached; nothing was changed that was not acknowledged"
        return respond(problem("store-unavailable", detail), {"Retry-After": RETRY_AFTER})

    async def http(_: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        codes = {404: "not-found", 405: "method-not-allowed"}
        headers = error.headers if isinstance(error, HTTPException) else None
        code = codes.get(status, "bad-request" if status < 500 else "internal-error")
        return respond(problem(code, TABLE[code].title), headers)

    async def unexpected(_: Request, __: Exception) -> Response:
        # Starlette raises the error again behind this answer, and the server logs it.
        return respond(problem("internal-error", "an error of the service, not of the request; it has been logged"))

    app.add_exception_handler(CalibrationError, known)
    app.add_exception_handler(StorageError, known)
    for error in UNAVAILABLE:
        app.add_exception_handler(error, unavailable)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)
