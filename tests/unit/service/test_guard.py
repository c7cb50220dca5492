from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from service.errors import Busy
from service.guard import Guard, Places


def _scope() -> Scope:
    return {"type": "http", "method": "POST", "path": "/evaluate", "headers": [], "state": {}}


async def _whole_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def test_an_answer_that_comes_too_late_is_replaced_and_the_work_goes_on_unheard() -> None:
    ended: list[bool] = []

    async def run() -> list[Message]:
        told, refused = [], asyncio.Event()

        async def send(message: Message) -> None:
            told.append(message)
            if message["type"] == "http.response.body":
                refused.set()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await refused.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"late"})
            ended.append(True)

        await Guard(app, seconds=0.01, places=Places(1))(_scope(), _whole_body, send)
        return told

    told = asyncio.run(run())
    assert [m.get("status") for m in told] == [503, None]
    assert b"deadline-exceeded" in told[1]["body"]
    assert ended == [True]


def test_an_answer_that_has_begun_may_take_as_long_as_it_likes() -> None:
    async def run() -> list[Any]:
        told: list[Any] = []

        async def send(message: Message) -> None:
            told.append(message.get("status", message.get("body")))

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            passed = asyncio.Event()
            # Set behind the guard's own alarm, which was set for an earlier moment.
            asyncio.get_running_loop().call_later(0.03, passed.set)
            await passed.wait()
            await send({"type": "http.response.body", "body": b"end"})

        await Guard(app, seconds=0.01, places=Places(1))(_scope(), _whole_body, send)
        return told

    assert asyncio.run(run()) == [200, b"end"]


def test_a_request_holds_one_place_until_it_ends() -> None:
    places = Places(1)
    one, other = _scope(), _scope()
    places.take(one)
    places.take(one)
    with pytest.raises(Busy) as refused:
        places.take(other)
    assert refused.value.headers["Retry-After"]
    places.give_back(one)
    places.give_back(one)
    places.take(other)
    with pytest.raises(Busy):
        places.take(one)


def test_a_request_without_body_is_told_that_its_answer_was_late_and_its_work_that_it_is_over() -> None:
    async def run() -> tuple[list[Any], list[bool]]:
        told: list[Any] = []
        seen: list[bool] = []
        refused = asyncio.Event()

        async def send(message: Message) -> None:
            told.append(message.get("status"))
            if message["type"] == "http.response.body":
                refused.set()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            seen.append(Guard.is_over(scope))
            await refused.wait()
            seen.append(Guard.is_over(scope))

        await Guard(app, seconds=0.01, places=Places(1))({**_scope(), "method": "GET"}, _whole_body, send)
        return told, seen

    assert asyncio.run(run()) == ([503, None], [False, True])
