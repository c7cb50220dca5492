"""The shifted worlds: their truth is that of drawn rows, and the page has every table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.dataset_shift import SHIFTS, ShiftedWorld, experiment, page

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("world", SHIFTS, ids=[shift.name for shift in SHIFTS])
def test_the_truth_of_a_world_is_the_frequency_of_its_labels(world: ShiftedWorld) -> None:
    p, y = world.drawn(200_000, np.random.default_rng(0))
    for rows in np.array_split(np.argsort(p), 10):
        spread = np.sqrt(0.25 / len(rows))
        assert abs(y[rows].mean() - world.truth(p[rows]).mean()) < 4.5 * spread


def test_only_a_shift_of_the_used_feature_keeps_the_true_map() -> None:
    p = np.linspace(0.01, 0.99, 99)
    before, *after = (shift.truth(p) for shift in SHIFTS)
    unchanged, *moved = (float(np.abs(before - truth).max()) for truth in after)
    assert unchanged == 0.0
    assert min(moved) > 0.1


def test_the_page_has_a_row_for_every_method() -> None:
    shifts = experiment(1, ("identity", "platt", "isotonic"), 400)
    assert shifts.maps["platt"]["no shift"][0] < shifts.maps["identity"]["no shift"][0]
    assert shifts.refitted["identity"] == shifts.kept["identity"]
    text = page(shifts)
    assert text.count("| `platt` |") == 4
    assert all(shift.name in text for shift in SHIFTS)
