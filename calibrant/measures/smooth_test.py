"""The smooth test: a p-value for "this classifier is calibrated"."""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial.legendre import legvander

from calibrant.cells import Cells, Floats

#: More terms than this are refused.
MAX_TERMS = 16
#: Term j counts (1 + j)^-DECAY.
DECAY = 1.5
#: Eigenvalues below this share of the largest add nothing to the law.
_LEAST = 1e-10
#: Step along the contour. The sum is off by a share of 1e-13 for the weights above, 1e-9 for 16 equal ones.
_STEP = 0.08
#: Below so many times the largest weight the tail rounds to 1, beyond so many to 0.
_BELOW, _BEYOND = 1e-40, 1600.0
_SIN45 = math.sqrt(0.5)


def smooth_test(cells: Cells, n_terms: int) -> tuple[float, float]:
    """Smooth score test of calibration: the statistic T and its p-value.

    T = sum_{j < n_terms} (1 + j)^-1.5 U_j^2 / F with U_j = sum w (y - p) phi_j(v). F is the variance
    of sum w y under calibration, v in [0, 1] its share up to the middle of the cell, and phi_j the
    Legendre polynomials, orthonormal on [0, 1]. Smaller is better, 0 at best; there is no upper end.

    A smooth test (Neyman 1937) of y given p, with the falling weights of a Cramer-von Mises test
    (Eubank & LaRiccia 1992): the first term sees predictions that are too high or too low overall,
    the next ones tilted or bent. Under calibration U / sqrt(F) has the covariance
    C_jk = sum (f / F) phi_j(v) phi_k(v), f the variance of a cell, and tends to a normal, so T has
    the law of a sum of squares weighted by the eigenvalues of D^1/2 C D^1/2, D = diag((1 + j)^-1.5).

    T is infinite and the p-value 0 where an event of prediction 0 happened, or one of prediction 1
    did not; other such rows change nothing. Where F is below about 3, too few events are expected for
    the normal law, and the test rejects too often (docs/calibration-test.md). O(m n_terms^2).
    """
    impossible = (cells.p == 0.0) & (cells.wy > 0.0) | (cells.p == 1.0) & (cells.wy < cells.w)
    if impossible.any():
        return math.inf, 0.0
    variance = (cells.w if cells.kind == "frequency" else cells.w2) * cells.p * (1.0 - cells.p)
    total = float(variance.sum())
    if total == 0.0:  # every prediction is 0 or 1, and right
        return 0.0, 1.0
    share = variance / total
    basis = _basis(np.cumsum(share) - share / 2.0, n_terms)
    decay = (1.0 + np.arange(n_terms)) ** -DECAY
    score = (cells.wy - cells.w * cells.p) @ basis
    with np.errstate(over="ignore"):  # a prediction of 1e-320 that came true
        statistic = float(decay @ (score / math.sqrt(total)) ** 2)
    covariance = (basis * share[:, None]).T @ basis
    root = np.sqrt(decay)
    return statistic, squares_tail(statistic, np.linalg.eigvalsh(root[:, None] * covariance * root))


def squares_tail(x: float, weights: Floats) -> float:
    """P(sum_r weights_r Z_r^2 > x) for independent standard normal Z_r; ``weights (k,)`` at least 0, not all 0.

    (1 / 2 pi i) times the integral of exp(-x s) / s prod_r (1 - 2 weights_r s)^-1/2 upwards between
    the pole at 0 and the branch points from 1 / (2 max weight) on (Rice 1980), bent around the
    latter along a hyperbola, on which the integrand dies out doubly exponentially and the sum of
    equal steps converges geometrically (Weideman & Trefethen 2007). Its vertex nears the branch point
    as x grows, which keeps small probabilities accurate relative to themselves. O(k), 40 to 700 steps.
    """
    top = float(weights.max())
    weights, x = weights[weights > _LEAST * top] / top, x / top
    if x < _BELOW or x > _BEYOND:
        return 1.0 if x < _BELOW else 0.0
    reach = min(0.5, 4.0 / x)
    end = min(math.acosh((1.0 + 40.0 / (x * reach)) / _SIN45), 60.0)
    u = np.arange(0.0, end + _STEP, _STEP)
    before = reach * (1.0 - _SIN45 * (np.cosh(u) + 1j * np.sinh(u)))  # 1 / 2 - s
    slope = reach * _SIN45 * (np.sinh(u) + 1j * np.cosh(u))
    factors = np.multiply.outer(2.0 * weights, before) + (1.0 - weights)[:, None]
    terms = np.exp(x * (before - 0.5)) / (0.5 - before) * slope * np.prod(factors**-0.5, axis=0)
    inside = _STEP / np.pi * (float(terms.imag.sum()) - float(terms[0].imag) / 2.0)
    return float(np.clip(inside, 0.0, 1.0))


def _basis(v: Floats, n_terms: int) -> Floats:
    """The Legendre polynomials that are orthonormal on [0, 1]: ``(m, n_terms)``."""
    basis: Floats = legvander(2.0 * v - 1.0, n_terms - 1) * np.sqrt(2.0 * np.arange(n_terms) + 1.0)
    return basis
