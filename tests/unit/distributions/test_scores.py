from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from calibrant.core.errors import CalibrationError
from calibrant.distributions import scores
from calibrant.distributions.forecasts import Forecasts, read_forecasts
from tests.drawn import examples

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "distributions.json").read_text("utf-8"))
Y = np.array(GOLDEN["observed"])
NORMAL = read_forecasts(mean=GOLDEN["mean"], variance=np.square(GOLDEN["std"]))
QUANTILES = read_forecasts(quantiles=GOLDEN["quantiles"], levels=GOLDEN["levels"])
SAMPLES = read_forecasts(samples=GOLDEN["samples"])

OURS: dict[str, Any] = {
    "crps of normal": lambda: scores.crps(NORMAL, Y),
    "log score of normal": lambda: scores.log_score(NORMAL, Y),
    "crps of samples": lambda: scores.crps(SAMPLES, Y),
    "fair crps of samples": lambda: scores.crps(SAMPLES, Y, fair=True),
    "crps of quantiles": lambda: scores.crps(QUANTILES, Y),
    "pinball": lambda: scores.pinball(QUANTILES, Y).mean(axis=1),
    "interval score": lambda: scores.interval_score(QUANTILES, Y, level=0.8),
    "weighted interval score": lambda: scores.weighted_interval(QUANTILES, Y)["score"],
    "dawid-sebastiani of samples": lambda: scores.dawid_sebastiani(SAMPLES, Y),
    "threshold-weighted crps of samples": lambda: scores.threshold_weighted_crps(SAMPLES, Y, low=-1.0, high=2.0),
    "threshold-weighted crps of normal": lambda: scores.threshold_weighted_crps(NORMAL, Y, low=-1.0, high=2.0),
}


@pytest.mark.parametrize("name", sorted(GOLDEN["results"]))
def test_scores_are_those_of_scoringrules(name: str) -> None:
    np.testing.assert_allclose(OURS[name](), GOLDEN["results"][name], rtol=1e-12, atol=1e-13)


@settings(max_examples=examples(24, 1200))
@given(st.floats(-20, 20), st.floats(0.05, 20), st.floats(-40, 40), st.floats(-30, 0), st.floats(0.1, 30))
def test_threshold_weighted_crps_is_the_integral(mean: float, std: float, y: float, low: float, width: float) -> None:
    high = low + width
    forecast = read_forecasts(mean=[mean], variance=[std**2])

    def square(x: float) -> float:
        return float((norm.cdf(x, mean, std) - (y <= x)) ** 2)

    cuts = sorted({low, high, *(c for c in (y, mean - 4 * std, mean, mean + 4 * std) if low < c < high)})
    expected = sum(quad(square, a, b, epsabs=1e-11)[0] for a, b in pairwise(cuts))
    score = scores.threshold_weighted_crps(forecast, np.array([y]), low=low, high=high)
    assert score[0] == pytest.approx(expected, rel=1e-7, abs=1e-8)


def test_the_threshold_weighted_crps_without_thresholds_is_the_crps() -> None:
    for forecasts in (NORMAL, SAMPLES, QUANTILES):
        np.testing.assert_allclose(
            scores.threshold_weighted_crps(forecasts, Y), scores.crps(forecasts, Y), rtol=1e-12, atol=1e-14
        )


def test_many_samples_and_quantiles_have_the_crps_of_their_distribution() -> None:
    levels = (np.arange(2000) + 0.5) / 2000
    z = norm.ppf(levels)
    own = NORMAL.mean[:, None] + np.sqrt(NORMAL.variance)[:, None] * z
    exact = scores.crps(NORMAL, Y)
    np.testing.assert_allclose(scores.crps(read_forecasts(samples=own), Y), exact, rtol=2e-3)
    np.testing.assert_allclose(scores.crps(read_forecasts(quantiles=own, levels=levels), Y), exact, rtol=2e-3)


def test_the_parts_of_the_weighted_interval_score_sum_to_twice_the_mean_pinball_loss() -> None:
    parts = scores.weighted_interval(QUANTILES, Y)
    total = parts["dispersion"] + parts["underprediction"] + parts["overprediction"]
    np.testing.assert_allclose(total, parts["score"], rtol=1e-14)
    np.testing.assert_allclose(total, 2.0 * scores.pinball(QUANTILES, Y).mean(axis=1), rtol=1e-12)


