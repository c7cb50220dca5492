"""The smooth calibration error and the smooth test of calibration."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.polynomial.legendre import legvander

from calibrant.cells import Cells, Floats
from calibrant.errors import InvalidOption
from calibrant.grid import places, shared_by_group, spread
from calibrant.measures.intervals import Distance, Integers, row_scale
from calibrant.reductions import Event

# --- Smooth calibration error: residuals smoothed by a reflected Gaussian whose width equals the error

#: Intervals of the grid on which rows are binned.
_GRID = 1 << 15
#: The smallest bandwidth: narrower kernels are not resolved by the grid.
NARROWEST = 0.0005
#: exp(-(k pi sigma)^2 / 2) is below 1e-16 if k pi sigma exceeds this.
_REACH = 8.6
#: The most intervals of the grid for the noise of a confidence interval.
_COARSE = 2048


def smooth_ece(event: Event, bandwidth: float | None = None) -> tuple[float, float]:
    """Return the smooth calibration error, in [0, 1], and its bandwidth; smaller is better, 0 is best.

    smECE_sigma = int_0^1 |(1/m) sum_i w_i (p_i - y_i) K_sigma(t, p_i)| dt, with K the Gaussian reflected repeatedly at
    0 and 1 (Blasiok & Nakkiran 2023). It is non-increasing in sigma, so that there is one fixed point
    smECE_sigma = sigma, which is the default bandwidth. If the fixed point is below 0.0005, the bandwidth is 0.0005.

    The kernel is diagonal in cosines, 1 + 2 sum_k exp(-(k pi sigma)^2 / 2) cos(k pi t) cos(k pi p). Rows are binned
    once on a grid of h = 2^-15 and transformed; each sigma needs a short inverse transform. The relative error of
    binning is at most 0.14 (h / sigma)^4 times the mean |p - y|: 1.2e-7 of it at sigma 0.001, 1.2e-11 at 0.01.

    The package relplot differs: it uses ten bisection steps, so that its sigma is up to 1/1024 above the fixed point,
    the mean over an even mesh of 200 points, and linear binning. O(n + (1 / sigma) log(1 / sigma)).
    """
    waves = cosines(event)
    if bandwidth is not None:
        return _size_at(waves, bandwidth), bandwidth
    # The size is at most the fixed point above it, and at least the fixed point below it, which gives a bracket.
    low = max(_size_at(waves, 1.0), NARROWEST)
    high = _size_at(waves, low)
    if high <= low:  # constant in the bandwidth, or below the smallest bandwidth
        return high, low
    if _size_at(waves, high) >= high:  # equal up to rounding
        return high, high
    sigma = float(scipy.optimize.brentq(lambda s: _size_at(waves, s) - s, low, high, xtol=1e-13, rtol=1e-13))
    return _size_at(waves, sigma), sigma


def cosines(event: Event) -> Floats:
    """Return (1/m) sum_i w_i (p_i - y_i) cos(k pi p_i) for all k that the narrowest kernel passes. O(n)."""
    off = event.p - event.y
    mass = float(len(event))
    if event.w is not None:
        off, mass = off * event.w, float(event.w.sum())
    sums = spread(event.p, off, _GRID)
    # cos(k pi t) is even around 0 and 1, so points outside are mirrored.
    inside = sums[1:-1]
    inside[1] += sums[0]
    inside[-2] += sums[-1]
    inside[1:-1] /= 2.0
    waves: Floats = scipy.fft.dct(inside, type=1)[: int(_REACH / (np.pi * NARROWEST)) + 1] / mass
    return waves


def smoothed(waves: Floats, sigma: float, intervals: int) -> Floats:
    """Return the smoothed residual at 0, 1/intervals, ..., 1 from its cosines: ``(intervals + 1,)``."""
    count = min(len(waves), int(_REACH / (np.pi * sigma)) + 2, intervals)
    kept = np.zeros(intervals + 1)
    kept[:count] = waves[:count] * np.exp(-0.5 * (np.pi * sigma * np.arange(count)) ** 2)
    values: Floats = scipy.fft.dct(kept, type=1)
    return values


def _size_at(waves: Floats, sigma: float) -> float:
    return mean_size(smoothed(waves, sigma, 1 << max(8, int(np.ceil(np.log2(64.0 / sigma))))))


def mean_size(f: Floats) -> float:
    """Return int_0^1 |f| for smooth f with f' = 0 at 0 and 1, from values on an even grid, to fourth order.

    This is the trapezoid rule with exact integrals of the chords at sign changes, where the Euler-Maclaurin correction
    is (h^2 / 6) |f'|.
    """
    size = np.abs(f)
    total = size.sum() - 0.5 * (size[0] + size[-1])
    at = np.flatnonzero((f[:-1] < 0.0) != (f[1:] < 0.0))
    reach = size[at] + size[at + 1]
    known = reach > 0.0
    a, b, reach = size[at][known], size[at + 1][known], reach[known]
    return float(total - np.sum(a * b / reach) + reach.sum() / 6.0) / (len(f) - 1)


def smooth_distance(event: Event, bandwidth: float | None = None) -> Distance:
    """Return the smoothed residual on a grid of at most 2,048 steps, with fixed bandwidth.

    The noise is the smoothed deviation of the residuals from their smooth mean.
    """
    waves = cosines(event)
    sigma = smooth_ece(event, bandwidth)[1]
    intervals = int(2 ** np.ceil(np.log2(max(64.0, 4.0 / sigma))))
    if intervals > _COARSE:
        raise InvalidOption(f"the bandwidth of an interval must be at least {4.0 / _COARSE:g}")
    gap = smoothed(waves, sigma, intervals)
    mass = float(len(event)) if event.w is None else float(event.w.sum())
    kernel = np.exp(-0.5 * (np.pi * sigma * np.arange(intervals + 1)) ** 2)

    def through(sums: Floats) -> Floats:
        halved = sums.copy()
        halved[..., 1:-1] /= 2.0
        out: Floats = scipy.fft.dct(scipy.fft.dct(halved, type=1, axis=-1) * kernel, type=1, axis=-1) / mass
        return out

    def noise(group: Integers, groups: int) -> Floats:
        place, u = places(event.p, intervals)
        w = np.ones(len(event)) if event.w is None else event.w
        density = through(shared_by_group(place + u, w, np.zeros_like(place), 1, intervals + 1))[0]
        local = gap / np.maximum(density, 1e-12 * density.max())
        off = event.p - event.y - (local[place] * (1.0 - u) + local[place + 1] * u)
        off = off * row_scale(event.w, event.kind)
        return through(shared_by_group(place + u, off, group, groups, intervals + 1))

    share = np.full(intervals + 1, 1.0 / intervals)
    share[[0, -1]] /= 2.0

    def size(v: Floats) -> Floats:
        found: Floats = np.abs(v) @ share
        return found

    return Distance(gap, noise, size)


# --- The smooth test of calibration

#: The most terms of the test.
MAX_TERMS = 16
#: The weight of term j is (1 + j)^-DECAY.
DECAY = 1.5
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
    distributed as a sum of squares weighted by the eigenvalues of D^1/2 C D^1/2, D = diag((1 + j)^-1.5).

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
    covariance = (basis * share[:, None]).T @ basis
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
