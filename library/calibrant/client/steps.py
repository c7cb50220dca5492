"""The steps of a call, without I/O: a client takes the steps, and sends back the outcome of each.

A call is a generator. It yields a step, is sent its outcome or has the error of a broken connection raised in it, and
returns what the caller gets. So what is sent, when it is sent again and how an answer is read is written once, for a
client that blocks and one that awaits.
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
    """A request.

    ``reads`` where it changes nothing; ``forgets`` where it takes something away, which is gone when it is sent again.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = field(default=None, repr=False)
    reads: bool = False
    forgets: bool = False


class Answer(NamedTuple):
    """What came back; the names of ``headers`` are of any case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the request was done, or will be."""
        return 200 <= self.status < 300


class Send(NamedTuple):
    """Send a request and read the whole ``Answer``, each wait being ``seconds`` at most."""

    request: Request
    seconds: float


class Open(NamedTuple):
    """Send a request and read the beginning of the ``Answer``; its ``content`` only where it is a refusal."""

    request: Request
    seconds: float


class Line(NamedTuple):
    """Read the next line of what was opened, None at its end. Every other step but ``Item`` closes it."""


class Pause(NamedTuple):
    """Wait."""

    seconds: float


class Item(NamedTuple, Generic[T]):
    """Give the caller one of several."""

    value: T


class Done(NamedTuple, Generic[T]):
    """There is no step left: what the call returns."""

    value: T


Step: TypeAlias = Send | Open | Line | Pause
Steps: TypeAlias = Generator[Step, Any, T]
#: The steps of a call that gives its answer in pieces.
Items: TypeAlias = Generator[Step | Item[T], Any, None]
#: The outcome of a step: the answer, a line or None, and the error if the connection broke.
Outcome: TypeAlias = tuple[Answer | str | None, TransportError | None]


def advance(steps: Generator[Any, Any, T], came: Outcome = (None, None)) -> Any:
    """Send a call the outcome of its last step; its next one, or ``Done``."""
    reply, error = came
    try:
        return steps.send(reply) if error is None else steps.throw(error)
    except StopIteration as stop:
        return Done(stop.value)


def sent(request: Request, seconds: float) -> Steps[Answer]:
    """The answer to a request that is sent once."""
    answer: Answer = yield Send(request, seconds)
    return answer


def relayed(items: Items[T], receive: Callable[[T], None]) -> Steps[None]:
    """Take the steps of ``items`` within another call, and pass each item to ``receive``."""
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
    """The arguments of httpx for a request."""
    return {
        "method": request.method,
        "url": request.path,
        "params": request.query or None,
        "headers": request.headers,
        "content": request.content,
        "timeout": seconds,
        "follow_redirects": False,  # the key would go along
    }
