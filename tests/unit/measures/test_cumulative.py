from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm as normal

from calibrant.core.reductions import Classes, Event, Vector
from calibrant.measures.catalogue import read_requests
from calibrant.measures.chance import classes_p_value, event_p_value
from calibrant.measures.cumulative import (
    end_value,
    ks_by_predicted_class,
    ks_by_predicted_class_p_value,
    ks_error,
    ks_p_value,
    kuiper_error,
    kuiper_p_value,
    range_tail,
    sum_of_suprema_tail,
    supremum_tail,
    tail,
)
from calibrant.measures.intervals import Resampling


def test_ks_agrees_with_the_reference(golden: dict[str, Any], golden_event: Event) -> None:
    assert ks_error(golden_event.cells) == pytest.approx(golden["ks"]["KS_error_max"], abs=1e-12)


def test_ks_reads_the_gap_at_the_end_of_a_tie() -> None:
    first = Event(np.array([0.5, 0.5]), np.array([0, 1], np.int8))
    other = Event(np.array([0.5, 0.5]), np.array([1, 0], np.int8))
    assert ks_error(first.cells) == ks_error(other.cells) == 0.0


def test_ks_rejects_calibrated_rows_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    rejected = 0
    for _ in range(1000):
        p = random.random(300)
        cells = Event(p, (random.random(300) < p).astype(np.int8)).cells
        rejected += ks_p_value(cells, ks_error(cells)) < 0.05
    assert 30 <= rejected <= 70


def test_certain_predictions_are_refuted_by_any_gap() -> None:
    wrong = Event(np.array([0.0, 1.0]), np.array([0, 0], np.int8)).cells
    right = Event(np.array([0.0, 1.0]), np.array([0, 1], np.int8)).cells
    assert ks_p_value(wrong, ks_error(wrong)) == 0.0
    assert ks_p_value(right, ks_error(right)) == 1.0


def test_kuiper_sees_errors_that_cancel_and_ks_half_of_them() -> None:
    event = Event(np.array([0.2, 0.2, 0.8, 0.8]), np.array([0, 0, 1, 1], np.int8))
    # D = 0, -.1, 0: too high below, too low above.
    assert ks_error(event.cells) == pytest.approx(0.1)
    assert kuiper_error(event.cells) == pytest.approx(0.1)
    assert end_value(event.cells) == pytest.approx(0.0)
    event = Event(np.array([0.2, 0.2, 0.5, 0.5, 0.8, 0.8]), np.array([1, 0, 0, 0, 1, 1], np.int8))
    path = np.cumsum([0.6, -1.0, 0.4]) / 6
    assert ks_error(event.cells) == pytest.approx(np.abs(path).max())
    assert kuiper_error(event.cells) == pytest.approx(max(path.max(), 0.0) - min(path.min(), 0.0))


def test_the_laws_are_those_of_simulated_brownian_motions() -> None:
    random = np.random.default_rng(0)
    steps = 2000
    path = np.cumsum(random.standard_normal((4000, steps)), axis=1) / np.sqrt(steps)
    high, low = np.maximum(path.max(axis=1), 0.0), np.minimum(path.min(axis=1), 0.0)
    for x in (0.8, 1.5, 2.2):
        # A walk of 2,000 steps misses a little of the motion's extremes.
        assert supremum_tail(x) == pytest.approx((np.maximum(high, -low) > x).mean(), abs=0.03)
        assert range_tail(x) == pytest.approx((high - low > x).mean(), abs=0.04)


