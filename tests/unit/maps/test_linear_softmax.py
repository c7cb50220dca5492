from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

import calibrant
from calibrant.core.errors import (
    InvalidDocument,
    InvalidOption,
    MissingClass,
    NotConverged,
    OnePrediction,
    OutOfRange,
    TooFewRows,
)
from calibrant.core.reductions import Vector
from calibrant.maps import softmax_regression
from calibrant.maps.linear_softmax import (
    Dirichlet,
    MatrixScaling,
    fit_matrix_scaling,
    fit_regularised,
    fit_vector_scaling,
)
from calibrant.maps.softmax_regression import Regression, SoftmaxFeatures
from tests.unit.maps.drawn import drawn_logits, drawn_vector, log_loss, softmax

UNREGULARISED = ["vector", "matrix"]
REGULARISED = ["matrix-odir", "dirichlet-l2", "dirichlet-odir"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("K", [2, 3, 10])
def test_matrix_scaling_is_no_worse_than_a_logistic_regression(K: int, dtype: Any) -> None:
    z, y = drawn_logits(1500, K)
    z = z.astype(dtype)
    fitted = calibrant.fit("matrix", z, y, scale="logit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=2000).fit(z.astype(np.float64), y)
    ours, theirs = log_loss(fitted.apply(z), y), log_loss(peer.predict_proba(z.astype(np.float64)), y)
    assert ours <= theirs + 1e-9
    assert ours == pytest.approx(theirs, abs=1e-5)


def _gradient(z: Any, y: Any, q: Any, w: Any = None) -> tuple[Any, Any]:
    """Of the mean log loss in W and b, naively."""
    residual = q - np.eye(z.shape[1])[y]
    share = np.full(len(y), 1 / len(y)) if w is None else w / w.sum()
    return (residual * share[:, None]).T @ z, share @ residual


@pytest.mark.parametrize("kind", ["frequency", "importance"])
def test_no_gradient_is_left_at_the_optimum(kind: Any) -> None:
    z, y = drawn_logits(800, 4)
    w = np.random.default_rng(1).integers(0, 4, 800).astype(float)
    for method in UNREGULARISED:
        fitted = calibrant.fit(method, z, y, weights=w, weights_kind=kind, scale="logit")
        slope, level = _gradient(z, y, fitted.apply(z), w)
        left = slope if method == "matrix" else slope.diagonal()
        assert np.abs(left).max() < 1e-9
        assert np.abs(level).max() < 1e-9


def test_regularised_fits_agree_with_a_general_minimiser() -> None:
    vector = drawn_vector(300, 3)
    logarithms = np.log(np.maximum(vector.p, 2.0**-52))
    off = ~np.eye(3, dtype=bool)
    for off_diagonal in (True, False):

        def loss(theta: Any, odir: bool = off_diagonal) -> float:
            W, b = theta[:9].reshape(3, 3), theta[9:]
            score = log_loss(softmax(logarithms @ W.T + b), vector.labels)
            if odir:
                return score + 0.1 * float((W[off] ** 2).mean()) + 0.02 * float((b**2).mean())
            return score + 0.1 * float((theta**2).mean())

        fit = fit_regularised(
            vector, probabilities=True, off_diagonal=off_diagonal, strength=0.1, intercept_strength=0.02
        )
        ours = np.concatenate([fit.weights.ravel(), fit.intercepts])
        theirs = minimize(loss, np.concatenate([np.eye(3).ravel(), np.zeros(3)]), tol=1e-12)
        assert loss(ours) <= theirs.fun + 1e-9
        np.testing.assert_allclose(ours, theirs.x, atol=1e-4)
        assert fit.held_out is None


@pytest.mark.parametrize("method", UNREGULARISED)
def test_unregularised_fits_are_never_worse_than_identity_or_temperature(method: str) -> None:
    for seed in range(5):
        z, y = drawn_logits(300, 4, seed=seed)
        ours = log_loss(calibrant.fit(method, z, y, scale="logit").apply(z), y)
        assert ours <= log_loss(softmax(z), y) + 1e-12
        assert ours <= log_loss(calibrant.fit("temperature", z, y, scale="logit").apply(z), y) + 1e-12


@pytest.mark.parametrize("full", [True, False])
def test_conjugate_gradients_find_the_same_optimum_in_blocks(full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    vector = drawn_vector(700, 5)
    fit: Any = fit_matrix_scaling if full else fit_vector_scaling
    whole, _ = fit(vector)
    monkeypatch.setattr(softmax_regression, "_WHOLE", 0)
    for name, bound in (("_KEPT", 0), ("_BLOCK", 640)):
        monkeypatch.setattr(softmax_regression, name, bound)
    parts, optimum = fit(vector)
    assert optimum["gradient"] < 1e-8
    np.testing.assert_allclose(parts.weights, whole.weights, atol=1e-6)
    np.testing.assert_allclose(parts.intercepts, whole.intercepts, atol=1e-6)


@pytest.mark.parametrize("full", [True, False])
def test_derivatives_are_those_of_the_loss(full: bool) -> None:
    vector = drawn_vector(60, 3)
    x = SoftmaxFeatures.of(vector.p, vector.labels, None, full=full, probabilities=True)
    random = np.random.default_rng(0)
    r = Regression(x, x.w, random.random(x.shape) if full else None)
    theta, d = random.standard_normal(x.shape), random.standard_normal(x.shape)
    h = 1e-5
    assert (r.loss(theta + h * d) - r.loss(theta - h * d)) / (2 * h) == pytest.approx(
        float((r.gradient(theta) * d).sum()), rel=1e-7
    )
    bent = (r.gradient(theta + h * d) - r.gradient(theta - h * d)) / (2 * h)
    np.testing.assert_allclose(r.curvature(theta, d), bent, atol=1e-7)
    hessian = r.hessian(theta)
    if r.penalty is None:
        alike = np.zeros(x.shape)
        alike[:, -1] = d[:, -1].mean() / x.n_classes
        bent = bent + alike
    np.testing.assert_allclose((hessian @ d.ravel()).reshape(d.shape), bent, atol=1e-7)
    plain = np.array([r.curvature(theta, e.reshape(x.shape)).ravel()[i] for i, e in enumerate(np.eye(theta.size))])
    np.testing.assert_allclose(r.diagonal(theta).ravel(), plain, atol=1e-12)
    np.testing.assert_allclose(x.coordinates(x.original(theta)), theta, atol=1e-9)


@pytest.mark.parametrize("method", REGULARISED)
def test_chosen_strengths_do_not_depend_on_the_order_of_rows(method: str) -> None:
    z, y = drawn_logits(150, 3, seed=2)
    z = np.round(z, 1)
    turned = np.random.default_rng(5).permutation(150)
    first, other = (calibrant.fit(method, z[rows], y[rows], scale="logit") for rows in (slice(None), turned))
    assert first.diagnostics["strength"] == other.diagnostics["strength"]
    assert first.diagnostics["held_out_log_loss"] == pytest.approx(other.diagnostics["held_out_log_loss"], abs=1e-9)
    np.testing.assert_allclose(first.apply(z), other.apply(z), atol=1e-8)
    at_it = {"strength": first.diagnostics["strength"]}
    if "odir" in method:
        at_it["intercept_strength"] = first.diagnostics["intercept_strength"]
    again = calibrant.fit(method, z, y, scale="logit", **at_it)
    np.testing.assert_allclose(first.apply(z), again.apply(z), atol=1e-9)


def test_a_strong_penalty_leaves_vector_scaling_without_intercepts_or_the_uniform_law() -> None:
    vector = drawn_vector(400, 3)
    strong = fit_regularised(vector, probabilities=False, off_diagonal=True, strength=1e9)
    assert np.abs(strong.weights - np.diag(strong.weights.diagonal())).max() < 1e-6
    assert np.abs(strong.intercepts).max() < 1e-6
    assert strong.weights.diagonal().min() > 0.3
    uniform = fit_regularised(vector, probabilities=True, off_diagonal=False, strength=1e9)
    np.testing.assert_allclose(Dirichlet(uniform.weights, uniform.intercepts)(vector.p), 1 / 3, atol=1e-6)


def test_dirichlet_takes_the_probabilities_of_logits() -> None:
    z, y = drawn_logits(300, 3)
    z[:5, 0] += 30.0  # the others are almost 0
    fitted = calibrant.fit("dirichlet-l2", z, y, scale="logit", strength=0.01)
    other = calibrant.fit("dirichlet-l2", softmax(z), y, strength=0.01)
    np.testing.assert_allclose(fitted.apply(z), other.apply(softmax(z)), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", [*UNREGULARISED, *REGULARISED])
def test_certain_float32_and_constant_predictions_are_coped_with(method: str) -> None:
    random = np.random.default_rng(3)
    P = random.dirichlet([0.2] * 3, 400)
    P[:50] = np.eye(3)[random.integers(0, 3, 50)]
    y = random.integers(0, 3, 400)
    options: dict[str, Any] = {} if method in UNREGULARISED else {"strength": 0.01}
    constant = np.full((400, 3), 1 / 3)
    if "odir" in method:
        with pytest.raises(OnePrediction):
            calibrant.fit(method, constant, y, **options)
    for predictions in [P, P.astype(np.float32), constant][: 2 if "odir" in method else 3]:
        q = calibrant.fit(method, predictions, y, **options).apply(predictions)
        assert np.isfinite(q).all()
        np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    if method in UNREGULARISED:
        np.testing.assert_allclose(q[0], np.bincount(y) / 400, atol=1e-9)


def test_fits_without_an_optimum_are_refused_with_their_reason() -> None:
    z, y = drawn_logits(90, 3)
    certain = z.argmax(axis=1)
    for method in UNREGULARISED:
        with pytest.raises(NotConverged) as caught:
            calibrant.fit(method, z, certain, scale="logit", strength=0.0)
        assert "dirichlet-l2" in caught.value.detail
        penalised = calibrant.fit(method, z, certain, scale="logit")
        assert penalised.diagnostics["strength"] > 0.0
        np.testing.assert_array_equal(penalised.apply(z).argmax(axis=1), certain)
    predicted = calibrant.fit("matrix-odir", z, certain, scale="logit").apply(z)
    np.testing.assert_array_equal(predicted.argmax(axis=1), certain)
    assert calibrant.fit("dirichlet-l2", z, certain, scale="logit").diagnostics["strength"] <= 1e-3
    for method in UNREGULARISED:
        with pytest.raises(MissingClass):
            calibrant.fit(method, z, np.where(y == 1, 0, y), scale="logit")
        with pytest.raises(MissingClass):
            calibrant.fit(method, z, y, weights=np.where(y == 1, 0.0, 1.0), scale="logit")
    assert np.isfinite(calibrant.fit("dirichlet-l2", z, np.where(y == 1, 0, y), scale="logit").apply(z)).all()
    with pytest.raises(TooFewRows):
        calibrant.fit("dirichlet-l2", z[:3], [0, 1, 2], scale="logit", folds=4)
    with pytest.raises(TooFewRows):
        calibrant.fit("dirichlet-l2", z[:3], [0, 1, 2], scale="logit", weights=[1.0, 1.0, 0.0])
    with pytest.raises(InvalidOption):
        calibrant.fit("dirichlet-l2", z, y, scale="logit", intercept_strength=0.1)
    with pytest.raises(InvalidOption):
        calibrant.fit("matrix-odir", z, y, scale="logit", strength=0.0)


def test_quasi_separable_labels_are_refused_although_their_loss_stays_above_0() -> None:
    z, y = drawn_logits(300, 3)
    z[:, 2] = np.where(y == 2, 5.0, -5.0) + 0.1 * z[:, 2]  # class 2 is separated without error
    assert log_loss(softmax(z), y) > 0.1
    with pytest.raises(NotConverged):
        calibrant.fit("matrix", z, y, scale="logit", strength=0.0)
    assert log_loss(calibrant.fit("matrix", z, y, scale="logit").apply(z), y) < log_loss(softmax(z), y)


@pytest.mark.parametrize("method", [*UNREGULARISED, *REGULARISED])
def test_a_document_of_another_number_of_classes_is_refused(method: str) -> None:
    z, y = drawn_logits(120, 3)
    options: dict[str, Any] = {} if method in UNREGULARISED else {"strength": 0.1}
    document = calibrant.fit(method, z, y, scale="logit", **options).to_document()
    with pytest.raises(InvalidDocument):
        calibrant.load(document | {"n_classes": 4})


def test_many_rows_are_applied_in_blocks() -> None:
    random = np.random.default_rng(0)
    W, b = random.standard_normal((3, 3)), random.standard_normal(3)
    z: Any = random.standard_normal((200_000, 3)).astype(np.float32)
    np.testing.assert_allclose(MatrixScaling(W, b)(z), softmax(z.astype(np.float64) @ W.T + b), atol=1e-14)


def test_a_vector_without_logits_takes_logarithms() -> None:
    vector = drawn_vector(400, 3)
    first, _ = fit_vector_scaling(Vector(vector.p, vector.labels))
    other, _ = fit_vector_scaling(Vector(vector.p, vector.labels, logits=np.log(vector.p)))
    np.testing.assert_allclose(first.weights, other.weights, atol=1e-9)


def test_separable_labels_have_an_optimum_under_any_penalty_on_all_parameters() -> None:
    z, _ = drawn_logits(90, 3)
    x = SoftmaxFeatures.of(z, z.argmax(axis=1), None, full=True, probabilities=False)
    fitted = Regression(x, x.w, np.full(x.shape, 1e-12))
    assert np.abs(fitted.gradient(fitted.minimise())).max() <= 1e-9
    with pytest.raises(NotConverged):
        Regression(x, x.w, np.diag([1e-12] * 3) @ np.eye(*x.shape)).minimise()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["vector", "matrix", "matrix-odir", "dirichlet-l2", "dirichlet-odir", "svs", "sms"])
@pytest.mark.parametrize("n_classes", [3, 30])
def test_every_fit_reports_its_objective_and_a_small_gradient(method: str, n_classes: int) -> None:
    vector = drawn_vector(900, n_classes)
    fitted = calibrant.fit(method, vector.p, vector.labels)
    diagnostics = fitted.diagnostics
    assert diagnostics["gradient"] < 1e-4
    if diagnostics.get("strength") == 0.0:
        own = fitted.apply(vector.p)[np.arange(len(vector)), vector.labels]
        assert diagnostics["objective"] == pytest.approx(-np.log(own).mean(), abs=1e-9)


def test_logits_whose_squares_overflow_in_a_sum_of_all_rows_are_refused() -> None:
    z = np.array([[0.0, -1e155, 1e155], [-800.0, -40.0, 1.0], [1.0, 1.0, 40.0]])
    with pytest.raises(OutOfRange, match="too far apart to be squared"):
        calibrant.fit("matrix-odir", z, [0, 0, 2], weights=[1e-3, 1.0, 2.0], scale="logit")


@pytest.mark.slow
def test_a_matrix_of_many_classes_has_a_penalty_by_default() -> None:
    z, y = drawn_logits(2_000, 25)
    p = softmax(z)
    fitted = calibrant.fit("matrix", p[:1_000], y[:1_000])
    assert fitted.diagnostics["strength"] in (10.0, 100.0, 1_000.0)
    plain = calibrant.fit("matrix", p[:1_000], y[:1_000], strength=0.0)
    assert log_loss(fitted.apply(p[1_000:]), y[1_000:]) < log_loss(plain.apply(p[1_000:]), y[1_000:])
    p[:5, 0] = 0.0  # the amount of smoothing is chosen by the same held-out loss
    diagnostics = calibrant.fit("matrix", p[:1_000] / p[:1_000].sum(axis=1, keepdims=True), y[:1_000]).diagnostics
    assert "smoothing" in diagnostics
    assert diagnostics["held_out_log_loss"] > diagnostics["objective"] > 0.0


@pytest.mark.parametrize("shift", [0.0, 7.0])
@pytest.mark.parametrize("method", UNREGULARISED)
def test_a_given_strength_is_that_of_the_penalty_in_the_definition(method: str, shift: float) -> None:
    z, y = drawn_logits(300, 3)
    z, strength = z + shift, 3.0
    fitted = calibrant.fit(method, z, y, scale="logit", strength=strength).to_document()["parameters"]
    T = calibrant.fit("temperature", z, y, scale="logit").to_document()["parameters"]["temperature"]
    w, b = np.array(fitted["weights"]), np.array(fitted["intercepts"])
    W, eye, scale = (np.diag(w), np.eye(3), 1.0) if method == "vector" else (w, np.eye(3), np.mean((z / T) ** 2))
    of_weights, of_intercepts = _gradient(z, y, softmax(z @ W.T + b))
    of_weights = np.diag(np.diag(of_weights)) if method == "vector" else of_weights
    penalty = 2 * strength * scale / len(y)
    np.testing.assert_allclose(of_weights + penalty * T * (T * W - eye), 0.0, atol=1e-4)
    np.testing.assert_allclose(of_intercepts + penalty * b, 0.0, atol=1e-4)
