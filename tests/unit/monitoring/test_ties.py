"""What keeps tallies the same numbers wherever the rows are counted: cells, sums and ties."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.monitoring.tally import BEGINS, CELLS, Tally, borders, from_bytes, merged, place, tally_of


def test_a_cell_holds_what_lies_from_its_border_up_to_the_next() -> None:
    cells = np.arange(CELLS)
    np.testing.assert_array_equal(place(BEGINS), cells)
    np.testing.assert_array_equal(place(np.nextafter(BEGINS[1:], 0.0)), cells[:-1])
    np.testing.assert_array_equal(place(np.array([0.0, 5e-324, 1.0])), [0, 0, CELLS - 1])
    p = np.random.default_rng(0).random(200_000)
    np.testing.assert_array_equal(place(p), np.searchsorted(borders(), p, side="right") - 1)


def test_predictions_that_many_rows_share_are_themselves_again_in_any_partition() -> None:
    random = np.random.default_rng(1)
    p = random.integers(0, 101, 600_000) / 100.0
    y = (random.random(len(p)) < p).astype(np.int8)
    whole = tally_of(p, y).event()
    parts = merged([tally_of(p[i::7], y[i::7]) for i in range(7)]).event()
    np.testing.assert_array_equal(np.unique(whole.p), np.arange(101) / 100.0)
    for name in ("p", "y", "w"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_a_row_that_counts_twice_is_the_row_two_times() -> None:
    random = np.random.default_rng(2)
    p, y, counts = random.random(1000), random.integers(0, 2, 1000, dtype=np.int8), random.integers(1, 4, 1000)
    counted, repeated = tally_of(p, y, counts=counts), tally_of(np.repeat(p, counts), np.repeat(y, counts))
    np.testing.assert_array_equal(counted.rows, repeated.rows)
    np.testing.assert_allclose(counted.p_sum, repeated.p_sum, rtol=1e-15)


@pytest.mark.parametrize("most", [2**32 - 1, 2**32, 2**50])
def test_more_rows_of_a_kind_than_four_bytes_count_are_kept(most: int) -> None:
    counted = Tally(np.array([3, 4096], np.uint32), np.array([1, most]), np.array([0.25, 0.5 * most]))
    again = from_bytes(counted.to_bytes())
    assert (again.keys.tolist(), again.rows.tolist(), again.p_sum.tolist()) == ([3, 4096], [1, most], [0.25, most / 2])
    with pytest.raises(ValueError, match="not a complete tally"):
        from_bytes(counted.to_bytes()[:-1])