@pytest.mark.parametrize("law", [supremum_tail, range_tail])
def test_the_laws_fall_from_1_to_0(law: Any) -> None:
    tails = [law(x) for x in (0.0, 0.1, 0.29, 0.31, 0.5, 1.0, 2.0, 4.0, 8.0, 40.0)]
    assert tails[:2] == [1.0, 1.0]
    assert all(a >= b for a, b in pairwise(tails))
    assert tails[-1] == pytest.approx(0.0, abs=1e-12)
    # The first reflection dominates the tail.
    assert law(6.0) == pytest.approx((4.0 if law is supremum_tail else 8.0) * normal.sf(6.0), rel=1e-6)
    assert law(1.5 - 1e-9) == pytest.approx(law(1.5 + 1e-9), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ks", "kuiper"])
def test_drawn_labels_give_the_p_values_of_the_law_where_rows_are_many(kind: Any) -> None:
    random = np.random.default_rng(1)
    p = random.random(2000)
    for shift in (0.0, 0.02):
        event = Event(p, (random.random(2000) < np.clip(p + shift, 0, 1)).astype(np.int8))
        cells = event.cells
        error = ks_error(cells) if kind == "ks" else kuiper_error(cells)
        law = ks_p_value(cells, error) if kind == "ks" else kuiper_p_value(cells, error)
        drawn = event_p_value(event, kind, error, Resampling(None, 2000, 0))
        assert drawn == pytest.approx(law, abs=0.06)


@pytest.mark.parametrize("kind", ["ks", "kuiper"])
def test_drawn_p_values_reject_few_calibrated_rows_as_often_as_they_say(kind: Any) -> None:
    random = np.random.default_rng(2)
    rejected = 0
    for seed in range(300):
        p = np.round(random.random(30), 1)
        event = Event(p, (random.random(30) < p).astype(np.int8))
        error = ks_error(event.cells) if kind == "ks" else kuiper_error(event.cells)
        rejected += event_p_value(event, kind, error, Resampling(None, 199, seed)) <= 0.05
    assert rejected <= 15 + 3 * np.sqrt(300 * 0.05 * 0.95)


def test_repeated_rows_and_weights_draw_alike_and_importance_weights_are_no_rows() -> None:
    random = np.random.default_rng(3)
    p = np.round(random.random(100), 1)
    y, w = (random.random(100) < p).astype(np.int8), random.integers(1, 4, 100).astype(float)
    resampling = Resampling(None, 300, 5)
    weighted, repeated = Event(p, y, w), Event(np.repeat(p, w.astype(int)), np.repeat(y, w.astype(int)))
    error = ks_error(weighted.cells)
    assert event_p_value(weighted, "ks", error, resampling) == event_p_value(repeated, "ks", error, resampling)
    important = Event(p, y, w, "importance")
    rescaled = Event(p, y, w * 8.0, "importance")
    assert event_p_value(important, "ks", error, resampling) == event_p_value(rescaled, "ks", error, resampling)


def test_ks_by_predicted_class_weighs_the_errors_among_the_rows_predicted() -> None:
    p = np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.8, 0.0], [0.9, 0.1, 0.0]])
    labels = np.array([0, 1, 1, 0])
    total, errors = ks_by_predicted_class(Vector(p, labels))
    # Predicted 0: confidences .6 (wrong), .7 and .9 (right); predicted 1: .8 (right); 2 never.
    assert errors[0] == pytest.approx(0.6 / 3)
    assert errors[1] == pytest.approx(0.2)
    assert errors[2] is None
    assert total == pytest.approx(0.75 * 0.2 + 0.25 * 0.2)


@pytest.mark.slow
def test_the_law_of_a_sum_of_suprema_is_that_of_sums_drawn() -> None:
    assert sum_of_suprema_tail(np.array([0.0, 2.0]), 3.0) == supremum_tail(1.5)
    # Of two equal ones, the integral of P(S > x - s) over the law of s.
    s = np.linspace(0.0, 12.0, 6001)
    tail = np.array([supremum_tail(x) for x in s])
    weight = -np.diff(tail)
    for x in (1.0, 2.5, 4.0, 7.0):
        tail_of_sum = (weight * np.interp(x - (s[1:] + s[:-1]) / 2.0, s, tail, left=1.0)).sum()
        assert sum_of_suprema_tail(np.array([1.0, 1.0]), x) == pytest.approx(tail_of_sum, abs=2e-4)
        assert sum_of_suprema_tail(np.array([0.01, 0.01]), x / 100.0) == pytest.approx(tail_of_sum, abs=2e-4)
    many = np.random.default_rng(0).random(1000)
    mean, spread = np.sqrt(np.pi / 2.0) * many.sum(), np.sqrt(0.26114 * (many**2).sum())
    for z in (-2.0, 0.0, 2.0):  # the central limit
        assert sum_of_suprema_tail(many, mean + z * spread) == pytest.approx(normal.sf(z), abs=0.01)


def _calibrated(random: np.random.Generator, n: int, K: int, sharpness: float = 0.7) -> Vector:
    p = random.dirichlet(np.full(K, sharpness), n)
    labels = (p.cumsum(axis=1) < random.random((n, 1))).sum(axis=1)
    return Vector(p, np.minimum(labels, K - 1))


