"""Fits on a GPU agree with those on the processor. Skipped where torch finds no CUDA device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import calibrant
from calibrant.maps import softmax_device
from calibrant.maps.softmax_design import Design
from calibrant.maps.softmax_device import DeviceDesign
from tests.rows import draw_distorted

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")

VECTOR_METHODS = ("matrix-odir", "dirichlet-l2", "dirichlet-odir", "sms", "multinomial", "averaged")


@pytest.fixture(autouse=True)
def every_pass_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax_device, "_LEAST", 1.0)


def _vectors(n: int, K: int, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    z = 2.0 * random.standard_normal((n, K))
    p = np.exp(0.6 * z + 0.2 * random.standard_normal(K))
    labels = (p.cumsum(axis=1) > random.random((n, 1)) * p.sum(axis=1, keepdims=True)).argmax(axis=1)
    return z, labels


def _events(n: int) -> tuple[Any, Any]:
    return draw_distorted(n, 1, 1.3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("block", [1_000, 1 << 26])
def test_passes_on_the_device_agree_with_numpy(
    dtype: Any, diagonal: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax_device, "_BLOCK", block)
    z, labels = _vectors(3_000, 7)
    ours = Design(z.T.astype(dtype), labels, 7, diagonal)
    theirs = DeviceDesign(ours.x, ours.labels, 7, diagonal, "cuda")
    random = np.random.default_rng(2)
    theta, w = random.standard_normal((3, *ours.shape)), random.random((3, 3_000))
    tolerance = 1e-12 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(theirs.losses(theta), ours.losses(theta), rtol=tolerance, atol=tolerance)
    for ours_part, expected in zip(theirs.value_and_gradient(theta, w), ours.value_and_gradient(theta, w), strict=True):
        np.testing.assert_allclose(ours_part, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("method", VECTOR_METHODS)
def test_maps_of_vectors_agree(method: str) -> None:
    z, labels = _vectors(2_000, 5)
    ours, theirs = (calibrant.fit(method, z, labels, scale="logit", device=device) for device in ("cpu", "cuda"))
    fresh, _ = _vectors(1_000, 5, seed=3)
    np.testing.assert_allclose(theirs.apply(fresh), ours.apply(fresh), atol=1e-5)


#: The members of ``averaged`` end at slightly different parameters, where the loss is flat.
@pytest.mark.parametrize(("method", "tolerance"), [("pl", 1e-6), ("pl3", 1e-6), ("averaged", 2e-5)])
def test_maps_of_events_agree(method: str, tolerance: float) -> None:
    p, y = _events(4_000)
    ours, theirs = (calibrant.fit(method, p, y, device=device) for device in ("cpu", "cuda"))
    grid = np.linspace(0.0, 1.0, 501)
    np.testing.assert_allclose(theirs.apply(grid), ours.apply(grid), atol=tolerance)


@pytest.mark.parametrize("method", ["sms", "averaged"])
def test_a_fit_on_the_device_is_repeatable(method: str) -> None:
    z, labels = _vectors(2_000, 5)
    first, second = (calibrant.fit(method, z, labels, scale="logit", device="cuda:0") for _ in range(2))
    np.testing.assert_array_equal(first.apply(z), second.apply(z))
