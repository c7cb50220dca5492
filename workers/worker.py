"""A worker: RQ's loop, the work-horse process, and the lease of the current job."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import orjson
from redis import Redis
from redis.client import Pipeline
from rq import Queue, Worker
from rq.command import parse_payload
from rq.exceptions import NoSuchJobError
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import WorkerStatus

from backend.store.errors import LaterFormat, RunLost, StorageError, problem_of
from backend.store.jobs.leases import RENEWAL_SECONDS, Lease, renew
from backend.store.jobs.queues import Message, MessageQueue, TaskJob, await_message, rq_queue, take, task_of
from backend.store.jobs.runs import Run, RunStore
from backend.store.keyspace import Keyspace
from backend.store.processes import die_with_parent
from backend.store.server.connection import UNAVAILABLE, patiently
from backend.store.store import Store
from calibrant.core.device import read_device
from schemas.jobs import JobRecord
from workers.tasks import JobRun, Throttled, time_limit

log = logging.getLogger(__name__)

# --- RQ's loop, which reads messages from queues and handles signals; RQ's registries are not used

#: Seconds that RQ's record of a worker lives without a heartbeat, in addition to the 60 s that RQ adds.
_TTL_SECONDS = 20
#: RQ sends a heartbeat before and after every job; this interval is sufficient.
_HEARTBEAT_SECONDS = 5.0


class Loop(Worker):
    """An RQ worker reduced to reading messages; ``execute_job`` processes one."""

    queue_class = MessageQueue
    #: Called when the worker has claimed work, for its supervisor.
    on_claim: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, queues: Sequence[Queue], *, name: str, connection: Redis, job_class: type[Job]) -> None:
        super().__init__(
            queues,
            name=name,
            connection=connection,
            job_class=job_class,
            serializer=JSONSerializer,
            worker_ttl=_TTL_SECONDS,
        )
        self._beat = float("-inf")

    @property
    def max_connection_wait_time(self) -> float:  # type: ignore[override]
        """Seconds between two attempts to reach the store, with jitter so that workers differ."""
        return random.uniform(0.3, 1.5)  # noqa: S311 - jitter, not a secret

    def set_shutdown_requested_date(self) -> None:
        """Do nothing, so that a worker can be stopped while the store is down."""

    def set_state(self, state: str, pipeline: Pipeline | None = None) -> None:  # noqa: ARG002 - RQ's own
        """Store the state locally, for the worker's signal handlers; nothing else needs it."""
        self._state = state

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """Send a heartbeat to RQ, but no more often than needed."""
        if time.monotonic() - self._beat > _HEARTBEAT_SECONDS:
            super().heartbeat(timeout, pipeline)
            self._beat = time.monotonic()

    def unsubscribe(self) -> None:
        """Do nothing: the process ends, and its connection with it. RQ would wait a second for its listener thread."""

    def run_maintenance_tasks(self) -> None:
        """Do nothing: there are no registries to clean, and supervisors do the rest."""


# --- The work-horse: a fork of the worker that performs one run after another, to keep caches warm
#
# It receives a run as a line on a pipe, and answers with a byte when the run is complete. If it ends for any reason,
# the worker reads the end of the pipe. It ends itself after a number of runs, or after a run that used much memory, to
# avoid leaks. Only the thread that takes jobs communicates with it, so answers cannot be confused.

#: Runs after which a work-horse ends, and memory growth in bytes that one run may cause.
MOST_RUNS, MOST_GROWTH = 500, 256 << 20
_DONE, _LAST = b".", b"!"


class Order(NamedTuple):
    """A run for the work-horse: the claimed job, its lease, and when it was queued."""

    job: JobRecord
    lease: Lease
    queued_at: datetime | None

    def line(self) -> bytes:
        """Serialize for the pipe."""
        document = {
            "job": orjson.Fragment(self.job.model_dump_json()),
            "lease": self.lease,
            "queued_at": self.queued_at,
        }
        return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def read(cls, line: bytes) -> Order:
        """Parse a line of the pipe."""
        document = orjson.loads(line)
        queued_at = None if document["queued_at"] is None else datetime.fromisoformat(document["queued_at"])
        return cls(JobRecord.model_validate(document["job"]), Lease(**document["lease"]), queued_at)


