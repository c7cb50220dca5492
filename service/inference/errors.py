"""Errors as the protocol tells them: one JSON object with the field ``error``, under an HTTP status."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from schemas.inference import InferenceError
from schemas.problems import Problem

#: Everything at or under this path speaks the protocol, errors of unknown routes too.
PREFIX = "/v2"
#: The answer to a path that is unknown, such as one of an extension that is not offered.
UNKNOWN_CALL = "there is no such call; the only extension of the protocol that this server offers is binary_tensor_data"


def spoken_at(path: str) -> bool:
    """Whether a request to ``path`` is answered in the protocol."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def error_of(document: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The protocol's form of a problem."""
    content = InferenceError(error=document.detail).model_dump_json()
    return Response(content, status_of(document.status), headers=headers, media_type="application/json")


def status_of(status: int) -> int:
    """The protocol knows of no 422: a request that is refused for its content is a 400."""
    return 400 if status == 422 else status
