"""A job as the page shows it: how far it is in words, and where it leads once it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from backend.store.errors import UnknownMap
from backend.store.jobs.events import JobEvent
from schemas.jobs import FINAL, JobRecord
from schemas.maps import MapRecord
from service.event_stream import Write
from service.web.visit import Visit

_KINDS = {"fit": "Fit of a map", "evaluate": "Evaluation"}


@dataclass(frozen=True)
class JobView:
    """A job, the map that it made where that is still there, and how many of the tenant's jobs wait ``before`` it."""

    job: JobRecord
    map: MapRecord | None = None
    before: int | None = None

    @property
    def title(self) -> str:
        """What the job does."""
        method = self.job.spec.get("method")
        return f"Fit by {method}" if method else _KINDS[self.job.kind]

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.job.status in FINAL

    @property
    def share(self) -> float | None:
        """How much of it is done, from 0 to 1; None where nothing tells yet."""
        progress = self.job.progress
        if self.job.status == "succeeded":
            return 1.0
        return progress.done / progress.total if progress.total else None

    @property
    def words(self) -> str:
        """How far it is."""
        told = {"queued": self._waiting, "succeeded": "Done", "failed": "Failed", "cancelled": "Cancelled"}
        if self.job.status != "running":
            return told[self.job.status]
        percent = "" if self.share is None else f"{self.share:.0%}"
        return ": ".join(filter(None, (self.job.progress.stage or "Running", percent)))

    @property
    def _waiting(self) -> str:
        told = "Waiting for a worker"
        if self.before is None:
            return told
        if not self.before:
            return f"{told}: it is the next of your jobs"
        return f"{told}: {self.before:,} of your jobs {'is' if self.before == 1 else 'are'} before it"

    @property
    def batch(self) -> str | None:
        """The batch that it is about."""
        return self.job.spec.get("batch")

    @property
    def makes_comparison(self) -> bool:
        """Whether its result compares maps."""
        return self.makes_report and bool(self.job.spec.get("maps"))

    @property
    def makes_report(self) -> bool:
        """Whether its result is a report that the page can show."""
        made = self.job.kind == "evaluate" and self.job.status == "succeeded"
        return made and self.batch is not None and not self.job.spec.get("picture")


def view_of(visit: Visit, job_id: str) -> JobView:
    """A job as it is now; raises ``UnknownJob``."""
    store = visit.here.store
    job = store.jobs.get(job_id)
    made = (job.result or {}).get("map")
    if made is None:
        return JobView(job, before=store.jobs.before(job))
    try:
        return JobView(job, store.maps.get(made))
    except UnknownMap:  # deleted since
        return JobView(job)


def as_html(visit: Visit, job_id: str) -> Write:
    """Events whose data is the part of the page that shows the job; of several in a row the last, and then the end."""

    async def write(events: Sequence[JobEvent]) -> bytes:
        last = events[-1]
        text = await run_in_threadpool(_state, visit, job_id)
        lines = "".join(f"data: {line}\n" for line in text.splitlines())
        ended = "event: ended\ndata: ended\n\n" if last.job.status in FINAL else ""
        return f"id: {last.id}\nevent: state\n{lines}\n{ended}".encode()

    return write


def _state(visit: Visit, job_id: str) -> str:
    body: Any = visit.page("job_state.html", view=view_of(visit, job_id)).body
    return bytes(body).decode()