class Horse:
    """The worker's handle of its work-horse, which is forked immediately and ends with the worker."""

    def __init__(self, do: Callable[[Order], None]) -> None:
        orders, self._order_pipe = os.pipe()
        self.answers, answering = os.pipe()
        parent = os.getpid()
        try:
            self.pid = os.fork()
        except OSError:
            for end in (orders, self._order_pipe, self.answers, answering):
                os.close(end)
            raise
        if self.pid == 0:
            status = os.EX_SOFTWARE
            try:
                os.close(self._order_pipe)
                os.close(self.answers)
                _become_horse(parent)
                _work(orders, answering, do)
                status = os.EX_OK
            except Exception:
                log.exception("the process of a job failed")
            finally:
                os._exit(status)
        os.close(orders)
        os.close(answering)

    def send(self, order: Order) -> bool:
        """Send a run; returns False if the work-horse has ended."""
        line = order.line()
        try:
            while line:
                line = line[os.write(self._order_pipe, line) :]
        except BrokenPipeError:
            return False
        return True

    def read_answer(self) -> bool | None:
        """Wait for the end of the run; returns whether the work-horse continues, None if it died during the run."""
        answer = os.read(self.answers, 1)
        return answer == _DONE if answer else None

    def end(self) -> int:
        """Kill the work-horse and everything that it started; returns its wait status."""
        os.close(self._order_pipe)
        os.close(self.answers)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        return os.waitpid(self.pid, 0)[1]


def _become_horse(parent: int) -> None:
    """Die with the worker, ignore Ctrl-C, and reseed the random generator."""
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent()
    if os.getppid() != parent:  # the worker ended before the call
        os._exit(os.EX_TEMPFAIL)
    random.seed()


def _work(orders: int, answering: int, do: Callable[[Order], None]) -> None:
    """Perform runs until the pipe closes."""
    before = _memory()
    with os.fdopen(orders, "rb") as lines:
        for runs, line in enumerate(lines, 1):
            do(Order.read(line))
            last = runs >= MOST_RUNS or _memory() - before > MOST_GROWTH
            os.write(answering, _LAST if last else _DONE)
            if last:
                return


