"""Which requests to calibrate are answered at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from backend.held_map import HeldMap
from calibrant.core.errors import CalibrationError
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.maps.curves import Identity
from service.callers import LOCAL
from service.context import Context
from service.formats.format import BodyLimits
from service.formats.json_body import read_json
from service.process import Process
from service.settings import Settings
from service.short_bodies import calibrate_short
from tests.drawn import examples

USUAL = b'{"map": "m", "predictions": [0.1, 0.25, 1, 0]}'
SETTINGS = Settings("redis://unused")
HELD = HeldMap("map_1", CalibrationMap("identity", Identity(), "binary", "probability", None), 3)


class Maps(Context):
    """A context with one map in memory."""

    def held_map(self, ref: str) -> HeldMap | None:
        return HELD if ref == "m" else None


def answered(
    body: bytes, headers: Mapping[str, str] = MappingProxyType({}), *, parts: int = 1, limits: Settings = SETTINGS
) -> tuple[Any, bytes]:
    """What becomes of a body that arrives in parts: the response or the request, and what is left to read."""
    size = len(body) // parts + 1
    messages = [
        {"type": "http.request", "body": body[i * size : (i + 1) * size], "more_body": i + 1 < parts}
        for i in range(parts)
    ]

    async def receive() -> Any:
        return messages.pop(0)

    head = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    fields = [(name.encode(), text.encode()) for name, text in head.items() if text]
    request = Request({"type": "http", "headers": fields, "state": {"caller": LOCAL}}, receive)
    here = Maps(Process(limits), LOCAL, request.scope)

    async def run() -> tuple[Any, bytes]:
        answer = await calibrate_short(request, here)
        rest = b""
        while isinstance(answer, Request) and len(rest) < len(body):
            rest += (await answer.receive())["body"]
        return answer, rest

    return asyncio.run(run())


def test_a_usual_request_is_answered_at_once() -> None:
    response, _ = answered(USUAL)
    assert response.body == b'{"map":"map_1","version":3,"predictions":[0.1,0.25,1.0,0.0]}'
    for accept in ("*/*", "application/json"):
        assert answered(USUAL, {"accept": accept})[0].body == response.body


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/csv"},
        {"content-type": ""},
        {"content-length": ""},
        {"content-length": "9000"},
        {"content-length": "+46"},
        {"content-encoding": "identity"},
        {"transfer-encoding": "chunked"},
        {"expect": "100-continue"},
        {"accept": "application/x-npz"},
    ],
)
def test_a_head_that_changes_how_a_body_is_read_leaves_the_request_as_it_was(headers: dict[str, str]) -> None:
    answer, rest = answered(USUAL, headers)
    assert isinstance(answer, Request)
    assert rest == USUAL


def test_a_body_in_parts_or_for_a_map_that_is_not_in_memory_is_put_back() -> None:
    for body, parts in ((USUAL, 3), (USUAL.replace(b'"m"', b'"n"'), 1), (USUAL.replace(b"0.25", b"2.5"), 1)):
        answer, rest = answered(body, parts=parts)
        assert isinstance(answer, Request)
        assert rest == body


def test_limits_below_the_size_of_a_short_body_are_kept() -> None:
    for limits in (
        replace(SETTINGS, max_rows=3),
        replace(SETTINGS, max_json_values=40),
        replace(SETTINGS, max_body_bytes=40),
    ):
        assert isinstance(answered(USUAL, limits=limits)[0], Request)


@pytest.mark.slow
@settings(max_examples=examples(120, 6000))
@given(data=st.data())
def test_a_changed_body_is_answered_at_once_only_as_it_would_be_read(data: st.DataObject) -> None:
    body = bytearray(USUAL)
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(body)))
        body[place : place + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from((b'"', b",", b"\\", b"e", b"-", b"1", b".", b"[", b"}", b" ", b"map", b'"map": "m", ', b""))
        )
    answer, rest = answered(bytes(body))
    if isinstance(answer, Request):
        assert rest == body
        return
    try:
        payload = read_json(bytes(body), BodyLimits.of(SETTINGS))
    except CalibrationError as error:
        raise AssertionError("answered although it cannot be read") from error
    assert payload.options == {"map": "m"}
    assert answer.body.endswith(
        ("[" + ",".join(repr(score) for score in np.asarray(payload.arrays["predictions"]).tolist()) + "]}").encode()
    )
