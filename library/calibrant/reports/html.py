"""Reports as HTML: a self-contained file, or a fragment of a page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from calibrant.core.errors import requires
from calibrant.kinds import is_of_distributions
from calibrant.reports import lookup, numbers
from calibrant.reports.contest import is_of_models
from calibrant.reports.decisions import decision_section
from calibrant.reports.kinds import classes
from calibrant.reports.panel import ReportSubject
from calibrant.reports.text import printable, unlike_formula

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
    own = classes.shown_of_models if is_of_models(report) else classes.shown
    if is_of_distributions(report):
        from calibrant.reports.kinds.distributions import shown as own
    both = {"about": about, "level": numbers.level(lookup.level(report)), "later": lookup.after_the_map(report)}
    none = dict.fromkeys(("group_figure", "contest", "coverage_by", "sets", "segments", "grades"))
    return {**both, **none, "fewer": "", "decisions": decision_section(report, about), **own(report, about)}


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
