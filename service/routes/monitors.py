"""Monitors: what is watched of a live model, how, and what is read off it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from backend.monitors import answers, definitions
from calibrant.plots.canvas import Format
from schemas.monitor_answers import (
    MonitorAnswer,
    MonitorReading,
    MonitorsAnswer,
    MonitorsQuery,
    ReadingQuery,
    SeriesAnswer,
    SeriesPictureQuery,
    SeriesQuery,
    WindowPictureQuery,
    answer_of,
)
from schemas.monitors import MonitorBody, MonitorPatch
from service.context import Context, Here, answer
from service.formats.body import fields_of, read_fields
from service.formats.media import PNG, SVG
from service.headers import Conditions, entity_tag, to_bytes
from service.openapi import located, raises
from service.paging import page_answer, page_request, query_of, read_query
from service.pictures import picture, series_drawing, window_drawing
from service.routing import Idempotent

router = APIRouter(prefix="/monitors", tags=["monitors"], route_class=Idempotent)

#: What may be wrong with a definition.
OF_DEFINITIONS = (
    "invalid-option",
    "hook-refused",
    "unknown-map",
    "unknown-batch",
    "unknown-measure",
    "unknown-method",
    "unknown-reduction",
    "scale-mismatch",
    "wrong-shape",
    "no-labels",
)


def _drawn(media: str) -> dict[int | str, dict[str, Any]]:
    schema = {"type": "string"} if media == SVG else {"type": "string", "format": "binary"}
    return {
        200: {"content": {media: {"schema": schema}}, "description": "The picture"},
        **raises("unknown-monitor", "invalid-field", "nothing-to-draw", "busy"),
    }


@router.post(
    "",
    status_code=201,
    response_model=MonitorAnswer,
    responses={
        201: {"headers": located("monitor")},
        **raises(*OF_DEFINITIONS, "monitor-exists", "quota-exceeded"),
    },
    openapi_extra=fields_of(MonitorBody),
)
async def post_monitor(request: Request, here: Here) -> Response:
    """Watch a live model: what is predicted, its groups, windows, measures, rules and hooks.

    A hook's secret that the service makes is in this answer, and in no other.
    """
    body = await read_fields(request, here.settings, MonitorBody)
    made, fresh = await run_in_threadpool(definitions.define_monitor, here, here.targets, body)
    headers = {"Location": f"/monitors/{made.name}", "ETag": entity_tag(to_bytes(answer_of(made)))}
    return Response(to_bytes(answer_of(made, fresh)), 201, headers, "application/json")


@router.get(
    "",
    response_model=MonitorsAnswer,
    responses=raises("invalid-field", "invalid-cursor"),
    openapi_extra=query_of(MonitorsQuery),
)
async def get_monitors(request: Request, here: Here) -> Response:
    """The monitors, newest first."""
    page = await run_in_threadpool(here.store.monitors.page, page_request(read_query(request, MonitorsQuery)))
    return page_answer(request, [answer_of(record) for record in page.items], page.next)


@router.get(
    "/{name}",
    response_model=MonitorReading,
    responses=raises("unknown-monitor", "invalid-field", "busy"),
    openapi_extra=query_of(ReadingQuery),
)
async def get_monitor(name: str, request: Request, here: Here) -> Response:
    """A monitor as it is now: what it has counted, and each of its windows.

    A window has its measures with their intervals, the reliability diagram, how many of its predictions have a label
    and how long the labels took, its largest groups, and, where there is one, the comparison with the reference.
    """
    query = read_query(request, ReadingQuery)
    return answer(
        (await run_in_threadpool(answers.read_monitor, here, here.process.monitors, name, query)).model_dump()
    )


@router.get(
    "/{name}/definition",
    response_model=MonitorAnswer,
    responses={304: {"description": "If-None-Match names the present state"}, **raises("unknown-monitor")},
)
async def get_definition(name: str, request: Request, here: Here) -> Response:
    """What a monitor is, without what it has seen; its ``ETag`` is what a change may ask for in ``If-Match``."""
    record = await run_in_threadpool(here.store.monitors.get, name)
    return Conditions.of(request.headers).answer(to_bytes(answer_of(record)))


@router.get(
    "/{name}/series",
    response_model=SeriesAnswer,
    responses=raises("unknown-monitor", "invalid-field", "busy"),
    openapi_extra=query_of(SeriesQuery),
)
async def get_series(name: str, request: Request, here: Here) -> Response:
    """The measures over time, of the rows predicted in each of at most so many spans.

    What is estimated to take over 45 s is refused: ask for fewer points, or one measure.
    """
    query = read_query(request, SeriesQuery)
    return answer(
        (await run_in_threadpool(answers.read_series_of, here, here.process.monitors, name, query)).model_dump()
    )


@router.get(
    "/{name}/series.svg",
    response_class=Response,
    responses=_drawn(SVG),
    openapi_extra=query_of(SeriesPictureQuery),
)
async def get_series_svg(name: str, request: Request, here: Here) -> Response:
    """A measure over time, drawn with its intervals and the alarms that were raised."""
    query = read_query(request, SeriesPictureQuery)
    drawing = await run_in_threadpool(series_drawing, here, name, query)
    return await picture(here, drawing, {"Cache-Control": "no-cache"})


@router.get(
    "/{name}/diagram.svg",
    response_class=Response,
    responses=_drawn(SVG),
    openapi_extra=query_of(WindowPictureQuery),
)
async def get_window_svg(name: str, request: Request, here: Here) -> Response:
    """The reliability diagram of a window, drawn."""
    return await _window(here, name, request, "svg")


@router.get(
    "/{name}/diagram.png",
    response_class=Response,
    responses=_drawn(PNG),
    openapi_extra=query_of(WindowPictureQuery),
)
async def get_window_png(name: str, request: Request, here: Here) -> Response:
    """The same as a PNG."""
    return await _window(here, name, request, "png")


@router.patch(
    "/{name}",
    response_model=MonitorAnswer,
    responses=raises(*OF_DEFINITIONS, "unknown-monitor", "precondition-failed"),
    openapi_extra=fields_of(MonitorPatch),
)
async def patch_monitor(name: str, request: Request, here: Here) -> Response:
    """Change what is given and leave the rest; ``description``, ``interval`` and ``reference`` are removed by null.

    Lists are replaced whole. A hook of a name that the monitor has keeps its secret where it brings none.
    """
    changes = await read_fields(request, here.settings, MonitorPatch)
    require = Conditions.of(request.headers).require
    changed, fresh = await run_in_threadpool(definitions.change_monitor, here, here.targets, name, changes, require)
    headers = {"ETag": entity_tag(to_bytes(answer_of(changed)))}
    return Response(to_bytes(answer_of(changed, fresh)), headers=headers, media_type="application/json")


@router.delete("/{name}", status_code=204, responses=raises("unknown-monitor", "precondition-failed"))
async def delete_monitor(name: str, request: Request, here: Here) -> Response:
    """Forget a monitor and all that it has counted."""
    await run_in_threadpool(definitions.delete_monitor, here, name, Conditions.of(request.headers).require)
    return Response(status_code=204)


async def _window(here: Context, name: str, request: Request, form: Format) -> Response:
    query = read_query(request, WindowPictureQuery)
    drawing = await run_in_threadpool(window_drawing, here, name, query, form)
    return await picture(here, drawing, {"Cache-Control": "no-cache"})
