"""Tallies add up whatever their keys are, and come back from bytes bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.tallies.tally import FOLDS, Tally, from_bytes, merged, tally_of


def _rows(n: int, groups: int, seed: int = 0) -> Tally:
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    return tally_of(p, (p > 0.5).astype(np.int8), rng.integers(0, groups, n), rng.integers(0, FOLDS, n))


def _same(one: Tally, other: Tally) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("keys", "rows", "p_sum"))


@pytest.mark.parametrize(("n", "groups"), [(0, 1), (1, 1), (3, 100), (5000, 1), (5000, 100), (100_000, 2)])
def test_a_tally_is_as_it_was_after_it_was_bytes(n: int, groups: int) -> None:
    made = merged([_rows(n, groups), _rows(n, groups, 1)])
    assert len(made) == 2 * n
    assert _same(from_bytes(made.to_bytes()), made)


def test_counts_of_any_size_come_back() -> None:
    for most in (255, 256, 65_535, 65_536, 2**32 - 1):
        keys = np.array([7, 2**32 - 1], dtype=np.uint32)
        made = Tally(keys, np.array([1, most]), np.array([0.1, most / 3]))
        assert _same(from_bytes(made.to_bytes()), made)
    with pytest.raises(OverflowError):
        Tally(np.zeros(1, np.uint32), np.array([2**32]), np.zeros(1)).to_bytes()


@pytest.mark.parametrize("damaged", [b"", b"T1", b"T1\x01", b"T1\x01\x03", b"Z1\x01\x01", b"T1\x01\x01short"])
def test_bytes_that_are_no_tally_are_refused(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="no"):
        from_bytes(damaged)


def test_tallies_of_few_keys_far_apart_add_up_as_those_of_many_do() -> None:
    parts = [_rows(200, 1, seed) for seed in range(5)]
    moved = [Tally(part.keys + np.uint32(2**31), part.rows, part.p_sum) for part in parts]
    near, far = merged(parts), merged(moved)
    assert np.array_equal(near.keys, far.keys - np.uint32(2**31))
    assert np.array_equal(near.rows, far.rows)
    assert np.array_equal(near.p_sum, far.p_sum)
