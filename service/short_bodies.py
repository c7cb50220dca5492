"""The usual request to calibrate: the name of a map in memory, and a few probabilities, as JSON in one piece.

It is answered in half of the time that the readers and checks of all formats, options and kinds take. They answer
every other request, also every invalid one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from backend.calibration import calibrate_few
from service.formats.answers import respond_small
from service.settings import ScoringSettings

if TYPE_CHECKING:
    from service.scoring import ScoringContext

#: The most bytes of a body, and the most numbers.
_BYTES, _FEW = 8 * 1024, 256
_JSON_TYPES = (b"application/json", b"application/json;charset=utf-8")
#: Headers that change how a body is read or answered.
_OTHERS = (b"content-encoding", b"transfer-encoding", b"expect")
_FIELDS = {"map", "predictions"}
_NUMBERS = {float, int}


async def calibrate_short(request: Request, here: ScoringContext) -> Response | Request:
    """The response to a usual request; otherwise the request, with what was read of it put back."""
    if not _is_usual(request.scope["headers"]):
        return request
    message = await request.receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        sent = _read(message["body"], here.settings)
        held = None if sent is None else here.held_map(sent.map)
        if sent is not None and held is not None and held.is_fast and held.map.scale == "probability":
            return respond_small(held.named | {"predictions": calibrate_few(held, sent.predictions)})
    return Request(request.scope, _again(message, request.receive))


def _is_usual(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether a body of JSON is short, and the response may be JSON."""
    is_json = is_short = False
    for name, value in headers:
        if name == b"content-type":
            is_json = value.lower().replace(b" ", b"") in _JSON_TYPES
        elif name == b"content-length":
            is_short = len(value) <= 4 and value.isdigit() and int(value) <= _BYTES
        elif name in _OTHERS or (name == b"accept" and value not in (b"*/*", b"application/json")):
            return False
    return is_json and is_short


class _Sent(NamedTuple):
    map: str
    predictions: list[float]


def _read(body: bytes, settings: ScoringSettings) -> _Sent | None:
    """The fields of a body; None if it has others, or values that need a look."""
    if len(body) > settings.max_json_values or body.count(b'"') != 6 or b"\\" in body:
        return None  # with three strings, no key occurs twice
    try:
        document: Any = orjson.loads(body)
    except ValueError:
        return None
    if type(document) is not dict or document.keys() != _FIELDS:
        return None
    name, values = document["map"], document["predictions"]
    if type(name) is not str or type(values) is not list or not 0 < len(values) <= min(_FEW, settings.max_rows):
        return None
    are_probabilities = _NUMBERS.issuperset(map(type, values)) and min(values) >= 0.0 and max(values) <= 1.0
    return _Sent(name, values) if are_probabilities else None


def _again(message: Message, receive: Receive) -> Receive:
    """Receive a message again, then whatever follows it."""
    first = [message]

    async def received() -> Message:
        return first.pop() if first else await receive()

    return received
