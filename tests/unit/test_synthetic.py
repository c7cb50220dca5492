from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import calibrant
from calibrant.errors import InvalidOption
from calibrant.synthetic import logistic_normal


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
        (5, {"n_classes": 1}, "/n_classes"),
        (5, {"temperature": 0.0}, "/temperature"),
        (5, {"temperature": float("nan")}, "/temperature"),
    ],
)
def test_impossible_worlds_are_refused(n: int, options: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        logistic_normal(n, seed=0, **options)
    assert caught.value.offences[0].pointer == pointer
