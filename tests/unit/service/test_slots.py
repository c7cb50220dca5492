"""Slots for heavy work: who waits, for how long, and what a request that waits holds."""

from __future__ import annotations

import asyncio
import random
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from service.callers import LOCAL, Caller
from service.errors import Busy, DeadlineExceeded, TenantBusy
from service.guard import Guard, LightBodies, RequestMemory, SlotNeeded, Slots
from service.threads import iterate_in_thread, run_in_thread, work_for
from tests.unit.service.clock import Clock

ONE, OTHER, THIRD = (Caller(tenant=name, key_id=name) for name in ("one", "other", "third"))


class _Request:
    """A heavy request, whose client leaves on ``leave``."""

    def __init__(self, slots: Slots, caller: Caller = LOCAL, size: int = 0) -> None:
        self._left = asyncio.Event()
        memory = RequestMemory(1 << 30, slots)
        state = {"caller": caller, "slots": slots, "memory": memory, "light": LightBodies(), "gone": self._left.wait}
        self.scope: Scope = {"type": "http", "method": "POST", "path": "/evaluate", "state": state}
        memory.reserve(self.scope, size)
        self._slots = slots

    @property
    def runs(self) -> bool:
        return "slots_held" in self.scope["state"]

    @property
    def slots(self) -> int:
        return int(self.scope["state"]["slots_held"][0])

    def leave(self) -> None:
        self._left.set()

    def end(self) -> None:
        self._slots.give_back(self.scope)


async def _idle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


