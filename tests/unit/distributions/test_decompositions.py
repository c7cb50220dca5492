from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import calibrant
from calibrant.core.cells import Floats
from calibrant.distributions.decompositions import isotonic_quantiles

N = 400
RANDOM = np.random.default_rng(2)
MEAN, STD = RANDOM.normal(size=N), np.exp(0.4 * RANDOM.normal(size=N))
Y = MEAN + STD * RANDOM.normal(size=N)
LEVELS = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
QUANTILES = MEAN[:, None] + STD[:, None] * norm.ppf(LEVELS)
SAMPLES = MEAN[:, None] + STD[:, None] * RANDOM.normal(size=(N, 20))
CASES: list[tuple[str, dict[str, Any]]] = [
    ("crps", {"mean": MEAN, "std": STD}),
    ("log-score", {"mean": MEAN, "std": STD}),
    ("dawid-sebastiani", {"mean": MEAN, "std": STD}),
    ("crps", {"samples": SAMPLES}),
    ("dawid-sebastiani", {"samples": SAMPLES}),
    ("crps", {"quantiles": QUANTILES, "levels": LEVELS}),
    ("quantile-score", {"quantiles": QUANTILES, "levels": LEVELS}),
]


def decomposed(y: Any, score: str, **forecasts: Any) -> dict[str, Any]:
    weights = forecasts.pop("weights", None)
    request = {"name": "decomposition", "score": score}
    report = calibrant.evaluate_distribution(y, **forecasts, weights=weights, measures=[request, score])
    decomposition = report["decomposition"]
    assert decomposition.value == decomposition.parts["miscalibration"]
    assert decomposition.parts["score"] == pytest.approx(report[score].value, rel=1e-12)
    return dict(decomposition.parts)


@pytest.mark.parametrize(("score", "forecasts"), CASES)
def test_parts_add_up_and_are_not_negative(score: str, forecasts: dict[str, Any]) -> None:
    parts = decomposed(Y, score, **forecasts)
    total = parts["miscalibration"] - parts["discrimination"] + parts["uncertainty"]
    assert total == pytest.approx(parts["score"], rel=1e-12)
    assert parts["miscalibration"] > 0.0
    assert parts["discrimination"] > 0.0


@pytest.mark.parametrize(("score", "forecasts"), CASES)
def test_weights_are_repetitions(score: str, forecasts: dict[str, Any]) -> None:
    w = np.random.default_rng(3).integers(0, 3, N)
    row = np.repeat(np.arange(N), w)
    repeated = {name: x if name == "levels" else x[row] for name, x in forecasts.items()}
    first, other = decomposed(Y, score, weights=w, **forecasts), decomposed(Y[row], score, **repeated)
    for name in ("score", "miscalibration", "discrimination", "uncertainty"):
        assert first[name] == pytest.approx(other[name], rel=1e-6), name


def test_worse_calibration_adds_miscalibration_alone() -> None:
    good = decomposed(Y, "crps", quantiles=QUANTILES, levels=LEVELS)
    shifted = decomposed(Y, "crps", quantiles=QUANTILES + 3.0, levels=LEVELS)
    assert shifted["discrimination"] == pytest.approx(good["discrimination"], rel=1e-9)
    assert shifted["miscalibration"] > 10.0 * good["miscalibration"]
    good, shifted = (decomposed(Y, "log-score", mean=MEAN + by, std=STD) for by in (0.0, 3.0))
    assert shifted["discrimination"] == pytest.approx(good["discrimination"], rel=1e-5)


def test_uncertainty_of_the_crps_is_that_of_the_outcomes_as_forecasts() -> None:
    parts = decomposed(Y, "crps", mean=MEAN, std=STD)
    constant = calibrant.evaluate_distribution(Y, samples=np.tile(Y, (N, 1)), measures=["crps"])["crps"].value
    assert parts["uncertainty"] == pytest.approx(constant, rel=1e-10)


def test_a_constant_forecast_has_no_discrimination() -> None:
    for score in ("crps", "log-score"):
        parts = decomposed(Y, score, mean=np.ones(N), std=np.full(N, 2.0))
        assert parts["discrimination"] == pytest.approx(0.0, abs=1e-9)


