"""Distances from smooth calibration curves, against values of R."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import calibrant
from calibrant.core.reductions import Event
from calibrant.measures.catalogue import MEASURES
from calibrant.measures.intervals import Resampling, distance_interval
from calibrant.measures.smoothers import smoother, vertices
from tests.clinical import clinical_rows, numbers_of_r

#: Key of R's values -> curve.
CURVES = {"loess_interpolated": "loess", "loess": "loess-direct", "rcs5": "rcs"}


def _distances(p: Any, y: Any, curve: str | None, **options: Any) -> dict[str, Any]:
    requests = [{"name": name, "curve": curve} for name in ("ici", "e50", "e90", "emax")]
    return dict(calibrant.evaluate(p, y, measures=requests, **options).measures)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("moderate_n500", "loess_interpolated"),
        ("moderate_n500", "loess"),
        ("moderate_n500", "rcs5"),
        ("rare_n3000", "loess_interpolated"),
        ("rare_n3000", "rcs5"),
    ],
)
def test_distances_are_those_of_r(name: str, key: str) -> None:
    golden = numbers_of_r(name)
    distances = _distances(*clinical_rows(name)[:2], CURVES[key])
    known = [measure for measure in distances if f"{key}_{measure}" in golden]
    assert len(known) >= 2
    for measure in known:
        assert distances[measure].value == pytest.approx(golden[f"{key}_{measure}"], rel=1e-6), measure
    if key != "rcs5":
        assert distances["ici"].value == pytest.approx(golden[f"{key}_ici"], rel=1e-8)


def test_the_result_names_the_curve_that_the_number_of_rows_chose() -> None:
    p, y, _ = clinical_rows("rare_n3000")
    assert _distances(p, y, None)["ici"].definition["curve"] == "rcs"
    assert _distances(p[:2000], y[:2000], None)["ici"].definition["curve"] == "loess"


@pytest.mark.parametrize("curve", ["loess", "loess-direct", "rcs"])
def test_a_frequency_weight_is_the_row_repeated_for_each_curve(curve: str) -> None:
    random = np.random.default_rng(3)
    p = np.round(random.beta(2.0, 2.0, 250), 2).clip(0.01, 0.99)
    y, w = (random.random(250) < p).astype(int), random.integers(1, 5, 250)
    first = _distances(p, y, curve, weights=w, weights_kind="frequency", interval=None)
    other = _distances(np.repeat(p, w), np.repeat(y, w), curve, interval=None)
    for measure, measured in first.items():
        assert measured.value == pytest.approx(other[measure].value, rel=1e-9), measure


def test_vertices_of_tied_rows_lie_between_different_predictions() -> None:
    x, rows = np.array([0.1, 0.2, 0.3, 0.4]), np.array([5.0, 90.0, 90.0, 15.0])
    places = vertices(x, rows)
    assert places[0] < 0.1 < 0.4 < places[-1]
    assert set(places[1:-1]) <= {0.1, 0.2, 0.3}


def test_too_many_different_predictions_are_refused_by_direct_fits() -> None:
    p = np.linspace(0.01, 0.99, 2001)
    index = _distances(p, np.arange(2001) % 2, "loess-direct")["ici"]
    assert index.value is None
    assert "loess-direct takes at most 2000 different predictions" in index.problem


def test_few_different_predictions_have_no_spline() -> None:
    index = _distances(np.repeat([0.2, 0.4], 30), np.tile([0, 1], 30), "rcs")["ici"]
    assert index.value is None
    assert "too few different values" in index.problem


def test_intervals_hold_their_value() -> None:
    random = np.random.default_rng(5)
    p = random.beta(2.0, 2.0, 600)
    y = (random.random(600) < np.clip(p + 0.1, 0, 1)).astype(int)
    for measured in _distances(p, y, None, interval=0.95, resamples=200).values():
        low, high = measured.interval
        assert 0.0 <= low <= measured.value <= high


def test_the_interval_of_a_quantile_also_holds_the_resampled_quantiles() -> None:
    """The direction of the test inversion is more even than the true gaps, so that its quantiles vary too little."""
    p, y, _ = clinical_rows("moderate_n500")
    event, resampling = Event(p, y.astype(np.int8)).in_order(), Resampling(0.95, 400, 0)
    for name, holds in (("e50", True), ("e90", True), ("ici", False)):
        distance = MEASURES[name].distance
        assert distance is not None
        measured = distance(event, resampling, curve=None)
        assert measured.local == holds
        ends = distance_interval(measured, event, resampling)
        inverted = distance_interval(replace(measured, local=False), event, resampling)
        assert ends[0] <= inverted[0] <= inverted[1] <= ends[1]
        assert holds or ends == inverted


@pytest.mark.slow
def test_the_interval_of_the_median_covers_the_limit_of_the_smoother() -> None:
    random = np.random.default_rng(0)
    z = random.normal(0.0, 1.0, 100_000)
    both, weights = np.concatenate([z, z]), np.concatenate([expit(0.4 + 0.7 * z), expit(-0.4 - 0.7 * z)])
    limit = calibrant.evaluate(
        both, np.repeat([1, 0], 100_000), scale="logit", weights=weights, measures=[{"name": "e50", "curve": "loess"}]
    )["e50"].value
    assert limit is not None
    covered = 0
    for _ in range(100):
        z = random.normal(0.0, 1.0, 1000)
        y = (random.random(1000) < expit(0.4 + 0.7 * z)).astype(int)
        ends = calibrant.evaluate(z, y, scale="logit", measures=["e50"], interval=0.95, resamples=200)["e50"].interval
        assert ends is not None
        covered += ends[0] <= limit <= ends[1]
    assert covered >= 88


def test_residuals_of_rows_that_draw_the_curve_to_their_outcome_are_not_too_small() -> None:
    """On average, the variance of a point of the curve is that of independent outcomes with the true variance."""
    random = np.random.default_rng(4)
    p, squares = np.sort(random.uniform(0.3, 0.7, 30)), []
    for _ in range(300):
        event = Event(p, (random.random(30) < 0.5).astype(np.int8)).in_order()
        distance = MEASURES["ici"].distance
        assert distance is not None
        measured = distance(event, Resampling(0.95, 400, 0), curve="loess")
        squares.append(float((measured.of_gaps(measured.noise(np.arange(30), 30)) ** 2).sum(axis=0)[15]))
    event = Event(p, np.tile([0, 1], 15).astype(np.int8))
    curve = smoother(event, "loess")
    middle = curve.at(p[[15]])[1][0] @ curve.moves.T
    assert np.mean(squares) == pytest.approx(0.25 * float(middle @ middle), rel=0.05)
