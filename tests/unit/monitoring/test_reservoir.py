"""Reservoirs of rows: bounded, uniform, and the same however their rows are split, repeated or thinned."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.monitoring.reservoir import NO_LABEL, Reservoir, from_bytes, priorities_of, thinned, together

_K = 3


def _drawn(n: int, seed: int) -> Reservoir:
    random = np.random.default_rng(seed)
    return Reservoir.of(random.random(n), random.random((n, _K)), random.integers(NO_LABEL, _K, n))


def _same(first: Reservoir, other: Reservoir) -> bool:
    arrays = ("priorities", "vectors", "labels", "later", "later_labels")
    return first.below == other.below and all(np.array_equal(getattr(first, a), getattr(other, a)) for a in arrays)


def test_the_rows_of_the_lowest_priorities_stay_for_any_split() -> None:
    whole = _drawn(1000, 0)
    order = np.random.default_rng(1).permutation(1000)
    parts = [
        Reservoir.of(whole.priorities[rows], whole.vectors[rows], whole.labels[rows])
        for rows in np.split(order, [100, 150, 900])
    ]
    once = together(parts, 200)
    twice = together([together(parts[:2], 200), together(parts[1:], 200), parts[0]], 200)
    assert np.array_equal(once.priorities, whole.priorities[:200])
    assert np.array_equal(once.vectors, whole.vectors[:200])
    assert once.below == whole.priorities[200]
    assert _same(once, twice)


def test_a_label_that_arrives_later_is_given_to_its_row_and_dropped_with_it() -> None:
    rows = Reservoir.of(np.array([0.1, 0.2, 0.3]), np.zeros((3, _K)), np.full(3, NO_LABEL))
    late = Reservoir.empty(_K).with_later(np.array([0.3, 0.1]), np.array([2, 1]))
    assert together([rows, late], 3).labels.tolist() == [1, NO_LABEL, 2]
    few = together([late, rows], 2)
    assert (few.labels.tolist(), len(few.later)) == ([1, NO_LABEL], 0)
    alone = together([late], 2)
    assert together([alone, rows], 2).labels.tolist() == [1, NO_LABEL]
    assert few.labelled().priorities.tolist() == [0.1]


def test_a_serialized_reservoir_is_read_as_it_was() -> None:
    reservoir = _drawn(50, 2).with_later(np.array([0.5]), np.array([1])).at_most(20)
    assert _same(from_bytes(reservoir.to_bytes()), reservoir)
    assert len(from_bytes(Reservoir.empty(_K).to_bytes())) == 0


def test_thinned_sets_have_the_same_sample_from_any_set_on() -> None:
    sizes = np.random.default_rng(3).integers(0, 120, 40)
    sets = [_drawn(int(n), 10 + i) for i, n in enumerate(sizes)]
    thin = sets
    for _ in range(2):  # thinning again changes nothing
        thin = thinned(thin, 100)
        for first in range(len(sets)):
            assert _same(together(thin[first:], 100), together(sets[first:], 100))
    rows = sum(map(len, thin))
    assert rows < 100 * (1.0 + np.log(sizes.sum() / 100)) * 1.1 < sizes.sum()


def test_thinned_sets_can_be_thinned_further_as_rows_arrive() -> None:
    sets = [_drawn(80, 60 + i) for i in range(30)]
    thin: list[Reservoir] = []
    for reservoir in sets:
        thin = thinned([*thin, reservoir], 50)
    for first in range(len(sets)):
        assert _same(together(thin[first:], 50), together(sets[first:], 50))


def test_priorities_are_uniform_and_belong_to_an_id_and_a_key() -> None:
    ids = [b"row-%d" % i for i in range(4000)]
    priorities = priorities_of(ids, "monitor_1")
    assert np.array_equal(priorities[:10], priorities_of(ids[:10], "monitor_1"))
    assert not np.array_equal(priorities, priorities_of(ids, "monitor_2"))
    assert priorities.min() >= 0.0
    assert priorities.max() < 1.0
    assert np.abs(np.histogram(priorities, 10, (0.0, 1.0))[0] - 400).max() < 90


@pytest.mark.parametrize("size", [1, 7])
def test_an_empty_reservoir_changes_nothing(size: int) -> None:
    reservoir = _drawn(10, 4)
    assert _same(together([Reservoir.empty(_K), reservoir], size), reservoir.at_most(size))
