from __future__ import annotations

import numpy as np
import pytest

from calibrant.piecewise.selection import choose


@pytest.mark.parametrize(
    ("counts", "scores", "chosen"),
    [
        ((1, 2, 3), [0.2, 0.1, 0.15], 1),
        ((1, 2, 3), [0.1, 0.1, 0.1], 0),
        ((1, 2, 3, 4), [0.10005, 0.2, 0.3, 0.1], 0),  # the search goes on beyond counts that do not qualify
        ((1, 2, 3, 4), [0.1002, 0.2, 0.10009, 0.1], 2),
        ((1, 2, 3), [0.1, 0.1001, 0.2], 0),  # larger counts never replace the best
        ((5,), [0.3], 0),
    ],
)
def test_the_smallest_count_within_a_thousandth_of_the_best_is_chosen(
    counts: tuple[int, ...], scores: list[float], chosen: int
) -> None:
    assert choose(counts, np.array(scores)) == chosen
