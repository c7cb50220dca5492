"""One worker: it takes a message from its queues, claims the job, and holds its lease while it is done.

RQ's part is the queue, the loop, the signals and the fork. What becomes of a job is told by its record alone, so none
of RQ's registries is kept.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import select
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

from redis import Redis
from redis.client import Pipeline
from rq import Queue, Worker
from rq.command import parse_payload
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import WorkerStatus

from storage.errors import RunLost
from storage.jobs.leases import RENEWAL_SECONDS, renew
from storage.jobs.queues import GPU_FITS, Message, TaskJob, rq_queue, task_of
from storage.jobs.runs import Run, RunStore
from storage.keyspace import Keyspace
from storage.problems import problem_of
from storage.processes import die_with_parent
from storage.server.connection import UNAVAILABLE
from storage.store import Store
from workers.horse import Harness, Order
from workers.patience import patiently
from workers.progress import Throttled, time_limit
from workers.tasks import Work

log = logging.getLogger(__name__)

#: Seconds after its time limit, or after word that it is to stop, at which a run is ended that has not ended itself.
GRACE_SECONDS = 0.5
#: Seconds that RQ's record of a worker lasts without a heartbeat, beside the 60 that RQ adds.
_TTL_SECONDS = 20
#: RQ tells of a worker before and after every job; that often is enough.
_HEARTBEAT_SECONDS = 5.0


class LeasedWorker(Worker):
    """An RQ worker that has what it has claimed, and nothing else, done by a fork that dies with it.

    ``redis`` is for the queues, on which it waits for long; ``side`` answers soon or not at all.
    """

    def __init__(self, queues: Sequence[str], *, name: str, redis: Redis, side: Redis, device: str) -> None:
        super().__init__(
            [rq_queue(redis, queue) for queue in queues],
            name=name,
            connection=redis,
            job_class=TaskJob,
            serializer=JSONSerializer,
            worker_ttl=_TTL_SECONDS,
        )
        self._side = side
        self._device = device
        self._run: Run | None = None
        self._harness: Harness | None = None
        self._beat = float("-inf")

    @property
    def max_connection_wait_time(self) -> float:  # type: ignore[override]
        """Seconds between two attempts to reach the store: never the same for two workers."""
        return random.uniform(0.3, 1.5)  # noqa: S311 - jitter, not a secret

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Claim the job that a message speaks of, and see its run through to an end."""
        message = Message.read(job)
        if message is None or message.id != job.id or not _is_task(job):
            log.error("queue %s: a message that is none of ours was dropped", queue.name)
            job.delete()
            return
        runs = RunStore(self._side, Keyspace(message.tenant))
        run = patiently(lambda: runs.claim(message, self.name, queue.name))
        if run is None:
            return
        # While it is busy RQ answers SIGTERM by letting the job end.
        self.set_state(WorkerStatus.BUSY)
        self._run = run
        try:
            self.see_through(run, job, queue)
        finally:
            self._run = None
            self.set_state(WorkerStatus.IDLE)

    def see_through(self, run: Run, job: Job, queue: Queue) -> None:
        """Have the work-horse do a run, and renew its lease meanwhile."""
        harness = self._told(Order(run.job, run.lease, job.enqueued_at), job, queue)
        stopped = self._watch(run, harness)
        goes_on = harness.hear()
        status = os.EX_OK if goes_on else self._bury_horse()
        if goes_on is not None or stopped == "taken" or not self.holds(run, 0):
            return
        with contextlib.suppress(RunLost):
            if stopped == "limit":
                patiently(lambda: run.fail(problem_of(time_limit(run))))
            else:
                log.warning("job %s: its process ended with wait status %s, it is run again", run.job.id, status)
                patiently(lambda: run.lose(killed=True))

    def _told(self, order: Order, job: Job, queue: Queue) -> Harness:
        """The work-horse that was told of a run: the one that there is, or a new one."""
        if self._harness is not None:
            try:
                self._harness.tell(order)
            except BrokenPipeError:  # it ended while it had nothing to do
                self._bury_horse()
            else:
                return self._harness
        self._harness = Harness()
        self.fork_work_horse(job, queue)
        self._harness.hold()
        with contextlib.suppress(OSError):  # the fork does the same; whoever is first
            os.setpgid(self.horse_pid, self.horse_pid)
        self._harness.tell(order)
        return self._harness

    def _bury_horse(self) -> int | None:
        """The wait status of a work-horse that has ended or ends now."""
        if self._harness is not None:
            self._harness.drop()
            self._harness = None
        _, status, _ = self.wait_for_horse()
        self._horse_pid = 0
        return status

    def _watch(self, run: Run, harness: Harness) -> str | None:
        """Renew until the work-horse answers or has ended; end it where it was ``taken`` or passed its ``limit``."""
        began, times, stopped = time.monotonic(), 0, None
        while not select.select([harness.answers], [], [], RENEWAL_SECONDS)[0]:
            times += 1
            if not self.holds(run, times):
                stopped = "taken"
            elif time.monotonic() - began > run.job.timeout + GRACE_SECONDS:
                stopped = "limit"
            if stopped is not None:
                self.kill_horse()
        return stopped

    def holds(self, run: Run, times: int) -> bool:
        """Whether the run is still the job's; while the store is away nobody can take it."""
        try:
            return renew(self._side, run.lease, times)
        except UNAVAILABLE:
            return True

    def perform_job(self, job: Job, queue: Queue) -> bool:  # noqa: ARG002 - RQ's own
        """Be the work-horse: called in the fork."""
        if self._harness is not None:
            self._harness.work(self.perform)
        return True

    def perform(self, order: Order, stopped: threading.Event | None = None) -> None:
        """Do a run in this process."""
        tenant = order.lease.tenant
        run = Run(RunStore(self._side, Keyspace(tenant)), order.job, order.lease)
        work = Work(
            run, Store.of(self.connection, tenant), device_of(self._device), Throttled(run, stopped), order.queued_at
        )
        task_of(order.job.kind)(work)

    def handle_payload(self, message: Any) -> None:
        """Hear a command of the store: to stop a job, and no other."""
        payload = parse_payload(message)
        run = self._run
        if payload.get("command") == "stop-job" and run is not None and payload.get("job_id") == run.job.id:
            self.stop_run()

    def stop_run(self) -> None:
        """End the run under way, whose job was cancelled."""
        if self.horse_pid:
            self.kill_horse()

    def kill_horse(self, sig: Any = signal.SIGKILL) -> None:
        """End the fork and all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            try:
                os.killpg(self.horse_pid, sig)
            except ProcessLookupError:  # not yet a group of its own
                os.kill(self.horse_pid, sig)

    def setup_work_horse_signals(self) -> None:
        """Set up the fork's signals."""
        super().setup_work_horse_signals()  # type: ignore[no-untyped-call]
        die_with_parent()

    def reorder_queues(self, reference_queue: Queue) -> None:
        """Let the queues take turns; that of GPUs goes first."""
        self._ordered_queues.sort(key=lambda queue: (queue.name != GPU_FITS, queue.name == reference_queue.name))

    def set_state(self, state: str, pipeline: Pipeline | None = None) -> None:  # noqa: ARG002 - RQ's own
        """Note what the worker does, for its own signals: nobody else asks."""
        self._state = state

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """Tell RQ that the worker is there, no more often than needed."""
        if time.monotonic() - self._beat > _HEARTBEAT_SECONDS:
            super().heartbeat(timeout, pipeline)
            self._beat = time.monotonic()

    def unsubscribe(self) -> None:
        """Nothing: the process ends, and its connection with it. RQ would wait a second for a thread that listens."""

    def run_maintenance_tasks(self) -> None:
        """Nothing: there are no registries to clean, and supervisors look after the rest."""


