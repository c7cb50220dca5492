"""Where pictures are drawn: one at a time, in a thread, since drawing holds the interpreter as long as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from pictures import engine
from reports import html
from service.errors import Busy

T = TypeVar("T")

#: So many may wait for their turn: what waits here takes no thread from other requests.
MOST_WAITING = 100
_RETRY_AFTER = "5"


class Easel:
    """The one place of a process for drawing."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._turn = asyncio.Semaphore(1)
        self._left = most

    async def draw(self, work: Callable[[], T]) -> T:
        """Do drawing work when it is its turn; raises ``Busy`` where too many wait."""
        if self._left <= 0:
            raise Busy("as many pictures are asked for as may wait").with_headers({"Retry-After": _RETRY_AFTER})
        self._left -= 1
        try:
            async with self._turn:
                return await run_in_threadpool(work)
        finally:
            self._left += 1

    async def warm(self) -> None:
        """Load what draws, so that the first picture takes no longer than the others."""
        await self.draw(_load)


def _load() -> None:
    html.load()
    engine.load()
