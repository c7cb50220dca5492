from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import softmax
from sklearn.metrics import brier_score_loss, log_loss

import calibrant
from benchmarks.agreement import inputs
from calibrant.core.reductions import Event, Vector
from calibrant.measures.intervals import Resampling
from calibrant.measures.proper import LEAST_ENTROPY, ScoreName, centred, row_scores, spread
from tests.unit.measures.drawn import answer_of, drawn_event, drawn_vector, rows_of

CLIP = 2.0**-52
SCORES: list[ScoreName] = ["brier", "log-loss", "spherical"]


def test_scores_are_those_of_scikit_learn() -> None:
    P, y = inputs("ten classes")
    assert answer_of("brier", P, y, reduction="canonical").value == pytest.approx(
        brier_score_loss(y, P, scale_by_half=False)
    )
    assert answer_of("log-loss", P, y, reduction="canonical").value == pytest.approx(log_loss(y, P))
    event = drawn_event()
    w = np.random.default_rng(1).random(len(event))
    for weights in (None, w):
        options = {"weights": weights}
        brier = brier_score_loss(event.y, event.p, sample_weight=weights)
        assert answer_of("brier", *rows_of(event), **options).value == pytest.approx(brier)
        loss = log_loss(event.y, event.p, sample_weight=weights)
        assert answer_of("log-loss", *rows_of(event), **options).value == pytest.approx(loss)


def test_two_columns_are_binary_and_the_sum_over_both_is_twice_that() -> None:
    p, y = rows_of(drawn_event())
    columns = np.stack([1.0 - p, p], axis=1)
    binary = answer_of("brier", columns, y, reduction="binary")
    whole = answer_of("brier", columns, y, reduction="canonical")
    assert binary.value == pytest.approx(np.mean((p - y) ** 2), rel=1e-14)
    assert whole.value == pytest.approx(2.0 * np.mean((p - y) ** 2), rel=1e-14)
    assert (binary.definition["brier"], whole.definition["brier"]) == ("binary", "sum over classes")
    # The released code has one column of labels for two classes, y itself, and takes it from both columns of P.
    theirs = np.mean(((columns - y[:, None]) ** 2).sum(axis=1))
    assert theirs - whole.value == pytest.approx(np.mean((1.0 - p - y) ** 2 - (y - p) ** 2))
    assert theirs - whole.value > 0.3


def test_log_loss_clips_at_the_spacing_of_doubles_and_counts_the_clipped_rows() -> None:
    p, y = np.array([0.0, 0.0, 1.0, 1.0, 0.5]), np.array([1, 0, 0, 1, 1])
    answer = answer_of("log-loss", p, y)
    by_hand = (2 * 52 * np.log(2.0) + 2 * CLIP + np.log(2.0)) / 5
    assert answer.value == pytest.approx(by_hand, rel=1e-12)
    assert answer.parts == {"clipped": 4}
    assert answer_of("log-loss", p, y, reduction="canonical").value == pytest.approx(by_hand, rel=1e-12)
    assert answer_of("log-loss", p, y, weights=[0, 1, 1, 1, 1]).parts == {"clipped": 3}


def test_the_spherical_score_is_its_formula() -> None:
    vector = drawn_vector()
    own = vector.p[np.arange(len(vector)), vector.labels]
    assert row_scores(vector, "spherical") == pytest.approx(-own / np.sqrt((vector.p**2).sum(axis=1)))
    event = drawn_event()
    columns = Vector(np.stack([1.0 - event.p, event.p], axis=1), event.y.astype(np.int64))
    assert row_scores(event, "spherical") == pytest.approx(row_scores(columns, "spherical"))


@pytest.mark.parametrize("score", SCORES)
def test_the_least_entropy_is_that_of_a_certain_outcome_and_no_other_is_less(score: ScoreName) -> None:
    P = np.vstack([np.eye(3), np.random.default_rng(0).dirichlet(np.ones(3), 200)])
    expected = [row_scores(Vector(P, np.full(len(P), k)), score) for k in range(3)]
    entropy = np.sum([P[:, k] * expected[k] for k in range(3)], axis=0)
    assert entropy.min() >= LEAST_ENTROPY[score] - 1e-12
    assert entropy[:3] == pytest.approx(LEAST_ENTROPY[score], abs=1e-12)


