"""Routes of diagrams: of rows (directly or as a job), of a job's report, and of the fit of a map."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import Request, Response

import calibrant
from backend.evaluations import evaluate_or_queue
from backend.kinds import Arrays
from calibrant.core.errors import CalibrationError
from calibrant.plots.canvas import Format
from calibrant.reports.pictures import below_diagram, draw_report, keys_of, read_diagram
from schemas.batches import RowsOrBatch
from schemas.diagrams import (
    DiagramBody,
    DiagramOptions,
    DistributionDiagramBody,
    DistributionDiagramOptions,
    OneEvaluated,
    PictureQuery,
    ReportPictureQuery,
)
from schemas.evaluations import Pictured
from schemas.jobs import FINAL, JobRecord
from service.calls import (
    LABELS,
    OF_ENDED_JOBS,
    OF_EVALUATIONS,
    OF_FORECASTS,
    OF_SOURCES,
    PREDICTIONS,
    Call,
    Calls,
    ClientMethod,
    Sample,
    rows,
)
from service.context import Context, Here
from service.errors import InvalidField, JobNotFinal, NoBins, NotFound, RequestError, TooLarge
from service.formats.body import read_payload
from service.formats.media import JSON, PNG, SVG
from service.formats.options import read_options_of_kind
from service.headers import Conditions, choose, read_header, tagged, weak_tag
from service.jobs import applied, failure, located, settle, until_final
from service.paging import read_query
from service.pictures import (
    FORMS,
    draw_fit,
    evaluation_of,
    evaluation_of_forecasts,
    picture,
    read_pictured,
    report_picture,
)
from service.problems import respond
from service.threads import run_in_thread

calls = Calls("diagrams")


@calls.add(
    Call(
        "POST",
        "/diagrams",
        access="maps:read",
        body=rows(DiagramBody, DistributionDiagramBody),
        answer="PictureAnswer | PicturesAnswer",
        media=(SVG, PNG),
        queues="A job, for a source or a long fit; the picture is at its Location plus /diagram.svg or .png",
        problems=(*OF_EVALUATIONS, *OF_SOURCES, *OF_FORECASTS, *OF_ENDED_JOBS),
        client=(
            ClientMethod(
                "diagram",
                rows=DiagramOptions,
                first="diagram",
                media=SVG,
                summary="Draw a diagram of a stored batch or of rows; with ``map``, before and after it.",
            ),
            ClientMethod(
                "distribution_diagram",
                rows=DistributionDiagramOptions,
                first="diagram",
                media=SVG,
                summary="Draw a diagram of predictive distributions; a ``fan`` is in the order of ``times``.",
            ),
        ),
        samples=(
            Sample(
                "as-numbers",
                "The data of a diagram and its text description",
                {"predictions": PREDICTIONS, "labels": LABELS, "diagram": {"name": "reliability", "n_bins": 3}},
                headers={"Accept": "application/json"},
            ),
            Sample(
                "by-size",
                "Measures on random subsamples; a value that falls with their size is biased",
                {
                    "predictions": PREDICTIONS,
                    "labels": LABELS,
                    "diagram": {"name": "by-size", "start": 4, "measures": ["ks"]},
                },
            ),
        ),
    )
)
async def post_diagram(request: Request, here: Here) -> Response:
    """Draw a diagram of a batch; with ``map``, before and after the map; with ``batches``, one panel per batch.

    Returns SVG, PNG, or the numbers and a text description as JSON, depending on ``Accept``. The title gives the number
    of rows, the reduction, and the error with its interval. A diagram that needs a long fit runs as a job.

    Besides the diagrams of ``GET /diagrams`` there are ``by-size``, measures on random subsamples of the rows, and
    ``cost-plane``, which compares the decision costs of two ``batches`` of the same rows.

    With ``prediction_kind: "regression"``, the rows are predictive distributions, as for ``POST /evaluate``. A ``fan``
    has one row for each time, in the order of ``times``.

    Examples
    --------
    >>> client.diagram("reliability", predictions=p, labels=y, form="png")[1:4]
    b'PNG'

    >>> client.distribution_diagram("pit", [0.0, 3.0], mean=[0.0, 2.0], variance=[1.0, 4.0], form="png")[1:4]
    b'PNG'
    """
    kind = choose(read_header(request, b"accept"), (*FORMS, JSON))
    payload = await read_payload(request, here.settings)
    options = read_options_of_kind(payload, DiagramOptions, DistributionDiagramOptions)
    report: dict[str, Any] | JobRecord
    if isinstance(options, DistributionDiagramOptions):
        of_forecasts, key = evaluation_of_forecasts(options)
        report = await run_in_thread(evaluate_or_queue, here, payload.arrays, of_forecasts)
    elif (pictured := read_pictured(options)) is None:
        diagram = read_diagram(options.diagram)
        evaluated = evaluation_of(options, diagram)
        key, report = diagram.key, await run_in_thread(evaluate_or_queue, here, payload.arrays, evaluated)
    else:
        key, report = pictured.name, await run_in_thread(_pictured, here, payload.arrays, options, pictured)

    async def as_picture(record: JobRecord) -> Response:
        return await report_picture(here, (record.result or {})["report"], key, kind, options)

    if isinstance(report, JobRecord):
        return await settle(here, report, as_picture)
    return await report_picture(here, report, key, kind, options)


def _pictured(here: Context, arrays: Arrays, options: DiagramOptions, pictured: Pictured) -> dict[str, Any] | JobRecord:
    """Evaluate a picture that is not in the catalogue; errors in its options point below ``/diagram``."""
    if options.source is not None:
        raise InvalidField.at("/source", "is not supported for by-size and cost-plane, which need rows at random")
    fields = options.model_dump(include={*RowsOrBatch.model_fields, "batches", "map", "reduction", "seed"})
    try:
        return evaluate_or_queue(here, arrays, OneEvaluated(**fields, picture=pictured))
    except (RequestError, InvalidField, TooLarge):
        raise
    except CalibrationError as error:
        raise below_diagram(error) from None


# --- Pictures of stored results: a diagram of a job's report, and the diagram of a map's fit

_OF_MAPS = ("unknown-map", "no-bins", "busy")
_OF_JOBS = ("unknown-job", "job-not-final", *OF_ENDED_JOBS, "busy")


@calls.add(
    Call(
        "GET",
        "/maps/{map}/diagram.svg",
        query=PictureQuery,
        media=(SVG,),
        conditional=True,
        problems=_OF_MAPS,
        client=(ClientMethod("map_diagram", media=SVG),),
    )
)
async def get_map_svg(map: str, request: Request, here: Here) -> Response:
    """Draw the reliability diagram of the rows that a map was fitted to, before and after the map (in-sample).

    The diagram uses the bins that are stored with the map, so it is available after the batch has expired.

    Examples
    --------
    >>> client.map_diagram("spam")[:4]
    b'<svg'
    """
    return await _of_map(here, map, request, "svg")


@calls.add(
    Call("GET", "/maps/{map}/diagram.png", query=PictureQuery, media=(PNG,), conditional=True, problems=_OF_MAPS)
)
async def get_map_png(map: str, request: Request, here: Here) -> Response:
    """Same as ``diagram.svg``, as a PNG."""
    return await _of_map(here, map, request, "png")


@calls.add(
    Call(
        "GET",
        "/jobs/{job}/diagram.svg",
        query=ReportPictureQuery,
        media=(SVG,),
        conditional=True,
        waits=True,
        problems=_OF_JOBS,
        client=(ClientMethod("job_diagram", media=SVG, summary="Draw a diagram of the report of a job."),),
    )
)
async def get_job_svg(job: str, request: Request, here: Here) -> Response:
    """Draw a diagram of a job's report; with ``Prefer: wait=10``, waits up to 10 seconds for the job to end."""
    return await _of_job(here, job, request, "svg")


