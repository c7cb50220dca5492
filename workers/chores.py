"""Workers for background tasks of monitors and data sets: each runs tasks of one kind, and is started if tasks wait.

``DUTIES`` maps each kind to a function of the store and the task, which returns the number of seconds until the task
must run again, or None if it is done. It may be called twice for one task, even concurrently by two workers.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

from redis import Redis
from rq import Queue
from rq.job import Job
from rq.utils import import_attribute
from rq.worker import WorkerStatus

from backend.store.chores import RENEWAL_SECONDS, Chore, ChoreJob, Kind, begin, chore_queue, done, later, renew
from backend.store.server.connection import UNAVAILABLE, patiently
from backend.telemetry.logs import log_event
from workers.worker import Loop

log = logging.getLogger(__name__)

#: Kind of task -> import path of its function, and its time limit in seconds. A worker that exceeds the limit ends with
#: its task, and another one is started.
DUTIES: Final[dict[Kind, tuple[str, float]]] = {
    "look": ("backend.monitors.looks.look", 120.0),
    "deliver": ("workers.deliveries.deliver", 120.0),
    "recalibrate": ("backend.monitors.recalibration.recalibrate", 3600.0),
    "estimate": ("backend.monitors.class_shift.estimate", 3600.0),
    "discard": ("backend.references.discard", 600.0),
}
#: Number of tasks of a kind that a worker runs at the same time, if not one. Deliveries mainly wait for receivers.
THREADS: Final[dict[Kind, int]] = {"deliver": 64}
#: Seconds without a message after which the worker ends.
IDLE_SECONDS = 150

Duty = Callable[[Redis, Chore], float | None]


def duty_of(kind: Kind) -> Duty:
    """The function for a kind of task."""
    return cast(Duty, import_attribute(DUTIES[kind][0]))


def do() -> None:
    """Placeholder for a task in its message, whose id identifies the task; never called."""


class ChoreWorker(Loop):
    """A worker that runs the tasks of one kind in its own process, one after another or in ``THREADS``.

    ``redis`` serves blocking reads of the queue and the tasks; ``side`` has a short timeout.
    """

    def __init__(self, kind: Kind, *, name: str, redis: Redis, side: Redis) -> None:
        super().__init__([chore_queue(redis, kind)], name=name, connection=redis, job_class=ChoreJob)
        self._side = side
        self._most = THREADS.get(kind, 1)
        self._threads = ThreadPoolExecutor(self._most)
        self._free = threading.BoundedSemaphore(self._most)

    def run(self, *, level: str) -> None:
        """Run tasks until the worker is stopped or idle, and then let those in threads end."""
        try:
            self.work(logging_level=level, max_idle_time=IDLE_SECONDS)
        finally:
            self._threads.shutdown()

    def dequeue_job_and_maintain_ttl(self, *args: int | None, **named: int | None) -> tuple[Job, Queue] | None:
        """Wait for a free thread, and then for a message, so that another worker may take it in the meantime."""
        with self._free:
            return super().dequeue_job_and_maintain_ttl(*args, **named)

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run the task of a message, unless it is already done."""
        chore = Chore.read(job.id)
        if chore is None:
            log.error("queue %s: dropped a message of unknown format", queue.name)
            job.delete()
            return
        if self._most > 1:
            self._free.acquire()
            self._threads.submit(self._run_in_thread, chore)
            return
        # While the state is busy, RQ reacts to SIGTERM by letting the task finish.
        self.set_state(WorkerStatus.BUSY)
        try:
            self._run(chore)
        finally:
            self.set_state(WorkerStatus.IDLE)

    def _run_in_thread(self, chore: Chore) -> None:
        try:
            self._run(chore)
        except Exception:
            log.exception("background task %s failed", chore.kind)
        finally:
            self._free.release()

    def _run(self, chore: Chore) -> None:
        if tries := patiently(lambda: begin(self._side, chore, self.name)):
            self.on_claim()
            with self._leased(chore):
                self._do(chore, tries)

    def _do(self, chore: Chore, tries: int) -> None:
        began = time.monotonic()
        try:
            again = duty_of(chore.kind)(self.connection, chore)
        except UNAVAILABLE as error:
            outcome: str = type(error).__name__
        except Exception:
            log.exception("background task %s failed", chore.kind)
            outcome = "error"
        else:
            patiently(lambda: done(self._side, chore, self.name, again))
            _report(chore, tries, "done", time.monotonic() - began)
            return
        patiently(lambda: later(self._side, chore, self.name))
        _report(chore, tries, outcome, time.monotonic() - began)

    @contextlib.contextmanager
    def _leased(self, chore: Chore) -> Iterator[None]:
        """Renew the lease in the meantime; end the process if the task takes too long."""
        over = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(chore, over), daemon=True)
        renewing.start()
        try:
            yield
        finally:
            over.set()
            renewing.join()

    def _renew(self, chore: Chore, over: threading.Event) -> None:
        deadline = time.monotonic() + DUTIES[chore.kind][1]
        while not over.wait(min(RENEWAL_SECONDS, max(0.0, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                log.warning("background task %s took too long; ending its worker", chore.kind)
                os._exit(os.EX_TEMPFAIL)
            with contextlib.suppress(*UNAVAILABLE):
                renew(self._side, chore, self.name)

    def handle_payload(self, message: Any) -> None:
        """Do nothing: the worker reacts only to signals from its supervisor."""

    def kill_horse(self, sig: Any = None) -> None:
        """Do nothing: there is no work-horse to kill if RQ is stopped a second time."""


def _report(chore: Chore, tries: int, outcome: str, took: float) -> None:
    """Write the log line of a task."""
    fields: dict[str, str | int | float | None] = {
        "kind": chore.kind,
        "tenant": chore.tenant,
        "chore": chore.id,
        "try": tries,
        "outcome": outcome,
        "seconds": round(took, 6),
    }
    log_event(log, logging.DEBUG if outcome == "done" else logging.WARNING, "chore", fields)
