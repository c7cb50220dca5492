from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import calibrant
from benchmarks.tables.datasets import dataset
from calibrant.core.errors import InvalidOption
from calibrant.core.synthetic import FULL_ERRORS, SHAPES, hidden_error, logistic_normal, shaped_predictions
from tests.refusals import refused_at


def test_labels_are_drawn_from_the_true_probabilities() -> None:
    logits, labels, probs = logistic_normal(20_000, n_classes=4, seed=1)
    assert softmax(logits, axis=1) == pytest.approx(probs)
    off = np.eye(4)[labels] - probs
    spread = np.sqrt((probs * (1.0 - probs)).sum(axis=0))
    assert np.all(np.abs(off.sum(axis=0)) < 4.0 * spread)
    assert calibrant.evaluate(logits, labels, measures=["ks"], scale="logit").measures["ks"].p_value > 0.01  # type: ignore[operator]


def test_hundred_classes_are_about_as_accurate_as_the_papers() -> None:
    accuracies = []
    for seed in range(12):
        logits, labels, _ = logistic_normal(2000, seed=seed)
        accuracies.append((logits.argmax(axis=1) == labels).mean())
    assert np.mean(accuracies) == pytest.approx(0.876, abs=0.04)


def test_the_temperature_multiplies_the_logits_and_makes_them_overconfident() -> None:
    true, labels, probs = logistic_normal(3000, n_classes=10, seed=2)
    hot, same, again = logistic_normal(3000, n_classes=10, temperature=2.0, seed=2)
    assert hot == pytest.approx(2.0 * true)
    assert np.array_equal(same, labels)
    assert np.array_equal(again, probs)
    assert softmax(hot, axis=1).max(axis=1).mean() > (hot.argmax(axis=1) == labels).mean() + 0.02


@pytest.mark.parametrize(
    ("n", "options", "pointer"),
    [
        (0, {}, "/n"),
        ("5", {}, "/n"),
        (5.5, {}, "/n"),
        (True, {}, "/n"),
        (5, {"n_classes": 1}, "/n_classes"),
        (5, {"n_classes": 2.5}, "/n_classes"),
        (5, {"temperature": "hot"}, "/temperature"),
        (5, {"accuracy": "high"}, "/accuracy"),
        (5, {"seed": -1}, "/seed"),
        (5, {"seed": None}, "/seed"),
        (5, {"temperature": 0.0}, "/temperature"),
        (5, {"temperature": float("nan")}, "/temperature"),
    ],
)
def test_impossible_worlds_are_refused(n: Any, options: dict[str, Any], pointer: str) -> None:
    with refused_at(pointer, InvalidOption):
        logistic_normal(n, **{"seed": 0} | options)


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", [0.2, 0.876, 0.99])
def test_the_accuracy_is_that_of_the_true_probabilities(accuracy: float) -> None:
    logits, labels, probs = logistic_normal(5000, n_classes=10, temperature=2.0, accuracy=accuracy, seed=3)
    assert probs.max(axis=1).mean() == pytest.approx(accuracy, abs=1e-9)
    assert (logits.argmax(axis=1) == labels).mean() == pytest.approx(accuracy, abs=0.02)
    assert softmax(logits / 2.0, axis=1) == pytest.approx(probs)
    plain, _, _ = logistic_normal(5000, n_classes=10, seed=3)
    ratio = logits / plain
    assert ratio == pytest.approx(np.full_like(ratio, ratio[0, 0]), rel=1e-9)


