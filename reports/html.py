"""A report as HTML: one file that needs nothing else, or the same as a part of a page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

import jinja2

from reports import found, numbers
from reports.advice import advice, improved
from reports.cleaning import cleaned
from reports.contest import contest
from reports.figures import figures, group_figure
from reports.reproducing import fitting, reproduction
from reports.subject import Subject
from reports.tables import facts, grouped, measured
from reports.verdict import verdict


def standalone(report: Mapping[str, Any], about: Subject) -> str:
    """The whole report as one HTML file: no script, nothing from elsewhere.

    ``report`` is what ``POST /evaluate`` answers, with a ``recommendation`` where there is one.
    """
    return _environment().get_template("report.html").render(_shown(report, about))


def fragment(report: Mapping[str, Any], about: Subject) -> str:
    """The same as one ``<article>`` for a page that has the style sheet; its headings begin at the second rank."""
    return _environment().get_template("fragment.html").render(_shown(report, about))


def load() -> None:
    """Compile the templates, so that the first report takes no longer than the others."""
    for name in _environment().list_templates(extensions=["html"]):
        _environment().get_template(name)


@lru_cache(maxsize=1)
def stylesheet() -> str:
    """The style of both: everything below the class ``calibrant-report``."""
    return files("reports").joinpath("templates", "report.css").read_text(encoding="utf-8")


def _shown(report: Mapping[str, Any], about: Subject) -> dict[str, Any]:
    after = report.get("after")
    advised = advice(report)
    return {
        "about": about,
        "report": report,
        "level": numbers.level(found.level(report)),
        "verdict": verdict(report, classes=about.classes),
        "verdict_after": None if after is None else verdict(report, after=True, classes=about.classes),
        "improved": improved(report),
        "advice": advised,
        "fitting": fitting(advised.python, about) if advised is not None and advised.python is not None else [],
        "figures": figures(report, about),
        "measures": measured(report),
        "groups": grouped(report),
        "group_figure": group_figure(report),
        "contest": contest(report),
        "facts": facts(report, about),
        "reproduction": reproduction(about),
    }


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _printable(value: Any) -> Any:
    """Every text that a template prints, without what could hide or rearrange the page."""
    return cleaned(value, most=10_000_000) if type(value) is str and value else value
