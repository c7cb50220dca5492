"""The figures of a report: diagrams with captions, embedded as data URLs."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.diagrams.reliability import RARE
from calibrant.plots.canvas import Caption, Drawn, NothingToDraw, UnknownPicture
from calibrant.plots.diagram import draw, draw_several
from calibrant.reports import lookup
from calibrant.reports.panel import ReportSubject
from calibrant.reports.pictures import shown_of
from calibrant.reports.regions import error_interval

#: Width of a picture in pixels; the style sheet scales it down on narrow screens.
WIDTH = 560
_SIZE = re.compile(rb'<svg[^>]*? width="(\d+(?:\.\d+)?)[a-z]*" height="(\d+(?:\.\d+)?)')

#: Captions of the diagrams, in the order of a report.
CAPTIONS: Mapping[str, str] = {
    "reliability": "Observed frequency against mean prediction of each bin. Calibrated predictions are on the "
    "diagonal; below it, predictions are too high. The filled area is the calibration gap, lighter where there are few "
    "rows. The histogram shows the distribution of the predictions.",
    "fit-on-test": "The calibration map fitted to these rows, with its uncertainty band. Where the band does not "
    "contain the diagonal, the predictions are miscalibrated.",
    "corp": "Isotonic regression of the labels. For calibrated predictions, the curve is within the consistency band.",
    "logit-logit": "The reliability diagram on logit axes, which spread out the ends. Platt scaling can correct "
    "deviations along a straight line; temperature scaling, along a line through the centre.",
    "ks-graphs": "Cumulative predictions and cumulative labels, from the lowest prediction upwards. Where the curves "
    "diverge, the predictions are miscalibrated. No bins are needed.",
    "calibration-belt": "Polynomial logistic recalibration with its belts. Where a belt is above the diagonal, "
    "predictions are too low; where it is below, too high.",
    "calibration-curve": "A smooth estimate of the observed frequency, with its pointwise band.",
    "decision-curve": "Net benefit of positive decisions from each threshold up: true positives per row, less the "
    "false positives at the odds of the threshold. The model is useful where its curve is above both treat all and 0.",
    "murphy": "Mean loss of the decisions at each threshold, whose costs it balances. A model whose curve is below "
    "another everywhere is better by every proper score.",
}
#: The caption of the reliability diagram of a rare event.
_RARE = (
    "Observed frequency against mean prediction of each bin, on logit axes, because the event is rare: less than "
    f"{RARE:.0%} of the labels are positive. Calibrated predictions are on the diagonal; below it, predictions are too "
    "high."
)


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
    captions: Mapping[str, str] = CAPTIONS,
    title_of: Callable[[Mapping[str, Any], Mapping[str, Any], ReportSubject, str | None], Caption] | None = None,
) -> list[Figure]:
    """Draw the diagrams of a report, before and after a map in one picture; those that cannot be drawn are omitted.

    ``title_of`` returns what the picture says of one side of the report.
    """
    pictures, title_of = [], title_of or _about
    for name, caption in captions.items():
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
        pictures.append(figure(name, drawn, _RARE if shown["data"].get("axes") == "logit" else caption))
    return pictures


def group_figure(report: Mapping[str, Any], subject: ReportSubject) -> Figure | None:
    """Draw the reliability diagrams of the groups in one picture; returns None if the report has none."""
    groups = report.get("group_diagrams")
    if not groups:
        return None
    side = "" if report.get("after") is None else ", before the map"
    caption = (
        f"Reliability diagram of each group{side}. Calibrated predictions are on the diagonal; below it, predictions "
        "are too high."
    )
    how = ("reliability", groups, report.get("groups") or {}, "groups")
    return _several(*how, f"Reliability by group{side}", caption, report, subject)


def model_figures(report: Mapping[str, Any], subject: ReportSubject) -> list[Figure]:
    """Draw each diagram of all models side by side; those that cannot be drawn are omitted."""
    models = report.get("model_diagrams") or {}
    sides = {contestant["name"]: contestant for contestant in report["comparison"]["contestants"]}
    drawn = []
    for key, first in (next(iter(models.values()))["diagrams"] if models else {}).items():
        caption = _RARE if (first["data"] or {}).get("axes") == "logit" else CAPTIONS[key]  # of the labels alone
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


def _about(report: Mapping[str, Any], side: Mapping[str, Any], about: ReportSubject, name: str | None) -> Caption:
    answer, ends = lookup.measure(side, "ece", norm=1), error_interval(side)
    which = None if answer is None else lookup.kind([answer])
    error = None if answer is None else lookup.shown(answer, which)
    named = None if error is None else (f"{which or 'plain'} calibration error", error)
    return Caption(report["n"], about.named(report["reduction"]), name, named, None if named is None else ends)
