"""Jobs: status, progress, results, events and cancellation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeAlias

from httpx import TransportError

from calibrant.client.answers import JobAnswer, JobSummary, Problem
from calibrant.client.errors import JobFailed, JobTimeout, ProblemResponse
from calibrant.client.events import JobEvent, follow
from calibrant.client.requests import get, path_of, read
from calibrant.client.retries import Patience, retry_after, send
from calibrant.client.steps import Answer, Items, Pause, Steps, relayed
from calibrant.core.choices import FINAL

Progress: TypeAlias = Callable[[JobAnswer], None]

#: In the last seconds before a timeout, the job is polled: a stream can be left only at a line, one every 5 s.
_POLLING = 5.0
#: Seconds between two polls: at most, and near a timeout.
_LONGEST_PAUSE, _SHORTEST_PAUSE = 5.0, 0.1


def events(patience: Patience, job: str | JobSummary, *, after: str | None = None) -> Items[JobEvent]:
    """Iterate over the events of a job until it ends, without gaps or duplicates.

    A broken connection is resumed.

    Parameters
    ----------
    after : str, optional
        Id of an event; only later events are returned.

    Yields
    ------
    JobEvent
        A change of status or progress.

    Examples
    --------
    >>> [event.job.status for event in client.events(job_id)][-1]
    'succeeded'
    """
    yield from follow(patience, path_of("jobs", job, "events"), after)


def wait(
    patience: Patience, job: str | JobSummary, *, timeout: float | None = None, progress: Progress | None = None
) -> Steps[JobAnswer]:
    """Wait until a job has succeeded.

    Parameters
    ----------
    timeout : float, optional
        Seconds; by default there is no limit.
    progress : callable, optional
        Called with the job on every change.

    Returns
    -------
    JobAnswer
        The job with its result.

    Raises
    ------
    JobFailed
        If the job failed or was cancelled.
    JobTimeout
        If the job has not ended after ``timeout`` seconds; it continues on the server.

    Examples
    --------
    >>> list(client.wait(job_id).result)
    ['map']
    """
    ended = yield from _end_of(patience, job, timeout, progress or _ignore)
    if ended.status != "succeeded":
        unknown = Problem(type="about:blank", title=f"The job was {ended.status}", status=500, detail=ended.id)
        raise JobFailed(ended.problem or unknown)
    return ended


def _end_of(
    patience: Patience, job_id: str | JobSummary, timeout: float | None, progress: Progress
) -> Steps[JobAnswer]:
    """Return the job when it has ended, by its stream of events if possible, else by polling."""
    deadline = None if timeout is None else time.monotonic() + timeout
    watch = _Watch(patience, job_id, progress)
    while True:
        answer = yield from send(patience, get(path_of("jobs", job_id)))
        job = read(JobAnswer, answer)
        left = math.inf if deadline is None else deadline - time.monotonic()
        if job.status in FINAL or left <= _POLLING:
            progress(job)
        if job.status in FINAL:
            return job
        if left <= 0.0:
            raise JobTimeout(job.id, job.status, timeout or 0.0)
        if left <= _POLLING:
            yield Pause(min(_SHORTEST_PAUSE, left))
            continue
        try:
            yield from watch.follow_until(None if deadline is None else deadline - _POLLING)
        except (ProblemResponse, TransportError):  # then poll
            progress(job)
            yield Pause(min(_pause(answer), left))


def _pause(answer: Answer) -> float:
    seconds = retry_after(answer.headers)
    return _LONGEST_PAUSE if seconds is None else min(max(seconds, _SHORTEST_PAUSE), _LONGEST_PAUSE)


class _Watch:
    """Passes on the events of a job, each once, over any number of streams."""

    def __init__(self, patience: Patience, job_id: str | JobSummary, progress: Progress) -> None:
        self._patience = replace(patience, tries=1)
        self._path = path_of("jobs", job_id, "events")
        self._progress = progress
        self._last: str | None = None

    def follow_until(self, until: float | None) -> Steps[None]:
        """Pass on the events of a stream."""
        return relayed(follow(self._patience, self._path, self._last, until=until), self._receive)

    def _receive(self, event: JobEvent) -> None:
        self._last = event.id
        if event.job.status not in FINAL:  # the ended job is passed on with its result
            self._progress(JobAnswer(**{field.name: getattr(event.job, field.name) for field in fields(event.job)}))


def _ignore(job: JobAnswer) -> None:
    """Do nothing; the default callback."""
