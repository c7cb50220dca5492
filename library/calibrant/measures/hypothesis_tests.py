"""The smooth test of calibration."""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial.legendre import legvander

from calibrant.core.cells import Cells, Floats
from calibrant.core.options import Option
from calibrant.core.reductions import Event
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import Measure, MeasureResult

#: The most terms of the test.
MAX_TERMS = 16
#: The weight of term j is (1 + j)^-DECAY.
DECAY = 1.5
#: Below this variance of the number of events, the test rejects too often.
LEAST_VARIANCE = 10.0
#: Eigenvalues below this fraction of the largest are left out.
_LEAST = 1e-10
#: Step along the contour. The relative error is 1e-13 for the weights above, and 1e-9 for 16 equal weights.
_STEP = 0.08
#: Multiples of the largest weight below which the tail rounds to 1, and above which it rounds to 0.
_BELOW, _BEYOND = 1e-40, 1600.0
_SIN45 = math.sqrt(0.5)


def smooth_test(cells: Cells, n_terms: int) -> tuple[float, float]:
    """Return the statistic T of the smooth score test of calibration, and its p-value.

    T = sum_{j < n_terms} (1 + j)^-1.5 U_j^2 / F with U_j = sum w (y - p) phi_j(v). F is the variance
    of sum w y under calibration, v in [0, 1] its fraction up to the middle of the cell, and phi_j are the
    Legendre polynomials, orthonormal on [0, 1]. Smaller is better, 0 is best; T is unbounded.

    This is a smooth test (Neyman 1937) of y given p, with the decreasing weights of a Cramer-von Mises
    test (Eubank & LaRiccia 1992): the first term detects predictions that are too high or too low
    overall, the next ones a wrong slope or curvature. Under calibration U / sqrt(F) is asymptotically
    normal with the covariance C_jk = sum (f / F) phi_j(v) phi_k(v), f the variance of a cell, so T is
    distributed as a sum of squares weighted by the eigenvalues of D^1/2 C D^1/2, D = diag((1 + j)^-1.5). With
    importance weights, which may depend on the outcome, f is that of ``chance_variances``.

    T is infinite and the p-value 0 if an event with prediction 0 occurred, or one with prediction 1 did
    not. If F is below about 3, the normal approximation is poor, and the test rejects too often
    (docs/benchmarks/calibration-test.md). O(m n_terms^2).
    """
    impossible = (cells.p == 0.0) & (cells.wy > 0.0) | (cells.p == 1.0) & (cells.wy < cells.w)
    if impossible.any():
        return math.inf, 0.0
    variance = (cells.w if cells.kind == "frequency" else cells.w2) * cells.p * (1.0 - cells.p)
    total = float(variance.sum())
    if total == 0.0:  # every prediction is 0 or 1, and correct
        return 0.0, 1.0
    share = variance / total
    basis = _basis(np.cumsum(share) - share / 2.0, n_terms)
    decay = (1.0 + np.arange(n_terms)) ** -DECAY
    score = (cells.wy - cells.w * cells.p) @ basis
    with np.errstate(over="ignore"):  # for example a prediction of 1e-320 for an event that occurred
        statistic = float(decay @ (score / math.sqrt(total)) ** 2)
    covariance = (basis * (cells.chance / total)[:, None]).T @ basis
    root = np.sqrt(decay)
    return statistic, squares_tail(statistic, np.linalg.eigvalsh(root[:, None] * covariance * root))


def squares_tail(x: float, weights: Floats) -> float:
    """Return P(sum_r weights_r Z_r^2 > x) for independent standard normal Z_r and non-negative ``weights (k,)``.

    (1 / 2 pi i) times the integral of exp(-x s) / s prod_r (1 - 2 weights_r s)^-1/2 between the pole at
    0 and the branch points from 1 / (2 max weight) on (Rice 1980), along a hyperbola around the latter,
    on which the integrand decays doubly exponentially and equal steps converge geometrically (Weideman &
    Trefethen 2007). The vertex approaches the branch point as x grows, which keeps the relative error of
    small probabilities small. At least one weight must be positive. O(k), 40 to 700 steps.
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
    """Return the Legendre polynomials that are orthonormal on [0, 1]: ``(m, n_terms)``."""
    basis: Floats = legvander(2.0 * v - 1.0, n_terms - 1) * np.sqrt(2.0 * np.arange(n_terms) + 1.0)
    return basis


# --- Entries of the catalogue


def _compute(event: Event, _: Resampling, *, n_terms: int) -> MeasureResult:
    cells = event.cells
    statistic, p_value = smooth_test(cells, n_terms)
    if math.isfinite(statistic):
        rows = cells.w if cells.kind == "frequency" else cells.w2 * (cells.w.sum() / cells.w2.sum()) ** 2
        variance = float(rows @ (cells.p * (1.0 - cells.p)))
        few = f"approximate p-value: the variance of the number of events, {variance:.2g}, is below 10; ks is safer"
        return MeasureResult(statistic, p_value=p_value, problem=few if variance < LEAST_VARIANCE else None)
    problem = "no value: the statistic is infinite, because a prediction of (almost) 0 or 1 was wrong"
    return MeasureResult(None, p_value=p_value, problem=problem)


MEASURES = (
    Measure(
        "smooth-test",
        "Smooth test of calibration",
        "Tests",
        "sum_{j < n_terms} (1 + j)^-1.5 U_j^2 / F, with U_j = sum w (y - p) phi_j(v), phi_j the Legendre polynomials "
        "orthonormal on [0, 1], and v the fraction of the variance F = sum w p (1 - p) (importance weights: w^2) up to "
        "the middle of a tie. The p-value is from the distribution of a weighted sum of squares of normal variables",
        "Neyman (1937); Eubank & LaRiccia (1992); Rice (1980) for the distribution",
        0.0,
        None,
        "O(n log n + n n_terms^2)",
        meaning=(
            "The p-value is the probability that calibrated predictions deviate at least this much. The value has no "
            "unit."
        ),
        event=_compute,
        options={"n_terms": Option(8, high=MAX_TERMS)},
        resampled=False,
    ),
)
