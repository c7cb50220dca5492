"""How to make the same report again: the exact options, for the service and for the library."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.subject import Subject

#: What ``calibrant.evaluate`` takes of the options; arrays and stored maps stand beside them.
_OF_THE_LIBRARY = (
    "measures",
    "diagrams",
    "reduction",
    "classes",
    "weights_kind",
    "interval",
    "resamples",
    "scale",
    "seed",
)
#: What no report shows, should it ever stand among options.
_SECRET = ("key", "token", "authorization", "secret", "password")


@dataclass(frozen=True)
class Reproduction:
    """Lines: the ``options`` as JSON, a command for a shell, and Python."""

    options: list[str]
    curl: list[str]
    python: list[str]


def reproduction(about: Subject) -> Reproduction:
    """The lines that make the report again."""
    options = {k: v for k, v in about.options.items() if v is not None and not any(s in k.lower() for s in _SECRET)}
    return Reproduction(_folded(options), _curl(options), _python(options))


def _folded(options: Mapping[str, Any]) -> list[str]:
    """JSON with an option a line: whole arrays stay together."""
    told = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in options.items()]
    return ["{", *(f"{line}," for line in told[:-1]), *told[-1:], "}"]


def _curl(options: Mapping[str, Any]) -> list[str]:
    rows = "the options above" if "batch" in options else 'the options above, with "predictions" and "labels"'
    return [
        f"# request.json: {rows}",
        'curl "$CALIBRANT_URL/evaluate" --data @request.json --output report.html \\',
        "  --header 'Content-Type: application/json' --header 'Accept: text/html' \\",
        '  --header "Authorization: Bearer $CALIBRANT_API_KEY"',
    ]


def _python(options: Mapping[str, Any]) -> list[str]:
    taken = [f"    {name}={options[name]!r}," for name in _OF_THE_LIBRARY if name in options]
    if options.get("maps"):
        return _compared(options["maps"], taken)
    return ["import calibrant", "", "report = calibrant.evaluate(", "    predictions, labels,", *taken, ")"]


def _compared(maps: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The comparison of maps, from their documents; diagrams and classes are none of its options."""
    named = [f"    {name!r}: calibrant.load(documents[{name!r}])," for name in maps]
    told = [line for line in taken if not line.startswith(("    diagrams=", "    classes="))]
    return [
        "import calibrant",
        "",
        "# documents: by the name of a map what GET /maps/{ref}/document answers, read as JSON",
        "maps = {",
        *named,
        "}",
        "report = calibrant.compare(",
        "    predictions, labels, maps,",
        *told,
        ")",
    ]
