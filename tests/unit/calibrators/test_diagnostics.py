"""Every fit reports its cross-fitted gain, and every fit of a parametric map the gradient at its optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit, softmax

import calibrant
from calibrant.averaging.members import RegressionMember, rows_of
from calibrant.core.batch import read_batch
from calibrant.core.logistic import gradient_of
from calibrant.core.reductions import whole_vector
from calibrant.core.validation import GAIN_FOLDS, folds_of

#: Methods whose parameters minimise a smooth objective, and the largest gradient at which they stop.
EVENTS = {"affine": 1e-8, "beta": 1e-8, "mli-spline": 1e-5, "platt": 1e-8, "quadratic": 1e-7, "temperature": 1e-9}
VECTORS = {
    "dirichlet-l2": 1e-7,
    "ets": 1e-9,
    "iop-diagonal": 1e-7,
    "iop-oi": 1e-7,
    "iop-op": 1e-7,
    "matrix": 1e-7,
    "matrix-odir": 1e-7,
    "multinomial": 1e-4,
    "sms": 1e-4,
    "svs": 1e-4,
    "temperature": 1e-9,
    "vector": 1e-7,
}
#: Methods that take minutes here, or are not to improve rows like these.
_LEFT_OUT = ("identity", "pl-de", "prior-shift")


def drawn(n: int, n_classes: int, zeros: float = 0.0) -> tuple[Any, Any]:
    random = np.random.default_rng(n + n_classes)
    p = random.dirichlet(np.full(n_classes, 0.6), n)
    y = np.array([random.choice(n_classes, p=(row + 0.1) / (row + 0.1).sum()) for row in p])
    if zeros:
        p = np.where(p < zeros, 0.0, p)
        p /= p.sum(axis=1, keepdims=True)
    return (p[:, 1], y) if n_classes == 2 else (p, y)


@pytest.mark.slow
@pytest.mark.parametrize("zeros", [0.0, 0.02])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_every_fit_reports_its_cross_fitted_gain(n_classes: int, zeros: float) -> None:
    p, y = drawn(200, n_classes, zeros)
    for name, method in calibrant.METHODS.items():
        if name in _LEFT_OUT or (method.event if n_classes == 2 else method.vector) is None:
            continue
        gain = calibrant.fit(name, p, y).diagnostics["held_out_gain"]
        assert gain["standard_error"] >= 0.0, name
        assert np.isfinite(gain["log_loss"]), name


@pytest.mark.parametrize(
    ("method", "n_classes", "most"),
    [
        *((method, 2, most) for method, most in EVENTS.items()),
        *(pytest.param(method, 4, most, marks=pytest.mark.slow) for method, most in VECTORS.items()),
    ],
)
def test_fits_report_their_gradient(method: str, n_classes: int, most: float) -> None:
    p, y = drawn(700, n_classes)
    assert 0.0 <= calibrant.fit(method, p, y).diagnostics["gradient"] <= most


def test_the_gradient_is_that_of_the_objective() -> None:
    random = np.random.default_rng(2)
    x, y, theta = random.standard_normal((40, 3)), random.integers(0, 2, 40), random.standard_normal((1, 3))
    w, variance = random.uniform(0.5, 2.0, 40), np.array([[1.0, 2.0, 0.5]])

    def objective(parameters: Any) -> float:
        f = x @ parameters
        return float((w * (y * f - np.logaddexp(0.0, f))).sum() - (parameters * parameters / variance[0]).sum() / 2)

    gradient = gradient_of(x, np.zeros(40), w[None], (w * y)[None], variance, theta)[0]
    for k, step in enumerate(np.eye(3) * 1e-6):
        expected = (objective(theta[0] + step) - objective(theta[0] - step)) / 2e-6
        assert gradient[k] == pytest.approx(expected, abs=1e-6)


def test_the_gradient_of_temperature_scaling_bounds_the_slope_at_the_optimum() -> None:
    p, y = drawn(400, 2)
    fitted = calibrant.fit("temperature", p, y)
    z = logit(p)
    c = expit(z / fitted.function.parameters()["temperature"])
    assert abs(float(np.mean(z * (c - y)))) <= fitted.diagnostics["gradient"] + 1e-14


@pytest.mark.slow
def test_a_chosen_strength_is_kept_in_the_folds_of_the_gain() -> None:
    p, y = drawn(3000, 20)
    fitted = calibrant.fit("dirichlet-l2", p, y)
    vector = whole_vector(read_batch(p, y))
    order = vector.order()
    p, y = p[order], y[order]
    fold = folds_of(whole_vector(read_batch(p, y)), GAIN_FOLDS, 0)
    gains = np.empty(len(y))
    for k in range(GAIN_FOLDS):
        inside = np.flatnonzero(fold == k)
        other = calibrant.fit("dirichlet-l2", p[fold != k], y[fold != k], strength=fitted.diagnostics["strength"])
        gains[inside] = np.log(other.apply(p[inside]) / p[inside])[np.arange(len(inside)), y[inside]]
    assert fitted.diagnostics["held_out_gain"]["log_loss"] == pytest.approx(gains.mean(), abs=1e-9)


@pytest.mark.parametrize("method", ["sms", "svs"])
def test_the_gain_of_structured_scaling_is_that_of_fits_outside_the_folds(method: str) -> None:
    p, y = drawn(900, 5, 0.02)
    w = np.random.default_rng(0).integers(0, 3, 900)
    fitted = calibrant.fit(method, p, y, weights=w)
    weighted = w > 0
    p, y, w = p[weighted], y[weighted], w[weighted].astype(float)
    rows = rows_of(whole_vector(read_batch(p, y, weights=w)), GAIN_FOLDS, 0)
    member = RegressionMember(method, diagonal=method == "svs").fit(rows)
    before = np.log(np.maximum(rows.p, 2.0**-52))
    gain = float(rows.w @ (rows.own(member.held_out) - rows.own(before))) / rows.w.sum()
    assert fitted.diagnostics["held_out_gain"]["log_loss"] == pytest.approx(gain, abs=5e-4)


def test_the_gain_of_matrices_of_many_classes_is_that_of_one_fold() -> None:
    random = np.random.default_rng(5)
    z = 2.0 * random.standard_normal((6000, 40))
    y = (z + random.gumbel(size=z.shape)).argmax(axis=1)
    fitted = calibrant.fit("sms", 1.5 * z[:3000], y[:3000], scale="logit")
    gain = fitted.diagnostics["held_out_gain"]
    assert gain["rows"] == 1000
    new = np.arange(3000), y[3000:]
    predicted = softmax(1.5 * z[3000:], axis=1)[new]
    measured = float(np.mean(np.log(fitted.apply(1.5 * z[3000:])[new] / predicted)))
    assert abs(gain["log_loss"] - measured) < 4 * gain["standard_error"]
    assert fitted.diagnostics["gradient"] < 1e-4


def test_features_too_large_for_single_precision_have_a_map() -> None:
    random = np.random.default_rng(6)
    z = random.standard_normal((200, 3))
    y = (z + random.gumbel(size=z.shape)).argmax(axis=1)
    plain = calibrant.fit("svs", z, y, scale="logit").apply(z)
    for scale in (1e30, 1e39):
        fitted = calibrant.fit("svs", scale * z, y, scale="logit")
        np.testing.assert_allclose(fitted.apply(scale * z), plain, atol=1e-6)
