"""The steps of a call, taken by a list of what comes of each that asks the server."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import httpx

from calibrant.client.steps import Answer, Done, Item, Open, Outcome, Pause, Request, Send, advance


class IngestionResult(NamedTuple):
    """What a call returned or gave, the requests that it made, and the seconds of its pauses."""

    answer: Any
    lines: list[Any]
    requests: list[Request]
    pauses: list[float]


def answer(status: int = 200, content: bytes = b"{}", **headers: str) -> Answer:
    return Answer(status, httpx.Headers({name.replace("_", "-"): text for name, text in headers.items()}), content)


def take(steps: Generator[Any, Any, Any], answers: Sequence[Any]) -> IngestionResult:
    """Take every step; the answers, lines (None: no more) and errors of ``came`` come in turn."""
    left, lines = list(answers), []
    requests: list[Request] = []
    pauses: list[float] = []
    outcome: Outcome = (None, None)
    while not isinstance(step := advance(steps, outcome), Done):
        outcome = (None, None)
        if isinstance(step, Pause):
            pauses.append(step.seconds)
        elif isinstance(step, Item):
            lines.append(step.value)
        else:
            if isinstance(step, Send | Open):
                requests.append(step.request)
            reply = left.pop(0)
            outcome = (None, reply) if isinstance(reply, httpx.TransportError) else (reply, None)
    assert not left
    return IngestionResult(step.value, lines, requests, pauses)
