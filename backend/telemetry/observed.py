"""The current request or task: the fields of its log lines, and its spans."""

from __future__ import annotations

import contextlib
import functools
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from itertools import accumulate
from typing import ParamSpec, Protocol, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: An attribute of a span: a name or a count.
Attribute = str | int | float


class Tracer(Protocol):
    """Where spans are sent; there is one only if traces are configured."""

    def span(self, name: str, attributes: Mapping[str, Attribute] | None = None) -> AbstractContextManager[object]:
        """A part of the work under way, while the context is open."""

    def past(self, name: str, began: int, ended: int) -> None:
        """A part that is over already; the moments are nanoseconds since 1970."""

    def carrier(self) -> dict[str, str]:
        """The headers by which another process continues the trace."""


@dataclass(slots=True)
class Observed:
    """What is noted of one request or task while it runs."""

    request_id: str | None = None
    trace_id: str | None = None
    n: int | None = None
    n_classes: int | None = None
    tracer: Tracer | None = None
    #: The header of a trace that is only passed on.
    traceparent: str | None = None
    #: When the last byte of the body was read, nanoseconds since 1970.
    body_read: int | None = None


_current: ContextVar[Observed | None] = ContextVar("calibrant-observed", default=None)


def current() -> Observed | None:
    """The request or task under way in this context; threads that it hands work to see it too."""
    return _current.get()


def enter(observed: Observed) -> Token[Observed | None]:
    """Make ``observed`` the current one, until ``leave``."""
    return _current.set(observed)


def leave(token: Token[Observed | None]) -> None:
    """Make what was current before ``enter`` current again."""
    _current.reset(token)


def note_rows(shape: tuple[int, ...]) -> None:
    """Note the shape of the predictions that are worked on, (n,) or (n, K)."""
    observed = _current.get()
    if observed is not None and shape:
        observed.n = shape[0]
        observed.n_classes = shape[1] if len(shape) > 1 else None


def span(name: str, **attributes: Attribute) -> AbstractContextManager[object]:
    """A part of the work under way, in its trace; nothing where there is none."""
    observed = _current.get()
    if observed is None or observed.tracer is None:
        return contextlib.nullcontext()
    return observed.tracer.span(name, attributes)


def _parsed() -> None:
    """Say that the body is parsed: since its last byte was read, the request did nothing else."""
    observed = _current.get()
    if observed is not None and observed.tracer is not None and observed.body_read is not None:
        observed.tracer.past("parse", observed.body_read, time.time_ns())
        observed.body_read = None


def traced(name: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Make each call of a function a span; in a request, what came before it was parsing."""

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @functools.wraps(function)
        def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            observed = _current.get()
            if observed is None or observed.tracer is None:
                return function(*args, **kwargs)
            _parsed()
            with span(name):
                return function(*args, **kwargs)

        return call

    return decorate


def carried() -> dict[str, str]:
    """What a job remembers of the request that queued it: its id, and its trace where it has one."""
    observed = _current.get()
    if observed is None:
        return {}
    known = {"request_id": observed.request_id, "traceparent": observed.traceparent}
    carrier = {} if observed.tracer is None else observed.tracer.carrier()
    return {name: value for name, value in known.items() if value is not None} | carrier


# --- Numbers counted by size, as a histogram of Prometheus holds them


class Spread:
    """How many numbers fell into each bucket, and their sum. ``ends`` are the buckets' upper ends, with them."""

    __slots__ = ("counts", "ends", "total")

    def __init__(self, ends: Sequence[float]) -> None:
        self.ends = ends
        #: A bucket an end, and one for what is larger than all.
        self.counts = [0] * (len(ends) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a number."""
        self.counts[bisect_left(self.ends, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Each end with the numbers up to it, as Prometheus writes them."""
        return list(zip([*map(str, self.ends), "+Inf"], accumulate(self.counts), strict=True))
