"""HTTP responses for errors: problem documents, or what the path of a request requires."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from backend.store.errors import StorageError, UnknownBatch, UnknownMap, of_options, problem_of
from backend.telemetry.observed import note_problem
from calibrant.core.errors import CalibrationError
from calibrant.io.strict import CLASSIFICATION, REGRESSION
from schemas.problem_table import problem
from schemas.problems import Problem, ProblemError, in_body
from service.errors import HEADER
from service.formats.catalogue import BY_TYPE, READERS
from service.inference.errors import AS_INFERENCE_ERRORS, error_of, uses_protocol
from service.web.visitor import is_page, refusal

MEDIA_TYPE = "application/problem+json"
#: Seconds after which a client may try again while the store is unavailable.
RETRY_AFTER = "2"
#: Headers of problems that do not set headers of their own.
PROBLEM_HEADERS: Mapping[str, Mapping[str, str]] = {
    "idempotency-in-progress": {"Retry-After": "1"},
    "request-timeout": {"Retry-After": "1"},
    "too-many-connections": {"Retry-After": RETRY_AFTER},
    "too-many-streams": {"Retry-After": "5"},
    "quota-exceeded": {"Retry-After": "60"},
    "store-full": {"Retry-After": "60"},
    "spool-full": {"Retry-After": "60"},
    "monitor-full": {"Retry-After": "60"},
    "unsuitable-store": {"Retry-After": RETRY_AFTER},
    "later-format": {"Retry-After": "30"},
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
        if uses_protocol(scope["path"]) or scope.get(AS_INFERENCE_ERRORS, False):
            await error_of(self._document, self._extra)(scope, receive, send)
        elif is_page(scope):
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
    return respond(document, getattr(error, "headers", None) or PROBLEM_HEADERS.get(error.code))


#: What paths with a reference to a map or a batch contain; the other calls name them in their options.
_PATHS: Mapping[type[StorageError], tuple[str, ...]] = {
    UnknownMap: ("/maps/{", "/v1/", "/v2/", "/ui/"),
    UnknownBatch: ("/batches/{", "/ui/"),
}
_WITH_BODY = ("POST", "PUT", "PATCH")
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
    if not (_is_parameter(scope, name) if pointer else scope["method"] not in _WITH_BODY):
        return in_body(pointer, detail)
    return ProblemError(parameter=name, detail=f"{rest}: {detail}" if rest else detail)


def _is_parameter(scope: Scope, name: str) -> bool:
    if scope["method"] not in _WITH_BODY or name in QueryParams(scope["query_string"]):
        return True
    kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    of_monitor = scope["path"].startswith("/monitors/")  # whose rows have other fields, and no options
    return kind in READERS and not BY_TYPE[kind].options_in_body and name not in _ROWS and not of_monitor
