"""The work-horse: a fork of its worker that does one run after another, so that what it has warm stays warm.

It is told of a run by a line on a pipe and answers with a byte when it is done with it. Whatever ends it, its worker
reads the end of the pipe. It ends by itself after so many runs, or where one took much memory, so that nothing piles
up. Only the thread that takes jobs has to do with it: no other can mistake one run of it for the next.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import orjson

from schemas.jobs import JobRecord
from storage.jobs.leases import Lease
from storage.processes import die_with_parent

#: Runs after which a work-horse ends, and bytes above its first size that one of them may take.
MOST_RUNS, MOST_GROWTH = 500, 256 << 20
_DONE, _LAST = b".", b"!"


class Order(NamedTuple):
    """What a work-horse is told: the job as it was claimed, by which lease, and when it was queued."""

    job: JobRecord
    lease: Lease
    queued_at: datetime | None

    def line(self) -> bytes:
        """As it goes through the pipe."""
        told = {
            "job": orjson.Fragment(self.job.model_dump_json()),
            "lease": self.lease,
            "queued_at": self.queued_at,
        }
        return orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def read(cls, line: bytes) -> Order:
        """What a line says."""
        told = orjson.loads(line)
        queued_at = None if told["queued_at"] is None else datetime.fromisoformat(told["queued_at"])
        return cls(JobRecord.model_validate(told["job"]), Lease(**told["lease"]), queued_at)


class Horse:
    """A worker's view of its work-horse, which is forked at once and ends with the worker."""

    def __init__(self, do: Callable[[Order], None]) -> None:
        orders, self._telling = os.pipe()
        self.answers, answering = os.pipe()
        parent = os.getpid()
        try:
            self.pid = os.fork()
        except OSError:
            for end in (orders, self._telling, self.answers, answering):
                os.close(end)
            raise
        if self.pid == 0:
            status = os.EX_SOFTWARE
            try:
                os.close(self._telling)
                os.close(self.answers)
                _become_horse(parent)
                _work(orders, answering, do)
                status = os.EX_OK
            finally:
                os._exit(status)
        os.close(orders)
        os.close(answering)

    def tell(self, order: Order) -> bool:
        """Tell of a run; False where the work-horse has ended."""
        line = order.line()
        try:
            while line:
                line = line[os.write(self._telling, line) :]
        except BrokenPipeError:
            return False
        return True

    def hear(self) -> bool | None:
        """Whether the work-horse goes on after the run that it is done with; None where it has ended in it."""
        answer = os.read(self.answers, 1)
        return answer == _DONE if answer else None

    def end(self) -> int:
        """End it, and all that it has started; its wait status."""
        os.close(self._telling)
        os.close(self.answers)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        return os.waitpid(self.pid, 0)[1]


def _become_horse(parent: int) -> None:
    """End with the worker, hear no Ctrl-C, and draw numbers of one's own."""
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent()
    if os.getppid() != parent:  # it ended before the kernel was asked
        os._exit(os.EX_TEMPFAIL)
    random.seed()


def _work(orders: int, answering: int, do: Callable[[Order], None]) -> None:
    """Do what is told until nothing more is."""
    before = _memory()
    with os.fdopen(orders, "rb") as lines:
        for runs, line in enumerate(lines, 1):
            do(Order.read(line))
            last = runs >= MOST_RUNS or _memory() - before > MOST_GROWTH
            os.write(answering, _LAST if last else _DONE)
            if last:
                return


def _memory() -> int:
    """The most bytes that this process has held at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
