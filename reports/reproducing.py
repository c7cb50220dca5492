"""How to make the same report again: the exact options, for the service and for the library."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
    """``options`` as JSON, and lines for a shell and for Python."""

    options: str
    curl: str
    python: str


def reproduction(about: Subject) -> Reproduction:
    """The lines that make the report again."""
    options = {k: v for k, v in about.options.items() if v is not None and not any(s in k.lower() for s in _SECRET)}
    told = json.dumps(options, indent=2)
    return Reproduction(told, _curl(options), _python(options))


def _curl(options: Mapping[str, Any]) -> str:
    rows = "the options above" if "batch" in options else 'the options above, with "predictions" and "labels"'
    return (
        f"# request.json: {rows}\n"
        'curl "$CALIBRANT_URL/evaluate" --data @request.json --output report.html \\\n'
        "  --header 'Content-Type: application/json' --header 'Accept: text/html' \\\n"
        '  --header "Authorization: Bearer $CALIBRANT_API_KEY"'
    )


def _python(options: Mapping[str, Any]) -> str:
    taken = [f"    {name}={options[name]!r}," for name in _OF_THE_LIBRARY if name in options]
    return "\n".join(["import calibrant", "", "report = calibrant.evaluate(", "    predictions, labels,", *taken, ")"])
