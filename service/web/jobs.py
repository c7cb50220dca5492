"""Jobs on the page: the list of them, one of them while it runs, and its end."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from backend.jobs import find_jobs, has_no_more_events
from backend.store.errors import JobFinal, UnknownMap
from backend.store.jobs.events import JobEvent
from schemas.jobs import FINAL, JobRecord, JobsQuery
from schemas.maps import MapRecord
from service.jobs import EventStream, Write, changes, read_last_id
from service.paging import page_request, read_query
from service.web.forms import page_router
from service.web.visit import Visit, Visiting, lead

# --- A job as the page shows it: how far it is, and where it leads once it has ended

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
    def summary(self) -> str:
        """How far it is."""
        status = {"queued": self._waiting, "succeeded": "Done", "failed": "Failed", "cancelled": "Cancelled"}
        if self.job.status != "running":
            return status[self.job.status]
        percent = "" if self.share is None else f"{self.share:.0%}"
        return ": ".join(filter(None, (self.job.progress.stage or "Running", percent)))

    @property
    def _waiting(self) -> str:
        message = "Waiting for a worker"
        if self.before is None:
            return message
        if not self.before:
            return f"{message}: it is the next of your jobs"
        return f"{message}: {self.before:,} of your jobs {'is' if self.before == 1 else 'are'} before it"

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


# --- The pages

router = page_router()


@router.get("/jobs")
async def jobs(request: Request, visit: Visiting) -> Response:
    """The jobs, newest first."""
    query = read_query(request, JobsQuery)
    page = await run_in_threadpool(find_jobs, visit.here.store, page_request(query), query)
    views = [JobView(job) for job in page.items]
    return visit.page("jobs.html", views=views, next=page.next, live=any(not view.is_final for view in views))


@router.get("/jobs/{job_id}")
async def job(job_id: str, visit: Visiting) -> Response:
    """One job, which is watched while it runs."""
    view = await run_in_threadpool(view_of, visit, job_id)
    return visit.page("job_state.html" if visit.wants_part else "job.html", view=view)


@router.get("/jobs/{job_id}/events")
async def job_events(job_id: str, request: Request, visit: Visiting) -> Response:
    """The changes of a job, each with the part of the page that shows it."""
    last = read_last_id(request.headers.get("last-event-id"))
    if await run_in_threadpool(has_no_more_events, visit.here.store, job_id, last):
        return Response(status_code=204)
    return EventStream(changes(visit.here, job_id, last, as_html(visit, job_id)), visit.here)


@router.post("/jobs/{job_id}/cancel")
async def cancel_job(job_id: str, visit: Visiting) -> Response:
    """Cancel a job; one that has ended in the meantime is shown as it ended."""
    with contextlib.suppress(JobFinal):
        await run_in_threadpool(visit.here.store.jobs.cancel, job_id)
    return lead(visit, f"/ui/jobs/{job_id}")
