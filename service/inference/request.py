"""The body of an inference request: a JSON object, and after it the bytes of its binary tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from schemas.inference import InferenceRequest
from service.errors import InvalidField, UnsupportedMediaType
from service.formats.json_pieces import LongArray, check_values, plain, read_document
from service.formats.limits import Limits
from service.formats.options import read_options
from service.formats.payload import Body, Payload

#: More inputs than this are refused, whatever they are.
_MOST_INPUTS = 16
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


def read_request(text: memoryview, limits: Limits) -> tuple[InferenceRequest, LongArray | None]:
    """Check the JSON object, all but the elements of its tensors; the second are those of the first input, if long.

    Raises ``MalformedJson``, ``InvalidField``, or ``TooLarge`` for too many values and for what nests too deep.
    """
    check_values(text, limits)
    document = read_document(text, limits)
    elements = _take_elements(document)
    document = plain(document)
    if not isinstance(document, dict):
        raise InvalidField.at("", "the body must be an object")
    return read_options(Payload({}, document, from_query=False), InferenceRequest), elements


def _take_elements(document: Any) -> LongArray | None:
    """Take the elements of the first input out of a document, and leave an empty array in their place."""
    inputs = document.get("inputs") if isinstance(document, dict) else None
    if isinstance(inputs, LongArray):
        document["inputs"] = inputs = list(islice(inputs.elements(), _MOST_INPUTS + 1))
    first = inputs[0] if isinstance(inputs, list) and inputs else None
    if not isinstance(first, dict) or not isinstance(first.get("data"), LongArray):
        return None
    elements: LongArray = first["data"]
    first["data"] = []
    return elements
