"""Calibration by splines: of the cumulative label, and logistic regression on a natural cubic spline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize

import calibrant
from calibrant.core.cells import sort_rows
from calibrant.core.reductions import Event
from calibrant.maps.cumulative_spline import Boundary, CumulativeSpline, accuracies, fit_cumulative, path_of
from calibrant.maps.natural_spline import _Cubics, fit_mli_spline
from calibrant.maps.spline import MOST_SCORES, fit_spline
from tests.rows import draw_event
from tests.unit.maps.drawn import assert_refused

GRID = np.linspace(0, 1, 1001)
GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "golden" / "splines.json").read_text("utf-8"))
Floats = npt.NDArray[np.float64]


def _drawn(n: int, power: float = 1.5, seed: int = 0) -> tuple[Floats, npt.NDArray[np.int8]]:
    return draw_event(n, seed, power, dtype=np.int8)


@pytest.mark.parametrize("boundary", get_args(Boundary))
@pytest.mark.parametrize("knots", [4, 6, 8, 12])
def test_knots_and_derivatives_are_those_of_the_published_code(
    golden_event: Event, boundary: Boundary, knots: int
) -> None:
    expected = GOLDEN[f"{boundary}_{knots}knots"]
    fitted = fit_cumulative(path_of(golden_event.cells), knots, boundary)
    t = np.linspace(0, 1, 101)
    np.testing.assert_allclose(fitted.values, expected["knot_values"], atol=1e-12)
    np.testing.assert_allclose(fitted.second, expected["second_derivatives"], atol=1e-10)
    np.testing.assert_allclose(fitted.at(t), expected["values"], atol=1e-12)
    np.testing.assert_allclose(fitted.derivative(t), expected["slopes"], atol=1e-10)


def test_interpolation_is_linear_where_the_published_code_swaps_its_weights(golden_event: Event) -> None:
    fitted, _ = fit_spline(golden_event.cells)
    p, knots = golden_event.cells.p, fitted(golden_event.cells.p)
    theirs = np.array(GOLDEN["natural_6knots"]["recalibrated_grid1001"])
    np.testing.assert_array_equal(fitted(GRID), np.interp(GRID, p, knots))
    right = np.searchsorted(p, GRID).clip(1, len(p) - 1)
    share = (GRID - p[right - 1]) / (p[right] - p[right - 1])
    swapped = share * knots[right - 1] + (1 - share) * knots[right]
    swapped[p[0] >= GRID], swapped[p[-1] <= GRID] = knots[0], knots[-1]
    np.testing.assert_allclose(swapped, theirs, atol=1e-10)
    assert 0.005 < np.abs(fitted(GRID) - theirs).max() < 0.011


@pytest.mark.parametrize(("boundary", "theirs"), [("natural", "natural"), ("cubic", "not-a-knot")])
def test_the_spline_is_scipys_through_its_knots(boundary: Boundary, theirs: str) -> None:
    knots = np.random.default_rng(3).standard_normal(7)
    ours, t = CumulativeSpline(knots, boundary), np.sort(np.append(np.random.default_rng(4).random(50), [0, 1, 0.5]))
    other = CubicSpline(np.linspace(0, 1, 7), knots, bc_type=theirs)
    np.testing.assert_allclose(ours.at(t), other(t), atol=1e-12)
    np.testing.assert_allclose(ours.derivative(t), other(t, 1), atol=1e-10)


def test_a_tie_is_the_mean_over_its_orders() -> None:
    p = np.array([0.1, 0.2, 0.4, 0.4, 0.4, 0.6, 0.7, 0.9, 0.95])
    y = np.array([0, 1, 0, 1, 1, 0, 1, 1, 1], np.int8)
    basis = np.array(
        [CumulativeSpline(row, "natural").at(np.linspace(0, 1, 9)) for row in np.eye(5)]
    ).T  # rows by knots
    fits = []
    for labels in ([0, 1, 1], [1, 0, 1], [1, 1, 0]):
        ordered = y.astype(float)
        ordered[2:5] = labels
        fits.append(np.linalg.lstsq(basis, np.cumsum(ordered - p) / 9, rcond=None)[0])
    path = path_of(Event(p, y).cells)
    fitted = fit_cumulative(path, 5, "natural")
    np.testing.assert_allclose(fitted.values, np.mean(fits, axis=0), atol=1e-12)
    slopes = fitted.derivative(np.linspace(0, 1, 9))
    expected = np.array([*(p + slopes)[:2], 0.4 + slopes[2:5].mean(), *(p + slopes)[5:]])
    np.testing.assert_allclose(accuracies(path, fitted), expected, atol=1e-12)


def test_the_constrained_spline_is_the_optimum_of_its_program() -> None:
    p, y = _drawn(300, 6.0, 2)
    p = np.round(p, 2)
    path = path_of(Event(p, y).cells)
    free = fit_cumulative(path, 7, "parabolic")
    fitted = fit_cumulative(path, 7, "parabolic", constrained=True)
    basis = np.array([CumulativeSpline(row, "parabolic").at(path.t) for row in np.eye(7)]).T
    slopes = np.array([accuracies(path, CumulativeSpline(row, "parabolic")) - path.base for row in np.eye(7)]).T
    assert (free.values @ slopes.T + path.base).min() < -1e-3
    both = [
        {"type": "ineq", "fun": lambda v: path.base + slopes @ v, "jac": lambda v: slopes},
        {"type": "ineq", "fun": lambda v: 1 - path.base - slopes @ v, "jac": lambda v: -slopes},
    ]

    def loss(v: Floats) -> float:
        return float(path.mass @ (basis @ v - path.d) ** 2)

    theirs = minimize(
        loss,
        np.zeros(7),
        jac=lambda v: 2 * basis.T @ (path.mass * (basis @ v - path.d)),
        constraints=both,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert theirs.success
    assert loss(fitted.values) <= theirs.fun + 1e-10
    accuracy_slopes = accuracies(path, fitted)
    assert -1e-9 < accuracy_slopes.min() < 1e-9
    assert accuracy_slopes.max() < 1 + 1e-9
    # Where no score binds, the constraint changes nothing.
    p, y = np.linspace(0.2, 0.8, 300), (np.arange(300) % 3 == 0).astype(np.int8)
    loose = path_of(Event(p, y).cells)
    np.testing.assert_array_equal(
        fit_cumulative(loose, 5, "natural").values, fit_cumulative(loose, 5, "natural", constrained=True).values
    )


@pytest.mark.parametrize("decimals", [2, 6])
def test_equal_weights_change_nothing_and_fractions_are_near_their_frequencies(decimals: int) -> None:
    p, y = _drawn(400)
    p, w = np.round(p, decimals), np.random.default_rng(1).integers(1, 4, 400)
    options: list[dict[str, Any]] = [{"weights": w, "weights_kind": "frequency"}, {}]
    options += [{"weights": np.full(400, 0.3)}, {"weights": w / 3}]
    weighted, plain, equal, fractions = (calibrant.fit("spline", p, y, **weights).apply(GRID) for weights in options)
    np.testing.assert_allclose(equal, plain, atol=1e-12)
    assert np.abs(fractions - weighted).max() < 0.05


def test_large_ties_count_as_even_parts() -> None:
    random = np.random.default_rng(0)
    p = random.integers(0, 8, 20000) / 7
    y = (random.random(20000) < 0.2 + 0.6 * p).astype(np.int8)
    cells = Event(p, y).cells
    fitted, details = fit_spline(cells, 8)
    assert len(fitted.scores) == 8
    t, mean = np.linspace(0, 1, 20000), np.repeat(cells.wy / cells.w, cells.rows.astype(int))
    basis = np.array([CumulativeSpline(row, "natural").at(t) for row in np.eye(8)]).T
    exact = np.linalg.lstsq(basis, np.cumsum(mean - np.sort(p)) / 20000, rcond=None)[0]
    np.testing.assert_allclose(details["knot_values"], exact, atol=1e-6)
    np.testing.assert_allclose(fitted(cells.p), cells.wy / cells.w, atol=0.05)


@pytest.mark.slow
def test_the_order_of_the_rows_does_not_matter() -> None:
    p, y = _drawn(500)
    p, w = np.round(p, 2), np.random.default_rng(2).random(500)
    order = np.random.default_rng(1).permutation(500)
    for options in ({}, {"knots": None}, {"constrained": True}):
        for weights in (None, w):
            first = calibrant.fit("spline", p, y, weights=weights, **options).apply(GRID)
            shuffled = None if weights is None else weights[order]
            np.testing.assert_array_equal(
                first, calibrant.fit("spline", p[order], y[order], weights=shuffled, **options).apply(GRID)
            )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
@pytest.mark.parametrize("select", ["brier", "log-loss"])
def test_the_number_of_knots_follows_the_shape(select: str) -> None:
    p, y = _drawn(2000, 1.0)
    calibrated = calibrant.fit("spline", p, y, knots=None, select=select)
    assert calibrated.diagnostics["knots"] == 3
    random = np.random.default_rng(0)
    wavy = (random.random(2000) < 0.5 + 0.45 * np.sin(12 * p)).astype(int)
    fitted = calibrant.fit("spline", p, wavy, knots=None, select=select)
    losses = fitted.diagnostics["held_out_losses"]
    assert fitted.diagnostics["knots"] > 5
    assert losses[str(fitted.diagnostics["knots"])] <= 1.001 * min(losses.values())
    assert min(calibrant.fit("spline", p, y, knots=None, boundary="cubic").diagnostics["held_out_losses"]) != "3"


def test_a_spline_of_the_cumulative_label_is_the_slope_of_the_papers_text() -> None:
    p, y = _drawn(500)
    fitted, _ = fit_spline(Event(p, y).cells, 6, of="label")
    order, t = np.argsort(p), np.linspace(0, 1, 500)
    basis = CubicSpline(np.linspace(0, 1, 6), np.eye(6), bc_type="natural")
    coefficients = np.linalg.lstsq(basis(t), np.cumsum(y[order]) / 500, rcond=None)[0]
    np.testing.assert_allclose(fitted(p[order]), basis(t, 1) @ coefficients, atol=1e-9)


def test_the_two_splines_differ_little_and_keep_to_their_bounds() -> None:
    p, y = _drawn(5000, 3.0)
    difference, label = (calibrant.fit("spline", p, y, of=of).apply(p) for of in ("difference", "label"))
    assert 0.0005 < np.abs(difference - label).mean() < 0.02
    bounded = calibrant.fit("spline", p, y, of="label", constrained=True).apply(p, clip=False)
    assert 0 <= bounded.min() < bounded.max() <= 1
    w = np.random.default_rng(1).integers(1, 4, 5000)
    weighted = calibrant.fit("spline", p, y, weights=w, weights_kind="frequency", of="label").apply(GRID)
    repeated = calibrant.fit("spline", np.repeat(p, w), np.repeat(y, w), of="label").apply(GRID)
    np.testing.assert_allclose(weighted, repeated, atol=1e-9)
    assert calibrant.fit("spline", p, y, of="label", knots=None).diagnostics["knots"] in range(3, 15)


def test_many_scores_are_thinned_with_a_small_error() -> None:
    p, y = _drawn(30000)
    cells = Event(p, y).cells
    fitted, details = fit_spline(cells)
    assert len(fitted.scores) <= MOST_SCORES
    path = path_of(cells)
    exact = accuracies(path, fit_cumulative(path, 6, "natural"))
    assert np.abs(fitted(cells.p) - exact).max() == pytest.approx(details["thinning_error"])
    assert details["thinning_error"] < 2e-4
    assert (fitted.scores[0], fitted.scores[-1]) == (cells.p[0], cells.p[-1])


def test_constant_and_certain_predictions_have_a_map() -> None:
    constant = calibrant.fit("spline", np.full(40, 0.3), np.arange(40) % 4 == 0)
    np.testing.assert_allclose(constant.apply(GRID), 0.3 - 0.05 * 39 / 40, atol=1e-12)  # t runs over n - 1 steps
    certain = calibrant.fit("spline", [0.0] * 10 + [1.0] * 10, [0] * 9 + [1, 0] + [1] * 9, constrained=True)
    assert 0 <= certain.apply([0.0])[0] < certain.apply([1.0])[0] <= 1


def test_only_the_caller_clips() -> None:
    p, y = _drawn(300, 6.0, 2)
    fitted = calibrant.fit("spline", p, y, boundary="parabolic")
    assert fitted.apply(GRID, clip=False).min() < 0
    assert fitted.apply(GRID).min() == 0
    bounded = calibrant.fit("spline", p, y, boundary="parabolic", constrained=True).apply(GRID, clip=False)
    assert 0 <= bounded.min() < bounded.max() <= 1


def test_documents_of_splines_are_checked() -> None:
    document = calibrant.fit("spline", *_drawn(100)).to_document()
    scores, heights = document["parameters"]["scores"], document["parameters"]["values"]
    assert_refused(document, [({"scores": scores[::-1]}, "scores"), ({"values": heights[1:]}, "values")])


@pytest.mark.parametrize("knots", [[-1.0, 0.5, 2.0, 2.5], [-1.0, 3.0], [0.0]])
def test_products_of_piecewise_cubic_features_are_those_of_their_matrix(knots: list[float]) -> None:
    random = np.random.default_rng(0)
    z = np.sort(np.concatenate([random.uniform(-2.0, 4.0, 200).round(1), knots]))

    def features(points: np.ndarray) -> np.ndarray:
        return np.stack(
            [np.ones(len(points)), points - 7.0, *(np.maximum(points - knot, 0.0) ** 3 for knot in knots)], axis=1
        )

    matrix, cubics = features(z), _Cubics(z, np.array(knots), features)
    theta, weights = random.normal(size=(3, matrix.shape[1])), random.random((3, len(z)))
    np.testing.assert_allclose(cubics.values(theta), theta @ matrix.T, atol=1e-11)
    np.testing.assert_allclose(cubics.sums(weights), weights @ matrix, rtol=1e-11)
    gram = np.einsum("cd,sc,ce->sde", matrix, weights, matrix)
    np.testing.assert_allclose(cubics.gram(weights), gram, rtol=1e-10, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_cells_of_many_rows_choose_the_strength_that_the_rows_do(weighted: bool) -> None:
    random = np.random.default_rng(0)
    p = random.random(20_000) ** 2
    y = (random.random(20_000) < p ** (1.0 + 0.5 * np.sin(9.0 * p))).astype(np.int8)
    rows = sort_rows(p, y, random.random(20_000) if weighted else None)
    (curve, merged), (exact, whole) = (fit_mli_spline(rows, cells=cells) for cells in (4096, 20_000))
    assert merged["strength"] == whole["strength"]
    assert merged["held_out_log_loss"] == pytest.approx(whole["held_out_log_loss"], abs=2e-5)
    grid = np.linspace(0.0, 1.0, 99)
    np.testing.assert_allclose(curve(grid), exact(grid), atol=1e-9)


def test_a_constant_prediction_is_fitted_by_its_rate() -> None:
    fitted = calibrant.fit("mli-spline", [0.3] * 400, [1, 0, 0, 0] * 100)
    assert fitted.apply(np.array([0.3])) == pytest.approx([0.25], abs=1e-3)
