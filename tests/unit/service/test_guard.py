from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import pytest
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.callers import LOCAL, Caller
from service.errors import Busy, TooLarge
from service.formats.body import bounded
from service.guard import Guard, LightBodies, RequestMemory, Slots
from tests.unit.service.clock import Clock

T = TypeVar("T")
KIB = 1024
RATE = 64 * KIB
ONE, OTHER = Caller(tenant="one", key_id="1"), Caller(tenant="other", key_id="2")


def _scope(caller: Caller = LOCAL, **state: object) -> Scope:
    return {"type": "http", "method": "POST", "path": "/evaluate", "headers": [], "state": {"caller": caller, **state}}


def _guard(app: ASGIApp, *, seconds: float = 0.01, rate: int = 0) -> Guard:
    return Guard(
        app, seconds=seconds, slots=Slots(1), memory=RequestMemory(1 << 30, Slots(1)), light=LightBodies(), rate=rate
    )


def _timed(main: Callable[[], Awaitable[T]]) -> T:
    async def run() -> T:
        return await main()

    with asyncio.Runner(loop_factory=Clock) as runner:
        return runner.run(run())


def _uploaded(parts: Iterable[tuple[float, int]], *, rate: int = RATE, seconds: float = 60.0) -> tuple[int, float]:
    """The status of a request whose body comes in parts, each so many seconds after the last, and when it is sent."""
    answers: list[tuple[int, float]] = []
    coming = iter(parts)
    gone = asyncio.Event()

    async def receive() -> Message:
        pause, size = next(coming, (None, 0))
        if pause is None:
            return {"type": "http.request", "body": b"", "more_body": False}
        try:
            await asyncio.wait_for(gone.wait(), pause)
        except TimeoutError:
            return {"type": "http.request", "body": bytes(size), "more_body": True}
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answers.append((message["status"], asyncio.get_running_loop().time()))
            gone.set()  # as a server tells that it has closed the connection

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def main() -> None:
        await _guard(app, seconds=seconds, rate=rate)(_scope(), receive, send)

    _timed(main)
    assert len(answers) == 1
    return answers[0]


async def _whole_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def test_a_late_answer_is_replaced_and_the_work_continues() -> None:
    ended: list[bool] = []
    messages: list[Message] = []
    refused = asyncio.Event()

    async def send(message: Message) -> None:
        messages.append(message)
        if message["type"] == "http.response.body":
            refused.set()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await refused.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"late"})
        ended.append(True)

    await _guard(app)(_scope(), _whole_body, send)
    assert [m.get("status") for m in messages] == [503, None]
    assert b"deadline-exceeded" in messages[1]["body"]
    assert ended == [True]


def test_an_answer_that_has_begun_has_no_deadline() -> None:
    async def main() -> list[Any]:
        messages: list[Any] = []

        async def send(message: Message) -> None:
            messages.append(message.get("status", message.get("body")))

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await asyncio.sleep(1.0)
            await send({"type": "http.response.body", "body": b"end"})

        await _guard(app)(_scope(), _whole_body, send)
        return messages

    assert _timed(main) == [200, b"end"]


def test_a_tenant_holds_at_most_half_of_the_memory() -> None:
    memory = RequestMemory(400, Slots(1))
    first, second, other = _scope(ONE), _scope(ONE), _scope(OTHER)
    memory.reserve(first, 60)
    memory.reserve(first, 40)
    memory.reserve(second, 100)
    with pytest.raises(Busy) as busy:
        memory.reserve(_scope(ONE), 1)
    assert busy.value.headers["Retry-After"]
    memory.reserve(other, 200)
    memory.give_back(first)
    memory.give_back(first)
    memory.reserve(_scope(ONE), 100)


@pytest.mark.parametrize(("caller", "most"), [(LOCAL, 400), (ONE, 200)])
def test_a_request_that_never_fits_is_too_large_and_one_that_waits_for_others_is_not(caller: Caller, most: int) -> None:
    memory = RequestMemory(400, Slots(1))
    first, second = _scope(caller), _scope(caller)
    memory.reserve(first, most)
    with pytest.raises(TooLarge):
        memory.reserve(second, most + 1)
    with pytest.raises(Busy):
        memory.reserve(second, most)
    with pytest.raises(TooLarge):
        memory.reserve(first, 1)
    memory.give_back(first)
    memory.reserve(second, most)


def test_a_body_that_is_read_again_is_counted_once() -> None:
    memory = RequestMemory(100, Slots(1))
    scope = _scope(memory=memory)
    for size in (100, 50, 100):
        RequestMemory.hold_for(scope, size)
    with pytest.raises(Busy):
        memory.reserve(_scope(), 1)
    memory.give_back(scope)
    memory.reserve(_scope(), 100)


