"""Children that are started again when they end, ever later, until they end too often."""

from __future__ import annotations

import logging
import random
import subprocess
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

#: So many ends within so many seconds are not mended by yet another start.
ENDS = 5
WINDOW_SECONDS = 60.0
#: Exit status of a command that was told something wrong, which another start would only be told again.
TOLD_WRONG = 2
_PAUSE_SECONDS = (0.1, 5.0)


class GaveUp(Exception):
    """A child that starting again does not mend; ``status`` is what the parent should exit with."""

    def __init__(self, why: str, status: int = 1) -> None:
        super().__init__(why)
        self.status = status


class Child:
    """One child, which ``start`` starts, again and again; ``process`` is it where it runs already."""

    def __init__(
        self, name: str, start: Callable[[], subprocess.Popen[bytes]], process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._name = name
        self._start = start
        self._ends: deque[float] = deque(maxlen=ENDS)
        self._again: float | None = None
        self.process = start() if process is None else process

    def mend(self) -> None:
        """Start it again if it has ended and its time has come; raises ``GaveUp``."""
        if self.process.poll() is None:
            return
        now = time.monotonic()
        if self._again is None:
            self._again = now + self._pause(now)
        if now >= self._again:
            self._again = None
            self.process = self._start()

    def _pause(self, now: float) -> float:
        """Seconds until the next start, for an end that was noticed now."""
        status = self.process.returncode
        if status == TOLD_WRONG:
            raise GaveUp(f"{self._name} refused its settings and ended with status {status}", TOLD_WRONG)
        self._ends.append(now)
        recent = sum(now - end < WINDOW_SECONDS for end in self._ends)
        if recent >= ENDS:
            raise GaveUp(f"{self._name} ended {recent} times within a minute, at last with status {status}")
        pause = pause_after(recent)
        log.warning("serve: %s ended with status %s; it is started again in %.2f s", self._name, status, pause)
        return pause


def pause_after(ends: int) -> float:
    """Seconds to wait after so many ends in a row: growing, and never the same for two."""
    first, most = _PAUSE_SECONDS
    return min(first * 2.0 ** (ends - 1), most) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
