from __future__ import annotations

import asyncio
import threading

import pytest

from service.callers import LOCAL, Caller
from service.errors import Busy
from service.process import DrawingQueue


async def test_one_picture_is_drawn_at_a_time_and_the_loop_goes_on() -> None:
    begun, go_on = threading.Event(), threading.Event()
    drawn: list[str] = []

    def first() -> None:
        begun.set()
        assert go_on.wait(600)
        drawn.append("first")

    queue = DrawingQueue()
    tasks = [
        asyncio.create_task(queue.draw(LOCAL, first)),
        asyncio.create_task(queue.draw(LOCAL, lambda: drawn.append("second"))),
    ]
    await asyncio.to_thread(begun.wait, 10)
    assert drawn == []  # the loop answers while one draws, and the other waits for its turn
    go_on.set()
    await asyncio.gather(*tasks)
    assert drawn == ["first", "second"]


async def test_a_drawing_beyond_the_queue_is_refused_with_retry_after() -> None:
    go_on = threading.Event()

    queue = DrawingQueue(most=2)
    waiting = [asyncio.create_task(queue.draw(LOCAL, lambda: go_on.wait(600))) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Busy) as refused:
        await queue.draw(LOCAL, lambda: True)
    assert refused.value.headers["Retry-After"]
    go_on.set()
    await asyncio.gather(*waiting)
    assert await queue.draw(LOCAL, lambda: "again") == "again"


async def test_a_drawing_that_fails_leaves_the_place_to_the_next() -> None:
    def fails() -> None:
        raise ValueError("no")

    queue = DrawingQueue(most=1)
    with pytest.raises(ValueError, match="no"):
        await queue.draw(LOCAL, fails)
    assert await queue.draw(LOCAL, lambda: 1) == 1


ONE, OTHER = Caller(tenant="one", key_id="1"), Caller(tenant="other", key_id="2")


async def test_tenants_take_turns_in_drawing() -> None:
    drawn: list[str] = []

    queue = DrawingQueue()
    greedy = [asyncio.create_task(queue.draw(ONE, lambda: drawn.append("one"))) for _ in range(20)]
    await asyncio.sleep(0)  # all of them have come before the other does
    other = [asyncio.create_task(queue.draw(OTHER, lambda: drawn.append("other"))) for _ in range(2)]
    await asyncio.gather(*greedy, *other)
    # One is drawn already when the other comes, and one waits before it.
    assert drawn[:6] == ["one", "one", "other", "one", "other", "one"]
    assert drawn.count("one") == 20


async def test_a_tenant_fills_at_most_half_of_the_line() -> None:
    go_on = threading.Event()

    queue = DrawingQueue(most=4)
    waiting = [asyncio.create_task(queue.draw(ONE, lambda: go_on.wait(600))) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="the limit of 2 pictures"):
        await queue.draw(ONE, lambda: True)
    waiting.append(asyncio.create_task(queue.draw(OTHER, lambda: True)))
    go_on.set()
    assert await asyncio.gather(*waiting) == [True] * 3


@pytest.mark.parametrize("is_its_turn", [False, True])
async def test_a_picture_that_is_given_up_while_it_waits_leaves_the_place_to_the_next(is_its_turn: bool) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        assert go_on.wait(600)

    queue = DrawingQueue()
    drawing = asyncio.create_task(queue.draw(ONE, first))
    await asyncio.to_thread(begun.wait, 10)
    given_up = asyncio.create_task(queue.draw(ONE, lambda: None))
    await asyncio.sleep(0)
    last = asyncio.create_task(queue.draw(ONE, lambda: "last"))
    await asyncio.sleep(0)
    if is_its_turn:
        # Ends the first, gives its turn on, and cancels before whoever waited has been woken.
        drawing.add_done_callback(lambda _: given_up.cancel())
    else:
        given_up.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert await last == "last"
