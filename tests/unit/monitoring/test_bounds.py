from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.errors import EmptyBatch
from calibrant.monitoring.bounds import (
    MeasureBounds,
    brier_bounds,
    equal_mass_bounds,
    equal_width_bounds,
    ks_bounds,
    log_loss_bounds,
)
from calibrant.monitoring.tally import merged, tally_of


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
    found = equal_width_bounds(tally, 2)
    assert found.low == pytest.approx(found.high) == pytest.approx((0.5 + 0.1) / 3)


def test_a_value_is_apart_by_the_farther_bound() -> None:
    assert MeasureBounds(0.1, 0.4).apart(0.15) == pytest.approx(0.25)
    assert MeasureBounds(0.1, 0.4).apart(0.5) == pytest.approx(0.4)


def test_what_one_cell_hides_is_bounded_by_the_mean_error() -> None:
    found = equal_mass_bounds(tally_of(np.full(90, 0.3), (np.arange(90) < 27).astype(np.int8)))
    assert found.high == pytest.approx(2 * 0.3 * 0.7)


def test_no_rows_have_no_bounds() -> None:
    for bounds in (ks_bounds, equal_mass_bounds, log_loss_bounds):
        with pytest.raises(EmptyBatch):
            bounds(merged([]))
