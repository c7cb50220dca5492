from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import calibrant
from calibrant.core.errors import InvalidDocument, InvalidOption, NotConverged, OnePrediction, TooFewRows
from calibrant.maps import order_preserving_fit
from calibrant.maps.order_preserving_fit import Kind, _problem, fit_order_preserving
from tests.refusals import refused_at
from tests.unit.maps.drawn import drawn_logits, drawn_vector, log_loss, softmax

KINDS: list[Kind] = ["diagonal", "oi", "op"]
METHODS = [f"iop-{kind}" for kind in KINDS]


def _rows(n: int = 600, K: int = 4, seed: int = 0) -> tuple[Any, Any]:
    """Logits of which the largest gaps are too sure, and labels that no piece tells without error."""
    z, y = drawn_logits(n, K, seed=seed)
    z = z + 0.2 * z * np.abs(z)
    random = np.random.default_rng(seed + 100)
    return z, np.where(random.random(n) < 0.15, random.integers(0, K, n), y)


def _g(d: float, knots: list[float], slopes: list[float]) -> float:
    total, low = 0.0, 0.0
    for j, slope in enumerate(slopes):
        high = knots[j] if j < len(knots) else math.inf
        total += slope * max(0.0, min(d, high) - low)
        low = high
    return total


def _applied(parameters: dict[str, Any], z: list[float]) -> list[float]:
    """A document applied to one row, naively."""
    K, knots = len(z), parameters["knots"]
    scores = [0.0] * K
    if "slopes" in parameters:
        scores = [-_g(max(z) - v, knots, parameters["slopes"]) for v in z]
    else:
        order = sorted(range(K), key=lambda k: (-z[k], k))
        for i in range(K - 1):
            slopes = list(parameters["rank_slopes"][min(i, len(parameters["rank_slopes"]) - 1)])
            if "class_slopes" in parameters:
                slopes = [a + b for a, b in zip(slopes, parameters["class_slopes"][order[i]], strict=True)]
            scores[order[i + 1]] = scores[order[i]] - _g(z[order[i]] - z[order[i + 1]], knots, slopes)
    mass = [math.exp(s) for s in scores]
    return [m / sum(mass) for m in mass]


@pytest.mark.parametrize("K", [2, 4, 13])
@pytest.mark.parametrize("method", METHODS)
def test_documents_say_how_they_are_applied(method: str, K: int) -> None:
    z, y = _rows(200, K)
    fitted = calibrant.fit(method, z, y, scale="logit", strength=0.01)
    document = json.loads(json.dumps(fitted.to_document()))
    again = calibrant.load(document)
    assert again.to_document() == document
    z[0], z[1, :2] = 1.0, 3.0  # ties
    q = again.apply(z)
    np.testing.assert_array_equal(q, fitted.apply(z))
    np.testing.assert_allclose(q, [_applied(document["parameters"], row) for row in z.tolist()], atol=1e-12)
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_the_classes_is_kept_and_equal_logits_stay_equal(method: str) -> None:
    z, y = _rows()
    q = calibrant.fit(method, z, y, scale="logit", strength=1e-6).apply(z)
    order = np.argsort(-z, axis=1)
    assert (np.diff(np.take_along_axis(q, order, axis=1), axis=1) < 0.0).all()
    tied = np.round(z)
    q = calibrant.fit(method, tied, y, scale="logit", strength=0.01).apply(tied)
    for a in range(4):
        for b in range(a):
            np.testing.assert_array_equal(tied[:, a] == tied[:, b], q[:, a] == q[:, b])
    shifted = calibrant.fit(method, z, y, scale="logit", strength=0.01)
    np.testing.assert_allclose(shifted.apply(z + 5.0), shifted.apply(z), atol=1e-12)


