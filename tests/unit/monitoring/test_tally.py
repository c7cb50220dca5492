from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.errors import EmptyBatch
from calibrant.core.reductions import Event
from calibrant.measures.catalogue import read_requests
from calibrant.monitoring.tally import MAX_GROUPS, Tally, from_bytes, gathered, merged, tally_of


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
    found = merged(tally_of(p[part], y[part], groups[part], folds[part]) for part in parts)
    whole = tally_of(p, y, groups, folds)
    np.testing.assert_array_equal(found.keys, whole.keys)
    np.testing.assert_array_equal(found.rows, whole.rows)
    np.testing.assert_allclose(found.p_sum, whole.p_sum, rtol=1e-13)


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
    one = tally_of(np.array([0.5]), np.array([1], dtype=np.int8))
    assert len(from_bytes(Tally(one.keys, one.rows * 2**33, one.p_sum * 2.0**33).to_bytes())) == 2**33
