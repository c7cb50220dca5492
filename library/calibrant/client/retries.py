"""Requests that are sent again while that may help and there is time; changes are made once."""

from __future__ import annotations

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

#: Seconds before a request is sent a second time, doubled each time and no longer than the last.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
#: A connection gets so many seconds at least, however little is left.
_LEAST_SECONDS = 0.1
#: Statuses that may change later; 409 only with a ``Retry-After``.
_EARLY, _EARLY_IF_DATED = (429, 502, 503, 504), 409
#: Errors that repeating does not help, and errors before the server has received anything.
_HOPELESS = (LocalProtocolError, UnsupportedProtocol)
_UNHEARD = (ConnectError, ConnectTimeout, PoolTimeout)


@dataclass(frozen=True)
class Patience:
    """How often a request is sent at most, and the seconds in which all of that happens."""

    tries: int = 4
    seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.tries < 1 or not self.seconds > 0.0:
            raise ValueError("tries must be at least 1, and timeout above 0 seconds")


class Headed(Protocol):
    """Anything with headers."""

    @property
    def headers(self) -> Mapping[str, str]: ...  # noqa: D102


def ask(patience: Patience, request: Request) -> Steps[Answer]:
    """The answer to a request, which is sent again where no answer came, or none could be given yet.

    What may change something goes under an idempotency key, the same each time, so that it is done once. Raises
    ``ProblemResponse``, or ``httpx.TransportError`` where the last try had no answer.
    """
    deadline = time.monotonic() + patience.seconds
    request = request if request.reads else _keyed(request)
    heard = False
    for tried in range(1, patience.tries + 1):
        try:
            answer = yield from sent(request, max(deadline - time.monotonic(), _LEAST_SECONDS))
        except TransportError as error:
            pause = backoff(tried)
            if isinstance(error, _HOPELESS) or not _is_worth(patience, tried, pause, deadline):
                raise
            heard = heard or not isinstance(error, _UNHEARD)
        else:
            if answer.is_success or (request.forgets and heard and answer.status == 404):
                return answer
            pause = pause_of(answer, tried)
            if not _is_early(answer) or not _is_worth(patience, tried, pause, deadline):
                raise problem_of(answer)
        yield Pause(pause)
    raise AssertionError  # the last try returned or raised


def pause_of(response: Headed, tried: int = 1) -> float:
    """Seconds to wait after an answer: those of its ``Retry-After``, else those of ``backoff``."""
    seconds = retry_after(response.headers)
    return backoff(tried) if seconds is None else seconds


def backoff(tried: int) -> float:
    """Seconds to wait after so many tries: twice as long each time, by chance up to half of it less."""
    most = min(_FIRST_PAUSE * 2.0 ** (tried - 1), _LONGEST_PAUSE)
    return most * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of ``Retry-After``, a number or a date by the server's own clock; None without one.

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
    """The request under an idempotency key: its own, or a fresh one."""
    return replace(request, headers={"Idempotency-Key": uuid.uuid4().hex, **request.headers})


def _is_early(answer: Answer) -> bool:
    return answer.status in _EARLY or (answer.status == _EARLY_IF_DATED and "Retry-After" in answer.headers)


def _is_worth(patience: Patience, tried: int, pause: float, deadline: float) -> bool:
    return tried < patience.tries and time.monotonic() + pause < deadline
