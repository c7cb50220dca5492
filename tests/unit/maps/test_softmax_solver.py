from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize as general

from calibrant.core.errors import OutOfRange
from calibrant.maps import softmax_design, softmax_device, softmax_solver
from calibrant.maps.softmax_design import Design
from calibrant.maps.softmax_device import DeviceDesign, passes_on, placed
from calibrant.maps.softmax_solver import Penalty, minimise
from tests.unit.maps.drawn import drawn_logits, log_loss, softmax

SHAPES = [(3, False), (3, True), (6, False)]


def _problem(K: int, diagonal: bool, fits: int = 2, n: int = 300) -> tuple[Design, Any, Penalty, Any]:
    z, y = drawn_logits(n, K, seed=K)
    design = Design(np.ascontiguousarray(z.T), y, K, diagonal)
    random = np.random.default_rng(1)
    w = random.random((fits, n))
    w /= w.sum(axis=1, keepdims=True)
    start = np.zeros((fits, *design.shape))
    penalty = Penalty(random.random(design.shape) / n, random.standard_normal(design.shape))
    return design, w, penalty, start


def _objective(theta: Any, design: Design, w: Any, penalty: Penalty) -> float:
    """One fit, naively."""
    W, b = theta[:, :-1], theta[:, -1]
    scores = (design.x.T * W[:, 0] if design.diagonal else design.x.T @ W.T) + b
    own = np.log(softmax(scores))[np.arange(len(scores)), design.labels]
    return float(-(w @ own) + (penalty.strength * (theta - penalty.centre) ** 2).sum())


@pytest.mark.slow
@pytest.mark.parametrize(("K", "diagonal"), SHAPES)
def test_all_fits_agree_with_a_general_minimiser(K: int, diagonal: bool) -> None:
    design, w, penalty, start = _problem(K, diagonal)
    optimum = minimise(design, w, penalty, start)
    assert optimum.gradient.max() < 1e-5
    for s in range(2):

        def loss(flat: Any, own: Any = w[s]) -> float:
            return _objective(flat.reshape(design.shape), design, own, penalty)

        theirs = general(loss, np.zeros(start[0].size), tol=1e-10)
        assert optimum.objective[s] == pytest.approx(loss(optimum.theta[s].ravel()), abs=1e-12)
        assert optimum.objective[s] <= theirs.fun + 1e-8


