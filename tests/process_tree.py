"""The processes of a service under test: all that come from one, and all of them paused."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.chaos.proc import children


def descendants(pid: int) -> list[int]:
    """All processes that come from one, each before its own."""
    return [process for child in children(pid) for process in (child, *descendants(child))]


@contextlib.contextmanager
def paused(pid: int) -> Iterator[None]:
    """Stop a process and all that come from it, so that a worker leaves what is queued as it is."""
    with contextlib.ExitStack() as stopped:
        _pause(pid, stopped)
        yield


def _pause(pid: int, stopped: contextlib.ExitStack) -> None:
    os.kill(pid, signal.SIGSTOP)
    stopped.callback(os.kill, pid, signal.SIGCONT)
    deadline = time.monotonic() + 600.0
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline, f"process {pid} did not stop"
        os.sched_yield()
    for child in children(pid):  # it forks no more
        _pause(child, stopped)
