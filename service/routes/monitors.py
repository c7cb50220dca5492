"""Routes of monitors: define, read, draw, change and delete them."""

from __future__ import annotations

from fastapi import Request, Response

from backend.monitors import answers, definitions
from calibrant.plots.canvas import Format
from schemas.base import Document
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
from service.calls import Call, Calls, ClientMethod, changes, fields
from service.context import Context, Here, answer
from service.formats.body import read_fields
from service.formats.media import PNG, SVG
from service.headers import Conditions, entity_tag, to_bytes
from service.paging import page_answer, page_request, read_query
from service.pictures import picture, series_drawing, window_drawing
from service.threads import run_in_thread

calls = Calls("monitors", reads="monitors:read", writes="monitors:write")

#: Problems of a definition.
OF_DEFINITIONS = (
    "invalid-option",
    "hook-refused",
    "unknown-map-reference",
    "unknown-batch-reference",
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
    "unknown-batch-reference",
    "no-labels",
    "prediction-kind-mismatch",
    "wrong-shape",
    "scale-mismatch",
    "unknown-reduction",
    "too-few-rows",
    "unknown-map-reference",
)
_OF_PICTURES = ("unknown-monitor", "nothing-to-draw", "busy")


@calls.add(
    Call(
        "POST",
        "/monitors",
        body=fields(MonitorBody),
        answer=MonitorAnswer,
        status=201,
        located="monitor",
        tagged=True,
        problems=(*OF_DEFINITIONS, "monitor-exists", "quota-exceeded"),
        client="create_monitor",
    )
)
async def post_monitor(request: Request, here: Here) -> Response:
    """Create a monitor of a live model: its predictions, groups, windows, measures, rules and hooks.

    If the service generates the secret of a hook, only this response contains it. With a policy that moves an alias by
    itself, ``auto`` or ``online``, it also needs the scope ``maps:promote``.

    Examples
    --------
    >>> made = client.create_monitor("inbox", windows=[{"name": "day", "seconds": 86400}], measures=["ece", "ks"])
    >>> [window.name for window in made.windows]
    ['day']
    """
    body = await read_fields(request, here.settings, MonitorBody)
    if body.recalibration.promotes:
        here.require_scope("maps:promote")
    record, fresh = await run_in_thread(definitions.define_monitor, here, here.targets, body)
    headers = {"Location": f"/monitors/{record.name}", "ETag": entity_tag(to_bytes(answer_of(record)))}
    return Response(to_bytes(answer_of(record, fresh)), 201, headers, "application/json")


@calls.add(Call("GET", "/monitors", query=MonitorsQuery, answer=MonitorsAnswer, client="monitors"))
async def get_monitors(request: Request, here: Here) -> Response:
    """List the monitors, newest first.

    Examples
    --------
    >>> "inbox" in [monitor.name for monitor in client.monitors()]
    True
    """
    page = await run_in_thread(here.store.monitors.page, page_request(read_query(request, MonitorsQuery)))
    return page_answer(request, [answer_of(record) for record in page.items], page.next)


