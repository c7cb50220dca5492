"""Docstrings of the public names are in numpydoc form; ``--doctest-modules`` runs their examples."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

import calibrant
import calibrant.comparison
from calibrant.distributed import arrow, dask, duckdb, spark

#: Blank lines; a docstring; its summary; parameters and their types; returns; examples; see also.
CHECKS = {
    *("GL02", "GL03", "GL06", "GL07", "GL08"),
    *("SS01", "SS02", "SS03", "SS04", "SS05", "SS06"),
    *("PR01", "PR02", "PR03", "PR04", "PR07", "PR08", "PR09", "PR10"),
    *("RT01", "RT03", "RT04", "RT05"),
    *("SA01", "SA02", "SA03", "SA04"),
    "EX01",
}
#: The most lines of a docstring: about one screen.
MOST_LINES = 64
#: Public names of ``calibrant.comparison`` beyond those of ``calibrant``.
COMPARISON = (
    *(
        "CalibrationLaw",
        "ContestantReport",
        "MeasureComparison",
        "Pair",
        "Point",
        "PowerLaw",
        "PowerLaws",
        "ContestantValue",
    ),
    *("compare_pairs", "pareto_front", "power_law"),
)


def _documented() -> Iterator[tuple[str, Any]]:
    """Public classes and functions, and the methods and properties of the classes."""
    named = {f"calibrant.{name}": getattr(calibrant, name) for name in calibrant.__all__}
    named |= {f"calibrant.comparison.{name}": getattr(calibrant.comparison, name) for name in COMPARISON}
    named |= {f"{module.__name__}.tally": module.tally for module in (arrow, dask, duckdb, spark)}
    named |= {
        f"{module.__name__}.{name}": vars(module)[name]
        for module in (dask, duckdb, spark)
        for name in ("evaluate", "fit")
    }
    for entry in (calibrant.MEASURES["ece"], calibrant.METHODS["platt"]):
        named[f"{type(entry).__module__}.{type(entry).__name__}"] = type(entry)
    for name, member_of_module in named.items():
        if not (inspect.isclass(member_of_module) or inspect.isfunction(member_of_module)):
            continue  # the catalogues and the version
        yield name, member_of_module
        if inspect.isclass(member_of_module):
            attributes = {field.name for field in fields(member_of_module)} if is_dataclass(member_of_module) else set()
            for member, code in vars(member_of_module).items():
                is_code = isinstance(code, property | classmethod | staticmethod) or inspect.isfunction(code)
                if is_code and not member.startswith("_") and member not in attributes:
                    yield f"{name}.{member}", code


DOCUMENTED = dict(_documented())


def _undocumented_fields(cls: type) -> set[str]:
    """Fields of a dataclass that are not in its section ``Attributes``."""
    attributes = NumpyDocString(inspect.getdoc(cls) or "")["Attributes"]
    return {field.name for field in fields(cls)} - {name for entry in attributes for name in entry.name.split(", ")}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_public_docstring_passes_numpydocs_validation(name: str) -> None:
    problems = {code: message for code, message in validate(name)["errors"] if code in CHECKS}
    documented = DOCUMENTED[name]
    if inspect.isclass(documented) and is_dataclass(documented) and "PR01" in problems:
        # Callers do not construct results: their fields are attributes.
        missing = _undocumented_fields(documented)
        assert not missing, missing
        del problems["PR01"]
    assert not problems


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_public_docstring_fits_one_screen(name: str) -> None:
    documented = DOCUMENTED[name]
    assert len((inspect.getdoc(documented) or "").splitlines()) <= MOST_LINES
