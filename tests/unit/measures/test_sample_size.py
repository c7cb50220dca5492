"""Sample sizes of validations, against published ones and those of the R package pmvalsampsize."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import calibrant
from tests.refusals import refused_at


def test_o_over_e_has_the_published_size() -> None:
    """905 rows for 1.8 % events and a width of 1, in the tests of pmvalsampsize, with its rounded standard error."""
    plan = calibrant.sample_size(prevalence=0.018, oe_width=1.0)
    assert (plan.n, plan.measures, plan.events) == (906, {"oe-ratio": 906}, 17)
    rounded = 0.2456  # pmvalsampsize increases it by 0.0001 until the interval is as wide
    assert math.ceil(0.982 / (0.018 * rounded**2)) == 905


@pytest.mark.parametrize(
    ("distribution", "simulated"), [({"logit_normal": (-5.0, 2.5)}, 4501), ({"beta": (0.5, 0.5)}, 1641)]
)
def test_the_slope_has_about_the_size_that_pmvalsampsize_simulates(distribution: Any, simulated: int) -> None:
    """The tests of pmvalsampsize draw 1,000 predictors, so that their information has an error of some percent."""
    assert calibrant.sample_size(**distribution).measures["calibration-slope"] == pytest.approx(simulated, rel=0.02)


def test_the_published_example_of_heart_valves_has_the_published_size() -> None:
    """9,835 rows with 177 events (Riley et al. 2021): log-odds of mean -5.8, variance 5, skewness -.5 and kurtosis 4.

    They are Ramberg's generalised lambda variables, whose exponents follow from the last two moments.
    """
    q = (np.arange(200_000) + 0.5) / 200_000
    drawn = (1.0 - q) ** 0.04462388 - q**0.025827
    drawn = (drawn - drawn.mean()) / drawn.std()
    assert float(np.mean(drawn**3)) == pytest.approx(-0.5, abs=1e-3)
    assert float(np.mean(drawn**4)) == pytest.approx(4.0, abs=1e-3)
    plan = calibrant.sample_size(-5.8 + math.sqrt(5.0) * drawn, scale="logit", oe_width=1.0)
    assert plan.prevalence == pytest.approx(0.018, abs=6e-4)
    assert plan.n == pytest.approx(9835, rel=2e-3)


def test_an_interval_of_the_slope_of_so_many_rows_has_the_width() -> None:
    random = np.random.default_rng(0)
    z = random.normal(-1.0, 1.2, 400_000)
    n = calibrant.sample_size(z[:50_000], scale="logit", slope_width=0.15).measures["calibration-slope"]
    chosen = z[:n]
    y = (random.random(n) < expit(chosen)).astype(int)
    report = calibrant.evaluate(chosen, y, scale="logit", measures=["calibration-slope"], interval=0.95)
    low, high = report["calibration-slope"].interval or (0.0, 0.0)
    assert high - low == pytest.approx(0.15, rel=0.08)


def test_predictions_and_their_logits_need_the_same_rows() -> None:
    p = np.random.default_rng(1).beta(2.0, 5.0, 2000)
    first, other = calibrant.sample_size(p), calibrant.sample_size(np.log(p / (1.0 - p)), scale="logit")
    assert first.measures == other.measures
    assert first.prevalence == pytest.approx(float(p.mean()))
    assert first.n == max(first.measures.values())
    assert first.events == math.ceil(first.n * first.prevalence)


def test_half_the_width_needs_four_times_the_rows_of_the_slope() -> None:
    wide, narrow = (calibrant.sample_size(logit_normal=(0.0, 1.0), slope_width=w) for w in (0.4, 0.2))
    assert narrow.measures["calibration-slope"] == pytest.approx(4 * wide.measures["calibration-slope"], rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({}, ""),
        ({"prevalence": 0.1, "beta": (1.0, 2.0)}, ""),
        ({"prevalence": 0.0}, "/prevalence"),
        ({"prevalence": 1.0}, "/prevalence"),
        ({"prevalence": "0.1"}, "/prevalence"),
        ({"prevalence": 0.1, "oe_width": 0.0}, "/oe_width"),
        ({"prevalence": 0.1, "oe_width": math.inf}, "/oe_width"),
        ({"prevalence": 0.1, "slope_width": True}, "/slope_width"),
        ({"prevalence": 0.1, "level": 1.0}, "/level"),
        ({"logit_normal": (0.0, 0.0)}, "/logit_normal"),
        ({"logit_normal": (0.0,)}, "/logit_normal"),
        ({"logit_normal": (math.nan, 1.0)}, "/logit_normal"),
        ({"beta": (0.0, 1.0)}, "/beta"),
        ({"predictions": [0.2, 0.2]}, "/predictions"),
        ({"predictions": [[0.2, 0.8]]}, "/predictions"),
        ({"predictions": []}, "/predictions"),
        ({"predictions": [-900.0, -901.0], "scale": "logit"}, "/predictions"),
    ],
)
def test_an_invalid_argument_is_refused_by_name(arguments: dict[str, Any], pointer: str) -> None:
    with refused_at(pointer, calibrant.CalibrationError, below=True):
        calibrant.sample_size(**arguments)


def test_predictions_of_exactly_0_have_no_slope() -> None:
    with pytest.raises(calibrant.CalibrationError, match="exactly 0 or 1"):
        calibrant.sample_size([0.0, 0.5])
