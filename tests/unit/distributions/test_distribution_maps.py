"""Maps of predictive distributions: optima, published definitions, warnings and hostile input."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

import calibrant
from calibrant.core.errors import CalibrationError, InvalidDocument, InvalidOption
from calibrant.distributions.maps.scales import quantiles_at, scores_of
from calibrant.distributions.maps.tables import normal_of
from calibrant.distributions.maps.variance import VarianceCurve
from tests.refusals import refused_at

RANDOM = np.random.default_rng(7)
N = 400
MEAN, VARIANCE = RANDOM.standard_normal(N), RANDOM.uniform(0.2, 3.0, N)
Y = MEAN + np.sqrt(0.5 + 2.0 * VARIANCE) * RANDOM.standard_normal(N)
LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
QUANTILES = MEAN[:, None] + 0.5 * np.sqrt(VARIANCE)[:, None] * stats.norm.ppf(LEVELS)


def dss(variance: Any) -> float:
    return float(np.mean((Y - MEAN) ** 2 / variance + np.log(variance)))


def fitted(method: str, **options: Any) -> Any:
    return calibrant.fit_distribution(method, Y, mean=MEAN, variance=VARIANCE, **options)


# --- Variances


def test_variance_scaling_is_the_mean_squared_standardised_error() -> None:
    parameters = fitted("variance-scaling").to_document()["parameters"]
    assert parameters["factor"] == pytest.approx(np.mean((Y - MEAN) ** 2 / VARIANCE), rel=1e-12)


def test_variance_platt_reaches_the_optimum_of_a_general_minimiser() -> None:
    parameters = fitted("variance-platt").to_document()["parameters"]
    score = dss(parameters["factor"] * VARIANCE + parameters["offset"])
    general = minimize(
        lambda x: dss(np.exp(x[0]) * VARIANCE + np.exp(x[1])), [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9}
    )
    assert score <= general.fun + 1e-9
    assert parameters["factor"] == pytest.approx(np.exp(general.x[0]), rel=1e-3)


@pytest.mark.parametrize(("true", "edge"), [(lambda v: 3.0 * v, "offset"), (lambda v: 0.0 * v + 2.0, "factor")])
def test_variance_platt_finds_optima_on_the_edge(true: Any, edge: str) -> None:
    squares = true(VARIANCE)  # errors as large as predicted leave no doubt
    fitted_map = calibrant.fit_distribution("variance-platt", MEAN + np.sqrt(squares), mean=MEAN, variance=VARIANCE)
    assert fitted_map.to_document()["parameters"][edge] == pytest.approx(0.0, abs=1e-5)


def test_variance_isotonic_is_at_least_as_good_as_any_line() -> None:
    after = fitted("variance-isotonic").apply(mean=MEAN, variance=VARIANCE).variance
    assert dss(after) <= dss(2.0 * VARIANCE + 0.5) + 0.02


def test_std_isotonic_recovers_a_doubled_standard_deviation() -> None:
    random = np.random.default_rng(3)
    sd = random.uniform(0.5, 2.0, 20_000)
    y = 2.0 * sd * random.standard_normal(20_000)
    fitted_map = calibrant.fit_distribution("std-isotonic", y, mean=np.zeros(20_000), variance=sd**2)
    after = fitted_map.apply(mean=np.zeros(3), variance=np.array([0.7, 1.0, 1.5]) ** 2).variance
    np.testing.assert_allclose(np.sqrt(after), [1.4, 2.0, 3.0], rtol=0.06)


# --- Location, scale and levels


def test_location_scale_recovers_shift_and_width_of_normal_forecasts() -> None:
    random = np.random.default_rng(5)
    y = 1.0 + 2.0 * random.standard_normal(20_000)
    parameters = calibrant.fit_distribution(
        "location-scale", y, mean=np.zeros(20_000), variance=np.ones(20_000)
    ).to_document()["parameters"]
    assert parameters["shift"] == pytest.approx(1.0, abs=0.05)
    assert parameters["factor"] == pytest.approx(2.0, rel=0.03)


@pytest.mark.parametrize("factor", [0.0, 1e-200, 1e10, 1e150])
def test_location_scale_returns_positive_and_finite_variances(factor: float) -> None:
    fitted = calibrant.fit_distribution("location-scale", [0.0, 1.0, 3.0], mean=np.zeros(3), variance=np.ones(3))
    document = fitted.to_document()
    document["parameters"] |= {"factor": factor}
    calibrated = calibrant.load_distribution(document).apply(mean=np.zeros(3), variance=np.array([1e-300, 1.0, 1e300]))
    assert calibrated.variance is not None
    assert np.all((calibrated.variance > 0.0) & np.isfinite(calibrated.variance))


def test_quantile_recalibration_makes_quantiles_cover_their_levels() -> None:
    for shape in ("isotonic", "pl"):
        fitted_map = calibrant.fit_distribution(
            "quantile-recalibration", Y, quantiles=QUANTILES, levels=LEVELS, shape=shape
        )
        after = fitted_map.apply(quantiles=QUANTILES, levels=LEVELS).quantiles
        np.testing.assert_allclose((Y[:, None] <= after).mean(axis=0), LEVELS, atol=0.025)


def test_quantile_recalibration_widens_past_the_outermost_quantile_only_with_tails() -> None:
    options: dict[str, Any] = {"quantiles": QUANTILES, "levels": LEVELS}
    normal, flat = (
        calibrant.fit_distribution("quantile-recalibration", Y, tails=tails, **options).apply(**options).quantiles
        for tails in ("normal", "flat")
    )
    assert (normal[:, -1] > QUANTILES[:, -1]).all()
    np.testing.assert_allclose(flat[:, -1], QUANTILES[:, -1])


def test_the_pit_inverts_quantiles_between_and_beyond_the_levels() -> None:
    new = np.array([-7.0, -2.0, -0.8, 0.0, 0.8, 5.0])
    quantiles = quantiles_at(QUANTILES, LEVELS, new, "normal")
    for k, z in enumerate(new):
        for pit in scores_of(QUANTILES, LEVELS, quantiles[:, k], "normal"):
            np.testing.assert_allclose(pit, z, atol=1e-9)


def test_the_pit_of_an_outcome_at_tied_quantiles_is_an_interval() -> None:
    low, high = scores_of(np.array([[0.0, 0.0, 0.0, 4.0, 8.0]]), LEVELS, np.array([0.0]), "normal")
    assert (low[0], high[0]) == (-np.inf, 0.0)


# --- Conformal intervals


def test_conformal_takes_the_kth_smallest_score() -> None:
    conformal = fitted("conformal", output_levels=[0.05, 0.95])
    scores = np.sort(np.abs(Y - MEAN) / np.sqrt(VARIANCE))
    expected = scores[int(np.ceil((N + 1) * 0.9)) - 1]
    assert conformal.to_document()["parameters"]["offsets"][0] == pytest.approx(expected, rel=1e-12)


def test_too_few_rows_give_infinite_bounds_and_a_warning() -> None:
    fitted_map = calibrant.fit_distribution(
        "conformal", Y[:8], lower=QUANTILES[:8, 0], upper=QUANTILES[:8, -1], level=0.9
    )
    after = fitted_map.apply(lower=[0.0], upper=[1.0], level=0.9)
    assert (after.lower[0], after.upper[0]) == (-np.inf, np.inf)
    assert "8 rows are too few" in fitted_map.diagnostics["warning"]
    assert "needs 9 rows" in fitted_map.diagnostics["warning"]
    assert fitted_map.to_document()["parameters"]["offsets"] == [None]


def test_ties_broken_at_random_exclude_the_bound_in_the_right_share_of_rows() -> None:
    y = np.repeat([0.0, 1.0, 2.0], [50, 30, 19])  # scores -1 for rows inside, and ties at the bounds
    fitted_map = calibrant.fit_distribution(
        "conformal", y, lower=np.zeros(99), upper=np.zeros(99), level=0.6, ties="random"
    )
    parameters = fitted_map.to_document()["parameters"]
    assert parameters["offsets"][0] == pytest.approx(1.0)
    assert parameters["keep"][0] == pytest.approx((60 - 50) / 31)
    after = fitted_map.apply(lower=np.zeros(4000), upper=np.zeros(4000), level=0.6, seed=1)
    assert np.mean(after.upper >= 1.0) == pytest.approx(10 / 31, abs=0.03)


# --- Groups, averages and gains


def test_each_group_gets_its_own_function_and_unknown_ones_that_of_all_rows() -> None:
    groups = np.where(np.arange(N) % 2, "narrow", "wide")
    y = np.where(groups == "wide", MEAN + 3.0 * (Y - MEAN), Y)
    fitted_map = calibrant.fit_distribution("variance-scaling", y, mean=MEAN, variance=VARIANCE, by=groups)
    narrow, wide, other = fitted_map.apply(mean=[0.0] * 3, variance=[1.0] * 3, by=["narrow", "wide", "new"]).variance
    assert narrow < other < wide
    with pytest.raises(CalibrationError, match="by is missing"):
        fitted_map.apply(mean=[0.0], variance=[1.0])


def test_small_groups_use_the_function_of_all_rows() -> None:
    groups = np.where(np.arange(N) < 20, "small", "large")
    fitted_map = calibrant.fit_distribution("variance-scaling", Y, mean=MEAN, variance=VARIANCE, by=groups)
    assert list(fitted_map.to_document()["parameters"]["members"]) == ["large"]


def test_the_average_improves_overconfident_forecasts_and_reports_its_gain() -> None:
    fitted_map = calibrant.fit_distribution("averaged", Y, quantiles=QUANTILES, levels=LEVELS)
    gain = fitted_map.diagnostics["held_out_gain"]
    assert gain["score"] == "quantile-score"
    assert gain["gain"] > 3.0 * gain["standard_error"] > 0.0
    assert "warning" not in fitted_map.diagnostics
    assert sum(fitted_map.diagnostics["members"].values()) == pytest.approx(1.0)


def test_rows_of_a_cluster_share_a_fold_and_their_errors_are_dependent() -> None:
    random = np.random.default_rng(4)
    weeks = np.repeat(np.arange(40), 10)
    y = MEAN + np.sqrt(VARIANCE) * np.repeat(random.standard_normal(40) * 2.0, 10)
    alone, together = (
        calibrant.fit_distribution("variance-scaling", y, mean=MEAN, variance=VARIANCE, clusters=clusters)
        for clusters in (None, weeks)
    )
    errors = [fitted_map.diagnostics["held_out_gain"]["standard_error"] for fitted_map in (alone, together)]
    assert errors[1] > 2.0 * errors[0]
    few = calibrant.fit_distribution("variance-scaling", y, mean=MEAN, variance=VARIANCE, clusters=weeks % 2)
    assert "held_out_gain" not in few.diagnostics
    with pytest.raises(CalibrationError, match="has 2 clusters, but 3 folds"):
        calibrant.fit_distribution("averaged", y, mean=MEAN, variance=VARIANCE, clusters=weeks % 2)


def test_the_average_leaves_calibrated_forecasts_almost_as_they_are() -> None:
    random = np.random.default_rng(11)
    mean, sd = random.standard_normal(1000), random.uniform(0.5, 2.0, 1000)
    y = mean + sd * random.standard_normal(1000)
    fitted_map = calibrant.fit_distribution("averaged", y, mean=mean, variance=sd**2)
    after = fitted_map.apply(mean=mean, variance=sd**2)
    np.testing.assert_allclose(after.mean, mean, atol=0.05)
    np.testing.assert_allclose(np.sqrt(after.variance), sd, rtol=0.06)


def test_a_map_that_does_not_improve_says_so() -> None:
    random = np.random.default_rng(2)
    y = random.standard_normal(60)
    fitted_map = calibrant.fit_distribution(
        "variance-isotonic", y, mean=np.zeros(60), variance=random.gamma(50.0, 0.02, 60)
    )
    assert fitted_map.diagnostics["held_out_gain"]["gain"] <= 0.0
    assert "does not improve" in fitted_map.diagnostics["warning"]


# --- Hostile input

NORMAL: dict[str, Any] = {"mean": [0.0, 1.0, 2.0], "variance": [1.0, 2.0, 1.0]}


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [
        ("variance-plat", {}, "did you mean variance-platt"),
        ("quantile-recalibration", {"shape": "step"}, "shape must be isotonic, pl"),
        ("variance-platt", {"support": (0.0, None)}, "support must not be given"),
        ("conformal", {"support": (1.0, None)}, "must be within the support; the first at /observed/0"),
        ("conformal", {"support": (2.0, 1.0)}, "support must be two numbers in order"),
        ("conformal", {"output_levels": [0.05, 0.9]}, "must be symmetric about 1/2"),
        ("conformal", {"output_levels": [0.0, 1.0]}, "above 0 and below 1"),
        ("conformal", {"weights": [1, 2, 1]}, "must be frequency"),
        ("location-scale", {"scale": "log1p"}, "scale must be identity"),
        ("location-scale", {"scale": "sqrt"}, "must be one of: identity, log1p"),
        ("location-scale", {"by": ["a"]}, "by must have 3 rows"),
        ("variance-scaling", {"tails": "normal"}, "unknown option"),
        ("variance-isotonic", {"variance": [1.0, 1.0, 1.0]}, "are all equal"),
        ("variance-scaling", {"mean": [0.5, 0.5, 0.5], "observed": [0.5, 0.5, 0.5]}, "equal the predicted means"),
    ],
)
def test_invalid_arguments_are_refused(method: str, changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"observed": [0.5, 0.5, 4.0], **NORMAL, **changes}
    with pytest.raises(CalibrationError, match=message):
        calibrant.fit_distribution(method, **arguments)


def test_a_map_refuses_forecasts_of_another_kind_or_at_other_levels() -> None:
    fitted_map = calibrant.fit_distribution("location-scale", Y, quantiles=QUANTILES, levels=LEVELS)
    with pytest.raises(CalibrationError, match="the map takes quantiles"):
        fitted_map.apply(mean=[0.0], variance=[1.0])
    with pytest.raises(CalibrationError, match="levels must be those"):
        fitted_map.apply(quantiles=QUANTILES[:, 1:4], levels=LEVELS[1:4])


def test_quantiles_below_minus_one_have_no_logarithm() -> None:
    with pytest.raises(CalibrationError, match="above -1 for the scale log1p"):
        calibrant.fit_distribution("location-scale", np.abs(Y), quantiles=QUANTILES, levels=LEVELS, scale="log1p")


DOCUMENT: dict[str, Any] = {
    "format": 1,
    "prediction_kind": "regression",
    "method": "variance-platt",
    "family": "variance-line",
    "kind": "normal",
    "levels": None,
    "support": [None, None],
    "parameters": {"factor": 2.0, "offset": 0.5},
}


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"format": 2}, "/format"),
        ({"prediction_kind": "classification"}, "/prediction_kind"),
        ({"method": ""}, "/method"),
        ({"kind": "moments"}, "/kind"),
        ({"family": "platt"}, "/family"),
        ({"support": [1.0, 0.0]}, "/support"),
        ({"support": None}, "/support"),
        ({"parameters": {"factor": -1.0, "offset": 0.0}}, "/parameters/factor"),
        ({"parameters": {"factor": 0.0, "offset": 0.0}}, "/parameters/offset"),
        ({"training_digest": "x"}, "/training_digest"),
        (
            {"family": "average", "parameters": {"members": [{"family": "x"}], "shares": [1.0]}},
            "/parameters/members/0/family",
        ),
        (
            {"family": "chain", "parameters": {"members": [{"family": "variance-line", "parameters": {}}]}},
            "/parameters/members/0/parameters/factor",
        ),
    ],
)
def test_invalid_documents_are_refused_with_the_place(changes: dict[str, Any], pointer: str) -> None:
    with refused_at(pointer, CalibrationError):
        calibrant.load_distribution({**DOCUMENT, **changes})


def test_documents_of_one_prediction_kind_are_not_read_as_the_other() -> None:
    with pytest.raises(CalibrationError, match="load_distribution reads"):
        calibrant.load(DOCUMENT)


@pytest.mark.parametrize("method", ["location-scale", "averaged"])
def test_numbers_whose_squares_overflow_are_refused(method: str) -> None:
    with pytest.raises(CalibrationError, match=r"the first at /observed/0"):
        calibrant.fit_distribution(method, [1e200] * 9, mean=[0.0] * 9, variance=[1.0] * 9)


def test_an_average_of_few_rows_is_refused() -> None:
    with pytest.raises(CalibrationError, match="at least 6 rows"):
        calibrant.fit_distribution("averaged", Y[:5], mean=MEAN[:5], variance=VARIANCE[:5])


def _fitted(method: str, kind: str) -> dict[str, Any]:
    random = np.random.default_rng(0)
    arguments: dict[str, dict[str, Any]] = {
        "normal": {"mean": random.normal(size=60), "variance": random.uniform(0.5, 2.0, 60)},
        "quantiles": {"quantiles": np.sort(random.normal(size=(60, 3))), "levels": [0.1, 0.5, 0.9]},
        "samples": {"samples": random.normal(size=(60, 5))},
        "interval": {"lower": -np.ones(60), "upper": np.ones(60), "level": 0.8},
    }
    return calibrant.fit_distribution(method, random.normal(size=60), **arguments[kind]).to_document()


@pytest.mark.parametrize(
    ("method", "kind", "changes", "place"),
    [
        ("variance-platt", "normal", {"kind": "quantiles", "levels": [0.1, 0.9]}, "/family"),
        ("variance-isotonic", "normal", {"kind": "samples"}, "/family"),
        ("variance-scaling", "normal", {"support": [0.0, None]}, "/support"),
        ("quantile-recalibration", "samples", {"kind": "interval", "levels": [0.1, 0.9]}, "/family"),
        ("conformal", "normal", {"kind": "quantiles", "levels": [0.1, 0.5, 0.9]}, "/parameters/levels"),
        ("averaged", "samples", {"kind": "quantiles", "levels": [0.1, 0.5, 0.9]}, "/parameters/members/"),
        ("averaged", "normal", {"kind": "samples"}, "/parameters/members/"),
    ],
)
def test_a_document_that_contradicts_itself_is_refused(
    method: str, kind: str, changes: dict[str, Any], place: str
) -> None:
    document = _fitted(method, kind)
    calibrant.load_distribution(document)
    with refused_at(place, InvalidDocument, below=True):
        calibrant.load_distribution({**document, **changes})


@pytest.mark.parametrize(("method", "kind"), [("averaged", "samples"), ("identity", "samples"), ("averaged", "normal")])
def test_output_levels_are_refused_if_the_map_would_not_return_them(method: str, kind: str) -> None:
    y, forecasts = np.arange(60.0), cast(dict[str, Any], {"samples": np.zeros((60, 5))})
    if kind == "normal":
        forecasts = {"mean": np.zeros(60), "variance": np.ones(60)}
    with pytest.raises(InvalidOption, match=f"maps of {method} return"):
        calibrant.fit_distribution(method, y, output_levels=[0.1, 0.9], **forecasts)


def test_variances_stay_between_thresholds_that_are_very_close() -> None:
    variance: Any = 1e-300 * (1.0 + np.arange(5) * 2.0**-50)
    curve = VarianceCurve("variance", variance[[0, 4]], np.array([1.0, 2.0]))
    variances: Any = curve(normal_of(np.zeros(5), variance)).variance
    np.testing.assert_allclose(variances, np.linspace(1.0, 2.0, 5), atol=0.05)