@settings(max_examples=examples(16, 800))
@given(st.integers(0, 2**31), st.integers(1, 12), st.sampled_from([0.0, 1e6]))
def test_the_parts_of_the_weighted_interval_score_are_those_of_its_intervals(seed: int, K: int, shift: float) -> None:
    random = np.random.default_rng(seed)
    low = np.sort(random.uniform(0.0, 0.5, K))
    table = shift + np.sort(np.round(random.normal(size=(50, 2 * K + 1)), 1), axis=1)
    y = shift + np.round(2.0 * random.normal(size=50), 1)
    parts = scores.weighted_interval(
        read_forecasts(quantiles=table, levels=np.concatenate([low, [0.5], 1.0 - low[::-1]])), y
    )
    lower, median, upper = table[:, :K], table[:, K], table[:, :K:-1]
    expected = {
        "dispersion": (upper - lower) @ low,
        "underprediction": np.maximum(y[:, None] - upper, 0.0).sum(axis=1) + 0.5 * np.maximum(y - median, 0.0),
        "overprediction": np.maximum(lower - y[:, None], 0.0).sum(axis=1) + 0.5 * np.maximum(median - y, 0.0),
    }
    for name, of_rows in expected.items():
        np.testing.assert_allclose(parts[name], of_rows / (K + 0.5), rtol=1e-12, atol=1e-13, err_msg=name)


@settings(max_examples=examples(16, 800))
@given(st.integers(0, 2**31), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_scores_move_with_the_unit_of_the_outcome(seed: int, shift: float, factor: float) -> None:
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(5, 7)), random.normal(size=5)
    moved = read_forecasts(samples=shift + factor * x)
    expected = factor * scores.crps(read_forecasts(samples=x), y)
    np.testing.assert_allclose(
        scores.crps(moved, shift + factor * y), expected, rtol=1e-6, atol=1e-9 * (1 + abs(shift))
    )


def test_the_true_distribution_has_the_best_mean_score() -> None:
    random = np.random.default_rng(1)
    mean, std = random.normal(size=20_000), np.exp(0.3 * random.normal(size=20_000))
    y = mean + std * random.normal(size=20_000)
    for score in (scores.crps, scores.log_score, scores.dawid_sebastiani):
        true = score(read_forecasts(mean=mean, variance=std**2), y).mean()
        for wrong in (read_forecasts(mean=mean + 0.3, variance=std**2), read_forecasts(mean=mean, variance=2 * std**2)):
            assert score(wrong, y).mean() > true


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_extreme_scales_stay_finite(scale: float) -> None:
    forecast = read_forecasts(mean=np.array([0.0, 1.0]) * scale, variance=np.array([1.0, 4.0]) * scale**2)
    assert np.isfinite(scores.crps(forecast, np.array([3.0, -2.0]) * scale)).all()
    np.testing.assert_allclose(
        scores.crps(forecast, np.array([3.0, -2.0]) * scale) / scale,
        scores.crps(read_forecasts(mean=[0.0, 1.0], variance=[1.0, 4.0]), np.array([3.0, -2.0])),
        rtol=1e-9,
    )


@pytest.mark.parametrize(
    ("forecasts", "call", "message"),
    [
        (NORMAL, scores.pinball, "needs quantiles"),
        (QUANTILES, scores.log_score, "needs mean and variance"),
        (QUANTILES, scores.dawid_sebastiani, "need mean and variance, or samples"),
        (read_forecasts(samples=[[1.0]] * 12), scores.dawid_sebastiani, "one sample"),
        (
            read_forecasts(quantiles=[[0.0, 1.0, 2.0]] * 12, levels=[0.1, 0.5, 0.8]),
            scores.weighted_interval,
            "symmetric",
        ),
        (read_forecasts(lower=np.zeros(12), upper=np.ones(12), level=0.9), scores.crps, "more than one interval"),
    ],
)
def test_scores_that_do_not_exist_say_so(forecasts: Forecasts, call: Any, message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        call(forecasts, Y)
