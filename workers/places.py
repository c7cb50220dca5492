"""The places of a supervisor's workers, and what a process does that fills one."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import time
from dataclasses import dataclass

from storage.chores import Kind
from storage.processes import die_with_parent
from storage.server.connection import UNAVAILABLE, connect
from telemetry.tracing import check_telemetry
from workers.chores import IDLE_SECONDS, ChoreWorker
from workers.worker import LeasedWorker, WarmWorker

log = logging.getLogger(__name__)

#: Seconds that the store may take to answer what cannot wait.
SIDE_SECONDS = 1.0


@dataclass(frozen=True)
class Plan:
    """What a supervisor is told at its start. ``device`` is cpu, cuda or auto; ``queues`` None for those that suit it.

    ``warm`` workers do their jobs themselves rather than in forks, as CUDA's do. ``drain_seconds`` is how long jobs
    under way have to end after SIGTERM.
    """

    redis_url: str
    queues: tuple[str, ...] | None = None
    device: str = "cpu"
    processes: int = 1
    warm: bool = False
    drain_seconds: float = 10.0
    otlp_endpoint: str | None = None
    webhook_hosts: str = ""
    webhook_private_addresses: str = ""
    quota_maps: int = 0


@dataclass
class Place:
    """One worker's place: who fills it, and how often in a row that ended at once.

    That of a worker of chores, which have a ``kind``, is filled while there are any; the others are always.
    """

    kind: Kind | None = None
    name: str = ""
    pid: int | None = None
    born: float = 0.0
    failures: int = 0
    not_before: float = 0.0


def fill(place: Place, plan: Plan, queues: tuple[str, ...], *, cuda: bool) -> None:
    """Fork the worker of a place."""
    place.name, place.born = secrets.token_hex(16), time.monotonic()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = os.EX_SOFTWARE
        try:
            _become_worker(parent)
            status = work(plan, queues, place, cuda=cuda)
        finally:
            os._exit(status)
    place.pid = pid


def work(plan: Plan, queues: tuple[str, ...], place: Place, *, cuda: bool) -> int:
    """Be one worker until told to stop, one of chores until there are none; gives the exit status."""
    traced = check_telemetry(plan.otlp_endpoint, os.environ)
    # A blocking pop must outlive the socket's time limit, so RQ sets its own.
    redis = connect(plan.redis_url, traced=traced)
    side = connect(plan.redis_url, timeout=SIDE_SECONDS)
    level = logging.getLevelName(logging.getLogger().level)
    try:
        if place.kind is not None:
            chores = ChoreWorker(place.kind, name=place.name, redis=redis, side=side)
            chores.work(logging_level=level, max_idle_time=IDLE_SECONDS)
            return os.EX_OK
        if cuda:
            _warm_up()
        kind = WarmWorker if cuda or plan.warm else LeasedWorker
        worker = kind(queues, name=place.name, redis=redis, side=side, device="cuda" if cuda else "cpu")
        worker.work(logging_level=level)
    except UNAVAILABLE as error:
        log.warning("worker: the store is away (%s)", type(error).__name__)
        return os.EX_TEMPFAIL
    return os.EX_OK


def _warm_up() -> None:
    """Make this process's CUDA context."""
    import torch

    torch.zeros(1, device="cuda")


def _become_worker(parent: int) -> None:
    """End with the supervisor, and hear signals as a process of one's own."""
    die_with_parent()
    if os.getppid() != parent:  # it ended before the kernel was asked
        os._exit(os.EX_TEMPFAIL)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
