from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import dirichlet

import calibrant
from calibrant.core.errors import TooFewRows
from calibrant.core.reductions import Vector
from calibrant.measures import dirichlet as module
from calibrant.measures.dirichlet import BANDWIDTHS, Bandwidth, canonical_error
from tests.rows import draw_classes, draw_event


def _vector(n: int = 60, K: int = 3, seed: int = 0, sharper: float = 1.0) -> Vector:
    P, labels = draw_classes(n, K, seed)
    Q = P**sharper
    return Vector(Q / Q.sum(axis=1, keepdims=True), labels)


def _naive(vector: Vector, h: float) -> tuple[npt.NDArray[np.float64], float]:
    """The leave-one-out kernels, row j at the places of the others, and the log likelihood."""
    rows = vector.p / vector.p.sum(axis=1, keepdims=True)
    k = np.column_stack([dirichlet(p / h + 1.0).pdf(rows.T) for p in vector.p])
    np.fill_diagonal(k, 0.0)
    return k, float(np.log(k.sum(axis=1) / (len(vector) - 1)).sum())


@pytest.mark.parametrize("norm", [1, 2])
def test_the_error_is_its_formula(norm: int) -> None:
    vector = _vector()
    k, _ = _naive(vector, 0.1)
    u = k / k.sum(axis=1, keepdims=True)
    means = u @ np.eye(3)[vector.labels]
    error = canonical_error(vector, norm, 0.1)
    assert error.power == pytest.approx((np.abs(means - vector.p) ** norm).sum(axis=1).mean(), rel=1e-10)
    if norm == 2:
        noise = [
            sum(u[j, i] ** 2 * ((np.eye(3)[vector.labels[i]] - means[j]) ** 2).sum() for i in range(60))
            / (1.0 - (u[j] ** 2).sum())
            for j in range(60)
        ]
        assert error.debiased_power == pytest.approx(error.power - np.mean(noise), rel=1e-9)
    else:
        assert error.debiased_power is None


@pytest.mark.slow
def test_the_bandwidth_is_the_likeliest_of_the_grid_or_the_one_that_predicts_the_labels_best() -> None:
    vector = _vector()
    coarse = [h for h in BANDWIDTHS if h > 1e-3]
    likelihoods, losses = [], []
    for h in coarse:
        k, likelihood = _naive(vector, h)
        means = k / k.sum(axis=1, keepdims=True) @ np.eye(3)[vector.labels]
        likelihoods.append(likelihood)
        losses.append(((means - np.eye(3)[vector.labels]) ** 2).sum())
    assert canonical_error(vector, 1).bandwidth == coarse[int(np.argmax(likelihoods))]
    assert canonical_error(vector, 1, "cross-validated").bandwidth == coarse[int(np.argmin(losses))]


@pytest.mark.slow
def test_the_cross_validated_bandwidth_is_closer_to_the_truth_and_the_default_says_that_it_is_biased() -> None:
    logits, labels, truth = calibrant.logistic_normal(2000, n_classes=6, temperature=2.0, accuracy=0.8, seed=0)
    P = np.exp(logits - logits.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    error = float(np.sqrt(((P - truth) ** 2).sum(axis=1).mean()))
    options: list[Any] = ["kde-ce", {"name": "kde-ce", "bandwidth": "cross-validated", "as": "chosen"}]
    measures = calibrant.evaluate(P, labels, measures=options, reduction="canonical")
    assert measures["kde-ce"].value > 2.0 * error  # type: ignore[operator]
    assert "prefer the bandwidth cross-validated" in (measures["kde-ce"].problem or "")
    assert measures["chosen"].value == pytest.approx(error, rel=0.25)
    assert measures["chosen"].problem is None


@pytest.mark.parametrize("bandwidth", ["likelihood", "cross-validated", 0.05])
def test_blocks_weights_order_and_precision_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, bandwidth: Bandwidth
) -> None:
    vector = _vector(90)
    w = np.random.default_rng(1).integers(0, 4, 90)
    weighted = Vector(vector.p, vector.labels, w.astype(np.float64))
    first = canonical_error(weighted, 2, bandwidth)
    copies = Vector(np.repeat(vector.p, w, axis=0), np.repeat(vector.labels, w))
    order = np.random.default_rng(2).permutation(90)
    shuffled = Vector(vector.p[order], vector.labels[order], weighted.w[order] if weighted.w is not None else None)
    single = Vector(vector.p.astype(np.float32), vector.labels, weighted.w)
    others = [canonical_error(copies, 2, bandwidth), canonical_error(shuffled, 2, bandwidth)]
    with monkeypatch.context() as patched:
        patched.setattr(module, "_AREA", 700)
        others.append(canonical_error(weighted, 2, bandwidth))
    for other in others:
        assert (other.power, other.debiased_power) == pytest.approx((first.power, first.debiased_power), rel=1e-9)
        assert other.bandwidth == first.bandwidth
    assert canonical_error(single, 2, bandwidth).power == pytest.approx(first.power, abs=1e-5)


def test_zeros_and_absent_classes_answer() -> None:
    P = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    error = canonical_error(Vector(P, np.array([0, 1, 1, 0])), 1)
    assert 0.0 <= error.power <= 2.0


def test_one_row_alone_has_no_value_and_two_copies_of_it_have() -> None:
    bandwidths: tuple[Bandwidth, ...] = ("likelihood", "cross-validated", 0.1)
    for bandwidth in bandwidths:
        with pytest.raises(TooFewRows):
            canonical_error(Vector(np.array([[0.2, 0.8]]), np.array([1])), 2, bandwidth)
    twice = canonical_error(Vector(np.array([[0.2, 0.8]]), np.array([1]), np.array([2.0])), 1, 0.1)
    assert twice.power == pytest.approx(0.4)


def test_an_event_is_two_columns_and_the_value_is_a_root() -> None:
    p, y = draw_event(80)
    measures: list[Any] = [
        calibrant.evaluate(p, y, measures=["kde-ce"], reduction=r, interval=0.9).measures["kde-ce"]
        for r in ("binary", "canonical")
    ]
    assert measures[0].value == measures[1].value
    assert measures[0].value == pytest.approx(measures[0].parts["power"] ** 0.5)
    assert measures[0].definition["bandwidth_used"] in BANDWIDTHS
    fixed = calibrant.evaluate(p, y, measures=[{"name": "kde-ce", "bandwidth": 0.1}], interval=0.9)["kde-ce"]
    assert fixed.problem == "no interval: not defined for this measure"


@pytest.mark.slow
def test_debiasing_takes_most_of_the_noise_out_of_calibrated_predictions() -> None:
    calm = canonical_error(_vector(1500, seed=5), 2)
    sharp = canonical_error(_vector(1500, seed=5, sharper=2.5), 2)
    assert calm.debiased_power is not None
    assert sharp.debiased_power is not None
    assert abs(calm.debiased_power) < 0.25 * calm.power
    assert sharp.debiased_power > 10.0 * abs(calm.debiased_power)
