"""The event rate of a window under label shift, from tallies."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from calibrant import CalibrationError, EventTally


def drawn(seed: int, kept: float, *, n: int = 5000, warp: float = 1.0) -> tuple[EventTally, EventTally, float]:
    """A reference, a window in which this share of the events is kept, and the window's event rate."""
    random = np.random.default_rng(seed)
    p = random.beta(1.0, 1.5, 9 * n)
    y = random.random(9 * n) < p**1.3 / (p**1.3 + (1.0 - p) ** 0.8)
    there = np.flatnonzero(~y | (random.random(9 * n) < kept))
    there = there[there >= n][:n]
    window = calibrant.tally(p[there] ** warp, y[there])
    return calibrant.tally(p[:n], y[:n]), window, float(y[there].mean())


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0.02, 0.3, 1.0])
def test_the_interval_contains_the_rate_of_most_windows(kept: float) -> None:
    inside, errors, plain = 0, [], []
    for seed in range(20):
        reference, window, rate = drawn(seed, kept)
        found = calibrant.estimate_event_shift(reference, window, alpha=1e-6)
        assert found.estimated is not None
        assert found.low is not None
        assert found.high is not None
        assert found.bbse is not None
        inside += bool(found.low[1] <= rate <= found.high[1])
        errors.append(abs(found.estimated[1] - rate))
        plain.append(abs(found.reference[1] - rate))
        assert found.estimated.sum() == pytest.approx(1.0)
        assert abs(found.bbse[1] - found.estimated[1]) < 0.1
    assert inside >= 17
    assert kept == 1.0 or np.mean(errors) < np.mean(plain) / 5.0


def test_the_corrected_map_predicts_the_rate_of_the_window() -> None:
    reference, window, rate = drawn(1, 0.2, n=20_000)
    found = calibrant.estimate_event_shift(reference, window)
    assert found.map is not None
    event = window.event()
    assert event.w is not None
    assert found.estimated is not None
    mean = np.average(found.map.curve(event.p), weights=event.w)
    assert mean == pytest.approx(found.estimated[1], abs=1e-3)
    assert mean == pytest.approx(rate, abs=0.03)
    again = calibrant.load(found.map.to_document())
    assert np.array_equal(again.curve(event.p), found.map.curve(event.p))


def test_a_window_that_is_no_mixture_is_withheld() -> None:
    reference, window, _ = drawn(2, 0.5, warp=1.5)
    found = calibrant.estimate_event_shift(reference, window)
    assert (found.estimated, found.map, found.weights) == (None, None, None)
    assert found.withheld is not None
    assert "not a mixture" in found.withheld


def test_labels_of_the_window_are_not_used() -> None:
    reference, window, _ = drawn(3, 0.5)
    rows = window.tally
    blind = EventTally(type(rows)(rows.keys | np.uint32(1), rows.rows, rows.p_sum), "binary")
    one, other = (calibrant.estimate_event_shift(reference, each) for each in (window, blind))
    assert one.p_value == pytest.approx(other.p_value, rel=1e-9)


def test_predictions_without_information_leave_the_rate_open() -> None:
    reference = calibrant.tally([0.5] * 100, [0, 1] * 50)
    found = calibrant.estimate_event_shift(reference, calibrant.tally([0.5] * 300, [0] * 300))
    assert found.low is not None
    assert found.high is not None
    assert (found.low.tolist(), found.high.tolist(), found.bbse) == ([0.0, 0.0], [1.0, 1.0], None)


def test_unsuitable_tallies_are_refused() -> None:
    good = calibrant.tally([0.2, 0.7] * 50, [0, 1, 1, 0] * 25)
    few = calibrant.tally([0.2, 0.7] * 50, [0] * 95 + [1] * 5)
    apart = calibrant.tally([0.2] * 50 + [0.8] * 50, [0] * 50 + [1] * 50)
    confident = calibrant.tally([0.6, 0.7] * 50, [0, 1, 1, 0] * 25, reduction="confidence")
    empty = EventTally(good.tally.of_folds([4]), "binary")
    for reference, window, code in (
        (few, good, "too-few-rows"),
        (apart, good, "not-converged"),
        (confident, confident, "unknown-reduction"),
        (good, confident, "invalid-option"),
        (good, empty, "empty-batch"),
        (empty, good, "empty-batch"),
    ):
        with pytest.raises(CalibrationError) as caught:
            calibrant.estimate_event_shift(reference, window)
        assert caught.value.code == code
