from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, logit, logsumexp, softmax

import calibrant
from calibrant.core.errors import NotConverged, OnePrediction, OutOfRange, TooFewRows
from calibrant.core.reductions import Event, Vector
from calibrant.core.validation import folds_of
from calibrant.maps.temperature import EventLogits, VectorLogits, logits_of, optimal_temperature, temperatures_without
from calibrant.measures.catalogue import read_requests
from calibrant.measures.confidence import temperature_influence
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureResult


def _world(n: int, K: int, scale: float, seed: int = 0, spread: float = 2.0) -> tuple[Any, Any]:
    """Logits that are ``scale`` times the true ones, and labels."""
    random = np.random.default_rng(seed)
    true = random.normal(0.0, spread, (n, K))
    return scale * true, (true + random.gumbel(size=(n, K))).argmax(axis=1)


def _by_scipy(z: Any, y: Any, w: Any) -> float:
    """The temperature that scipy's bounded search finds, in log T."""
    wide = z.astype(np.float64)

    def loss(log: float) -> float:
        return float(-(w * log_softmax(wide / np.exp(log), axis=1)[np.arange(len(y)), y]).sum() / w.sum())

    return float(np.exp(minimize_scalar(loss, bounds=(-12, 12), method="bounded", options={"xatol": 1e-10}).x))


def _ask(predictions: Any, labels: Any, name: str = "optimal-temperature", **more: Any) -> MeasureResult:
    options = more.pop("options", {})
    return calibrant.evaluate(predictions, labels, measures=[{"name": name, **options}], **more).measures[name]


@pytest.mark.parametrize(("K", "scale"), [(2, 0.4), (3, 1.0), (10, 1.7), (60, 3.0)])
def test_the_temperature_is_the_one_that_scipy_finds(K: int, scale: float) -> None:
    z, y = _world(1500, K, scale)
    w = np.random.default_rng(1).random(1500)
    optimum = optimal_temperature(VectorLogits(z, y), w)
    assert optimum.value == pytest.approx(_by_scipy(z, y, w), rel=1e-6)
    assert abs(w @ optimum.slope) / (w @ np.abs(optimum.slope)) <= 1e-10
    assert optimum.log_loss == pytest.approx(
        -np.average(log_softmax(z / optimum.value, axis=1)[np.arange(1500), y], weights=w), rel=1e-12
    )


def test_two_columns_and_one_are_the_same_question() -> None:
    z, y = _world(800, 2, 1.5)
    answer = _ask(z[:, 1] - z[:, 0], y, scale="logit")
    of_columns = _ask(z, y, scale="logit", reduction="canonical")
    assert answer.value == pytest.approx(of_columns.value, rel=1e-12)
    assert _ask(expit(z[:, 1] - z[:, 0]), y).value == pytest.approx(of_columns.value, rel=1e-9)
    assert _ask(softmax(z, axis=1), y, reduction="binary").value == pytest.approx(of_columns.value, rel=1e-9)
    assert _ask(z, y, scale="logit", reduction="binary").value == pytest.approx(of_columns.value, rel=1e-12)


@pytest.mark.parametrize("magnitude", [1e-4, 1.0, 1e3, 1e4 / 9])
def test_single_precision_logits_find_the_right_temperature(magnitude: float) -> None:
    z, y = _world(3000, 5, 1.0)
    z = (z * magnitude).astype(np.float32)
    assert np.abs(z).max() <= 1e4
    single = _ask(z, y, scale="logit", reduction="canonical").value
    assert single == pytest.approx(_ask(z.astype(np.float64), y, scale="logit", reduction="canonical").value, rel=1e-12)
    assert single == pytest.approx(magnitude, rel=0.15)
    assert single == pytest.approx(_by_scipy(z / np.float32(magnitude), y, np.ones(3000)) * magnitude, rel=1e-5)


def test_the_verdict_is_in_words_and_within_noise_it_is_neither() -> None:
    verdicts = {}
    for scale in (0.5, 1.0, 2.0):
        z, y = _world(2000, 4, scale)
        answer = _ask(z, y, scale="logit", reduction="canonical")
        verdicts[scale] = answer.parts["verdict"]
        own = -log_softmax(z, axis=1)[np.arange(2000), y].mean()
        assert answer.parts["log_loss_before"] == pytest.approx(own, rel=1e-12)
        assert answer.parts["log_loss_after"] <= answer.parts["log_loss_before"]
    assert verdicts == {0.5: "underconfident", 1.0: "neither", 2.0: "overconfident"}


def test_intervals_cover_the_temperature_as_often_as_they_say() -> None:
    (request,) = read_requests(["optimal-temperature"])
    covered, verdicts = 0, 0
    for seed in range(200):
        z, y = _world(200, 3, 1.6, seed)
        answer = request.compute(Vector(softmax(z, axis=1), y, logits=z), Resampling(0.9, 300, seed))
        low, high = answer.interval or (9.0, 0.0)
        covered += low <= 1.6 <= high
        verdicts += answer.parts["verdict"] == "overconfident"
    assert abs(covered - 180) <= 3.5 * np.sqrt(18)
    assert verdicts > 150


