from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.distributions.conditional import conditional_coverage
from tests.refusals import refused_at

RANDOM = np.random.default_rng(7)


def test_coverage_that_is_right_on_average_is_wrong_in_bins() -> None:
    x = RANDOM.random(1000)
    y = (0.2 + 1.6 * x) * RANDOM.normal(size=1000)
    variance = np.full(1000, float(np.quantile(np.abs(y), 0.9) / 1.645) ** 2)
    coverage = conditional_coverage(y, x, mean=np.zeros(1000), variance=variance)
    shares = coverage.parts["coverage"]
    assert np.mean(shares) == pytest.approx(0.9, abs=0.01)
    assert shares[0] > 0.97 > 0.85 > shares[-1]
    assert (coverage.p_value or 1.0) < 0.01
    assert sum(coverage.parts["rows"]) == 1000
    right = conditional_coverage(y, x, mean=np.zeros(1000), variance=(0.2 + 1.6 * x) ** 2)
    assert (right.p_value or 0.0) > 0.01


def test_names_are_groups_and_numbers_are_ranges() -> None:
    y = RANDOM.normal(size=60)
    forecasts: dict[str, Any] = {"lower": np.full(60, -1.645), "upper": np.full(60, 1.645), "level": 0.9}
    assert conditional_coverage(y, ["b", "a"] * 30, **forecasts).parts["name"] == ["a", "b"]
    assert conditional_coverage(y, [3, 1] * 30, **forecasts).parts["name"] == ["1", "3"]
    ties = conditional_coverage(y, [0.0] * 50 + list(range(1, 11)), n_bins=3, **forecasts)
    assert ties.parts["rows"] == [50.0, 10.0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rows", "samples", "clusters"])
def test_the_size_of_the_test_is_the_level(kind: str) -> None:
    random, runs, n = np.random.default_rng(11), 400, 300
    rejected = 0
    for seed in range(runs):
        cluster = np.arange(n) // 3
        y = random.normal(size=n)
        forecasts: dict[str, Any] = {"mean": np.zeros(n), "variance": np.ones(n)}
        if kind == "samples":
            forecasts = {"samples": random.normal(size=(n, 19))}
        if kind == "clusters":
            y = np.repeat(y[::3], 3)
            forecasts["clusters"] = cluster
        coverage = conditional_coverage(y, random.normal(size=n), n_bins=4, seed=seed, **forecasts)
        rejected += (coverage.p_value or 1.0) < 0.05
    assert 10 <= rejected <= 32, rejected


def test_the_measure_has_bins_of_the_forecasts() -> None:
    std = np.exp(RANDOM.normal(size=500))
    y = std**0.5 * RANDOM.normal(size=500)
    request = {"name": "conditional-coverage", "n_bins": 4, "level": 0.8}
    report = calibrant.evaluate_distribution(y, mean=np.zeros(500), std=std, measures=[request])
    measure = report["conditional-coverage"]
    by_width = conditional_coverage(y, std, mean=np.zeros(500), variance=std**2, n_bins=4, level=0.8)
    assert measure.parts["coverage"] == by_width.parts["coverage"]
    assert (measure.p_value or 1.0) < 0.01
    assert measure.definition["level"] == 0.8


@pytest.mark.parametrize(
    "column", [np.arange(60) % 3, [str(i % 3) for i in range(60)], [f"day {i % 3}" for i in range(60)]]
)
def test_the_measure_has_bins_of_a_column(column: Any) -> None:
    y = RANDOM.normal(size=60)
    forecasts: dict[str, Any] = {"mean": np.zeros(60), "variance": np.ones(60)}
    request = {"name": "conditional-coverage", "by": "column"}
    sites = ["a", "b"] * 30
    report = calibrant.evaluate_distribution(y, **forecasts, by=column, groups=sites, measures=[request])
    expected = conditional_coverage(y, column, **forecasts)
    assert report["conditional-coverage"].parts == expected.parts
    assert len(expected.parts["name"]) == 3
    assert report.groups is not None
    assert sum(report.groups["a"]["conditional-coverage"].parts["rows"]) == 30
    weights = np.repeat([0.0, 1.0, 2.0], 20)
    repeated = np.repeat(np.arange(60), weights.astype(int))
    counts: dict[str, Any] = {"weights": weights, "weights_kind": "frequency"}
    weighted = calibrant.evaluate_distribution(y, **forecasts, by=column, **counts, measures=[request])
    copies = {name: array[repeated] for name, array in forecasts.items()}
    by = np.array(column)[repeated]
    assert (
        weighted["conditional-coverage"].parts["rows"]
        == calibrant.evaluate_distribution(y[repeated], **copies, by=by, measures=[request])[
            "conditional-coverage"
        ].parts["rows"]
    )


def test_the_measure_of_a_column_without_it_says_so() -> None:
    request = {"name": "conditional-coverage", "by": "column"}
    report = calibrant.evaluate_distribution(np.zeros(30), mean=np.zeros(30), variance=np.ones(30), measures=[request])
    assert report["conditional-coverage"].value is None
    assert "needs its values" in (report["conditional-coverage"].problem or "")


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"by": [1.0] * 29}, "/by"),
        ({"by": [np.nan] * 30}, "/by/0"),
        ({"by": ["a"] * 29}, "/by"),
        ({"by": ["a"] * 30, "level": 1.0}, "/level"),
        ({"by": ["a"] * 30, "n_bins": 1}, "/n_bins"),
        ({"by": ["a"] * 30, "clusters": ["c"] * 30}, "/observed"),
        ({"by": ["a"] * 30, "clusters": ["c"] * 29}, "/clusters"),
        ({"by": ["a"] * 30, "seed": -1}, "/seed"),
    ],
)
def test_bad_input_names_the_argument(arguments: dict[str, Any], pointer: str) -> None:
    with refused_at(pointer, CalibrationError):
        conditional_coverage(np.zeros(30), mean=np.zeros(30), variance=np.ones(30), **arguments)