@pytest.mark.parametrize("method", ["iop-diagonal", "iop-oi"])
def test_the_names_of_the_classes_do_not_matter(method: str) -> None:
    z, y = _rows()
    turned = np.array([2, 0, 3, 1])
    first = calibrant.fit(method, z, y, scale="logit", strength=0.01).apply(z)
    place = np.argsort(turned)
    other = calibrant.fit(method, z[:, turned], place[y], scale="logit", strength=0.01).apply(z[:, turned])
    np.testing.assert_allclose(first[:, turned], other, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_those_of_the_loss(kind: Kind) -> None:
    problem = replace(_problem(drawn_vector(50, 4), kind, 3, 1.5), strength=0.3)
    random = np.random.default_rng(0)
    x, d = random.random(problem.rows.target.size), random.standard_normal(problem.rows.target.size)
    h = 1e-5
    slope = (problem.loss(x + h * d) - problem.loss(x - h * d)) / (2 * h)
    assert slope == pytest.approx(float(problem.gradient(x) @ d), rel=1e-7)
    bent = (problem.gradient(x + h * d) - problem.gradient(x - h * d)) / (2 * h)
    np.testing.assert_allclose(problem.hessian(x) @ d, bent, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strength", [0.0, 0.01])
def test_the_optimum_is_that_of_a_general_minimiser(kind: Kind, strength: float) -> None:
    z, y = _rows(400, 3)
    vector = replace(drawn_vector(400, 3), probabilities=softmax(z), logits=z, labels=y)
    fit = fit_order_preserving(vector, kind, n_knots=2, strength=strength)
    problem = replace(_problem(vector, kind, 2, fit.temperature), strength=strength)
    least, target = problem.rows.least, problem.rows.target
    theirs = minimize(
        problem.loss,
        target,
        jac=problem.gradient,
        method="trust-constr",
        bounds=[(low, None) for low in least],
        options={"gtol": 1e-10, "xtol": 1e-12, "maxiter": 3000},
    )
    x = problem.minimise(target)
    assert problem.loss(x) <= theirs.fun + 1e-9
    gradient = problem.gradient(x)
    assert np.abs(np.where(x > least, gradient, np.minimum(gradient, 0.0))).max() <= 1e-8
    assert fit.log_loss == pytest.approx(log_loss(fit.transform(z), y), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_l_bfgs_finds_the_same_optimum_in_blocks(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = _rows(400)
    vector = replace(drawn_vector(400, 4), probabilities=None, logits=z, labels=y)
    newton = fit_order_preserving(vector, kind, n_knots=3, strength=0.01)
    monkeypatch.setattr(order_preserving_fit, "_WHOLE", 0.0)
    monkeypatch.setattr(order_preserving_fit, "_KEPT", 0)
    monkeypatch.setattr(order_preserving_fit, "_BLOCK", 500)
    other = fit_order_preserving(vector, kind, n_knots=3, strength=0.01)
    assert other.log_loss == pytest.approx(newton.log_loss, abs=1e-6)
    np.testing.assert_allclose(newton.transform(z), other.transform(z), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", METHODS)
def test_the_map_is_never_worse_than_temperature_and_shrinks_to_it(method: str, dtype: Any) -> None:
    for seed in range(3):
        z, y = _rows(500, 3, seed)
        z = z.astype(dtype)
        plain = calibrant.fit("temperature", z, y, scale="logit").apply(z)
        free = calibrant.fit(method, z, y, scale="logit", strength=0, n_knots=2)
        assert log_loss(free.apply(z), y) <= log_loss(plain, y) + 1e-12
        some = calibrant.fit(method, z, y, scale="logit", strength=0.01, n_knots=2)
        assert log_loss(free.apply(z), y) <= log_loss(some.apply(z), y) + 1e-12 <= log_loss(plain, y) + 2e-12
        drawn = calibrant.fit(method, z, y, scale="logit", strength=1e9)
        np.testing.assert_allclose(drawn.apply(z), plain, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_chosen_strength_improves_what_a_temperature_cannot(method: str) -> None:
    z, y = _rows(800, 3)
    fitted = calibrant.fit(method, z, y, scale="logit", n_knots=3)
    unseen, labels = _rows(4000, 3, seed=7)
    plain = calibrant.fit("temperature", z, y, scale="logit")
    assert log_loss(fitted.apply(unseen), labels) < log_loss(plain.apply(unseen), labels) - 0.003
    assert fitted.diagnostics["held_out_log_loss"] > fitted.diagnostics["log_loss"]
    again = calibrant.fit(method, z, y, scale="logit", n_knots=3, strength=fitted.diagnostics["strength"])
    np.testing.assert_array_equal(again.apply(z), fitted.apply(z))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_chosen_strength_does_not_depend_on_the_order_of_rows(method: str) -> None:
    z, y = _rows(200, 3)
    z = np.round(z, 1)
    turned = np.random.default_rng(5).permutation(200)
    first, other = (calibrant.fit(method, z[r], y[r], scale="logit", n_knots=3) for r in (slice(None), turned))
    assert first.diagnostics["strength"] == other.diagnostics["strength"]
    np.testing.assert_allclose(first.apply(z), other.apply(z), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_of_0_and_1_are_coped_with(method: str) -> None:
    random = np.random.default_rng(3)
    P = random.dirichlet([0.2] * 3, 300)
    P[:50] = np.eye(3)[random.integers(0, 3, 50)]
    y = np.where(random.random(300) < 0.3, random.integers(0, 3, 300), P.argmax(axis=1))
    for predictions in (P, P.astype(np.float32)):
        q = calibrant.fit(method, predictions, y, strength=0.01).apply(predictions)
        assert np.isfinite(q).all()
        assert q.min() >= 0.0


def test_unfittable_rows_are_refused_with_their_reason() -> None:
    z, y = _rows(60, 3)
    for method in METHODS:
        with pytest.raises(NotConverged):
            calibrant.fit(method, z, z.argmax(axis=1), scale="logit")
        with pytest.raises(OnePrediction):
            calibrant.fit(method, np.ones((60, 3)), y, scale="logit")
        with pytest.raises(TooFewRows):
            calibrant.fit(method, z[:8], y[:8], scale="logit", folds=9)
        with pytest.raises(InvalidOption):
            calibrant.fit(method, z, y, scale="logit", n_knots=0)
    sure = z[np.arange(60), y] == z.max(axis=1)
    z[sure] *= 3.0  # the largest distances are never wrong
    with pytest.raises(NotConverged, match="strength"):
        calibrant.fit("iop-oi", z, y, scale="logit", strength=0.0)


@pytest.mark.parametrize("method", METHODS)
def test_damaged_documents_are_refused(method: str) -> None:
    z, y = _rows(100, 3)
    document = calibrant.fit(method, z, y, scale="logit", strength=0.1, n_knots=3).to_document()
    for field, parameter in document["parameters"].items():
        damaged = copy.deepcopy(document)
        inner = damaged["parameters"][field]
        (inner[1] if isinstance(parameter[0], list) else inner)[1] = -1.0
        with refused_at(f"/parameters/{field}", InvalidDocument, below=True):
            calibrant.load(damaged)
        shorter = copy.deepcopy(document)
        shorter["parameters"][field] = parameter[:-1]
        with pytest.raises(InvalidDocument):
            calibrant.load(shorter)
    damaged = copy.deepcopy(document)
    damaged["parameters"]["knots"][0] = 0.0
    with pytest.raises(InvalidDocument, match="above 0"):
        calibrant.load(damaged)
