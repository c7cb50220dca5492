from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest

import calibrant
from calibrant.measures.fitted import fitted_error
from calibrant.reductions import Event

NAMES: tuple[Literal["pl", "pl3", "averaged"], ...] = ("pl", "pl3", "averaged")
Floats = npt.NDArray[np.float64]


def _drawn(n: int, power: float, seed: int) -> tuple[Floats, Floats, npt.NDArray[np.int8]]:
    random = np.random.default_rng(seed)
    c = random.random(n)
    return c, c**power, (random.random(n) < c).astype(np.int8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", [1, 2])
def test_the_error_is_near_the_true_one(name: Literal["pl", "pl3", "averaged"], norm: Literal[1, 2]) -> None:
    off = []
    for seed in range(4):
        c, p, y = _drawn(3000, 1.5, seed)
        found = fitted_error(Event(p, y), name, norm=norm, folds=10, level=0.95)
        off.append(found.debiased - np.mean(np.abs(p - c) ** norm))
        assert found.interval is not None
        assert found.interval[0] <= found.debiased <= found.interval[1]
    assert np.abs(np.mean(off)) < (0.012 if norm == 1 else 0.002)


@pytest.mark.parametrize("name", NAMES)
def test_the_plain_value_is_the_distance_of_the_fitted_map_from_the_diagonal(
    name: Literal["pl", "pl3", "averaged"],
) -> None:
    _, p, y = _drawn(1000, 1.4, 5)
    calibrated = calibrant.fit(name, p, y, folds=5).apply(p)
    report = calibrant.evaluate(p, y, measures=[{"name": f"ece-{name}", "folds": 5}])
    assert report.measures[f"ece-{name}"].value == pytest.approx(np.mean(np.abs(calibrated - p)), abs=1e-12)


def test_calibrated_predictions_have_an_interval_that_reaches_zero() -> None:
    _, p, y = _drawn(5000, 1.0, 1)
    found = fitted_error(Event(p, y), "averaged", norm=1, folds=10, level=0.95)
    assert found.interval is not None
    assert found.interval[0] == 0.0
    assert found.value < 0.01


def test_certain_predictions_that_are_right_have_no_error() -> None:
    p = np.repeat([0.0, 1.0], 50)
    found = fitted_error(Event(p, p.astype(np.int8)), "averaged", norm=1, folds=10, level=0.9)
    assert found.interval is not None
    assert max(abs(found.debiased), found.interval[1]) < 0.05


def test_importance_weights_count_by_their_ratios_alone() -> None:
    _, p, y = _drawn(800, 1.4, 2)
    w = np.random.default_rng(0).random(800) + 0.5
    errors = [
        fitted_error(Event(p, y, scale * w, "importance"), "averaged", norm=1, folds=10, level=None).debiased
        for scale in (1.0, 40.0)
    ]
    assert errors[0] == pytest.approx(errors[1], abs=1e-9)


def test_what_cannot_be_fitted_is_told_in_the_answer() -> None:
    report = calibrant.evaluate([0.2, 0.8, 0.4], [0, 1, 0], measures=["ece-averaged", "ks"])
    assert report.measures["ece-averaged"].value is None
    assert "folds" in (report.measures["ece-averaged"].problem or "")
    assert report.measures["ks"].value is not None
