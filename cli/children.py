"""Child processes that are started again whenever they end, after pauses that grow."""

from __future__ import annotations

import logging
import random
import subprocess
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

#: Exit status of a command that refused its settings; another start would end in the same way.
SETTINGS_REFUSED = 2
#: Seconds after which a running child counts as healthy, so that its next end is its first again.
HEALTHY_SECONDS = 60.0
#: Seconds of the first pause before a start, and of the longest.
PAUSES = (0.1, 5.0)


class SettingsRefused(Exception):
    """A child ended because its settings were refused."""


class Backoff:
    """The pauses before the starts of one child: each twice the last, up to a limit, with jitter."""

    def __init__(self) -> None:
        self._failures = 0

    def pause(self, lived: float) -> float:
        """Seconds to wait before the next start of a child that ran for ``lived`` seconds."""
        self._failures = 1 if lived >= HEALTHY_SECONDS else self._failures + 1
        first, longest = PAUSES
        return min(first * 2.0 ** min(self._failures - 1, 16), longest) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter


class Child:
    """One child process. ``start`` starts it, again and again; ``process`` is the one that runs already, if any."""

    def __init__(
        self, name: str, start: Callable[[], subprocess.Popen[bytes]], process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._name = name
        self._start = start
        self._backoff = Backoff()
        self._born = time.monotonic()
        self._again: float | None = None
        self.process = start() if process is None else process

    def mend(self) -> None:
        """Start the child again if it has ended and its pause is over; raises ``SettingsRefused``."""
        if self.process.poll() is None:
            return
        now = time.monotonic()
        if self._again is None:
            status = self.process.returncode
            if status == SETTINGS_REFUSED:
                raise SettingsRefused(f"{self._name} refused its settings and ended with status {status}")
            self._wait(now, f"ended with status {status}")
        elif now >= self._again:
            self._born = now
            try:
                self.process = self._start()
            except OSError as error:  # no memory or no process left for now, or the program is being replaced
                self._wait(now, f"could not be started ({error.strerror or type(error).__name__})")
            else:
                self._again = None

    def _wait(self, now: float, why: str) -> None:
        pause = self._backoff.pause(now - self._born)
        self._again = now + pause
        log.warning("serve: %s %s; it is started again in %.2f s", self._name, why, pause)
