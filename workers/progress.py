"""Progress: from the solver's every step to a few updates a second."""

from __future__ import annotations

import time

from schemas.jobs import FINAL, Progress
from storage.errors import JobFinal
from storage.jobs import JobStore

#: No more updates a second than this.
UPDATES_PER_SECOND = 5.0


class Throttled:
    """Told of every step of a fit; writes the first, the last of each stage and a few between."""

    def __init__(self, jobs: JobStore, job_id: str) -> None:
        self._jobs = jobs
        self._job_id = job_id
        self._last = -1.0

    def __call__(self, done: int, total: int, stage: str) -> None:
        """Note that ``done`` of ``total`` steps are behind; raises ``JobFinal`` for a job that was cancelled."""
        moment = time.monotonic()
        if done < total and moment - self._last < 1.0 / UPDATES_PER_SECOND:
            return
        self._last = moment
        job = self._jobs.report(self._job_id, Progress(done=done, total=total, stage=stage))
        if job.status in FINAL:
            raise JobFinal("the job has ended while it ran")
