"""The threshold from costs, a capacity, or a guaranteed bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import calibrant
from calibrant.core.errors import CalibrationError
from tests.known import known
from tests.refusals import refused_at
from tests.rows import draw_distorted, draw_event

P, Y = draw_event(1000, 21)


def _interval(best: calibrant.DecisionThreshold, name: str) -> tuple[float, float]:
    return known(best[name].interval)


def test_costs_determine_the_threshold_for_any_labels() -> None:
    best = calibrant.best_threshold(P, Y, costs=(1.0, 4.0))
    assert best.threshold == calibrant.best_threshold(P, 1 - Y[::-1], costs=(2.0, 8.0)).threshold == 0.2
    positive = P >= 0.2
    cost = np.mean(positive * (1 - Y) * 1.0 + ~positive * Y * 4.0)
    assert best["cost"].value == pytest.approx(cost)
    assert best["precision"].value == pytest.approx(Y[positive].mean())
    assert best["recall"].value == pytest.approx(positive[Y == 1].mean())
    assert best["positive"].value == pytest.approx(positive.mean())
    for name in ("cost", "precision", "recall", "positive", "excess-cost"):
        low, high = _interval(best, name)
        assert low <= float(best[name]) <= high


def test_miscalibration_costs_what_recalibrated_decisions_avoid() -> None:
    p, y = draw_distorted(5000, 22, power=4.0)
    wrong = _interval(calibrant.best_threshold(p, y, costs=(1.0, 1.0)), "excess-cost")
    truth = np.mean(np.where((p >= 0.5) != (p**0.25 >= 0.5), np.abs(1.0 - 2.0 * p**0.25), 0.0))
    assert 0.05 < wrong[0] < truth < wrong[1]
    right = _interval(calibrant.best_threshold(p**0.25, y, costs=(1.0, 1.0)), "excess-cost")
    assert right[0] < 0.0 < right[1] + 1e-3


def test_an_excess_needs_as_many_rows_as_folds() -> None:
    best = calibrant.best_threshold([0.1, 0.9], [0, 1], costs=(1, 1))
    assert best["excess-cost"].problem == "no value: 10 folds need at least 10 rows"
    assert best["recall"].value == 1.0


@pytest.mark.parametrize(("capacity", "positive"), [(2, 2), (100, 100), (0.25, 250), (1000, 1000), (10_000, 1000)])
def test_a_capacity_is_used_and_not_exceeded(capacity: float, positive: int) -> None:
    best = calibrant.best_threshold(P, Y, capacity=capacity)
    assert np.count_nonzero(best.threshold <= P) == positive
    assert best["precision"].interval is not None


def test_equal_predictions_are_decided_alike() -> None:
    p = np.repeat([0.9, 0.6, 0.1], [3, 2, 5])
    best = calibrant.best_threshold(p, np.arange(10) % 2, capacity=4)
    assert best.threshold == 0.9
    assert best["positive"].value == pytest.approx(0.3)
    with pytest.raises(CalibrationError, match="is less than the number of rows that share the largest prediction"):
        calibrant.best_threshold(p, np.arange(10) % 2, capacity=2)


def test_a_bound_on_recall_is_the_tolerance_limit_of_the_events() -> None:
    best = calibrant.best_threshold(P, Y, recall=0.8)
    of_events = np.sort(P[Y == 1])
    missed = max(k for k in range(len(of_events)) if binom.cdf(k, len(of_events), 0.2) <= 0.05)
    assert best.threshold == of_events[missed]
    assert best["recall"].interval is None
    assert best["recall"].problem == "no interval: these labels chose the threshold"


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["precision", "recall"])
def test_a_guaranteed_bound_fails_in_at_most_five_percent_of_samples(criterion: str) -> None:
    failed = 0
    for run in range(200):
        p, y = draw_event(1500, [run, 3])
        t = calibrant.best_threshold(p, y, **{criterion: 0.75}).threshold  # type: ignore[arg-type]
        truth = (1.0 + t) / 2.0 if criterion == "precision" else 1.0 - t * t
        failed += truth < 0.75
    assert failed <= 16  # 10 are expected at most; 17 or more have a probability of 0.02


def test_a_bound_that_no_threshold_reaches_is_refused_with_the_best() -> None:
    with refused_at(
        "/precision", CalibrationError, match=r"precision is not reached: .* the best has a guaranteed 0\.\d+"
    ):
        calibrant.best_threshold(np.sqrt(P), np.random.default_rng(0).integers(0, 2, 1000), precision=0.9)
    with pytest.raises(CalibrationError, match="it needs at least 59 events, and there are 2"):
        calibrant.best_threshold([0.1, 0.4, 0.9], [0, 1, 1], recall=0.95)
    with pytest.raises(CalibrationError, match="at this level with fewer than 51 rows"):
        calibrant.best_threshold([0.1, 0.4, 0.9], [0, 1, 1], precision=0.9)


def test_frequency_weights_are_repeated_rows_in_every_guarantee() -> None:
    w = np.random.default_rng(1).integers(1, 4, 1000)
    repeated = np.repeat(np.arange(1000), w)
    for criterion in ({"capacity": 300}, {"precision": 0.7}, {"recall": 0.7}):
        counted = calibrant.best_threshold(P, Y, weights=w, weights_kind="frequency", **criterion)
        whole = calibrant.best_threshold(P[repeated], Y[repeated], **criterion)
        assert counted.threshold == whole.threshold


@pytest.mark.parametrize(
    ("change", "pointer", "text"),
    [
        ({}, "/costs", "are missing: one of costs, capacity, precision and recall determines the threshold"),
        ({"costs": (1, 2), "recall": 0.9}, "/recall", "pass exactly one"),
        *(
            ({"costs": costs}, "/costs", "must be two numbers above 0")
            for costs in ((1,), (1, 2, 3), (0, 1), (1, -1), ("a", "b"), 5, (1, np.inf), (np.nan, 1), (0, 0))
        ),
        *(
            (
                {"capacity": capacity},
                "/capacity",
                "rows from 2, or a fraction of the rows below 1; 1 can be one row or all",
            )
            for capacity in (0, -1, 1, 1.0, 1.5, "5", True, np.inf, np.nan)
        ),
        ({"precision": 1.0}, "/precision", "must be a number between 0 and 1"),
        ({"recall": 0}, "/recall", "must be a number between 0 and 1"),
        ({"recall": 0.5, "weights": P}, "/recall", "needs frequency weights or none"),
        ({"capacity": 5, "weights": P}, "/capacity", "needs a fraction below 1"),
        ({"costs": (1, 2), "interval": 2}, "/interval", "must be a number between 0 and 1"),
        ({"costs": (1, 2), "reduction": "canonical"}, "/reduction", "must be binary"),
    ],
)
def test_invalid_arguments_are_named(change: dict[str, Any], pointer: str, text: str) -> None:
    with refused_at(pointer, CalibrationError, match=text):
        calibrant.best_threshold(P, Y, **change)


def test_decisions_of_several_columns_need_the_event() -> None:
    two_columns, three_columns = np.column_stack([1.0 - P, P]), np.column_stack([1.0 - P, P / 2.0, P / 2.0])
    for call in (calibrant.best_threshold, calibrant.decision_curve):
        arguments: dict[str, Any] = {"costs": (1, 4)} if call is calibrant.best_threshold else {"thresholds": [0.2]}
        with refused_at("/reduction", CalibrationError, match=r"binary decides by P\(Y = 1\), confidence by"):
            call(two_columns, Y, **arguments)
        with pytest.raises(CalibrationError, match="class:k decides by that of class k, confidence by"):
            call(three_columns, Y, **arguments)
        assert call(two_columns, Y, reduction="binary", **arguments).to_dict() == call(P, Y, **arguments).to_dict()
        assert call(two_columns, Y, reduction="confidence", **arguments).n == len(Y)
    assert (
        calibrant.cost_plane(two_columns, two_columns, Y).relative.max() == 0.0
    )  # which abstains from unsure decisions


def test_a_capacity_with_importance_weights_is_a_fraction_of_the_mass() -> None:
    best = calibrant.best_threshold([0.9, 0.6, 0.1], [1, 0, 0], weights=[1.0, 2.0, 7.0], capacity=0.3)
    assert best.threshold == 0.6


def test_results_are_shown_and_written() -> None:
    best = calibrant.best_threshold(P, Y, costs=(1, 4))
    assert repr(best).startswith("Threshold 0.2, from costs")
    written = best.to_dict()
    assert written["measures"]["cost"]["value"] == best["cost"].value
    assert (written["criterion"], written["level"], written["n"]) == ("costs", 0.95, 1000)


@pytest.mark.parametrize("criterion", ["precision", "recall"])
def test_bounds_that_need_independent_rows_refuse_clusters(criterion: str) -> None:
    bound: dict[str, Any] = {criterion: 0.5}
    with refused_at("/clusters", calibrant.CalibrationError, match="independent rows"):
        calibrant.best_threshold(P, Y, clusters=np.arange(len(P)) // 2, **bound)


def test_costs_of_rows_that_are_repeated_in_their_cluster_have_the_interval_of_the_rows() -> None:
    rows = calibrant.best_threshold(P, Y, costs=(1, 4), clusters=np.arange(len(P)))
    again = calibrant.best_threshold(np.tile(P, 2), np.tile(Y, 2), costs=(1, 4), clusters=np.tile(np.arange(len(P)), 2))
    for name in ("positive", "precision", "recall", "cost", "net-benefit"):
        assert again[name].interval == pytest.approx(rows[name].interval, abs=1e-12)


def test_the_net_benefit_beside_the_cost_is_that_of_the_decision_curve() -> None:
    best = calibrant.best_threshold(P, Y, costs=(1, 4))
    curve = calibrant.decision_curve(P, Y, thresholds=[0.2]).net_benefit
    net_benefit = best["net-benefit"]
    ends = [float(end[0]) for end in (curve["model"].value, curve["model"].low, curve["model"].high)]
    assert [net_benefit.value, *(net_benefit.interval or ())] == pytest.approx(ends, abs=1e-12)
    assert net_benefit.parts["treat_all"] == pytest.approx(float(curve["treat all"].value[0]), abs=1e-12)
    # A cost of 4 for each event, minus 4 times the net benefit, is the cost.
    assert 4.0 * (float(np.mean(Y)) - ends[0]) == pytest.approx(best["cost"].value, abs=1e-12)


@pytest.mark.parametrize("criterion", [{"capacity": 0.3}, {"precision": 0.6}, {"recall": 0.5}])
def test_rows_without_weight_give_no_threshold(criterion: dict[str, Any]) -> None:
    random = np.random.default_rng(5)
    p = random.random(200)
    y, counts = (random.random(200) < p).astype(int), random.integers(0, 4, 200)
    repeated = calibrant.best_threshold(np.repeat(p, counts), np.repeat(y, counts), **criterion)
    weighted = calibrant.best_threshold(p, y, weights=counts, weights_kind="frequency", **criterion)
    assert weighted.threshold == repeated.threshold
