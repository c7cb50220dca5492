"""The steps of a call, without I/O, shared by the synchronous and the asynchronous client.

A call is a generator. It yields a step, the client runs it and sends the outcome back, or throws the error of a broken
connection. The return value of the generator is the result of the call. So requests, retries and decoding are written
once for both clients.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from httpx import TransportError

T = TypeVar("T")

JSON = "application/json"


@dataclass(frozen=True)
class Request:
    """An HTTP request.

    ``reads`` if it changes nothing. ``forgets`` if it deletes something, so that a retry may find it deleted.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = field(default=None, repr=False)
    reads: bool = False
    forgets: bool = False


class Answer(NamedTuple):
    """An HTTP response; names of ``headers`` are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class Send(NamedTuple):
    """Send a request and read the whole ``Answer``; each wait takes at most ``seconds``."""

    request: Request
    seconds: float


class Open(NamedTuple):
    """Send a request and open the stream of its ``Answer``; ``content`` is read only for an error response."""

    request: Request
    seconds: float


class NextLine(NamedTuple):
    """Read the next line of the open stream, None at its end. Every other step but ``Item`` closes the stream."""


class Pause(NamedTuple):
    """Wait."""

    seconds: float


class Item(NamedTuple, Generic[T]):
    """Yield an item to the caller."""

    value: T


class Done(NamedTuple, Generic[T]):
    """The result of a call, after its last step."""

    value: T


Step: TypeAlias = Send | Open | NextLine | Pause
Steps: TypeAlias = Generator[Step, Any, T]
#: The steps of a call that yields items.
Items: TypeAlias = Generator[Step | Item[T], Any, None]
#: The outcome of a step: the response, a line or None, and the error if the connection broke.
Outcome: TypeAlias = tuple[Answer | str | None, TransportError | None]


def advance(steps: Generator[Any, Any, T], came: Outcome = (None, None)) -> Any:
    """Send the outcome of the last step to a call; returns the next step, or ``Done``."""
    reply, error = came
    try:
        return steps.send(reply) if error is None else steps.throw(error)
    except StopIteration as stop:
        return Done(stop.value)


def sent(request: Request, seconds: float) -> Steps[Answer]:
    """Send a request once and return the response."""
    answer: Answer = yield Send(request, seconds)
    return answer


def relayed(items: Items[T], receive: Callable[[T], None]) -> Steps[None]:
    """Run ``items`` within another call and pass each item to ``receive``."""
    at = advance(items)
    while not isinstance(at, Done):
        if isinstance(at, Item):
            receive(at.value)
            at = advance(items)
            continue
        try:
            reply = yield at
        except TransportError as error:
            at = advance(items, (None, error))
        else:
            at = advance(items, (reply, None))


def httpx_options(request: Request, seconds: float) -> dict[str, Any]:
    """Return the arguments of httpx for a request."""
    return {
        "method": request.method,
        "url": request.path,
        "params": request.query or None,
        "headers": request.headers,
        "content": request.content,
        "timeout": seconds,
        "follow_redirects": False,  # a redirect would receive the API key
    }
