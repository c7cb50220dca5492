from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

import calibrant
from calibrant.core.errors import NotConverged, OneClass
from calibrant.core.reductions import Event
from calibrant.maps.beta import fit_beta
from calibrant.maps.isotonic import fit_isotonic
from calibrant.maps.piecewise_linear import LogitPiecewiseLinear, PiecewiseLinear, Polyline
from calibrant.maps.platt import fit_platt
from tests.rows import draw_event

GRID = np.linspace(0, 1, 1001)


def test_isotonic_agrees_with_scikit_learn(golden: dict[str, Any], golden_event: Event) -> None:
    np.testing.assert_allclose(fit_isotonic(golden_event.cells)(GRID), golden["isotonic_grid1001"], atol=1e-12)


def test_isotonic_agrees_with_scikit_learn_on_ties_and_weights() -> None:
    random = np.random.default_rng(0)
    p, y, w = np.round(random.random(400), 2), random.integers(0, 2, 400), random.random(400) + 0.1
    theirs = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p, y, sample_weight=w).predict(GRID)
    np.testing.assert_allclose(fit_isotonic(Event(p, y.astype(np.int8), w).cells)(GRID), theirs, atol=1e-12)


def test_platt_agrees_with_scikit_learn(golden: dict[str, Any], golden_event: Event) -> None:
    fitted = fit_platt(golden_event.cells)
    a, b = golden["platt_a_b"]
    assert (fitted.slope, fitted.intercept) == pytest.approx((-a, -b), abs=1e-5)
    np.testing.assert_allclose(fitted(GRID[1:-1]), golden["platt_grid1001"][1:-1], atol=1e-5)


def test_beta_agrees_with_its_authors_code(golden: dict[str, Any], golden_event: Event) -> None:
    fitted = fit_beta(golden_event.cells)
    np.testing.assert_allclose(fitted(GRID[1:-1]), golden["beta_abm_grid1001_inner"], atol=1e-4)


def test_beta_never_decreases_even_where_the_labels_do() -> None:
    p = np.linspace(0.01, 0.99, 200)
    falling = fit_beta(Event(p, (np.arange(200) < 120).astype(np.int8)).cells)
    assert (falling.a, falling.b) == (0.0, 0.0)
    np.testing.assert_allclose(falling(GRID), 0.6, atol=1e-6)


def test_platt_without_smoothing_refuses_separable_data() -> None:
    cells = Event(np.linspace(0.1, 0.9, 20), (np.arange(20) >= 10).astype(np.int8)).cells
    with pytest.raises(NotConverged):
        fit_platt(cells, target_smoothing=False)
    assert np.isfinite(fit_platt(cells).slope)


def test_platt_copes_with_constant_and_certain_predictions() -> None:
    constant = fit_platt(
        Event(np.full(40, 0.3), (np.arange(40) % 4 == 0).astype(np.int8)).cells, target_smoothing=False
    )
    assert constant(np.array([0.3]))[0] == pytest.approx(0.25, abs=1e-6)
    certain = fit_platt(Event(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 1, 1, 1], np.int8)).cells)
    assert np.all(np.isfinite(certain(GRID)))


@pytest.mark.parametrize("fit", [fit_platt, fit_beta, fit_isotonic])
def test_one_class_is_refused(fit: Any) -> None:
    with pytest.raises(OneClass):
        fit(Event(np.array([0.2, 0.8]), np.array([1, 1], np.int8)).cells)


def test_the_average_of_piecewise_linear_curves_is_taken_point_by_point() -> None:
    models = (
        Polyline(np.array([0.0, 0.3, 1.0]), np.array([0.1, 0.2, 0.9])),
        Polyline(np.array([0.0, 0.6, 1.0]), np.array([0.0, 0.8, 1.0])),
    )
    expected = (models[0](GRID) + models[1](GRID)) / 2
    np.testing.assert_allclose(PiecewiseLinear(models)(GRID), expected, atol=1e-15)


def test_pl3_takes_the_mean_of_probabilities_not_of_logits() -> None:
    ends = np.array([-36.84, 36.74])
    curve = LogitPiecewiseLinear((Polyline(ends, np.array([0.0, 0.0])), Polyline(ends, np.array([2.0, 2.0]))))
    expected = (0.5 + 1 / (1 + np.exp(-2.0))) / 2
    np.testing.assert_allclose(curve(GRID), expected)


@pytest.mark.parametrize("method", ["identity", "platt", "isotonic"])
def test_a_map_takes_predictions_as_its_fit_took_them(method: str) -> None:
    random = np.random.default_rng(0)
    probs = random.dirichlet([1, 1, 1], 200)
    labels = np.array([random.choice(3, p=row) for row in probs])
    fitted = calibrant.fit(method, probs, labels)
    assert fitted.reduction == "confidence"
    assert fitted.apply(probs).shape == (200,)
    np.testing.assert_array_equal(fitted.apply(probs), fitted.apply(probs.max(axis=1)))
    with pytest.raises(calibrant.CalibrationError) as caught:
        fitted.apply(probs[:, :2] / probs[:, :2].sum(axis=1, keepdims=True))
    assert caught.value.code == "wrong-shape"


def test_importance_weights_smooth_the_targets_by_their_effective_rows() -> None:
    p, y = draw_event(60, 5, dtype=np.int8)
    alike = fit_platt(Event(p, y, np.full(60, 0.01), "importance").cells)
    assert alike.slope == pytest.approx(fit_platt(Event(p, y).cells).slope)


def test_an_mli_spline_needs_both_outcomes() -> None:
    with pytest.raises(OneClass):
        calibrant.fit("mli-spline", [0.2, 0.5] * 10, [1] * 20)
    with pytest.raises(OneClass):
        calibrant.fit("mli-spline", [0.2, 0.5] * 10, [1] * 19 + [0], weights=[1.0] * 19 + [0.0])


def test_maps_stay_between_thresholds_that_are_subnormally_close() -> None:
    p = np.array([0.0, 0.0, 2e-309, 2e-309, 2e-309, 2e-309, 2e-309, 2e-309, 2e-309, 0.4, 0.6])
    y = np.array([0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1])
    between = np.linspace(0.0, 2e-309, 9)
    for method in ("isotonic", "centered-isotonic", "spline", "kde", "histogram"):
        fitted = calibrant.fit(method, p, y)
        q = fitted.apply(between)
        low, high = np.sort(fitted.apply(between[[0, -1]]))
        assert low - 1e-12 <= q.min() <= q.max() <= high + 1e-12, method
    q = calibrant.fit("isotonic", p, y).apply(between)
    np.testing.assert_allclose(q, np.linspace(0.0, 6.0 / 7.0, 9), rtol=1e-12)
    knots = np.array([0.0, 2e-309, 1.0])
    curve = PiecewiseLinear((Polyline(knots, np.array([0.1, 0.9, 0.95])),))
    np.testing.assert_allclose(curve(between), np.linspace(0.1, 0.9, 9), rtol=1e-12)
