"""The section of a report about decisions at the threshold that the costs of errors determine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.plots.canvas import Caption, NothingToDraw
from calibrant.plots.diagram import draw, draw_several
from calibrant.reports import numbers
from calibrant.reports.figures import CAPTIONS, WIDTH, Figure, figure
from calibrant.reports.panel import ReportSubject
from calibrant.reports.pictures import shown_of
from calibrant.reports.tables import NamedRows, cell
from calibrant.reports.text import cleaned

_COLUMNS = {
    "positive": "Positive decisions",
    "precision": "Precision",
    "recall": "Recall",
    "cost": "Cost per row",
    "excess-cost": "Cost of miscalibration",
    "net-benefit": "Net benefit",
}
_CURVE = "decision-curve"


def decision_section(report: Mapping[str, Any], about: ReportSubject) -> NamedRows | None:
    """Return the section of a report with ``decisions``, else None."""
    decisions = report.get("decisions")
    if decisions is None:
        return None
    level, models = numbers.level(decisions["level"]), decisions["models"]
    rows = [
        (cleaned(name) if len(models) > 1 else "all rows", tuple(cell(measures[key], None) for key in _COLUMNS))
        for name, measures in models.items()
    ]
    for pair, difference in decisions["differences"].items():
        text = (numbers.number(difference["value"]), numbers.interval(difference["interval"]))
        rows.append((cleaned(pair), tuple(text if key == "cost" else ("", "") for key in _COLUMNS)))
    caption = f"Of the decisions at this threshold; below each value, its {level} interval."
    if len(models) > 1:
        caption += " Differences of the cost are paired, and nothing is corrected for their number."
    return NamedRows(_sentences(decisions, level), caption, [*_COLUMNS.values()], tuple(rows), _figures(report, about))


def _sentences(decisions: Mapping[str, Any], level: str) -> tuple[str, ...]:
    of_positive, of_negative = decisions["costs"]
    models = decisions["models"]
    first = (
        f"If a false positive costs {of_positive:g} and a false negative {of_negative:g}, a decision is positive from "
        f"a probability of {decisions['threshold']:.4g} up. For calibrated predictions, no other threshold costs less."
    )
    if len(models) > 1:
        costs = {name: measures["cost"]["value"] for name, measures in models.items()}
        return first, f"The decisions of {cleaned(min(costs, key=lambda name: costs[name]))} cost the least here."
    (measures,) = models.values()
    excess, benefit = measures["excess-cost"], measures["net-benefit"]
    if excess["value"] is None:
        of_map = f"What miscalibration costs is unknown: {excess['problem']}."
    elif excess["interval"][0] > 0.0:
        ends = f"{level} interval {numbers.interval(excess['interval'])}"
        of_map = (
            f"Miscalibration costs {numbers.number(excess['value'])} per row ({ends}): decisions by recalibrated "
            "predictions cost less. Fit a map, and keep the threshold."
        )
    else:
        of_map = "Decisions by recalibrated predictions do not cost significantly less at this threshold."
    treat_all = numbers.number(benefit["parts"]["treat_all"])
    return first, of_map, f"Positive decisions for all rows have a net benefit of {treat_all}, and for none of 0."


def _figures(report: Mapping[str, Any], about: ReportSubject) -> tuple[Figure, ...]:
    """Draw the decision curves, those of models side by side; none if nothing can be drawn."""
    parts, event = report["decisions"]["diagrams"], about.named(report["reduction"])
    several = len(parts) > 1
    shown = [
        (shown_of(part, _CURVE), Caption(part["n"], event, name if several else None)) for name, part in parts.items()
    ]
    try:
        drawn = draw_several(_CURVE, shown, width=WIDTH) if several else draw(_CURVE, *shown[0], width=WIDTH)
    except NothingToDraw:
        return ()
    return (figure(_CURVE, drawn, CAPTIONS[_CURVE]),)
