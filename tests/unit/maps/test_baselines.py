from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import InvalidDocument, OutOfRange
from tests.refusals import refused_at
from tests.unit.maps.drawn import drawn_logits, softmax

K = 4
FOOLED: list[Any] = ["ece", "ks", "mmce"]


def _rows(n: int = 2000) -> tuple[Any, Any]:
    z, y = drawn_logits(n, K)
    return softmax(z), y


def _values(p: Any, y: Any, measures: Any, reduction: str, **options: Any) -> dict[str, float]:
    report = calibrant.evaluate(np.array(p), y, measures=measures, reduction=reduction, **options)
    return {key: measure.value if measure.value is not None else np.nan for key, measure in report.measures.items()}


def test_the_accuracy_alone_fools_measures_of_the_top_label_but_is_not_calibrated() -> None:
    P, y = _rows()
    fitted = calibrant.fit("accuracy-constant", P, y)
    q = fitted.apply(P)
    np.testing.assert_array_equal(q.argmax(axis=1), P.argmax(axis=1))
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-15)
    assert q.max() == pytest.approx(float((P.argmax(axis=1) == y).mean()), abs=1e-15)
    assert max(abs(v) for v in _values(q, y, FOOLED, "confidence").values()) < 1e-7
    assert _values(P, y, ["ece"], "confidence")["ece"] > 0.05
    assert _values(q, y, ["ece"], "classwise")["ece"] > 0.005
    # Labels behind a predicted class are not as the vector says: the canonical error is not 0.
    frequencies = np.array([np.bincount(y[q.argmax(axis=1) == k], minlength=K) for k in range(K)])
    frequencies = frequencies / frequencies.sum(axis=1, keepdims=True)
    assert np.abs(frequencies - np.array([q[q.argmax(axis=1) == k][0] for k in range(K)])).max() > 0.02


def test_the_labels_behind_the_predicted_class_are_calibrated_and_lose_sharpness() -> None:
    P, y = _rows()
    fitted = calibrant.fit("predicted-class", P, y)
    q = fitted.apply(P)
    top = P.argmax(axis=1)
    for k in range(K):
        np.testing.assert_allclose(q[top == k].mean(axis=0), np.bincount(y[top == k], minlength=K) / (top == k).sum())
    assert _values(q, y, ["ks"], "classwise")["ks"] < 1e-12
    assert _values(q, y, ["ks"], "confidence")["ks"] < 1e-12
    best = calibrant.fit("temperature", P, y).apply(P)
    for score in ("brier", "log-loss"):
        measures = [{"name": "sharpness", "score": score}]
        assert _values(q, y, measures, "canonical")["sharpness"] < _values(best, y, measures, "canonical")["sharpness"]
    assert fitted.diagnostics["accuracy_after"] >= fitted.diagnostics["accuracy_before"]


def test_the_means_of_the_sides_are_calibrated_and_lose_sharpness() -> None:
    random = np.random.default_rng(0)
    c = random.beta(0.6, 0.9, 3000)
    y, p = (random.random(3000) < c).astype(int), c**1.4
    p[:3], y[:3] = 0.5, (1, 1, 0)
    fitted = calibrant.fit("side-means", p, y)
    q = fitted.apply(p)
    assert fitted.function.parameters() == pytest.approx({"below": y[p < 0.5].mean(), "above": y[p >= 0.5].mean()})
    np.testing.assert_array_equal(q >= 0.5, p >= 0.5)
    assert _values(q, y, ["ks"], "binary")["ks"] < 1e-12
    assert _values(q, y, ["sharpness"], "binary")["sharpness"] < _values(p, y, ["sharpness"], "binary")["sharpness"]
    np.testing.assert_array_equal(fitted.apply([0.0, np.nextafter(0.5, 0), 0.5, 1.0]), q[[p.argmin()] * 2 + [0] * 2])


def test_a_side_without_rows_and_a_class_never_predicted_have_the_mean_of_all() -> None:
    fitted = calibrant.fit("side-means", [0.6, 0.7, 0.9, 0.5], [1, 1, 0, 0])
    assert fitted.function.parameters() == {"below": 0.5, "above": 0.5}
    P = np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1]])
    fitted_map = calibrant.fit("predicted-class", P, [0, 2, 1, 1])
    assert fitted_map.function.parameters() == {"frequencies": [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.25, 0.5, 0.25]]}


def test_the_accuracy_of_an_event_stands_on_its_side() -> None:
    p, y = [0.2, 0.5, 0.9, 0.4], [0, 1, 1, 1]
    fitted = calibrant.fit("accuracy-constant", p, y)
    np.testing.assert_array_equal(fitted.apply([0.1, 0.5, 1.0]), [0.25, 0.75, 0.75])
    P, labels = _rows(400)
    claim = calibrant.fit("accuracy-constant", P, labels, reduction="confidence")
    np.testing.assert_array_equal(claim.apply(P), float((P.argmax(axis=1) == labels).mean()))


def test_an_accuracy_that_would_change_the_likeliest_class_is_refused() -> None:
    P, _ = _rows(100)
    for predictions, labels in ((P, P.argmin(axis=1)), ([0.1, 0.9, 0.2, 0.8], [0, 0, 1, 1])):
        with refused_at("/labels", OutOfRange):
            calibrant.fit("accuracy-constant", predictions, labels)


@pytest.mark.parametrize("method", ["accuracy-constant", "predicted-class", "side-means"])
def test_documents_round_trip_and_damaged_ones_are_refused(method: str) -> None:
    P, y = _rows(200)
    reduction = "confidence" if method == "side-means" else "canonical"
    fitted = calibrant.fit(method, P.astype(np.float32), y, reduction=reduction)
    document = fitted.to_document()
    again = calibrant.load(json.loads(json.dumps(document)))
    assert again.to_document() == document
    np.testing.assert_array_equal(again.apply(P), fitted.apply(P))
    name = next(iter(document["parameters"]))
    for damage in (-0.1, 1.1):
        damaged = copy.deepcopy(document)
        if method == "predicted-class":
            damaged["parameters"][name][1][2] = damage
        else:
            damaged["parameters"][name] = damage
        with refused_at(f"/parameters/{name}", InvalidDocument, below=True):
            calibrant.load(damaged)
    if method == "predicted-class":
        damaged = copy.deepcopy(document)
        damaged["parameters"][name][1] = [0.1] * K
        with pytest.raises(InvalidDocument, match="sum to 1"):
            calibrant.load(damaged)