@calls.add(
    Call(
        "GET",
        "/monitors/{name}",
        query=ReadingQuery,
        answer=MonitorReading,
        problems=("unknown-monitor", "busy", *OF_WEIGHTED),
    )
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


@calls.add(
    Call("GET", "/monitors/{name}/definition", answer=MonitorAnswer, conditional=True, problems=("unknown-monitor",))
)
async def get_definition(name: str, request: Request, here: Here) -> Response:
    """Get the definition of a monitor, without data; use its ``ETag`` in ``If-Match`` to change it."""
    record = await run_in_thread(here.store.monitors.get, name)
    return Conditions.of(request.headers).answer(to_bytes(answer_of(record)))


@calls.add(
    Call(
        "GET",
        "/monitors/{name}/series",
        query=SeriesQuery,
        answer=SeriesAnswer,
        problems=("unknown-monitor", "busy"),
        client="series",
    )
)
async def get_series(name: str, request: Request, here: Here) -> Response:
    """Get the measures over time, one value per span of prediction time.

    A series that is estimated to take more than 45 s is refused: request fewer points, or one measure.

    Examples
    --------
    >>> len(client.series("inbox", measure="ece", points=1).points)
    1
    """
    query = read_query(request, SeriesQuery)
    return answer((await run_in_thread(answers.read_series_of, here, here.process.monitors, name, query)).model_dump())


@calls.add(
    Call(
        "GET",
        "/monitors/{name}/series.svg",
        query=SeriesPictureQuery,
        media=(SVG,),
        meaning="The picture",
        problems=_OF_PICTURES,
        client=(ClientMethod("series_diagram", media=SVG, first="measure"),),
    )
)
async def get_series_svg(name: str, request: Request, here: Here) -> Response:
    """Draw a measure over time with its intervals and the raised alarms.

    Examples
    --------
    >>> client.series_diagram("inbox", "ece")[:4]
    b'<svg'
    """
    query = read_query(request, SeriesPictureQuery)
    drawing = await run_in_thread(series_drawing, here, name, query)
    return await picture(here, drawing, {"Cache-Control": "no-cache"})


@calls.add(
    Call(
        "GET",
        "/monitors/{name}/diagram.svg",
        query=WindowPictureQuery,
        media=(SVG,),
        meaning="The picture",
        problems=_OF_PICTURES,
        client=(ClientMethod("monitor_diagram", media=SVG, first="window"),),
    )
)
async def get_window_svg(name: str, request: Request, here: Here) -> Response:
    """Draw the reliability diagram of a window.

    Examples
    --------
    >>> client.monitor_diagram("inbox")[:4]
    b'<svg'
    """
    return await _window(here, name, request, "svg")


@calls.add(
    Call(
        "GET",
        "/monitors/{name}/diagram.png",
        query=WindowPictureQuery,
        media=(PNG,),
        meaning="The picture",
        problems=_OF_PICTURES,
    )
)
async def get_window_png(name: str, request: Request, here: Here) -> Response:
    """Same as ``diagram.svg``, as a PNG."""
    return await _window(here, name, request, "png")


@calls.add(
    Call(
        "PATCH",
        "/monitors/{name}",
        body=changes(MonitorPatch),
        answer=MonitorAnswer,
        tagged=True,
        conditional=True,
        problems=(*OF_DEFINITIONS, "unknown-monitor"),
        client=(ClientMethod("change_monitor", summary="Change fields of a monitor; its counts are kept."),),
    )
)
async def patch_monitor(name: str, request: Request, here: Here) -> Response:
    """Change the given fields of a monitor; null removes one that may be null, such as ``description``.

    The body is a JSON merge patch: objects are merged, and lists are replaced as a whole. A hook without a secret keeps
    the secret of the existing hook with the same name. If the policy moves an alias by itself, before or after the
    change, it also needs the scope ``maps:promote``.

    Examples
    --------
    >>> client.change_monitor("inbox", description="mails of the live model").description
    'mails of the live model'
    """
    patch = await read_fields(request, here.settings, MonitorPatch)
    conditions = Conditions.of(request.headers)

    def require(before: Document | None) -> None:
        conditions.require(before)
        policies = (patch.recalibration, before.recalibration if isinstance(before, MonitorAnswer) else None)
        if any(policy is not None and policy.promotes for policy in policies):
            here.require_scope("maps:promote")

    changed, fresh = await run_in_thread(definitions.change_monitor, here, here.targets, name, patch, require)
    headers = {"ETag": entity_tag(to_bytes(answer_of(changed)))}
    return Response(to_bytes(answer_of(changed, fresh)), headers=headers, media_type="application/json")


@calls.add(
    Call(
        "DELETE",
        "/monitors/{name}",
        status=204,
        conditional=True,
        problems=("unknown-monitor",),
        client="delete_monitor",
    )
)
async def delete_monitor(name: str, request: Request, here: Here) -> Response:
    """Delete a monitor and all its data.

    Examples
    --------
    >>> made = client.create_monitor("short-lived")
    >>> client.delete_monitor("short-lived")
    """
    await run_in_thread(definitions.delete_monitor, here, name, Conditions.of(request.headers).require)
    return Response(status_code=204)


async def _window(here: Context, name: str, request: Request, form: Format) -> Response:
    query = read_query(request, WindowPictureQuery)
    drawing = await run_in_thread(window_drawing, here, name, query, form)
    return await picture(here, drawing, {"Cache-Control": "no-cache"})