def test_memory_for_work_is_that_of_its_largest_part() -> None:
    memory = RequestMemory(100, Slots(1))
    scope = _scope(memory=memory)
    for size in (40, 60, 50):
        RequestMemory.work_for(scope, size)
    memory.reserve(scope, 40)
    with pytest.raises(TooLarge):
        RequestMemory.work_for(scope, 61)
    memory.end_work(scope)
    memory.end_work(scope)
    memory.reserve(scope, 60)
    with pytest.raises(TooLarge):
        RequestMemory.work_for(scope, 1)


def test_memory_lent_for_a_copy_is_free_afterwards() -> None:
    memory = RequestMemory(100, Slots(1))
    scope = _scope(memory=memory)
    memory.reserve(scope, 50)
    with RequestMemory.lent_for(scope, 50), pytest.raises(TooLarge):
        memory.reserve(scope, 1)
    memory.reserve(scope, 50)


@pytest.mark.parametrize("size", [100, 600 * KIB])
def test_a_body_that_stalls_gets_408_after_the_first_ten_seconds(size: int) -> None:
    status, seconds = _uploaded([(0.0, size), (1000.0, 0)])
    assert (status, seconds) == (408, 11.0)


def test_a_body_above_the_least_rate_is_read_to_its_end() -> None:
    assert _uploaded([(1.0, RATE + RATE // 5)] * 50) == (200, 50.0)


def test_a_body_below_the_least_rate_gets_408() -> None:
    assert _uploaded([(1.0, RATE - 1)] * 50)[0] == 408


def test_what_came_fast_at_first_does_not_make_up_for_a_later_stall() -> None:
    status, seconds = _uploaded([(0.0, 1000 * RATE), (1000.0, 0)])
    assert (status, seconds) == (408, 21.0)


def test_a_slow_body_gets_408_at_the_deadline_without_a_least_rate() -> None:
    assert _uploaded([(0.0, 100), (1000.0, 0)], rate=0) == (408, 60.0)


def test_a_body_is_not_slow_because_the_event_loop_was_held_up() -> None:
    def parts() -> Iterable[tuple[float, int]]:
        yield 1.0, RATE
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Clock)
        loop.call_later(1.0, loop.hold_up, 15.0)
        yield 16.5, 20 * RATE  # had lain in the socket's buffer
        yield 1.0, RATE

    assert _uploaded(parts())[0] == 200


def test_a_body_is_not_slow_because_the_application_is() -> None:
    async def main() -> list[int]:
        statuses: list[int] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"1", "more_body": True}

        async def send(message: Message) -> None:
            statuses.append(message.get("status", 0))

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            for _ in range(10):
                await receive()
                await asyncio.sleep(5)
            await send({"type": "http.response.start", "status": 200, "headers": []})

        await _guard(app, seconds=60, rate=RATE)(_scope(), receive, send)
        return statuses

    assert _timed(main) == [200]


def test_a_request_without_body_gets_the_timeout_and_its_work_the_disconnect() -> None:
    async def main() -> tuple[list[Any], list[bool]]:
        statuses: list[Any] = []
        seen: list[bool] = []
        refused = asyncio.Event()

        async def send(message: Message) -> None:
            statuses.append(message.get("status"))
            if message["type"] == "http.response.body":
                refused.set()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            seen.append(Guard.is_over(scope))
            await refused.wait()
            seen.append(Guard.is_over(scope))

        await _guard(app)({**_scope(), "method": "GET"}, _whole_body, send)
        return statuses, seen

    assert _timed(main) == ([503, None], [False, True])


@pytest.mark.parametrize(("caller", "at_once"), [(LOCAL, 2), (ONE, 1)])
async def test_light_bodies_are_handled_some_at_a_time_and_others_are_not_held_up(caller: Caller, at_once: int) -> None:
    size = 900 * KIB

    handled: list[Caller] = []
    go_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await bounded(Request(scope, receive), 1 << 20)
        handled.append(scope["state"]["caller"])
        await go_on.wait()

    guard = Guard(app, seconds=60.0, slots=Slots(1), memory=RequestMemory(1 << 30, Slots(1)), light=LightBodies())

    def sent(caller: Caller, size: int) -> asyncio.Task[None]:
        async def receive() -> Message:
            return {"type": "http.request", "body": bytes(size), "more_body": False}

        async def send(message: Message) -> None:
            raise AssertionError(message)

        return asyncio.ensure_future(guard(_scope(caller), receive, send))

    requests = [sent(caller, size) for _ in range(20)]
    await _until_idle()
    assert handled == [caller] * at_once
    requests.append(sent(caller, 1000))  # too small to wait
    if caller != LOCAL:
        requests.append(sent(OTHER, size))
    await _until_idle()
    assert len(handled) == at_once + 1 + (caller != LOCAL)
    go_on.set()
    await asyncio.gather(*requests)
    assert len(handled) == len(requests)


async def _until_idle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
