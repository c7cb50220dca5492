"""Errors of the inference protocol: a JSON object with the field ``error`` and an HTTP status."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from schemas.inference import InferenceError
from schemas.problems import Problem

#: Every path below this prefix uses the protocol, including unknown ones.
PREFIX = "/v2"
#: Marks the scope of a request whose errors have this form, whatever its path.
AS_INFERENCE_ERRORS = "calibrant.inference-errors"
#: The error of an unknown path, such as one of an unsupported extension.
UNKNOWN_CALL = "there is no such endpoint; the only supported extension of the protocol is binary_tensor_data"


def uses_protocol(path: str) -> bool:
    """Whether responses at ``path`` use the protocol."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def error_of(document: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """A problem in the form of the protocol."""
    content = InferenceError(error=document.detail).model_dump_json()
    return Response(content, status_of(document.status), headers=headers, media_type="application/json")


def status_of(status: int) -> int:
    """The status in the protocol, which has no 422: such a problem is a 400."""
    return 400 if status == 422 else status
