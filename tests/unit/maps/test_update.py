"""Updates of a model on new rows: the tests that choose them, and their shrinkage."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import betaincinv, chdtrc, expit, logit

import calibrant
from calibrant.core.errors import InvalidOption, NotConverged, OneClass, TooFewRows
from calibrant.core.reductions import Event
from calibrant.maps.platt import Platt
from calibrant.maps.update import fit_update
from tests.clinical import EXACT, NAMES, clinical_rows, numbers_of_r

Array = npt.NDArray[Any]


def _drawn(n: int, intercept: float, slope: float, seed: int = 0) -> tuple[Array, Array]:
    """Predictions, and labels whose logits are intercept + slope times those of the predictions."""
    random = np.random.default_rng(seed)
    z = random.normal(-0.5, 1.5, n)
    return expit(z), (random.random(n) < expit(intercept + slope * z)).astype(int)


def _curve(fitted: calibrant.CalibrationMap) -> Platt:
    assert isinstance(fitted.curve, Platt)
    return fitted.curve


@pytest.mark.parametrize("name", NAMES)
def test_the_tests_and_the_update_are_those_of_r(name: str) -> None:
    (p, y, _), exact, golden = clinical_rows(name), EXACT[name], numbers_of_r(name)
    fitted = calibrant.update(p, y)
    diagnostics = fitted.diagnostics
    assert diagnostics["update"] == "intercept"
    ratios, p_values = diagnostics["likelihood_ratios"], diagnostics["p_values"]
    assert ratios["none_to_intercept"] == pytest.approx(exact["lrt_none_to_intercept"], rel=1e-10)
    assert ratios["intercept_to_both"] == pytest.approx(exact["lrt_intercept_to_both"], rel=1e-10)
    assert ratios["none_to_both"] == pytest.approx(golden["unreliability_chi2"], rel=1e-9)
    assert p_values["none_to_both"] == pytest.approx(golden["unreliability_p"], rel=1e-8)
    assert p_values["intercept_to_both"] == pytest.approx(chdtrc(1, exact["lrt_intercept_to_both"]), rel=1e-9)
    assert diagnostics["shrinkage"] == 1.0
    curve = _curve(fitted)
    assert curve.slope == 1.0
    assert curve.intercept == pytest.approx(golden["calibration_in_the_large"], rel=1e-9)
    assert fitted.apply(p).sum() == pytest.approx(y.sum(), rel=1e-10)


@pytest.mark.parametrize(
    ("intercept", "slope", "update"), [(0.0, 1.0, "none"), (0.5, 1.0, "intercept"), (0.0, 0.5, "intercept and slope")]
)
def test_what_is_wrong_is_updated(intercept: float, slope: float, update: str) -> None:
    p, y = _drawn(4000, intercept, slope)
    fitted = calibrant.update(p, y)
    assert fitted == calibrant.fit("update", p, y)
    assert (fitted.method, fitted.diagnostics["update"]) == ("update", update)
    if update == "none":
        np.testing.assert_array_equal(fitted.apply(p), p)
    if update == "intercept and slope":
        unshrunken = calibrant.fit("platt", p, y, target_smoothing=False)
        np.testing.assert_allclose(fitted.apply(p), unshrunken.apply(p), rtol=1e-12)


def test_both_tests_are_at_5_percent() -> None:
    """A calibrated model is updated in 5 % of samples, to three standard errors."""
    updated = 0
    for seed in range(600):
        p, y = _drawn(400, 0.0, 1.0, seed)
        _, diagnostics = fit_update(Event(p, y.astype(np.int8)))
        updated += diagnostics["update"] != "none"
    assert abs(updated / 600 - 0.05) < 3 * np.sqrt(0.05 * 0.95 / 600)


@pytest.mark.parametrize(("slope", "update", "df"), [(1.0, "intercept", 1), (0.1, "intercept and slope", 2)])
@pytest.mark.parametrize("flipped", [False, True])
def test_an_update_with_few_events_or_few_others_is_shrunken(slope: float, update: str, df: int, flipped: bool) -> None:
    p, y = _drawn(170, 1.2, slope, seed=3)
    p, y = (1.0 - p, 1 - y) if flipped else (p, y)
    fitted = calibrant.update(p, y)
    diagnostics = fitted.diagnostics
    assert min(y.sum(), len(y) - y.sum()) < 100
    assert diagnostics["update"] == update
    chi2 = diagnostics["likelihood_ratios"]["none_to_intercept" if df == 1 else "none_to_both"]
    assert 0.0 < diagnostics["shrinkage"] < 1.0
    assert diagnostics["shrinkage"] == pytest.approx(1.0 - df / chi2)
    whole = calibrant.fit("platt", p, y, target_smoothing=False).apply(p)
    if df == 2:  # on the logit scale, between the predictions and the unshrunken update
        share = diagnostics["shrinkage"]
        np.testing.assert_allclose(logit(fitted.apply(p)), share * logit(whole) + (1.0 - share) * logit(p), atol=1e-10)


def test_importance_weights_count_as_effective_rows_and_frequencies_as_rows() -> None:
    p, y = _drawn(300, 0.5, 0.8, seed=1)
    once = calibrant.update(p, y).diagnostics["likelihood_ratios"]
    scaled = calibrant.update(p, y, weights=np.full(300, 40.0)).diagnostics["likelihood_ratios"]
    assert scaled == pytest.approx(once, rel=1e-9)
    twice = calibrant.update(p, y, weights=np.full(300, 2), weights_kind="frequency").diagnostics["likelihood_ratios"]
    assert twice == pytest.approx({name: 2.0 * statistic for name, statistic in once.items()}, rel=1e-9)
    repeated = calibrant.update(np.repeat(p, 2), np.repeat(y, 2)).diagnostics["likelihood_ratios"]
    assert twice == pytest.approx(repeated, rel=1e-9)


def test_logits_beyond_probabilities_have_an_update() -> None:
    random = np.random.default_rng(0)
    z = 400.0 + random.normal(size=500)
    y = (random.random(500) < expit(z - 400.0)).astype(int)
    fitted = calibrant.update(z, y, scale="logit")
    near = calibrant.update(z - 400.0, y, scale="logit")
    test = "intercept_to_both"
    assert fitted.diagnostics["likelihood_ratios"][test] == pytest.approx(
        near.diagnostics["likelihood_ratios"][test], rel=1e-9
    )
    assert fitted.diagnostics["update"] != "none"
    assert fitted.apply(z).mean() == pytest.approx(y.mean(), abs=1e-12)


def test_predictions_of_0_and_1_are_smoothed_and_equal_ones_get_the_rate() -> None:
    p, y = _drawn(600, 0.0, 1.0)
    p[:6], y[:6] = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [0, 1, 0, 1, 0, 1]
    fitted = calibrant.update(p, y)
    assert fitted.diagnostics["smoothing"] > 0.0
    assert 0.0 < fitted.apply([0.0])[0] < 0.5 < fitted.apply([1.0])[0] < 1.0
    constant = calibrant.update(np.full(400, 0.5), np.arange(400) % 4 == 0)
    assert constant.diagnostics["update"] == "intercept"
    assert constant.apply([0.5])[0] == pytest.approx(0.25, abs=1e-12)


def test_rows_that_determine_no_update_are_refused() -> None:
    with pytest.raises(OneClass):
        calibrant.update([0.2, 0.4], [0, 0])
    with pytest.raises(NotConverged, match="separable"):
        calibrant.update([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
    with pytest.raises(TooFewRows, match="cluster"):
        calibrant.update([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1], clusters=["a", "a", "a", "a"])
    with pytest.raises(InvalidOption, match="options"):
        calibrant.fit("update", [0.2, 0.4], [0, 1], level=0.1)


def test_each_class_is_updated_by_itself() -> None:
    random = np.random.default_rng(0)
    P = random.dirichlet(np.ones(3), 900)
    labels = (P.cumsum(axis=1) > random.random((900, 1))).argmax(axis=1)
    fitted = calibrant.update(P, labels, reduction="classwise")
    assert fitted.apply(P).shape == (900, 3)
    assert calibrant.load(fitted.to_document()) == fitted


def test_rows_that_are_repeated_in_their_cluster_add_no_evidence() -> None:
    p, y = _drawn(800, 0.2, 0.9)
    patients = np.arange(800)
    once = calibrant.update(p, y, clusters=patients).diagnostics
    often = calibrant.update(np.repeat(p, 5), np.repeat(y, 5), clusters=np.repeat(patients, 5)).diagnostics
    assert often["p_values"] == pytest.approx(once["p_values"], rel=0.02)
    independent = calibrant.update(p, y).diagnostics
    assert once["p_values"] == pytest.approx(independent["p_values"], rel=0.5)  # Wald's
    assert calibrant.update(np.repeat(p, 5), np.repeat(y, 5)).diagnostics["p_values"]["none_to_both"] < 1e-3


@pytest.mark.slow
def test_calibrated_rows_in_clusters_are_updated_in_five_percent_of_samples() -> None:
    """50 clusters of unequal size whose labels are beta-binomial, with an intraclass correlation of 0.2."""
    updates = 0
    for run in range(150):
        random = np.random.default_rng([run, 50])
        cluster = np.repeat(np.arange(50), random.integers(2, 30, 50))
        z = random.normal(-0.5, 0.8, 50)[cluster] + random.normal(0.0, 0.6, len(cluster))
        chance = betaincinv(4.0 * expit(z), 4.0 * expit(-z), random.random(50)[cluster])
        y = (random.random(len(cluster)) < chance).astype(int)
        updates += calibrant.update(z, y, scale="logit", clusters=cluster).diagnostics["update"] != "none"
    assert updates <= 15  # 5 % of 150, and 2.8 standard errors


def test_clusters_that_are_the_same_determine_no_variance() -> None:
    random = np.random.default_rng(0)
    p = np.tile(random.random(200), 2)
    y = (random.random(400) < p).astype(int)
    with pytest.raises(TooFewRows, match="clusters"):
        calibrant.update(p, y, clusters=np.repeat(["a", "b"], 200))
