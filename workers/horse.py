"""The work-horse: a fork of its worker that does one run after another, so that what it has warm stays warm.

It is told of a run by a line on a pipe and answers with a byte when it is done with it. Whatever ends it, its worker
reads the end of the pipe. It ends by itself after so many runs, or where it has grown, so that nothing piles up.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import orjson

from schemas.jobs import JobRecord
from storage.jobs.leases import Lease

#: Runs after which a work-horse ends, and bytes by which its memory may grow.
MOST_RUNS, MOST_GROWTH = 500, 1 << 30
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


class Harness:
    """The two pipes between a worker and its work-horse; each closes the ends that are the other's."""

    def __init__(self) -> None:
        self._orders, self._told = os.pipe()
        self.answers, self._answering = os.pipe()

    def hold(self) -> None:
        """Become the worker's side."""
        os.close(self._orders)
        os.close(self._answering)

    def tell(self, order: Order) -> None:
        """Tell of a run; raises ``BrokenPipeError`` where the work-horse has ended."""
        line = order.line()
        while line:
            line = line[os.write(self._told, line) :]

    def hear(self) -> bool | None:
        """Whether the work-horse goes on after the run that it is done with; None where it has ended in it."""
        answer = os.read(self.answers, 1)
        return answer == _DONE if answer else None

    def drop(self) -> None:
        """Let the work-horse go, which ends then."""
        os.close(self._told)
        os.close(self.answers)

    def work(self, do: Callable[[Order], None]) -> None:
        """Become the work-horse's side, and do what is told until nothing more is."""
        os.close(self._told)
        os.close(self.answers)
        with os.fdopen(self._orders, "rb") as lines:
            before = _memory()
            for runs, line in enumerate(lines, 1):
                do(Order.read(line))
                last = runs >= MOST_RUNS or _memory() - before > MOST_GROWTH
                os.write(self._answering, _LAST if last else _DONE)
                if last:
                    return


def _memory() -> int:
    """The most bytes that this process has held at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
