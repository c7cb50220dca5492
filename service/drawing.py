"""The drawing queue: pictures are drawn one at a time in a thread, because drawing holds the GIL."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from service.callers import LOCAL, Caller
from service.errors import busy
from service.guard import MeanPace, Turns
from service.shares import Exhausted, Shares

T = TypeVar("T")

#: Maximum number of waiting requests; waiting uses no thread.
MOST_WAITING = 100


class DrawingQueue:
    """Runs the drawing work of a process, one picture at a time; tenants take turns."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._shares = Shares(most)
        self._turns = Turns(1)
        self._pace = MeanPace()

    async def draw(self, caller: Caller, work: Callable[[], T]) -> T:
        """Run drawing work when it is its turn; raises ``Busy`` if too much is waiting."""
        try:
            self._shares.take(caller)
        except Exhausted as full:
            detail = f"{full.holder} has reached the limit of {full.most} pictures waiting to be drawn"
            raise busy(detail, self._pace.seconds(full.most, 1), of_tenant=full.of_tenant) from full
        try:
            await self._turns.take(caller)
            began = time.monotonic()
            try:
                return await run_in_threadpool(work)
            finally:
                self._pace.add(time.monotonic() - began)
                self._turns.give_back(caller)
        finally:
            self._shares.give_back(caller)

    async def warm(self) -> None:
        """Import what drawing needs, so that the first picture is as fast as the others."""
        await self.draw(LOCAL, _load)


def _load() -> None:
    from calibrant.plots import engine
    from calibrant.reports import html

    html.load()
    engine.load()
