"""Jobs: long work, its progress and its result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeAlias

from httpx import TransportError

from calibrant.client.answers import FINAL, JobAnswer, JobsAnswer, JobSummary, Problem
from calibrant.client.calls.pages import pages
from calibrant.client.errors import JobFailed, JobTimeout, ProblemResponse
from calibrant.client.events import Event, follow
from calibrant.client.requests import get, path_of, read
from calibrant.client.retries import Patience, ask, retry_after
from calibrant.client.steps import JSON, Answer, Items, Pause, Request, Steps, relayed

Progress: TypeAlias = Callable[[JobAnswer], None]

#: The last seconds of a time limit are waited through by looking: a stream can be left only at a line, one every 5 s.
_BY_LOOKING = 5.0
#: Seconds between two looks at a job that is waited for: at most, whatever the server tells, and near a time limit.
_LONGEST_PAUSE, _SHORTEST_PAUSE = 5.0, 0.1


def job(patience: Patience, job_id: str) -> Steps[JobAnswer]:
    """A job as it stands, with its result once it has one.

    >>> client.job(job_id).status
    'succeeded'
    """
    answer = yield from ask(patience, get(path_of("jobs", job_id)))
    return read(JobAnswer, answer)


def jobs(
    patience: Patience,
    *,
    status: str | None = None,
    kind: str | None = None,
    batch: str | None = None,
    created_after: str | None = None,
    created_before: str | None = None,
) -> Items[JobSummary]:
    """The jobs, newest first, without their results; pages are read as they are needed.

    Times are RFC 3339 with an offset.

    >>> job_id in [job.id for job in client.jobs(status="succeeded")]
    True
    """
    query = {"status": status, "kind": kind, "batch": batch}
    times = {"created_after": created_after, "created_before": created_before}
    yield from pages(patience, "/jobs", query | times, JobsAnswer)


def cancel(patience: Patience, job_id: str) -> Steps[JobAnswer]:
    """Cancel a job that is queued or running; one that has ended is refused with ``job-final``."""
    request = Request("DELETE", path_of("jobs", job_id), headers={"Accept": JSON})
    answer = yield from ask(patience, request)
    return read(JobAnswer, answer)


def events(patience: Patience, job_id: str, *, after: str | None = None) -> Items[Event]:
    """The changes of a job as they come, behind the event of id ``after``, to its end; none twice, none missed.

    A connection that breaks is taken up where it broke.

    >>> [event.job.status for event in client.events(job_id)][-1]
    'succeeded'
    """
    yield from follow(patience, path_of("jobs", job_id, "events"), after)


def wait(
    patience: Patience, job_id: str, *, timeout: float | None = None, progress: Progress | None = None
) -> Steps[JobAnswer]:
    """Wait until a job has succeeded; ``progress`` is called with it whenever it changes.

    Raises ``JobFailed``, or after ``timeout`` seconds ``JobTimeout``, which is a ``TimeoutError``: the job goes on.

    >>> list(client.wait(job_id).result)
    ['map']
    """
    ended = yield from _end_of(patience, job_id, timeout, progress or _ignore)
    if ended.status != "succeeded":
        unknown = Problem(type="about:blank", title=f"The job was {ended.status}", status=500, detail=ended.id)
        raise JobFailed(ended.problem or unknown)
    return ended


def _end_of(patience: Patience, job_id: str, timeout: float | None, progress: Progress) -> Steps[JobAnswer]:
    """The job once it has ended: by its events where they are given, else by looking."""
    deadline = None if timeout is None else time.monotonic() + timeout
    watch = _Watch(patience, job_id, progress)
    while True:
        answer = yield from ask(patience, get(path_of("jobs", job_id)))
        job = read(JobAnswer, answer)
        left = math.inf if deadline is None else deadline - time.monotonic()
        if job.status in FINAL or left <= _BY_LOOKING:
            progress(job)
        if job.status in FINAL:
            return job
        if left <= 0.0:
            raise JobTimeout(job_id, job.status, timeout or 0.0)
        if left <= _BY_LOOKING:
            yield Pause(min(_SHORTEST_PAUSE, left))
            continue
        try:
            yield from watch.follow_until(None if deadline is None else deadline - _BY_LOOKING)
        except (ProblemResponse, TransportError):  # then looking is as good
            progress(job)
            yield Pause(min(_pause(answer), left))


def _pause(answer: Answer) -> float:
    seconds = retry_after(answer.headers)
    return _LONGEST_PAUSE if seconds is None else min(max(seconds, _SHORTEST_PAUSE), _LONGEST_PAUSE)


class _Watch:
    """The events of a job that is waited for, each passed on once over however many streams."""

    def __init__(self, patience: Patience, job_id: str, progress: Progress) -> None:
        self._patience = replace(patience, tries=1)
        self._path = path_of("jobs", job_id, "events")
        self._progress = progress
        self._last: str | None = None

    def follow_until(self, until: float | None) -> Steps[None]:
        """Pass on the events of one stream."""
        return relayed(follow(self._patience, self._path, self._last, until=until), self._receive)

    def _receive(self, event: Event) -> None:
        self._last = event.id
        if event.job.status not in FINAL:  # the ended job is passed on with its result
            self._progress(JobAnswer(**{each.name: getattr(event.job, each.name) for each in fields(event.job)}))


def _ignore(job: JobAnswer) -> None:
    """Without a callback."""
