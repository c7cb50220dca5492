"""Progress: long work tells how far it is, often enough that who is told can end it by raising."""

from __future__ import annotations

from collections.abc import Callable

#: Told between the steps of long work: done, total, stage. What it raises ends the work.
Progress = Callable[[int, int, str], None]


class Rising:
    """Progress of several parts as one, in thousandths: it never falls, and the last part ends it full."""

    _UNITS = 1000

    def __init__(self, progress: Progress | None, parts: int = 1, stage: str = "") -> None:
        self._progress, self._parts, self._part, self._reached = progress, parts, 0, 0
        self._stage = stage

    def begin(self, part: int) -> None:
        """From now on it is this part that tells."""
        self._part = part

    def __call__(self, done: int, total: int, stage: str) -> None:
        """Tell that ``done`` of ``total`` of this part are done."""
        if self._progress is not None:
            now = (self._part * self._UNITS + self._UNITS * done // total) // self._parts
            self._reached, self._stage = max(self._reached, now), stage
            self._progress(self._reached, self._UNITS, stage)

    def again(self) -> None:
        """Come up for air inside of a step: tell what was told last."""
        if self._progress is not None:
            self._progress(self._reached, self._UNITS, self._stage)

    def share(self, part: int, parts: int, name: str) -> Rising:
        """The progress of one step, which is so much of what is told here; its stages stand below its name."""
        if self._progress is None:
            return self
        step = Rising(
            lambda done, total, stage: self(part * total + done, parts * total, f"{name}{stage and ': '}{stage}")
        )
        step.again()
        return step

    def held(self) -> Rising:
        """The progress of work that is done over and over: it comes up for air, and tells nothing of its own."""
        return self if self._progress is None else Rising(lambda _done, _total, _stage: self.again())


#: Tells nobody.
SILENT = Rising(None)
