from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2

from calibrant.core.cells import Cells, Floats, WeightsKind
from calibrant.core.errors import InvalidOption
from calibrant.core.reductions import Event
from calibrant.measures.catalogue import read_requests
from calibrant.measures.hypothesis_tests import smooth_test, squares_tail
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import MeasureResult
from tests.rows import draw_distorted

DECAY: Floats = (1.0 + np.arange(8.0)) ** -1.5


def _cells(p: list[float], y: list[int], w: list[float] | None = None, kind: WeightsKind = "frequency") -> Cells:
    return Event(np.array(p), np.array(y, np.int8), None if w is None else np.array(w), kind).cells


def _drawn(n: int, seed: int) -> Event:
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
    cells = _drawn(100, 0).cells
    z2 = float((cells.wy - cells.p).sum() ** 2 / (cells.p * (1 - cells.p)).sum())
    assert smooth_test(cells, 1) == pytest.approx((z2, chi2.sf(z2, 1)), rel=1e-12)


def test_two_cells_agree_with_the_sum_by_hand() -> None:
    # v = 1/4 and 3/4, phi_1 = -+ sqrt(3)/2, U_0 = 0, U_1^2 = (3/4) 1.6^2, F = 0.32, C = diag(1, 3/4).
    statistic, p_value = smooth_test(_cells([0.2, 0.8], [1, 0]), 2)
    assert statistic == pytest.approx(6.0 * 2**-1.5, rel=1e-12)
    assert p_value == pytest.approx(squares_tail(statistic, np.array([1.0, 0.75 * 2**-1.5])), rel=1e-12)


@pytest.mark.parametrize("n_terms", [1, 2, 8, 16])
def test_of_one_constant_prediction_only_the_mean_is_tested(n_terms: int) -> None:
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
    drawn = _drawn(500, 1)
    assert smooth_test(Event(np.append(drawn.p, p), np.append(drawn.y, np.int8(y))).cells, 8) == (math.inf, 0.0)


def test_importance_weights_can_be_rescaled_and_frequencies_count() -> None:
    drawn, w = _drawn(200, 2), np.random.default_rng(3).random(200)
    a, b = (Event(drawn.p, drawn.y, w * scale, "importance").cells for scale in (1.0, 100.0))
    assert smooth_test(a, 8) == pytest.approx(smooth_test(b, 8), rel=1e-9)
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


def test_a_bend_that_leaves_the_mean_alone_is_seen() -> None:
    random = np.random.default_rng(5)
    c = random.random(3000)
    p = c + 0.06 * np.sin(4 * np.pi * c)
    event = Event(p, (random.random(3000) < c).astype(np.int8))
    assert smooth_test(event.cells, 1)[1] > 0.1
    assert smooth_test(event.cells, 8)[1] < 0.05


def test_the_answer_carries_its_terms_and_has_no_interval() -> None:
    answer = _answer(_drawn(50, 6), Resampling(0.9, 100, 0))
    assert answer.definition["n_terms"] == 8
    assert answer.debiased is None
    assert answer.interval is None


@pytest.mark.parametrize("n_terms", [0, 17, 8.0, True])
def test_terms_are_a_whole_number_from_1_to_16(n_terms: object) -> None:
    with pytest.raises(InvalidOption):
        read_requests([{"name": "smooth-test", "n_terms": n_terms}])
