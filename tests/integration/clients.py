"""Both clients, used alike: one test is of the one that blocks and of the one that awaits."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, cast

from calibrant.client import AsyncCalibrant, Calibrant

Kind = Literal["sync", "async"]


class _Awaited:
    """The client that awaits, each of whose calls is run to its end in a loop of the test's own."""

    def __init__(self, client: AsyncCalibrant, runner: asyncio.Runner) -> None:
        self._client, self._runner = client, runner

    def __repr__(self) -> str:
        return repr(self._client)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **options: Any) -> Any:
            answer = method(*args, **options)
            return self._runner.run(answer) if inspect.iscoroutine(answer) else self._each(answer)

        return call

    def _each(self, pages: AsyncIterator[Any]) -> Iterator[Any]:
        async def following() -> Any:
            return await anext(pages, None)

        while (page := self._runner.run(following())) is not None:
            yield page


@contextlib.contextmanager
def connected(kind: Kind, url: str, **options: Any) -> Iterator[Calibrant]:
    """A client of either kind."""
    if kind == "sync":
        with Calibrant(url, **options) as client:
            yield client
        return
    with asyncio.Runner() as runner:
        awaiting = AsyncCalibrant(url, **options)
        runner.run(awaiting.__aenter__())
        try:
            yield cast(Calibrant, _Awaited(awaiting, runner))
        finally:
            runner.run(awaiting.__aexit__(None, None, None))