@calls.add(
    Call(
        "GET",
        "/jobs/{job}/diagram.png",
        query=ReportPictureQuery,
        media=(PNG,),
        conditional=True,
        waits=True,
        problems=_OF_JOBS,
    )
)
async def get_job_png(job: str, request: Request, here: Here) -> Response:
    """Same as ``diagram.svg``, as a PNG."""
    return await _of_job(here, job, request, "png")


async def _of_map(here: Context, map: str, request: Request, form: Format) -> Response:
    look = read_query(request, PictureQuery)
    record = await run_in_thread(here.store.maps.get, map)
    if record.bins is None:
        raise NoBins("the map was imported, or fitted by a version that did not store bins")
    shown = record.model_dump(include={"id", "name", "version", "n", "bins", "in_sample"})
    tag = weak_tag(calibrant.__version__, shown, form, look.theme, look.width)
    known = Conditions.of(request.headers).known(tag)
    return known or await picture(here, partial(draw_fit, record, record.bins, form, look), tagged(tag))


async def _of_job(here: Context, job: str, request: Request, form: Format) -> Response:
    look = read_query(request, ReportPictureQuery)
    record = await until_final(here, await run_in_thread(here.store.jobs.get, job))
    if record.status not in FINAL:
        headers = await run_in_thread(located, here, record)
        raise JobNotFinal("the job has no diagrams until it has ended").with_headers(headers)
    if record.result is None:
        return applied(here, respond(failure(record)))
    report = record.result.get("report", {})
    keys = keys_of(report)
    if not keys or look.key not in (None, *keys):
        raise NotFound("the report of the job has no diagram with this key")
    key = keys[0] if look.key is None else look.key
    tag = weak_tag(calibrant.__version__, record.id, key, form, look.theme, look.width)
    known = Conditions.of(request.headers).known(tag)
    drawing = partial(draw_report, report, key, form=form, theme=look.theme, width=look.width)
    return applied(here, known or await picture(here, drawing, tagged(tag)))
