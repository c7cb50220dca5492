from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import InvalidOption, InvalidWeight, LengthMismatch
from calibrant.core.reductions import Event, Vector
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureResult
from calibrant.measures.selective import ABSTENTION, COST_RATIOS, cost_plane, selective_costs, selective_influence


def _claims(n: int, seed: int = 0) -> Event:
    random = np.random.default_rng(seed)
    p = np.round(random.random(n), 2)
    return Event(p, (random.random(n) < p**1.5).astype(np.int8), decided=True)


def _ask(event: Event | Vector, **options: Any) -> MeasureResult:
    (request,) = read_requests([{"name": "selective-cost", **options}])
    return request.compute(event)


def _naive(confidence: Any, wrong: Any, rejected: int, ratio: float) -> float:
    """Reject so many rows, the least confident first, and count."""
    accepted = np.argsort(confidence, kind="stable")[rejected:]
    return float(ratio * wrong[accepted].sum() + rejected) / len(wrong)


def test_the_cost_is_what_counting_gives_without_ties() -> None:
    random = np.random.default_rng(1)
    p, y = random.random(200), random.integers(0, 2, 200).astype(np.int8)
    event = Event(p, y, decided=True)
    for rejected in (0, 1, 20, 150, 200):
        answer = _ask(event, abstention=rejected / 200, cost_ratio=4.0)
        assert answer.value == pytest.approx(_naive(p, 1 - y, rejected, 4.0), abs=1e-12)


def test_ties_are_rejected_at_random_in_expectation() -> None:
    confidence, wrong = np.array([0.6, 0.6, 0.6, 0.9, 0.9]), np.array([1, 0, 0, 0, 1])
    event = Event(confidence, (1 - wrong).astype(np.int8), decided=True)
    for rejected in range(6):
        orders = [np.array(order) for order in permutations(range(5))]
        mean = np.mean([_naive(confidence[order], wrong[order], rejected, 3.0) for order in orders])
        assert _ask(event, abstention=rejected / 5, cost_ratio=3.0).value == pytest.approx(mean)


def test_the_parts_hold_the_curves() -> None:
    event = _claims(500)
    parts = _ask(event).parts
    assert parts["abstention"] == list(ABSTENTION)
    assert parts["cost_ratios"] == list(COST_RATIOS)
    assert parts["accepted_wrong"][0] == parts["error_of_accepted"][0] == pytest.approx(1 - event.y.mean())
    assert np.shape(parts["cost"]) == (len(COST_RATIOS), len(ABSTENTION))
    assert np.all(np.diff(parts["accepted_wrong"]) <= 1e-15)
    assert parts["cost"][3][2] == pytest.approx(_ask(event, abstention=0.1, cost_ratio=10).value)
    assert ABSTENTION[2] == 0.1
    assert COST_RATIOS[3] == 10.0


def test_the_whole_vector_and_its_confidence_cost_the_same_and_binary_is_decided_at_one_half() -> None:
    random = np.random.default_rng(2)
    P = random.dirichlet(np.ones(3), 300)
    vector = Vector(P, random.integers(0, 3, 300))
    assert _ask(vector).value == _ask(vector.confidence()).value
    p, y = np.array([0.1, 0.45, 0.8]), np.array([0, 1, 1])
    report = calibrant.evaluate(p, y, measures=[{"name": "selective-cost", "abstention": 1 / 3}])
    assert report.measures["selective-cost"].value == pytest.approx(1 / 3)
    assert _ask(Event(p, y.astype(np.int8)), abstention=0.0).value == pytest.approx(10 / 3)


def test_abstaining_always_costs_one_and_never_the_error() -> None:
    event = _claims(100)
    assert _ask(event, abstention=1, cost_ratio=5).value == pytest.approx(1.0)
    assert _ask(event, abstention=0, cost_ratio=5).value == pytest.approx(5 * (1 - event.y.mean()))


@pytest.mark.parametrize("abstention", [0.0, 0.1, 0.5, 1.0])
def test_the_influence_has_mean_zero_and_the_spread_of_resamples(abstention: float) -> None:
    event = _claims(2000)
    influence = selective_influence(event, abstention, 4.0)
    assert influence.mean() == pytest.approx(0.0, abs=1e-12)
    random = np.random.default_rng(3)
    drawn = [
        selective_costs(event.rows(random.integers(0, 2000, 2000)).cells, np.array([abstention]), np.array([4.0]))[0, 0]
        for _ in range(400)
    ]
    assert influence.std() / np.sqrt(2000) == pytest.approx(np.std(drawn), rel=0.15, abs=1e-12)


def test_the_influence_of_weighted_rows_has_weighted_mean_zero() -> None:
    event = _claims(400)
    w = np.random.default_rng(4).integers(0, 3, 400).astype(np.float64)
    weighted = Event(event.p, event.y, w, decided=True)
    assert w @ selective_influence(weighted, 0.33, 2.0) == pytest.approx(0.0, abs=1e-9)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    (request,) = read_requests([{"name": "selective-cost", "abstention": 0.3}])
    truth, covered = request.compute(_claims(2_000_000, 99)).value or 0.0, 0
    for seed in range(200):
        low, high = request.compute(_claims(400, seed), Resampling(0.9, 200, seed)).interval or (9.0, 0.0)
        covered += low <= truth <= high
    assert abs(covered - 180) <= 3.5 * np.sqrt(18)


def test_the_cost_plane_is_below_zero_where_the_first_model_costs_less() -> None:
    random = np.random.default_rng(5)
    c = random.random(500)
    y = (random.random(500) < c).astype(np.int8)
    good, bad = Event(c, y), Event(random.permutation(c), y)
    plane = cost_plane(good, bad)
    assert plane.relative.shape == (len(ABSTENTION), len(COST_RATIOS))
    assert (plane.relative[:-1] < 0).all()
    assert np.abs(plane.relative).max() <= 1.0
    assert cost_plane(bad, good).relative == pytest.approx(-plane.relative)
    larger = np.maximum(plane.first, plane.second)
    assert plane.relative == pytest.approx((plane.first - plane.second) / larger)
    for i, j in [(0, 0), (2, 3), (19, 6)]:
        alone = _ask(good, abstention=ABSTENTION[i], cost_ratio=COST_RATIOS[j]).value
        assert plane.first[i, j] == pytest.approx(alone)


def test_models_without_errors_cost_the_same() -> None:
    perfect = Event(np.array([0.1, 0.9]), np.array([0, 1], np.int8))
    wrong = Event(np.array([0.9, 0.1]), np.array([0, 1], np.int8))
    assert cost_plane(perfect, perfect, abstention=[0.0]).relative.max() == 0.0
    assert (cost_plane(perfect, wrong, abstention=[0.0]).relative == -1.0).all()
    vector = Vector(np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([0, 1]))
    assert cost_plane(perfect, vector).relative == pytest.approx(0.0)


def test_models_on_other_rows_are_not_compared() -> None:
    event = _claims(10)
    with pytest.raises(LengthMismatch):
        cost_plane(event, _claims(11))
    with pytest.raises(InvalidWeight):
        cost_plane(event, Event(event.p, event.y, np.ones(10)))
    for bad in ([], [1.2], ["a"], [np.nan]):
        with pytest.raises(InvalidOption):
            cost_plane(event, event, abstention=bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption):
        cost_plane(event, event, cost_ratios=[0.0])