def _memory() -> int:
    """The peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# --- The worker: reads a message, claims the job, and renews its lease while the job runs
#
# RQ provides the queue, the loop, the signals and the fork. The state of a job is only in its record, so RQ's
# registries are not used.


#: Seconds after its time limit, or after a request to stop, at which a run is killed.
GRACE_SECONDS = 0.5
#: How a run ended for its worker: the work-horse answered or died, or was killed because the job was taken away or
#: exceeded its time limit.
End = Literal["done", "died", "taken", "limit"]


class LeasedWorker(Loop):
    """A worker that runs only jobs that it has claimed, in a fork that dies with it.

    ``redis`` serves blocking reads of the queues; ``side`` has a short timeout.
    """

    def __init__(self, queues: Sequence[str], *, name: str, redis: Redis, side: Redis, device: str) -> None:
        super().__init__([rq_queue(redis, queue) for queue in queues], name=name, connection=redis, job_class=TaskJob)
        self._side = side
        self._device = device
        self._horse: Horse | None = None
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)

    def dequeue_job_and_maintain_ttl(self, *_: int | None) -> tuple[Job, Queue] | None:
        """Wait for a message that this worker may take."""
        self.set_state(WorkerStatus.IDLE)
        while True:
            with contextlib.suppress(NoSuchJobError):
                return patiently(self._take)

    def _take(self) -> tuple[Job, Queue]:
        while True:
            self.heartbeat()
            taken = take(self.connection, self.name, self.queue_names())
            if taken is not None:
                queue, message = taken
                job = TaskJob.fetch(message, connection=self.connection, serializer=JSONSerializer)
                return job, rq_queue(self.connection, queue)
            await_message(self.connection, self.queue_names())

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Claim the job of a message, and complete its run."""
        message = Message.read(job)
        if message is None or message.id != job.id or not _is_task(job):
            log.error("queue %s: dropped a message of unknown format", queue.name)
            job.delete()
            return
        run = self._claim(message, queue.name)
        if run is None:
            return
        self.on_claim()
        # While the state is busy, RQ reacts to SIGTERM by letting the job finish.
        self.set_state(WorkerStatus.BUSY)
        try:
            self.see_through(run, Order(run.job, run.lease, job.enqueued_at))
        finally:
            self.set_state(WorkerStatus.IDLE)

    def _claim(self, message: Message, queue: str) -> Run | None:
        """Claim the run of a message; None if there is none, or its job cannot be read.

        A job of a newer version is left to a worker of that version: its message is queued again like a lost one.
        """
        runs = RunStore(self._side, Keyspace(message.tenant))
        try:
            return patiently(lambda: runs.claim(message, self.name, queue))
        except LaterFormat as error:
            log.warning("job %s: %s", message.job_id, error.detail)
        except StorageError as error:
            log.error("job %s cannot be read (%s); dropped its message", message.job_id, error.detail)
            patiently(lambda: runs.drop(message, queue))
        return None

    def see_through(self, run: Run, order: Order) -> None:
        """Have the work-horse perform a run, and renew its lease in the meantime."""
        end = self._watch(run, self._ordered(order))
        if end == "done" or not self.holds(run, 0):
            return
        with contextlib.suppress(RunLost):
            if end == "limit":
                patiently(lambda: run.fail(problem_of(time_limit(run))))
            elif end == "died":
                patiently(lambda: run.lose(killed=True))

    def _ordered(self, order: Order) -> Horse:
        """Send a run to the work-horse; fork a new one if it has ended."""
        if self._horse is not None and not self._horse.send(order):
            self._end_horse()
        if self._horse is None:
            self._horse = Horse(self.perform)
            self._horse_pid = self._horse.pid
            self._horse.send(order)  # if it has already ended, _watch notices
        return self._horse

    def _end_horse(self) -> int | None:
        """End the work-horse; returns its wait status."""
        horse, self._horse, self._horse_pid = self._horse, None, 0
        return None if horse is None else horse.end()

    def _watch(self, run: Run, horse: Horse) -> End:
        """Renew the lease until the run ends; kill the work-horse if its run was taken away or takes too long."""
        began, times = time.monotonic(), 0
        while True:
            ready = select.select([horse.answers, self._woken], [], [], RENEWAL_SECONDS)[0]
            if horse.answers in ready:
                goes_on = horse.read_answer()
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
        """Whether the run still owns the job; while the store is down, no one can take it."""
        try:
            return renew(self._side, run.lease, times)
        except UNAVAILABLE:
            return True

    def perform(self, order: Order, stopped: threading.Event | None = None) -> None:
        """Perform a run in this process."""
        tenant = order.lease.tenant
        run = Run(self._side, Keyspace(tenant), order.job, order.lease)
        store = Store.of(self.connection, tenant)
        work = JobRun(run, store, read_device(self._device), Throttled(run, stopped), order.queued_at)
        task_of(order.job.kind)(work)

    def handle_payload(self, message: Any) -> None:
        """Handle RQ's command to stop a job, in a thread of RQ; the worker then checks its own lease."""
        if parse_payload(message).get("command") == "stop-job":
            self.wake()

    def wake(self) -> None:
        """Check the lease of the current run now."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b".")

    def kill_horse(self, sig: Any = signal.SIGKILL) -> None:  # noqa: ARG002 - RQ's own
        """Kill the work-horse if RQ is stopped a second time."""
        self._end_horse()


class WarmWorker(LeasedWorker):
    """A worker that performs runs in its own process, because a CUDA context does not survive a fork.

    A run that does not react to a stop in time is ended together with the worker, which the supervisor restarts.
    """

    def see_through(self, run: Run, order: Order) -> None:
        """Perform a run while a thread renews its lease."""
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
                log.warning("job %s did not stop; ending its worker", run.job.id)
                os._exit(os.EX_TEMPFAIL)
            if since is None and moment - began > run.job.timeout + GRACE_SECONDS:
                with contextlib.suppress(RunLost):
                    patiently(lambda: run.fail(problem_of(time_limit(run))))
            if since is None and not self.holds(run, times):
                stopped.set()
                since = moment


def _is_task(job: Job) -> bool:
    try:
        return callable(job.func)
    except PermissionError:
        return False


def _drained(woken: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(woken, 4096)
