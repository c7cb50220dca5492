from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.comparison import Point, pareto_front, power_law
from calibrant.core.errors import InvalidOption
from tests.refusals import refused_at


def test_the_front_contains_every_undominated_entry() -> None:
    random = np.random.default_rng(0)
    first = {str(i): float(x) for i, x in enumerate(random.integers(0, 9, 40))}
    second = {str(i): float(x) for i, x in enumerate(random.integers(0, 9, 40))}
    points = {name: (first[name], second[name]) for name in first}

    def beaten(name: str) -> bool:
        x, y = points[name]
        return any(a <= x and b <= y and (a, b) != (x, y) for a, b in points.values())

    assert set(pareto_front(first, second)) == {name for name in points if not beaten(name)}


def test_entries_without_a_value_are_left_out() -> None:
    assert pareto_front({"a": 1.0, "b": 0.0}, {"a": 1.0}) == ("a",)
    nan = float("nan")
    assert pareto_front({"a": nan, "b": 1.0, "c": 2.0, "d": 0.0}, {"a": 1.0, "b": 3.0, "c": 2.0, "d": nan}) == (
        "b",
        "c",
    )


def test_a_law_is_found_again() -> None:
    law = power_law([Point(x, 0.7 * x**1.3) for x in (0.02, 0.05, 0.1, 0.2, 0.3)])
    assert law.exponent == pytest.approx(1.3)
    assert law.factor == pytest.approx(0.7)
    assert law.problem == "no interval: the measure cannot be resampled on every batch"


def test_four_batches_are_too_few_and_errors_of_nothing_do_not_count() -> None:
    points = [Point(x, 0.7 * x) for x in (0.02, 0.05, 0.1, 0.2)]
    assert power_law(points).exponent is None
    law = power_law([*points, Point(0.3, -0.001), Point(0.0, 0.1)])
    assert law.exponent is None
    assert law.used == (0, 1, 2, 3)
    assert law.problem is not None
    assert law.problem.startswith("no power law: 4 of 6 batches")


def test_batches_of_one_error_have_no_law() -> None:
    problem = power_law([Point(0.1, 0.01 * i) for i in range(1, 7)]).problem
    assert problem == "no power law: all batches have the same classification error"


def test_the_interval_over_batches_covers_the_exponent_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(120):
        random = np.random.default_rng(seed)
        x = np.exp(random.uniform(-3.0, -1.0, 40))
        noisy = [Point(e, 0.5 * e**1.2 * np.exp(0.2 * n)) for e, n in zip(x, random.standard_normal(40), strict=True)]
        law = power_law(noisy, level=0.9, over="batches", resamples=400)
        assert law.interval is not None
        covered += law.interval[0] <= 1.2 <= law.interval[1]
    assert 0.8 <= covered / 120 <= 0.97
    again = power_law(noisy, level=0.9, over="batches", resamples=400)
    assert again.interval == law.interval
    assert power_law(noisy, level=0.9, over="batches", resamples=400, seed=1).interval != law.interval


def test_batches_of_two_errors_that_resamples_seldom_share_have_no_interval() -> None:
    law = power_law([Point(x, x) for x in (0.1, 0.1, 0.1, 0.1, 0.2)], over="batches")
    assert law.exponent == pytest.approx(1.0)
    assert law.problem == "no interval: too many resamples have a single classification error"


@pytest.mark.parametrize(
    ("option", "choice"),
    [("over", "points"), ("over", None), ("resamples", 99), ("resamples", 1e3), ("seed", -1), ("level", 1.0)],
)
def test_a_bad_option_of_a_law_is_named(option: str, choice: object) -> None:
    bad: Any = {option: choice}
    with refused_at(f"/{option}", InvalidOption):
        power_law([Point(0.1, 0.02)], **bad)


def test_the_exponents_interval_grows_with_the_noise_and_is_lost_where_errors_cross_zero() -> None:
    random = np.random.default_rng(0)

    def points(spread: float) -> list[Point]:
        return [
            Point(x, 0.5 * x, random.normal(0, 1e-4, 500), spread * random.normal(size=500))
            for x in (0.05, 0.1, 0.2, 0.3, 0.4)
        ]

    little, more = power_law(points(1e-4)).interval, power_law(points(1e-3)).interval
    assert little is not None
    assert more is not None
    assert little[0] <= 1.0 <= little[1]
    assert more[1] - more[0] > 3.0 * (little[1] - little[0])
    lost = power_law(points(0.1))
    assert lost.interval is None
    assert lost.exponent == pytest.approx(1.0)
    assert lost.problem is not None


def test_points_that_are_not_finite_are_left_out() -> None:
    points = [Point(x, 0.7 * x) for x in (0.02, 0.05, 0.1, 0.2, 0.3)]
    inf, nan = float("inf"), float("nan")
    assert power_law([*points, Point(0.3, inf), Point(inf, 0.1), Point(nan, 0.1)]) == power_law(points)


@pytest.mark.parametrize("level", [95, 1.0, float("nan"), "0.95", None])
def test_a_level_that_is_no_fraction_is_refused(level: Any) -> None:
    with refused_at("/level", InvalidOption):
        power_law([Point(0.1, 0.02)], level=level)
