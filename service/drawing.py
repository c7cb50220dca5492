"""Pictures over HTTP: drawn when it is their turn, and sealed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fastapi import Response

from pictures.drawn import Drawn, Format
from pictures.errors import PictureError
from schemas.diagrams import PictureQuery
from service.context import Context, answer
from service.errors import NothingToDraw
from service.formats.media import JSON, PNG, SVG
from service.html import SEALED
from service.report_pictures import draw_report, each_of, shown_of

#: What the format of a picture is called on the wire.
FORMS: Mapping[str, Format] = {SVG: "svg", PNG: "png"}


async def picture(here: Context, work: Callable[[], Drawn], headers: Mapping[str, str] | None = None) -> Response:
    """The answer of a picture that is drawn when it is its turn; raises ``NothingToDraw``."""
    try:
        drawn = await here.draw(work)
    except PictureError as error:
        raise NothingToDraw(error.detail) from error
    return Response(drawn.content, headers={**SEALED, **(headers or {})}, media_type=drawn.media_type)


async def report_picture(here: Context, report: Mapping[str, Any], key: str, kind: str, look: PictureQuery) -> Response:
    """The diagram of this key of a report, or of several batches' reports: as a picture, or its numbers and words."""
    work = partial(draw_report, report, key, FORMS.get(kind, "svg"), look)
    if kind != JSON:
        return await picture(here, work, {"Vary": "Accept"})
    try:
        alt = (await here.draw(work)).alt
    except PictureError:
        alt = None  # the problem stands beside the data that is missing
    return answer({**_numbers(report, key), "alt": alt}, headers={"Vary": "Accept"})


def _numbers(report: Mapping[str, Any], key: str) -> dict[str, Any]:
    if "batches" in report:
        return {"batches": [{"batch": each["batch"], **shown_of(each["report"], key)} for each in each_of(report)]}
    after = shown_of(report["after"], key) if "after" in report else None
    return {**shown_of(report, key), "after": after}