def test_the_influence_is_the_derivative_in_the_weights() -> None:
    z, y = _world(120, 3, 1.5)
    w = np.random.default_rng(2).random(120)
    logits = VectorLogits(z, y)
    influence = temperature_influence(optimal_temperature(logits, w), w)
    for row in (3, 50):
        step = np.where(np.arange(120) == row, 1e-5, 0.0)
        moved = optimal_temperature(logits, w + step).value - optimal_temperature(logits, w - step).value
        assert moved / 2e-5 * w.sum() == pytest.approx(influence[row], rel=1e-4)


def test_certain_predictions_are_clipped_and_counted() -> None:
    p, y = np.array([0.0, 1.0, 1.0, 0.3, 0.8, 0.6]), np.array([0, 1, 0, 1, 1, 1])
    answer = _ask(p, y)
    assert answer.parts["clipped"] == 3
    clip = 2.0**-52
    z = logit(np.clip(p, clip, 1 - clip))
    assert answer.value == pytest.approx(_by_scipy(np.stack([np.zeros(6), z], axis=1), y, np.ones(6)), rel=1e-6)
    P = np.array([[0.0, 0.2, 0.8], [1.0, 0.0, 0.0], [0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    labels = np.array([2, 1, 0, 2])
    answer = _ask(P, labels, reduction="canonical")
    assert answer.parts["clipped"] == 2
    assert answer.value == pytest.approx(_by_scipy(np.log(np.maximum(P, clip)), labels, np.ones(4)), rel=1e-6)


@pytest.mark.parametrize(
    ("z", "y", "error", "word"),
    [
        ([[1.0, 0.0], [0.0, 2.0]], [0, 1], NotConverged, "is 0"),
        ([[1.0, 0.0], [0.0, 2.0]], [1, 0], NotConverged, "is infinite"),
        ([[1.0, 0.0], [1.0, 0.0]], [0, 1], NotConverged, "is infinite"),
        ([[3.0, 3.0], [1.0, 1.0]], [0, 1], OnePrediction, "equal"),
        ([[1e200, 0.0], [0.0, 1e200]], [0, 0], OutOfRange, "squared"),
    ],
)
def test_a_loss_without_a_minimum_is_refused_with_its_reason(z: Any, y: Any, error: Any, word: str) -> None:
    with pytest.raises(error, match=word):
        optimal_temperature(VectorLogits(np.array(z), np.array(y)))
    answer = _ask(z, y, scale="logit", reduction="canonical")
    assert answer.value is None
    assert word in (answer.problem or "")


def test_temperatures_far_from_one_are_found() -> None:
    # One of n decisions is wrong, by a hair: d log(1 + e^-x) balances it.
    z = np.array([[1.0, 0.0]] * 50 + [[0.0, 1e-7]])
    optimum = optimal_temperature(VectorLogits(z, np.zeros(51, np.int64)))
    beta = 1.0 / optimum.value
    assert 50 * expit(-beta) == pytest.approx(1e-7 * expit(beta * 1e-7), rel=1e-8)
    # And logits that tell next to nothing.
    y = np.repeat([0, 1], 5000)
    y[:1] = 1
    z = np.where(np.arange(10_000) % 2 == 0, 50.0, -50.0)
    z[:3] = -50.0
    weak = optimal_temperature(EventLogits(z, y.astype(np.int8)))
    share = (np.where(y == 1, z, -z) > 0).mean()
    assert 50.0 / weak.value == pytest.approx(logit(share), rel=1e-8)


def test_a_single_row_has_a_temperature_where_its_label_is_neither_first_nor_below_average() -> None:
    z = np.array([[2.0, 1.0, -5.0]])
    optimum = optimal_temperature(VectorLogits(z, np.array([1])))
    assert softmax(z / optimum.value)[0] @ z[0] == pytest.approx(1.0, rel=1e-9)


def test_many_classes_in_single_precision_agree_with_double() -> None:
    z, y = _world(3000, 300, 1.7, spread=1.0)
    single = optimal_temperature(VectorLogits(z.astype(np.float32), y))
    double = optimal_temperature(VectorLogits(z.astype(np.float32).astype(np.float64), y))
    assert single.value == pytest.approx(double.value, rel=1e-13)
    z32 = z.astype(np.float32).astype(np.float64)
    scaled = z32 / single.value
    slope = (softmax(scaled, axis=1) * z32).sum(axis=1) - z32[np.arange(3000), y]
    assert abs(slope.sum()) < 1e-8 * np.abs(slope).sum()
    assert single.log_loss == pytest.approx((logsumexp(scaled, axis=1) - scaled[np.arange(3000), y]).mean(), rel=1e-12)


def test_folds_have_the_temperature_of_the_other_rows() -> None:
    z, y = _world(500, 3, 1.7)
    w = np.random.default_rng(3).integers(0, 3, 500).astype(np.float64)
    vector = Vector(softmax(z, axis=1), y, w, logits=z)
    fold = folds_of(vector, 5, 0)
    temperatures = temperatures_without(logits_of(vector), vector.w, fold, 5)
    for k in range(5):
        own = (fold != k) & (w > 0)
        assert temperatures[k] == pytest.approx(
            optimal_temperature(VectorLogits(z[own], y[own]), w[own]).value, rel=1e-12
        )
    sizes = np.bincount(fold[w > 0])
    assert sizes.max() - sizes.min() <= 1
    with pytest.raises(TooFewRows):
        folds_of(vector, 501, 0)


def test_ece_after_temperature_is_the_ece_of_scaled_predictions() -> None:
    z, y = _world(1000, 4, 2.0)
    options = {"binning": "equal-width", "n_bins": 10, "norm": 2}
    answer = _ask(
        z, y, "ece-after-temperature", scale="logit", reduction="canonical", options={**options, "temperature": 2}
    )
    plain = _ask(z / 2, y, "ece", scale="logit", options=options)
    assert answer.value == pytest.approx(plain.value, rel=1e-9)
    assert answer.debiased == pytest.approx(plain.debiased, rel=1e-9)
    assert answer.parts["temperatures"] == [2.0]
    logits_of_event = z[:, 1] - z[:, 0]
    keep = y < 2
    answer = _ask(logits_of_event[keep], y[keep], "ece-after-temperature", scale="logit", options={"temperature": 0.5})
    assert answer.value == pytest.approx(_ask(logits_of_event[keep] * 2, y[keep], "ece", scale="logit").value, rel=1e-9)


def test_ece_after_temperature_is_cross_fitted_by_default() -> None:
    z, y = _world(2000, 4, 2.0)
    before = _ask(z, y, "ece", scale="logit")
    answer = _ask(z, y, "ece-after-temperature", scale="logit", reduction="canonical", interval=0.9)
    assert len(answer.parts["temperatures"]) == 10
    assert answer.parts["temperatures"] == pytest.approx([2.0] * 10, rel=0.1)
    assert (answer.value or 1.0) < 0.5 * (before.value or 0.0)
    assert answer.interval is not None
    assert answer.interval[0] <= (answer.value or 0.0) <= answer.interval[1]
    assert answer.interval[0] == 0.0
    vector = Vector(softmax(z, axis=1), y, logits=z)
    fold = folds_of(vector, 10, 0)
    temperatures = temperatures_without(logits_of(vector), vector.w, fold, 10)
    p = softmax(z / temperatures[fold][:, None], axis=1)
    assert answer.value == pytest.approx(_ask(p, y, "ece", reduction="confidence").value, rel=1e-9)


def test_pooled_events_of_one_row_are_in_one_fold() -> None:
    z, y = _world(60, 3, 1.7)
    P = softmax(z, axis=1)
    event = Event(P.ravel(), np.eye(3, dtype=np.int8)[y].ravel(), per_row=3)
    fold = folds_of(event, 4, 0)
    assert (fold.reshape(60, 3) == fold.reshape(60, 3)[:, :1]).all()


def test_a_missing_temperature_is_the_problem_of_the_measure() -> None:
    answer = _ask([0.1, 0.9, 0.2, 0.8] * 5, [0, 1, 0, 1] * 5, "ece-after-temperature")
    assert answer.value is None
    assert "no prediction is wrong" in (answer.problem or "")
    few = _ask([0.1, 0.9, 0.2], [0, 1, 1], "ece-after-temperature")
    assert "folds" in (few.problem or "")
    single_row = _ask([0.3], [1], interval=0.9)
    assert single_row.value is None


def test_the_temperature_of_a_confidence_is_that_of_the_whole_vector() -> None:
    random = np.random.default_rng(11)
    logits = random.normal(size=(600, 5)) * 2
    labels = np.array([random.choice(5, p=softmax(z)) for z in logits])
    requests: list[Any] = ["optimal-temperature", {"name": "ece-after-temperature", "folds": 3}]
    for predictions, scale in ((logits * 1.8, "logit"), (softmax(logits * 1.8, axis=1), "probability")):
        first, other = (
            calibrant.evaluate(predictions, labels, measures=requests, reduction=reduction, scale=scale, interval=0.9)  # type: ignore[arg-type]
            for reduction in ("confidence", "canonical")
        )
        for name in ("optimal-temperature", "ece-after-temperature"):
            assert first.measures[name].value == other.measures[name].value
            assert first.measures[name].interval == other.measures[name].interval
        assert first.measures["optimal-temperature"].value == pytest.approx(1.8, abs=0.25)
