"""Which measures of a monitor are calibration errors in units of probability."""

from __future__ import annotations

import pytest

from calibrant.measures.catalogue import MEASURES, read_requests

FITTED = [name for name, measure in MEASURES.items() if measure.family == "Fit on the test data"]


@pytest.mark.parametrize("name", [*FITTED, "ece", "ks"])
def test_an_error_that_is_also_of_vectors_is_one_of_an_event(name: str) -> None:
    (request,) = read_requests([name])
    assert request.is_error


@pytest.mark.parametrize(
    "measure",
    ["brier", "cwce", "squared-ece", {"name": "ece", "norm": 2}, {"name": "ece-vector", "norm": 2.5}],
    ids=str,
)
def test_a_mean_power_is_no_error_in_units_of_probability(measure: str | dict[str, object]) -> None:
    (request,) = read_requests([measure])
    assert not request.is_error
