"""Batches of penalised logistic regressions: their modes and the curvature at the modes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import expit

from calibrant.core.cells import Floats
from calibrant.core.errors import NotConverged

MAX_STEPS = 40
#: The largest change of a logit in one step.
_LONGEST_STEP = 4.0
#: Converged if no logit changes by more than this in a step.
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Modes:
    """S fits: ``theta (S, D)``, the Hessians of the penalised loss ``(S, D, D)``, and log likelihoods ``(S,)``."""

    theta: Floats
    precision: Floats
    log_likelihood: Floats


class Regressors(Protocol):
    """D features of C rows, of which products are computed without the matrix ``X (C, D)``."""

    def values(self, theta: Floats) -> Floats:
        """Return ``theta X^T``: the logits ``(S, C)`` of the parameters ``theta (S, D)``."""

    def sums(self, weights: Floats) -> Floats:
        """Return ``weights X``, of weights ``(S, C)`` of the rows."""

    def gram(self, weights: Floats) -> Floats:
        """Return ``X^T diag(weights[s]) X`` for each s: ``(S, D, D)``."""


class _Matrix:
    """Features in a matrix ``(C, D)``; ``gram`` takes O(C D^2) memory."""

    def __init__(self, features: Floats) -> None:
        self._features = features

    @cached_property
    def _outer(self) -> Floats:
        x = self._features
        return (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)

    def values(self, theta: Floats) -> Floats:
        return theta @ self._features.T

    def sums(self, weights: Floats) -> Floats:
        return weights @ self._features

    def gram(self, weights: Floats) -> Floats:
        size = self._features.shape[1]
        return product(weights, self._outer).reshape(-1, size, size)


#: Multiplications from which OpenBLAS starts threads for a product, and from which they save time.
_THREADED, _WORTH_THREADS = 1 << 18, 1 << 24


def product(a: Floats, b: Floats) -> Floats:
    """Return ``a (S, C) @ b (C, N)``, in parts so small that no threads start for them.

    At moderate sizes the start of threads takes longer than the product: milliseconds if another process needs the
    cores. Large products, and those of which a single row starts threads, are computed at once.
    """
    rows = _THREADED // b.size
    if rows < 2 or rows >= len(a) or len(a) * b.size >= _WORTH_THREADS:
        return a @ b
    products: Floats = np.empty((len(a), b.shape[1]))
    for first in range(0, len(a), rows):
        products[first : first + rows] = a[first : first + rows] @ b
    return products


def gradient_of(
    features: Floats | Regressors, offset: Floats, w: Floats, wy: Floats, variance: Floats, theta: Floats
) -> Floats:
    """Return the gradient ``(S, D)`` of the objective of ``fit_logistic`` at ``theta (S, D)``."""
    x = _Matrix(features) if isinstance(features, np.ndarray) else features
    return x.sums(wy - w * expit(offset + x.values(theta))) - theta / variance


def fit_logistic(
    features: Floats | Regressors,
    offset: Floats,
    w: Floats,
    wy: Floats,
    variance: Floats,
    *,
    start: Floats | None = None,
    steps: int = MAX_STEPS,
) -> Modes:
    """Maximise sum_c [wy f - w log(1 + e^f)] - theta^2 / (2 variance) over f = offset + features theta.

    ``features``, such as a matrix ``(C, D)``, and ``offset (C,)`` are shared; ``w`` and ``wy`` are ``(C,)`` or
    ``(S, C)``, and ``variance (S, D)`` is that of the prior. Newton's method with step halving, from ``start (S, D)``
    or 0; O(S C D^2) per step with a matrix. Raises ``NotConverged`` if a Hessian is singular.
    """
    lines, size = variance.shape
    theta, diagonal = np.zeros((lines, size)) if start is None else start, np.arange(size)
    x = _Matrix(features) if isinstance(features, np.ndarray) else features

    def at(values: Floats) -> tuple[Floats, Floats]:
        f = offset + x.values(values)
        return f, (wy * f - w * np.logaddexp(0.0, f)).sum(axis=1)

    f, likelihood = at(theta)
    for _ in range(steps):
        c = expit(f)
        precision = x.gram(w * c * (1.0 - c))
        precision[:, diagonal, diagonal] += 1.0 / variance
        gradient = x.sums(wy - w * c) - theta / variance
        try:
            step = np.linalg.solve(precision, gradient[:, :, None])[:, :, 0].astype(np.float64, copy=False)
        except np.linalg.LinAlgError as error:
            raise NotConverged("the fit did not converge: the Hessian of the log loss is singular") from error
        reach = np.abs(x.values(step)).max(axis=1)
        scale = np.minimum(1.0, _LONGEST_STEP / np.maximum(reach, 1e-300))
        before = likelihood - (theta * theta / variance).sum(axis=1) / 2
        for _ in range(20):
            trial = theta + scale[:, None] * step
            f, likelihood = at(trial)
            worse = likelihood - (trial * trial / variance).sum(axis=1) / 2 < before - 1e-9 * np.abs(before)
            if not worse.any():
                break
            scale = np.where(worse, scale / 2, scale)
        theta = trial
        if (scale * reach).max() < _TOLERANCE:
            break
    return Modes(theta, precision, likelihood)
