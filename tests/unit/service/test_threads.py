from __future__ import annotations

import asyncio
import threading

import pytest
from starlette.types import Scope

from service.callers import LOCAL, Caller
from service.threads import MOST_THREADS, iterate_in_thread, run_in_thread, work_for

ONE, OTHER = Caller(tenant="one", key_id="1"), Caller(tenant="other", key_id="2")


def _scope(caller: Caller) -> Scope:
    return {"type": "http", "state": {"caller": caller}}


async def _work(caller: Caller, begun: threading.Semaphore, goes_on: threading.Event) -> None:
    work_for(_scope(caller))

    def work() -> None:
        begun.release()
        goes_on.wait(600)

    await run_in_thread(work)


@pytest.mark.parametrize(("caller", "at_once"), [(ONE, MOST_THREADS // 2), (LOCAL, MOST_THREADS)])
async def test_a_tenant_has_half_of_the_threads_and_a_service_without_keys_all(caller: Caller, at_once: int) -> None:
    begun, goes_on = threading.Semaphore(0), threading.Event()

    tasks = [asyncio.create_task(_work(caller, begun, goes_on)) for _ in range(100)]
    try:
        for _ in range(at_once):
            assert await asyncio.to_thread(begun.acquire, timeout=600)
        assert not begun.acquire(blocking=False)
    finally:
        goes_on.set()
    await asyncio.gather(*tasks)


def test_another_tenant_has_a_thread_while_one_waits_for_its_own_share() -> None:
    begun, goes_on = threading.Semaphore(0), threading.Event()

    async def crowd() -> int:
        tasks = [asyncio.create_task(_work(ONE, begun, goes_on)) for _ in range(100)]
        try:
            for _ in range(MOST_THREADS // 2):
                assert await asyncio.to_thread(begun.acquire, timeout=600)
            work_for(_scope(OTHER))
            return await asyncio.wait_for(run_in_thread(int, "7"), 60)
        finally:
            goes_on.set()
            await asyncio.gather(*tasks)

    assert asyncio.run(crowd()) == 7


async def test_work_that_fails_gives_its_thread_back() -> None:
    for _ in range(MOST_THREADS + 1):
        with pytest.raises(ValueError, match="invalid literal"):
            await run_in_thread(int, "x")
    assert await asyncio.wait_for(run_in_thread(int, "7"), 60) == 7


async def test_pieces_are_made_in_threads_and_in_order() -> None:
    own = threading.get_ident()
    pieces = ((i, threading.get_ident() == own) for i in range(3))
    assert [piece async for piece in iterate_in_thread(pieces)] == [(0, False), (1, False), (2, False)]
