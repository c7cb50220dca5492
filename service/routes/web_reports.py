"""The report of a batch on the page, to keep as a file, and the fit of a map to its rows."""

from __future__ import annotations

from functools import partial

import orjson
from fastapi import Response
from starlette.concurrency import run_in_threadpool

from calibrant.reports.html import fragment, standalone
from schemas.jobs import JobRecord
from schemas.maps import FitOptions, MapRecord
from service.formats.options import read_options
from service.formats.payload import Payload
from service.html import SEALED
from service.routes.maps import fit_or_queue
from service.web.forms import Form, page_router, text_of
from service.web.report_view import ReportView, report_or_job
from service.web.visit import Visit, Visiting, lead

router = page_router()


@router.get("/reports/{batch_id}")
async def report(batch_id: str, visit: Visiting, map: str | None = None, job: str | None = None) -> Response:
    """The report, and the form of a fit; where a job makes it, the way there."""
    view = await _view(visit, batch_id, map, job)
    if isinstance(view, JobRecord):
        return lead(visit, f"/ui/jobs/{view.id}")
    return await _page(visit, view)


@router.get("/reports/{batch_id}/report.html")
async def report_file(batch_id: str, visit: Visiting, map: str | None = None, job: str | None = None) -> Response:
    """The report as one file that needs nothing else."""
    view = await _view(visit, batch_id, map, job)
    if isinstance(view, JobRecord):
        return lead(visit, f"/ui/jobs/{view.id}")
    text = await visit.here.draw(partial(standalone, *view.made))
    return _download(text.encode(), "text/html; charset=utf-8", f"{batch_id}.html")


@router.get("/reports/{batch_id}/report.json")
async def report_data(batch_id: str, visit: Visiting, map: str | None = None, job: str | None = None) -> Response:
    """The numbers of the report, as ``POST /evaluate`` answers them."""
    view = await _view(visit, batch_id, map, job)
    if isinstance(view, JobRecord):
        return lead(visit, f"/ui/jobs/{view.id}")
    return _download(
        orjson.dumps(view.made.report, option=orjson.OPT_SERIALIZE_NUMPY), "application/json", f"{batch_id}.json"
    )


@router.post("/reports/{batch_id}/fit")
async def post_fit(batch_id: str, visit: Visiting, form: Form) -> Response:
    """Fit a map to the rows of the report: at once where that is quick, else by a job that can be watched."""
    asked = {"batch": batch_id, "method": text_of(form, "method"), "name": text_of(form, "name") or None}
    payload = Payload({}, asked, from_query=False)
    options = read_options(payload, FitOptions)
    made = await run_in_threadpool(fit_or_queue, visit.here, Payload({}, {}, from_query=False), options)
    if isinstance(made, MapRecord):
        return lead(visit, f"/ui/maps/{made.id}")
    return lead(visit, f"/ui/jobs/{made.id}")


async def _view(visit: Visit, batch_id: str, map: str | None, job: str | None) -> ReportView | JobRecord:
    return await run_in_threadpool(report_or_job, visit.here, batch_id, map, job)


async def _page(visit: Visit, view: ReportView) -> Response:
    body = await visit.here.draw(partial(fragment, *view.made))
    return visit.page("report.html", view=view, body=body)


def _download(body: bytes, kind: str, name: str) -> Response:
    headers = {**SEALED, "Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(body, headers=headers, media_type=kind)
