"""Tallies of rows by cells: sums, ties, bytes, and bounds of the measures of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.monitors.bounds import (
    MeasureBounds,
    brier_bounds,
    equal_mass_bounds,
    equal_width_bounds,
    ks_bounds,
    log_loss_bounds,
)
from calibrant.core.errors import EmptyBatch
from calibrant.core.reductions import Event
from calibrant.measures.catalogue import read_requests
from calibrant.monitoring.tally import (
    BEGINS,
    CELLS,
    MAX_GROUPS,
    Tally,
    borders,
    from_bytes,
    gathered,
    merged,
    place,
    tally_of,
)


def test_an_event_has_a_row_for_each_cell_and_outcome_at_the_mean_of_the_cell() -> None:
    tally = tally_of(np.array([0.5, 0.5002, 0.5005, 0.9]), np.array([1, 1, 0, 0], dtype=np.int8))
    event = tally.event()
    mean = (0.5 + 0.5002 + 0.5005) / 3
    np.testing.assert_allclose(event.p, [mean, mean, 0.9])
    assert event.w is not None
    assert (event.y.tolist(), event.w.tolist()) == ([0, 1, 0], [1.0, 2.0, 1.0])


def test_measures_of_a_calibrated_tally_are_those_of_its_rows() -> None:
    """Were the outcomes of a cell apart, KS would read a gap of 2e-4 between them."""
    random = np.random.default_rng(2)
    p = random.random(1_000_000)
    event = Event(p, (random.random(len(p)) < p).astype(np.int8))
    read = tally_of(p, event.y).event()
    for request in read_requests(["ks", "ece", "log-loss"]):
        assert request.compute(read).value == pytest.approx(request.compute(event).value, abs=1e-4)


def test_an_empty_tally_is_no_event() -> None:
    with pytest.raises(EmptyBatch):
        merged([]).event()


def test_keys_far_apart_are_gathered_as_those_close_together_are() -> None:
    random = np.random.default_rng(0)
    keys, rows, p = random.integers(0, 40, 300).astype(np.uint32), random.integers(1, 9, 300), random.random(300)
    close = gathered(keys, rows, p)
    far = gathered(keys * np.uint32(10**8), rows, p)
    np.testing.assert_array_equal(close[0] * np.uint32(10**8), far[0])
    np.testing.assert_array_equal(close[1], far[1])
    np.testing.assert_array_equal(close[2], far[2])


def test_many_tallies_of_many_groups_are_merged() -> None:
    random = np.random.default_rng(5)
    p, groups = random.random(150_000), random.integers(0, 2000, 150_000)
    y, folds = random.integers(0, 2, len(p)).astype(np.int8), random.integers(0, 5, len(p))
    parts = (slice(start, start + 1000) for start in range(0, len(p), 1000))
    together = merged(tally_of(p[part], y[part], groups[part], folds[part]) for part in parts)
    whole = tally_of(p, y, groups, folds)
    np.testing.assert_array_equal(together.keys, whole.keys)
    np.testing.assert_array_equal(together.rows, whole.rows)
    np.testing.assert_allclose(together.p_sum, whole.p_sum, rtol=1e-13)


def test_the_last_group_has_its_key() -> None:
    p, y = np.array([1.0, 0.0]), np.array([1, 0], dtype=np.int8)
    tally = tally_of(p, y, np.array([MAX_GROUPS - 1, 0]), np.array([4, 0]))
    again = from_bytes(merged([tally, tally]).to_bytes())
    assert len(again.of_group(MAX_GROUPS - 1)) == 2
    assert len(again.of_group(0)) == 2
    assert int(again.keys[-1]) < 2**32


def test_an_entry_takes_eleven_bytes_or_so() -> None:
    random = np.random.default_rng(1)
    tally = tally_of(random.random(5000), random.integers(0, 2, 5000).astype(np.int8))
    assert len(tally.to_bytes()) < 11 * len(tally.keys)


@pytest.mark.parametrize("cut", [0, 1, 15, 17, -1])
def test_bytes_cut_off_are_no_tally(cut: int) -> None:
    whole = tally_of(np.array([0.5]), np.array([1], dtype=np.int8)).to_bytes()
    with pytest.raises(ValueError, match=r"not a (complete )?tally"):
        from_bytes(whole[:cut])


def test_counts_beyond_four_bytes_are_stored_in_eight() -> None:
    counted = tally_of(np.array([0.5]), np.array([1], dtype=np.int8))
    assert len(from_bytes(Tally(counted.keys, counted.rows * 2**33, counted.p_sum * 2.0**33).to_bytes())) == 2**33


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


def test_bounds_are_close_at_a_hundred_thousand_rows() -> None:
    random = np.random.default_rng(0)
    c = random.random(100_000)
    tally = tally_of(c**1.2, (random.random(len(c)) < c).astype(np.int8))
    widths = {
        bounds.__name__: bounds(tally).high - bounds(tally).low
        for bounds in (ks_bounds, equal_width_bounds, equal_mass_bounds, log_loss_bounds, brier_bounds)
    }
    assert widths["ks_bounds"] < 1e-3
    assert widths["equal_width_bounds"] < 1e-2
    assert widths["equal_mass_bounds"] < 1e-2
    assert widths["log_loss_bounds"] < 1e-4
    assert widths["brier_bounds"] < 1.6e-7


def test_a_bin_that_begins_in_an_empty_cell_leaves_nothing_in_doubt() -> None:
    tally = tally_of(np.array([0.1, 0.4, 0.9]), np.array([1, 0, 1], dtype=np.int8))
    bounds = equal_width_bounds(tally, 2)
    assert bounds.low == pytest.approx(bounds.high) == pytest.approx((0.5 + 0.1) / 3)


def test_a_value_is_apart_by_the_farther_bound() -> None:
    assert MeasureBounds(0.1, 0.4).apart(0.15) == pytest.approx(0.25)
    assert MeasureBounds(0.1, 0.4).apart(0.5) == pytest.approx(0.4)


def test_what_one_cell_hides_is_bounded_by_the_mean_error() -> None:
    bounds = equal_mass_bounds(tally_of(np.full(90, 0.3), (np.arange(90) < 27).astype(np.int8)))
    assert bounds.high == pytest.approx(2 * 0.3 * 0.7)


def test_no_rows_have_no_bounds() -> None:
    for bounds in (ks_bounds, equal_mass_bounds, log_loss_bounds):
        with pytest.raises(EmptyBatch):
            bounds(merged([]))
