"""The supervisor, which keeps its workers running and maintains the queues."""

from __future__ import annotations

import contextlib
import gc
import logging
import mmap
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from rq import Worker
from rq.worker_registration import REDIS_WORKER_KEYS

from backend.monitors.webhook_targets import Targets
from backend.settings import variables_of
from backend.store.chores import KINDS, WORKERS_OF_KIND, Kind, owner_ended, queue_due, queue_of, read_owners
from backend.store.jobs.leases import announce, retire
from backend.store.jobs.queues import EVALUATIONS, FITS, GPU_FITS
from backend.store.jobs.recovery import LOOK_SECONDS, Recovery
from backend.store.processes import die_with_parent
from backend.store.server.connection import UNAVAILABLE, check_durability, connect, error_name, jittered, safe_url
from backend.telemetry.tracing import check_telemetry
from calibrant.core.device import has_driver, read_device
from calibrant.core.errors import CalibrationError
from schemas.jobs import WorkersRecord
from workers.chores import ChoreWorker, duty_of
from workers.settings import WorkerSettings
from workers.worker import LeasedWorker, WarmWorker

# --- The slots for workers, and the process that fills a slot

log = logging.getLogger(__name__)

#: Timeout in seconds for store operations that must not block.
SIDE_SECONDS = 1.0


@dataclass
class WorkerSlot:
    """The slot of one worker: its process, and its number of consecutive failed starts.

    The slot of a background-task worker, which has a ``kind``, is filled only if tasks wait; the others are always
    filled.
    """

    kind: Kind | None = None
    name: str = ""
    pid: int | None = None
    born: float = 0.0
    failures: int = 0
    not_before: float = 0.0
    #: A byte shared with the worker, which sets it when it has claimed work.
    claimed: mmap.mmap = field(default_factory=lambda: mmap.mmap(-1, 1))
    unclaimed_starts: int = 0

    @property
    def is_failing(self) -> bool:
        """Whether the worker repeatedly cannot start."""
        is_up = self.pid is not None and time.monotonic() - self.born > _STARTED_SECONDS
        return self.unclaimed_starts >= _FAILED_STARTS and not (is_up or self.claimed[0])

    def note_claim(self) -> None:
        """Record, in the worker, that it has claimed work."""
        self.claimed[0] = 1

    def note_end(self, status: int) -> None:
        """Count the end of the worker; one that lost the store, or claimed work, did not fail to start."""
        lived = time.monotonic() - self.born
        self.failures = 0 if lived > _STARTED_SECONDS else self.failures + 1
        if lived > _STARTED_SECONDS or self.claimed[0]:
            self.unclaimed_starts = 0
        elif os.waitstatus_to_exitcode(status) != os.EX_TEMPFAIL:
            self.unclaimed_starts += 1


def fill(place: WorkerSlot, plan: WorkerSettings, queues: tuple[str, ...], *, cuda: bool) -> None:
    """Fork the worker of a slot."""
    place.name, place.born = secrets.token_hex(16), time.monotonic()
    place.claimed[0] = 0
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = os.EX_SOFTWARE
        try:
            _become_worker(parent)
            status = work(plan, queues, place, cuda=cuda)
        except Exception as error:
            log.exception("worker: failed%s", f": {error.detail}" if isinstance(error, CalibrationError) else "")
        finally:
            os._exit(status)
    place.pid = pid


def work(plan: WorkerSettings, queues: tuple[str, ...], place: WorkerSlot, *, cuda: bool) -> int:
    """Run one worker until it is stopped or, for background tasks, idle; return the exit status."""
    traced = check_telemetry(plan.otlp_endpoint, os.environ)
    # A blocking pop must outlast the socket timeout, so RQ sets its own timeout.
    redis = connect(plan.redis_url, traced=traced)
    side = connect(plan.redis_url, timeout=SIDE_SECONDS)
    level = logging.getLevelName(logging.getLogger().level)
    try:
        if place.kind is not None:
            chores = ChoreWorker(place.kind, name=place.name, redis=redis, side=side)
            chores.on_claim = place.note_claim
            chores.run(level=level)
            return os.EX_OK
        if cuda:
            _warm_up()
        kind = WarmWorker if cuda or plan.warm else LeasedWorker
        worker = kind(queues, name=place.name, redis=redis, side=side, device="cuda" if cuda else "cpu")
        worker.on_claim = place.note_claim
        worker.work(logging_level=level)
    except UNAVAILABLE as error:
        log.warning("worker: store unavailable (%s)", type(error).__name__)
        return os.EX_TEMPFAIL
    return os.EX_OK


