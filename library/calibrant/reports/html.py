"""Reports as HTML: a self-contained file, or a fragment of a page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from calibrant.core.errors import requires
from calibrant.reports import lookup, numbers
from calibrant.reports.advice import advice, improved
from calibrant.reports.contest import contest, is_of_models
from calibrant.reports.decisions import decision_section
from calibrant.reports.figures import figures, group_figure, model_figures
from calibrant.reports.panel import ReportSubject
from calibrant.reports.reproduction import fitting, reproduction, reproduction_of_models
from calibrant.reports.sets import set_section
from calibrant.reports.tables import facts, fewer, graded, grouped, measured, segmented
from calibrant.reports.text import printable, unlike_formula
from calibrant.reports.verdict import verdict

with requires("reports", "a report"):
    import jinja2


def standalone(report: Mapping[str, Any], about: ReportSubject) -> str:
    """Render a report as one HTML file without scripts or external resources.

    Parameters
    ----------
    report : mapping
        JSON of ``POST /evaluate`` or of a full report, of classes or of forecasts.
    about : ReportSubject
        What the report is about.

    Returns
    -------
    str
        The HTML.
    """
    return render("report.html", _shown(report, about))


def render(template: str, shown: Mapping[str, Any]) -> str:
    """Render a template with its values."""
    return _environment().get_template(template).render(shown)


def fragment(report: Mapping[str, Any], about: ReportSubject) -> str:
    """Render a report as an ``<article>`` for a page that includes ``stylesheet``; headings start at ``<h2>``."""
    return render("fragment.html", _shown(report, about))


def load() -> None:
    """Compile the templates, so that the first report is not slower than the others."""
    for name in _environment().list_templates(extensions=["html"]):
        _environment().get_template(name)


@lru_cache(maxsize=1)
def stylesheet() -> str:
    """Return the style sheet; all rules are below the class ``calibrant-report``."""
    return files("calibrant.reports").joinpath("templates", "report.css").read_text(encoding="utf-8")


def _shown(report: Mapping[str, Any], about: ReportSubject) -> dict[str, Any]:
    """Return the values of the templates: those of all reports, and those of one kind."""
    own = _of_models if is_of_models(report) else _of_classes
    if report.get("prediction_kind") == "regression":
        from calibrant.reports.forecasts import shown as own
    both = {"about": about, "level": numbers.level(lookup.level(report)), "later": lookup.after_the_map(report)}
    none = {
        "fewer": "",
        "group_figure": None,
        "contest": None,
        "coverage_by": None,
        "sets": None,
        "segments": None,
        "grades": None,
    }
    return {**both, **none, "decisions": decision_section(report, about), **own(report, about)}


def _of_classes(report: Mapping[str, Any], about: ReportSubject) -> dict[str, Any]:
    after, advised = report.get("after"), advice(report, about.named)
    used = {"weights": about.weights, "clusters": report.get("clusters")}
    arrays = [name for name, value in used.items() if value is not None]
    return {
        "verdict": verdict(report, classes=about.classes),
        "verdict_after": None if after is None else verdict(report, after=True, classes=about.classes),
        "improved": improved(report),
        "advice": advised,
        "fitting": [] if advised is None or advised.python is None else fitting(advised.python, about, arrays),
        "figures": figures(report, about),
        "measures": measured(report),
        "fewer": fewer(report),
        "groups": grouped(report),
        "group_figure": group_figure(report, about),
        "contest": contest(report),
        "sets": set_section(report, about),
        "segments": segmented(report),
        "grades": graded(report),
        "facts": facts(report, about),
        "reproduction": reproduction(
            about,
            [
                *arrays,
                *(["groups"] if report.get("groups") else []),
                *(["features"] if report.get("segments") or report.get("segments_problem") else []),
            ],
        ),
    }


def _of_models(report: Mapping[str, Any], about: ReportSubject) -> dict[str, Any]:
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


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("calibrant.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unlike_formula"] = unlike_formula
    return environment


def _printable(value: Any) -> Any:
    """Clean every text that a template prints."""
    return printable(value, most=10_000_000) if type(value) is str and value else value
