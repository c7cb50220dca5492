from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.binning import equal_mass, equal_width
from calibrant.measures.binned import expected_calibration_error, folded_normal_mean
from calibrant.reductions import Event


@pytest.mark.parametrize("family", ["ES", "EW"])
def test_every_bin_count_agrees_with_the_reference(golden: dict[str, Any], golden_event: Event, family: str) -> None:
    for count, expected in golden[family].items():
        bins = equal_mass(golden_event.cells, int(count)) if family == "ES" else equal_width(golden_event, int(count))
        l1, l1_debiased = expected_calibration_error(bins, 1)
        l2, l2_debiased = expected_calibration_error(bins, 2)
        assert l1 == pytest.approx(expected["ECE1"], abs=1e-9)
        assert l2 == pytest.approx(expected["ECE2"], abs=1e-9)
        # The reference sums a rectangle rule where we have the closed form.
        assert l1_debiased == pytest.approx(expected["ECE1_debiased"], abs=2e-5)
        assert l2_debiased == pytest.approx(expected["ECE2_debiased"], abs=1e-9)


def test_the_folded_normal_is_the_mean_of_absolute_normals() -> None:
    draws = np.random.default_rng(0).normal(0.3, 0.5, 400_000)
    closed = folded_normal_mean(np.array([0.3, -0.2]), np.array([0.5, 0.0]))
    assert closed[0] == pytest.approx(np.abs(draws).mean(), abs=3e-3)
    assert closed[1] == 0.2


def test_a_bin_of_one_row_gets_no_correction() -> None:
    event = Event(np.array([0.2, 0.9]), np.array([0, 1], np.int8))
    plain, debiased = expected_calibration_error(equal_mass(event.cells, 2), 2)
    assert plain == debiased == pytest.approx((0.2**2 + 0.1**2) / 2)


def test_debiased_values_of_calibrated_rows_centre_on_zero_and_are_not_truncated() -> None:
    random = np.random.default_rng(2)
    debiased = []
    for _ in range(200):
        p = random.random(500)
        event = Event(p, (random.random(500) < p).astype(np.int8))
        debiased.append(expected_calibration_error(equal_mass(event.cells, 10), 2)[1])
    assert min(debiased) < 0 < max(debiased)
    assert np.mean(debiased) == pytest.approx(0.0, abs=2e-4)


def test_importance_weights_can_be_rescaled_and_frequency_weights_repeat_rows() -> None:
    random = np.random.default_rng(3)
    p, y, w = random.random(300), random.integers(0, 2, 300).astype(np.int8), random.integers(1, 5, 300).astype(float)
    important = Event(p, y, w, "importance")
    rescaled = Event(p, y, w / 7.0, "importance")
    for count in (1, 10):
        ours = expected_calibration_error(equal_mass(important.cells, count), 1)
        assert ours == pytest.approx(expected_calibration_error(equal_mass(rescaled.cells, count), 1))
    twice = Event(np.repeat(p, w.astype(int)), np.repeat(y, w.astype(int)))
    frequency = Event(p, y, w)
    assert expected_calibration_error(equal_width(frequency, 9), 1) == pytest.approx(
        expected_calibration_error(equal_width(twice, 9), 1)
    )
