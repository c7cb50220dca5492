"""Fitted functions state their formula and parameters, and documents are read by that."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import calibrant
from calibrant.core.errors import InvalidDocument
from calibrant.distributions.maps.combined import FAMILIES as FORECAST_FAMILIES
from calibrant.maps.calibration_map import FAMILIES
from tests.refusals import refused_at

STORED = sorted((Path(__file__).parents[2] / "contract" / "stored").glob("map-v1-*.json"))
#: Functions around those of a method: for several curves, for smoothed predictions, and if there is no improvement.
AROUND = {"one-vs-rest", "ranks", "smoothed", "smoothed-vector", "identity", "vector-identity"}


def _document(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_bytes())["record"]["document"]
    return document


@pytest.mark.parametrize(
    "function", [*FAMILIES.values(), *FORECAST_FAMILIES.values()], ids=lambda function: function.family
)
def test_every_fitted_function_states_its_formula_and_the_meaning_of_its_parameters(function: Any) -> None:
    assert function.formula
    assert all(parameter.meaning for parameter in function.known_parameters().values())


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_every_method_names_the_families_that_it_fits(path: Path) -> None:
    document = _document(path)
    named = {function.family for function in calibrant.METHODS[document["method"]].maps}
    assert document["family"] in named | AROUND


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_parameters_of_another_size_or_kind_are_refused(path: Path) -> None:
    document = _document(path)
    for name, parameter in document["parameters"].items():
        for damaged in ([], [*parameter, None] if isinstance(parameter, list) else "0.5", None):
            if (name, damaged) == ("terms", []):
                continue  # a map of segments may have no terms
            changed = copy.deepcopy(document)
            changed["parameters"][name] = damaged
            with refused_at("/parameters/", InvalidDocument, below=True):
                calibrant.load(changed)


def test_numbers_that_do_not_match_the_size_of_another_parameter_are_refused() -> None:
    document = _document(STORED[0].parent / "map-v1-isotonic.json")
    document["parameters"]["heights"] = [*document["parameters"]["heights"], 1.0]
    with refused_at("/parameters/heights", InvalidDocument):
        calibrant.load(document)
    matrix = _document(STORED[0].parent / "map-v1-matrix.canonical.json")
    matrix["parameters"]["weights"][1].append(0.0)
    with refused_at("/parameters/weights/1", InvalidDocument):
        calibrant.load(matrix)
