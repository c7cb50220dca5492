"""One worker: it takes a message from its queues, claims the job, and holds its lease while it is done.

RQ's part is the queue, the loop, the signals and the fork. What becomes of a job is told by its record alone, so none
of RQ's registries is kept.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any, Literal

from redis import Redis
from rq import Queue
from rq.command import parse_payload
from rq.job import Job
from rq.worker import WorkerStatus

from storage.errors import LaterFormat, RunLost, StorageError
from storage.jobs.leases import RENEWAL_SECONDS, renew
from storage.jobs.queues import GPU_FITS, Message, TaskJob, rq_queue, task_of
from storage.jobs.runs import Run, RunStore
from storage.keyspace import Keyspace
from storage.problems import problem_of
from storage.server.connection import UNAVAILABLE
from storage.store import Store
from workers.horse import Horse, Order
from workers.loop import Loop
from workers.patience import patiently
from workers.progress import Throttled, time_limit
from workers.tasks import Work

log = logging.getLogger(__name__)

#: Seconds after its time limit, or after word that it is to stop, at which a run is ended that has not ended itself.
GRACE_SECONDS = 0.5
#: How a run ended, as its worker sees it: the work-horse answered, or died; it was ended as the job was taken away, or
#: took too long.
End = Literal["done", "died", "taken", "limit"]


class LeasedWorker(Loop):
    """A worker that has what it has claimed, and nothing else, done by a fork that dies with it.

    ``redis`` is for the queues, on which it waits for long; ``side`` answers soon or not at all.
    """

    def __init__(self, queues: Sequence[str], *, name: str, redis: Redis, side: Redis, device: str) -> None:
        super().__init__([rq_queue(redis, queue) for queue in queues], name=name, connection=redis, job_class=TaskJob)
        self._side = side
        self._device = device
        self._horse: Horse | None = None
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Claim the job that a message speaks of, and see its run through to an end."""
        message = Message.read(job)
        if message is None or message.id != job.id or not _is_task(job):
            log.error("queue %s: a message that is none of ours was dropped", queue.name)
            job.delete()
            return
        run = self._claim(message, queue.name)
        if run is None:
            return
        # While it is busy RQ answers SIGTERM by letting the job end.
        self.set_state(WorkerStatus.BUSY)
        try:
            self.see_through(run, Order(run.job, run.lease, job.enqueued_at))
        finally:
            self.set_state(WorkerStatus.IDLE)

    def _claim(self, message: Message, queue: str) -> Run | None:
        """The run that a message speaks of; None where there is none, or its job cannot be read.

        A job of a later version is left to a worker of that version: its message is queued again as a lost one.
        """
        runs = RunStore(self._side, Keyspace(message.tenant))
        try:
            return patiently(lambda: runs.claim(message, self.name, queue))
        except LaterFormat as error:
            log.warning("job %s: %s", message.job_id, error.detail)
        except StorageError as error:
            log.error("job %s cannot be read (%s), its message was dropped", message.job_id, error.detail)
            patiently(lambda: runs.drop(message, queue))
        return None

    def see_through(self, run: Run, order: Order) -> None:
        """Have the work-horse do a run, and renew its lease meanwhile."""
        end = self._watch(run, self._told(order))
        if end == "done" or not self.holds(run, 0):
            return
        with contextlib.suppress(RunLost):
            if end == "limit":
                patiently(lambda: run.fail(problem_of(time_limit(run))))
            elif end == "died":
                patiently(lambda: run.lose(killed=True))

    def _told(self, order: Order) -> Horse:
        """The work-horse that was told of a run: the one that there is, or a new one where that has ended."""
        if self._horse is not None and not self._horse.tell(order):
            self._end_horse()
        if self._horse is None:
            self._horse = Horse(self.perform)
            self._horse_pid = self._horse.pid
            self._horse.tell(order)  # where it has ended already, it is heard to have
        return self._horse

    def _end_horse(self) -> int | None:
        """End the work-horse; its wait status."""
        horse, self._horse, self._horse_pid = self._horse, None, 0
        return None if horse is None else horse.end()

    def _watch(self, run: Run, horse: Horse) -> End:
        """Renew until the work-horse answers or has ended; end it where its run is taken away or takes too long."""
        began, times = time.monotonic(), 0
        while True:
            ready = select.select([horse.answers, self._woken], [], [], RENEWAL_SECONDS)[0]
            if horse.answers in ready:
                goes_on = horse.hear()
                if not goes_on:
                    status = self._end_horse()
                if goes_on is None:
                    log.warning("job %s: its process ended with wait status %s", run.job.id, status)
                return "died" if goes_on is None else "done"
            if ready:
                _drained(self._woken)
            times += 1
            taken = not self.holds(run, times)
            if taken or time.monotonic() - began > run.job.timeout + GRACE_SECONDS:
                self._end_horse()
                return "taken" if taken else "limit"

    def holds(self, run: Run, times: int) -> bool:
        """Whether the run is still the job's; while the store is away nobody can take it."""
        try:
            return renew(self._side, run.lease, times)
        except UNAVAILABLE:
            return True

    def perform(self, order: Order, stopped: threading.Event | None = None) -> None:
        """Do a run in this process."""
        tenant = order.lease.tenant
        run = Run(RunStore(self._side, Keyspace(tenant)), order.job, order.lease)
        store = Store.of(self.connection, tenant)
        work = Work(run, store, device_of(self._device), Throttled(run, stopped), order.queued_at)
        task_of(order.job.kind)(work)

    def handle_payload(self, message: Any) -> None:
        """Hear that a job is to stop, in a thread of RQ's: whoever does one then looks whether it is that."""
        if parse_payload(message).get("command") == "stop-job":
            self.wake()

    def wake(self) -> None:
        """Have the lease of the run under way looked at now."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b".")

    def kill_horse(self, sig: Any = signal.SIGKILL) -> None:  # noqa: ARG002 - RQ's own
        """End the work-horse, where RQ is told to stop a second time."""
        self._end_horse()

    def reorder_queues(self, reference_queue: Queue) -> None:
        """Let the queues take turns; that of GPUs goes first."""
        self._ordered_queues.sort(key=lambda queue: (queue.name != GPU_FITS, queue.name == reference_queue.name))


class WarmWorker(LeasedWorker):
    """A worker that does its runs itself, since what it keeps warm, as a CUDA context, does not survive a fork.

    A run that does not come up for air in time is ended with the worker, which its supervisor starts again.
    """

    def see_through(self, run: Run, order: Order) -> None:
        """Do a run while a thread renews its lease."""
        stopped, over = threading.Event(), threading.Event()
        renewing = threading.Thread(target=self._renew, args=(run, stopped, over), daemon=True)
        renewing.start()
        try:
            self.perform(order, stopped)
        finally:
            over.set()
            self.wake()
            renewing.join()

    def _renew(self, run: Run, stopped: threading.Event, over: threading.Event) -> None:
        began, times, since = time.monotonic(), 0, None
        while True:
            if select.select([self._woken], [], [], RENEWAL_SECONDS)[0]:
                _drained(self._woken)
            if over.is_set():
                return
            times += 1
            moment = time.monotonic()
            if since is not None and moment - since > GRACE_SECONDS:
                log.warning("job %s did not stop, its worker ends with it", run.job.id)
                os._exit(os.EX_TEMPFAIL)
            if since is None and moment - began > run.job.timeout + GRACE_SECONDS:
                with contextlib.suppress(RunLost):
                    patiently(lambda: run.fail(problem_of(time_limit(run))))
            if since is None and not self.holds(run, times):
                stopped.set()
                since = moment


def device_of(asked: str) -> str:
    """The device of a worker's fits: ``auto`` is cuda where there is one. Asked only in the process that fits."""
    if asked != "auto":
        return asked
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _is_task(job: Job) -> bool:
    try:
        return callable(job.func)
    except PermissionError:
        return False


def _drained(woken: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(woken, 4096)