def test_recalibration_of_ordered_samples_is_exact() -> None:
    x = np.arange(60.0)
    y = x + np.random.default_rng(4).normal(size=60) * 10.0
    parts = decomposed(y, "crps", samples=x[:, None])
    thresholds = np.sort(y)
    recalibrated = 0.0
    for low, high in pairwise(thresholds.tolist()):
        # One sample per row: P(Y <= z) is 0 or 1, so its isotonic regression has two means.
        z, happened = 0.5 * (low + high), (y <= 0.5 * (low + high)).astype(float)
        left, right = x <= z, x > z
        means = [happened[own].mean() if own.any() else 0.0 for own in (left, right)]
        fitted = np.where(left, *means)
        rate = happened.mean()
        if fitted[0] < fitted[-1]:
            fitted = np.full(60, rate)
        recalibrated += (high - low) * float(np.mean((fitted - happened) ** 2))
    assert parts["score"] - parts["miscalibration"] == pytest.approx(recalibrated, rel=1e-9)


def loss(q: Floats, y: Floats, w: Floats, level: float) -> float:
    return float(w @ (((y < q) - level) * (q - y)))


@pytest.mark.parametrize("level", [0.1, 0.5, 0.83])
@pytest.mark.parametrize("seed", range(8))
def test_isotonic_quantiles_have_the_least_loss(level: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    n = 30
    x, y = random.integers(0, 12, n).astype(float), random.integers(0, 15, n).astype(float)
    w = random.integers(1, 4, n).astype(float)
    quantiles = isotonic_quantiles(x, y, w, level)
    order = np.argsort(x, kind="stable")
    assert np.all(np.diff(quantiles[order]) >= 0.0)
    for covariate in np.unique(x):
        assert len(np.unique(quantiles[x == covariate])) == 1
    # Dynamic programming over the distinct x and the outcomes as values.
    best = np.zeros(len(np.unique(y)))
    for covariate in np.unique(x):
        own = x == covariate
        cost = np.array([loss(np.full(own.sum(), v), y[own], w[own], level) for v in np.unique(y)])
        best = np.minimum.accumulate(best + cost)
    assert loss(quantiles, y, w, level) == pytest.approx(best[-1], rel=1e-9)


def test_constant_outcomes_have_no_decomposed_log_score() -> None:
    request = {"name": "decomposition", "score": "log-score"}
    report = calibrant.evaluate_distribution([1.0] * 5, mean=[0.0] * 5, variance=[1.0] * 5, measures=[request])
    assert "all equal" in str(report["decomposition"].problem)


def test_the_upper_bound_needs_a_least_variance() -> None:
    request = {"name": "upper-bound", "least_variance": 0.25}
    report = calibrant.evaluate_distribution(Y, mean=MEAN, std=STD, measures=[request, "dawid-sebastiani"])
    score = report["dawid-sebastiani"].value or 0.0
    assert report["upper-bound"].value == pytest.approx(score - 1.0 - np.log(0.25))
    without = calibrant.evaluate_distribution(Y, mean=MEAN, std=STD, measures=["upper-bound"])
    assert "lower bound" in str(without["upper-bound"].problem)


def test_recalibration_improves_forecasts_that_are_too_sure_alone() -> None:
    measures: list[Any] = [
        {"name": "recalibration-improvement", "score": score, "as": score}
        for score in ("dawid-sebastiani", "log-score", "crps")
    ]
    good = calibrant.evaluate_distribution(Y, mean=MEAN, std=STD, measures=measures, interval=0.99)
    bad = calibrant.evaluate_distribution(Y, mean=MEAN, std=0.3 * STD, measures=measures, interval=0.99)
    for score in good.measures:
        low, high = good[score].interval or (1.0, 1.0)
        assert low < 0.0 < high or high < 0.0, score
        assert (bad[score].interval or (0.0, 0.0))[0] > 0.0
        parts = bad[score].parts
        assert bad[score].value == pytest.approx(parts["before"] - parts["after"])
    shuffled = np.random.default_rng(0).permutation(N)
    mixed: dict[str, Any] = {"mean": MEAN[shuffled], "std": 0.3 * STD[shuffled]}
    again = calibrant.evaluate_distribution(Y[shuffled], **mixed, measures=measures)
    assert again["crps"].value == pytest.approx(bad["crps"].value, rel=1e-9)
