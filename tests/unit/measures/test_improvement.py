from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import KFold

import calibrant
from calibrant.core.batch import read_batch
from calibrant.core.reductions import Event, whole_vector
from calibrant.core.validation import folds_of
from calibrant.measures.improvement import improvement, out_of_fold
from tests.known import known
from tests.rows import draw_classes, draw_distorted

Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


def _rows(n: int = 600, seed: int = 0, power: float = 2.0) -> Rows:
    return draw_distorted(n, seed, power)


def _improvement(measure: dict[str, Any], *arguments: Any, **options: Any) -> calibrant.MeasureResult:
    request = {"name": "recalibration-improvement", **measure, "as": "it"}
    return calibrant.evaluate(*arguments, measures=[request], **options).measures["it"]


def _assert_gain(gained: calibrant.MeasureResult, none: calibrant.MeasureResult) -> None:
    assert gained.interval is not None
    assert gained.value is not None
    assert 0.0 < gained.interval[0] < gained.value < gained.interval[1]
    assert gained.value == pytest.approx(gained.parts["before"] - gained.parts["after"])
    assert known(none.value) < gained.interval[0] / 2


@pytest.mark.parametrize("method", ["platt", "beta", "isotonic", "temperature", "ets"])
@pytest.mark.parametrize("score", ["brier", "log-loss"])
def test_miscalibrated_predictions_gain_and_calibrated_ones_do_not(method: str, score: str) -> None:
    options_of_request = {"method": method, "score": score}
    gained = _improvement(options_of_request, *_rows(1500), interval=0.95)
    assert ("clipped" in gained.parts) == (score == "log-loss")
    none = _improvement(options_of_request, *_rows(1500, power=1.0))
    _assert_gain(gained, none)


def test_each_fold_is_calibrated_by_the_others() -> None:
    p, y = _rows(203)
    order = np.lexsort((y, p))
    q = p.copy()
    for train, held in KFold(7, shuffle=True, random_state=11).split(order):
        fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(p[order[train]], y[order[train]])
        q[order[held]] = fitted.predict(p[order[held]])
    gain = _improvement({"method": "isotonic", "folds": 7}, p, y, seed=11)
    assert gain.value == pytest.approx(np.mean((p - y) ** 2) - np.mean((q - y) ** 2), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "score"), [("temperature", "brier"), ("ets", "log-loss"), ("iop-diagonal", "brier")]
)
def test_overconfident_vectors_gain_and_calibrated_ones_do_not(method: str, score: str) -> None:
    options_of_request = {"method": method, "score": score, "folds": 3}
    logits, labels, truth = calibrant.logistic_normal(1200, n_classes=4, temperature=2.0, accuracy=0.7, seed=0)
    gained = _improvement(options_of_request, logits, labels, scale="logit", reduction="canonical", interval=0.95)
    none = _improvement(options_of_request, truth, labels, reduction="canonical")
    _assert_gain(gained, none)


def test_vectors_of_a_fold_are_calibrated_by_the_other_folds() -> None:
    P, y = draw_classes(150)
    vector = whole_vector(read_batch(P, y))
    fold, q = folds_of(vector, 5, 3), P.copy()
    for number in range(5):
        fitted = calibrant.fit("ets", P[fold != number], y[fold != number], reduction="canonical")
        q[fold == number] = fitted.apply(P[fold == number])
    one_hot = np.eye(P.shape[1])[y]
    expected = np.mean(((P - one_hot) ** 2).sum(axis=1) - ((q - one_hot) ** 2).sum(axis=1))
    gain = _improvement({"method": "ets", "folds": 5}, P, y, reduction="canonical", seed=3)
    assert gain.value == pytest.approx(expected, abs=1e-12)


def test_the_default_method_depends_on_the_subject_and_is_in_the_definition() -> None:
    P, y = draw_classes(150)
    assert _improvement({}, P, y, reduction="canonical").definition["method"] == "temperature"
    assert _improvement({}, P, y, reduction="confidence").definition["method"] == "platt"
    assert (
        _improvement({}, P, y, reduction="canonical").value
        == _improvement({"method": "temperature"}, P, y, reduction="canonical").value
    )


@pytest.mark.parametrize("method", ["platt", "beta", "isotonic"])
def test_a_method_of_an_event_has_no_improvement_of_vectors(method: str) -> None:
    gain = _improvement({"method": method}, *draw_classes(60), reduction="canonical")
    assert gain.value is None
    assert gain.problem == (
        f"no value: the method {method} is of an event; for the whole vector use temperature, ets, iop-diagonal"
    )


def test_log_loss_of_an_isotonic_map_stays_finite_and_is_pulled_by_the_training_rows() -> None:
    p = np.linspace(0.0, 1.0, 40)
    y = (p > 0.5).astype(np.int64)
    event = Event(p, y.astype(np.int8))
    after, _ = out_of_fold(event, "isotonic", "log-loss", folds=2, seed=0)
    assert after.p.min() > 0.0
    assert after.p.max() < 1.0
    # A training half of m negatives below gives its end block (0 + 1/2) / (m + 1).
    assert any(after.p[0] == pytest.approx(0.5 / (m + 1)) for m in range(5, 16))
    assert out_of_fold(event, "isotonic", "brier", folds=2, seed=0)[0].p.min() == 0.0


