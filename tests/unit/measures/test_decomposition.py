from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from calibrant.core.reductions import Event
from calibrant.measures.proper import binned_decomposition, corp_decomposition, mean_score
from tests.known import known
from tests.unit.measures.drawn import answer_of, drawn_event, drawn_vector, rows_of

CLIP = 2.0**-52


def _pooled(p: Any, y: Any, w: Any) -> npt.NDArray[np.float64]:
    """The isotonic fit by its definition: max over starts of the min over ends of the mean label between them."""
    levels = np.unique(p)
    total = np.array([w[p == q].sum() for q in levels])
    positive = np.array([(w * y)[p == q].sum() for q in levels])
    m = len(levels)
    means = np.full((m, m), np.inf)
    for i in range(m):
        means[i, i:] = np.cumsum(positive[i:]) / np.cumsum(total[i:])
    fit = np.array([max(means[i, j:].min() for i in range(j + 1)) for j in range(m)])
    pooled: npt.NDArray[np.float64] = fit[np.searchsorted(levels, p)]
    return pooled


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("score", ["brier", "log-loss"])
def test_corp_is_scores_of_the_predictions_the_isotonic_fit_and_the_base_rate(score: Any, weighted: bool) -> None:
    event = drawn_event(150, digits=1)
    w = np.random.default_rng(2).random(150) + 0.1 if weighted else np.ones(150)
    x, rate = _pooled(event.p, event.y, w), np.average(event.y, weights=w)

    def mean(q: Any, clip: float = 0.0) -> float:
        q = np.clip(q, clip, 1.0 - clip)
        own = np.where(event.y == 1, q, 1.0 - q)
        return float(np.average((1.0 - own) ** 2 if score == "brier" else -np.log(own), weights=w))

    answer = answer_of({"name": "decomposition", "score": score}, *rows_of(event), weights=w if weighted else None)
    score_given, best, flat = mean(event.p, CLIP), mean(x), mean(np.full(150, rate))
    assert answer.value == pytest.approx(score_given - best)
    assert answer.parts["score"] == pytest.approx(score_given)
    assert answer.parts["discrimination"] == pytest.approx(flat - best)
    assert answer.parts["uncertainty"] == pytest.approx(flat)


def test_corp_with_log_loss_scores_pure_blocks_at_zero() -> None:
    answer = answer_of({"name": "decomposition", "score": "log-loss"}, [0.0, 0.2, 0.8, 1.0], [0, 0, 1, 1])
    assert answer.value == pytest.approx(-2.0 * np.log(0.8) / 4.0)
    assert answer.parts["discrimination"] == pytest.approx(np.log(2.0))
    assert answer.parts["clipped"] == 2
    pure = answer_of({"name": "decomposition", "score": "log-loss"}, [0.2, 0.8], [1, 1])
    assert (pure.parts["discrimination"], pure.parts["uncertainty"]) == (0.0, 0.0)
    assert pure.value == pytest.approx(-np.log(0.16) / 2.0)


def test_binned_terms_are_those_of_stephenson() -> None:
    event = drawn_event(200)
    answer = answer_of(
        {"name": "decomposition", "method": "binned", "binning": "equal-width", "n_bins": 5}, *rows_of(event)
    )
    bin_of = np.minimum(np.searchsorted(np.arange(1, 5) / 5, event.p, side="right"), 4)
    reliability = resolution = variance = covariance = 0.0
    for k in range(5):
        p, y = event.p[bin_of == k], event.y[bin_of == k]
        reliability += len(p) * (p.mean() - y.mean()) ** 2 / 200
        resolution += len(p) * (y.mean() - event.y.mean()) ** 2 / 200
        variance += ((p - p.mean()) ** 2).sum() / 200
        covariance += 2.0 * ((p - p.mean()) * (y - y.mean())).sum() / 200
    rate = event.y.mean()
    expected = {
        "score": np.mean((event.p - event.y) ** 2),
        "miscalibration": reliability,
        "discrimination": resolution,
        "uncertainty": rate * (1.0 - rate),
        "within_bins": variance - covariance,
        "within_bin_variance": variance,
        "within_bin_covariance": covariance,
    }
    assert answer.parts == pytest.approx(expected)
    assert answer.value == pytest.approx(reliability)
    same = answer_of({"name": "ece", "norm": 2, "binning": "equal-width", "n_bins": 5}, *rows_of(event))
    assert (answer.value, answer.debiased) == pytest.approx((same.value, same.debiased))


@pytest.mark.parametrize("kind", ["frequency", "importance"])
@pytest.mark.parametrize("seed", range(12))
def test_decompositions_add_up(seed: int, kind: Any) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 60))
    p = random.choice([0.0, 0.1, 0.25, 0.5, 1.0], n) if seed % 2 else random.random(n)
    event = Event(p, (random.random(n) < random.random()).astype(np.int8), random.random(n) * 3.0, kind)
    score: Any
    for score in ("brier", "log-loss"):
        expected = mean_score(event, score)
        decompositions = [corp_decomposition(event.cells, score)]
        decompositions += [
            binned_decomposition(event.cells, score, b, k) for b in ("equal-mass", "equal-width") for k in (1, 7)
        ]
        for terms in decompositions:
            assert terms.score == pytest.approx(expected, rel=1e-12)
            total = terms.miscalibration - terms.discrimination + terms.uncertainty + (terms.within_bins or 0.0)
            assert total == pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert min(terms.miscalibration, terms.discrimination, terms.uncertainty) >= 0.0


def test_the_vectors_decomposition_is_the_sum_of_its_classes() -> None:
    vector = drawn_vector()
    for method in ("corp", "binned"):
        request = {"name": "decomposition", "method": method}
        whole = answer_of(request, vector.p, vector.labels, reduction="canonical")
        parts = [answer_of(request, vector.p, vector.labels, reduction=f"class:{k}") for k in range(4)]
        assert whole.value == pytest.approx(sum(part.value or 0.0 for part in parts))
        for name in whole.parts:
            assert whole.parts[name] == pytest.approx(sum(part.parts[name] for part in parts))
        brier = answer_of("brier", vector.p, vector.labels, reduction="canonical").value
        assert whole.parts["score"] == pytest.approx(brier)
    refused = answer_of({"name": "decomposition", "score": "log-loss"}, vector.p, vector.labels, reduction="canonical")
    assert refused.value is None
    assert "only the score brier" in (refused.problem or "")


def test_the_interval_of_a_binned_decomposition_is_that_of_the_same_ece() -> None:
    event = drawn_event()
    request = {"name": "decomposition", "method": "binned"}
    assert answer_of(request, *rows_of(event), interval=0.9).interval == pytest.approx(
        answer_of({"name": "ece", "norm": 2}, *rows_of(event), interval=0.9).interval
    )
    vector = drawn_vector()
    whole = answer_of(request, vector.p, vector.labels, reduction="canonical", interval=0.9)
    assert whole.interval is not None
    assert 0.0 <= whole.interval[0] <= known(whole.value) <= whole.interval[1]


@pytest.mark.parametrize("score", ["brier", "log-loss"])
def test_bins_that_hold_one_outcome_alone_have_a_finite_divergence(score: Any) -> None:
    random = np.random.default_rng(3)
    p, w = random.random(300), random.exponential(size=300)
    y = (random.random(300) < p).astype(int)
    request = {"name": "decomposition", "method": "binned", "score": score, "n_bins": 200}
    answer = answer_of(request, p, y, weights=w)
    assert np.isfinite([known(answer.value), *answer.parts.values()]).all()
