"""Progress reports and cancellation of long computations.

``reporting`` installs a callback for its ``with`` block, ``step`` narrows it to a part of the work, and loops call
``report`` or ``check``. An exception raised by the callback ends the work. The callback is in a context variable, so
that functions do not have to pass it on. Without a callback all of this does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Callback with done, total and stage; an exception that it raises ends the work.
Progress = Callable[[int, int, str], None]
#: Progress is reported in thousandths.
_UNITS = 1000


class _Reporter:
    """Reporter of a block; the reported progress never decreases."""

    __slots__ = ("_progress", "_reached", "_stage")

    def __init__(self, progress: Progress) -> None:
        self._progress, self._reached, self._stage = progress, 0, ""

    def report(self, done: int, total: int, stage: str) -> None:
        self._reached, self._stage = max(self._reached, _UNITS * done // total), stage
        self.check()

    def check(self) -> None:
        self._progress(self._reached, _UNITS, self._stage)


_current: ContextVar[_Reporter | None] = ContextVar("calibrant.core.progress", default=None)


def report(done: int, total: int, stage: str) -> None:
    """Report that ``done`` of ``total`` parts of the current step are done."""
    reporter = _current.get()
    if reporter is not None:
        reporter.report(done, total, stage)


def check() -> None:
    """Repeat the last report, so that the callback can end the work."""
    reporter = _current.get()
    if reporter is not None:
        reporter.check()


@contextmanager
def _install(progress: Progress) -> Iterator[None]:
    token = _current.set(_Reporter(progress))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def reporting(progress: Progress | None) -> Iterator[None]:
    """Report the work of the block to ``progress``; if it is None, to the callback of the surrounding block.

    Raises ``TypeError`` if it is not callable.
    """
    if progress is None:
        yield
        return
    if not callable(progress):
        raise TypeError("progress must be a function that is called as progress(done, total, stage)")
    with _install(progress):
        yield


@contextmanager
def step(part: int, parts: int, name: str = "") -> Iterator[None]:
    """Count the work of the block as one of ``parts`` equal parts; its stages appear as ``name: stage``."""
    outer = _current.get()
    if outer is None:
        yield
        return

    def share(done: int, total: int, stage: str) -> None:
        outer.report(part * total + done, parts * total, f"{name}: {stage}" if name and stage else name or stage)

    with _install(share):
        if name:
            check()
        yield


@contextmanager
def muted() -> Iterator[None]:
    """Suppress the reports of a repeated block, and only check for cancellation."""
    outer = _current.get()
    if outer is None:
        yield
        return
    with _install(lambda _done, _total, _stage: outer.check()):
        yield
