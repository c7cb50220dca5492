"""Pooling over centres, against the published analysis of the BCG trials by the R package metafor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import t

import calibrant
from calibrant.core.cells import Floats
from calibrant.measures.pooling import random_effects
from tests.known import known

Z = 1.959963984540054
#: Cases and others, vaccinated and not, in 13 trials (Colditz et al. 1994; dat.bcg of metafor).
BCG = np.array(
    [
        [4, 119, 11, 128], [6, 300, 29, 274], [3, 228, 11, 209], [62, 13536, 248, 12619], [33, 5036, 47, 5761],
        [180, 1361, 372, 1079], [8, 2537, 10, 619], [505, 87886, 499, 87892], [29, 7470, 45, 7232],
        [17, 1699, 65, 1600], [186, 50448, 141, 27197], [5, 2493, 3, 2338], [27, 16886, 29, 17825],
    ],
    dtype=np.float64,
)  # fmt: skip


def _bcg() -> tuple[Floats, Floats]:
    """Log risk ratios and their standard errors."""
    a, b, c, d = BCG.T
    return np.log(a / (a + b)) - np.log(c / (c + d)), np.sqrt(1.0 / a - 1.0 / (a + b) + 1.0 / c - 1.0 / (c + d))


def _ends(y: Floats, errors: Floats) -> Floats:
    return np.column_stack([y - Z * errors, y + Z * errors])


def test_the_bcg_trials_have_the_published_results() -> None:
    y, errors = _bcg()
    pooled = random_effects(y, _ends(y, errors), 0.95)
    assert pooled.value == pytest.approx(-0.7145, abs=5e-5)
    assert known(pooled.between) ** 2 == pytest.approx(0.3132, abs=5e-5)
    assert pooled.i_squared == pytest.approx(0.9222, abs=5e-5)
    assert pooled.interval == pytest.approx((-1.1084, -0.3206), abs=5e-5)
    assert pooled.groups == 13
    error = (-0.3206 + 1.1084) / 2.0 / t.ppf(0.975, 12)
    reach = t.ppf(0.975, 11) * math.sqrt(0.3132 + error**2)
    assert pooled.prediction_interval == pytest.approx((-0.7145 - reach, -0.7145 + reach), abs=3e-4)


def test_ratios_are_pooled_on_the_log_scale() -> None:
    y, errors = _bcg()
    logs, ratios = (
        random_effects(y, _ends(y, errors), 0.95),
        random_effects(np.exp(y), np.exp(_ends(y, errors)), 0.95, "log"),
    )
    assert ratios.value == pytest.approx(math.exp(known(logs.value)))
    assert ratios.between == pytest.approx(logs.between)
    assert ratios.interval == pytest.approx((0.33, 0.73), abs=0.005)


def test_values_that_differ_less_than_their_errors_have_no_variance_between_centres() -> None:
    y = np.array([1.0, 1.01, 0.99])
    pooled = random_effects(y, _ends(y, np.array([0.1, 0.2, 0.1])), 0.95)
    assert (pooled.between, pooled.i_squared) == (0.0, 0.0)
    assert pooled.value == pytest.approx(float(np.average(y, weights=[4, 1, 4])))


def test_two_centres_have_no_prediction_interval() -> None:
    y = np.array([0.8, 1.2])
    pooled = random_effects(y, _ends(y, np.array([0.1, 0.1])), 0.95)
    assert pooled.interval is not None
    assert pooled.prediction_interval is None


def _centres(n: int, k: int, spread: float, seed: int) -> tuple[Floats, Floats, list[str]]:
    random = np.random.default_rng(seed)
    z, centre = random.normal(-0.5, 1.0, n * k), np.repeat(np.arange(k), n)
    slopes = random.normal(0.9, spread, k)
    y = (random.random(n * k) < expit(slopes[centre] * z)).astype(np.float64)
    return expit(z), y, [f"centre {i}" for i in centre]


@pytest.mark.slow
def test_an_evaluation_pools_slope_intercept_ratio_and_auroc_over_its_groups() -> None:
    p, y, groups = _centres(400, 5, 0.3, 0)
    measures = ["calibration-slope", "calibration-intercept", "oe-ratio", "auroc", "brier"]
    report = calibrant.evaluate(p, y.astype(int), groups=groups, measures=measures, interval=0.95, resamples=100)
    assert report.groups is not None
    assert report.pooled is not None
    assert list(report.pooled) == measures[:-1]
    assert [pooled.scale for pooled in report.pooled.values()] == ["identity", "identity", "log", "logit"]
    pooled_measures: Any = report.pooled
    for key, pooled in pooled_measures.items():
        of_groups = [float(group[key]) for group in report.groups.values()]
        assert min(of_groups) < pooled.value < max(of_groups)
        assert pooled.prediction_interval[0] < pooled.interval[0] < pooled.interval[1] < pooled.prediction_interval[1]
    assert report.to_dict()["pooled"]["oe-ratio"]["groups"] == 5
    assert float(report.pooled["auroc"]) < 1.0


def test_nothing_is_pooled_without_intervals_or_groups() -> None:
    p, y, groups = _centres(100, 3, 0.1, 1)
    assert calibrant.evaluate(p, y.astype(int), groups=groups, measures=["oe-ratio"]).pooled is None
    assert calibrant.evaluate(p, y.astype(int), measures=["oe-ratio"], interval=0.9).pooled is None
    alone = calibrant.evaluate(p, y.astype(int), groups=["a"] * 300, measures=["oe-ratio"], interval=0.9, resamples=100)
    assert alone.pooled is None


def test_a_centre_without_events_is_left_out_and_counted() -> None:
    p, y, groups = _centres(100, 4, 0.1, 2)
    y[:100] = 0.0
    pooled = known(
        calibrant.evaluate(
            p, y.astype(int), groups=groups, measures=["calibration-slope", "oe-ratio"], interval=0.95, resamples=100
        ).pooled
    )
    for measure in pooled.values():
        assert measure.groups == 3
        assert measure.problem == "1 of 4 groups without an interval are left out"
    y[:300] = 0.0
    none = known(
        calibrant.evaluate(p, y.astype(int), groups=groups, measures=["oe-ratio"], interval=0.95, resamples=100).pooled
    )
    assert none["oe-ratio"].value is None
    assert str(none["oe-ratio"].problem).startswith("no value: 3 of 4 groups")