@pytest.mark.parametrize("score", SCORES)
def test_the_upper_bound_is_no_less_than_the_calibration_error(score: ScoreName) -> None:
    random = np.random.default_rng(3)
    truth = random.dirichlet(np.ones(3), 8)
    kinds = random.integers(0, 8, 4000)
    predicted = softmax(2.0 * np.log(truth), axis=1)
    labels = np.array([random.choice(3, p=truth[k]) for k in kinds])
    seen = np.array([np.bincount(labels[kinds == k], minlength=3) / (kinds == k).sum() for k in range(8)])

    def expected(P: Any, Q: Any) -> Any:
        return sum(Q[:, k] * row_scores(Vector(P, np.full(len(P), k)), score) for k in range(3))

    share = np.bincount(kinds) / len(kinds)
    error = share @ (expected(predicted, seen) - expected(seen, seen))
    bound = answer_of({"name": "upper-bound", "score": score}, predicted[kinds], labels, reduction="canonical").value
    assert bound is not None
    assert bound >= error > 0.0
    # It exceeds it by the mean entropy of the truth above the least one.
    assert bound - error == pytest.approx(share @ expected(seen, seen) - LEAST_ENTROPY[score])


def test_the_root_brier_score_bounds_the_canonical_error() -> None:
    P, y = inputs("ten classes")
    root = answer_of("root-brier", P, y, reduction="canonical").value
    assert root == pytest.approx(np.mean(((P - np.eye(10)[y]) ** 2).sum(axis=1)) ** 0.5)
    assert root is not None
    assert root > (answer_of({"name": "kde-ce", "bandwidth": 0.1}, P, y, reduction="canonical").debiased or np.inf)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("subject", [drawn_event(), drawn_vector()], ids=["event", "vector"])
def test_sharpness_is_the_entropy_of_the_mean_less_the_mean_entropy(subject: Event | Vector, score: ScoreName) -> None:
    P = subject.p if isinstance(subject, Vector) else np.stack([1.0 - subject.p, subject.p], axis=1)

    def entropy(Q: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if score == "brier":
            both: npt.NDArray[np.float64] = 1.0 - (Q**2).sum(axis=1)
            return both if isinstance(subject, Vector) else both / 2.0
        if score == "spherical":
            norms: npt.NDArray[np.float64] = np.linalg.norm(Q, axis=1)
            return -norms
        logs: npt.NDArray[np.float64] = np.sum(Q * np.log(np.where(Q > 0.0, Q, 1.0)), axis=1)
        return -logs

    assert spread(subject, score).mean() == pytest.approx(entropy(P.mean(axis=0)[None])[0] - entropy(P).mean())


def test_sharpness_of_the_brier_score_is_the_variance() -> None:
    event, vector = drawn_event(), drawn_vector()
    assert answer_of("sharpness", *rows_of(event)).value == pytest.approx(event.p.var())
    whole = answer_of("sharpness", vector.p, vector.labels, reduction="canonical").value
    assert whole == pytest.approx(vector.p.var(axis=0).sum())
    assert answer_of("sharpness", np.full(5, 0.3), [0, 1, 0, 1, 1]).value == pytest.approx(0.0, abs=1e-30)


@pytest.mark.parametrize("score", SCORES)
def test_influences_have_mean_zero_and_are_what_a_row_moves(score: ScoreName) -> None:
    event = drawn_event(200)
    w = np.random.default_rng(6).random(200)
    for compute in (row_scores, spread):
        weighted = Event(event.p, event.y, w)
        influence = centred(compute(weighted, score), w)
        assert influence @ w == pytest.approx(0.0, abs=1e-10)
        moved = w.copy()
        moved[17] += 1e-6
        heavier = Event(event.p, event.y, moved)
        change = np.average(compute(heavier, score), weights=moved) - np.average(compute(weighted, score), weights=w)
        assert change / 1e-6 == pytest.approx(influence[17] / w.sum(), rel=1e-3, abs=1e-8)


@pytest.mark.parametrize("name", ["brier", "root-brier", "log-loss", "upper-bound", "sharpness"])
def test_intervals_are_as_wide_as_the_spread_of_fresh_values(name: str) -> None:
    widths, estimates = [], []
    for seed in range(60):
        event = drawn_event(400, seed, digits=9)
        answer = answer_of(name, *rows_of(event), interval=0.95)
        assert answer.interval is not None
        assert answer.value is not None
        assert answer.interval[0] < answer.value < answer.interval[1]
        widths.append(answer.interval[1] - answer.interval[0])
        estimates.append(answer.value)
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.std(estimates), rel=0.3)


def test_a_perfect_root_brier_score_has_no_interval() -> None:
    answer = answer_of("root-brier", [0.0, 1.0, 1.0], [0, 1, 1], interval=0.9)
    assert answer.interval is None
    assert "vary too little" in (answer.problem or "")


def test_resampling_levels_do_not_move_values() -> None:
    event = drawn_event()
    request = calibrant.MEASURES["brier"]
    assert request.event is not None
    assert request.event(event, Resampling(0.9)).value == request.event(event, Resampling()).value
