"""Routes of jobs: list, read, follow, cancel and delete long-running work."""

from __future__ import annotations

from fastapi import Request, Response

from backend.jobs import find_jobs, has_no_more_events
from schemas.jobs import FINAL, JobAnswer, JobsAnswer, JobsQuery
from service.calls import Call, Calls
from service.context import Here, answer
from service.errors import JobNotFinal
from service.formats.body import read_no_fields
from service.formats.media import EVENT_STREAM, HTML, JSON
from service.headers import choose, read_header
from service.jobs import EventStream, applied, changes, located, read_last_id, until_final
from service.pages import job_page
from service.paging import page_answer, page_request, read_query
from service.reports import has_report, report_page, whole_of
from service.routing import HEAD_ONLY
from service.threads import run_in_thread

calls = Calls("jobs")


@calls.add(Call("GET", "/jobs", query=JobsQuery, answer=JobsAnswer, client="jobs"))
async def get_jobs(request: Request, here: Here) -> Response:
    """List jobs without their results, newest first.

    With filters, a page may have fewer items than ``limit``.

    Examples
    --------
    >>> job_id in [job.id for job in client.jobs(status="succeeded")]
    True
    """
    query = read_query(request, JobsQuery)
    page = await run_in_thread(find_jobs, here.store, page_request(query), query)
    return page_answer(request, [record.summary() for record in page.items], page.next)


@calls.add(
    Call(
        "GET",
        "/jobs/{job}",
        answer=JobAnswer,
        media=(HTML,),
        waits=True,
        problems=("unknown-job", "not-acceptable", "busy"),
        client="job",
    )
)
async def get_job(job: str, request: Request, here: Here) -> Response:
    """Get the status, progress and result of a job.

    With ``Prefer: wait=10``, waits up to 10 seconds for its end. With ``Accept: text/html``, returns the report of an
    evaluation as a self-contained HTML page; until the job has ended, a page with its progress. The status is 200 as
    long as the record of the job is kept.

    Examples
    --------
    >>> client.job(job_id).status
    'succeeded'
    """
    kind = choose(read_header(request, b"accept"), (JSON, HTML))
    record = await until_final(here, await run_in_thread(here.store.jobs.get, job))
    headers = {} if record.status in FINAL else await run_in_thread(located, here, record)
    if kind == JSON:
        return applied(here, answer(record.answer().model_dump(), headers=headers | {"Vary": "Accept"}))
    if has_report(record):
        return applied(here, await report_page(here, await run_in_thread(whole_of, here, record)))
    return applied(here, job_page(record, headers))


@calls.add(
    Call(
        "POST",
        "/jobs/{job}/cancel",
        frees=True,
        answer=JobAnswer,
        problems=("unknown-job", "job-final"),
        client="cancel",
    )
)
async def post_cancellation(job: str, request: Request, here: Here) -> Response:
    """Cancel a job: a queued job does not start, a running one is stopped, and its results are discarded.

    A cancelled job is returned unchanged. Its record is kept like that of any ended job.
    """
    await read_no_fields(request, here.settings)
    record = await run_in_thread(here.store.jobs.cancel, job)
    return answer(record.answer().model_dump())


@calls.add(Call("DELETE", "/jobs/{job}", status=204, problems=("unknown-job", "job-not-final"), client="delete_job"))
async def delete_job(job: str, here: Here) -> Response:
    """Delete an ended job with its result and its events; a map that it stored is kept. Cancel a running job first.

    Examples
    --------
    >>> made = client.fit("pl", predictions=p, labels=y)
    >>> client.delete_job(next(client.jobs(kind="fit")))
    """
    record = await run_in_thread(here.store.jobs.delete, job)
    if record.status not in FINAL:
        headers = await run_in_thread(located, here, record)
        raise JobNotFinal("a queued or running job cannot be deleted; cancel it first").with_headers(headers)
    return Response(status_code=204)


@calls.add(
    Call(
        "GET",
        "/jobs/{job}/events",
        headers={
            "Last-Event-ID": {
                "description": "id of the last event received; only later events are sent",
                "schema": {"type": "string"},
            }
        },
        media=(EVENT_STREAM,),
        meaning="Changes of the job until it ends",
        ends="The job has ended, and Last-Event-ID is its last event",
        problems=("unknown-job", "invalid-field", "too-many-streams"),
    )
)
async def get_events(job: str, request: Request, here: Here) -> Response:
    """Stream the changes of a job as Server-Sent Events until it ends, from the start or after ``Last-Event-ID``."""
    last = read_last_id(request.headers.get("last-event-id"))
    if await run_in_thread(has_no_more_events, here.store, job, last):
        return Response(status_code=204)
    if HEAD_ONLY in request.scope:
        return Response(media_type=EVENT_STREAM)
    return EventStream(changes(here, job, last), here)
