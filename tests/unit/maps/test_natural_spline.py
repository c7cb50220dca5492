"""Logistic regression on a natural cubic spline: products of features without their matrix, and many rows."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from calibrant.core.cells import sort_rows
from calibrant.maps.natural_spline import _Cubics, fit_mli_spline


@pytest.mark.parametrize("knots", [[-1.0, 0.5, 2.0, 2.5], [-1.0, 3.0], [0.0]])
def test_products_of_piecewise_cubic_features_are_those_of_their_matrix(knots: list[float]) -> None:
    random = np.random.default_rng(0)
    z = np.sort(np.concatenate([random.uniform(-2.0, 4.0, 200).round(1), knots]))

    def features(at: np.ndarray) -> np.ndarray:
        return np.stack([np.ones(len(at)), at - 7.0, *(np.maximum(at - knot, 0.0) ** 3 for knot in knots)], axis=1)

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
    at = np.linspace(0.0, 1.0, 99)
    np.testing.assert_allclose(curve(at), exact(at), atol=1e-9)


def test_a_constant_prediction_is_fitted_by_its_rate() -> None:
    fitted = calibrant.fit("mli-spline", [0.3] * 400, [1, 0, 0, 0] * 100)
    assert fitted.apply(np.array([0.3])) == pytest.approx([0.25], abs=1e-3)