class _Line:
    """Heavy requests that wait for slots, and the order in which they begin."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.order: list[str] = []

    async def begin(self, name: str, caller: Caller = LOCAL, size: int = 0) -> asyncio.Task[_Request]:
        """Begin a request, and return once it runs or waits."""

        async def wait() -> _Request:
            request = _Request(self.slots, caller, size)
            await self.slots.wait(request.scope)
            self.order.append(name)
            return request

        task = asyncio.create_task(wait())
        await _idle()
        return task


async def test_requests_wait_and_run_in_the_order_of_their_arrival() -> None:
    line = _Line(Slots(1, waiting=10))
    tasks = [await line.begin(name) for name in "abcd"]
    assert (line.order, line.slots.n_waiting) == (["a"], 3)
    for task in tasks:
        (await task).end()
        await _idle()
    assert (line.order, line.slots.n_waiting) == (list("abcd"), 0)


async def test_tenants_take_turns() -> None:
    line = _Line(Slots(1, waiting=20))
    tasks = [await line.begin(f"one {i}", ONE) for i in range(4)]
    tasks += [await line.begin(f"other {i}", OTHER) for i in range(2)] + [await line.begin("third", THIRD)]
    while tasks:
        running = next(task for task in tasks if task.done())
        tasks.remove(running)
        running.result().end()
        await _idle()
    assert line.order == ["one 0", "one 1", "other 0", "third", "one 2", "other 1", "one 3"]


async def test_a_tenant_with_half_of_the_slots_waits_while_others_run_at_once() -> None:
    line = _Line(Slots(4, waiting=20))
    own = [await line.begin(f"one {i}", ONE) for i in range(3)]
    assert (await line.begin("other", OTHER)).done()
    assert [task.done() for task in own] == [True, True, False]


@pytest.mark.parametrize(("caller", "most", "error"), [(LOCAL, 6, Busy), (ONE, 3, TenantBusy)])
async def test_so_many_requests_wait_and_one_more_is_refused(caller: Caller, most: int, error: type[Busy]) -> None:
    line = _Line(Slots(2, waiting=6))
    running = [await line.begin("running", caller) for _ in range(2 if caller == LOCAL else 1)]
    waiting = [await line.begin("waiting", caller) for _ in range(most)]
    with pytest.raises(Busy, match=f"limit of {most} waiting heavy requests") as refused:
        await (await line.begin("refused", caller))
    assert type(refused.value) is error
    assert int(refused.value.headers["Retry-After"]) >= 1
    running[0].result().end()
    await _idle()
    assert waiting[0].done()
    assert not (await line.begin("again", caller)).done()  # there is a place again


async def test_the_places_of_all_tenants_are_bounded_too() -> None:
    line = _Line(Slots(2, waiting=4))
    for caller in (ONE, OTHER):
        for _ in range(3):
            await line.begin("", caller)
    with pytest.raises(Busy, match="this process has reached the limit of 4 waiting") as refused:
        await (await line.begin("", THIRD))
    assert type(refused.value) is Busy


async def test_the_bodies_of_waiting_requests_are_bounded() -> None:
    line = _Line(Slots(2, waiting=100, memory=4000))
    await line.begin("running", ONE)
    tasks = [await line.begin("waiting", ONE, 200) for _ in range(2)]
    with pytest.raises(TenantBusy, match="limit of 500 bytes of bodies"):
        await (await line.begin("refused", ONE, 101))
    assert not (await line.begin("small", ONE, 100)).done()
    await line.begin("running", OTHER)
    assert not (await line.begin("waiting", OTHER, 500)).done()
    with pytest.raises(Busy, match="this process has reached the limit of 1000 bytes"):
        await (await line.begin("refused", THIRD, 1))
    assert not any(task.done() for task in tasks)


async def test_no_request_waits_without_places() -> None:
    line = _Line(Slots(2))
    await line.begin("running", ONE)
    with pytest.raises(TenantBusy, match="the tenant has reached the limit of 1 concurrent heavy requests"):
        await (await line.begin("refused", ONE))
    await line.begin("running", OTHER)
    with pytest.raises(Busy, match="this process has reached the limit of 2 concurrent") as refused:
        await (await line.begin("refused", THIRD))
    assert type(refused.value) is Busy


@pytest.mark.parametrize(("caller", "error"), [(LOCAL, Busy), (ONE, TenantBusy)])
def test_a_request_waits_for_so_many_seconds_and_leaves_its_place(caller: Caller, error: type[Busy]) -> None:
    async def main() -> tuple[type[Busy], float, int]:
        line = _Line(Slots(1, waiting=2, seconds=30.0))
        running = await (await line.begin("running", caller))
        with pytest.raises(Busy) as refused:
            await (await line.begin("late", caller))
        moment = asyncio.get_running_loop().time()
        later = await line.begin("later", caller)
        running.end()
        (await later).end()
        return type(refused.value), moment, line.slots.n_waiting

    with asyncio.Runner(loop_factory=Clock) as runner:
        assert runner.run(main()) == (error, 30.0, 0)


async def test_a_client_that_goes_away_leaves_its_place_to_others() -> None:
    slots = Slots(1, waiting=1)
    running, leaving = _Request(slots), _Request(slots, size=100)
    await slots.wait(running.scope)
    waiting = asyncio.create_task(slots.wait(leaving.scope))
    await _idle()
    leaving.leave()
    with pytest.raises(ClientDisconnect):
        await waiting
    line = _Line(slots)
    following = await line.begin("following")
    running.end()
    assert (await following).runs


async def test_a_client_that_goes_away_when_its_turn_comes_keeps_no_slot() -> None:
    slots = Slots(1, waiting=2)
    running, leaving = _Request(slots), _Request(slots)
    await slots.wait(running.scope)
    waiting = asyncio.create_task(slots.wait(leaving.scope))
    following = await _Line(slots).begin("following")
    leaving.leave()
    running.end()  # both in one pass of the event loop
    with pytest.raises(ClientDisconnect):
        await waiting
    leaving.end()
    assert (await following).runs


async def test_a_stop_refuses_all_that_wait_and_lets_what_runs_end() -> None:
    line = _Line(Slots(2, waiting=10))
    running = await line.begin("running", ONE)
    waiting = [await line.begin("waiting", ONE) for _ in range(3)]
    line.slots.close()
    for task in waiting:
        with pytest.raises(Busy, match="this process is stopping") as refused:
            await task
        assert (type(refused.value), refused.value.headers["Retry-After"]) == (Busy, "1")
    with pytest.raises(Busy, match="stopping"):
        await (await line.begin("late", ONE))
    assert (await line.begin("at once", OTHER)).done()  # a slot is free for it
    running.result().end()


def test_retry_after_is_when_the_requests_of_the_tenant_have_ended() -> None:
    seconds = [0.0]

    async def main() -> None:
        line = _Line(Slots(4, waiting=8, clock=lambda: seconds[0]))
        for _ in range(50):  # of three seconds each, on two slots
            task = await line.begin("", ONE)
            seconds[0] += 3.0
            task.result().end()
        tasks = [await line.begin("", ONE) for _ in range(6)]
        with pytest.raises(TenantBusy) as refused:
            await (await line.begin("", ONE))
        wait = int(refused.value.headers["Retry-After"])
        assert wait == 9  # two run and four wait
        end = seconds[0] + wait
        while tasks:
            running = [task for task in tasks if task.done()]
            seconds[0] += 3.0
            for task in running:
                tasks.remove(task)
                task.result().end()
            await _idle()
        assert seconds[0] <= end
        assert (await line.begin("", ONE)).done()

    asyncio.run(main())


async def test_a_large_body_takes_the_slots_that_its_memory_is_meant_for() -> None:
    slots = Slots(8, waiting=20, memory=3200)  # 300 bytes each, besides those of waiting bodies
    requests = [_Request(slots, ONE, size) for size in (0, 50, 51, 100, 10_000)]
    for request, amount in zip(requests, (1, 1, 2, 2, 4), strict=True):
        await slots.wait(request.scope)
        assert request.slots == amount
        request.end()


async def test_work_in_a_thread_is_repeated_when_its_request_has_a_slot() -> None:
    slots = Slots(1, waiting=10)
    running, request = _Request(slots), _Request(slots)
    await slots.wait(running.scope)
    work_for(request.scope)
    runs: list[weakref.ref[Any]] = []

    def work() -> str:
        rows = np.zeros(1000)
        runs.append(weakref.ref(rows))
        RequestMemory.reserve_for(request.scope, 8000)
        RequestMemory.work_for(request.scope, 5000)
        Slots.take_for(request.scope)
        return "done"

    task = asyncio.create_task(run_in_thread(work))
    while not slots.n_waiting:
        await asyncio.sleep(0)
    assert [ref() for ref in runs] == [None]  # it waits without its rows
    assert RequestMemory.held_for(request.scope) == request.scope["state"]["holds_bytes"] == 0
    running.end()
    assert (await task, len(runs), request.runs) == ("done", 2, True)
    assert request.scope["state"]["holds_bytes"] == 13_000


async def test_a_free_slot_is_taken_in_the_thread_and_the_work_done_once() -> None:
    slots = Slots(1)
    request = _Request(slots)
    work_for(request.scope)
    runs = []

    def work() -> None:
        runs.append(1)
        for _ in range(3):
            Slots.take_for(request.scope)

    await run_in_thread(work)
    assert (runs, request.slots) == ([1], 1)
    request.end()
    request.end()
    assert slots.n_waiting == 0


async def test_a_thread_does_not_overtake_a_waiting_request_of_its_tenant() -> None:
    slots = Slots(4, waiting=10)
    line = _Line(slots)
    await line.begin("running", ONE)
    large = await line.begin("large", ONE, 1 << 26)  # needs both slots of the tenant
    assert not large.done()
    with pytest.raises(SlotNeeded):
        slots.take(_Request(slots, ONE).scope)
    slots.take(_Request(slots, OTHER).scope)


async def test_pieces_of_a_response_are_not_made_twice() -> None:
    slots = Slots(1)
    await slots.wait(_Request(slots).scope)
    request = _Request(slots)

    def pieces() -> Iterator[int]:
        yield 1
        Slots.take_for(request.scope)

    with pytest.raises(SlotNeeded):
        assert [piece async for piece in iterate_in_thread(pieces())] == [1]


async def test_waiting_gives_the_turn_of_a_light_body_to_others() -> None:
    slots = Slots(1, waiting=1)
    request = _Request(slots)
    await slots.wait(_Request(slots).scope)
    light: LightBodies = request.scope["state"]["light"]
    await light.take(request.scope, 1000)
    waiting = asyncio.create_task(slots.wait(request.scope))
    await _idle()
    assert "holds_turn" not in request.scope["state"]
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_any_mix_of_ends_leaves_nothing_behind() -> None:
    draw = random.Random(7)
    slots = Slots(3, waiting=40, memory=1 << 30)
    callers = (ONE, OTHER, THIRD)
    requests: list[tuple[_Request, asyncio.Task[None]]] = []

    def leave(request: _Request, _: asyncio.Task[None]) -> None:
        request.leave()

    def cancel(_: _Request, task: asyncio.Task[None]) -> None:
        task.cancel()

    def end(request: _Request, _: asyncio.Task[None]) -> None:
        request.end()

    ends: list[Callable[[_Request, asyncio.Task[None]], None]] = [leave, cancel, end]
    for _ in range(600):
        request = _Request(slots, draw.choice(callers), draw.choice([0, 1000, 1 << 26]))
        requests.append((request, asyncio.create_task(slots.wait(request.scope))))
        await asyncio.sleep(0)
        for pair in draw.sample(requests, min(len(requests), draw.randrange(3))):
            draw.choice(ends)(*pair)
            await asyncio.sleep(0)
    while slots.n_waiting or any(not task.done() for _, task in requests):
        for request, task in requests:
            if task.done():
                request.end()
        await _idle()
    for request, _ in requests:
        request.end()
    outcomes = await asyncio.gather(*(task for _, task in requests), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {
        type(None), Busy, TenantBusy, ClientDisconnect, asyncio.CancelledError,
    }  # fmt: skip
    # Everything is free: each tenant finds the same room again.
    line = _Line(slots)
    assert [(await line.begin("", caller)).done() for caller in callers] == [True, True, True]
    waiting = [await line.begin("", ONE, 100) for _ in range(20)]
    assert line.slots.n_waiting == 20
    assert not any(task.done() for task in waiting)


async def test_an_answered_request_leaves_its_place_and_its_slot() -> None:
    slots = Slots(1, waiting=10, seconds=600.0)
    first = _Request(slots)
    await slots.wait(first.scope)
    outcomes: list[type[Exception]] = []
    answered = asyncio.Event()
    received = iter([{"type": "http.request", "body": b"x", "more_body": False}])

    async def receive() -> Message:
        for message in received:
            return message
        await answered.wait()  # as a server says that the response is complete
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            answered.set()

    async def app(scope: Scope, receive: Receive, _: Send) -> None:
        await receive()
        try:
            await slots.wait(scope)
        except (DeadlineExceeded, ClientDisconnect) as error:
            outcomes.append(type(error))

    guard = Guard(app, seconds=0.01, slots=slots, memory=RequestMemory(1 << 30, slots), light=LightBodies())
    await guard(
        {"type": "http", "method": "POST", "path": "/evaluate", "headers": [], "state": {"caller": LOCAL}},
        receive,
        send,
    )
    assert (outcomes, slots.n_waiting) == ([DeadlineExceeded], 0)


async def test_a_request_whose_body_still_arrives_loses_no_part_of_it() -> None:
    slots = Slots(1, waiting=10)
    first = _Request(slots)
    await slots.wait(first.scope)
    parts = iter([b"a", b"b"])
    bodies: list[bytes] = []

    async def receive() -> Message:
        part = next(parts, None)
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        bodies.append((await receive())["body"])
        waiting = asyncio.create_task(slots.wait(scope))
        await _idle()
        first.end()
        await waiting
        bodies.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(_: Message) -> None:
        pass

    guard = Guard(app, seconds=60.0, slots=slots, memory=RequestMemory(1 << 30, slots), light=LightBodies())
    await guard(
        {"type": "http", "method": "POST", "path": "/evaluate", "headers": [], "state": {"caller": LOCAL}},
        receive,
        send,
    )
    assert bodies == [b"a", b"b"]
