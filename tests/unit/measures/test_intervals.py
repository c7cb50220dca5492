from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.errors import InvalidOption
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling
from calibrant.reductions import Event


@pytest.mark.parametrize("mixing", [0.0, 0.6])
def test_intervals_cover_the_truth_as_often_as_they_say(mixing: float) -> None:
    """Truth: p = (1 - a) c + a c^2, c uniform, so the calibration error is a / 6; mixing 0 is calibrated."""
    random = np.random.default_rng(0)
    requests = read_requests(["ece", "ks"])
    covered = dict.fromkeys(["ece", "ks"], 0)
    for seed in range(150):
        c = random.random(1000)
        event = Event((1 - mixing) * c + mixing * c**2, (random.random(1000) < c).astype(np.int8))
        for request in requests:
            low, high = request.compute(event, Resampling(0.9, 200, seed)).interval or (1.0, 0.0)
            covered[request.key] += low <= mixing / 6 <= high
    # Three binomial standard errors below 90 %.
    assert min(covered.values()) >= 150 * 0.9 - 3 * np.sqrt(150 * 0.9 * 0.1)


def test_the_same_seed_gives_the_same_interval(golden_event: Event) -> None:
    (request,) = read_requests(["ece"])
    assert request.compute(golden_event, Resampling(0.95, 200, 1)) == request.compute(
        golden_event, Resampling(0.95, 200, 1)
    )


def test_constant_right_answers_have_an_interval_of_zero_width() -> None:
    event = Event(np.array([0.0, 1.0, 1.0]), np.array([0, 1, 1], np.int8))
    for request in read_requests(None):
        assert request.compute(event, Resampling(0.95, 100, 0)).interval == (0.0, 0.0)


def test_an_interval_that_would_draw_too_much_is_left_out_and_told() -> None:
    p = np.linspace(0, 1, 20_000)
    (request,) = read_requests([{"name": "ece", "n_bins": 20_000}])
    answer = request.compute(Event(p, (p > 0.5).astype(np.int8)), Resampling(0.95, 1000, 0))
    assert answer.value is not None
    assert answer.interval is None
    assert "bins" in (answer.problem or "")


@pytest.mark.parametrize(
    ("interval", "resamples", "seed"),
    [(0.0, 1000, 0), (1.0, 1000, 0), (True, 1000, 0), ("0.9", 1000, 0), (0.9, 10, 0), (0.9, 1000, -1), (0.9, 1e3, 0)],
)
def test_bad_options_are_refused(interval: Any, resamples: Any, seed: Any) -> None:
    with pytest.raises(InvalidOption):
        Resampling.read(interval, resamples, seed)


def test_counted_rows_are_resampled_as_the_rows_that_they_count() -> None:
    random = np.random.default_rng(5)
    p = np.repeat(np.linspace(0.1, 0.9, 9), 100)
    y = (random.random(len(p)) < p**2).astype(np.int8)
    (asked,) = read_requests(["ece-by-chance"])
    cells = np.unique(np.column_stack([p, y]), axis=0, return_counts=True)
    counted = Event(cells[0][:, 0], cells[0][:, 1].astype(np.int8), cells[1].astype(np.float64))
    found = [asked.compute(event, Resampling(0.9, 400)) for event in (Event(p, y), counted)]
    by_row, by_count = (np.subtract(*ends[::-1]) for result in found if (ends := result.interval) is not None)
    assert by_count == pytest.approx(by_row, rel=0.15)
