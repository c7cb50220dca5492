from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
import pytest
from fastapi import Request
from starlette.types import Message

from service.callers import LOCAL
from service.formats.body import bounded, buffered
from service.formats.catalogue import READERS
from service.formats.format import BodyLimits
from service.guard import LightBodies, RequestMemory, Slots
from service.settings import Settings
from tests.body_formats import WRITE_ARRAYS

SETTINGS = Settings("redis://")
Read = Callable[[Request, int], Coroutine[Any, Any, bytearray | memoryview]]


def _body(chunks: Sequence[bytes | bytearray], read: Read = bounded) -> bytearray | memoryview:
    coming = iter(enumerate(chunks, 1))
    scope = {
        "type": "http",
        "method": "POST",
        "headers": [],
        "state": {
            "caller": LOCAL,
            "slots": Slots(1),
            "memory": RequestMemory(SETTINGS.max_request_memory, Slots(1)),
            "light": LightBodies(),
        },
    }

    async def receive() -> Message:
        number, chunk = next(coming)
        return {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}

    return asyncio.run(read(Request(scope, receive), SETTINGS.max_body_bytes))


@pytest.mark.parametrize("sizes", [[0], [5], [1, 0, 2], [300_000, 1, 300_000], [200_000] * 9, [3_000_000, 7]], ids=str)
def test_a_body_is_what_was_sent_in_parts_of_any_size(sizes: list[int]) -> None:
    chunks = [random.Random(size).randbytes(size) for size in sizes]
    for read in (bounded, buffered):
        assert bytes(_body(chunks, read)) == b"".join(chunks)


def test_a_body_that_was_read_before_is_not_copied() -> None:
    body = bytearray(b"abc")
    assert _body([body]) is body


@pytest.mark.slow
def test_a_body_in_small_chunks_takes_little_more_than_its_bytes() -> None:
    chunks = [bytearray(b"ab") for _ in range(100_000)]  # each of 60 bytes and more
    tracemalloc.start()
    try:
        assert len(_body(chunks)) == 200_000
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [kind for kind in READERS if kind != "text/csv"])
def test_a_large_body_is_read_from_a_view_as_from_its_bytes(kind: str) -> None:
    random = np.random.default_rng(3)
    arrays = {"predictions": random.random(90_000), "labels": random.integers(0, 2, 90_000)}
    arrays = {"predictions": arrays["predictions"]} if kind == "application/x-npy" else arrays
    content = bytes(WRITE_ARRAYS[kind](arrays))
    body = _body([content[: len(content) // 2], content[len(content) // 2 :]], buffered)
    assert isinstance(body, memoryview)
    view: Any = body
    read = READERS[kind](view, BodyLimits.of(SETTINGS), {}).arrays
    assert read.keys() == arrays.keys()
    assert all((read[name] == arrays[name]).all() for name in arrays)
