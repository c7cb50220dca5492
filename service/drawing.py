"""Pictures over HTTP: a report's diagram, or a stored map's, drawn and sealed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fastapi import Response

from pictures.by_size import draw_by_size
from pictures.cost_plane import draw_cost_plane
from pictures.diagram import draw
from pictures.drawn import About, Drawn, Format
from pictures.errors import PictureError
from pictures.fit_bins import draw_fit_bins
from pictures.several import draw_several
from schemas.diagrams import PictureQuery
from schemas.maps import FitBins, MapRecord
from service.captions import caption
from service.context import Context, answer
from service.errors import NothingToDraw
from service.formats.media import JSON, PNG, SVG
from service.html import SEALED
from storage.pictured import BY_SIZE, COST_PLANE

#: What the format of a picture is called on the wire.
FORMS: Mapping[str, Format] = {SVG: "svg", PNG: "png"}
#: The fields of a diagram, as reports hold it.
_SHOWN = ("data", "definition", "problem")


async def picture(here: Context, work: Callable[[], Drawn], headers: Mapping[str, str] | None = None) -> Response:
    """The answer of a picture that is drawn when it is its turn; raises ``NothingToDraw``."""
    try:
        drawn = await here.process.easel.draw(work)
    except PictureError as error:
        raise NothingToDraw(error.detail) from error
    return Response(drawn.content, headers={**SEALED, **(headers or {})}, media_type=drawn.media_type)


async def report_picture(here: Context, report: Mapping[str, Any], key: str, kind: str, look: PictureQuery) -> Response:
    """The diagram of this key of a report, or of several batches' reports: as a picture, or its numbers and words."""
    work = partial(draw_report, report, key, FORMS.get(kind, "svg"), look)
    if kind != JSON:
        return await picture(here, work, {"Vary": "Accept"})
    try:
        alt = (await here.process.easel.draw(work)).alt
    except PictureError:
        alt = None  # the problem stands beside the data that is missing
    return answer({**_numbers(report, key), "alt": alt}, headers={"Vary": "Accept"})


def draw_report(report: Mapping[str, Any], key: str, form: Format, look: PictureQuery) -> Drawn:
    """Draw a diagram; where there was a map before and after it; of several batches one beside the other."""
    style: dict[str, Any] = {"form": form, "theme": look.theme, "width": look.width}
    if "batches" in report:
        several = [(_shown(each["report"], key), caption(each["report"], key, each["batch"])) for each in _each(report)]
        return draw_several(several[0][0]["definition"]["name"], several, each="samples", **style)
    shown = _shown(report, key)
    name = shown["definition"]["name"]
    about = About(report["n"], report["reduction"])
    if name == BY_SIZE:
        return draw_by_size(shown["data"], about, **style)
    if name == COST_PLANE:
        one, other = shown["definition"]["batches"]
        return draw_cost_plane(shown["data"], about, names=(one, other), **style)
    if "after" not in report:
        return draw(name, shown, caption(report, key), **style)
    # A title names what the picture is not: rows that the map has not seen.
    title = "In sample: fitted to these rows" if report.get("in_sample") else None
    after = report["after"]["diagrams"][key], caption(report, key, title, after=True)
    return draw(name, shown, caption(report, key, title), after=after, **style)


def draw_fit(record: MapRecord, bins: FitBins, form: Format, look: PictureQuery) -> Drawn:
    """Draw the rows of a map's fit before and after it, from their bins."""
    called = record.id if record.name is None else f"{record.name}, version {record.version}"
    about = About(record.n or 0, bins.of, f"{called}, in sample")
    scores = record.in_sample
    errors = None if scores is None else (scores.before.ece, scores.after.ece)
    return draw_fit_bins(bins, about, errors=errors, form=form, theme=look.theme, width=look.width)


def keys_of(report: Mapping[str, Any]) -> list[str]:
    """The keys of the diagrams that a report holds, or each of several batches' reports."""
    holder = _each(report)[0]["report"] if "batches" in report else report
    return list(holder.get("diagrams") or ())


def _numbers(report: Mapping[str, Any], key: str) -> dict[str, Any]:
    if "batches" in report:
        return {"batches": [{"batch": each["batch"], **_shown(each["report"], key)} for each in _each(report)]}
    after = _shown(report["after"], key) if "after" in report else None
    return {**_shown(report, key), "after": after}


def _each(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report["batches"]
    return found


def _shown(side: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: side["diagrams"][key][name] for name in _SHOWN}
