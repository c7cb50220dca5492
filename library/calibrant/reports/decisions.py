"""The section of a report about decisions at the threshold that costs, a capacity or a bound determine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.core.results import counted
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.plots.canvas import Caption, NothingToDraw
from calibrant.plots.diagram import draw, draw_several
from calibrant.reports import numbers
from calibrant.reports.figures import WIDTH, Figure, figure
from calibrant.reports.panel import ReportSubject
from calibrant.reports.pictures import shown_of
from calibrant.reports.tables import NamedRows, cell
from calibrant.reports.text import cleaned

_COLUMNS = {
    "threshold": "Threshold",
    "positive": "Positive decisions",
    "precision": "Precision",
    "recall": "Recall",
    "cost": "Cost per row",
    "excess-cost": "Cost of miscalibration",
    "net-benefit": "Net benefit",
}
_CURVE = "decision-curve"
#: Criteria by which labels choose the threshold, so that values at it have no intervals.
_BOUNDS = ("precision", "recall")


def decision_section(report: Mapping[str, Any], about: ReportSubject) -> NamedRows | None:
    """Return the section of a report with ``decisions`` in their present form, else None."""
    decisions = report.get("decisions")
    if decisions is None or "criterion" not in decisions:  # stored before there were criteria other than costs
        return None
    level, models, of_costs = numbers.level(decisions["level"]), decisions["models"], decisions["criterion"] == "costs"
    several = len(models) > 1
    columns = {
        key: title
        for key, title in _COLUMNS.items()
        if (several and not of_costs if key == "threshold" else any(key in own["measures"] for own in models.values()))
    }
    rows = [
        (cleaned(name) if several else "all rows", tuple(_cell(own, key) for key in columns))
        for name, own in models.items()
    ]
    for pair, difference in decisions["differences"].items():
        text = (numbers.number(difference["value"]), numbers.interval(difference["interval"]))
        rows.append((cleaned(pair), tuple(text if key == decisions["compared"] else ("", "") for key in columns)))
    caption = f"Of the decisions at {'these thresholds' if 'threshold' in columns else 'this threshold'}"
    caption += "." if decisions["criterion"] in _BOUNDS else f"; below each value, its {level} interval."
    if decisions["differences"]:
        what = _COLUMNS[decisions["compared"]].lower()
        caption += f" Differences of the {what} are paired, and nothing is corrected for their number."
    sentences = (_of_costs if of_costs else _of_others)(decisions, level)
    shown = tuple(rows) if any(own["measures"] for own in models.values()) else ()
    return NamedRows(sentences, caption, [*columns.values()], shown, _figures(report, about))


def _cell(decisions: Mapping[str, Any], key: str) -> tuple[str, str]:
    if key != "threshold":
        return cell(decisions["measures"].get(key), None)
    return ("none" if decisions["threshold"] is None else f"{decisions['threshold']:.10g}"), ""


def _of_costs(decisions: Mapping[str, Any], level: str) -> tuple[str, ...]:
    of_positive, of_negative = decisions["value"]
    models = {name: own["measures"] for name, own in decisions["models"].items()}
    threshold = next(iter(decisions["models"].values()))["threshold"]
    first = (
        f"If a false positive costs {of_positive:g} and a false negative {of_negative:g}, a decision is positive from "
        f"a probability of {threshold:.4g} up. For calibrated predictions, no other threshold costs less."
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


def _of_others(decisions: Mapping[str, Any], level: str) -> tuple[str, ...]:
    name, value, models = decisions["criterion"], decisions["value"], decisions["models"]
    if name == "capacity":
        most = counted(int(value), "row") if value >= 1.0 else f"{100.0 * value:.4g} % of the rows"
        text = f"At most {most} can be decided positively: those with the highest predictions."
    else:
        fewest = "as many" if name == "precision" else "as few"
        text = (
            f"The {name} must be at least {value:g}, guaranteed at {level}"
            f"{' for each model alone' if len(models) > 1 else ''}, with {fewest} positive decisions as possible."
        )
        if any(own["measures"] for own in models.values()):
            text += " These labels chose the threshold, so the values at it have no intervals"
            text += ", and models are not compared by them." if len(models) > 1 else "."
    problems = [
        f"No threshold exists{f' for {cleaned(model)}' if len(models) > 1 else ''}: {name} {own['problem']}."
        for model, own in models.items()
        if own["problem"] is not None
    ]
    if name == "capacity" and decisions["differences"]:
        recalls = {model: own["measures"]["recall"]["value"] for model, own in models.items() if own["measures"]}
        best = cleaned(max(recalls, key=lambda model: recalls[model]))
        return text, f"The decisions of {best} include the most events here.", *problems
    if len(models) > 1 or problems:
        return text, *problems
    (own,) = models.values()
    return text, f"A decision is positive from a probability of {own['threshold']:.10g} up."


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
    return (figure(_CURVE, drawn, DIAGRAMS[_CURVE].caption),)
