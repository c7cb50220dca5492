"""Progress bars, on standard error: what is piped on holds nothing of them."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from schemas.jobs import JobAnswer, JobSummary

#: Work that is done sooner shows no bar.
_SECONDS = 0.5


class Bar:
    """A bar that is drawn on a terminal once the work has taken a while, and is gone when it is done."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown: Progress | None = None

    def __call__(self, done: int, total: int, stage: str) -> None:
        """Move the bar to where the work is, as ``calibrant.progress`` tells it."""
        if self._shown is None and time.monotonic() - self._began >= _SECONDS:
            self._shown = _progress()
            self._shown.start()
            self._shown.add_task("", stage="", total=1.0)
        if self._shown is not None:
            task = self._shown.task_ids[0]
            self._shown.update(task, completed=done, total=max(total, 1), stage=stage)

    def of_job(self, job: JobAnswer | JobSummary) -> None:
        """Move the bar to where a server's job is."""
        self(job.progress.done, job.progress.total, job.progress.stage or job.status)

    def close(self) -> None:
        """Take the bar off the terminal."""
        if self._shown is not None:
            self._shown.stop()


@contextlib.contextmanager
def bar() -> Iterator[Bar]:
    """A bar for the work within."""
    shown = Bar()
    try:
        yield shown
    finally:
        shown.close()


@contextlib.contextmanager
def working(stage: str) -> Iterator[None]:
    """A sign on a terminal that the work within goes on, for what tells no progress."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(stage):
        yield


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.fields[stage]}"))
    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal)
