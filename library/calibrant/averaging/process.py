"""A Gaussian process on the logit scale, by Laplace's method, averaged over its hyperparameters by evidence.

logit c(p) = logit p + a + b z + t s(z) + tau g(u), with z = logit p clipped to +-6, s(z) = logit p - z, and g a
Matern-5/2 process over u = (2/pi) asin sqrt p, expanded in cosines (Solin & Sarkka 2020). The identity is a separate
hypothesis.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from calibrant.core.cells import Floats
from calibrant.core.logistic import Modes, fit_logistic, product
from calibrant.maps.curves import CurvePlaces, Predicted, logit_of, logit_of_mixture
from calibrant.maps.piecewise_linear import PL3_CLIP
from calibrant.piecewise.folds import FoldCells

#: Prior standard deviations of a, and of b and t; combined with each amplitude and length of g, and without g.
_LINES = ((0.3, 0.2), (1.0, 0.6), (5.0, 4.0))
_AMPLITUDES = (0.2, 0.5, 1.2)
_LENGTHS = (0.15, 0.4, 1.2)
#: Prior odds of the identity against all other hypotheses.
IDENTITY_ODDS = 0.2
_COSINES = 16
_CELLS = 128
_MIDDLE = 6.0
#: Beyond this distance from the middle, the slope of a curve is that of the identity; squares must not overflow.
_FARTHEST = 1e6
#: Hypotheses with less weight than this are not part of the mean map.
_LEAST_SHARE = 1e-4
#: Hypotheses with less weight than this are not drawn from.
_LEAST_WEIGHT = 2e-3


def hypotheses() -> Floats:
    """Return the prior variances of the coefficients under each hypothesis: ``(S, D)``."""
    frequency = np.pi * np.arange(1, _COSINES + 1)
    rows = []
    for constant, slope in _LINES:
        line = [constant**2, slope**2, slope**2]
        rows.append([*line, *np.full(_COSINES, 1e-12)])
        for amplitude, length in itertools.product(_AMPLITUDES, _LENGTHS):
            density = (1.0 + (frequency * length) ** 2 / 5.0) ** -3  # Matern-5/2, up to a factor
            rows.append([*line, *(amplitude**2 * density / density.sum() + 1e-12)])
    return np.array(rows)


def features(of: Predicted) -> tuple[Floats, Floats]:
    """Return the features ``(n, D)`` of predictions, and the logits to which they are added."""
    p, logits = of.p, logit_of(of, PL3_CLIP)
    middle = np.clip(logits, -_MIDDLE, _MIDDLE)
    u = 2.0 / np.pi * np.arcsin(np.sqrt(p))
    waves = np.sqrt(2.0) * np.cos(np.pi * np.outer(u, np.arange(1, _COSINES + 1)))
    tails = np.clip(logits - middle, -_FARTHEST, _FARTHEST)
    return np.column_stack([np.ones_like(p), middle, tails, waves]), logits


@dataclass(frozen=True)
class Posterior:
    """Posterior of the map: cells ``p``, ``w``, ``wy (C,)``, the modes, and the weights of the hypotheses.

    ``weights (S,)`` sum to 1, conditional on the map not being the identity, which has probability ``identity``.
    ``logit (C,)`` are the logits of p, if logits were given.
    """

    p: Floats
    w: Floats
    wy: Floats
    modes: Modes
    weights: Floats
    identity: float
    logit: Floats | None = None

    def mean(self, p: Floats) -> Floats:
        """Return the mean map at ``p (n,)`` over the hypotheses and the identity. O(S n D)."""
        averaged: Floats = expit(self.log_odds(CurvePlaces(p)))
        return averaged

    def log_odds(self, of: Predicted) -> Floats:
        """Return the logit of the mean map at predictions ``(n,)``. O(S n D)."""
        away, logits = self._curves(of)
        weights = np.append((1.0 - self.identity) * self._shares, self.identity)
        return logit_of_mixture(weights, np.vstack([away, logits]))

    def away(self, p: Floats) -> Floats:
        """Return the mean map at ``p (n,)``, conditional on not being the identity. O(S n D)."""
        averaged: Floats = self._shares @ expit(self._curves(CurvePlaces(p))[0])
        return averaged

    @property
    def _shares(self) -> Floats:
        large: Floats = self.weights[self.weights > _LEAST_SHARE]
        return large / float(large.sum())

    def _curves(self, of: Predicted) -> tuple[Floats, Floats]:
        basis, logits = features(of)
        return logits + product(self.modes.theta[self.weights > _LEAST_SHARE], basis.T), logits

    @cached_property
    def _draws(self) -> tuple[Floats, Floats]:
        random = np.random.default_rng(0)
        basis, logits = features(self)
        variance = hypotheses()
        curves, weights = [], []
        for s in np.flatnonzero(self.weights > _LEAST_WEIGHT):
            factor = np.linalg.cholesky(self.modes.precision[s])
            noise = random.standard_normal((len(factor), _DRAWS))
            theta = self.modes.theta[s][:, None] + np.linalg.solve(factor.T, noise)
            f = logits[:, None] + basis @ theta
            exact = (self.wy[:, None] * f - self.w[:, None] * np.logaddexp(0.0, f)).sum(axis=0)
            log_ratio = exact - (theta**2 / variance[s][:, None] - noise**2).sum(axis=0) / 2
            ratio = np.exp(log_ratio - log_ratio.max())
            curves.append(expit(f).T)
            weights.append(self.weights[s] * ratio / ratio.sum())
        joined = np.concatenate(weights)
        return np.vstack(curves), joined / joined.sum()

    def draws(self) -> tuple[Floats, Floats]:
        """Draw curves at the cells from the posterior, conditional on not being the identity; return their weights.

        ``(draws, C)`` and ``(draws,)``; the same at each call. Draws from the Laplace approximation have
        importance weights, since the posterior is far from normal for separable labels.
        """
        return self._draws


#: Number of draws for each hypothesis.
_DRAWS = 100


def held_out_maps(process: Posterior, cells: FoldCells) -> tuple[FoldCells, Callable[[Predicted], Floats]]:
    """Return coarse cells, and the mean maps outside each fold: log-odds ``(folds, n)`` of n predictions.

    The modes of each fold are two Newton steps from those of all rows; the weights of hypotheses are fixed.
    """
    coarse = cells.coarse(_CELLS)
    basis, logits = features(coarse)
    used = np.flatnonzero(process.weights > 0.01)
    share = process.weights[used] / process.weights[used].sum()
    folds = coarse.n_folds
    w, wy = (np.repeat(part[:-1], len(used), axis=0) for part in coarse.training())
    variance = np.tile(hypotheses()[used], (folds, 1))
    start = np.tile(process.modes.theta[used], (folds, 1))
    theta = fit_logistic(basis, logits, w, wy, variance, start=start, steps=2).theta

    def maps(of: Predicted) -> Floats:
        basis, logits = features(of)
        away = (logits + product(theta, basis.T)).reshape(folds, len(used), -1)
        weights = np.append((1.0 - process.identity) * share, process.identity)
        return np.array([logit_of_mixture(weights, np.vstack([curves, logits])) for curves in away])

    return coarse, maps


def fit_process(cells: FoldCells) -> Posterior:
    """Fit to rows reduced to cells. O(cells) plus a fixed cost of about 10 ms."""
    coarse = cells.coarse(_CELLS)
    p, w, wy = coarse.p, coarse.w.sum(axis=0), coarse.wy.sum(axis=0)
    basis, logits = features(coarse)
    variance = hypotheses()
    modes = fit_logistic(basis, logits, w, wy, variance)
    scale = np.sqrt(variance)
    determinant = np.linalg.slogdet(modes.precision * scale[:, :, None] * scale[:, None, :])[1]
    evidence = modes.log_likelihood - (modes.theta**2 / variance).sum(axis=1) / 2 - determinant / 2
    weights = np.exp(evidence - evidence.max())
    against = evidence.max() + np.log(weights.mean())
    as_is = float(wy @ logits - w @ np.logaddexp(0.0, logits)) + np.log(IDENTITY_ODDS)
    return Posterior(p, w, wy, modes, weights / weights.sum(), float(expit(as_is - against)), coarse.logit)
