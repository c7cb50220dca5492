"""The reference of the map document: its text is in ``map_document.md``, its tables are those of the code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from calibrant.maps.calibration_map import TRANSFORMS
from calibrant.maps.curves import Curve
from calibrant.maps.families import CURVES
from calibrant.maps.parameters import Parameter, Parametric
from calibrant.maps.transforms import Transform


def map_document_page() -> str:
    """The page, with the families in the order of the code."""
    text = Path(__file__).with_suffix(".md").read_text("utf-8")
    curves, transforms = (
        families_table(families, result) for families, result in ((CURVES, "c(p)"), (TRANSFORMS, "Result"))
    )
    return text.replace("{curves}", curves).replace("{transforms}", transforms)


def families_table(families: Mapping[str, type[Curve | Transform | Parametric]], result: str) -> str:
    """A table of families with their parameters and formula."""
    rows = [f"| Family | Parameters | {result} |", "|---|---|---|"]
    for family, function in families.items():
        parameters = "; ".join(_named(name, parameter) for name, parameter in function.known_parameters().items())
        rows.append(f"| `{family}` | {parameters} | {function.marked_formula()} |")
    return "\n".join(rows)


def _named(name: str, parameter: Parameter) -> str:
    facts = ", ".join(filter(None, (parameter.shape, parameter.unit)))
    return f"`{name}`{f' ({facts})' if facts else ''}: {parameter.meaning}"
