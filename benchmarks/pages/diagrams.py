"""The catalogue of diagrams as a page of Markdown."""

from __future__ import annotations

from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.diagrams.diagram import Diagram

_HEAD = """# Diagrams

Every diagram that `evaluate` and `POST /evaluate` draw as data, made from the catalogue that also answers
`GET /diagrams` and checks requests (`make reference`). It shows one event: under `binary`, `confidence`, `class:k`,
`top:r`, `within-top:r` and `pooled`. Under `pooled` intervals and bands are null, for the probabilities of one row hang
together. Under `classwise` and `canonical`, and where an event lacks what it needs, `data` is null and `problem` says
why. Arrays are thinned, so that a diagram of any number of rows stays below 100 kB of JSON.

Measures by size and cost planes, which show more than one event of one batch, are [pictures](http.md#pictures) of
`POST /diagrams` alone.
"""


def diagrams_page() -> str:
    """The page, in the order of the catalogue."""
    return "\n".join([_HEAD, *(_entry(diagram) for diagram in DIAGRAMS.values())])


def _entry(diagram: Diagram) -> str:
    options = "; ".join(f"`{name}` ({option.default}: {option.allowed})" for name, option in diagram.options.items())
    lines = [
        f"## `{diagram.name}`: {diagram.title}",
        "",
        f"{diagram.definition}.",
        "",
        f"- options: {options}",
        f"- cost {diagram.cost}",
        f"- source: {diagram.source}",
        "",
        "| data | is |",
        "|---|---|",
        *(f"| `{name}` | {meaning.replace('|', chr(92) + '|')} |" for name, meaning in diagram.shown.items()),
        "",
    ]
    return "\n".join(lines)
