"""The tasks of jobs: run a use case with the store, and record log line, trace and progress."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from backend.evaluations import run_evaluation
from backend.fits import run_fit
from backend.recommendations import run_recommendation
from backend.settings import shared_setting
from backend.store.errors import RunLost, StorageError, TimeLimit, of_options, problem_of
from backend.store.jobs.runs import Run
from backend.store.server.connection import UNAVAILABLE, patiently
from backend.store.store import Store
from backend.telemetry.logs import log_event
from backend.telemetry.observed import Observed, enter, leave
from backend.telemetry.tracing import open_tracer, trace_id_of
from calibrant.core.errors import CalibrationError
from schemas.jobs import JobRecord, Progress
from schemas.problem_table import problem
from schemas.problems import Problem

if TYPE_CHECKING:
    from backend.telemetry.otlp import Root

# --- Observation of tasks: the log line, and the task's part of the trace of its request

log = logging.getLogger(__name__)

SERVICE = "calibrant-worker"


@dataclass
class ObservedRun:
    """One run of a job; ``outcome`` is the final status of the job, or ``error`` if it will run again."""

    job_id: str
    tenant: str
    kind: str
    outcome: str = "error"


@contextlib.contextmanager
def observe(job: JobRecord, tenant: str, queued_at: datetime | None) -> Iterator[ObservedRun]:
    """Observe a run of a job; exceptions are propagated."""
    task = ObservedRun(job.id, tenant, job.kind)
    observed = Observed(job.carried.get("request_id"), trace_id_of(job.carried.get("traceparent", "")))
    began = time.monotonic()
    with _traced(job, queued_at, observed) as root:
        token = enter(observed)
        try:
            yield task
        finally:
            _report(task, observed, root, time.monotonic() - began)
            leave(token)


@contextlib.contextmanager
def _traced(job: JobRecord, queued_at: datetime | None, observed: Observed) -> Iterator[Root | None]:
    """Open a tracer for one task, because the fork of a task may be killed without cleanup."""
    tracer = open_tracer(SERVICE, shared_setting("otlp_endpoint"), os.environ)
    if tracer is None:
        yield None
        return
    with contextlib.closing(tracer), tracer.root("task", job.carried, serves=False) as root:
        observed.trace_id, observed.tracer = root.trace_id, tracer
        if queued_at is not None:
            queued = queued_at.replace(tzinfo=queued_at.tzinfo or UTC)
            tracer.past("queue", int(queued.timestamp() * 1e9), time.time_ns())
        yield root


def fields(task: ObservedRun, observed: Observed, took: float) -> dict[str, str | int | float | None]:
    """The fields of the log line of a run."""
    return {
        "job": task.job_id,
        "kind": task.kind,
        "tenant": task.tenant,
        "outcome": task.outcome,
        "seconds": round(took, 6),
        "n": observed.n,
        "K": observed.n_classes,
    }


def _report(task: ObservedRun, observed: Observed, root: Root | None, took: float) -> None:
    failed = task.outcome == "error"
    log_event(log, logging.WARNING if failed else logging.INFO, "task", fields(task, observed, took))
    if root is not None:
        attributes = {
            "calibrant.job": task.job_id,
            "calibrant.kind": task.kind,
            "calibrant.outcome": task.outcome,
            "calibrant.rows": observed.n,
            "calibrant.request_id": observed.request_id,
        }
        root.describe(f"task {task.kind}", attributes, failed=failed)


# --- Progress: reduces updates of every step to a few per second, and checks for cancellation

#: Maximum number of updates per second.
UPDATES_PER_SECOND = 5.0


class Throttled:
    """A progress callback that writes the first step of a run and a few per second of the others.

    Raises ``TimeLimit`` when the run has exceeded its time limit, and ``RunLost`` when the job was cancelled or
    assigned to another worker, or ``stopped`` is set.
    """

    def __init__(self, run: Run, stopped: threading.Event | None = None) -> None:
        self._run = run
        self._stopped = stopped
        self._began = time.monotonic()
        self._last = -1.0

    def __call__(self, done: int, total: int, stage: str) -> None:
        """Report that ``done`` of ``total`` steps are complete."""
        moment = time.monotonic()
        if moment - self._began > self._run.job.timeout:
            raise time_limit(self._run)
        if self._stopped is not None and self._stopped.is_set():
            raise RunLost("the job was cancelled or assigned to another worker")
        if moment - self._last < 1.0 / UPDATES_PER_SECOND:
            return
        self._last = moment
        with contextlib.suppress(*UNAVAILABLE):  # the next update supersedes this one
            self._run.report(Progress(done=done, total=total, stage=stage))


def time_limit(run: Run) -> TimeLimit:
    """Build the error of a run that exceeded its time limit."""
    return TimeLimit(f"a run of the job exceeded its limit of {run.job.timeout} s")


# --- The tasks


#: The problem of a job that failed because of an internal error; the log has the details.
_INTERNAL = problem("internal-error", "the task failed because of an internal error; see the worker's log")


@dataclass(frozen=True)
class JobRun:
    """One run of a job, with its store, device and progress; ``queued_at`` is the time of its message."""

    run: Run
    store: Store
    device: str
    progress: Throttled
    queued_at: datetime | None


def fit(work: JobRun) -> None:
    """Fit the map of a job."""
    _run(run_fit, work)


def evaluate(work: JobRun) -> None:
    """Run the evaluation of a job."""
    _run(run_evaluation, work)


def recommend(work: JobRun) -> None:
    """Compare the methods of a recommendation."""
    _run(run_recommendation, work)


def score(work: JobRun) -> None:
    """Write the data set of a job."""
    from backend.references import run_scoring  # few workers need it

    _run(run_scoring, work)


def backfill(work: JobRun) -> None:
    """Send the rows of a job's source to a monitor."""
    from backend.monitors.backfills import run_backfill  # few workers need it

    _run(run_backfill, work)


def _run(use_case: Callable[[Store, Run, str, Throttled], None], work: JobRun) -> None:
    """Run a use case, and end the job with its outcome.

    An invalid request, or an internal error, which would only recur, ends the job with a problem. If the machine lacked
    resources, the job runs again.
    """
    run = work.run
    with observe(run.job, run.tenant, work.queued_at) as observed:
        try:
            use_case(work.store, run, work.device, work.progress)
            observed.outcome = "succeeded"
        except RunLost:
            observed.outcome = patiently(lambda: work.store.jobs.status(run.job.id))
        except (CalibrationError, StorageError) as error:
            _fail(run, observed, problem_of(of_options(error)))
        except Exception as error:
            if _is_of_the_machine(error):
                log.warning("job %s: %s; it will run again", run.job.id, type(error).__name__)
                patiently(run.lose)
            else:
                log.exception("job %s failed", run.job.id)
                _fail(run, observed, _INTERNAL)


def _fail(run: Run, observed: ObservedRun, cause: Problem) -> None:
    observed.outcome = "failed"
    with contextlib.suppress(RunLost):  # the job was cancelled in the meantime
        patiently(lambda: run.fail(cause))


def _is_of_the_machine(error: Exception) -> bool:
    """Whether the machine lacked memory, a file or the store. Torch's out-of-memory error is a RuntimeError."""
    return isinstance(error, MemoryError | OSError | RedisError) or type(error).__name__ == "OutOfMemoryError"
