"""Passes of softmax regressions on another device, such as a GPU, through torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.core.cells import Floats
from calibrant.core.progress import check
from calibrant.maps.softmax_design import Design

_device: ContextVar[str] = ContextVar("calibrant.softmax_device", default="cpu")
#: Multiplications of one pass from which the device is used; for less, the start of its kernels takes longer.
_LEAST = 2e7
#: Scores that are computed at once.
_BLOCK = 1 << 26


@contextmanager
def passes_on(device: str) -> Iterator[None]:
    """Run large passes of softmax regressions on this device in the ``with`` block; ``cpu`` is NumPy."""
    token = _device.set(device)
    try:
        yield
    finally:
        _device.reset(token)


def placed(design: Design, fits: int) -> Design:
    """Return the design on the device of the context, or as it is for few rows."""
    device, (K, width) = _device.get(), design.shape
    if device == "cpu" or isinstance(design, DeviceDesign) or float(fits * K * width) * len(design.labels) < _LEAST:
        return design
    return DeviceDesign(design.x, design.labels, design.n_classes, design.diagonal, device)


@dataclass(frozen=True)
class DeviceDesign(Design):
    """A design whose losses and gradients are computed on a device; Hessians, of few rows, stay on the processor."""

    device: str = "cuda"

    @cached_property
    def _tensors(self) -> tuple[Any, Any]:
        import torch

        x = torch.as_tensor(np.ascontiguousarray(self.x), device=self.device)
        return x, torch.as_tensor(self.labels.astype(np.int64), device=self.device)

    def losses(self, theta: Floats) -> Floats:
        """Return the log loss of each row under each fit: ``(S, n)``."""
        parts = [(total.log() - own).double().cpu().numpy() for _, _, _, total, own in self._passes(theta)]
        return np.concatenate(parts, axis=1)

    def value_and_gradient(self, theta: Floats, w: Floats) -> tuple[Floats, Floats]:
        """Return the log loss with the weights ``w (S, n)`` of each fit, ``(S,)``, and its gradient."""
        import torch

        x, labels = self._tensors
        fits, K, width = theta.shape
        weights = torch.as_tensor(w, dtype=torch.float64, device=self.device)
        value = torch.zeros(fits, dtype=torch.float64, device=self.device)
        gradient = torch.zeros(theta.shape, dtype=torch.float64, device=self.device)
        for rows, z, residual, total, own in self._passes(theta):
            weight = weights[:, rows]
            value += (weight * (total.log() - own)).sum(dim=1)
            share = weight.to(x.dtype)
            residual *= (share / total)[:, None, :]
            at = labels[rows].expand(fits, -1)[:, None, :]
            residual.scatter_add_(1, at, -share[:, None, :])
            if self.diagonal:
                gradient[:, :, 0] += (residual * z).sum(dim=2, dtype=torch.float64)
            else:
                gradient[:, :, :-1] += (residual.reshape(fits * K, -1) @ z.T).reshape(fits, K, width - 1)
            gradient[:, :, -1] += residual.sum(dim=2, dtype=torch.float64)
        return value.cpu().numpy(), gradient.cpu().numpy()

    def _passes(self, theta: Floats) -> Iterator[tuple[slice, Any, Any, Any, Any]]:
        """Yield rows, features, exp(scores) ``(S, K, h)``, their sums, and the scores of labels, by blocks of rows."""
        import torch

        x, labels = self._tensors
        fits, K, _ = theta.shape
        coefficients = torch.as_tensor(theta, device=self.device).to(x.dtype)
        height = max(1, _BLOCK // (fits * K))
        for start in range(0, len(self.labels), height):
            check()
            rows = slice(start, start + height)
            z = x[:, rows]
            if self.diagonal:
                scores = coefficients[:, :, :1] * z
            else:
                scores = (coefficients[:, :, :-1].reshape(fits * K, -1) @ z).reshape(fits, K, -1)
            scores += coefficients[:, :, -1:]
            scores -= scores.amax(dim=1, keepdim=True)
            own = scores.gather(1, labels[rows].expand(fits, -1)[:, None, :])[:, 0]
            scores.exp_()
            yield rows, z, scores, scores.sum(dim=1), own