@pytest.mark.slow
def test_the_error_of_proposition_3_2_is_hidden_from_all_measures_but_the_root_brier_score() -> None:
    predictions, labels, truth = hidden_error(10_000, seed=0)
    assert len(np.unique(predictions, axis=0)) == 10_000
    assert np.array_equal(truth.argmax(axis=1), labels)
    assert ((truth - predictions) ** 2).sum(axis=1).mean() >= 1.0 - 1.0 / 3.0 - 0.01

    def values(reduction: str, *measures: str) -> dict[str, float]:
        report = calibrant.evaluate(predictions, labels, measures=list(measures), reduction=reduction)
        return {name: report[name].value for name in measures}  # type: ignore[misc]

    vector = values("canonical", "root-brier", "skce")
    assert vector["root-brier"] == pytest.approx(0.8165, abs=0.003)
    assert abs(vector["skce"]) < 0.001
    shown = values("confidence", "ks", "ece")
    assert shown["ks"] < 0.01
    assert shown["ece"] < 0.04
    assert values("classwise", "ece")["ece"] < 0.04


@pytest.mark.parametrize("n_classes", [2, 10])
def test_the_hidden_error_is_as_large_as_the_proposition_says(n_classes: int) -> None:
    predictions, _, truth = hidden_error(500, n_classes=n_classes, epsilon=0.001, seed=1)
    assert predictions.sum(axis=1) == pytest.approx(np.ones(500))
    assert (predictions**2).sum(axis=1).max() <= 1.0 / n_classes + 0.001
    assert ((truth - predictions) ** 2).sum() / 500 == pytest.approx(1.0 - 1.0 / n_classes, abs=0.02)


@pytest.mark.parametrize("shape", SHAPES)
def test_shaped_predictions_are_the_datasets_of_the_tables(shape: str) -> None:
    grid = np.linspace(0.0, 1.0, 200_001)
    assert np.abs(SHAPES[shape](grid) - grid).mean() == pytest.approx(FULL_ERRORS[shape], abs=1e-6)
    theirs = dataset(shape, "0.050", 1000, 2)
    predictions, labels, probs = shaped_predictions(1000, shape=shape, error=0.05, seed=2)
    np.testing.assert_allclose(predictions, theirs.p, atol=1e-6)
    assert np.array_equal(labels, theirs.y)
    assert np.array_equal(probs, theirs.c)
    assert np.abs(
        shaped_predictions(50_000, shape=shape, error=0.1, seed=0)[0]
        - np.sort(shaped_predictions(50_000, shape=shape, error=0.0, seed=0)[0])
    ).mean() == pytest.approx(0.1, abs=0.001)


@pytest.mark.parametrize(
    ("draw", "options", "pointer"),
    [
        (logistic_normal, {"accuracy": 0.01}, "/accuracy"),
        (logistic_normal, {"accuracy": 1.0}, "/accuracy"),
        (hidden_error, {"n_classes": 1}, "/n_classes"),
        (hidden_error, {"epsilon": 0.7}, "/epsilon"),
        (hidden_error, {"epsilon": 0.0}, "/epsilon"),
        (hidden_error, {"epsilon": "small"}, "/epsilon"),
        (hidden_error, {"n": 0}, "/n"),
        (hidden_error, {"n": None}, "/n"),
        (hidden_error, {"seed": None}, "/seed"),
        (shaped_predictions, {"n": 0}, "/n"),
        (shaped_predictions, {"shape": "cube"}, "/shape"),
        (shaped_predictions, {"shape": ["square"]}, "/shape"),
        (shaped_predictions, {"error": 0.11}, "/error"),
        (shaped_predictions, {"error": "0.1"}, "/error"),
        (shaped_predictions, {"seed": 1.5}, "/seed"),
        (shaped_predictions, {"seed": 2**32}, "/seed"),
        (shaped_predictions, {"error": float("nan")}, "/error"),
        (shaped_predictions, {"seed": -1}, "/seed"),
    ],
)
def test_impossible_options_are_refused(draw: Any, options: dict[str, Any], pointer: str) -> None:
    with refused_at(pointer, InvalidOption):
        draw(**{"n": 5, "seed": 0} | options)


def test_numbers_of_numpy_are_numbers() -> None:
    n: Any = np.int64(5)
    seed: Any = np.uint8(3)
    for draw in (logistic_normal, hidden_error, shaped_predictions):
        assert np.array_equal(draw(n, seed=seed)[0], draw(5, seed=3)[0])
