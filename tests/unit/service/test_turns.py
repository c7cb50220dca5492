from __future__ import annotations

import asyncio

from service.callers import LOCAL, Caller
from service.guard import Turns

ONE, OTHER = Caller(tenant="one", key_id="1"), Caller(tenant="other", key_id="2")


async def _until_idle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_tenant_has_half_and_a_service_without_keys_everything() -> None:
    async def crowd(caller: Caller) -> int:
        turns = Turns(100)
        tasks = [asyncio.create_task(turns.take(caller, 20)) for _ in range(10)]
        await _until_idle()
        begun = sum(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return begun

    assert asyncio.run(crowd(LOCAL)) == 5
    assert asyncio.run(crowd(ONE)) == 2


async def test_another_tenant_begins_at_once_while_one_waits_for_its_own_share() -> None:
    turns = Turns(100)
    greedy = [asyncio.create_task(turns.take(ONE, 30)) for _ in range(50)]
    await _until_idle()
    assert sum(task.done() for task in greedy) == 1
    await asyncio.wait_for(turns.take(OTHER, 50), 10)
    turns.give_back(ONE, 30)
    await _until_idle()
    assert sum(task.done() for task in greedy) == 2
    for task in greedy:
        task.cancel()
    await asyncio.gather(*greedy, return_exceptions=True)


async def test_work_of_more_than_a_share_runs_and_small_work_does_not_overtake_it() -> None:
    turns, order = Turns(100), list[str]()

    async def work(caller: Caller, name: str, amount: int) -> None:
        await turns.take(caller, amount)
        order.append(name)
        await _until_idle()
        turns.give_back(caller, amount)

    await asyncio.gather(
        work(ONE, "first", 50), work(OTHER, "large", 300), *(work(ONE, f"small {i}", 10) for i in range(3))
    )
    await turns.take(ONE, 50)  # everything was given back
    assert order == ["first", "large", "small 0", "small 1", "small 2"]


async def test_cancelled_work_leaves_its_turn_to_the_next() -> None:
    turns = Turns(1)
    await turns.take(LOCAL)
    waiting = [asyncio.create_task(turns.take(LOCAL)) for _ in range(3)]
    await _until_idle()
    waiting[0].cancel()
    turns.give_back(LOCAL)  # to the second, as the first is given up
    waiting[1].cancel()  # which is given up before it wakes
    await asyncio.wait_for(waiting[2], 10)
    turns.give_back(LOCAL)
    await asyncio.wait_for(turns.take(LOCAL), 10)
