"""Lines that reproduce a report: options in words, a command, a request, and Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant.decisions.thresholds import CRITERIA
from calibrant.measures.catalogue import LEVEL
from calibrant.reports import numbers
from calibrant.reports.panel import RESAMPLES, ReportSubject

#: Options of ``POST /evaluate`` that are arguments of ``calibrant.evaluate``.
_OF_THE_LIBRARY = (
    *("measures", "diagrams", "reduction", "classes", "interval", "resamples", "cluster_variance", "seed"),
)
#: Options of ``POST /compare`` that are arguments of ``calibrant.compare``, and the defaults of some.
_OF_COMPARISONS = (
    *("measures", "reduction", "cluster_variance", "rank_by", "correction", "of", "interval", "resamples", "seed"),
)
_DEFAULTS = {"interval": LEVEL, "resamples": RESAMPLES, "cluster_variance": "cr2"}
#: Options with these words in their names are never shown.
_SECRET = ("key", "token", "authorization", "secret", "password")


@dataclass(frozen=True)
class Reproduction:
    """What reproduces a report: options in words, the command line if there was one, a request as JSON and the curl
    that sends it, if there is one, and Python.
    """

    options: list[tuple[str, str]]
    command: list[str]
    request: list[str]
    curl: list[str]
    python: list[str]


def reproduction(about: ReportSubject, arrays: Sequence[str] = ()) -> Reproduction:
    """Return the lines that reproduce a report of predictions and labels with these other ``arrays``."""
    options = {k: v for k, v in about.options.items() if v is not None and not any(s in k.lower() for s in _SECRET)}
    if "batch" not in options:  # a stored batch includes its scale and the kind of its weights
        options |= _reading(about)
    command = [] if about.command is None else [about.command]
    curl, python = _curl(options, arrays), _python(options, about, arrays)
    named = options if "reduction" not in options else {**options, "reduction": about.named(options["reduction"])}
    return Reproduction(in_words(named), command, folded(options), curl, python)


def reproduction_of_models(about: ReportSubject, arrays: Sequence[str] = ()) -> Reproduction:
    """Return the lines that reproduce a report of several models with these other ``arrays``."""
    options, reading = {name: value for name, value in about.options.items() if value is not None}, _reading(about)
    sent = {name: value for name, value in options.items() if name != "models"}
    content = ""
    if "batches" not in options:  # stored batches include their scale and the kind of their weights
        sent |= reading
        listed = ", ".join(json.dumps(name) for name in ("labels", *arrays))
        content = f', with {listed} and "models": {{NAME: predictions}} for each model'
    named = options if "reduction" not in options else {**options, "reduction": about.named(options["reduction"])}
    command = [] if about.command is None else [about.command]
    python = _python_of_models(options, reading, about, arrays)
    return Reproduction(in_words(named), command, folded(sent), _sending("compare", content), python)


def _python_of_models(
    options: Mapping[str, Any], reading: Mapping[str, Any], about: ReportSubject, arrays: Sequence[str]
) -> list[str]:
    """Return Python that makes the report; or with options that ``report`` does not have, the comparison."""
    stated = {name: options[name] for name in _OF_COMPARISONS if name in options}
    others = {name: value for name, value in stated.items() if name not in ("reduction", "seed")}
    call = "compare" if others != {name: _DEFAULTS.get(name) for name in others} else "report"
    used = {name: value for name, value in stated.items() if call == "compare" or name not in others}
    used |= {name: options[name] for name in CRITERIA if name in options} if call == "report" else {}
    arguments = [f"    {name}={value!r}," for name, value in (used | dict(reading)).items()]
    if about.loading:
        first = ["", "rows = next(iter(models.values()))", f"report = calibrant.{call}("]
        predictions = "    {name: sheet.predictions for name, sheet in models.items()}, rows.labels,"
        return [*about.loading, *first, predictions, *(f"    {name}=rows.{name}," for name in arrays), *arguments, ")"]
    origin = [] if about.origin is None else [f"# predictions, {', '.join(['labels', *arrays])}: {about.origin}"]
    models = [f"    {name!r}: predictions[{name!r}]," for name in options.get("models") or options.get("batches") or ()]
    opened = ["import calibrant", "", *origin, "models = {", *models, "}", f"report = calibrant.{call}("]
    return [*opened, "    models, labels,", *(f"    {name}={name}," for name in arrays), *arguments, ")"]


def fitting(line: str, about: ReportSubject, arrays: Sequence[str] = ()) -> list[str]:
    """Return Python that fits a map to the rows; ``line`` is the call with ``predictions, labels``."""
    rows = "rows.predictions, rows.labels" if about.loading else "predictions, labels"
    others = {name: f"rows.{name}" if about.loading else name for name in arrays}
    arguments = {**others, **{name: repr(value) for name, value in _reading(about).items()}}
    more = "".join(f", {name}={value}" for name, value in arguments.items())
    call = line.replace("predictions, labels", rows).removesuffix(")") + f"{more})"
    return [*about.loading, "", f"fitted = {call}"] if about.loading else [call]


def _reading(about: ReportSubject) -> dict[str, Any]:
    """Return the scale if it is not the default, and the kind of weights."""
    scale = {} if about.scale == "probability" else {"scale": about.scale}
    return scale | ({} if about.weights is None else {"weights_kind": about.weights})


def folded(options: Mapping[str, Any]) -> list[str]:
    """Format JSON with one line per option."""
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in options.items()]
    return ["{", *(f"{line}," for line in lines[:-1]), *lines[-1:], "}"]


def in_words(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the names and the values of options for a list of facts.

    >>> in_words({"measures": ["ece", {"name": "decomposition", "method": "binned"}], "interval": 0.95, "seed": 0})
    [('Measures', 'ece, decomposition (method: binned)'), ('Interval', '95 %'), ('Seed', '0')]
    """
    return [
        (name.replace("_", " ").capitalize(), numbers.level(value) if name == "interval" else _in_words(value))
        for name, value in options.items()
    ]


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        named = [_in_words(value["name"])] if "name" in value else []
        options = ", ".join(f"{name}: {_in_words(option)}" for name, option in value.items() if name != "name")
        return " ".join([*named, *([f"({options})"] if options else [])])
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value)) or "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _curl(options: Mapping[str, Any], arrays: Sequence[str]) -> list[str]:
    """Return the command that sends the options with the rows, which may have other ``arrays``."""
    names = [f'"{name}"' for name in ("predictions", "labels", *arrays)]
    return _sending("evaluate", "" if "batch" in options else f", with {', '.join(names[:-1])} and {names[-1]}")


