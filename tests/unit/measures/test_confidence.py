from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

import calibrant
from calibrant.core.errors import OneClass
from calibrant.core.reductions import Event
from calibrant.measures.catalogue import read_requests
from calibrant.measures.confidence import auroc, auroc_influence, overconfidence_spread
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureResult

NAMES = ["accuracy", "confidence-gap", "auroc"]


def _rows(n: int = 400, K: int = 3, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    P = np.round(random.dirichlet(np.ones(K), n), 2)
    P /= P.sum(axis=1, keepdims=True)
    return P, np.array([random.choice(K, p=row) for row in P])


def _ask(predictions: Any, labels: Any, name: str, **options: Any) -> MeasureResult:
    return calibrant.evaluate(predictions, labels, measures=[name], **options).measures[name]


def test_accuracy_and_the_gap_are_those_of_the_likeliest_class() -> None:
    P, y = _rows()
    right, confidence = P.argmax(axis=1) == y, P.max(axis=1)
    for reduction in ("confidence", "canonical"):
        assert _ask(P, y, "accuracy", reduction=reduction).value == pytest.approx(right.mean())
        gap = _ask(P, y, "confidence-gap", reduction=reduction)
        assert gap.value == pytest.approx(confidence.mean() - right.mean())
        spread = np.sqrt((confidence * (1 - confidence)).sum()) / len(y)
        assert gap.p_value == pytest.approx(2 * norm.sf(abs(confidence.mean() - right.mean()) / spread))
        assert gap.parts == pytest.approx({"accuracy": right.mean(), "confidence": confidence.mean()})


def test_an_undecided_event_is_decided_at_one_half() -> None:
    p, y = np.array([0.5, 0.2, 0.9, 0.4]), np.array([1, 0, 0, 1])
    assert _ask(p, y, "accuracy").value == 0.5
    assert _ask(p, y, "confidence-gap").value == pytest.approx((0.5 + 0.8 + 0.9 + 0.6) / 4 - 0.5)
    columns = np.stack([1 - p, p], axis=1)
    assert _ask(columns, y, "accuracy", reduction="binary").value == 0.5


def test_the_gap_has_a_uniform_p_value_on_calibrated_rows_and_on_pooled_ones() -> None:
    random = np.random.default_rng(1)
    p_values: dict[str, list[float]] = {"confidence": [], "pooled": []}
    for _ in range(400):
        P = random.dirichlet(np.full(4, 0.7), 100)
        y = (P.cumsum(axis=1) < random.random(100)[:, None]).sum(axis=1)
        for reduction, of_reduction in p_values.items():
            of_reduction.append(_ask(P, y, "confidence-gap", reduction=reduction).p_value or 0.0)
    for of_reduction in p_values.values():
        # Three binomial standard errors about 10 % and 50 %.
        assert abs(np.mean(np.array(of_reduction) < 0.1) - 0.1) < 3 * np.sqrt(0.09 / 400)
        assert abs(np.mean(np.array(of_reduction) < 0.5) - 0.5) < 3 * np.sqrt(0.25 / 400)


def test_the_spread_of_pooled_rows_is_that_of_one_draw_a_row() -> None:
    P = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    event = Event(P.ravel(), np.zeros(6, np.int8), per_row=3)
    variance = 0.0
    for row in P:
        right = np.array([sum((row[k] >= 0.5) == (k == label) for k in range(3)) for label in range(3)])
        variance += row @ right**2 - (row @ right) ** 2
    assert overconfidence_spread(event) == pytest.approx(np.sqrt(variance) / 6)


def test_certain_and_right_predictions_leave_no_gap() -> None:
    answer = _ask([0.0, 1.0, 1.0], [0, 1, 1], "confidence-gap")
    assert (answer.value, answer.p_value) == (0.0, 1.0)
    assert _ask([0.0, 1.0, 1.0], [0, 1, 0], "confidence-gap").p_value == 0.0


def test_auroc_is_scikit_learns_with_ties_and_weights() -> None:
    random = np.random.default_rng(2)
    p, y, w = random.integers(0, 12, 500) / 11, random.integers(0, 2, 500), random.integers(0, 4, 500)
    assert _ask(p, y, "auroc").value == pytest.approx(roc_auc_score(y, p), abs=1e-12)
    assert _ask(p, y, "auroc", weights=w).value == pytest.approx(roc_auc_score(y, p, sample_weight=w), abs=1e-12)
    real = random.random(500)
    assert _ask(p, y, "auroc", weights=real).value == pytest.approx(roc_auc_score(y, p, sample_weight=real), abs=1e-12)


def test_auroc_asks_whether_confidence_ranks_right_decisions_above_wrong_ones() -> None:
    P, y = _rows()
    expected = roc_auc_score(P.argmax(axis=1) == y, P.max(axis=1))
    assert _ask(P, y, "auroc", reduction="confidence").value == pytest.approx(expected, abs=1e-12)
    assert _ask(P, y, "auroc", reduction="canonical").value == pytest.approx(expected, abs=1e-12)
    of_class = [roc_auc_score(y == k, P[:, k]) for k in range(3)]
    assert _ask(P, y, "auroc", reduction="class:1").value == pytest.approx(of_class[1], abs=1e-12)
    assert _ask(P, y, "auroc", reduction="classwise").value == pytest.approx(np.mean(of_class), abs=1e-12)
    one_hot = np.eye(3)[y].ravel()
    assert _ask(P, y, "auroc", reduction="pooled").value == pytest.approx(roc_auc_score(one_hot, P.ravel()), abs=1e-12)


def test_auroc_of_one_prediction_is_a_half_and_of_one_outcome_a_problem() -> None:
    assert _ask([0.3, 0.3, 0.3], [0, 1, 1], "auroc").value == 0.5
    answer = _ask([0.3, 0.4], [1, 1], "auroc")
    assert answer.value is None
    assert "one outcome" in (answer.problem or "")
    with pytest.raises(OneClass):
        auroc(Event(np.array([0.3, 0.4]), np.array([1, 0], np.int8), np.array([1.0, 0.0])).cells)


def test_a_class_that_is_missing_is_left_out_of_the_class_wise_auroc() -> None:
    P, y = _rows()
    y[y == 2] = 0
    answer = _ask(P, y, "auroc", reduction="classwise")
    assert answer.value == pytest.approx(np.mean([roc_auc_score(y == k, P[:, k]) for k in range(2)]))
    assert "classes 2" in (answer.problem or "")


def test_the_influence_on_auroc_is_its_derivative_in_the_weights() -> None:
    random = np.random.default_rng(3)
    p, y, w = random.integers(0, 9, 60) / 8, random.integers(0, 2, 60).astype(np.int8), random.random(60)
    w[7] = 0.0
    event = Event(p, y, w)
    influence = auroc_influence(event)
    assert w @ influence == pytest.approx(0.0, abs=1e-12)
    for row in (0, 11, 23):
        step = np.where(np.arange(60) == row, 1e-6, 0.0)
        slope = (auroc(Event(p, y, w + step).cells) - auroc(Event(p, y, w).cells)) / 1e-6
        assert slope * w.sum() == pytest.approx(influence[row], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_intervals_cover_the_truth_as_often_as_they_say(name: str) -> None:
    """Truth from c uniform, p = c^1.5: a large draw of the same world."""
    random = np.random.default_rng(4)

    def draw(n: int) -> Event:
        c = random.random(n)
        return Event(c**1.5, (random.random(n) < c).astype(np.int8))

    (request,) = read_requests([name])
    truth = request.compute(draw(2_000_000)).value or 0.0
    covered = 0
    for seed in range(200):
        low, high = request.compute(draw(300), Resampling(0.9, 200, seed)).interval or (1.0, 0.0)
        covered += low <= truth <= high
    assert abs(covered - 180) <= 3.5 * np.sqrt(200 * 0.9 * 0.1)


@pytest.mark.parametrize("name", [*NAMES, "optimal-temperature", "ece-after-temperature", "selective-cost"])
def test_the_order_of_rows_cannot_matter_for_values_nor_intervals(name: str) -> None:
    P, y = _rows()
    w = np.random.default_rng(6).integers(0, 3, len(y)) / 2
    order = np.random.default_rng(7).permutation(len(y))
    for reduction in ("confidence", "canonical", "class:0", "classwise", "pooled"):
        first = _ask(P, y, name, reduction=reduction, weights=w, interval=0.9)
        other = _ask(P[order], y[order], name, reduction=reduction, weights=w[order], interval=0.9)
        assert first.value == pytest.approx(other.value, rel=1e-9)
        if reduction in ("confidence", "class:0"):
            assert first.interval == pytest.approx(other.interval, rel=1e-6)
        assert first.interval is not None
        assert first.interval[0] <= first.interval[1]


def test_auroc_of_the_confidence_of_an_event_is_that_of_two_columns_under_confidence() -> None:
    random = np.random.default_rng(12)
    p = np.round(random.random(300), 2)
    y = (random.random(300) < p).astype(int)
    requests = [{"name": "auroc", "of": "confidence"}]
    auroc = calibrant.evaluate(p, y, measures=requests).measures["auroc"].value
    assert auroc != calibrant.evaluate(p, y, measures=["auroc"]).measures["auroc"].value
    # Of p = 1/2 the decision is class 1 for an event and the first class for a vector.
    even = p != 0.5
    auroc = calibrant.evaluate(p[even], y[even], measures=requests).measures["auroc"].value
    P = np.column_stack([1.0 - p, p])[even]
    other = calibrant.evaluate(P, y[even], measures=["auroc"], reduction="confidence").measures["auroc"].value
    assert auroc == pytest.approx(other)
