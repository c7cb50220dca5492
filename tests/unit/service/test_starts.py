from __future__ import annotations

import asyncio

from service.guard import Starts


async def _begin(starts: Starts, tenant: str, order: list[str]) -> None:
    await starts.wait(tenant)
    order.append(tenant)


async def test_few_requests_begin_in_each_pass_of_the_loop_and_tenants_take_turns() -> None:
    starts, order = Starts(4), list[str]()
    tasks = [asyncio.create_task(_begin(starts, "one", order)) for _ in range(20)]
    tasks += [asyncio.create_task(_begin(starts, "other", order)) for _ in range(3)]
    passes = 0
    while len(order) < len(tasks):
        before = len(order)
        await asyncio.sleep(0)
        assert len(order) <= before + 4
        passes += 1
        assert passes < 100
    assert order[:4] == ["one"] * 4
    assert [place for place, tenant in enumerate(order) if tenant == "other"] == [5, 7, 9]


async def test_a_request_that_is_given_up_while_it_waits_takes_no_place() -> None:
    starts, order = Starts(1), list[str]()
    tasks = [asyncio.create_task(_begin(starts, str(i), order)) for i in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    tasks[3].cancel()
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
    await asyncio.wait_for(starts.wait("last"), 60)
    assert order == ["0", "2"]
