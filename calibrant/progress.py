"""Progress: long work tells how far it is, often enough that who is told can end it by raising."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

#: Told between the steps of long work: done, total, stage. What it raises ends the work.
Progress = Callable[[int, int, str], None]
_T = TypeVar("_T")


def told(items: Iterable[_T], progress: Progress | None, total: int, stage: str) -> Iterator[_T]:
    """The items one by one; before each, ``progress`` is told how many of ``total`` are behind."""
    for done, item in enumerate(items):
        if progress is not None:
            progress(done, total, stage)
        yield item


def share(progress: Progress | None, part: int, parts: int, stage: str) -> Progress | None:
    """The progress of one part of ``parts``: its share of the whole, its stages below ``stage``."""
    if progress is None:
        return None
    tell = progress
    return lambda done, total, inner: tell(part * total + done, parts * total, f"{stage}: {inner}")


class Rising:
    """Progress of several parts as one, in thousandths: it never falls, and the last part ends it full."""

    _UNITS = 1000

    def __init__(self, progress: Progress | None, parts: int) -> None:
        self._progress, self._parts, self._part, self._reached = progress, parts, 0, 0

    def begin(self, part: int) -> None:
        """From now on it is this part that tells."""
        self._part = part

    def __call__(self, done: int, total: int, stage: str) -> None:
        """Tell that ``done`` of ``total`` of this part are done."""
        if self._progress is not None:
            now = (self._part * self._UNITS + self._UNITS * done // total) // self._parts
            self._reached = max(self._reached, now)
            self._progress(self._reached, self._UNITS, stage)
