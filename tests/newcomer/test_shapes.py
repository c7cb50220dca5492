"""Tasks with arrays of other shapes: outputs of several labels, tokens, pixels and masks. Each remedy is executed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

import calibrant

_RANDOM = np.random.default_rng(0)


def _remedies(predictions: Any, labels: Any) -> list[tuple[Any, Any]]:
    """Return what the error says to pass: pairs of predictions and labels, one for each of its ways."""
    with pytest.raises(calibrant.CalibrationError) as refused:
        calibrant.evaluate(predictions, labels)
    remedies = []
    for way in str(refused.value).split("pass ", 1)[1].split("; or "):
        first, other = re.split(r" and (?=labels|np.asarray)", re.split(", if | for each", way)[0])
        names = {"np": np, "predictions": predictions, "labels": labels, "k": 1}
        remedies.append((eval(first, names), eval(other, names)))
    return remedies


def _same(first: Any, other: Any, predictions: Any, labels: Any) -> None:
    expected = calibrant.evaluate(predictions, labels, measures=["brier"])["brier"].value
    brier = calibrant.evaluate(first, other, measures=["brier"])["brier"].value
    assert brier == pytest.approx(expected, rel=1e-6)


def test_a_forest_of_several_outputs_is_evaluated_by_output() -> None:
    """Pass the list of ``predict_proba``, or an array of it, with labels of three columns."""
    x, y = _RANDOM.normal(size=(90, 4)), _RANDOM.integers(0, 2, (90, 3))
    outputs = RandomForestClassifier(20, random_state=0).fit(x, y).predict_proba(x[:, ::-1])
    for predictions in (outputs, np.array(outputs)):
        for labels in (y, y.tolist()):
            [(first, other)] = _remedies(predictions, labels)
            _same(first, other, outputs[1][:, 1], y[:, 1])


@pytest.mark.parametrize("of_torch", [False, True])
def test_pixels_with_classes_in_the_second_axis_are_moved_to_the_last(of_torch: bool) -> None:
    """Pass outputs (n, k, h, w) of a segmentation network with labels (n, h, w)."""
    p = _RANDOM.dirichlet(np.ones(4), size=(5, 6, 7))
    y = _RANDOM.integers(0, 4, (5, 6, 7))
    pixels: Any = np.moveaxis(p, -1, 1)
    [(first, other)] = _remedies(*((torch.tensor(pixels), torch.tensor(y)) if of_torch else (pixels, y)))
    _same(first, other, p.reshape(-1, 4), y.reshape(-1))
    [(first, other)] = _remedies(p, y)
    _same(first, other, p.reshape(-1, 4), y.reshape(-1))


def test_tokens_that_may_be_in_either_order_get_both_remedies() -> None:
    """Pass predictions of three tokens a text, and of three classes."""
    p, y = _RANDOM.dirichlet(np.ones(3), size=(50, 3)), _RANDOM.integers(0, 3, (50, 3))
    last, second = _remedies(p, y)
    _same(*last, p.reshape(-1, 3), y.reshape(-1))
    np.testing.assert_array_equal(second[0], np.swapaxes(p, 1, 2).reshape(-1, 3))


@pytest.mark.parametrize("shape", [(5, 6, 7), (5, 1, 6, 7)])
def test_masks_of_two_classes_become_one_column(shape: tuple[int, ...]) -> None:
    """Pass one probability a pixel, with or without an axis of channels."""
    p, y = _RANDOM.uniform(size=shape), _RANDOM.integers(0, 2, (5, 6, 7))
    [(first, other)] = _remedies(p, y)
    _same(first, other, p.ravel(), y.ravel())


def test_one_hot_pixels_and_maps_without_labels_get_a_remedy() -> None:
    """Pass one-hot labels of pixels, and apply a map to pixels."""
    p = _RANDOM.dirichlet(np.ones(4), size=(5, 6))
    y = np.eye(4, dtype=int)[_RANDOM.integers(0, 4, (5, 6))]
    with pytest.raises(calibrant.CalibrationError, match=r"for one-hot labels pass labels.argmax\(-1\)"):
        calibrant.evaluate(p, y)
    [(first, other)] = _remedies(p, y.argmax(-1))
    _same(first, other, p.reshape(-1, 4), y.argmax(-1).reshape(-1))
    fitted = calibrant.fit("temperature", first, other)
    with pytest.raises(calibrant.CalibrationError, match=r"np.moveaxis\(predictions, AXIS, -1\).reshape\(-1, K\)"):
        fitted.apply(p)