class WarmWorker(LeasedWorker):
    """A worker that does its runs itself, since what it keeps warm, as a CUDA context, does not survive a fork.

    A run that does not come up for air in time is ended with the worker, which its supervisor starts again.
    """

    _stopped: threading.Event

    def see_through(self, run: Run, job: Job, queue: Queue) -> None:  # noqa: ARG002 - the other forks with it
        """Do a run while a thread renews its lease."""
        self._stopped, over = threading.Event(), threading.Event()
        renewing = threading.Thread(target=self._renew, args=(run, over), daemon=True)
        renewing.start()
        try:
            self.perform(Order(run.job, run.lease, job.enqueued_at), self._stopped)
        finally:
            over.set()
            renewing.join()

    def stop_run(self) -> None:
        """Have the run end the next time it comes up for air."""
        self._stopped.set()

    def _renew(self, run: Run, over: threading.Event) -> None:
        began, times, since = time.monotonic(), 0, None
        while not over.wait(RENEWAL_SECONDS):
            times += 1
            moment = time.monotonic()
            if since is not None and moment - since > GRACE_SECONDS:
                log.warning("job %s did not stop, its worker ends with it", run.job.id)
                os._exit(os.EX_TEMPFAIL)
            if moment - began > run.job.timeout + GRACE_SECONDS:
                with contextlib.suppress(RunLost):
                    patiently(lambda: run.fail(problem_of(time_limit(run))))
            if since is None and not self.holds(run, times):
                self._stopped.set()
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
