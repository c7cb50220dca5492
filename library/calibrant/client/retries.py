"""Retries of requests, with idempotency keys for requests that change something."""

from __future__ import annotations

import math
import random
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Protocol

from httpx import ConnectError, ConnectTimeout, LocalProtocolError, PoolTimeout, TransportError, UnsupportedProtocol

from calibrant.client.errors import problem_of
from calibrant.client.steps import Answer, Pause, Request, Steps, sent

#: Seconds before the first retry, doubled for each further one, and the maximum.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
#: The smallest timeout of a connection in seconds, even if less time is left.
_LEAST_SECONDS = 0.1
#: Statuses that are retried; 409 only with ``Retry-After``.
_EARLY, _EARLY_IF_DATED = (429, 502, 503, 504), 409
#: Errors that are not retried, and errors before the server has received anything.
_HOPELESS = (LocalProtocolError, UnsupportedProtocol)
_NOT_SENT = (ConnectError, ConnectTimeout, PoolTimeout)


@dataclass(frozen=True)
class Patience:
    """The most times that a request is sent, and the total time in seconds."""

    tries: int = 4
    seconds: float = 60.0

    def __post_init__(self) -> None:
        if not isinstance(self.tries, int) or self.tries < 1:
            raise ValueError("tries must be an integer of at least 1")
        if not isinstance(self.seconds, int | float) or not 0.0 < self.seconds < math.inf:
            raise ValueError("timeout must be a finite number of seconds above 0")


class Headed(Protocol):
    """Anything with headers."""

    @property
    def headers(self) -> Mapping[str, str]: ...  # noqa: D102


def send(patience: Patience, request: Request) -> Steps[Answer]:
    """Send a request and return the response; retries if there is no response or a temporary error.

    A request that may change something has the same idempotency key on each try, so that it takes effect once. Raises
    ``ProblemResponse``, or ``httpx.TransportError`` if the last try had no response.
    """
    deadline = time.monotonic() + patience.seconds
    request = request if request.reads else _keyed(request)
    received = False
    for tried in range(1, patience.tries + 1):
        try:
            answer = yield from sent(request, max(deadline - time.monotonic(), _LEAST_SECONDS))
        except TransportError as error:
            pause = backoff(tried)
            if isinstance(error, _HOPELESS) or not _is_worth(patience, tried, pause, deadline):
                raise
            received = received or not isinstance(error, _NOT_SENT)
        else:
            if answer.is_success or (request.forgets and received and answer.status == 404):
                return answer
            pause = pause_of(answer, tried)
            if not _is_early(answer) or not _is_worth(patience, tried, pause, deadline):
                raise problem_of(answer)
        yield Pause(pause)
    raise AssertionError  # the last try returned or raised


def pause_of(response: Headed, tried: int = 1) -> float:
    """Return the seconds to wait after a response: its ``Retry-After``, else ``backoff``."""
    seconds = retry_after(response.headers)
    return backoff(tried) if seconds is None else seconds


def backoff(tried: int) -> float:
    """Return the seconds to wait after ``tried`` tries: exponential backoff with jitter."""
    most = min(_FIRST_PAUSE * 2.0 ** (tried - 1), _LONGEST_PAUSE)
    return most * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of ``Retry-After``, a number or a date by the clock of the server; None without it.

    >>> retry_after({"Retry-After": "7"})
    7.0
    >>> dated = {"Date": "Sun, 06 Nov 1994 08:49:37 GMT", "Retry-After": "Sun, 06 Nov 1994 08:49:40 GMT"}
    >>> retry_after(dated)
    3.0
    """
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        then = parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None
    try:
        now = parsedate_to_datetime(headers.get("Date", "")).timestamp()
    except ValueError:
        now = time.time()
    return max(then - now, 0.0)


def _keyed(request: Request) -> Request:
    """Add an idempotency key if the request has none."""
    return replace(request, headers={"Idempotency-Key": uuid.uuid4().hex, **request.headers})


def _is_early(answer: Answer) -> bool:
    return answer.status in _EARLY or (answer.status == _EARLY_IF_DATED and "Retry-After" in answer.headers)


def _is_worth(patience: Patience, tried: int, pause: float, deadline: float) -> bool:
    return tried < patience.tries and time.monotonic() + pause < deadline