def _warm_up() -> None:
    """Create the CUDA context of this process; raises an error that says so if there is no GPU."""
    read_device("cuda")
    import torch

    torch.zeros(1, device="cuda")


def _become_worker(parent: int) -> None:
    """Die with the supervisor, and reset the signal handlers."""
    die_with_parent()
    if os.getppid() != parent:  # the supervisor ended before the call
        os._exit(os.EX_TEMPFAIL)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


# --- The supervisor
#
# It imports the modules of the tasks before it forks workers, so that a new worker is ready immediately, and those of a
# kind of background task before the first worker of that kind. It runs none of their code, because a thread that a
# library starts before a fork would make the child hang. Torch is imported only in the processes that use it.

#: Seconds that a worker must live for its end not to count as a failed start.
_STARTED_SECONDS = 5.0
#: Number of consecutive starts that ended sooner, without claimed work, after which the supervisor is not announced.
_FAILED_STARTS = 5
#: Seconds of the first and of the longest pause before a worker is restarted.
_PAUSES = (0.05, 5.0)


def supervise(plan: WorkerSettings) -> None:
    """Run workers until SIGTERM or SIGINT; then let running jobs end, within a time limit.

    Raises ``MissingTelemetry`` if tracing is configured without the extra ``telemetry``, ``InvalidTargets`` for invalid
    webhook hosts or networks, and ``UnsuitableStore`` for a Redis that evicts keys or is a cluster.
    """
    check_telemetry(plan.otlp_endpoint, os.environ)
    Targets.read(plan.webhook_hosts, plan.webhook_private_addresses)
    os.environ |= variables_of(plan)
    # Imported objects are permanent. Freezing them keeps the garbage collector from touching their pages in every fork.
    gc.freeze()
    gc.enable()
    Supervisor(plan).run()


