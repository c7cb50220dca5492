"""``calibrant.recommend`` returns what the report recommends."""

from __future__ import annotations

import json
from html import unescape

import numpy as np
import pytest

import calibrant

RANDOM = np.random.default_rng(0)
Z = RANDOM.normal(0.0, 2.0, 3000)
P, Y = 1.0 / (1.0 + np.exp(-Z)), (RANDOM.random(3000) < 1.0 / (1.0 + np.exp(-Z / 2.0))).astype(int)


def test_the_recommendation_is_that_of_the_report() -> None:
    recommendation, report = calibrant.recommend(P, Y), calibrant.report(P, Y)
    assert recommendation.method == report.document["recommendation"]["recommended"] == "temperature"
    for sentence in (recommendation.headline, *recommendation.reasons, recommendation.verdict):
        assert sentence in unescape(report.html), sentence
    assert recommendation.python is not None
    assert eval(recommendation.python, {"calibrant": calibrant, "predictions": P, "labels": Y}).method == "temperature"
    assert str(recommendation).startswith(recommendation.verdict)
    assert json.loads(json.dumps(recommendation.to_dict()))["candidates"] == recommendation.to_dict()["candidates"]


def test_calibrated_predictions_are_left_as_they_are() -> None:
    y = (np.random.default_rng(1).random(3000) < P).astype(int)
    recommendation = calibrant.recommend(P, y)
    assert (recommendation.method, recommendation.python) == ("identity", None)
    assert recommendation.headline.startswith("Keep the predictions unchanged")


def test_vectors_with_names_get_a_map_of_vectors() -> None:
    probs = np.random.default_rng(2).dirichlet([1.0, 1.0, 1.0], 600)
    labels = np.array(["a", "b", "c"])[[np.random.default_rng(i).choice(3, p=row) for i, row in enumerate(probs)]]
    sharp = probs**3 / (probs**3).sum(axis=1, keepdims=True)
    recommendation = calibrant.recommend(sharp, labels, class_names=["a", "b", "c"])
    assert recommendation.reduction in ("canonical", "classwise")


@pytest.mark.parametrize("n", [1, 3])
def test_too_few_rows_get_a_reason(n: int) -> None:
    recommendation = calibrant.recommend(P[:n], Y[:n])
    assert recommendation.method == "identity"
    assert recommendation.headline.startswith("No map can be recommended")


def test_bad_rows_are_refused() -> None:
    with pytest.raises(calibrant.CalibrationError, match="predictions"):
        calibrant.recommend([0.1, np.nan], [0, 1])
