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

#: An attribute of a span.
Attribute = str | int | float


class Tracer(Protocol):
    """Creates spans; exists only if tracing is configured."""

    def span(self, name: str, attributes: Mapping[str, Attribute] | None = None) -> AbstractContextManager[object]:
        """A span of the current work, while the context is open."""

    def past(self, name: str, began: int, ended: int) -> None:
        """A span in the past; times are nanoseconds since 1970."""

    def carrier(self) -> dict[str, str]:
        """Headers with which another process continues the trace."""


@dataclass(slots=True)
class Observed:
    """What is recorded about one request or task while it runs."""

    request_id: str | None = None
    trace_id: str | None = None
    n: int | None = None
    n_classes: int | None = None
    #: The code of the problem that was the response.
    problem: str | None = None
    tracer: Tracer | None = None
    #: The trace header of a caller, passed on if there is no tracer.
    traceparent: str | None = None
    #: When the last byte of the body was read, in nanoseconds since 1970.
    body_read: int | None = None


_current: ContextVar[Observed | None] = ContextVar("calibrant-observed", default=None)


def current() -> Observed | None:
    """The current request or task of this context; threads that it starts inherit it."""
    return _current.get()


def enter(observed: Observed) -> Token[Observed | None]:
    """Make ``observed`` current until ``leave``."""
    return _current.set(observed)


def leave(token: Token[Observed | None]) -> None:
    """Restore what was current before ``enter``."""
    _current.reset(token)


def note_rows(shape: tuple[int, ...]) -> None:
    """Record the shape of the predictions, (n,) or (n, K)."""
    observed = _current.get()
    if observed is not None and shape:
        observed.n = shape[0]
        observed.n_classes = shape[1] if len(shape) > 1 else None


def note_problem(code: str) -> None:
    """Record the problem with which the request is refused."""
    observed = _current.get()
    if observed is not None:
        observed.problem = code


def span(name: str, **attributes: Attribute) -> AbstractContextManager[object]:
    """A span of the current work; a null context if there is no trace."""
    observed = _current.get()
    if observed is None or observed.tracer is None:
        return contextlib.nullcontext()
    return observed.tracer.span(name, attributes)


def _parsed() -> None:
    """Record the time since the last byte of the body as the span ``parse``."""
    observed = _current.get()
    if observed is not None and observed.tracer is not None and observed.body_read is not None:
        observed.tracer.past("parse", observed.body_read, time.time_ns())
        observed.body_read = None


def traced(name: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorate a function so that each call is a span; in a request, the time before it counts as parsing."""

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
    """What a job stores about its request: the request id, and the trace if there is one."""
    observed = _current.get()
    if observed is None:
        return {}
    known = {"request_id": observed.request_id, "traceparent": observed.traceparent}
    carrier = {} if observed.tracer is None else observed.tracer.carrier()
    return {name: value for name, value in known.items() if value is not None} | carrier


# --- Histograms in the form of Prometheus


class Spread:
    """A histogram: counts per bucket and a sum. ``ends`` are the inclusive upper bounds of the buckets."""

    __slots__ = ("counts", "ends", "total")

    def __init__(self, ends: Sequence[float]) -> None:
        self.ends = ends
        #: One bucket per bound, and one for larger values.
        self.counts = [0] * (len(ends) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.ends, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Each bound with the cumulative count, as Prometheus expects."""
        return list(zip([*map(str, self.ends), "+Inf"], accumulate(self.counts), strict=True))