class Supervisor:
    """The workers of one machine or container."""

    def __init__(self, plan: WorkerSettings) -> None:
        self._plan = plan
        self._cuda = has_cuda(plan.device)
        suited = (GPU_FITS, FITS, EVALUATIONS) if self._cuda else (FITS, EVALUATIONS)
        self._queues = plan.queue_names or suited
        self._redis = connect(plan.redis_url, timeout=SIDE_SECONDS)
        self._recovery = Recovery(self._redis)
        self._places = [WorkerSlot() for _ in range(plan.processes)]
        self._places += [WorkerSlot(kind) for kind in KINDS for _ in range(WORKERS_OF_KIND)]
        self._waiting: list[Kind] = []
        self._busy: set[str] = set()
        self._id = secrets.token_hex(8)
        self._checked = self._reached = False
        self._stopping = False
        self._healthy = True
        self._looks = 0

    def run(self) -> None:
        """Run until stopped."""
        log.info(
            "supervisor: store %s, queues %s, device %s, %s processes",
            safe_url(self._plan.redis_url),
            ",".join(self._queues),
            "cuda" if self._cuda else "cpu",
            self._plan.processes,
        )
        with self._signals() as woken:
            while not self._stopping:
                self._reap()
                self._look()
                self._fill()
                _pause(woken, self._seconds_to_wait())
            self._drain(woken)
        with contextlib.suppress(*UNAVAILABLE):
            retire(self._redis, self._id)

    def _look(self) -> None:
        """Announce the workers and check all jobs, if the store is available."""
        device = "cuda" if self._cuda else "cpu"
        workers_record = WorkersRecord(
            id=self._id,
            host=socket.gethostname(),
            pid=os.getpid(),
            device=device,
            queues=list(self._queues),
            processes=self._plan.processes,
        )
        try:
            if not self._checked:
                check_durability(self._redis)
                self._checked = True
            self._looks += 1
            workers = [place.name for place in self._living() if place.kind is None]
            announce(self._redis, workers_record, workers, self._looks, is_healthy=self._is_healthy())
            self._recovery.look()
            self._waiting = queue_due(self._redis)
            self._busy = read_owners(self._redis) if self._waiting else set()
        except UNAVAILABLE as error:
            if self._reached:
                log.warning("supervisor: store unavailable (%s)", error_name(error))
            self._reached = False
        else:
            if not self._reached:
                log.info("supervisor: connected to the store")
            self._reached = True

    def _is_healthy(self) -> bool:
        """Whether all workers can start; logs each change."""
        healthy = not any(place.is_failing for place in self._places)
        if healthy != self._healthy:
            log.warning("supervisor: %s", "healthy again" if healthy else "unhealthy, because workers cannot start")
        self._healthy = healthy
        return healthy

    def _seconds_to_wait(self) -> float:
        """Seconds until the next check, or until a worker may be restarted."""
        moment = time.monotonic()
        pauses = [place.not_before - moment for place in self._places if self._lacks(place)]
        return max(0.0, min([LOOK_SECONDS, *pauses]))

    def _fill(self) -> None:
        """Start missing workers once the store is available and their pause is over."""
        for place in self._places:
            if self._lacks(place) and time.monotonic() >= place.not_before:
                if place.kind is not None:
                    duty_of(place.kind)  # imports its module, which all forks then share
                fill(place, self._plan, self._queues, cuda=self._cuda)

    def _lacks(self, place: WorkerSlot) -> bool:
        """Whether a worker is missing: of jobs, or of background tasks that wait while the others are busy."""
        if not self._reached or place.pid is not None:
            return False
        others = (other for other in self._living() if other.kind == place.kind)
        return place.kind is None or (
            place.kind in self._waiting and all(worker.name in self._busy for worker in others)
        )

    def _reap(self) -> None:
        """Recover the jobs of ended workers, and schedule their replacements."""
        for place in self._places:
            if place.pid is None:
                continue
            pid, status = os.waitpid(place.pid, os.WNOHANG)
            if pid:
                place.note_end(status)
                first, longest = _PAUSES
                pause = jittered(min(longest, first * 2.0 ** min(place.failures, 16)))
                place.pid, place.not_before = None, time.monotonic() + pause
                if status or place.kind is None:  # background-task workers end normally when idle
                    log.warning("supervisor: worker %s ended with wait status %s", pid, status)
                self._bury(place, killed=True)

    def _bury(self, place: WorkerSlot, *, killed: bool) -> None:
        """Recover the work of an ended worker and delete its RQ records; others do so if the store fails now."""
        with contextlib.suppress(*UNAVAILABLE):
            if place.kind is None:
                self._recovery.worker_ended(place.name, killed=killed)
            elif lost := owner_ended(self._redis, place.name):
                log.warning("supervisor: %s runs again because its worker ended", ", ".join(lost))
            key = f"{Worker.redis_worker_namespace_prefix}{place.name}"
            queues = self._queues if place.kind is None else (queue_of(place.kind),)
            with self._redis.pipeline() as pipe:
                pipe.delete(key)
                pipe.srem(REDIS_WORKER_KEYS, key)
                for queue in queues:
                    pipe.srem(f"rq:workers:{queue}", key)
                pipe.execute()

    def _drain(self, woken: int) -> None:
        """Let the workers finish their jobs; a job that takes too long is returned to its queue."""
        for place in self._living():
            os.kill(place.pid or 0, signal.SIGTERM)
        deadline = time.monotonic() + self._plan.drain_seconds
        while self._living() and (left := deadline - time.monotonic()) > 0:
            _pause(woken, min(left, LOOK_SECONDS))
            for place in self._living():
                if os.waitpid(place.pid or 0, os.WNOHANG)[0]:
                    place.pid = None
                    self._bury(place, killed=False)
        for place in self._living():
            os.kill(place.pid or 0, signal.SIGKILL)
            os.waitpid(place.pid or 0, 0)
            log.warning("supervisor: a worker did not end in time; its job returns to the queue")
            self._bury(place, killed=False)

    def _living(self) -> list[WorkerSlot]:
        return [place for place in self._places if place.pid is not None]

    @contextlib.contextmanager
    def _signals(self) -> Iterator[int]:
        """Wake up when a child ends or a stop signal arrives; yields the file descriptor to wait for."""

        def note(number: int, _frame: object) -> None:
            self._stopping = self._stopping or number != signal.SIGCHLD

        woken, waker = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, note)
        try:
            yield woken
        finally:
            signal.set_wakeup_fd(-1)
            os.close(woken)
            os.close(waker)


def has_cuda(device: str) -> bool:
    """Whether workers use CUDA. A subprocess checks, because a process that has initialized CUDA cannot fork for it."""
    if device != "auto":
        return device == "cuda"
    if not has_driver():
        return False
    look = "import sys; from calibrant.core.device import read_device; sys.exit(read_device('auto') != 'cuda')"
    return subprocess.run([sys.executable, "-c", look], check=False).returncode == 0  # noqa: S603 - our own words


def _pause(woken: int, seconds: float) -> None:
    """Wait until woken, up to ``seconds``."""
    if select.select([woken], [], [], seconds)[0]:
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)
