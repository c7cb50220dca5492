from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold

from calibrant.core.validation import fold_of_rows, simplest


@pytest.mark.parametrize(
    ("counts", "scores", "chosen"),
    [
        ((1, 2, 3), [0.2, 0.1, 0.15], 1),
        ((1, 2, 3), [0.1, 0.1, 0.1], 0),
        ((1, 2, 3, 4), [0.10005, 0.2, 0.3, 0.1], 0),  # the search goes on beyond counts that do not qualify
        ((1, 2, 3, 4), [0.1002, 0.2, 0.10009, 0.1], 2),
        ((1, 2, 3), [0.1, 0.1001, 0.2], 0),  # larger counts never replace the best
        ((5,), [0.3], 0),
        ((1, 2, 3), [0.1, 1e-32, 0.0], 1),  # equal but for the rounding of predictions
        ((1, 2, 3), [0.1, 0.0, -1e-17], 2),  # a score that cancelled to below 0
        ((2, 1), [-0.1, 0.1], 0),
    ],
)
def test_the_smallest_count_within_a_thousandth_of_the_best_is_chosen(
    counts: tuple[int, ...], scores: list[float], chosen: int
) -> None:
    assert simplest(counts, np.array(scores)) == chosen


@pytest.mark.parametrize(("n", "folds", "seed"), [(10, 10, 0), (997, 10, 3), (1000, 7, 1)])
def test_folds_are_those_of_scikit_learn(n: int, folds: int, seed: int) -> None:
    fold = fold_of_rows(n, folds, seed)
    splits = KFold(folds, shuffle=True, random_state=seed).split(np.zeros(n))
    for number, (_, test) in enumerate(splits):
        np.testing.assert_array_equal(np.flatnonzero(fold == number), test)
