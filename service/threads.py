"""Threads for the work of requests: a process uses a limited number of them, and tenants take turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from traceback import clear_frames
from typing import Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from service.callers import STRANGER, Caller
from service.guard import RequestMemory, SlotNeeded, Slots, Turns

P = ParamSpec("P")
T = TypeVar("T")

#: Threads that work for requests at once. The thread pool has 40; the others draw, and write what forms upload.
MOST_THREADS: Final = 32

#: Threads that make pieces of large responses at once: each piece takes little time, but has the interpreter.
MOST_PIECES: Final = 2


class _Turns:
    """Turns of each event loop; a process has one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work in a thread, when it is the turn of its tenant."""
        scope, loop = _scope.get(), asyncio.get_running_loop()
        caller: Caller = STRANGER if scope is None else scope["state"]["caller"]
        turns = self._of_loops.setdefault(loop, Turns(self._most))
        await turns.take(caller)
        try:
            return await run_in_threadpool(work, *args, **kwargs)
        finally:
            turns.give_back(caller)


_threads, _pieces = _Turns(MOST_THREADS), _Turns(MOST_PIECES)
_scope: ContextVar[Scope | None] = ContextVar("scope", default=None)


def work_for(scope: Scope) -> None:
    """Let the further work of the current task count for the caller of a request; until then it is of strangers."""
    _scope.set(scope)


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work in a thread, when it is the turn of its tenant.

    Work that needs a slot for heavy work, while none is free, is repeated from its start when its request has one. So
    it must have no effect before it takes the slot.
    """
    held = RequestMemory.held_for(_scope.get() or {})
    while True:
        try:
            return await _threads.run(work, *args, **kwargs)
        except SlotNeeded as needed:
            scope = needed.scope
            clear_frames(needed.__traceback__)  # which would keep the rows while the request waits
        RequestMemory.abandon_for(scope, held)
        await Slots.wait_for(scope)


async def iterate_in_thread(pieces: Iterator[T]) -> AsyncIterator[T]:
    """Make each piece in a thread."""
    end = object()
    while (piece := await _pieces.run(next, pieces, end)) is not end:
        yield piece  # type: ignore[misc]
