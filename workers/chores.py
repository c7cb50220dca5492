"""The workers of chores: one for each kind, there only while there are any.

What a kind of chore does stands in ``DUTIES``: a function of the store and the chore, which answers in how many seconds
it is to be done again, or None where it is over. It may be called twice for one chore, by two workers at once even.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from redis import Redis
from rq import Queue
from rq.job import Job
from rq.utils import import_attribute
from rq.worker import WorkerStatus

from backend.store.chores import RENEWAL_SECONDS, Chore, ChoreJob, Kind, begin, chore_queue, done, later, renew
from backend.store.server.connection import UNAVAILABLE, patiently
from backend.telemetry.logs import tell
from workers.worker import Loop

log = logging.getLogger(__name__)

#: Kind of chore -> what does it, by its import path, and the seconds that it may take; its worker ends with one that
#: takes longer, and another is started.
DUTIES: Final[dict[Kind, tuple[str, float]]] = {
    "look": ("backend.monitors.looks.look", 120.0),
    "deliver": ("backend.monitors.webhooks.deliver", 120.0),
    "recalibrate": ("backend.monitors.recalibration.recalibrate", 3600.0),
}
#: Seconds without a message after which a worker of chores ends.
IDLE_SECONDS = 150

Duty = Callable[[Redis, Chore], float | None]


def duty_of(kind: Kind) -> Duty:
    """The function that does chores of a kind."""
    return cast(Duty, import_attribute(DUTIES[kind][0]))


def do() -> None:
    """Stand for a chore in its message, whose id says which one it is; never called."""


class ChoreWorker(Loop):
    """A worker that does the chores of one kind itself, one after another.

    ``redis`` is for its queue, on which it waits for long, and for what it does; ``side`` answers soon or not at all.
    """

    def __init__(self, kind: Kind, *, name: str, redis: Redis, side: Redis) -> None:
        super().__init__([chore_queue(redis, kind)], name=name, connection=redis, job_class=ChoreJob)
        self._side = side

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Do the chore that a message speaks of, if it is still to be done."""
        chore = Chore.read(job.id)
        if chore is None:
            log.error("queue %s: a message that is none of ours was dropped", queue.name)
            job.delete()
            return
        tries = patiently(lambda: begin(self._side, chore, self.name))
        if not tries:
            return
        # While it is busy RQ answers SIGTERM by letting the chore end.
        self.set_state(WorkerStatus.BUSY)
        try:
            with self._leased(chore):
                self._do(chore, tries)
        finally:
            self.set_state(WorkerStatus.IDLE)

    def _do(self, chore: Chore, tries: int) -> None:
        began = time.monotonic()
        try:
            again = duty_of(chore.kind)(self.connection, chore)
        except UNAVAILABLE as error:
            outcome: str = type(error).__name__
        except Exception:
            log.exception("chore %s failed", chore.kind)
            outcome = "error"
        else:
            patiently(lambda: done(self._side, chore, self.name, again))
            _tell(chore, tries, "done", time.monotonic() - began)
            return
        patiently(lambda: later(self._side, chore, self.name))
        _tell(chore, tries, outcome, time.monotonic() - began)

    @contextlib.contextmanager
    def _leased(self, chore: Chore) -> Iterator[None]:
        """Renew the lease meanwhile; end the process with a chore that takes too long."""
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
                log.warning("chore %s took too long, its worker ends with it", chore.kind)
                os._exit(os.EX_TEMPFAIL)
            with contextlib.suppress(*UNAVAILABLE):
                renew(self._side, chore, self.name)

    def handle_payload(self, message: Any) -> None:
        """Nothing: no word to a worker is heeded but its supervisor's signals."""

    def kill_horse(self, sig: Any = None) -> None:
        """Nothing: it has none, if RQ is stopped a second time."""


def _tell(chore: Chore, tries: int, outcome: str, took: float) -> None:
    """Tell of a chore by the line that it has in the log."""
    fields: dict[str, str | int | float | None] = {
        "kind": chore.kind,
        "tenant": chore.tenant,
        "chore": chore.id,
        "try": tries,
        "outcome": outcome,
        "seconds": round(took, 6),
    }
    tell(log, logging.DEBUG if outcome == "done" else logging.WARNING, "chore", fields)
