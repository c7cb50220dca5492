"""The calibration belt and the smooth calibration curve."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import chi2

import calibrant
from calibrant.core.cells import Floats
from calibrant.core.reductions import Event
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.diagrams.clinical import _exceedance, calibration_belt, calibration_curve
from calibrant.measures.intervals import PLAIN
from tests.clinical import clinical_rows, numbers_of_r

BOUND = float(chi2.ppf(0.95, 1))
Labels = npt.NDArray[np.int8]


def _golden(name: str) -> tuple[Event, dict[str, Any]]:
    p, y, _ = clinical_rows(name)
    return Event(p, y.astype(np.int8)), numbers_of_r(name)


def _drawn(n: int, *coefficients: float, seed: int = 0) -> Event:
    """Rows whose log-odds of the outcome are a polynomial of those of the predictions."""
    random = np.random.default_rng(seed)
    z = random.normal(-0.5, 1.2, n)
    truth = expit(np.polynomial.polynomial.polyval(z, coefficients))
    return Event(expit(z), (random.random(n) < truth).astype(np.int8))


def _belt(event: Event, level: float = 0.95, inner_level: float = 0.8) -> Any:
    return calibration_belt(event, PLAIN, level=level, inner_level=inner_level)


def _curve(event: Event, curve: Any, level: float = 0.95) -> Any:
    return calibration_curve(event, PLAIN, curve=curve, level=level)


def _log_likelihood(theta: Floats, x: Floats, y: Any) -> float:
    f = x @ theta
    return float(y @ f - np.logaddexp(0.0, f).sum())


# --- The calibration belt


@pytest.mark.parametrize("name", ["moderate_n500", "rare_n3000"])
def test_a_belt_of_degree_1_has_the_statistic_and_the_p_value_of_the_unreliability_test(name: str) -> None:
    event, golden = _golden(name)
    belt = _belt(event)
    assert belt.degree == 1
    assert belt.statistic == pytest.approx(golden["unreliability_chi2"], rel=1e-8)
    assert belt.p_value == pytest.approx(golden["unreliability_p"], rel=1e-7)
    expected = expit(golden["intercept"] + golden["slope"] * logit(belt.predictions))
    np.testing.assert_allclose(belt.calibrated, expected, rtol=1e-7)


def test_the_belt_is_the_envelope_of_all_curves_that_the_likelihood_ratio_does_not_reject() -> None:
    event, _ = _golden("moderate_n500")
    belt = _belt(event)
    x = np.column_stack([np.ones(len(event)), logit(event.p)])
    best = minimize(lambda t: -_log_likelihood(t, x, event.y), [0.0, 1.0], tol=1e-10)
    lowest = -best.fun - float(chi2.ppf(0.95, 2)) / 2.0
    for i in (0, len(belt.predictions) // 2, -1):
        point = np.array([1.0, float(logit(belt.predictions[i]))])
        for side, end in ((1.0, belt.low[i]), (-1.0, belt.high[i])):
            optimum = minimize(
                lambda t, point=point, side=side: side * float(point @ t),
                best.x,
                jac=lambda _, point=point, side=side: side * point,
                constraints={"type": "ineq", "fun": lambda t: _log_likelihood(t, x, event.y) - lowest},
                method="SLSQP",
                options={"ftol": 1e-12},
            )
            assert end == pytest.approx(float(expit(point @ optimum.x)), abs=2e-6)


def test_the_distribution_of_the_statistic_given_degree_2_has_its_closed_form() -> None:
    t = np.array([4.0, 6.0, 9.0, 15.0])
    tail = np.exp(-t / 2.0) * math.sqrt(2.0 / math.pi) * (np.sqrt(t) - math.sqrt(BOUND))
    np.testing.assert_allclose(_exceedance(t, 2), (chi2.sf(t, 1) + tail) / 0.05, rtol=1e-10)
    np.testing.assert_allclose(_exceedance(t, 1), chi2.sf(t, 2), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("degree", [2, 3, 4])
def test_the_distribution_of_the_statistic_is_that_of_sums_beyond_the_bounds(degree: int) -> None:
    random = np.random.default_rng(0)
    beyond = chi2.isf(random.random((200_000, degree - 1)) * 0.05, 1).sum(axis=1)
    statistic = random.chisquare(2.0, 200_000) + beyond
    for t in np.quantile(statistic, [0.05, 0.5, 0.9, 0.99]):
        assert float(_exceedance(t, degree)) == pytest.approx(float(np.mean(statistic > t)), abs=0.005)
    assert float(_exceedance((degree - 1) * BOUND, degree)) == pytest.approx(1.0, abs=1e-9)
    assert float(_exceedance(0.0, degree)) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("coefficients", "degree"), [((0.0, 1.0), 1), ((0.3, 1.0, 0.3), 2), ((0.0, 0.6, 0.0, 0.25), 3)]
)
def test_the_degree_is_that_of_the_truth(coefficients: tuple[float, ...], degree: int) -> None:
    belt = _belt(_drawn(4000, *coefficients, seed=1))
    assert belt.degree == degree
    assert (belt.p_value > 0.05) == (degree == 1)


def test_belts_are_nested_around_the_curve_also_of_many_different_predictions() -> None:
    belt = _belt(_drawn(20_000, 0.1, 1.0, 0.1, seed=2))
    ends = np.stack([belt.low, belt.inner_low, belt.calibrated, belt.inner_high, belt.high])
    assert (np.diff(ends, axis=0) > 0.0).all()


@pytest.mark.slow
def test_grouped_predictions_have_nearly_the_belt_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    event = _drawn(3000, 0.2, 0.9, seed=3)
    grouped = _belt(event)
    monkeypatch.setattr("calibrant.diagrams.clinical._GROUPS", 3000)
    whole = _belt(event)
    np.testing.assert_allclose(grouped.low, whole.low, atol=1e-4)
    np.testing.assert_allclose(grouped.high, whole.high, atol=1e-4)


@pytest.mark.slow
def test_a_belt_that_leaves_out_the_diagonal_rejects_calibration() -> None:
    outside = 0
    for seed in range(30):
        belt = _belt(_drawn(300, 0.25, 1.0, seed=seed))
        if (belt.low > belt.predictions + 1e-9).any() or (belt.high < belt.predictions - 1e-9).any():
            outside += 1
            assert belt.p_value < 0.05
    assert outside >= 5


def _p_value(event: Event) -> float:
    """The p-value of a belt without its ends, which take nearly all of its time and which dependent rows do not get."""
    belt = _belt(replace(event, clusters=np.arange(len(event.y))))
    return float(_exceedance(belt.statistic, belt.degree))


@pytest.mark.slow
def test_calibrated_predictions_are_rejected_as_often_as_the_level_says() -> None:
    events = [_drawn(500, 0.0, 1.0, seed=seed) for seed in range(300)]
    p_values = [_p_value(event) for event in events]
    assert p_values[:10] == [_belt(event).p_value for event in events[:10]]
    assert 14 <= sum(p_value < 0.1 for p_value in p_values) <= 46


def test_logits_that_round_to_1_have_a_belt() -> None:
    random = np.random.default_rng(4)
    z = random.normal(0.0, 12.0, 2000)
    event = Event(expit(z), (random.random(2000) < expit(0.3 + 0.9 * z)).astype(np.int8), logit=z)
    assert float(event.p.max()) == 1.0
    belt = _belt(event)
    assert np.isfinite(belt.statistic)


@pytest.mark.parametrize(
    ("p", "y", "problem"),
    [
        ([0.0, 0.3, 0.6, 1.0], [0, 1, 0, 1], "exactly 0 or 1"),
        ([0.3] * 10, [0, 1] * 5, "at least two different predictions"),
        ([0.1] * 7, [0, 1, 0, 1, 0, 1, 0], "at least two different predictions"),
        (
            [0.499, 0.601, 0.029, 0.148, 0.928, 0.07, 0.13, 0.948, 0.622, 0.369, 0.511],
            [1, 1, 0, 0, 1, 0, 1, 1, 1, 0, 1],
            "does not fall enough",
        ),
        ([0.1, 0.4, 0.6, 0.9], [1, 1, 1, 1], "one class"),
        ([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1], "did not converge"),
        ([0.2, 0.9], [1, 0], "did not converge"),
    ],
)
def test_rows_without_a_belt_are_refused_with_a_reason(p: list[float], y: list[int], problem: str) -> None:
    drawn = calibrant.evaluate(p, y, measures=["brier"], diagrams=["calibration-belt"]).diagrams["calibration-belt"]
    assert drawn["data"] is None
    assert problem in drawn["problem"]


@pytest.mark.parametrize("scale", [1e20, 1e200])
@pytest.mark.parametrize("request_", ["calibration-belt", {"name": "calibration-curve", "curve": "rcs"}])
def test_logits_beyond_all_squares_are_refused_with_a_reason(scale: float, request_: Any) -> None:
    event = _drawn(300, 0.0, 1.0)
    z = logit(event.p) * scale
    drawn = read_diagrams([request_])[0].drawn(Event(expit(z), event.y, logit=z))
    assert drawn["data"] is None
    assert drawn["problem"].startswith("no diagram: ")


@pytest.mark.parametrize("diagram", ["calibration-belt", "calibration-curve"])
def test_rows_in_clusters_have_a_curve_without_bands(diagram: str) -> None:
    event = _drawn(600, 0.3, 0.9)
    drawn = calibrant.evaluate(
        event.p, event.y, clusters=np.arange(600) // 4, measures=["brier"], diagrams=[diagram]
    ).diagrams[diagram]
    assert drawn["data"]["low"] is None
    assert drawn["data"].get("p_value") is None
    assert "rows of a cluster are dependent" in drawn["problem"]


def test_importance_weights_count_as_their_effective_number_of_rows() -> None:
    event = _drawn(600, 0.3, 0.8, seed=5)
    equal = calibrant.evaluate(
        event.p, event.y, weights=np.full(600, 7.0), measures=["brier"], diagrams=["calibration-belt"]
    ).diagrams["calibration-belt"]["data"]
    assert equal["statistic"] == pytest.approx(_belt(event).statistic, rel=1e-9)


# --- The smooth calibration curve


@pytest.mark.parametrize(
    ("curve", "key"), [("loess", "loess_interpolated_ici"), ("loess-direct", "loess_ici"), ("rcs", "rcs5_ici")]
)
def test_the_distance_of_the_curve_is_that_of_r(curve: Any, key: str) -> None:
    event, golden = _golden("moderate_n500")
    drawn = _curve(event, curve)
    assert drawn.curve == curve
    assert drawn.ici == pytest.approx(golden[key], rel=1e-6)
    assert drawn.problem is None


def test_a_logistic_curve_is_the_recalibration_with_its_delta_band() -> None:
    event, golden = _golden("moderate_n500")
    drawn = _curve(event, "logistic", 0.95)
    line = golden["intercept"] + golden["slope"] * logit(drawn.predictions)
    np.testing.assert_allclose(drawn.calibrated, expit(line), rtol=1e-7)
    x = np.column_stack([np.ones(len(event)), logit(event.p)])
    c = expit(x @ [golden["intercept"], golden["slope"]])
    inverse = np.linalg.inv((x.T * (c * (1.0 - c))) @ x)
    covariance = inverse @ ((x.T * (event.y - c) ** 2) @ x) @ inverse
    points = np.column_stack([np.ones(len(line)), logit(drawn.predictions)])
    error = np.sqrt(((points @ covariance) * points).sum(axis=1))
    np.testing.assert_allclose(drawn.low, expit(line - 1.959963984540054 * error), rtol=1e-6)
    np.testing.assert_allclose(drawn.high, expit(line + 1.959963984540054 * error), rtol=1e-6)


def test_below_200_events_or_other_rows_the_default_is_the_logistic_curve_and_says_why() -> None:
    few, _ = _golden("rare_n3000")
    drawn = _curve(few, None)
    assert drawn.curve == "logistic"
    assert drawn.events < 200
    assert drawn.events + drawn.non_events == len(few)
    assert drawn.problem is not None
    assert f"{drawn.events:.0f} events" in drawn.problem
    assert "200 of each" in drawn.problem
    assert _curve(few, "rcs", 0.95).problem is None


@pytest.mark.parametrize(("n", "curve"), [(1500, "loess"), (2500, "rcs")])
def test_the_flexible_default_is_loess_to_2000_rows_and_a_spline_beyond(n: int, curve: str) -> None:
    drawn = _curve(_drawn(n, 0.5, 1.0), None, 0.95)
    assert (drawn.curve, drawn.problem) == (curve, None)


@pytest.mark.slow
@pytest.mark.parametrize("curve", ["loess", "rcs", "logistic"])
def test_the_pointwise_band_covers_the_truth(curve: Any) -> None:
    covered = []
    for seed in range(100):
        drawn = _curve(_drawn(1000, 0.4, 0.8, seed=seed), curve, 0.9)
        truth = expit(0.4 + 0.8 * logit(drawn.predictions))
        middle = slice(len(truth) // 5, -len(truth) // 5)
        covered.append(np.mean((drawn.low <= truth)[middle] & (truth <= drawn.high)[middle]))
    assert 0.8 <= float(np.mean(covered)) <= 0.96


def test_the_band_of_twice_the_rows_is_narrower_by_the_root_of_2() -> None:
    event = _drawn(800, 0.3, 0.9, seed=6)
    single = _curve(event, "logistic", 0.95)
    twice = _curve(event.rows(np.tile(np.arange(800), 2)), "logistic", 0.95)
    ratio = (logit(single.calibrated) - logit(single.low)) / (logit(twice.calibrated) - logit(twice.low))
    np.testing.assert_allclose(ratio, math.sqrt(2.0), rtol=1e-6)


def test_the_options_of_both_diagrams_are_checked() -> None:
    for request in ({"name": "calibration-curve", "curve": "lowess"}, {"name": "calibration-belt", "inner_level": 1}):
        with pytest.raises(calibrant.CalibrationError):
            read_diagrams([request])
