"""A report as HTML: one file that needs nothing else, or a part of a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from calibrant.errors import requires
from calibrant.reports import lookup, numbers
from calibrant.reports.advice import advice, improved
from calibrant.reports.contest import contest
from calibrant.reports.figures import figures, group_figure
from calibrant.reports.panel import ReportSubject
from calibrant.reports.tables import facts, grouped, measured
from calibrant.reports.text import cleaned
from calibrant.reports.verdict import verdict

with requires("reports", "a report"):
    import jinja2

# --- Lines that make the same report again

#: What ``calibrant.evaluate`` takes of the options; arrays and stored maps stand beside them.
_OF_THE_LIBRARY = ("measures", "diagrams", "reduction", "classes", "interval", "resamples", "seed")
#: What no report shows, should it ever stand among options.
_SECRET = ("key", "token", "authorization", "secret", "password")


@dataclass(frozen=True)
class Reproduction:
    """Lines: the ``options`` as JSON, the ``command`` that was typed, if one was, one of curl, and Python."""

    options: list[str]
    command: list[str]
    curl: list[str]
    python: list[str]


def reproduction(about: ReportSubject) -> Reproduction:
    """The lines that make the report again."""
    options = {k: v for k, v in about.options.items() if v is not None and not any(s in k.lower() for s in _SECRET)}
    if "batch" not in options:  # a batch knows what its numbers are
        options |= _reading(about)
    command = [] if about.command is None else [about.command]
    return Reproduction(_folded(options), command, _curl(options), _python(options, about))


def fitting(line: str, about: ReportSubject) -> list[str]:
    """Python that fits the map of ``line``, which takes ``predictions, labels``, to the rows as they were read."""
    rows = "rows.predictions, rows.labels" if about.loading else "predictions, labels"
    weights = {} if about.weights is None else {"weights": "rows.weights" if about.loading else "weights"}
    given = {**weights, **{name: repr(value) for name, value in _reading(about).items()}}
    more = "".join(f", {name}={value}" for name, value in given.items())
    call = line.replace("predictions, labels", rows).removesuffix(")") + f"{more})"
    return [*about.loading, "", f"fitted = {call}"] if about.loading else [call]


def _reading(about: ReportSubject) -> dict[str, Any]:
    """How the arrays are to be read, where that is not the default."""
    scale = {} if about.scale == "probability" else {"scale": about.scale}
    return scale | ({"weights_kind": "importance"} if about.weights == "importance" else {})


def _folded(options: Mapping[str, Any]) -> list[str]:
    """JSON with an option a line: whole arrays stay together."""
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in options.items()]
    return ["{", *(f"{line}," for line in lines[:-1]), *lines[-1:], "}"]


def _curl(options: Mapping[str, Any]) -> list[str]:
    rows = "the options above" if "batch" in options else 'the options above, with "predictions" and "labels"'
    return [
        f"# request.json: {rows}",
        'curl "$CALIBRANT_URL/evaluate" --data @request.json --output report.html \\',
        "  --header 'Content-Type: application/json' --header 'Accept: text/html' \\",
        '  --header "Authorization: Bearer $CALIBRANT_API_KEY"',
    ]


def _python(options: Mapping[str, Any], about: ReportSubject) -> list[str]:
    """Python that makes the numbers: with the lines that read the file, else on arrays that the reader has."""
    given = {name: options[name] for name in _OF_THE_LIBRARY if name in options}
    if options.get("maps"):
        return _compared(options["maps"], [f"    {name}={value!r}," for name, value in given.items()])
    arguments = [f"    {name}={value!r}," for name, value in (given | _reading(about)).items()]
    if about.applying is not None:
        arguments.append(f"    map={about.applying},")
    if about.loading:
        rows = "    rows.predictions, rows.labels, weights=rows.weights,"
        return [*about.loading, "", "report = calibrant.evaluate(", rows, *arguments, ")"]
    origin = [] if about.origin is None else [f"# predictions, labels: {about.origin}"]
    weights = [] if about.weights is None else ["    weights=weights,"]
    call = ["report = calibrant.evaluate(", "    predictions, labels,", *weights, *arguments, ")"]
    return ["import calibrant", "", *origin, *call]


def _compared(maps: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """The comparison of maps, from their documents; diagrams and classes are none of its options."""
    named = [f"    {name!r}: calibrant.load(documents[{name!r}])," for name in maps]
    kept = [line for line in arguments if not line.startswith(("    diagrams=", "    classes="))]
    return [
        "import calibrant",
        "",
        "# documents: by the name of a map what GET /maps/{ref}/document answers, read as JSON",
        "maps = {",
        *named,
        "}",
        "report = calibrant.compare(",
        "    predictions, labels, maps,",
        *kept,
        ")",
    ]


# --- HTML: a file of its own, or a part of a page


def standalone(report: Mapping[str, Any], about: ReportSubject) -> str:
    """The whole report as one HTML file: no script, nothing from elsewhere.

    ``report`` is what ``POST /evaluate`` answers, with a ``recommendation`` where there is one.
    """
    return _environment().get_template("report.html").render(_shown(report, about))


def fragment(report: Mapping[str, Any], about: ReportSubject) -> str:
    """The same as one ``<article>`` for a page that has the style sheet; its headings begin at the second rank."""
    return _environment().get_template("fragment.html").render(_shown(report, about))


def load() -> None:
    """Compile the templates, so that the first report takes no longer than the others."""
    for name in _environment().list_templates(extensions=["html"]):
        _environment().get_template(name)


@lru_cache(maxsize=1)
def stylesheet() -> str:
    """The style of both: everything below the class ``calibrant-report``."""
    return files("calibrant.reports").joinpath("templates", "report.css").read_text(encoding="utf-8")


def _shown(report: Mapping[str, Any], about: ReportSubject) -> dict[str, Any]:
    after = report.get("after")
    advised = advice(report)
    return {
        "about": about,
        "report": report,
        "level": numbers.level(lookup.level(report)),
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
        loader=jinja2.PackageLoader("calibrant.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _printable(value: Any) -> Any:
    """Every text that a template prints, without what could hide or rearrange the page."""
    return cleaned(value, most=10_000_000) if type(value) is str and value else value
