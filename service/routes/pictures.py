"""Pictures of what is stored: a diagram of a job's report, and that of a map's own fit."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

import calibrant
from calibrant.plots.canvas import Format
from calibrant.reports.pictures import draw_report, keys_of
from schemas.diagrams import PictureQuery, ReportPictureQuery
from schemas.jobs import FINAL
from service.context import Context, Here, located
from service.errors import JobNotFinal, NoBins, NotFound
from service.formats.media import PNG, SVG
from service.headers import Conditions, tagged, weak_tag
from service.openapi import Responses, raises
from service.paging import query_of, read_query
from service.pictures import draw_fit, picture
from service.problems import respond
from service.waiting import applied, failure, until_final

router = APIRouter(tags=["diagrams"])


def _answers(kind: str, *codes: str) -> Responses:
    content: dict[str, Any] = {"type": "string"} if kind == SVG else {"type": "string", "format": "binary"}
    return {
        200: {"content": {kind: {"schema": content}}},
        304: {"description": "If-None-Match names the present state"},
        **raises(*codes, "precondition-failed", "invalid-field", "busy"),
    }


_OF_MAPS = ("unknown-map", "no-bins")
_OF_JOBS = ("unknown-job", "job-not-final", "nothing-to-draw")


@router.get(
    "/maps/{ref}/diagram.svg",
    response_class=Response,
    responses=_answers(SVG, *_OF_MAPS),
    openapi_extra=query_of(PictureQuery),
)
async def get_map_svg(ref: str, request: Request, here: Here) -> Response:
    """The reliability diagram of the rows that a map was fitted to, before and after it: in sample, so no proof.

    Drawn from the bins that are kept with the map, also when its batch has expired.
    """
    return await _of_map(here, ref, request, "svg")


@router.get(
    "/maps/{ref}/diagram.png",
    response_class=Response,
    responses=_answers(PNG, *_OF_MAPS),
    openapi_extra=query_of(PictureQuery),
)
async def get_map_png(ref: str, request: Request, here: Here) -> Response:
    """The same as a PNG."""
    return await _of_map(here, ref, request, "png")


@router.get(
    "/jobs/{job_id}/diagram.svg",
    response_class=Response,
    responses=_answers(SVG, *_OF_JOBS),
    openapi_extra=query_of(ReportPictureQuery),
)
async def get_job_svg(job_id: str, request: Request, here: Here) -> Response:
    """A diagram of a job's report, drawn; with ``Prefer: wait=10`` when the job has ended."""
    return await _of_job(here, job_id, request, "svg")


@router.get(
    "/jobs/{job_id}/diagram.png",
    response_class=Response,
    responses=_answers(PNG, *_OF_JOBS),
    openapi_extra=query_of(ReportPictureQuery),
)
async def get_job_png(job_id: str, request: Request, here: Here) -> Response:
    """The same as a PNG."""
    return await _of_job(here, job_id, request, "png")


async def _of_map(here: Context, ref: str, request: Request, form: Format) -> Response:
    look = read_query(request, PictureQuery)
    record = await run_in_threadpool(here.store.maps.get, ref)
    if record.bins is None:
        raise NoBins("the map was imported, or fitted before bins were kept: of its fit nothing is known")
    told = record.model_dump(include={"id", "name", "version", "n", "bins", "in_sample"})
    tag = weak_tag(calibrant.__version__, told, form, look.theme, look.width)
    known = Conditions.of(request.headers).known(tag)
    return known or await picture(here, partial(draw_fit, record, record.bins, form, look), tagged(tag))


async def _of_job(here: Context, job_id: str, request: Request, form: Format) -> Response:
    look = read_query(request, ReportPictureQuery)
    record = await until_final(here, await run_in_threadpool(here.store.jobs.get, job_id))
    if record.status not in FINAL:
        headers = await run_in_threadpool(located, here, record)
        raise JobNotFinal("its diagrams are there when it has ended").with_headers(headers)
    if record.result is None:
        return applied(here, respond(failure(record)))
    report = record.result.get("report", {})
    keys = keys_of(report)
    if not keys or look.key not in (None, *keys):
        raise NotFound("the job has no report with a diagram of this key")
    key = keys[0] if look.key is None else look.key
    tag = weak_tag(calibrant.__version__, record.id, key, form, look.theme, look.width)
    known = Conditions.of(request.headers).known(tag)
    drawing = partial(draw_report, report, key, form=form, theme=look.theme, width=look.width)
    return applied(here, known or await picture(here, drawing, tagged(tag)))
