"""Steps taken one after the other on a client that blocks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Self

import httpx

from calibrant.client.steps import (
    Answer,
    Done,
    Item,
    Items,
    Line,
    Open,
    Outcome,
    Pause,
    Request,
    Step,
    Steps,
    T,
    advance,
)


def run(http: httpx.Client, steps: Steps[T]) -> T:
    """Take the steps of a call; what it returns."""
    with Wire(http) as wire:
        at = advance(steps)
        while not isinstance(at, Done):
            at = advance(steps, wire.take(at))
        found: T = at.value
        return found


def iterate(http: httpx.Client, items: Items[T]) -> Iterator[T]:
    """Take the steps of a call, and give what it gives as it comes."""
    with Wire(http) as wire:
        at = advance(items)
        while not isinstance(at, Done):
            if isinstance(at, Item):
                yield at.value
                at = advance(items)
            else:
                at = advance(items, wire.take(at))


class Wire:
    """One call's use of a connection: at most one stream is open, and is closed when the call ends."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._stream = ExitStack()
        self._lines: Iterator[str] = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def take(self, step: Step) -> Outcome:
        """Take a step; what came of it."""
        try:
            return self._take(step), None
        except httpx.TransportError as error:
            return None, error

    def _take(self, step: Step) -> Answer | str | None:
        if isinstance(step, Line):
            return next(self._lines, None)
        self._stream.close()
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        options = options_of(step.request, step.seconds)
        if isinstance(step, Open):
            return self._open(options)
        response = self._http.request(**options)
        return Answer(response.status_code, response.headers, response.content)

    def _open(self, options: dict[str, Any]) -> Answer:
        response = self._stream.enter_context(self._http.stream(**options))
        content = b"" if response.is_success else response.read()
        self._lines = response.iter_lines()
        return Answer(response.status_code, response.headers, content)


def options_of(request: Request, seconds: float) -> dict[str, Any]:
    """A request in httpx's words."""
    return {
        "method": request.method,
        "url": request.path,
        "params": request.query or None,
        "headers": request.headers,
        "content": request.content,
        "timeout": seconds,
        "follow_redirects": False,  # the key would go along
    }
