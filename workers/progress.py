"""Progress: from the solver's every step to a few updates a second, and the moment at which a task comes up for air."""

from __future__ import annotations

import contextlib
import threading
import time

from schemas.jobs import Progress
from storage.errors import RunLost, TimeLimit
from storage.jobs.runs import Run
from storage.server.connection import UNAVAILABLE

#: No more updates a second than this.
UPDATES_PER_SECOND = 5.0


class Throttled:
    """Told of every step of a run; writes the first and a few of the others.

    Raises ``TimeLimit`` once the run has taken longer than it may, and ``RunLost`` once the job was cancelled or taken
    away, or ``stopped`` is set.
    """

    def __init__(self, run: Run, stopped: threading.Event | None = None) -> None:
        self._run = run
        self._stopped = stopped
        self._began = time.monotonic()
        self._last = -1.0

    def __call__(self, done: int, total: int, stage: str) -> None:
        """Note that ``done`` of ``total`` steps are behind."""
        moment = time.monotonic()
        if moment - self._began > self._run.job.timeout:
            raise time_limit(self._run)
        if self._stopped is not None and self._stopped.is_set():
            raise RunLost("the job has been cancelled or taken away")
        if moment - self._last < 1.0 / UPDATES_PER_SECOND:
            return
        self._last = moment
        with contextlib.suppress(*UNAVAILABLE):  # the next update tells more than this one
            self._run.report(Progress(done=done, total=total, stage=stage))


def time_limit(run: Run) -> TimeLimit:
    """Build the refusal of a run that took too long."""
    return TimeLimit(f"the job took longer than the {run.job.timeout} s that one run of it may take")