def test_the_influence_is_the_paired_difference_less_its_mean() -> None:
    p, y = _rows(100)
    w = np.random.default_rng(1).random(100)
    before, after = Event(p, y.astype(np.int8), w), Event(p**0.5, y.astype(np.int8), w)
    gain, influence = improvement(before, after, "brier")
    gained = (p - y) ** 2 - (p**0.5 - y) ** 2
    assert gain == pytest.approx(np.average(gained, weights=w))
    assert influence == pytest.approx(gained - np.average(gained, weights=w))


@pytest.mark.slow
def test_rows_of_weight_zero_and_the_order_of_rows_do_not_matter() -> None:
    p, y = _rows(300)
    p = np.round(p, 2)
    w = np.random.default_rng(2).integers(0, 3, 300)
    order = np.random.default_rng(3).permutation(300)
    for method in ("platt", "isotonic"):
        options_of_request = {"method": method, "score": "log-loss"}
        first = _improvement(options_of_request, p, y, weights=w, interval=0.9)
        other = _improvement(options_of_request, p[order], y[order], weights=w[order], interval=0.9)
        restricted = _improvement(options_of_request, p[w > 0], y[w > 0], weights=w[w > 0], interval=0.9)
        assert first.value == pytest.approx(other.value, rel=1e-9)
        assert first.value == pytest.approx(restricted.value, rel=1e-9)
        assert first.interval == pytest.approx(other.interval, rel=1e-6)
        assert first.interval == pytest.approx(restricted.interval, rel=1e-6)


def test_pooled_events_of_a_row_share_a_fold() -> None:
    P, y = draw_classes(90)
    gain = _improvement({}, P, y, reduction="pooled", interval=0.9)
    assert gain.interval is not None
    again = _improvement({}, P[::-1].copy(), y[::-1].copy(), reduction="pooled")
    assert again.value == pytest.approx(known(gain.value), rel=1e-9)


@pytest.mark.parametrize(
    ("p", "y"), [([0.1, 0.5, 0.9], [0, 1, 1]), (np.linspace(0, 1, 30).tolist(), [1] * 30)], ids=["few", "one class"]
)
def test_a_failed_fit_is_a_problem_of_the_improvement(p: list[float], y: list[int]) -> None:
    gain = _improvement({}, p, y)
    assert gain.value is None
    assert (gain.problem or "").startswith("no value: ")


def test_a_given_map_has_its_improvement_of_the_scores() -> None:
    p, y = _rows(3000)
    fitted = calibrant.fit("beta", p[:1500], y[:1500])
    q, z = p[1500:], y[1500:]
    report = calibrant.evaluate(q, z, map=fitted, interval=0.95, measures=["brier", "log-loss"])
    assert report.after is not None
    assert report.improvement is not None
    assert list(report.improvement) == ["brier", "log-loss"]
    for key, gain in report.improvement.items():
        before, after = report.measures[key].value, report.after[key].value
        assert before is not None
        assert after is not None
        assert gain.interval is not None
        assert gain.value == pytest.approx(before - after)
        assert 0.0 < gain.interval[0] < before - after < gain.interval[1]
        assert gain.definition == {
            "name": "improvement",
            "score": key,
            "interval": 0.95,
            "resamples": 1000,
            "seed": 0,
        }
    order = np.random.default_rng(0).permutation(len(q))
    shuffled = known(calibrant.evaluate(q[order], z[order], map=fitted, interval=0.95).improvement)
    assert shuffled["brier"].interval == pytest.approx(report.improvement["brier"].interval)
    plain = known(calibrant.evaluate(q, z, map=fitted, measures=["brier"]).improvement)
    assert plain["brier"].interval is None
    assert calibrant.evaluate(q, z).improvement is None


def test_one_row_has_an_improvement_without_an_interval() -> None:
    fitted = calibrant.fit("platt", *_rows())
    improvements = known(calibrant.evaluate([0.3], [1], map=fitted, interval=0.9, measures=["brier"]).improvement)
    assert improvements["brier"].value is not None
    assert improvements["brier"].problem == "no interval: an interval needs at least two rows"


@pytest.mark.slow
def test_the_interval_of_an_improvement_covers_it() -> None:
    fitted = calibrant.fit("beta", *_rows(2000, seed=999))
    p, y = _rows(200_000, seed=1000)
    truth = known(calibrant.evaluate(p, y, map=fitted, measures=["brier"]).improvement)
    held = 0
    for seed in range(100):
        improvements = known(
            calibrant.evaluate(*_rows(300, seed), map=fitted, measures=["brier"], interval=0.9).improvement
        )
        low, high = known(improvements["brier"].interval)
        held += low <= (truth["brier"].value or 0.0) <= high
    assert 80 <= held <= 98


@pytest.mark.parametrize("method", ["platt", "beta"])
def test_a_held_out_value_that_rounds_to_one_stays_there(method: str) -> None:
    random = np.random.default_rng(0)
    z = np.append(random.normal(size=400), 40.0)
    labels = np.append((random.random(400) < 1.0 / (1.0 + np.exp(-z[:-1]))).astype(np.int8), np.int8(1))
    event = Event(1.0 / (1.0 + np.exp(-z)), labels, logit=z)
    held_out, _ = out_of_fold(event, method, "log-loss", folds=5, seed=0)
    assert held_out.p[-1] > 0.999
