"""Usual requests to apply a map: its name, and a few probabilities, as JSON in one piece.

They are answered in half of the time that the readers and checks of all formats, options and kinds take. These answer
every other request, also every invalid one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from backend.calibration import calibrate_few
from backend.held_map import HeldMap
from calibrant.core.errors import CalibrationError
from service.formats.answers import respond_small
from service.settings import ScoringSettings

if TYPE_CHECKING:
    from service.scoring import ScoringContext

#: The most bytes of a body, and the most numbers.
_BYTES, _FEW = 8 * 1024, 256
_JSON_TYPES = (b"application/json", b"application/json;charset=utf-8")
#: Headers that change how a body is read or answered.
_OTHERS = (
    b"content-encoding",
    b"transfer-encoding",
    b"expect",
    b"inference-header-content-length",
    b"x-amzn-sagemaker-custom-attributes",
)
_NUMBERS = {float, int}


class ShortBody(NamedTuple):
    """The JSON object of a usual request, which is empty if there is none, and how many strings it has.

    If it has no more strings than its known keys and their values, no key occurs twice. ``request`` is the request with
    what was read of it put back.
    """

    document: Mapping[str, Any]
    n_strings: int
    request: Request


async def read_short(request: Request, settings: ScoringSettings) -> ShortBody:
    """Read a short JSON object in one piece, without escaped characters."""
    if not _is_usual(request.scope["headers"], min(_BYTES, settings.max_body_bytes)):
        return ShortBody({}, 0, request)
    message = await request.receive()
    body = message["body"] if message["type"] == "http.request" and not message.get("more_body", False) else b""
    document = _read(body, settings)
    return ShortBody(document, body.count(b'"') // 2, Request(request.scope, _again(message, request.receive)))


def score_short(held: HeldMap, predictions: Any, settings: ScoringSettings) -> list[float] | None:
    """The calibrated predictions if the values are a few probabilities and the map takes such; otherwise None."""
    if type(predictions) is not list or not 0 < len(predictions) <= min(_FEW, settings.max_rows):
        return None
    are_numbers = _NUMBERS.issuperset(map(type, predictions))
    if not (are_numbers and min(predictions) >= 0.0 and max(predictions) <= 1.0):
        return None
    if not (held.is_fast and held.map.scale == "probability"):
        return None
    try:
        return calibrate_few(held, predictions)
    except CalibrationError:
        return None  # the readers of all bodies say where it is


async def calibrate_short(request: Request, here: ScoringContext) -> Response | Request:
    """The response to a usual request to calibrate; otherwise the request, with what was read of it put back."""
    document, n_strings, request = await read_short(request, here.settings)
    if document.keys() != {"map", "predictions"} or n_strings != 3 or type(document["map"]) is not str:
        return request
    held = here.held_map(document["map"])
    calibrated = None if held is None else score_short(held, document["predictions"], here.settings)
    return request if held is None or calibrated is None else respond_small(held.named | {"predictions": calibrated})


def _is_usual(headers: Sequence[tuple[bytes, bytes]], limit: int) -> bool:
    """Whether a body is JSON of at most ``limit`` bytes, and the response may be JSON."""
    is_json = is_short = False
    for name, value in headers:
        if name == b"content-type":
            is_json = value.lower().replace(b" ", b"") in _JSON_TYPES
        elif name == b"content-length":
            is_short = len(value) <= 4 and value.isdigit() and int(value) <= limit
        elif name in _OTHERS or (name == b"accept" and value not in (b"*/*", b"application/json")):
            return False
    return is_json and is_short


def _read(body: bytes, settings: ScoringSettings) -> Mapping[str, Any]:
    """The object of a body; an empty one if it has none, or needs a look."""
    if len(body) > settings.max_json_values or b"\\" in body:
        return {}
    try:
        document: Any = orjson.loads(body)
    except ValueError:
        return {}
    return document if type(document) is dict else {}


def _again(message: Message, receive: Receive) -> Receive:
    """Receive a message again, then whatever follows it."""
    first = [message]

    async def received() -> Message:
        return first.pop() if first else await receive()

    return received
