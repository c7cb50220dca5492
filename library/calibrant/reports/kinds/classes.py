"""What a report shows of predictions of classes, of one model or of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.plots.canvas import Caption
from calibrant.reports import lookup
from calibrant.reports.advice import advice, improved
from calibrant.reports.contest import contest
from calibrant.reports.figures import figures, group_figure, model_figures
from calibrant.reports.panel import ReportSubject
from calibrant.reports.regions import error_interval
from calibrant.reports.reproduction import fitting, reproduction, reproduction_of_models
from calibrant.reports.sets import set_section
from calibrant.reports.tables import facts, fewer, graded, grouped, measured, segmented
from calibrant.reports.verdict import verdict


def shown(report: Mapping[str, Any], about: ReportSubject) -> dict[str, Any]:
    """Return the values of the templates."""
    after, advised = report.get("after"), advice(report, about.named)
    used = {"weights": about.weights, "clusters": report.get("clusters")}
    arrays = [name for name, value in used.items() if value is not None]
    has_features = report.get("segments") or report.get("segments_problem")
    beside = [*(["groups"] if report.get("groups") else []), *(["features"] if has_features else [])]
    return {
        "verdict": verdict(report, classes=about.classes),
        "verdict_after": None if after is None else verdict(report, after=True, classes=about.classes),
        "improved": improved(report),
        "advice": advised,
        "fitting": [] if advised is None or advised.python is None else fitting(advised.python, about, arrays),
        "figures": figures(report, about, DIAGRAMS, _title),
        "measures": measured(report),
        "fewer": fewer(report),
        "groups": grouped(report),
        "group_figure": group_figure(report, about),
        "contest": contest(report),
        "sets": set_section(report, about),
        "segments": segmented(report),
        "grades": graded(report),
        "facts": facts(report, about),
        "reproduction": reproduction(about, [*arrays, *beside]),
    }


def shown_of_models(report: Mapping[str, Any], about: ReportSubject) -> dict[str, Any]:
    """Return the values of the templates for a report of several models."""
    used = {"weights": about.weights, "clusters": report.get("clusters"), "groups": report["comparison"].get("groups")}
    return {
        "verdict": None,
        "verdict_after": None,
        "advice": None,
        "figures": model_figures(report, about),
        "measures": [],
        "groups": None,
        "contest": contest(report),
        "facts": facts(report, about),
        "reproduction": reproduction_of_models(about, [name for name, value in used.items() if value is not None]),
    }


def _title(report: Mapping[str, Any], side: Mapping[str, Any], about: ReportSubject, name: str | None) -> Caption:
    answer, ends = lookup.measure(side, "ece", norm=1), error_interval(side)
    which = None if answer is None else lookup.kind([answer])
    error = None if answer is None else lookup.shown(answer, which)
    named = None if error is None else (f"{which or 'plain'} calibration error", error)
    return Caption(report["n"], about.named(report["reduction"]), name, named, None if named is None else ends)
