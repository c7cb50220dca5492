"""The figures of a report: diagrams with captions, embedded as data URLs."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.diagrams.catalogue import DIAGRAMS, caption_of_groups
from calibrant.diagrams.diagram import Diagram
from calibrant.plots.canvas import Caption, Drawn, NothingToDraw, UnknownPicture
from calibrant.plots.diagram import draw, draw_several
from calibrant.reports import lookup
from calibrant.reports.panel import ReportSubject
from calibrant.reports.pictures import shown_of

#: Width of a picture in pixels; the style sheet scales it down on narrow screens.
WIDTH = 560
_SIZE = re.compile(rb'<svg[^>]*? width="(\d+(?:\.\d+)?)[a-z]*" height="(\d+(?:\.\d+)?)')


@dataclass(frozen=True)
class Figure:
    """The attributes of an ``<img>``, with a caption; ``width`` and ``height`` are in CSS pixels."""

    name: str
    source: str
    alt: str
    width: int
    height: int
    caption: str


def figures(
    report: Mapping[str, Any],
    about: ReportSubject,
    entries: Mapping[str, Diagram],
    title_of: Callable[[Mapping[str, Any], Mapping[str, Any], ReportSubject, str | None], Caption],
) -> list[Figure]:
    """Draw the diagrams of a report, before and after a map in one picture; those that cannot be drawn are omitted.

    ``entries`` are the diagrams of the kind of predictions, and ``title_of`` returns what the picture says of one side
    of the report.
    """
    pictures = []
    for name in lookup.diagram_names(report):
        shown = lookup.drawn(report, name)
        if shown is None:
            continue
        later = lookup.drawn(report.get("after") or {}, name)
        named = about.map or "after the map"
        after = None if later is None else (later, title_of(report, report["after"], about, named))
        try:
            drawn = draw(name, shown, title_of(report, report, about, None), after=after, width=WIDTH)
        except (NothingToDraw, UnknownPicture):
            continue
        pictures.append(figure(name, drawn, entries[name].caption_of(shown["data"])))
    return pictures


def group_figure(report: Mapping[str, Any], subject: ReportSubject) -> Figure | None:
    """Draw the reliability diagrams of the groups in one picture; returns None if the report has none."""
    groups = report.get("group_diagrams")
    if not groups:
        return None
    side = "" if report.get("after") is None else ", before the map"
    how = ("reliability", groups, report.get("groups") or {}, "groups")
    return _several(*how, f"Reliability by group{side}", caption_of_groups(side), report, subject)


def model_figures(report: Mapping[str, Any], subject: ReportSubject) -> list[Figure]:
    """Draw each diagram of all models side by side; those that cannot be drawn are omitted."""
    models = report.get("model_diagrams") or {}
    sides = {contestant["name"]: contestant for contestant in report["comparison"]["contestants"]}
    drawn = []
    for key, first in (next(iter(models.values()))["diagrams"] if models else {}).items():
        caption = DIAGRAMS[key].caption_of(first["data"] or {})  # its axes depend on the labels alone
        drawn.append(_several(key, models, sides, "models", None, caption, report, subject))
    return [picture for picture in drawn if picture is not None]


def _several(
    diagram: str,
    parts: Mapping[str, Any],
    sides: Mapping[str, Any],
    noun: str,
    title: str | None,
    caption: str,
    report: Mapping[str, Any],
    subject: ReportSubject,
) -> Figure | None:
    """Draw one diagram of several parts of a report, with the calibration error of each of the ``sides``."""
    measured = {name: lookup.measure(side, "ece", norm=1) for name, side in sides.items()}
    errors = {name: answer for name, answer in measured.items() if answer is not None}
    which = lookup.kind(errors.values())

    def about(name: str, n: int) -> Caption:
        answer = errors.get(name)
        number = None if answer is None or which is None else lookup.shown(answer, which)
        error = None if number is None else (f"{which} ECE", number)
        return Caption(n, subject.named(report["reduction"]), name, error=error)

    shown = [(shown_of(part, diagram), about(name, part["n"])) for name, part in parts.items()]
    try:
        drawn = draw_several(diagram, shown, title=title, noun=noun, width=WIDTH)
    except NothingToDraw:
        return None
    return figure(f"{noun}-{diagram}", drawn, caption)


def figure(name: str, drawn: Drawn, caption: str) -> Figure:
    """Embed a picture as a data URL, with the size from its SVG."""
    size = _SIZE.search(drawn.content)
    width, height = (WIDTH, WIDTH) if size is None else (round(float(side)) for side in size.groups())
    source = f"data:{drawn.media_type};base64,{b64encode(drawn.content).decode('ascii')}"
    return Figure(name, source, drawn.alt, width, height, caption)