@pytest.mark.parametrize(("K", "diagonal"), SHAPES)
def test_every_preconditioner_finds_the_same_optimum(K: int, diagonal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = _problem(K, diagonal)
    whole = minimise(*problem)
    monkeypatch.setattr(softmax_solver, "_WHOLE", 0)
    monkeypatch.setattr(softmax_design, "_BLOCK", 100)
    by_parts = minimise(*problem)
    np.testing.assert_allclose(by_parts.objective, whole.objective, rtol=1e-10)
    monkeypatch.setattr(softmax_solver, "_TOGETHER", 1)
    np.testing.assert_allclose(minimise(*problem).objective, whole.objective, rtol=1e-10)


@pytest.mark.parametrize("diagonal", [False, True])
def test_the_gradient_and_the_hessian_are_those_of_the_loss(diagonal: bool) -> None:
    design, w, _, start = _problem(3, diagonal, fits=1, n=60)
    random = np.random.default_rng(0)
    theta, along = random.standard_normal(start.shape), random.standard_normal(start.shape)
    h = 1e-5
    (low, _), (high, _) = (design.value_and_gradient(theta + t * along, w) for t in (-h, h))
    slope = design.value_and_gradient(theta, w)[1]
    assert (high - low)[0] / (2 * h) == pytest.approx(float((slope * along).sum()), rel=1e-7)
    bent = design.value_and_gradient(theta + h * along, w)[1] - design.value_and_gradient(theta - h * along, w)[1]
    product = design.hessian(theta[0], w[0]) @ along.ravel()
    np.testing.assert_allclose(product.reshape(design.shape), bent[0] / (2 * h), atol=1e-7)


def test_separable_labels_have_an_optimum_under_a_weak_penalty() -> None:
    z, _ = drawn_logits(120, 4)
    design = Design(np.ascontiguousarray(z.T), z.argmax(axis=1), 4)
    penalty = Penalty(np.full(design.shape, 1e-9), np.zeros(()))
    optimum = minimise(design, np.full((1, 120), 1 / 120), penalty, np.zeros((1, *design.shape)))
    assert optimum.objective[0] < 1e-4


def test_stop_ends_a_search() -> None:
    z, _ = drawn_logits(120, 4)
    design = Design(np.ascontiguousarray(z.T), z.argmax(axis=1), 4)
    penalty, w = Penalty(np.full(design.shape, 1e-9), np.zeros(())), np.full((1, 120), 1 / 120)
    shapes: list[Any] = []

    def stop(theta: Any) -> bool:
        shapes.append(theta.shape)
        return True

    early = minimise(design, w, penalty, np.zeros((1, *design.shape)), stop=stop)
    whole = minimise(design, w, penalty, np.zeros((1, *design.shape)), stop=lambda theta: False)
    assert shapes == [(1, *design.shape)]
    assert early.steps < whole.steps
    assert early.objective[0] > whole.objective[0]


def test_single_precision_is_summed_in_double() -> None:
    design, w, penalty, start = _problem(3, False, n=3000)
    single = Design(design.x.astype(np.float32), design.labels, 3)
    optimum, exact = minimise(single, w, penalty, start, tolerance=1e-7), minimise(design, w, penalty, start)
    np.testing.assert_allclose(optimum.objective, exact.objective, rtol=1e-5)
    np.testing.assert_allclose(optimum.theta, exact.theta, atol=0.05)


def test_losses_are_those_of_the_rows() -> None:
    design, _, _, _ = _problem(3, False)
    theta = np.random.default_rng(3).standard_normal((2, *design.shape))
    q = softmax(design.x.T @ theta[1, :, :-1].T + theta[1, :, -1])
    assert design.losses(theta)[1].mean() == pytest.approx(log_loss(q, design.labels), rel=1e-9)


def test_infinite_features_are_refused() -> None:
    with pytest.raises(OutOfRange):
        Design(np.array([[np.inf, 0.0], [0.0, 1.0]]), np.array([0, 1]), 2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("K", "diagonal"), SHAPES)
def test_passes_through_torch_agree_with_those_of_numpy(
    K: int, diagonal: bool, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    design, w, penalty, start = _problem(K, diagonal)
    tolerance = 1e-12 if dtype is np.float64 else 1e-5
    ours = Design(design.x.astype(dtype), design.labels, K, diagonal)
    monkeypatch.setattr(softmax_device, "_BLOCK", 500)
    theirs = DeviceDesign(ours.x, ours.labels, K, diagonal, "cpu")
    theta = np.random.default_rng(2).standard_normal(start.shape)
    np.testing.assert_allclose(theirs.losses(theta), ours.losses(theta), rtol=tolerance, atol=tolerance)
    for own, expected in zip(theirs.value_and_gradient(theta, w), ours.value_and_gradient(theta, w), strict=True):
        np.testing.assert_allclose(own, expected, rtol=tolerance, atol=tolerance)
    if dtype is np.float64:
        np.testing.assert_allclose(
            minimise(theirs, w, penalty, start).objective, minimise(ours, w, penalty, start).objective, rtol=1e-12
        )


def test_only_large_passes_leave_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    design = _problem(3, diagonal=False)[0]
    with passes_on("cuda"):
        assert placed(design, 1) is design
        monkeypatch.setattr(softmax_device, "_LEAST", 1.0)
        passes = placed(design, 1)
        assert isinstance(passes, DeviceDesign)
        assert passes.device == "cuda"
        assert placed(passes, 1) is passes
    assert placed(design, 1) is design