def _sending(call: str, rows: str) -> list[str]:
    """Return the command that sends the options to a call, with a description of the ``rows``."""
    return [
        f"# request.json: the options above{rows}",
        f'curl "$CALIBRANT_URL/{call}" --data @request.json --output report.html \\',
        "  --header 'Content-Type: application/json' --header 'Accept: text/html' \\",
        '  --header "Authorization: Bearer $CALIBRANT_API_KEY"',
    ]


def _python(options: Mapping[str, Any], about: ReportSubject, arrays: Sequence[str]) -> list[str]:
    """Return Python that computes the report, from the file if it is known, else from arrays."""
    stated = {name: options[name] for name in _OF_THE_LIBRARY if name in options}
    if options.get("maps"):
        return _compared(options["maps"], [f"    {name}={value!r}," for name, value in stated.items()])
    arguments = [f"    {name}={value!r}," for name, value in (stated | _reading(about)).items()]
    if about.applying is not None:
        arguments.append(f"    map={about.applying},")
    where = "rows." if about.loading else ""
    rows = f"    {where}predictions, {where}labels,"
    call = ["report = calibrant.evaluate(", rows, *(f"    {name}={where}{name}," for name in arrays), *arguments, ")"]
    if criterion := [name for name in CRITERIA if name in options]:
        decided = {name: options[name] for name in (*criterion, "interval", "reduction", "seed") if name in options}
        call += ["decisions = calibrant.best_threshold(", rows]
        call += [f"    {name}={where}{name}," for name in arrays if name in ("weights", "clusters")]
        call += [*(f"    {name}={value!r}," for name, value in (decided | _reading(about)).items()), ")"]
    if about.loading:
        return [*about.loading, "", *call]
    origin = [] if about.origin is None else [f"# {', '.join(['predictions', 'labels', *arrays])}: {about.origin}"]
    return ["import calibrant", "", *origin, *call]


def _compared(maps: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Return Python that compares maps, from their documents; a comparison has no diagrams and classes."""
    named = [f"    {name!r}: calibrant.load(documents[{name!r}])," for name in maps]
    supported = [line for line in arguments if not line.startswith(("    diagrams=", "    classes="))]
    return [
        "import calibrant",
        "",
        "# documents: for each map, the JSON of GET /maps/{ref}/document",
        "maps = {",
        *named,
        "}",
        "report = calibrant.compare(",
        "    predictions, labels, maps,",
        *supported,
        ")",
    ]
