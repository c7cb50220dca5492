"""The body of an inference request: a JSON object, and after it the bytes of its binary tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.inference import InferenceRequest
from service.errors import InvalidField, UnsupportedMediaType
from service.formats.json_body import parse_json
from service.formats.json_structure import check_depth, check_keys, skeleton
from service.formats.limits import Limits
from service.formats.options import read_options
from service.formats.payload import Body, Payload

#: The header that tells where the JSON object ends.
LENGTH_HEADER = "Inference-Header-Content-Length"
JSON = "application/json"
BINARY = "application/octet-stream"


def check_media_type(content_type: str) -> None:
    """Refuse a content type that the protocol does not use.

    The length header alone says whether binary tensors follow the JSON object. Triton's clients send JSON tensors
    without a content type, or as ``application/octet-stream``.
    """
    if content_type.partition(";")[0].strip().lower() not in (JSON, BINARY, ""):
        raise UnsupportedMediaType(f"the content type must be {JSON} or {BINARY}, or absent")


def split(body: Body, lengths: Sequence[str]) -> tuple[memoryview, memoryview]:
    """The JSON object of a body and what follows it, as the values of the length header tell."""
    view = memoryview(body)
    if not lengths:
        return view, view[len(view) :]
    stated = lengths[0].strip()
    if len(lengths) > 1 or not (stated.isascii() and stated.isdigit()) or len(stated) > 20:
        raise InvalidField(f"the header {LENGTH_HEADER} must be one number of bytes")
    length = int(stated)
    if length > len(view):
        raise InvalidField(f"the header {LENGTH_HEADER} tells of more bytes than the body has")
    return view[:length], view[length:]


def read_request(text: memoryview, limits: Limits) -> InferenceRequest:
    """Check the JSON object, all but the elements of its tensors.

    Raises ``MalformedJson``, ``InvalidField``, or ``TooLarge`` for what nests too deep.
    """
    body = bytes(text)
    bones = skeleton(body, limits)
    document = parse_json(body, limits)
    if not isinstance(document, dict):
        raise InvalidField.at("", "the body must be an object")
    check_depth(bones, limits)
    check_keys(body, bones, {name: _without_data(value) for name, value in document.items()}, len(document))
    return read_options(Payload({}, document, from_query=False), InferenceRequest)


def _without_data(value: Any) -> Any:
    """The value without the elements of tensors, which hold no keys."""
    if not isinstance(value, list):
        return value
    return [
        {**part, "data": None} if isinstance(part, dict) and isinstance(part.get("data"), list) else part
        for part in value
    ]
