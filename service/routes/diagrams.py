"""Pictures of rows: drawn at once, or by way of a job where that takes long."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from calibrant.errors import CalibrationError
from calibrant.reports.pictures import below_diagram, read_diagram
from schemas.diagrams import DiagramBody, DiagramOptions, OneEvaluated, PictureAnswer, PicturesAnswer
from schemas.evaluate import Pictured
from schemas.jobs import JobRecord
from service.context import Context, Here, body_of
from service.errors import RequestError
from service.formats.answers import choose
from service.formats.body import read_payload
from service.formats.media import JSON, PNG, SVG
from service.formats.options import read_options
from service.formats.payload import Payload
from service.headers import read_header
from service.idempotency import Idempotent
from service.openapi import OF_EVALUATIONS, queues, raises
from service.pictures import FORMS, evaluation_of, read_pictured, report_picture
from service.routes.evaluate import run_or_queue
from service.waiting import settle

router = APIRouter(tags=["diagrams"], route_class=Idempotent)

_TEXT = {"type": "string"}


@router.post(
    "/diagrams",
    response_model=PictureAnswer | PicturesAnswer,
    responses={
        200: {"content": {SVG: {"schema": _TEXT}, PNG: {"schema": _TEXT | {"format": "binary"}}}},
        **queues("A job, where the diagram is a long fit; its picture is at its Location, then /diagram.svg or .png"),
        **raises(
            *OF_EVALUATIONS,
            "nothing-to-draw",
        ),
    },
    openapi_extra=body_of(DiagramBody),
)
async def post_diagram(request: Request, here: Here) -> Response:
    """Draw a diagram of a batch; with ``map``, before and after it; with ``batches``, one beside the other.

    As SVG, PNG, or JSON of its numbers and its words, whichever is accepted. The title has the rows, the reduction
    and the error that is shown, with its interval. By a job where it is a long fit.
    Also ``by-size``, measures on random subsets of the rows, and ``cost-plane``, whose decisions cost less: those of
    the one or the other of two ``batches`` of the same rows.
    """
    kind = choose(read_header(request, b"accept"), (*FORMS, JSON))
    payload = await read_payload(request, here.settings)
    options = read_options(payload, DiagramOptions)
    pictured = read_pictured(options)
    if pictured is None:
        asked = read_diagram(options.diagram)
        key, made = asked.key, await run_in_threadpool(run_or_queue, here, payload, evaluation_of(options, asked))
    else:
        key, made = pictured.name, await run_in_threadpool(_pictured, here, payload, options, pictured)

    async def told(record: JobRecord) -> Response:
        return await report_picture(here, (record.result or {})["report"], key, kind, options)

    if isinstance(made, JobRecord):
        return await settle(here, made, told)
    return await report_picture(here, made, key, kind, options)


def _pictured(here: Context, payload: Payload, options: DiagramOptions, asked: Pictured) -> dict[str, Any] | JobRecord:
    """``run_or_queue`` of a picture beside the catalogue, its options told where they stand."""
    given = options.model_dump(include={"batch", "batches", "scale", "weights_kind", "reduction", "seed"})
    try:
        return run_or_queue(here, payload, OneEvaluated(**given, picture=asked))
    except RequestError:
        raise
    except CalibrationError as error:
        raise below_diagram(error) from None
