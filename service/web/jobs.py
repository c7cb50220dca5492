"""The pages of jobs: the list, and one job while it runs and after its end."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response

from backend.jobs import find_jobs, has_no_more_events
from backend.store.errors import JobFinal, UnknownMap
from backend.store.jobs.runs import StoredJobEvent
from schemas.jobs import FINAL, KIND_NAMES, JobRecord, JobsQuery, JobSummary
from schemas.maps import MapRecord
from service.calls import Call
from service.errors import NotFound
from service.jobs import EventStream, Write, changes, read_last_id
from service.paging import page_request, read_query
from service.reports import has_report, report_page, whole_of
from service.threads import run_in_thread
from service.web.forms import page_calls
from service.web.reports import batches_of_page, makes_page
from service.web.visit import Visit, Visiting, query_of, redirect_to, report_path

# --- The state of a job as shown on the page


@dataclass(frozen=True)
class JobView:
    """A job, the map that it fitted if it still exists, and the number of the tenant's jobs queued ``before`` it.

    ``grades`` is "yes" if its report shall test the groups as rating grades.
    """

    job: JobRecord
    map: MapRecord | None = None
    before: int | None = None
    grades: str | None = None

    @property
    def query(self) -> str:
        """The query of the page and of its events."""
        return query_of([("grades", self.grades)])

    @property
    def title(self) -> str:
        """What the job does."""
        method = self.job.spec.get("method")
        return f"Fit by {method}" if method else KIND_NAMES[self.job.kind].capitalize()

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.job.status in FINAL

    @property
    def share(self) -> float | None:
        """The completed fraction, from 0 to 1; None if unknown."""
        progress = self.job.progress
        if self.job.status == "succeeded":
            return 1.0
        return progress.done / progress.total if progress.total else None

    @property
    def summary(self) -> str:
        """The status as text."""
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
            return f"{message}: next of your jobs"
        return f"{message}: {self.before:,} of your jobs {'is' if self.before == 1 else 'are'} ahead"

    @property
    def about(self) -> JobSummary:
        """The job as the API shows it."""
        return self.job.summary()

    @property
    def makes_report(self) -> bool:
        """Whether its result is a report that the page can show."""
        return self.job.status == "succeeded" and makes_page(self.job)

    @property
    def report_path(self) -> str | None:
        """The page of the report; None if the rows were deleted when the job ended."""
        return None if self.job.own_batches else report_path(batches_of_page(self.job), self.job.id, self.grades)


def view_of(visit: Visit, job_id: str) -> JobView:
    """The current state of a job; raises ``UnknownJob``."""
    store = visit.here.store
    job = store.jobs.get(job_id)
    map_id = (job.result or {}).get("map")
    if map_id is None:
        grades = "yes" if visit.request.query_params.get("grades") == "yes" else None
        return JobView(job, before=store.jobs.before(job), grades=grades)
    try:
        return JobView(job, store.maps.get(map_id))
    except UnknownMap:  # deleted since
        return JobView(job)


def as_html(visit: Visit, job_id: str) -> Write:
    """Serialize events as the part of the page that shows the job; of several events only the last, then the end."""

    async def write(events: Sequence[StoredJobEvent]) -> bytes:
        last = events[-1]
        text = await run_in_thread(_state, visit, job_id)
        lines = "".join(f"data: {line}\n" for line in text.splitlines())
        ended = "event: ended\ndata: ended\n\n" if last.job.status in FINAL else ""
        return f"id: {last.id}\nevent: state\n{lines}\n{ended}".encode()

    return write


def _state(visit: Visit, job_id: str) -> str:
    body: Any = visit.page("job_state.html", view=view_of(visit, job_id)).body
    return bytes(body).decode()


# --- The pages

calls = page_calls()


@calls.add(Call("GET", "/ui/jobs"))
async def jobs(request: Request, visit: Visiting) -> Response:
    """The list of jobs, newest first."""
    query = read_query(request, JobsQuery)
    page = await run_in_thread(find_jobs, visit.here.store, page_request(query), query)
    views = [JobView(job) for job in page.items]
    return visit.page("jobs.html", views=views, next=page.next, live=any(not view.is_final for view in views))


@calls.add(Call("GET", "/ui/jobs/{job_id}"))
async def job(job_id: str, visit: Visiting) -> Response:
    """One job, updated while it runs."""
    view = await run_in_thread(view_of, visit, job_id)
    return visit.page("job_state.html" if visit.wants_part else "job.html", view=view)


@calls.add(Call("GET", "/ui/jobs/{job_id}/report.html"))
async def job_report(job_id: str, visit: Visiting) -> Response:
    """The report of a job as one self-contained file; it needs no stored rows."""
    record = await run_in_thread(visit.here.store.jobs.get, job_id)
    if not has_report(record):
        raise NotFound("the job has no report")
    return await report_page(visit.here, await run_in_thread(whole_of, visit.here, record))


@calls.add(Call("GET", "/ui/jobs/{job_id}/events"))
async def job_events(job_id: str, request: Request, visit: Visiting) -> Response:
    """The changes of a job as events, each with the updated part of the page."""
    last = read_last_id(request.headers.get("last-event-id"))
    if await run_in_thread(has_no_more_events, visit.here.store, job_id, last):
        return Response(status_code=204)
    return EventStream(changes(visit.here, job_id, last, as_html(visit, job_id)), visit.here)


@calls.add(Call("POST", "/ui/jobs/{job_id}/cancel", frees=True))
async def cancel_job(job_id: str, visit: Visiting) -> Response:
    """Cancel a job; a job that has ended in the meantime is shown as it is."""
    with contextlib.suppress(JobFinal):
        await run_in_thread(visit.here.store.jobs.cancel, job_id)
    return redirect_to(visit, f"/ui/jobs/{job_id}")


@calls.add(Call("POST", "/ui/jobs/{job_id}/delete", frees=True))
async def delete_job(job_id: str, visit: Visiting) -> Response:
    """Delete an ended job; one that has not ended is shown as it is."""
    job = await run_in_thread(visit.here.store.jobs.delete, job_id)
    return redirect_to(visit, "/ui/jobs" if job.status in FINAL else f"/ui/jobs/{job_id}")
