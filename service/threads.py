"""Threads for the work of requests: a process uses a limited number of them, and tenants take turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from starlette.concurrency import run_in_threadpool

from service.callers import STRANGER, Caller
from service.guard import Turns

P = ParamSpec("P")
T = TypeVar("T")

#: Threads that work for requests at once. The thread pool has 40; the others draw, and write what forms upload.
MOST_THREADS: Final = 32

#: The turns of each event loop; a process has one.
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()
_caller: ContextVar[Caller] = ContextVar("caller", default=STRANGER)


def work_for(caller: Caller) -> None:
    """Let the further work of the current task count for a caller; until then it counts for strangers."""
    _caller.set(caller)


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work in a thread, when it is the turn of its tenant."""
    caller = _caller.get()
    loop = asyncio.get_running_loop()
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = Turns(MOST_THREADS)
    await turns.take(caller)
    try:
        return await run_in_threadpool(work, *args, **kwargs)
    finally:
        turns.give_back(caller)


async def iterate_in_thread(pieces: Iterator[T]) -> AsyncIterator[T]:
    """Make each piece in a thread."""
    end = object()
    while (piece := await run_in_thread(next, pieces, end)) is not end:
        yield piece  # type: ignore[misc]
