from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.integrate import quad

import calibrant
from calibrant.core.reductions import Event
from calibrant.measures.smooth import NARROWEST, kde_ece, smooth_ece
from tests.rows import draw_distorted, draw_event

Array = npt.NDArray[np.float64]


def _drawn(n: int, seed: int, power: float = 1.3) -> Event:
    return Event(*draw_distorted(n, seed, power, dtype=np.int8))


def _directly(event: Event, sigma: float) -> float:
    """The definition, row by row, with its mirror images, integrated piecewise."""
    w = np.ones(len(event)) if event.w is None else event.w
    images = np.concatenate([2 * m + sign * event.p for m in range(-5, 6) for sign in (1, -1)])
    off = np.tile(w * (event.p - event.y), 22) / w.sum()

    def smoothed(t: float) -> float:
        return abs(float(off @ np.exp(-0.5 * ((t - images) / sigma) ** 2))) / (sigma * math.sqrt(2 * math.pi))

    edges = np.linspace(0, 1, 21)
    return float(sum(quad(smoothed, a, b, limit=400, epsabs=1e-11)[0] for a, b in pairwise(edges)))


@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.3, 1.0])
def test_the_grid_agrees_with_the_definition(sigma: float) -> None:
    event = _drawn(120, 0)
    assert smooth_ece(event, sigma)[0] == pytest.approx(_directly(event, sigma), abs=2e-8)
    weighted = Event(event.p, event.y, np.random.default_rng(1).random(120), "importance")
    assert smooth_ece(weighted, sigma)[0] == pytest.approx(_directly(weighted, sigma), abs=2e-8)


def test_the_value_is_its_own_bandwidth_and_the_size_never_grows_with_the_bandwidth() -> None:
    event = _drawn(500, 2)
    value, sigma = smooth_ece(event)
    assert value == pytest.approx(sigma, rel=1e-9)
    assert value == pytest.approx(_directly(event, sigma), abs=1e-8)
    sizes = [smooth_ece(event, s)[0] for s in (0.001, 0.01, 0.05, 0.2, 1.0)]
    assert all(a >= b - 1e-9 for a, b in pairwise(sizes))


def test_it_lies_between_the_mean_gap_and_the_mean_distance() -> None:
    """At least |mean (y - p)| as the kernel keeps mass, at most the mean |y - p| over distinct predictions."""
    for seed in range(5):
        event = _drawn(200, seed, 1.0 + seed / 4)
        value, _ = smooth_ece(event)
        off = event.y - event.p
        assert abs(off.mean()) - 1e-7 <= value <= np.abs(off).mean() + 1e-7


def test_calibrated_and_certain_predictions_have_no_error() -> None:
    right = Event(np.array([0.0, 1.0, 1.0]), np.array([0, 1, 1], np.int8))
    assert smooth_ece(right)[0] == 0.0
    ties = Event(np.full(10, 0.3), np.array([1] * 3 + [0] * 7, np.int8))
    assert smooth_ece(ties)[0] == pytest.approx(0.0, abs=1e-12)
    wrong = Event(np.array([0.0, 1.0]), np.array([1, 0], np.int8))
    assert smooth_ece(wrong)[0] == pytest.approx(_directly(wrong, smooth_ece(wrong)[1]), abs=1e-7)
    tiny = Event(np.full(4000, 0.5), (np.arange(4000) % 2).astype(np.int8) * 1)
    tiny = Event(np.append(tiny.p, 0.5001), np.append(tiny.y, 1).astype(np.int8))
    value, sigma = smooth_ece(tiny)
    assert sigma >= NARROWEST
    assert value == pytest.approx(0.5 / 4001, rel=1e-2)


@pytest.mark.parametrize("form", ["integral", "pointwise"])
@pytest.mark.parametrize("norm", [1, 2])
def test_the_kernel_density_error_is_that_of_a_direct_sum(form: Any, norm: int) -> None:
    """Densities summed row by row; the reference bins linearly onto its grid, which moves them by less than 1e-4."""
    event = _drawn(400, 3)
    positives = event.p[event.y == 1]
    reach = 3 * positives.std() * (2 * 400) ** -0.2

    def density(x: Array, p: Array) -> Array:
        mirrored = np.concatenate([p, np.where(p < 0.5, -p, 2 - p)])
        u = (x[:, None] - mirrored) / reach
        found: Array = 2 * np.mean(35 / 32 * np.clip(1 - u**2, 0, None) ** 3, axis=1) / reach
        return found

    x = np.linspace(0, 1, 4001)[1:-1] if form == "integral" else event.p
    every = density(x, event.p)
    share = np.minimum(event.y.mean() * density(x, positives) / every, 1)
    off = np.abs(share - x) ** norm
    expected = np.average(off, weights=every) if form == "integral" else off.mean()
    assert kde_ece(event, form, norm)[0] == pytest.approx(expected, abs=2e-4)


def test_one_outcome_or_one_prediction_of_positives_is_a_problem() -> None:
    for p, y, word in [([0.2, 0.4], [0, 0], "positives"), ([0.2, 0.4, 0.4], [0, 1, 1], "equal")]:
        answer = calibrant.evaluate(p, y, measures=["kde-ece"]).measures["kde-ece"]
        assert answer.value is None
        assert word in (answer.problem or "")


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 1.5])
def test_the_interval_of_the_smooth_error_holds_the_truth(power: float) -> None:
    random = np.random.default_rng(4)
    c = random.random(40_000)
    both = Event(np.tile(c**power, 2), np.repeat(np.array([0, 1], np.int8), 40_000), np.concatenate([1 - c, c]))
    truth, hits = smooth_ece(both)[0], 0
    for seed in range(80):
        event = _drawn(500, 100 + seed, power)
        found = calibrant.evaluate(event.p, event.y, measures=["smooth-ece"], interval=0.9, resamples=300)
        low, high = found.measures["smooth-ece"].interval or (1.0, 0.0)
        hits += low <= truth + 1e-3 and truth <= high
    assert hits >= 80 * 0.9 - 3.5 * np.sqrt(80 * 0.09)


def test_residuals_of_one_sign_have_nearly_the_same_size_at_every_bandwidth() -> None:
    """Sizes that differ by rounding alone enclose no fixed point."""
    assert smooth_ece(Event(np.array([0.0, 1.0]), np.array([0, 0], np.int8)))[0] == pytest.approx(0.5)
    for seed in range(40):
        c, y = draw_event(500, [7, seed], dtype=np.int8)
        event = Event(0.4 * c + 0.6 * c**2, y)
        value, sigma = smooth_ece(event)
        assert value == pytest.approx(sigma, rel=1e-4)
