"""The catalogue of diagrams as a page of Markdown."""

from __future__ import annotations

from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.diagrams.diagram import Diagram
from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS

_HEAD = """# Diagrams

Every diagram that `evaluate` and `POST /evaluate` return as data, generated from the catalogue behind `GET /diagrams`
(`make reference`). A diagram shows one event, so it is available under `binary`, `confidence`, `class:k`, `top:r`,
`within-top:r` and `pooled`. Under `pooled`, intervals and bands are null, because the probabilities of one row are
dependent. Under `classwise` and `canonical`, and when the batch does not meet a diagram's requirements, `data` is null
and `problem` gives the reason. Arrays are thinned: a diagram is at most 100 kB of JSON for any number of rows.

Measures by batch size and cost planes are [pictures](http.md#pictures) only (`POST /diagrams`): they show more than one
event.
"""


_FORECASTS = """## Diagrams of predictive distributions

For `prediction_kind: "regression"`, from the catalogue behind `GET /diagrams?prediction_kind=regression`. `POST
/diagrams` and `calibrant diagram --regression` draw them. Bands are simultaneous over all points of a diagram.
"""


def diagrams_page() -> str:
    """The page, in the order of the catalogues."""
    of_forecasts = (_entry(diagram) for diagram in DISTRIBUTION_DIAGRAMS.values())
    return "\n".join([_HEAD, *map(_entry, DIAGRAMS.values()), _FORECASTS, *of_forecasts])


def _entry(diagram: Diagram) -> str:
    options = "; ".join(f"`{name}` ({option.default}: {option.allowed})" for name, option in diagram.options.items())
    lines = [
        f"## `{diagram.name}`: {diagram.title}",
        "",
        f"{diagram.definition.rstrip('.')}.",
        "",
        f"How to read it: {diagram.caption}",
        "",
        f"- options: {options}",
        f"- cost {diagram.cost}",
        *([f"- source: {diagram.source}"] if diagram.source else []),
        "",
        "| field | meaning |",
        "|---|---|",
        *(f"| `{name}` | {meaning.replace('|', chr(92) + '|')} |" for name, meaning in diagram.shown.items()),
        "",
    ]
    return "\n".join(lines)
