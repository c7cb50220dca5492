"""Routes of monitors: define, read, draw, change and delete them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

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
from service.openapi import NOT_MODIFIED, located, raises
from service.paging import page_answer, page_request, query_of, read_query
from service.pictures import picture, series_drawing, window_drawing
from service.routing import Idempotent
from service.threads import run_in_thread

router = APIRouter(prefix="/monitors", tags=["monitors"], route_class=Idempotent)

#: Problems of a definition.
OF_DEFINITIONS = (
    "invalid-option",
    "hook-refused",
    "unknown-map",
    "unknown-batch",
    "unknown-measure",
    "unknown-method",
    "unknown-reduction",
    "scale-mismatch",
    "out-of-range",
    "prediction-kind-mismatch",
    "wrong-shape",
    "no-labels",
)
#: Problems of a batch of weighted rows.
OF_WEIGHTED = (
    "too-large",
    "unknown-batch",
    "no-labels",
    "prediction-kind-mismatch",
    "wrong-shape",
    "scale-mismatch",
    "unknown-reduction",
    "too-few-rows",
    "unknown-map",
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
    """Create a monitor of a live model: its predictions, groups, windows, measures, rules and hooks.

    If the service generates the secret of a hook, only this response contains it.
    """
    body = await read_fields(request, here.settings, MonitorBody)
    made, fresh = await run_in_thread(definitions.define_monitor, here, here.targets, body)
    headers = {"Location": f"/monitors/{made.name}", "ETag": entity_tag(to_bytes(answer_of(made)))}
    return Response(to_bytes(answer_of(made, fresh)), 201, headers, "application/json")


@router.get(
    "",
    response_model=MonitorsAnswer,
    responses=raises("invalid-field", "invalid-cursor"),
    openapi_extra=query_of(MonitorsQuery),
)
async def get_monitors(request: Request, here: Here) -> Response:
    """List the monitors, newest first."""
    page = await run_in_thread(here.store.monitors.page, page_request(read_query(request, MonitorsQuery)))
    return page_answer(request, [answer_of(record) for record in page.items], page.next)


@router.get(
    "/{name}",
    response_model=MonitorReading,
    responses=raises("unknown-monitor", "invalid-field", "busy", *OF_WEIGHTED),
    openapi_extra=query_of(ReadingQuery),
)
async def get_monitor(name: str, request: Request, here: Here) -> Response:
    """Get a monitor's counts and windows.

    A window has its measures with their intervals, the reliability diagram, the share of its predictions that have a
    label, the label delay, its largest groups and, if the monitor has a reference, the comparison with it.

    Covariate-shift weights belong to labelled rows and one window: store these rows with their weights as a batch and
    name it in ``reference``.
    """
    query = read_query(request, ReadingQuery)
    return answer((await run_in_thread(answers.read_monitor, here, here.process.monitors, name, query)).model_dump())


@router.get(
    "/{name}/definition",
    response_model=MonitorAnswer,
    responses=NOT_MODIFIED | raises("unknown-monitor"),
)
async def get_definition(name: str, request: Request, here: Here) -> Response:
    """Get the definition of a monitor, without data; use its ``ETag`` in ``If-Match`` to change it."""
    record = await run_in_thread(here.store.monitors.get, name)
    return Conditions.of(request.headers).answer(to_bytes(answer_of(record)))


@router.get(
    "/{name}/series",
    response_model=SeriesAnswer,
    responses=raises("unknown-monitor", "invalid-field", "busy"),
    openapi_extra=query_of(SeriesQuery),
)
async def get_series(name: str, request: Request, here: Here) -> Response:
    """Get the measures over time, one value per span of prediction time.

    A series that is estimated to take more than 45 s is refused: request fewer points, or one measure.
    """
    query = read_query(request, SeriesQuery)
    return answer((await run_in_thread(answers.read_series_of, here, here.process.monitors, name, query)).model_dump())


@router.get(
    "/{name}/series.svg",
    response_class=Response,
    responses=_drawn(SVG),
    openapi_extra=query_of(SeriesPictureQuery),
)
async def get_series_svg(name: str, request: Request, here: Here) -> Response:
    """Draw a measure over time with its intervals and the raised alarms."""
    query = read_query(request, SeriesPictureQuery)
    drawing = await run_in_thread(series_drawing, here, name, query)
    return await picture(here, drawing, {"Cache-Control": "no-cache"})


@router.get(
    "/{name}/diagram.svg",
    response_class=Response,
    responses=_drawn(SVG),
    openapi_extra=query_of(WindowPictureQuery),
)
async def get_window_svg(name: str, request: Request, here: Here) -> Response:
    """Draw the reliability diagram of a window."""
    return await _window(here, name, request, "svg")


@router.get(
    "/{name}/diagram.png",
    response_class=Response,
    responses=_drawn(PNG),
    openapi_extra=query_of(WindowPictureQuery),
)
async def get_window_png(name: str, request: Request, here: Here) -> Response:
    """Same as ``diagram.svg``, as a PNG."""
    return await _window(here, name, request, "png")


@router.patch(
    "/{name}",
    response_model=MonitorAnswer,
    responses=raises(*OF_DEFINITIONS, "unknown-monitor", "precondition-failed"),
    openapi_extra=fields_of(MonitorPatch),
)
async def patch_monitor(name: str, request: Request, here: Here) -> Response:
    """Change the given fields of a monitor; null removes ``description``, ``interval`` and ``reference``.

    Lists are replaced as a whole. A hook without a secret keeps the secret of the existing hook with the same name.
    """
    changes = await read_fields(request, here.settings, MonitorPatch)
    require = Conditions.of(request.headers).require
    changed, fresh = await run_in_thread(definitions.change_monitor, here, here.targets, name, changes, require)
    headers = {"ETag": entity_tag(to_bytes(answer_of(changed)))}
    return Response(to_bytes(answer_of(changed, fresh)), headers=headers, media_type="application/json")


@router.delete("/{name}", status_code=204, responses=raises("unknown-monitor", "precondition-failed"))
async def delete_monitor(name: str, request: Request, here: Here) -> Response:
    """Delete a monitor and all its data."""
    await run_in_thread(definitions.delete_monitor, here, name, Conditions.of(request.headers).require)
    return Response(status_code=204)


async def _window(here: Context, name: str, request: Request, form: Format) -> Response:
    query = read_query(request, WindowPictureQuery)
    drawing = await run_in_thread(window_drawing, here, name, query, form)
    return await picture(here, drawing, {"Cache-Control": "no-cache"})
