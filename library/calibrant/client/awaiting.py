"""Steps taken one after the other on a client that awaits; the task may be cancelled at each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Self

import httpx

from calibrant.client.blocking import options_of
from calibrant.client.steps import Answer, Done, Item, Items, Line, Open, Outcome, Pause, Step, Steps, T, advance


async def run(http: httpx.AsyncClient, steps: Steps[T]) -> T:
    """Take the steps of a call; what it returns."""
    async with Wire(http) as wire:
        at = advance(steps)
        while not isinstance(at, Done):
            at = advance(steps, await wire.take(at))
        found: T = at.value
        return found


async def iterate(http: httpx.AsyncClient, items: Items[T]) -> AsyncIterator[T]:
    """Take the steps of a call, and give what it gives as it comes."""
    async with Wire(http) as wire:
        at = advance(items)
        while not isinstance(at, Done):
            if isinstance(at, Item):
                yield at.value
                at = advance(items)
            else:
                at = advance(items, await wire.take(at))


class Wire:
    """One call's use of a connection: at most one stream is open, and is closed when the call ends."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._stream = AsyncExitStack()
        self._lines: AsyncIterator[str] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.aclose()

    async def take(self, step: Step) -> Outcome:
        """Take a step; what came of it."""
        try:
            return await self._take(step), None
        except httpx.TransportError as error:
            return None, error

    async def _take(self, step: Step) -> Answer | str | None:
        if isinstance(step, Line):
            return None if self._lines is None else await anext(self._lines, None)
        await self._stream.aclose()
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        options = options_of(step.request, step.seconds)
        if isinstance(step, Open):
            return await self._open(options)
        response = await self._http.request(**options)
        return Answer(response.status_code, response.headers, response.content)

    async def _open(self, options: dict[str, Any]) -> Answer:
        response = await self._stream.enter_async_context(self._http.stream(**options))
        content = b"" if response.is_success else await response.aread()
        self._lines = response.aiter_lines()
        return Answer(response.status_code, response.headers, content)
