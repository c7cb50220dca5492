from __future__ import annotations

import asyncio
import threading

import pytest

from service.easel import Easel
from service.errors import Busy


def test_one_picture_is_drawn_at_a_time_and_the_loop_goes_on() -> None:
    begun, go_on = threading.Event(), threading.Event()
    drawn: list[str] = []

    def first() -> None:
        begun.set()
        assert go_on.wait(10)
        drawn.append("first")

    async def both() -> None:
        easel = Easel()
        tasks = [
            asyncio.create_task(easel.draw(first)),
            asyncio.create_task(easel.draw(lambda: drawn.append("second"))),
        ]
        await asyncio.to_thread(begun.wait, 10)
        assert drawn == []  # the loop answers while one draws, and the other waits for its turn
        go_on.set()
        await asyncio.gather(*tasks)

    asyncio.run(both())
    assert drawn == ["first", "second"]


def test_who_comes_when_too_many_wait_is_told_to_come_again() -> None:
    go_on = threading.Event()

    async def crowd() -> None:
        easel = Easel(most=2)
        waiting = [asyncio.create_task(easel.draw(lambda: go_on.wait(10))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy) as refused:
            await easel.draw(lambda: True)
        assert refused.value.headers["Retry-After"]
        go_on.set()
        await asyncio.gather(*waiting)
        assert await easel.draw(lambda: "again") == "again"

    asyncio.run(crowd())


def test_a_drawing_that_fails_leaves_the_place_to_the_next() -> None:
    def fails() -> None:
        raise ValueError("no")

    async def two() -> None:
        easel = Easel(most=1)
        with pytest.raises(ValueError, match="no"):
            await easel.draw(fails)
        assert await easel.draw(lambda: 1) == 1

    asyncio.run(two())