@pytest.mark.slow
@pytest.mark.parametrize("law", ["asymptotic", "resampling"])
@pytest.mark.parametrize("name", ["ks", "kuiper", "ks-end", "ks-by-predicted-class"])
def test_p_values_of_many_classes_reject_calibrated_rows_as_often_as_they_say(name: str, law: str) -> None:
    [request] = read_requests([{"name": name, "law": law}])
    random = np.random.default_rng(4)
    p_values, n = [], 200 if law == "asymptotic" else 60  # the law of drawn labels is that of any number of rows
    for seed in range(200):
        vector = _calibrated(random, n, 3)
        subject = vector if name == "ks-by-predicted-class" else Classes(vector)
        p_values.append(request.compute(subject, Resampling(None, 100, seed)).p_value)
    rejected = np.count_nonzero(np.array(p_values, dtype=float) <= 0.1)
    assert rejected <= 20 + 3 * np.sqrt(200 * 0.1 * 0.9)
    if law == "resampling" or name == "ks-by-predicted-class":  # Bonferroni may reject too rarely
        assert rejected >= 20 - 3 * np.sqrt(200 * 0.1 * 0.9)


@pytest.mark.parametrize("law", ["asymptotic", "resampling"])
@pytest.mark.parametrize("name", ["ks", "kuiper", "ks-end", "ks-by-predicted-class"])
def test_p_values_of_many_classes_see_what_is_off(name: str, law: str) -> None:
    vector = _calibrated(np.random.default_rng(5), 2000, 4)
    drawn = Vector(vector.p * 0.8 + 0.2 * np.eye(4)[0], vector.labels)
    [request] = read_requests([{"name": name, "law": law}])
    answer = request.compute(drawn if name == "ks-by-predicted-class" else Classes(drawn), Resampling(None, 200, 0))
    assert answer.p_value is not None
    assert answer.p_value <= 0.01


def test_laws_of_a_sum_and_of_drawn_labels_agree() -> None:
    random = np.random.default_rng(6)
    for shift in (0.0, 0.03):
        vector = _calibrated(random, 4000, 4)
        moved = Vector(vector.p * (1.0 - shift) + shift * np.eye(4)[1], vector.labels)
        [request] = read_requests([{"name": "ks-by-predicted-class", "law": "resampling"}])
        drawn = request.compute(moved, Resampling(None, 1000, 0)).p_value
        assert ks_by_predicted_class_p_value(moved) == pytest.approx(drawn, abs=0.06)


def test_classes_are_drawn_alike_for_weights_repeated_rows_and_any_order() -> None:
    random = np.random.default_rng(7)
    vector = _calibrated(random, 60, 3)
    resampling = Resampling(None, 200, 0)
    plain = classes_p_value(Classes(vector), "ks", resampling)
    order = random.permutation(60)
    assert classes_p_value(Classes(Vector(vector.p[order], vector.labels[order])), "ks", resampling) == plain
    times = random.integers(1, 4, 60)
    heavy = times.astype(np.float64)
    weighted = Vector(vector.p, vector.labels, heavy)
    again = Vector(np.repeat(vector.p, times, axis=0), np.repeat(vector.labels, times))
    first, other = (classes_p_value(Classes(v), "ks", Resampling(None, 2000, 0)) for v in (weighted, again))
    assert first == pytest.approx(other, abs=0.06)
    important = Vector(vector.p, vector.labels, heavy, "importance")
    rescaled = Vector(vector.p, vector.labels, heavy * 8.0, "importance")
    assert classes_p_value(Classes(important), "ks", resampling) == classes_p_value(Classes(rescaled), "ks", resampling)


def test_certain_predictions_of_a_class_are_refuted_when_wrong() -> None:
    p = np.array([[1.0, 0.0], [0.4, 0.6], [0.3, 0.7]])
    assert ks_by_predicted_class_p_value(Vector(p, np.array([1, 1, 1]))) == 0.0
    assert 0.0 < ks_by_predicted_class_p_value(Vector(p, np.array([0, 1, 1]))) <= 1.0
    assert ks_by_predicted_class_p_value(Vector(np.eye(2), np.array([0, 1]))) == 1.0


def test_an_error_that_is_rounding_refutes_nothing_where_there_is_no_spread() -> None:
    def law(_: float) -> float:
        raise AssertionError("there is no spread to divide by")

    assert tail(0.0, 0.0, law) == tail(3e-17, 0.0, law) == 1.0
    assert tail(1e-9, 0.0, law) == 0.0
