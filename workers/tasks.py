"""The tasks: what a job does, by a use case that reads and writes the store; its log line, trace and progress."""

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
from backend.store.errors import RunLost, StorageError, TimeLimit, problem_of
from backend.store.jobs.runs import Run
from backend.store.server.connection import UNAVAILABLE, patiently
from backend.store.store import Store
from backend.telemetry.logs import tell
from backend.telemetry.observed import Observed, enter, leave
from backend.telemetry.tracing import open_tracer, trace_id_of
from calibrant.errors import CalibrationError
from schemas.jobs import JobRecord, Progress
from schemas.problem_table import problem
from schemas.problems import Problem

if TYPE_CHECKING:
    from backend.telemetry.otlp import Root

# --- Every task is observed here: its log line and its part of the trace of the request that queued it

log = logging.getLogger(__name__)

#: The collector that this worker sends traces to, for its forks.
OTLP_VARIABLE = "CALIBRANT_OTLP_ENDPOINT"
SERVICE = "calibrant-worker"


@dataclass
class ObservedRun:
    """One run of a job. ``outcome`` is the job's status at the end, or ``error`` where it will be run again."""

    job_id: str
    tenant: str
    kind: str
    outcome: str = "error"


@contextlib.contextmanager
def observe(job: JobRecord, tenant: str, queued_at: datetime | None) -> Iterator[ObservedRun]:
    """Observe a run of a job; what it raises goes through."""
    task = ObservedRun(job.id, tenant, job.kind)
    observed = Observed(job.carried.get("request_id"), trace_id_of(job.carried.get("traceparent", "")))
    began = time.monotonic()
    with _traced(job, queued_at, observed) as root:
        token = enter(observed)
        try:
            yield task
        finally:
            _tell(task, observed, root, time.monotonic() - began)
            leave(token)


@contextlib.contextmanager
def _traced(job: JobRecord, queued_at: datetime | None, observed: Observed) -> Iterator[Root | None]:
    """Open this process's tracer for one task: the fork that does it may end at any time, without any clean-up."""
    tracer = open_tracer(SERVICE, os.environ.get(OTLP_VARIABLE), os.environ)
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
    """What the log line of a run says."""
    return {
        "job": task.job_id,
        "kind": task.kind,
        "tenant": task.tenant,
        "outcome": task.outcome,
        "seconds": round(took, 6),
        "n": observed.n,
        "K": observed.n_classes,
    }


def _tell(task: ObservedRun, observed: Observed, root: Root | None, took: float) -> None:
    failed = task.outcome == "error"
    tell(log, logging.WARNING if failed else logging.INFO, "task", fields(task, observed, took))
    if root is not None:
        attributes = {
            "calibrant.job": task.job_id,
            "calibrant.kind": task.kind,
            "calibrant.outcome": task.outcome,
            "calibrant.rows": observed.n,
            "calibrant.request_id": observed.request_id,
        }
        root.describe(f"task {task.kind}", attributes, failed=failed)


# --- Progress: from the solver's every step to a few updates a second, and the moment at which a task comes up for
#     air

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


# --- What a job does


#: The problem of a job that an error of ours ended. Its details are in the log.
_INTERNAL = problem("internal-error", "the task failed by an error of the service; the worker's log tells more")


@dataclass(frozen=True)
class Work:
    """One run of a job, and what it is done with. ``queued_at`` is when its message was written."""

    run: Run
    store: Store
    device: str
    progress: Throttled
    queued_at: datetime | None


def fit(work: Work) -> None:
    """Fit the map that a job names."""
    _run(run_fit, work)


def evaluate(work: Work) -> None:
    """Evaluate what a job names."""
    _run(run_evaluation, work)


def _run(use_case: Callable[[Store, Run, str, Throttled], None], work: Work) -> None:
    """Do a run, and end the job by what comes of it.

    A wrong request ends the job with its problem, and so does an error of ours, which would only come again. What the
    machine lacked may be there the next time.
    """
    run = work.run
    with observe(run.job, run.tenant, work.queued_at) as observed:
        try:
            use_case(work.store, run, work.device, work.progress)
            observed.outcome = "succeeded"
        except RunLost:
            observed.outcome = patiently(lambda: work.store.jobs.status(run.job.id))
        except (CalibrationError, StorageError) as error:
            _fail(run, observed, problem_of(error))
        except Exception as error:
            if _is_of_the_machine(error):
                log.warning("job %s: %s, it is run again", run.job.id, type(error).__name__)
                patiently(run.lose)
            else:
                log.exception("job %s failed", run.job.id)
                _fail(run, observed, _INTERNAL)


def _fail(run: Run, observed: ObservedRun, cause: Problem) -> None:
    observed.outcome = "failed"
    with contextlib.suppress(RunLost):  # cancelled in the meantime
        patiently(lambda: run.fail(cause))


def _is_of_the_machine(error: Exception) -> bool:
    """Whether the machine lacked something: memory, a file, the store. Torch's error of memory is a RuntimeError."""
    return isinstance(error, MemoryError | OSError | RedisError) or type(error).__name__ == "OutOfMemoryError"
