"""Where pictures are drawn: one at a time, in a thread, since drawing holds the interpreter as long as it takes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from calibrant.plots import engine
from calibrant.reports import html
from service.callers import LOCAL, Caller
from service.errors import Busy
from service.shares import Exhausted, Shares

T = TypeVar("T")

#: So many may wait for their turn: what waits here takes no thread from other requests.
MOST_WAITING = 100
_RETRY_AFTER = "5"


class Easel:
    """The one place of a process for drawing, at which tenants take turns."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._shares = Shares(most)
        self._is_taken = False
        # Who waits, by tenant: the first tenant is the next, and then goes behind the others.
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}

    async def draw(self, caller: Caller, work: Callable[[], T]) -> T:
        """Do drawing work when it is its turn; raises ``Busy`` if too much waits."""
        try:
            self._shares.take(caller)
        except Exhausted as full:
            detail = f"{full.holder} may have {full.most} pictures waiting to be drawn, and has them"
            raise Busy(detail).with_headers({"Retry-After": _RETRY_AFTER}) from full
        try:
            await self._turn(caller.tenant)
            try:
                return await run_in_threadpool(work)
            finally:
                self._pass_on()
        finally:
            self._shares.give_back(caller)

    async def warm(self) -> None:
        """Load what draws, so that the first picture takes no longer than the others."""
        await self.draw(LOCAL, _load)

    async def _turn(self, tenant: str) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        mine = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():  # it was this one's turn already
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._lines:
            tenant = next(iter(self._lines))
            line = self._lines.pop(tenant)
            first = line.popleft()
            if line:
                self._lines[tenant] = line
            if not first.done():  # whoever was cancelled does not come any more
                first.set_result(None)
                return
        self._is_taken = False


def _load() -> None:
    html.load()
    engine.load()
