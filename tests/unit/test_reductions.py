from __future__ import annotations

import numpy as np
import pytest

from calibrant.batch import read_batch
from calibrant.errors import UnknownReduction
from calibrant.reductions import reduce, resolve

PROBS = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.4, 0.4, 0.2]])
LABELS = [1, 2, 1]


@pytest.mark.parametrize(
    ("reduction", "p", "y"),
    [
        ("confidence", [0.5, 0.6, 0.4], [1, 0, 0]),
        ("class:0", [0.2, 0.6, 0.4], [0, 0, 0]),
        ("class:1", [0.5, 0.3, 0.4], [1, 0, 1]),
    ],
)
def test_many_classes_become_one_event(reduction: str, p: list[float], y: list[int]) -> None:
    event = reduce(read_batch(PROBS, LABELS), reduction)
    np.testing.assert_allclose(event.p, p)
    assert event.y.tolist() == y


def test_two_columns_under_binary_mean_the_second_one() -> None:
    event = reduce(read_batch([[0.9, 0.1], [0.3, 0.7]], [0, 1]), "binary")
    np.testing.assert_allclose(event.p, [0.1, 0.7])
    assert event.y.tolist() == [0, 1]


def test_defaults_are_binary_for_one_column_and_confidence_for_many() -> None:
    assert resolve(None, None) == "binary"
    assert resolve(None, 2) == "confidence"


@pytest.mark.parametrize(
    ("reduction", "n_classes"),
    [("binary", 3), ("class:3", 3), ("class:-1", 3), ("class:01", 3), ("Class:1", 3), ("", 2)],
)
def test_a_reduction_that_does_not_fit_is_refused(reduction: str, n_classes: int) -> None:
    with pytest.raises(UnknownReduction):
        resolve(reduction, n_classes)
