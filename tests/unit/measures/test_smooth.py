"""The smooth calibration error and the smooth test."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.integrate import quad
from scipy.stats import chi2

import calibrant
from calibrant.core.cells import Cells, Floats, WeightsKind
from calibrant.core.errors import InvalidOption
from calibrant.core.reductions import Event
from calibrant.measures.catalogue import read_requests
from calibrant.measures.hypothesis_tests import smooth_test, squares_tail
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import MeasureResult
from calibrant.measures.smooth import NARROWEST, kde_ece, smooth_ece
from tests.rows import draw_distorted, draw_event

Array = npt.NDArray[np.float64]


def _drawn(n: int, seed: int, power: float = 1.3) -> Event:
    return Event(*draw_distorted(n, seed, power, dtype=np.int8))


def _directly(event: Event, sigma: float) -> float:
    """The definition, row by row, with its mirror images, integrated piecewise."""
    w = np.ones(len(event)) if event.w is None else event.w
    images = np.concatenate([2 * m + sign * event.p for m in range(-5, 6) for sign in (1, -1)])
    off = np.tile(w * (event.p - event.y), 22) / w.sum()

    def smoothed(t: float) -> float:
        return abs(float(off @ np.exp(-0.5 * ((t - images) / sigma) ** 2))) / (sigma * math.sqrt(2 * math.pi))

    edges = np.linspace(0, 1, 21)
    return float(sum(quad(smoothed, a, b, limit=400, epsabs=1e-11)[0] for a, b in pairwise(edges)))


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.3, 1.0])
def test_the_grid_agrees_with_the_definition(sigma: float) -> None:
    event = _drawn(120, 0)
    assert smooth_ece(event, sigma)[0] == pytest.approx(_directly(event, sigma), abs=2e-8)
    weighted = Event(event.p, event.y, np.random.default_rng(1).random(120), "importance")
    assert smooth_ece(weighted, sigma)[0] == pytest.approx(_directly(weighted, sigma), abs=2e-8)


def test_the_value_is_its_own_bandwidth_and_the_size_never_grows_with_the_bandwidth() -> None:
    event = _drawn(500, 2)
    error, sigma = smooth_ece(event)
    assert error == pytest.approx(sigma, rel=1e-9)
    assert error == pytest.approx(_directly(event, sigma), abs=1e-8)
    sizes = [smooth_ece(event, s)[0] for s in (0.001, 0.01, 0.05, 0.2, 1.0)]
    assert all(a >= b - 1e-9 for a, b in pairwise(sizes))


def test_it_lies_between_the_mean_gap_and_the_mean_distance() -> None:
    """At least |mean (y - p)| as the kernel keeps mass, at most the mean |y - p| over distinct predictions."""
    for seed in range(5):
        event = _drawn(200, seed, 1.0 + seed / 4)
        error, _ = smooth_ece(event)
        off = event.y - event.p
        assert abs(off.mean()) - 1e-7 <= error <= np.abs(off).mean() + 1e-7


def test_calibrated_and_certain_predictions_have_no_error() -> None:
    right = Event(np.array([0.0, 1.0, 1.0]), np.array([0, 1, 1], np.int8))
    assert smooth_ece(right)[0] == 0.0
    ties = Event(np.full(10, 0.3), np.array([1] * 3 + [0] * 7, np.int8))
    assert smooth_ece(ties)[0] == pytest.approx(0.0, abs=1e-12)
    wrong = Event(np.array([0.0, 1.0]), np.array([1, 0], np.int8))
    assert smooth_ece(wrong)[0] == pytest.approx(_directly(wrong, smooth_ece(wrong)[1]), abs=1e-7)
    tiny = Event(np.full(4000, 0.5), (np.arange(4000) % 2).astype(np.int8) * 1)
    tiny = Event(np.append(tiny.p, 0.5001), np.append(tiny.y, 1).astype(np.int8))
    error, sigma = smooth_ece(tiny)
    assert sigma >= NARROWEST
    assert error == pytest.approx(0.5 / 4001, rel=1e-2)


@pytest.mark.parametrize("form", ["integral", "pointwise"])
@pytest.mark.parametrize("norm", [1, 2])
def test_the_kernel_density_error_is_that_of_a_direct_sum(form: Any, norm: int) -> None:
    """Densities summed row by row; the reference bins linearly onto its grid, which moves them by less than 1e-4."""
    event = _drawn(400, 3)
    positives = event.p[event.y == 1]
    reach = 3 * positives.std() * (2 * 400) ** -0.2

    def density(x: Array, p: Array) -> Array:
        mirrored = np.concatenate([p, np.where(p < 0.5, -p, 2 - p)])
        u = (x[:, None] - mirrored) / reach
        estimate: Array = 2 * np.mean(35 / 32 * np.clip(1 - u**2, 0, None) ** 3, axis=1) / reach
        return estimate

    x = np.linspace(0, 1, 4001)[1:-1] if form == "integral" else event.p
    every = density(x, event.p)
    share = np.minimum(event.y.mean() * density(x, positives) / every, 1)
    off = np.abs(share - x) ** norm
    expected = np.average(off, weights=every) if form == "integral" else off.mean()
    assert kde_ece(event, form, norm)[0] == pytest.approx(expected, abs=2e-4)


def test_one_outcome_or_one_prediction_of_positives_is_a_problem() -> None:
    for p, y, word in [([0.2, 0.4], [0, 0], "positives"), ([0.2, 0.4, 0.4], [0, 1, 1], "equal")]:
        answer = calibrant.evaluate(p, y, measures=["kde-ece"]).measures["kde-ece"]
        assert answer.value is None
        assert word in (answer.problem or "")


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 1.5])
def test_the_interval_of_the_smooth_error_holds_the_truth(power: float) -> None:
    random = np.random.default_rng(4)
    c = random.random(40_000)
    both = Event(np.tile(c**power, 2), np.repeat(np.array([0, 1], np.int8), 40_000), np.concatenate([1 - c, c]))
    truth, hits = smooth_ece(both)[0], 0
    for seed in range(80):
        event = _drawn(500, 100 + seed, power)
        report = calibrant.evaluate(event.p, event.y, measures=["smooth-ece"], interval=0.9, resamples=300)
        low, high = report.measures["smooth-ece"].interval or (1.0, 0.0)
        hits += low <= truth + 1e-3 and truth <= high
    assert hits >= 80 * 0.9 - 3.5 * np.sqrt(80 * 0.09)


def test_residuals_of_one_sign_have_nearly_the_same_size_at_every_bandwidth() -> None:
    """Sizes that differ by rounding alone enclose no fixed point."""
    assert smooth_ece(Event(np.array([0.0, 1.0]), np.array([0, 0], np.int8)))[0] == pytest.approx(0.5)
    for seed in range(40):
        c, y = draw_event(500, [7, seed], dtype=np.int8)
        event = Event(0.4 * c + 0.6 * c**2, y)
        error, sigma = smooth_ece(event)
        assert error == pytest.approx(sigma, rel=1e-4)


DECAY: Floats = (1.0 + np.arange(8.0)) ** -1.5


def _cells(p: list[float], y: list[int], w: list[float] | None = None, kind: WeightsKind = "frequency") -> Cells:
    return Event(np.array(p), np.array(y, np.int8), None if w is None else np.array(w), kind).cells


def _bent(n: int, seed: int) -> Event:
    return Event(*draw_distorted(n, seed, 1.2, dtype=np.int8))


def _answer(event: Event, resampling: Resampling = PLAIN) -> MeasureResult:
    (request,) = read_requests(["smooth-test"])
    return request.compute(event, resampling)


@pytest.mark.parametrize("x", [1e-300, 1e-9, 0.1, 1.0, 5.0, 30.0, 300.0, 1200.0])
@pytest.mark.parametrize("freedom", [1, 2, 8])
def test_equal_weights_have_the_law_of_chi_square(x: float, freedom: int) -> None:
    assert squares_tail(x, np.ones(freedom)) == pytest.approx(chi2.sf(x, freedom), rel=2e-9)
    assert squares_tail(7.0 * x, np.full(freedom, 7.0)) == pytest.approx(chi2.sf(x, freedom), rel=2e-9)


@pytest.mark.parametrize("x", [0.01, 1.0, 4.0, 40.0])
def test_pairs_of_weights_have_the_law_of_a_sum_of_exponentials(x: float) -> None:
    a, b = 1.0, 0.25
    exact = (a * math.exp(-x / (2 * a)) - b * math.exp(-x / (2 * b))) / (a - b)
    assert squares_tail(x, np.array([a, b, a, b])) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("weights", [DECAY, np.array([1.0, 0.9, 0.01]), np.array([3.0, 1e-14])])
def test_the_tail_is_that_of_drawn_sums(weights: Floats) -> None:
    drawn = np.random.default_rng(0).standard_normal((400_000, len(weights))) ** 2 @ weights
    for x in (0.2, 1.0, 3.0, 8.0):
        tail = squares_tail(x, weights)
        # Four binomial standard errors.
        assert abs(np.mean(drawn > x) - tail) < 4 * math.sqrt(tail * (1 - tail) / len(drawn))


def test_the_tail_is_a_probability_at_both_ends() -> None:
    assert squares_tail(0.0, DECAY) == 1.0
    assert squares_tail(5e-324, DECAY) == pytest.approx(1.0, abs=1e-12)
    assert squares_tail(1e308, DECAY) == squares_tail(math.inf, DECAY) == 0.0


def test_one_term_is_the_test_of_the_mean() -> None:
    cells = _bent(100, 0).cells
    z2 = float((cells.wy - cells.p).sum() ** 2 / (cells.p * (1 - cells.p)).sum())
    assert smooth_test(cells, 1) == pytest.approx((z2, chi2.sf(z2, 1)), rel=1e-12)


@pytest.mark.parametrize("w", [None, 0.01, 3.0])
def test_a_p_value_of_few_expected_events_has_the_problem_that_it_is_approximate(w: float | None) -> None:
    def problem(n: int) -> str | None:
        p, y = np.full(n, 0.5), np.arange(n, dtype=np.int8) % 2
        return _answer(Event(p, y, None if w is None else np.full(n, w), "importance")).problem

    assert problem(40) is None
    assert "approximate" in (problem(36) or "")


def test_two_cells_agree_with_the_sum_by_hand() -> None:
    # v = 1/4 and 3/4, phi_1 = -+ sqrt(3)/2, U_0 = 0, U_1^2 = (3/4) 1.6^2, F = 0.32, C = diag(1, 3/4).
    statistic, p_value = smooth_test(_cells([0.2, 0.8], [1, 0]), 2)
    assert statistic == pytest.approx(6.0 * 2**-1.5, rel=1e-12)
    assert p_value == pytest.approx(squares_tail(statistic, np.array([1.0, 0.75 * 2**-1.5])), rel=1e-12)


@pytest.mark.parametrize("n_terms", [1, 2, 8, 16])
def test_a_constant_prediction_has_a_test_of_the_mean_alone(n_terms: int) -> None:
    z2 = (7 - 10 * 0.3) ** 2 / (10 * 0.3 * 0.7)
    p_value = smooth_test(_cells([0.3] * 10, [1] * 7 + [0] * 3), n_terms)[1]
    assert p_value == pytest.approx(chi2.sf(z2, 1), rel=1e-9)


def test_one_row_and_one_class_have_answers() -> None:
    assert smooth_test(_cells([0.5], [1]), 8)[1] == pytest.approx(chi2.sf(1.0, 1), rel=1e-9)
    assert smooth_test(_cells([0.1, 0.2, 0.3], [0, 0, 0]), 8)[1] > 0.5
    assert smooth_test(_cells([0.7, 0.8, 0.9] * 20, [0] * 60), 8)[1] < 1e-6


def test_certain_predictions_that_came_true_change_nothing() -> None:
    plain = smooth_test(_cells([0.2, 0.4, 0.9], [1, 0, 1]), 8)
    assert smooth_test(_cells([0.0, 0.0, 0.2, 0.4, 0.9, 1.0], [0, 0, 1, 0, 1, 1]), 8) == pytest.approx(plain, rel=1e-12)
    assert smooth_test(_cells([0.0, 1.0], [0, 1]), 8) == (0.0, 1.0)


@pytest.mark.parametrize(("p", "y"), [(0.0, 1), (1.0, 0), (5e-324, 1)])
def test_a_certain_prediction_that_was_wrong_refutes_and_leaves_no_infinity(p: float, y: int) -> None:
    answer = _answer(Event(np.array([p]), np.array([y], np.int8)))
    assert answer.value is None
    assert answer.p_value == 0.0
    assert answer.problem is not None


@pytest.mark.parametrize(("p", "y"), [(0.0, 1), (1.0, 0)])
def test_one_wrong_certain_prediction_among_many_refutes(p: float, y: int) -> None:
    drawn = _bent(500, 1)
    assert smooth_test(Event(np.append(drawn.p, p), np.append(drawn.y, np.int8(y))).cells, 8) == (math.inf, 0.0)


def test_the_statistic_of_the_smooth_test_is_proportional_to_the_number_of_rows() -> None:
    drawn = _bent(200, 2)
    once, twice = (Event(drawn.p, drawn.y, np.full(200, count)).cells for count in (1.0, 2.0))
    assert smooth_test(twice, 8)[0] == pytest.approx(2.0 * smooth_test(once, 8)[0], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "tied", "importance"])
def test_p_values_of_calibrated_rows_are_uniform(form: str) -> None:
    random = np.random.default_rng(4)
    p_values = []
    for _ in range(1000):
        p = random.random(300)
        p = np.round(p, 1) if form == "tied" else p
        w = random.exponential(size=300) if form == "importance" else None
        cells = Event(p, (random.random(300) < p).astype(np.int8), w, "importance").cells
        p_values.append(smooth_test(cells, 8)[1])
    for level in (0.05, 0.25, 0.5, 0.75):
        # Three and a half binomial standard errors.
        assert abs(np.mean(np.array(p_values) < level) - level) < 3.5 * math.sqrt(level * (1 - level) / 1000), level


def test_a_bend_that_leaves_the_mean_unchanged_is_detected() -> None:
    random = np.random.default_rng(5)
    c = random.random(3000)
    p = c + 0.06 * np.sin(4 * np.pi * c)
    event = Event(p, (random.random(3000) < c).astype(np.int8))
    assert smooth_test(event.cells, 1)[1] > 0.1
    assert smooth_test(event.cells, 8)[1] < 0.05


def test_the_answer_carries_its_terms_and_has_no_interval() -> None:
    answer = _answer(_bent(50, 6), Resampling(0.9, 100, 0))
    assert answer.definition["n_terms"] == 8
    assert answer.debiased is None
    assert answer.interval is None


@pytest.mark.parametrize("n_terms", [0, 17, 8.0, True])
def test_terms_are_a_whole_number_from_1_to_16(n_terms: object) -> None:
    with pytest.raises(InvalidOption):
        read_requests([{"name": "smooth-test", "n_terms": n_terms}])
