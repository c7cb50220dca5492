"""Every reader of JSON refuses a body with more values than ``max_json_values`` before it parses it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest
from starlette.datastructures import Headers

from service.errors import TooLarge
from service.formats.body import BINARY_EVENT, Sent
from service.formats.format import Body, BodyLimits
from service.formats.json_body import read_json
from service.formats.media import EVENT, EVENTS
from service.inference.infer import read_request
from tests.body_formats import JSON, JSONL, NDJSON, class_monitor

LIMITS = BodyLimits(max_unpacked_bytes=1 << 20, max_rows=1000, max_classes=10, max_json_depth=8, max_json_values=100)
HEADERS = Headers({"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/", "ce-type": "com.calibrant.rows"})
MANY = json.dumps([0] * 102).encode()


def _event(**attributes: str) -> bytes:
    return json.dumps(
        {"specversion": "1.0", "id": "1", "source": "/", "type": "com.calibrant.rows"} | attributes
    ).encode()


def _rows(kind: str) -> Callable[[Body], object]:
    return lambda body: Sent(kind, body, None, LIMITS).rows("rows", class_monitor())


def _events(kind: str) -> Callable[[Body], object]:
    return lambda body: list(Sent(kind, body, None, LIMITS).events(HEADERS))


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (lambda body: read_json(body, LIMITS), MANY),
        (lambda body: read_json(body, LIMITS), MANY + b" " * (1 << 19)),  # read in pieces
        (lambda body: read_request(memoryview(body), LIMITS), MANY),
        (_rows(JSON), MANY),
        (_rows(NDJSON), b"{}\n" * 10 + MANY),
        (_rows(JSONL), b'{"label":1,"prediction":0}\n' * 40),
        (_events(EVENT), MANY),
        (_events(EVENTS), MANY),
        (_events(BINARY_EVENT), MANY),
        (_events(EVENT), _event(data_base64=base64.b64encode(MANY).decode())),
        (_events(EVENTS), b"[" + _event(data_base64=base64.b64encode(MANY).decode()) + b"]"),
    ],
)
def test_a_body_with_too_many_values_is_refused_by_its_reader(read: Callable[[Body], object], body: bytes) -> None:
    with pytest.raises(TooLarge, match=r"at most 100 values .*max_json_values"):
        read(body)
