"""Logistic recalibration, ratios and their tests, against values of R and exact ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import expit

import calibrant
from calibrant.core.reductions import Event
from calibrant.measures.clinical import Recalibration, maximum, model_of
from tests.clinical import EXACT, NAMES, clinical_rows, numbers_of_r
from tests.known import known

Array = npt.NDArray[np.float64]
LOGISTIC = ("calibration-slope", "calibration-intercept", "logistic-intercept")


def _measure(p: Any, y: Any, name: str, /, interval: float | None = 0.95, **options: Any) -> Any:
    of_rows = {key: options.pop(key) for key in ("weights", "weights_kind", "resamples") if key in options}
    request = {"name": name, "as": "m", **options}
    return calibrant.evaluate(p, y, measures=[request], interval=interval, **of_rows).measures["m"]


def _drawn(n: int, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    p = random.beta(2.0, 3.0, n)
    return p, (random.random(n) < expit(0.3 + 0.8 * np.log(p / (1.0 - p)))).astype(int)


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_r(name: str) -> None:
    (p, y, _), golden = clinical_rows(name), numbers_of_r(name)
    expected = {
        "calibration-slope": "slope",
        "calibration-intercept": "calibration_in_the_large",
        "logistic-intercept": "intercept",
        "unreliability": "unreliability_chi2",
        "oe-ratio": "o_over_e",
        "spiegelhalter": "spiegelhalter_z",
        "hosmer-lemeshow": "hosmer_lemeshow",
    }
    for measure, key in expected.items():
        assert _measure(p, y, measure).value == pytest.approx(golden[key], rel=1e-8), measure
    assert _measure(p, y, "unreliability").p_value == pytest.approx(golden["unreliability_p"], rel=1e-8)
    assert _measure(p, y, "spiegelhalter").p_value == pytest.approx(golden["spiegelhalter_p"], rel=1e-8)
    of_fit = _measure(p, y, "hosmer-lemeshow", df="groups-2")
    assert of_fit.p_value == pytest.approx(golden["hosmer_lemeshow_p"], rel=1e-8)
    assert (of_fit.parts["groups"], of_fit.parts["degrees_of_freedom"]) == (10, 8)


@pytest.mark.parametrize("p", [5e-324, 1e-300, 1e-160, 0.0, 1.0])
def test_hosmer_lemeshow_has_no_value_if_a_group_has_no_variance(p: float) -> None:
    hosmer_lemeshow = _measure(np.array([p, 0.5]), np.array([1, 0]), "hosmer-lemeshow")
    assert hosmer_lemeshow.value is None
    assert "below 1e-150" in str(hosmer_lemeshow.problem)


def test_hosmer_lemeshow_says_that_events_are_drawn_if_groups_expect_few() -> None:
    p, y = np.repeat([0.02, 0.5], 100), np.tile([0, 1], 100)
    drawn = _measure(p, y, "hosmer-lemeshow", n_groups=2)
    assert drawn.parts["least_expected"] == pytest.approx(2.0)
    assert drawn.definition["law"] == "resampling"
    assert drawn.problem.startswith("the p-value is from drawn events, since a group expects 2 events")
    enough = _measure(np.repeat([0.3, 0.5], 100), y, "hosmer-lemeshow", n_groups=2)
    assert (enough.parts["least_expected"], enough.problem) == (pytest.approx(30.0), None)
    assert enough.definition["law"] == "asymptotic"
    wanted = _measure(p, y, "hosmer-lemeshow", n_groups=2, law="asymptotic")
    assert wanted.problem.startswith("the p-value may be too small: a group expects 2 events")
    assert wanted.value == drawn.value


def test_the_law_of_drawn_events_is_not_that_of_a_model_fitted_to_these_rows() -> None:
    p, y = np.repeat([0.02, 0.03, 0.5], 100), np.tile([0, 1, 1], 100)
    fitted = _measure(p, y, "hosmer-lemeshow", n_groups=3, df="groups-2")
    assert fitted.definition["law"] == "asymptotic"
    refused = _measure(p, y, "hosmer-lemeshow", n_groups=3, df="groups-2", law="resampling")
    assert (refused.value, refused.p_value) == (fitted.value, None)
    assert refused.problem.startswith("no p-value: law resampling is that of predictions made before")


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.6])
def test_the_drawn_p_value_is_that_of_labels_drawn_from_the_predictions(factor: float) -> None:
    random = np.random.default_rng(5)
    p = np.sort(expit(random.normal(-3.5, 1.0, 400)))
    y = (random.random(400) < np.minimum(factor * p, 1.0)).astype(int)
    request = {"name": "hosmer-lemeshow", "n_groups": 8}
    measure = calibrant.evaluate(p, y, measures=[request], resamples=20_000)["hosmer-lemeshow"]
    labels = (random.random((20_000, 400)) < p).reshape(20_000, 8, 50).sum(axis=2)
    expected = p.reshape(8, 50).sum(axis=1)
    drawn = ((labels - expected) ** 2 / (expected * (1.0 - expected / 50.0))).sum(axis=1)
    assert measure.definition["law"] == "resampling"
    assert measure.p_value == pytest.approx(np.mean(drawn >= measure.value), abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["resampling", None])
def test_draws_of_events_fit_in_memory(law: str | None) -> None:
    p, y = _drawn(3_000)
    options = {"n_groups": 1_000, "law": law}
    report = calibrant.evaluate(p, y, measures=[{"name": "hosmer-lemeshow", **options}], resamples=5_000)
    p_value = known(report["hosmer-lemeshow"].p_value)
    assert 0.0 < p_value <= 1.0


@pytest.mark.parametrize("name", NAMES)
def test_limits_are_those_of_r_and_exact_ones(name: str) -> None:
    (p, y, _), golden, exact = clinical_rows(name), numbers_of_r(name), EXACT[name]
    slope = _measure(p, y, "calibration-slope").interval
    assert slope == pytest.approx((golden["slope_profile_low"], golden["slope_profile_high"]), rel=1e-5)
    assert slope == pytest.approx(exact["slope_profile"], abs=1e-10)
    for measure, key in zip(LOGISTIC, ("slope", "citl", "intercept"), strict=True):
        wald = _measure(p, y, measure, limits="wald").interval
        assert wald == pytest.approx((golden[f"{key}_wald_low"], golden[f"{key}_wald_high"]), rel=1e-7)
    assert _measure(p, y, "oe-ratio").interval == pytest.approx(exact["oe_interval_log_se"], abs=1e-6)
    assert _measure(p, y, "hosmer-lemeshow").p_value == pytest.approx(exact["hosmer_lemeshow_p_df10"], rel=1e-6)
    assert _measure(p, y, "normalised-entropy").value == pytest.approx(exact["normalised_entropy"], rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_p_values_are_those_of_likelihood_ratios(name: str) -> None:
    from scipy.stats import chi2

    (p, y, _), exact = clinical_rows(name), EXACT[name]
    intercept = _measure(p, y, "calibration-intercept").p_value
    assert intercept == pytest.approx(float(chi2.sf(exact["lrt_none_to_intercept"], 1)), rel=1e-6)
    slope = _measure(p, y, "calibration-slope").p_value
    assert slope == pytest.approx(float(chi2.sf(exact["lrt_intercept_to_both"], 1)), rel=1e-6)


def test_the_predicted_ratio_is_the_inverse_of_the_observed_one() -> None:
    p, y = _drawn(400)
    observed, predicted = _measure(p, y, "oe-ratio"), _measure(p, y, "pcoc")
    assert predicted.value == pytest.approx(1.0 / observed.value, rel=1e-12)
    assert predicted.interval == pytest.approx((1.0 / observed.interval[1], 1.0 / observed.interval[0]), rel=1e-12)
    assert predicted.p_value == observed.p_value


def test_a_ratio_of_importance_weights_has_the_interval_of_its_logarithm() -> None:
    p, y = _drawn(60)
    w = np.random.default_rng(1).gamma(2.0, 1.0, 60)
    observed, predicted = (_measure(p, y, name, weights=w, resamples=4000) for name in ("oe-ratio", "pcoc"))
    assert predicted.interval == pytest.approx((1.0 / observed.interval[1], 1.0 / observed.interval[0]), rel=1e-9)
    off = w * (y / (w @ y) - p / (w @ p))
    low, high = np.log(observed.interval)
    assert high - low == pytest.approx(2.0 * 1.96 * np.sqrt(off @ off), rel=0.1)
    assert (low + high) / 2.0 == pytest.approx(np.log(observed.value), abs=0.1 * (high - low))


def test_a_ratio_without_events_says_so() -> None:
    p = np.array([0.1, 0.2, 0.3])
    none = _measure(p, np.zeros(3, dtype=int), "pcoc")
    assert (none.value, none.problem) == (None, "no value: no event happened")
    zero = _measure(p, np.zeros(3, dtype=int), "oe-ratio")
    assert zero.value == 0.0


@pytest.mark.parametrize("measure", LOGISTIC)
def test_predictions_of_zero_or_one_have_no_slope(measure: str) -> None:
    measured = _measure([0.0, 0.3, 0.6, 1.0], [0, 1, 0, 1], measure)
    assert measured.value is None
    assert measured.problem == (
        "no value: the predictions have 2 different values of exactly 0 or 1, whose logit is infinite"
    )


def test_logits_beyond_the_range_of_probabilities_have_a_slope() -> None:
    logits = np.array([-60.0, -45.0, -2.0, -1.0, 1.0, 2.0, 45.0, 60.0])
    y = np.array([0, 0, 1, 0, 1, 0, 1, 1])
    report = calibrant.evaluate(logits, y, scale="logit", measures=["calibration-slope"])
    slope = known(report.measures["calibration-slope"].value)
    assert 0.0 < slope < 10.0


@pytest.mark.parametrize("y", [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
def test_an_infinite_slope_is_refused_and_firths_is_finite(y: list[int]) -> None:
    p = [0.2, 0.4, 0.6, 0.8]
    measure = _measure(p, y, "calibration-slope")
    assert measure.value is None
    assert "likelihood=firth" in measure.problem
    assert math.isfinite(_measure(p, y, "calibration-slope", likelihood="firth").value)


def test_firths_slope_is_that_of_the_penalised_likelihood() -> None:
    p, y = _drawn(60)
    x = np.column_stack([np.ones(60), np.log(p / (1.0 - p))])

    def penalised(theta: Array) -> float:
        chance = expit(x @ theta)
        information = (x.T * (chance * (1.0 - chance))) @ x
        likelihood = y @ np.log(chance) + (1 - y) @ np.log1p(-chance)
        return float(-likelihood - np.linalg.slogdet(information)[1] / 2.0)

    from scipy.optimize import minimize

    best = minimize(penalised, [0.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12})
    slope = _measure(p, y, "calibration-slope", likelihood="firth")
    assert slope.value == pytest.approx(best.x[1], abs=1e-6)
    for end in slope.interval:
        held = minimize(lambda a, b=end: penalised(np.array([a[0], b])), [0.0], method="Nelder-Mead")
        assert 2.0 * (held.fun - best.fun) == pytest.approx(3.841458820694124, abs=1e-4)


def test_a_given_base_rate_divides_by_the_loss_of_that_rate() -> None:
    p, y = _drawn(300)
    measure = _measure(p, y, "normalised-entropy", base_rate=0.25)
    entropy = -np.mean(np.where(y == 1, math.log(0.25), math.log(0.75)))
    loss = -np.mean(np.where(y == 1, np.log(p), np.log1p(-p)))
    assert measure.value == pytest.approx(loss / entropy, rel=1e-12)
    assert measure.parts["entropy"] == pytest.approx(entropy, rel=1e-12)


def test_importance_weights_are_relative() -> None:
    p, y = _drawn(300)
    w = np.random.default_rng(2).lognormal(0.0, 1.0, 300)
    for measure in [*LOGISTIC, "unreliability", "oe-ratio", "spiegelhalter", "hosmer-lemeshow", "ici", "e90"]:
        first, other = (_measure(p, y, measure, weights=v, weights_kind="importance") for v in (w, 3.0 * w))
        assert first.value == pytest.approx(other.value, rel=1e-8), measure
        assert (first.p_value is None) == (other.p_value is None)
        if first.p_value is not None:
            assert first.p_value == pytest.approx(other.p_value, rel=1e-6, abs=1e-12), measure


def test_a_group_of_certain_predictions_has_no_hosmer_lemeshow() -> None:
    p = np.repeat([0.0, 0.5], 20)
    measure = _measure(p, np.tile([0, 1], 20), "hosmer-lemeshow", n_groups=2)
    assert measure.value is None
    assert "0 or 1" in measure.problem


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGISTIC)
def test_the_penalty_of_firth_does_not_depend_on_the_largest_importance_weight(name: str) -> None:
    p, y = _drawn(400)
    group = np.arange(400) % 2
    w = np.random.default_rng(1).exponential(size=400)
    w[0] = 50.0  # of group 0
    specification = {"name": name, "likelihood": "firth", "as": "m"}
    options: dict[str, Any] = {"measures": [specification], "interval": 0.9, "resamples": 100}
    report = calibrant.evaluate(p, y, weights=w, groups=group, **options)
    alone = calibrant.evaluate(p[group == 1], y[group == 1], weights=w[group == 1], **options)
    of_group = known(report.groups)["1"]["m"]
    assert of_group.value == pytest.approx(alone["m"].value, abs=1e-9)
    assert of_group.interval == pytest.approx(alone["m"].interval, abs=1e-9)


@pytest.mark.parametrize("measure", ["calibration-slope", "oe-ratio", "ici", "spiegelhalter", "normalised-entropy"])
def test_results_of_fewer_than_100_events_or_other_rows_are_kept_with_a_warning(measure: str) -> None:
    p, y = _drawn(400, 3)
    events = int(y.sum())
    assert 100 <= events <= 300
    few, fewer = np.flatnonzero(y == 1)[:99], np.flatnonzero(y == 0)
    measured = _measure(np.r_[p[few], p[fewer]], np.r_[y[few], y[fewer]], measure)
    assert measured.problem == f"imprecise: 99 events and {len(fewer)} other rows; 100 of each are advised"
    assert measured.value is not None
    assert (measured.interval is None) == (measure == "spiegelhalter")
    assert "imprecise" not in str(_measure(p, y, measure).problem)
    assert calibrant.evaluate(p[:50], y[:50], measures=["log-loss"])["log-loss"].problem is None


def test_importance_weights_warn_by_their_effective_numbers() -> None:
    p, y = _drawn(400, 3)
    assert _measure(p, y, "oe-ratio", weights=np.full(400, 0.01)).problem is None
    heavy = np.where(np.arange(400) % 20 == 0, 1.0, 1e-6)
    assert str(_measure(p, y, "oe-ratio", weights=heavy).problem).startswith("imprecise: ")


@pytest.mark.parametrize("slope", [0.3, 1.0, 3.0, 12.0])
def test_sums_over_nodes_of_many_rows_are_those_over_the_rows(slope: float) -> None:
    random = np.random.default_rng(7)
    logits = random.normal(-1.0, 1.0, size=6000)
    labels = random.random(6000) < 1.0 / (1.0 + np.exp(-slope * logits))
    rows = Event(1.0 / (1.0 + np.exp(-logits)), labels.astype(np.int8), logit=logits)
    cells = rows.cells
    assert len(known(cells.panels).logit) < 6000 / 4
    fitted = Recalibration.of(rows, free=True)
    model = model_of(cells, free=True)
    exact = Recalibration(model, *maximum(model, np.array([0.0, 1.0])))
    assert fitted.theta == pytest.approx(exact.theta, rel=1e-9)
    assert fitted.limits(1, "profile", 0.95) == pytest.approx(exact.limits(1, "profile", 0.95), rel=1e-8)
    assert (fitted.model.width == 0.0) == (slope == 12.0)  # too steep for polynomials on the panels


def test_few_or_far_logits_are_not_spread_over_nodes() -> None:
    y = np.array([0, 1] * 500, dtype=np.int8)
    assert Event(np.linspace(0.1, 0.9, 1000), y, logit=np.linspace(-1e300, 1e300, 1000)).cells.panels is None
    assert Event(np.full(1000, 0.5), y).cells.panels is None
    assert Event(np.linspace(0.1, 0.9, 20), y[:20]).cells.panels is None
