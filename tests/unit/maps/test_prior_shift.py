"""Predictions of a model that was trained at another base rate, on sampled rows, or with weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit, softmax

import calibrant
from calibrant.core.errors import InvalidOption, OneClass
from calibrant.maps.platt import Platt
from tests.refusals import refused_at

P = np.array([0.1, 0.5, 0.9])
#: Predictions of three classes, and labels with the frequencies 2, 3 and 5 of 10.
VECTORS = softmax(np.random.default_rng(0).normal(size=(10, 3)), axis=1)
LABELS = np.repeat([0, 1, 2], [2, 3, 5])


def _refused(pointer: str, match: str, *arguments: Any, **options: Any) -> None:
    with refused_at(pointer, InvalidOption, match=match):
        calibrant.fit("prior-shift", *arguments, **options)


def test_the_published_values_are_reached() -> None:
    corrected = calibrant.shift_prior(P, kept_negatives=0.1)
    np.testing.assert_allclose(corrected, [0.010989010989, 0.090909090909, 0.473684210526], atol=1e-12)
    assert calibrant.shift_prior([0.5], positive_weight=9)[0] == pytest.approx(0.1, abs=1e-15)


def test_rates_correct_the_posterior_by_the_rule_of_bayes() -> None:
    rate, new = 0.3, 0.02
    elkan = new * (P - P * rate) / (rate - P * rate + new * P - rate * new)  # theorem 2
    np.testing.assert_allclose(calibrant.shift_prior(P, rate=rate, new_rate=new), elkan, rtol=1e-14)
    old, frequencies = np.array([0.2, 0.3, 0.5]), np.array([0.7, 0.2, 0.1])
    saerens = VECTORS * frequencies / old
    saerens /= saerens.sum(axis=1, keepdims=True)
    shifted = calibrant.shift_prior(VECTORS, rate=old, new_rate=frequencies)
    np.testing.assert_allclose(shifted, saerens, rtol=1e-13)
    weights = frequencies[::-1]
    shifted = calibrant.shift_prior(VECTORS, class_weights=weights)
    np.testing.assert_allclose(
        shifted, (VECTORS / weights) / (VECTORS / weights).sum(axis=1, keepdims=True), rtol=1e-13
    )


def test_the_ways_to_state_a_change_agree() -> None:
    corrected = calibrant.shift_prior(P, kept_negatives=0.25)
    np.testing.assert_allclose(calibrant.shift_prior(P, positive_weight=4.0), corrected, rtol=1e-15)
    np.testing.assert_allclose(calibrant.shift_prior(P, class_weights=[0.25, 1.0]), corrected, rtol=1e-15)
    # At a quarter of the negatives, a rate of 1 in 9 becomes 1 in 3.
    np.testing.assert_allclose(calibrant.shift_prior(P, rate=1 / 3, new_rate=1 / 9), corrected, rtol=1e-14)
    columns = np.column_stack([1.0 - P, P])
    both = calibrant.shift_prior(columns, class_weights=(0.25, 1.0))
    np.testing.assert_allclose(both[:, 1], corrected, rtol=1e-14)
    there = calibrant.shift_prior(P, rate=0.3, new_rate=0.02)
    np.testing.assert_allclose(calibrant.shift_prior(there, rate=0.02, new_rate=0.3), P, rtol=1e-14)


def test_a_logistic_regression_on_sampled_negatives_is_corrected() -> None:
    random = np.random.default_rng(1)
    z = random.normal(-2.0, 1.5, 200_000)
    y = (random.random(len(z)) < expit(z)).astype(int)
    sampled = (y == 1) | (random.random(len(z)) < 0.1)
    odds = np.log(0.1)
    trained = calibrant.fit("platt", z[sampled], y[sampled], scale="logit", target_smoothing=False)
    corrected = calibrant.shift_prior(trained.apply(z), kept_negatives=0.1)
    assert corrected.mean() == pytest.approx(y.mean(), abs=0.003)
    assert trained.to_document()["parameters"]["intercept"] == pytest.approx(-odds, abs=0.05)


def test_logits_are_exact_beyond_probabilities_that_round_to_1() -> None:
    z = np.array([-700.0, -40.0, 0.0, 40.0, 700.0])
    shifted = calibrant.shift_prior(z, positive_weight=9, scale="logit")
    np.testing.assert_array_equal(shifted, expit(z - np.log(9.0)))
    far = calibrant.shift_prior([[800.0, 799.0, 0.0]], class_weights=[math.e, 1.0, 1.0], scale="logit")
    np.testing.assert_allclose(far, [[0.5, 0.5, 0.0]], atol=1e-13)


@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_the_map_gives_what_the_function_gives_and_leaves_certain_predictions(scale: Any) -> None:
    rows = logit(P) if scale == "logit" else np.append(P, [0.0, 1.0])
    y = np.resize([0, 0, 0, 1], len(rows))
    fitted = calibrant.fit("prior-shift", rows, y, scale=scale, kept_negatives=0.1)
    shifted = calibrant.shift_prior(rows, scale=scale, kept_negatives=0.1)
    np.testing.assert_array_equal(fitted.apply(rows), shifted)
    if scale == "probability":
        np.testing.assert_allclose(shifted[-2:], [0.0, 1.0], atol=1e-14)


def test_the_earlier_rate_is_that_of_the_labels_with_weights_unless_it_is_stated() -> None:
    y, w = np.array([0, 0, 1]), np.array([1.0, 2.0, 1.0])

    def intercept(**options: Any) -> float:
        curve = calibrant.fit("prior-shift", P, y, new_rate=0.05, **options).curve
        assert isinstance(curve, Platt)
        assert curve.slope == 1.0
        return curve.intercept

    assert intercept() == pytest.approx(logit(0.05) - logit(1 / 3), abs=1e-14)
    for weights in (w, 1e6 * w):
        assert intercept(weights=weights) == pytest.approx(logit(0.05) - logit(0.25), abs=1e-14)
    assert intercept(weights=w, weights_kind="frequency") == pytest.approx(logit(0.05) - logit(0.25), abs=1e-14)
    assert intercept(rate=0.4) == pytest.approx(logit(0.05) - logit(0.4), abs=1e-14)
    new = [0.5, 0.25, 0.25]
    of_labels = calibrant.fit("prior-shift", VECTORS, LABELS, new_rate=new)
    stated = calibrant.shift_prior(VECTORS, rate=[0.2, 0.3, 0.5], new_rate=new)
    np.testing.assert_allclose(of_labels.apply(VECTORS), stated, rtol=1e-13)
    assert of_labels.reduction == "canonical"
    w = np.linspace(0.5, 2.0, 10)
    counted = np.bincount(LABELS, w) / w.sum()
    weighted = calibrant.fit("prior-shift", VECTORS, LABELS, new_rate=new, weights=w)
    np.testing.assert_allclose(
        weighted.apply(VECTORS), calibrant.shift_prior(VECTORS, rate=counted, new_rate=new), rtol=1e-13
    )


def test_stated_changes_need_no_labels_of_both_classes_but_a_rate_of_the_labels_does() -> None:
    ones = np.ones(3, int)
    assert calibrant.fit("prior-shift", P, ones, positive_weight=9).apply([0.5])[0] == pytest.approx(0.1)
    assert calibrant.fit("prior-shift", P, ones, rate=0.2, new_rate=0.1).method == "prior-shift"
    with pytest.raises(OneClass):
        calibrant.fit("prior-shift", P, ones, new_rate=0.1)


def test_a_map_has_no_cross_fitted_gain_and_no_warning_of_harm() -> None:
    fitted = calibrant.fit("prior-shift", np.full(200, 0.5), np.arange(200) % 2, new_rate=0.01)
    assert set(fitted.diagnostics) == {"fit"}
    assert fitted.diagnostics["fit"]["options"] == {"new_rate": 0.01}
    assert fitted.warning is None


@pytest.mark.parametrize(
    ("options", "pointer", "match"),
    [
        ({}, "", "exactly one"),
        ({"rate": 0.1}, "", "exactly one"),
        ({"new_rate": 0.1, "kept_negatives": 0.1}, "/kept_negatives", "another change than new_rate"),
        ({"positive_weight": 9, "class_weights": [1, 9]}, "/class_weights", "another change than positive_weight"),
        ({"rate": 0.1, "positive_weight": 9}, "/rate", "needs new_rate"),
        ({"new_rate": 0}, "/new_rate", "from 1e-09"),
        ({"new_rate": 1.0}, "/new_rate", "below 1"),
        ({"new_rate": float("nan")}, "/new_rate", "must be"),
        ({"new_rate": 10}, "/new_rate", "must be"),
        ({"new_rate": True}, "/new_rate", "must be"),
        ({"new_rate": "0.1"}, "/new_rate", "must be"),
        ({"new_rate": []}, "/new_rate", "must be"),
        ({"new_rate": [0.1, 0.9]}, "/new_rate", "one number"),
        ({"new_rate": 0.1, "rate": [0.1, 0.9]}, "/rate", "one number"),
        ({"new_rate": [0.1, None]}, "/new_rate", "must be"),
        ({"kept_negatives": 1.5}, "/kept_negatives", "must be"),
        ({"positive_weight": -9}, "/positive_weight", "must be"),
        ({"class_weights": [1, 9, 3]}, "/class_weights", "list of 2"),
        ({"class_weights": 9}, "/class_weights", "list of 2"),
        ({"positives": 9}, "", "unknown option; did you mean positive_weight"),
    ],
)
def test_changes_of_an_event_that_are_ambiguous_or_impossible_are_refused(
    options: dict[str, Any], pointer: str, match: str
) -> None:
    _refused(pointer, match, P, [0, 1, 1], **options)


@pytest.mark.parametrize(
    ("options", "pointer", "match"),
    [
        ({"new_rate": 0.1}, "/new_rate", "list of 3"),
        ({"new_rate": [0.5, 0.5]}, "/new_rate", "list of 3"),
        ({"new_rate": [0.5, 0.3, 0.3]}, "/new_rate", "the sum is 1.1"),
        ({"new_rate": [20, 30, 50]}, "/new_rate", "must be"),
        ({"new_rate": [0.2, 0.3, 0.5], "rate": 0.5}, "/rate", "list of 3"),
        ({"kept_negatives": 0.1}, "/kept_negatives", "one event"),
        ({"positive_weight": 9}, "/positive_weight", "one event"),
        ({"class_weights": [1, 9]}, "/class_weights", "list of 3"),
    ],
)
def test_changes_of_vectors_that_are_ambiguous_or_impossible_are_refused(
    options: dict[str, Any], pointer: str, match: str
) -> None:
    _refused(pointer, match, VECTORS, LABELS, **options)


def test_the_function_needs_both_rates_and_says_so() -> None:
    with pytest.raises(InvalidOption, match="rate is needed with new_rate"):
        calibrant.shift_prior(P, new_rate=0.1)
    with pytest.raises(calibrant.CalibrationError, match="predictions"):
        calibrant.shift_prior([0.5, 1.5], positive_weight=9)
    with pytest.raises(calibrant.CalibrationError):
        calibrant.shift_prior([[[0.5]]], positive_weight=9)


def test_frames_and_series_keep_their_form_and_numbers_of_numpy_are_numbers() -> None:
    series = pd.Series(P, index=["a", "b", "c"], name="risk")
    half: Any = np.float32(0.5)
    corrected = calibrant.shift_prior(series, kept_negatives=half)
    assert list(corrected.index) == ["a", "b", "c"]
    frame = pd.DataFrame(VECTORS, columns=["x", "y", "z"])
    shifted = calibrant.shift_prior(frame, class_weights=np.array([1, 2, 3]))
    assert list(shifted.columns) == ["x", "y", "z"]
    fitted = calibrant.fit("prior-shift", frame, frame.columns[LABELS], new_rate=np.array([0.2, 0.3, 0.5]))
    assert calibrant.load(fitted.to_document()) == fitted
    assert fitted.diagnostics["fit"]["options"] == {"new_rate": [0.2, 0.3, 0.5]}


def test_one_class_of_several_is_shifted_as_an_event() -> None:
    fitted = calibrant.fit("prior-shift", VECTORS, LABELS, reduction="class:2", new_rate=0.1)
    expected = calibrant.shift_prior(VECTORS[:, 2], rate=0.5, new_rate=0.1)
    np.testing.assert_allclose(fitted.apply(VECTORS), expected, rtol=1e-12)
