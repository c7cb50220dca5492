"""Tests of rating grades against published and enumerated numbers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import beta, binom, chi2, norm

import calibrant
from calibrant.core.errors import CalibrationError, InvalidLabel, InvalidOption, InvalidWeight, WrongShape
from calibrant.decisions.grades import one_factor_tail, prudent_pd
from tests.refusals import refused_at

ONE = np.ones(1)
#: A portfolio of Pluto & Tasche (2005): grades from best to worst.
NAMES, SIZES, PDS = ["A", "B", "C"], [100, 400, 300], [0.001, 0.002, 0.01]


def _conditional(quantile: float, factor: float, correlation: float) -> float:
    return float(norm.cdf((quantile - math.sqrt(correlation) * factor) / math.sqrt(1.0 - correlation)))


@pytest.mark.parametrize(
    ("rate", "n", "defaults", "p_value"),
    [
        (0.01, 1000, 10, 0.47906),
        (0.01, 1000, 16, 0.03577),
        (0.01, 1000, 18, 0.00983),
        (0.05, 200, 17, 0.01708),
        (0.002, 500, 0, 0.84301),
    ],
)
def test_jeffreys_p_values_are_those_of_the_beta_distribution(
    rate: float, n: int, defaults: int, p_value: float
) -> None:
    tested = calibrant.grade_tests([rate], ["A"], [defaults], n=[n])
    for row in (*tested.grades, tested.total):
        assert row.jeffreys_p == pytest.approx(p_value, abs=5e-6)
        assert row.jeffreys_p == pytest.approx(float(beta.cdf(rate, defaults + 0.5, n - defaults + 0.5)), rel=1e-10)


def test_the_binomial_p_value_is_the_probability_of_as_many_defaults_or_more() -> None:
    row = calibrant.grade_tests([0.01], ["A"], [16], n=[1000]).grades[0]
    assert row.binomial_p == pytest.approx(0.04787, abs=5e-6)
    assert calibrant.grade_tests([0.01], ["A"], [0], n=[1000]).grades[0].binomial_p == 1.0


@pytest.mark.parametrize(
    ("confidence", "bounds"),
    [(0.5, [0.00086606, 0.00098972, 0.00230782]), (0.95, [0.00373766, 0.00427047, 0.00993608])],
)
def test_prudent_pds_without_defaults_are_those_of_pooled_grades(confidence: float, bounds: list[float]) -> None:
    tested = calibrant.grade_tests(PDS, NAMES, [0, 0, 0], n=SIZES, confidence=confidence)
    assert [row.prudent_pd for row in tested.grades] == pytest.approx(bounds, abs=5e-9)
    assert tested.total.prudent_pd is None


@pytest.mark.parametrize(
    ("confidence", "percent"),
    [
        (0.5, [0.15, 0.17, 0.37]),
        (0.75, [0.40, 0.45, 0.92]),
        (0.9, [0.86, 0.96, 1.89]),
        (0.95, [1.31, 1.45, 2.78]),
        (0.99, [2.65, 2.92, 5.30]),
        (0.999, [5.29, 5.77, 9.84]),
    ],
)
def test_prudent_pds_with_correlation_are_the_published_ones(confidence: float, percent: list[float]) -> None:
    """The table of Pluto & Tasche (2005) for an asset correlation of 12 % and no defaults."""
    tested = calibrant.grade_tests(PDS, NAMES, [0, 0, 0], n=SIZES, confidence=confidence, correlation=0.12)
    pds = [100.0 * (row.one_factor_prudent_pd or 0.0) for row in tested.grades]
    assert pds == pytest.approx(percent, abs=0.007)  # some of the table are cut off, not rounded


def test_a_prudent_pd_solves_its_equation() -> None:
    for defaults, n, confidence in ((0, 30, 0.5), (3, 800, 0.9), (40, 41, 0.75), (7, 10**6, 0.99)):
        assert binom.cdf(defaults, n, prudent_pd(defaults, n, confidence, None)) == pytest.approx(1.0 - confidence)
        for correlation in (1e-6, 0.01, 0.12, 0.6):
            bound = prudent_pd(defaults, n, confidence, correlation)
            tail = one_factor_tail(defaults + 1, n, norm.ppf([bound]), ONE, correlation)
            assert tail == pytest.approx(confidence, abs=1e-8)
    assert prudent_pd(5, 5, 0.5, 0.12) == 1.0


@pytest.mark.parametrize("correlation", [None, 1e-320, 1e-12, 0.12, 1.0 - 1e-16])
@pytest.mark.parametrize(("defaults", "n"), [(0, 1), (0, 10**9), (1, 10), (10**9 - 1, 10**9)])
def test_a_prudent_pd_of_an_extreme_confidence_fails_or_is_no_number(
    correlation: float | None, defaults: int, n: int
) -> None:
    low, high = (prudent_pd(defaults, n, confidence, correlation) for confidence in (1e-320, 1.0 - 1e-16))
    assert 0.0 <= low < high <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.001, 0.04, 0.12, 0.24, 0.6, 0.95])
@pytest.mark.parametrize(("defaults", "n", "rate"), [(1, 10, 0.05), (16, 1000, 0.01), (900, 20_000, 0.03), (9, 9, 0.7)])
def test_one_factor_tails_are_integrals_over_the_factor(correlation: float, defaults: int, n: int, rate: float) -> None:
    quantile = float(norm.ppf(rate))

    def density(factor: float) -> float:
        return float(binom.sf(defaults - 1, n, _conditional(quantile, factor, correlation)) * norm.pdf(factor))

    edges = np.linspace(-9.0, 9.0, 181)
    expected = sum(quad(density, low, high, epsabs=1e-14)[0] for low, high in pairwise(edges.tolist()))
    tail = one_factor_tail(defaults, n, np.array([quantile]), ONE, correlation)
    assert tail == pytest.approx(expected, rel=2e-8, abs=1e-12)


def test_one_factor_tails_of_a_billion_obligors_are_those_of_the_rate_itself() -> None:
    tail = one_factor_tail(2 * 10**7, 10**9, norm.ppf([0.01]), ONE, 0.12)
    factor = (norm.ppf(0.01) - math.sqrt(0.88) * norm.ppf(0.02)) / math.sqrt(0.12)
    assert tail == pytest.approx(float(norm.cdf(factor)), rel=1e-4)


def test_a_tiny_correlation_is_independence() -> None:
    tested = calibrant.grade_tests(PDS, NAMES, [1, 2, 5], n=SIZES, correlation=1e-9)
    for row in tested.grades:
        assert row.one_factor_p == pytest.approx(row.binomial_p, rel=1e-4)


def _p_values(test: str, n: int, rate: float, correlation: float | None) -> Any:
    """The p-value of each number of defaults."""
    counts = np.arange(n + 1)
    tested = calibrant.grade_tests(
        np.full(n + 1, rate), counts.astype(str), counts, n=np.full(n + 1, n), correlation=correlation
    )
    by_count = {row.defaults: getattr(row, f"{test}_p") for row in tested.grades}
    return np.array([by_count[k] for k in counts.tolist()])


@pytest.mark.parametrize(("n", "rate"), [(20, 0.1), (100, 0.01), (300, 0.03), (900, 0.002)])
def test_the_size_of_each_test_is_the_enumerated_one(n: int, rate: float) -> None:
    chances = binom.pmf(np.arange(n + 1), n, rate)
    critical = int(np.flatnonzero(binom.sf(np.arange(-1, n + 1), n, rate) <= 0.05)[0])
    size = float(chances[_p_values("binomial", n, rate, None) <= 0.05].sum())
    assert size == pytest.approx(float(binom.sf(critical - 1, n, rate)), rel=1e-9)
    assert size <= 0.05
    posterior = beta.cdf(rate, np.arange(n + 1) + 0.5, n - np.arange(n + 1) + 0.5)
    jeffreys = float(chances[_p_values("jeffreys", n, rate, None) <= 0.05].sum())
    assert jeffreys == pytest.approx(float(chances[posterior <= 0.05].sum()), rel=1e-9)
    assert size <= jeffreys <= 0.12


@pytest.mark.parametrize(("n", "rate", "correlation"), [(20, 0.1, 0.12), (60, 0.02, 0.24)])
def test_the_size_of_the_one_factor_test_is_at_most_its_level(n: int, rate: float, correlation: float) -> None:
    quantile = float(norm.ppf(rate))
    rejected = np.flatnonzero(_p_values("one_factor", n, rate, correlation) <= 0.05)

    def density(factor: float) -> float:
        return float(binom.pmf(rejected, n, _conditional(quantile, factor, correlation)).sum() * norm.pdf(factor))

    assert 0.0 < quad(density, -9.0, 9.0, limit=200)[0] <= 0.05


def test_lights_change_at_confidences_of_95_and_99_9_percent() -> None:
    defaults = [15, 16, 21, 22]
    p = binom.sf(np.array(defaults) - 1, 1000, 0.01)
    assert p[0] > 0.05 >= p[1]
    assert p[2] > 0.001 >= p[3]
    for count, light in zip(defaults, ("green", "yellow", "yellow", "red"), strict=True):
        row = calibrant.grade_tests([0.01], ["A"], [count], n=[1000], correlation=0.12).grades[0]
        assert (row.light, row.one_factor_light) == (light, "green")


def test_the_portfolio_is_one_grade_with_the_mean_pd() -> None:
    tested = calibrant.grade_tests(PDS, NAMES, [1, 2, 5], n=SIZES, correlation=0.12)
    mean = float(np.average(PDS, weights=SIZES))
    alone = calibrant.grade_tests([mean], ["(all)"], [8], n=[800]).grades[0]
    assert (tested.total.grade, tested.total.n, tested.total.defaults) == ("(all)", 800, 8)
    assert tested.total.pd == pytest.approx(mean, rel=1e-15)
    assert tested.total.jeffreys_p == pytest.approx(alone.jeffreys_p, rel=1e-12)
    assert tested.total.jeffreys_holm is None
    quantiles, shares = norm.ppf(PDS), np.array(SIZES) / 800

    def density(factor: float) -> float:
        rate = sum(s * _conditional(q, factor, 0.12) for q, s in zip(quantiles, shares, strict=True))
        return float(binom.sf(7, 800, rate) * norm.pdf(factor))

    assert tested.total.one_factor_p == pytest.approx(quad(density, -9.0, 9.0, limit=400)[0], rel=1e-7)


def test_p_values_of_grades_have_holms_correction_and_hosmer_lemeshow_one_degree_of_freedom_each() -> None:
    tested = calibrant.grade_tests(PDS, NAMES, [1, 4, 9], n=SIZES, correlation=0.05)
    for test in ("jeffreys", "binomial", "one_factor"):
        p = np.array([getattr(row, f"{test}_p") for row in tested.grades])
        stepped = np.maximum.accumulate(np.sort(p) * [3, 2, 1]).clip(max=1.0)
        assert [getattr(row, f"{test}_holm") for row in tested.grades] == pytest.approx(stepped[p.argsort().argsort()])
    n, rate = np.array(SIZES), np.array(PDS)
    statistic = float(((np.array([1, 4, 9]) - n * rate) ** 2 / (n * rate * (1 - rate))).sum())
    assert tested.hosmer_lemeshow == pytest.approx(
        {"statistic": statistic, "degrees_of_freedom": 3, "p_value": float(chi2.sf(statistic, 3))}
    )


def test_rows_and_their_counts_have_the_same_tests() -> None:
    random = np.random.default_rng(5)
    grade = random.integers(0, 3, 900)
    rows = pd.DataFrame({"pd": np.array(PDS)[grade], "grade": np.array(NAMES)[grade]})
    rows["default"] = random.random(900) < 5.0 * rows["pd"]
    counts = rows.groupby("grade").agg(pd=("pd", "first"), defaults=("default", "sum"), n=("default", "size"))
    counts = counts.sort_index(ascending=False)  # of any order
    of_rows = calibrant.grade_tests(rows["pd"], rows["grade"], rows["default"], confidence=0.9)
    of_counts = calibrant.grade_tests(
        counts["pd"].to_numpy(), counts.index, counts["defaults"].to_numpy(), n=counts["n"].to_numpy(), confidence=0.9
    )
    assert of_rows.to_dict() == of_counts.to_dict()
    assert [row.grade for row in of_rows.grades] == NAMES


def test_a_grade_with_several_pds_is_named_and_tested_by_their_mean() -> None:
    tested = calibrant.grade_tests([0.01, 0.04, 0.1], ["A", "A", "B"], [1, 3, 9], n=[200, 100, 50])
    assert [row.pd for row in tested.grades] == pytest.approx([0.02, 0.1])
    assert tested.notes == ["A has PDs from 0.01 to 0.04; their mean over its obligors is tested"]
    assert tested.notes[0] in repr(tested)


def test_a_grade_without_obligors_is_left_out_and_named() -> None:
    tested = calibrant.grade_tests([0.01, 0.02], ["A", "B"], [1, 0], n=[100, 0])
    assert [row.grade for row in tested.grades] == ["A"]
    few = "the p-value of Hosmer-Lemeshow may be too small: A expects 1 defaults or other obligors, and 5 are advised"
    assert tested.notes == ["B is left out: it has no obligors", few]


def test_pds_of_0_and_1_have_tests_but_no_hosmer_lemeshow() -> None:
    tested = calibrant.grade_tests([0.0, 1.0], ["A", "B"], [0, 5], n=[10, 5], correlation=0.1, confidence=0.5)
    assert [row.binomial_p for row in tested.grades] == [1.0, 1.0]
    assert [row.one_factor_p for row in tested.grades] == pytest.approx([1.0, 1.0])
    assert calibrant.grade_tests([0.0], ["A"], [1], n=[10], correlation=0.1).grades[0].one_factor_p == 0.0
    assert tested.hosmer_lemeshow is None
    assert "Hosmer-Lemeshow" not in repr(tested)


@pytest.mark.parametrize("pd", [5e-324, 1e-200])
def test_pds_that_round_to_0_when_squared_have_tests_but_no_hosmer_lemeshow(pd: float) -> None:
    tested = calibrant.grade_tests([pd, 0.5], ["A", "B"], [1, 5], n=[10, 10])
    assert tested.hosmer_lemeshow is None
    assert tested.grades[0].binomial_p == pytest.approx(0.0, abs=1e-190)


def test_prudent_pds_of_grades_with_the_same_pd_are_refused_with_their_names() -> None:
    with refused_at("/confidence", InvalidOption, match="'A', 'B' have the same"):
        calibrant.grade_tests([0.01, 0.01, 0.02], NAMES, [0, 0, 0], n=[100, 300, 10], confidence=0.5)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "pointer"),
    [
        (([1.5, 0.1], ["A", "B"], [0, 1]), {}, CalibrationError, "/pd/0"),
        (([[0.1, 0.9]], ["A"], [0]), {}, WrongShape, "/pd"),
        ((0.1, "A", 0), {}, WrongShape, "/pd"),
        (([0.1, 0.2], ["A"], [0, 1]), {}, CalibrationError, "/grades"),
        (([0.1], None, [0]), {}, CalibrationError, "/grades"),
        (([0.1, 0.2], ["A", "B"], [0]), {}, CalibrationError, "/defaults"),
        (([0.1, 0.2], ["A", "B"], [0, 2]), {}, InvalidLabel, "/defaults/1"),
        (([0.1, 0.2], ["A", "B"], ["no", "yes"]), {}, CalibrationError, "/defaults"),
        (([0.1, 0.2], ["A", "B"], [0, math.nan]), {}, CalibrationError, "/defaults/1"),
        (([0.1, 0.2], ["A", "B"], [0, 7]), {"n": [5, 6]}, InvalidLabel, "/defaults/1"),
        (([0.1, 0.2], ["A", "B"], [0.5, 1]), {"n": [5, 6]}, InvalidLabel, "/defaults/0"),
        (([0.1, 0.2], ["A", "B"], [0, -1]), {"n": [5, 6]}, InvalidLabel, "/defaults/1"),
        (([0.1, 0.2], ["A", "B"], [0, 1]), {"n": [5, 6.5]}, InvalidWeight, "/n/1"),
        (([0.1, 0.2], ["A", "B"], [0, 1]), {"n": [5, -6]}, InvalidWeight, "/n/1"),
        (([0.1, 0.2], ["A", "B"], [0, 0]), {"n": [0, 0]}, InvalidWeight, "/n"),
        (([0.1, 0.2], ["A", "B"], [0, 1]), {}, InvalidOption, "/grades"),
        (([0.1], ["A"], [0]), {"correlation": 0.0}, InvalidOption, "/correlation"),
        (([0.1], ["A"], [0]), {"correlation": 1.0}, InvalidOption, "/correlation"),
        (([0.1], ["A"], [0]), {"correlation": "0.1"}, InvalidOption, "/correlation"),
        (([0.1], ["A"], [0]), {"confidence": math.nan}, InvalidOption, "/confidence"),
        (([0.1], ["A"], [0]), {"confidence": True}, InvalidOption, "/confidence"),
        (
            (np.linspace(0.01, 0.9, 101), np.arange(101), np.zeros(101)),
            {"n": [9] * 101, "confidence": 0.5},
            InvalidOption,
            "/confidence",
        ),
        ((np.full(1001, 0.1), np.arange(1001), np.zeros(1001)), {}, InvalidOption, "/grades"),
    ],
)
def test_bad_arguments_are_refused_under_their_own_names(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[CalibrationError], pointer: str
) -> None:
    with pytest.raises(error) as raised:
        calibrant.grade_tests(*arguments, **options)
    assert str(raised.value).startswith(pointer.split("/")[1])
    if raised.value.offences:
        assert raised.value.offences[0].pointer == pointer


def test_frames_have_the_columns_that_were_requested() -> None:
    plain = calibrant.grade_tests(PDS, NAMES, [0, 1, 2], n=SIZES)
    assert "one_factor_p" not in plain.to_frame().columns
    tested = calibrant.grade_tests(PDS, NAMES, [0, 1, 2], n=SIZES, correlation=0.1, confidence=0.5)
    assert list(tested.to_frame()["grade"]) == NAMES
    assert {"one_factor_holm", "one_factor_prudent_pd"} <= {*tested.to_frame().columns}
    assert "(all)" in repr(tested)
