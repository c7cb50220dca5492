"""Jobs on the page: the list of them, one of them while it runs, and its end."""

from __future__ import annotations

import contextlib

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from backend.store.errors import JobFinal
from schemas.jobs import JobsQuery
from service.event_stream import EventStream, changes, read_last_id
from service.paging import read_query
from service.routes.jobs import find, is_told
from service.web.forms import page_router
from service.web.job_view import JobView, as_html, view_of
from service.web.visit import Visiting, lead

router = page_router()


@router.get("/jobs")
async def jobs(request: Request, visit: Visiting) -> Response:
    """The jobs, newest first."""
    page = await run_in_threadpool(find, visit.here, read_query(request, JobsQuery))
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
    if await run_in_threadpool(is_told, visit.here, job_id, last):
        return Response(status_code=204)
    return EventStream(changes(visit.here, job_id, last, as_html(visit, job_id)), visit.here)


@router.post("/jobs/{job_id}/cancel")
async def cancel_job(job_id: str, visit: Visiting) -> Response:
    """Cancel a job; one that has ended in the meantime is shown as it ended."""
    with contextlib.suppress(JobFinal):
        await run_in_threadpool(visit.here.store.jobs.cancel, job_id)
    return lead(visit, f"/ui/jobs/{job_id}")
