"""Rows of softmax regressions: their log loss, its gradient and its curvature under many fits at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import OutOfRange
from calibrant.core.progress import check

#: Scores that are computed at once, so that they fit in the processor cache.
_BLOCK = 1 << 17


@dataclass(frozen=True)
class Design:
    """Rows of softmax regressions: features ``x (d, n)``, one column per row, and ``labels (n,)`` of K classes.

    The scores are W x + b, or with ``diagonal`` diag(v) x + b, which needs d = K. Parameters are ``(S, K, d + 1)`` for
    S fits, or ``(S, K, 2)``, with the intercepts last. Features are float64, or float32 for fast passes over many
    rows; sums over rows are float64.
    """

    x: Floats
    labels: Integers
    n_classes: int
    diagonal: bool = False

    def __post_init__(self) -> None:
        if not np.isfinite(self.x.max(initial=0.0)) or not np.isfinite(self.x.min(initial=0.0)):
            raise OutOfRange("logits are too far apart")

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the parameters of one fit."""
        return self.n_classes, (1 if self.diagonal else len(self.x)) + 1

    def rows(self, chosen: slice | Integers) -> Design:
        """Return only these rows."""
        return Design(self.x[:, chosen], self.labels[chosen], self.n_classes, self.diagonal)

    def blocks(self, fits: int = 1) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of rows with their features."""
        height = max(1, _BLOCK // (fits * self.n_classes))
        for start in range(0, len(self.labels), height):
            check()
            rows = slice(start, start + height)
            yield rows, self.x[:, rows]

    def scores(self, x: Floats, theta: Floats) -> Floats:
        """Return the scores ``(S, K, h)`` of a block of features."""
        fits, K, _ = theta.shape
        theta = theta.astype(x.dtype)
        if self.diagonal:
            scores = theta[:, :, :1] * x
        else:
            scores = (theta[:, :, :-1].reshape(fits * K, -1) @ x).reshape(fits, K, -1)
        scores += theta[:, :, -1:]
        return scores

    def exponentials(self, x: Floats, labels: Integers, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return exp(scores) ``(S, K, h)`` with the largest one 1, their sums, and the scores of labels, ``(S, h)``."""
        exponentials = self.scores(x, theta)
        exponentials -= exponentials.max(axis=1, keepdims=True)
        own = exponentials[:, labels, np.arange(len(labels))]
        np.exp(exponentials, out=exponentials)
        return exponentials, exponentials.sum(axis=1), own

    def losses(self, theta: Floats) -> Floats:
        """Return the log loss of each row under each fit: ``(S, n)``."""
        losses = np.empty((len(theta), len(self.labels)))
        for rows, x in self.blocks(len(theta)):
            _, total, own = self.exponentials(x, self.labels[rows], theta)
            losses[:, rows] = np.log(total) - own
        return losses

    def value_and_gradient(self, theta: Floats, w: Floats) -> tuple[Floats, Floats]:
        """Return the log loss with the weights ``w (S, n)`` of each fit, ``(S,)``, and its gradient."""
        fits, K, width = theta.shape
        value, gradient = np.zeros(fits), np.zeros(theta.shape)
        for rows, x in self.blocks(fits):
            labels, weights = self.labels[rows], w[:, rows]
            residual, total, own = self.exponentials(x, labels, theta)
            value += np.einsum("sn,sn->s", weights, np.log(total) - own, dtype=np.float64)
            residual *= (weights / total).astype(x.dtype)[:, None, :]
            residual[:, labels, np.arange(len(labels))] -= weights.astype(x.dtype)
            if self.diagonal:
                gradient[:, :, 0] += np.einsum("skh,kh->sk", residual, x)
            else:
                gradient[:, :, :-1] += (residual.reshape(fits * K, -1) @ x.T).reshape(fits, K, width - 1)
            gradient[:, :, -1] += residual.sum(axis=2)
        return value, gradient

    def hessian(self, theta: Floats, w: Floats) -> Floats:
        """Return the Hessian ``(P, P)`` of one fit with parameters ``theta (K, d + 1)`` and weights ``w (n,)``."""
        K, width = theta.shape
        hessian = np.zeros((K * width, K * width))
        own = np.zeros((K, width, width))
        for rows, x in self.blocks(width):
            p, total, _ = self.exponentials(x, self.labels[rows], theta[None])
            p = (p[0] / total).astype(np.float64)
            root = np.sqrt(w[rows])
            z = np.concatenate([x, np.ones((1, x.shape[1]))]).astype(np.float64)
            outer = np.stack([p * x, p], axis=1) * root if self.diagonal else p[:, None, :] * (z * root)
            flat = outer.reshape(K * width, -1)
            hessian -= flat @ flat.T
            p *= w[rows]
            for k in range(K):
                used = np.stack([x[k], np.ones(x.shape[1])]) if self.diagonal else z
                own[k] += (used * p[k]) @ used.T
        for k in range(K):
            hessian[k * width : (k + 1) * width, k * width : (k + 1) * width] += own[k]
        return hessian

    def factors(self, theta: Floats, w: Floats) -> tuple[Floats, Floats]:
        """Return A ``(K, K)`` and B ``(d + 1, d + 1)`` whose Kronecker product approximates the Hessian."""
        A, B, mass = np.zeros((self.n_classes, self.n_classes)), 0.0, 0.0
        for rows, x in self.blocks():
            p, total, _ = self.exponentials(x, self.labels[rows], theta[None])
            p = (p[0] / total).astype(np.float64)
            weights = w[rows]
            A += np.diag(p @ weights) - (p * weights) @ p.T
            spread = weights * (1.0 - np.einsum("kh,kh->h", p, p))
            z = np.concatenate([x, np.ones((1, x.shape[1]))]).astype(np.float64)
            B = B + (z * spread) @ z.T
            mass += float(spread.sum())
        return A, np.asarray(B) / max(mass, 1e-300)
