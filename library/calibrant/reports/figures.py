"""The pictures of a report: drawn, and packed so that a page needs nothing from elsewhere."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.plots.canvas import About, Drawn, NothingToDraw, UnknownPicture
from calibrant.plots.diagram import draw, draw_several
from calibrant.reports import lookup
from calibrant.reports.panel import ReportSubject
from calibrant.reports.pictures import shown_of
from calibrant.reports.regions import error_interval

#: So wide a picture is drawn; the style sheet shrinks it where there is less room.
WIDTH = 560
_SIZE = re.compile(rb'<svg[^>]*? width="(\d+(?:\.\d+)?)[a-z]*" height="(\d+(?:\.\d+)?)')

#: What each diagram shows, in the order of a report.
CAPTIONS: Mapping[str, str] = {
    "reliability": "Label shares of bins of rows against their mean predictions: on the diagonal is calibrated, below "
    "it too high. The filled area is the calibration error; the bars beneath count rows.",
    "fit-on-test": "The calibration map that fits these rows best, with the band in which it lies: where the band "
    "leaves the diagonal, predictions are off.",
    "corp": "The best rising curve through the labels. Calibrated predictions would keep it within the band.",
    "logit-logit": "The same on logit axes, which spread the ends: a straight line is what Platt scaling can repair, "
    "one through the middle what a temperature can.",
    "ks-graphs": "Predicted and true events added up from the lowest prediction: where the lines part, predictions "
    "are off. Needs no bins.",
}


@dataclass(frozen=True)
class Figure:
    """A picture as an ``<img>`` takes it, with its ``caption``; ``width`` and ``height`` are in CSS pixels."""

    name: str
    source: str
    alt: str
    width: int
    height: int
    caption: str


def figures(report: Mapping[str, Any], about: ReportSubject) -> list[Figure]:
    """The diagrams that the report holds, before and after a map in one picture; what cannot be drawn is left out."""
    made = []
    for name, caption in CAPTIONS.items():
        shown = lookup.drawn(report, name)
        if shown is None:
            continue
        later = lookup.drawn(report.get("after") or {}, name)
        after = None if later is None else (later, _about(report, report["after"], about.map or "after the map"))
        try:
            drawn = draw(name, shown, _about(report, report, None), after=after, width=WIDTH)
        except (NothingToDraw, UnknownPicture):
            continue
        made.append(figure(name, drawn, caption))
    return made


def group_figure(report: Mapping[str, Any]) -> Figure | None:
    """The reliability diagrams of the groups in one picture; None where the report has none."""
    groups = report.get("group_diagrams")
    if not groups:
        return None
    shown = [
        (shown_of(group, "reliability"), About(group["n"], report["reduction"], name)) for name, group in groups.items()
    ]
    try:
        drawn = draw_several("reliability", shown, title="Reliability by group", each="groups", width=WIDTH)
    except NothingToDraw:
        return None
    return figure("groups", drawn, "Each group by itself: on the diagonal is calibrated, below it too high.")


def figure(name: str, drawn: Drawn, caption: str) -> Figure:
    """A picture packed into the page, with the size that it says it has."""
    size = _SIZE.search(drawn.content)
    width, height = (WIDTH, WIDTH) if size is None else (round(float(side)) for side in size.groups())
    source = f"data:{drawn.media_type};base64,{b64encode(drawn.content).decode('ascii')}"
    return Figure(name, source, drawn.alt, width, height, caption)


def _about(report: Mapping[str, Any], side: Mapping[str, Any], name: str | None) -> About:
    error, ends = lookup.error(side), error_interval(side)
    named = None if error is None else ("calibration error", error)
    return About(report["n"], report["reduction"], name, named, None if named is None else ends)
