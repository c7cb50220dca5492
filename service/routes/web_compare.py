"""Maps compared on a stored batch, on the page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from backend.store.errors import StorageError, problem_of
from calibrant.errors import CalibrationError
from calibrant.reports.contest import contest
from calibrant.reports.pictures import draw_report
from schemas.diagrams import PictureQuery
from schemas.jobs import JobRecord
from schemas.problems import Problem
from service.errors import NotFound
from service.formats.payload import Payload
from service.pictures import picture
from service.routes.evaluate import run_or_queue
from service.web.comparison_view import DIAGRAM, MOST_MAPS, before_and_after, offer, read_comparison, view_of_comparison
from service.web.forms import Form, page_router, text_of, texts_of
from service.web.visit import Visit, Visiting, lead

router = page_router()

_PICTURE = PictureQuery(width=400)


@router.get("/compare")
async def form(request: Request, visit: Visiting) -> Response:
    """The choice of a batch and of maps; with ``job`` the comparison that a job made."""
    query = request.query_params
    job_id = query.get("job")
    if job_id is None:
        return await _page(visit, query.get("batch", ""), query.getlist("map"), name=query.get("name", ""))
    record = await run_in_threadpool(visit.here.store.jobs.get, job_id)
    report = (record.result or {}).get("report", {})
    if "comparison" not in report:
        raise NotFound("the job has made no comparison, or not yet")
    chosen = [each["map"] for each in report["comparison"]["contestants"] if each["map"]]
    return await _page(visit, record.spec.get("batch") or "", chosen, report=report)


@router.post("/compare")
async def compare(visit: Visiting, form: Form) -> Response:
    """Compare maps on a batch: at once, or by a job where that takes long."""
    batch, maps = text_of(form, "batch"), texts_of(form, "map")
    try:
        options = read_comparison(batch, maps)
        made = await run_in_threadpool(run_or_queue, visit.here, Payload({}, {}, from_query=False), options)
    except (CalibrationError, StorageError) as error:
        return await _page(visit, batch, maps, problem=problem_of(error))
    if isinstance(made, JobRecord):
        return lead(visit, f"/ui/jobs/{made.id}")
    return await _page(visit, batch, maps, report=made)


@router.get("/compare/picture.svg")
async def compared_picture(batch: str, map: str, visit: Visiting) -> Response:
    """The reliability diagram of a batch before and after one map."""
    report = await run_in_threadpool(before_and_after, visit.here, batch, map)
    return await picture(
        visit.here, partial(draw_report, report, DIAGRAM, theme=_PICTURE.theme, width=_PICTURE.width), _PRIVATE
    )


_PRIVATE = {"Cache-Control": "private, no-cache"}


async def _page(
    visit: Visit,
    batch: str,
    maps: Sequence[str],
    *,
    name: str = "",
    report: dict[str, Any] | None = None,
    problem: Problem | None = None,
) -> Response:
    """The form as it was sent, with what came of it; for htmx that alone."""
    values: dict[str, Any] = {
        "batch": batch,
        "report": report,
        "view": None if report is None else view_of_comparison(report["comparison"]),
        "contest": None if report is None else contest(report),
        "problem": problem,
        "words": None,
    }
    status = 200 if problem is None else problem.status
    if visit.wants_part:
        return visit.page("words.html" if report is None else "comparison.html", status=status, **values)
    offered = await run_in_threadpool(partial(offer, visit.here, name=name, chosen=maps))
    return visit.page("compare.html", status=status, offered=offered, chosen=maps, name=name, most=MOST_MAPS, **values)
