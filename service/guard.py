"""Limits of a single request: time, memory, slots for heavy work, and turns for other work."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from threading import RLock
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.store.errors import problem_of
from calibrant.io.limits import LIGHT_BYTES
from service.callers import LOCAL, Caller
from service.errors import Busy, DeadlineExceeded, RequestError, TooLarge, TooSlow, busy
from service.problems import respond
from service.shares import Exhausted, Shares

#: Seconds after which a client may try again whose body or response was late.
_RETRY_AFTER = "1"
#: The part of the memory for requests that the bodies of waiting requests may have, as a divisor.
_WAITING_PART: Final = 4
#: The bytes that a request needs for each byte of its body: the body, its rows and the copies for the work on them.
_UNPACKED: Final = 6
#: Bytes of bodies up to ``LIGHT_BYTES`` that a process handles at once. Each may take about a microsecond of a thread,
#: and a thread of another tenant waits for as many threads as there are.
MOST_LIGHT_BYTES: Final = 2 * LIGHT_BYTES
#: Bytes of memory that only a request with a slot may hold: a light body, its arrays and their copies.
_HEAVY_BYTES: Final = 4 * LIGHT_BYTES
#: After requests that held more bytes than this, free memory is returned to the system.
_RETURNED_BYTES: Final = 32 * LIGHT_BYTES
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
#: Requests that begin in one pass of the event loop.
MOST_STARTS: Final = 8
#: Methods whose requests have no body.
_WITHOUT_BODY = ("GET", "HEAD")
#: Seconds of waiting for a body over which its rate is measured.
RATE_SECONDS: Final = 10.0
#: Seconds after which a slow body is checked a second time, because the event loop may have been blocked.
_DOUBT_SECONDS = 1.0


class Turns:
    """Lets work of ``total`` units run at once, of which a tenant may have half; without API keys it may have all.

    Work of more units than that runs alone. The rest waits: tenants take turns, and each tenant's work is in order.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._taken = 0
        self._held: dict[str, int] = {}
        # The waiting work by tenant, with its caller and amount: the first tenant is next, and then moves to the end.
        self._lines: dict[str, deque[tuple[asyncio.Future[None], Caller, int]]] = {}
        self._lock = RLock()  # for threads that try

    def most(self, caller: Caller) -> int:
        """The units that the work of a caller's tenant may have at once."""
        return self._total if caller == LOCAL else max(1, self._total // 2)

    def held(self, caller: Caller) -> int:
        """The units that the running work of a caller's tenant has."""
        return self._held.get(caller.tenant, 0)

    def try_take(self, caller: Caller, amount: int = 1) -> bool:
        """Begin work if nothing has to be waited for; may be called in any thread."""
        with self._lock:
            fits = self._fits(caller, amount) and caller.tenant not in self._lines
            if fits:
                self._add(caller, amount)
            return fits

    async def take(self, caller: Caller, amount: int = 1) -> None:
        """Return when it is the turn of work, which must be given back when it ends."""
        mine = asyncio.get_running_loop().create_future()
        with self._lock:
            self._lines.setdefault(caller.tenant, deque()).append((mine, caller, amount))
            self._begin()
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():  # it had already been its turn
                self.give_back(caller, amount)
            raise

    def give_back(self, caller: Caller, amount: int = 1) -> None:
        """End work, and begin what waited for it."""
        with self._lock:
            self._add(caller, -amount)
            self._begin()

    def _begin(self) -> None:
        """Begin the work whose turn it is, as far as there is room."""
        tenants = deque(self._lines)
        while tenants:
            tenant = tenants.popleft()
            line = self._lines[tenant]
            while line and line[0][0].done():  # skip cancelled work
                line.popleft()
            if not line:
                del self._lines[tenant]
                continue
            first, caller, amount = line[0]
            if self._taken and self._taken + amount > self._total:
                return
            if not self._fits(caller, amount):
                continue
            line.popleft()
            self._add(caller, amount)
            first.set_result(None)
            self._lines[tenant] = self._lines.pop(tenant)  # to the end
            tenants.append(tenant)

    def _fits(self, caller: Caller, amount: int) -> bool:
        held = self.held(caller)
        is_free = not self._taken or self._taken + amount <= self._total
        return is_free and (not held or held + amount <= self.most(caller))

    def _add(self, caller: Caller, amount: int) -> None:
        self._taken += amount
        held = self._held.get(caller.tenant, 0) + amount
        if held:
            self._held[caller.tenant] = held
        else:  # tenants must not occupy memory forever
            self._held.pop(caller.tenant, None)


class SlotNeeded(Exception):
    """Work in a thread turned out to be heavy, and no slot is free; it is repeated when its request has one."""

    def __init__(self, scope: Scope) -> None:
        super().__init__("the request needs a slot for heavy work")
        self.scope = scope


class MeanPace:
    """How long work takes on average, which tells how long a line takes; recent work counts most."""

    def __init__(self) -> None:
        self._mean = 1.0

    def add(self, seconds: float) -> None:
        """Count work that has ended."""
        self._mean += (seconds - self._mean) / 8

    def seconds(self, amount: int, at_once: int) -> float:
        """Seconds until an ``amount`` of work has ended, of which so much is done at once."""
        return self._mean * amount / at_once


class Slots:
    """The slots for heavy work, which a request holds until it ends; tenants take turns, and have half of them each.

    A request with a large body holds several, so that the ``memory`` for requests suffices for those that run. Up to
    ``waiting`` requests wait for up to ``seconds``; their bodies may have a part of the memory, and a tenant may have
    half of the places and of these bytes. A request that waits has nothing but its body, and leaves if its client does.
    """

    def __init__(
        self,
        count: int,
        *,
        waiting: int = 0,
        memory: int = 1 << 30,
        seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._turns = Turns(count)
        self._count = count
        self._most_waiting = waiting
        self._places = Shares(waiting)
        self._bytes = Shares(memory // _WAITING_PART)
        self._slot_bytes = max(1, (memory - memory // _WAITING_PART) // count)
        self._seconds = seconds
        self._clock = clock
        self._pace = MeanPace()
        self._waiting: dict[asyncio.Task[None], Caller] = {}
        self._is_closed = False

    @property
    def n_waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    def take(self, scope: Scope) -> None:
        """Take a slot for a request without one, in any thread; raises ``SlotNeeded`` if it must wait."""
        state = scope["state"]
        if "slots_held" not in state:
            amount = self._amount(state)
            if not self._turns.try_take(state["caller"], amount):
                raise SlotNeeded(scope)
            state["slots_held"] = amount, self._clock()

    @staticmethod
    def take_for(scope: Scope) -> None:
        """Take a slot for a request that turns out to be heavy, in any thread; raises ``SlotNeeded``."""
        slots: Slots = scope["state"]["slots"]
        slots.take(scope)

    @staticmethod
    async def wait_for(scope: Scope) -> None:
        """Take a slot for a request that turns out to be heavy, when it is its turn; raises as ``wait``."""
        slots: Slots = scope["state"]["slots"]
        await slots.wait(scope)

    async def wait(self, scope: Scope) -> None:
        """Take a slot for a request without one, when it is its turn.

        Raises ``Busy`` if the line is full or does not move, ``ClientDisconnect`` and ``DeadlineExceeded``.
        """
        with contextlib.suppress(SlotNeeded):
            self.take(scope)
            return
        state = scope["state"]
        caller: Caller = state["caller"]
        state["light"].give_back(scope)
        with self._place(caller, state.get("holds_bytes", 0)):
            turn = asyncio.create_task(self._turn(scope))
            gone = asyncio.create_task(state["gone"]())
            self._waiting[turn] = caller
            try:
                await asyncio.wait((turn, gone), timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                del self._waiting[turn]
                turn.cancel()
                gone.cancel()
        if Guard.is_over(scope):
            raise DeadlineExceeded("the response was not ready in time")
        if gone.done():
            raise ClientDisconnect
        if "slots_held" not in state:
            raise self._refusal(caller)

    def give_back(self, scope: Scope) -> None:
        """Give back the slots of a request, if it has any."""
        state = scope["state"]
        if held := state.pop("slots_held", None):
            amount, since = held
            self._pace.add(self._clock() - since)
            self._turns.give_back(state["caller"], amount)

    def close(self) -> None:
        """Refuse the requests that wait, and those that would have to."""
        self._is_closed = True
        for turn in self._waiting:
            turn.cancel()

    def busy(self, detail: str, caller: Caller, *, of_tenant: bool) -> Busy:
        """The refusal of a request, with the seconds until the present ones of its tenant, or all, have ended."""
        waiting = sum(not of_tenant or other.tenant == caller.tenant for other in list(self._waiting.values()))
        running, at_once = self._count, self._count
        if of_tenant:
            running, at_once = self._turns.held(caller), self._turns.most(caller)
        return busy(detail, self._pace.seconds(running + waiting, at_once), of_tenant=of_tenant)

    async def _turn(self, scope: Scope) -> None:
        state = scope["state"]
        amount = self._amount(state)
        await self._turns.take(state["caller"], amount)
        state["slots_held"] = amount, self._clock()

    def _amount(self, state: Mapping[str, Any]) -> int:
        """The slots that a request needs, by the bytes that it has so far."""
        needed = -(-_UNPACKED * int(state.get("holds_bytes", 0)) // self._slot_bytes)
        return max(1, min(needed, self._turns.most(state["caller"])))

    @contextlib.contextmanager
    def _place(self, caller: Caller, size: int) -> Iterator[None]:
        """A place in the line for a request whose body has ``size`` bytes; raises ``Busy``."""
        if self._is_closed or not self._most_waiting:
            raise self._refusal(caller)
        with contextlib.ExitStack() as taken:
            for shares, amount, unit in (
                (self._places, 1, "waiting heavy requests"),
                (self._bytes, size, "bytes of bodies of waiting requests"),
            ):
                try:
                    shares.take(caller, amount)
                except Exhausted as full:
                    detail = f"{full.holder} has reached the limit of {full.most} {unit}"
                    raise self.busy(detail, caller, of_tenant=full.of_tenant) from full
                taken.callback(shares.give_back, caller, amount)
            yield

    def _refusal(self, caller: Caller) -> Busy:
        """Why a request got no slot."""
        if self._is_closed:
            return busy("this process is stopping", 1.0, of_tenant=False)
        most = self._turns.most(caller)
        if caller != LOCAL and self._turns.held(caller) >= most:
            detail = f"the tenant has reached the limit of {most} concurrent heavy requests"
            return self.busy(detail, caller, of_tenant=True)
        detail = f"this process has reached the limit of {self._count} concurrent heavy requests"
        return self.busy(detail, caller, of_tenant=False)


class Starts:
    """Lets ``most`` requests begin in each pass of the event loop; the others wait, and tenants take turns.

    Each step of a request waits for a pass of the loop, and a pass takes as long as all that is ready in it.
    """

    def __init__(self, most: int = MOST_STARTS) -> None:
        self._most = most
        self._begun = 0  # in this pass
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        self._is_scheduled = False

    async def wait(self, tenant: str) -> None:
        """Return when a request of a tenant may begin."""
        loop = asyncio.get_running_loop()
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._next_pass, loop)
        if self._begun < self._most and not self._lines:
            self._begun += 1
            return
        mine = loop.create_future()
        self._lines.setdefault(tenant, deque()).append(mine)
        await mine

    def _next_pass(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        while self._lines and self._begun < self._most:
            tenant = next(iter(self._lines))
            line = self._lines.pop(tenant)
            first = line.popleft()
            if line:
                self._lines[tenant] = line  # at the end
            if not first.done():  # not cancelled
                first.set_result(None)
                self._begun += 1
        self._is_scheduled = self._begun > 0
        if self._is_scheduled:
            loop.call_soon(self._next_pass, loop)


class LightBodies:
    """Turns of requests with a body that is not heavy, by its bytes: reading many at once would hold up all requests.

    A request waits without a thread, and keeps its turn until it ends or only waits, for a job or a picture.
    """

    def __init__(self) -> None:
        self._turns = Turns(MOST_LIGHT_BYTES)

    @staticmethod
    async def take_for(scope: Scope, size: int) -> None:
        """Wait for the turn of a request; raises ``DeadlineExceeded`` if its time is over by then."""
        light: LightBodies = scope["state"]["light"]
        await light.take(scope, size)

    async def take(self, scope: Scope, size: int) -> None:
        """Wait for the turn of a request with a body of ``size`` bytes."""
        state = scope["state"]
        if state.get("holds_turn"):
            return
        await self._turns.take(state["caller"], size)
        state["holds_turn"] = size
        if Guard.is_over(scope):
            raise DeadlineExceeded("the response was not ready in time")

    def give_back(self, scope: Scope) -> None:
        """End the turn of a request, if it has one."""
        state = scope["state"]
        if size := state.pop("holds_turn", 0):
            self._turns.give_back(state["caller"], size)


class RequestMemory:
    """The memory for the requests of a process: their bodies, what these unpack to, and the copies for the work on it.

    Bytes are reserved before they are allocated, and a request holds them until it ends. A tenant may use half of the
    memory; without API keys it may use all.
    """

    def __init__(self, total: int, slots: Slots) -> None:
        self._shares = Shares(total)
        self._slots = slots

    @staticmethod
    def reserve_for(scope: Scope, size: int) -> None:
        """Reserve ``size`` more bytes for a request, which needs a slot for heavy work if it then holds many.

        Raises ``SlotNeeded``, ``Busy``, or ``TooLarge`` if the request alone exceeds what its tenant may ever use.
        """
        memory: RequestMemory = scope["state"]["memory"]
        if scope["state"].get("holds_bytes", 0) + size > _HEAVY_BYTES:
            Slots.take_for(scope)
        memory.reserve(scope, size)

    @staticmethod
    def work_for(scope: Scope, size: int) -> None:
        """Reserve ``size`` bytes in all for the work of a request, whose parts run one after the other."""
        state = scope["state"]
        memory: RequestMemory = state["memory"]
        memory.reserve(scope, max(0, size - state.get("holds_for_work", 0)))
        state["holds_for_work"] = max(size, state.get("holds_for_work", 0))

    def end_work(self, scope: Scope) -> None:
        """Release the memory for the work of a request, which holds its body and rows for longer."""
        self.reserve(scope, -scope["state"].pop("holds_for_work", 0))

    @staticmethod
    def held_for(scope: Scope) -> int:
        """The bytes that a request holds for its body and rows, besides those for work."""
        state = scope.get("state", {})
        held: int = state.get("holds_bytes", 0) - state.get("holds_for_work", 0)
        return held

    @staticmethod
    def abandon_for(scope: Scope, held: int) -> None:
        """Release the memory of work that will be repeated, down to what the request held before."""
        memory: RequestMemory = scope["state"]["memory"]
        memory.end_work(scope)
        memory.reserve(scope, min(0, held - RequestMemory.held_for(scope)))

    @staticmethod
    def hold_for(scope: Scope, size: int) -> None:
        """Reserve ``size`` bytes in all for the growing body of a request; raises as ``reserve_for``."""
        memory: RequestMemory = scope["state"]["memory"]
        memory.reserve(scope, max(0, size - scope["state"].get("holds_bytes", 0)))

    @staticmethod
    @contextlib.contextmanager
    def lent_for(scope: Scope, size: int) -> Iterator[None]:
        """Reserve ``size`` more bytes for a request until the end of the context; raises as ``reserve_for``."""
        memory: RequestMemory = scope["state"]["memory"]
        memory.reserve(scope, size)
        try:
            yield
        finally:
            memory.reserve(scope, -size)

    def reserve(self, scope: Scope, size: int) -> None:
        """Reserve ``size`` more bytes for a request; raises also ``DeadlineExceeded``."""
        state = scope["state"]
        if size > 0 and Guard.is_over(scope):
            raise DeadlineExceeded("the response was not ready in time")
        held = state.get("holds_bytes", 0)
        try:
            self._shares.take(state["caller"], size)
        except Exhausted as full:
            if held + size > full.most:
                raise TooLarge(
                    f"the request needs more than the limit of {full.most} bytes of memory: send fewer rows, such as "
                    "by appending them to a batch in several requests"
                ) from full
            detail = f"{full.holder} has reached the limit of {full.most} bytes of memory for requests"
            raise self._slots.busy(detail, state["caller"], of_tenant=full.of_tenant) from full
        state["holds_bytes"] = held + size

    def give_back(self, scope: Scope) -> None:
        """Release the memory of a request."""
        state = scope["state"]
        state.pop("holds_for_work", None)
        if size := state.pop("holds_bytes", 0):
            self._shares.give_back(state["caller"], size)
        if size > _RETURNED_BYTES:
            asyncio.get_running_loop().run_in_executor(None, _return_memory)


def _return_memory() -> None:
    """Return free memory to the system: of rows in cycles, such as those of an error, and what the C library keeps."""
    gc.collect()
    if _trim is not None:
        _trim(0)


class Guard:
    """ASGI middleware that responds with a problem if a request takes longer than ``seconds``, or its body is too slow.

    A body is too slow if fewer than ``rate`` bytes per second arrive while the application waits for it, in the first
    10 s of waiting or in any 10 s after that; a rate of 0 disables the check.

    Work in a thread continues after the response, and holds its slot until it ends or notices that its request
    ``is_over``. A response that has started, such as a stream of events, has no time limit.
    """

    def __init__(
        self, app: ASGIApp, *, seconds: float, slots: Slots, memory: RequestMemory, light: LightBodies, rate: int = 0
    ) -> None:
        self._app = app
        self._light = light
        self._seconds = seconds
        self._slots = slots
        self._memory = memory
        self._rate = rate

    @staticmethod
    def is_over(scope: Scope) -> bool:
        """Whether this middleware has already responded to a request."""
        return bool(scope.get("state", {}).get("is_over", False))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a request with its deadline."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        watched = _Watched(scope, receive, send, seconds=self._seconds, rate=self._rate)
        shared = {"slots": self._slots, "memory": self._memory, "light": self._light, "gone": watched.gone}
        scope.setdefault("state", {}).update(shared)
        watched.look()
        try:
            await self._app(scope, watched.receive, watched.send)
        finally:
            watched.close()
            self._slots.give_back(scope)
            self._memory.give_back(scope)
            self._light.give_back(scope)


async def _discard() -> None:
    """Send nothing, because the request already has a response."""


class _Watched:
    """The channel of one request; closed to the application once its deadline has passed or its body is too slow."""

    __slots__ = (
        "_alarm",
        "_answer_begun",
        "_body_ended",
        "_bytes",
        "_deadline",
        "_else",
        "_is_doubted",
        "_loop",
        "_rate",
        "_receive",
        "_refusal",
        "_scope",
        "_seconds",
        "_send",
        "_waited",
        "_waits_since",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, seconds: float, rate: int) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._deadline = self._loop.time() + seconds
        self._rate = rate
        # The current span over which the rate is measured: bytes, seconds of waiting, and the start of the last wait.
        self._bytes = 0
        self._waited = 0.0
        self._waits_since: float | None = None
        self._is_doubted = False
        self._body_ended = scope["method"] in _WITHOUT_BODY  # their bodies are not read
        self._else = "request less work" if self._body_ended else "request it as a job"
        self._answer_begun = False
        self._alarm: asyncio.TimerHandle | None = None
        self._refusal: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        self._waits_since = self._loop.time()
        message = await self._receive()
        self._waited += self._loop.time() - self._waits_since
        self._waits_since = None
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            self._body_ended = self._body_ended or not message.get("more_body", False)
        return message

    async def gone(self) -> None:
        """Return when the client is gone, or was answered; never before its body is complete."""
        while self._body_ended:
            if (await self._receive())["type"] == "http.disconnect":
                return
        await asyncio.Event().wait()

    def send(self, message: Message) -> Awaitable[None]:
        if self._refusal is not None:
            return _discard()
        self._answer_begun = True
        return self._send(message)

    def look(self) -> None:
        """Respond in place of the application if the request is too slow; otherwise schedule the next check."""
        if self._answer_begun:
            return
        now = self._loop.time()
        left = self._deadline - now
        pause = self._until_rate_is_known(now)
        if left <= 0:
            self._expire()
        elif pause is None:
            self._refuse(TooSlow(f"the body arrived at less than {self._rate} bytes per second"))
        else:
            self._alarm = self._loop.call_later(min(left, pause), self.look)

    def close(self) -> None:
        """Stop the checks."""
        if self._alarm is not None:
            self._alarm.cancel()

    def _until_rate_is_known(self, now: float) -> float | None:
        """Seconds until the next check of the body's rate; None if the body is too slow."""
        if self._body_ended or not self._rate:
            return self._seconds
        waited = self._waited + (0.0 if self._waits_since is None else now - self._waits_since)
        if waited < RATE_SECONDS:
            return max(RATE_SECONDS - waited, _DOUBT_SECONDS)
        if self._bytes < self._rate * waited:
            if self._is_doubted:
                return None
            self._is_doubted = True
            return _DOUBT_SECONDS
        self._bytes, self._waited, self._is_doubted = 0, 0.0, False
        if self._waits_since is not None:
            self._waits_since = now
        return RATE_SECONDS

    def _expire(self) -> None:
        if self._body_ended:
            self._refuse(DeadlineExceeded(f"the response was not ready in time; {self._else}"))
        else:
            self._refuse(TooSlow(f"the body was not complete within {self._seconds:g} s"))

    def _refuse(self, error: RequestError) -> None:
        self._scope["state"]["is_over"] = True
        response = respond(problem_of(error), {"Connection": "close", "Retry-After": _RETRY_AFTER})
        self._refusal = asyncio.ensure_future(response(self._scope, self._receive, self._send))
