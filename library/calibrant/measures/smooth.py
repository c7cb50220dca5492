"""Smooth calibration errors: residuals smoothed by a Gaussian, and a ratio of kernel densities."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy

from calibrant.core.cells import Floats
from calibrant.core.density import VANISHING, densities, nearest, places, shared_by_group, spread, triweight
from calibrant.core.errors import InvalidOption, OnePrediction
from calibrant.core.options import Option
from calibrant.core.reductions import Event
from calibrant.measures.intervals import Distance, Integers, Resampling, row_scale
from calibrant.measures.measure import Measure, MeasureResult

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
    low_frequencies = np.zeros(intervals + 1)
    low_frequencies[:count] = waves[:count] * np.exp(-0.5 * (np.pi * sigma * np.arange(count)) ** 2)
    values: Floats = scipy.fft.dct(low_frequencies, type=1)
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
        off = off * row_scale(event)
        return through(shared_by_group(place + u, off, group, groups, intervals + 1))

    share = np.full(intervals + 1, 1.0 / intervals)
    share[[0, -1]] /= 2.0

    def size(v: Floats) -> Floats:
        sizes: Floats = np.abs(v) @ share
        return sizes

    return Distance(gap, noise, size)


# --- Calibration error by kernel densities: the observed frequency as a ratio of two densities


Form = Literal["integral", "pointwise"]
#: Number of points in [0, 1] for the noise of an interval.
_POINTS = 512


def kde_ece(event: Event, form: Form, norm: int) -> tuple[float, float]:
    """Return the calibration error by kernel densities, and its bandwidth; smaller is better.

    ``integral``: int |x - c(x)|^norm density(x) dx / int density(x) dx over [0, 1], with c the observed frequency.
    ``pointwise``: the mean over rows of |c(p_i) - p_i|^norm at the grid point nearest to p_i inside (0, 1). No root.
    The published pointwise code gives a row without density the value of the previous row, so that its result depends
    on the order of the rows; here it is that of the previous grid point. The kernel biases the estimate, which does not
    converge to 0 for calibrated predictions. O(n + grid log grid).
    """
    estimated = densities(event)
    if form == "integral":
        off = np.abs(estimated.x - estimated.share) ** norm
        value = np.trapezoid(off * estimated.density, estimated.x) / np.trapezoid(estimated.density, estimated.x)
        return float(value), estimated.bandwidth
    off = np.abs(estimated.share[nearest(event.p, estimated.x)] - event.p) ** norm
    return float(off.mean() if event.w is None else np.average(off, weights=event.w)), estimated.bandwidth


def kde_distance(event: Event, form: Form, norm: int) -> Distance:
    """Return (c - x) x density at 512 points in [0, 1] for a fixed bandwidth; the noise is not clipped."""
    estimated = densities(event)
    if 3.0 * estimated.bandwidth < 2.0 / _POINTS:
        raise OnePrediction("the predictions are too close to each other for the grid of the interval")
    x = (np.arange(_POINTS) + 0.5) / _POINTS
    at = nearest(x, estimated.x)
    density = estimated.density[at]
    gap = (estimated.share[at] - x) * density
    w = np.ones(len(event)) if event.w is None else event.w
    if form == "integral":
        share = density / density.sum()
    else:
        share = np.bincount(np.minimum((event.p * _POINTS).astype(np.int64), _POINTS - 1), w, _POINTS) / w.sum()
    known = density > VANISHING
    inverse = np.divide(1.0, density, out=np.zeros_like(density), where=known)

    def noise(group: Integers, groups: int) -> Floats:
        off = event.y - estimated.share[nearest(event.p, estimated.x)]
        position = np.clip(event.p * _POINTS - 0.5, 0.0, _POINTS - 1.0)
        sums = shared_by_group(position, off * row_scale(event), group, groups, _POINTS)
        kernel = sum(triweight(x - mirror[:, None], estimated.bandwidth) for mirror in (x, -x, 2.0 - x))
        deviations: Floats = sums @ kernel / w.sum()
        return deviations

    def size(u: Floats) -> Floats:
        sizes: Floats = np.abs(u * inverse) ** norm @ share
        return sizes

    return Distance(gap, noise, size)


# --- Entries of the catalogue


_FAMILY = "Smooth calibration errors"


def _fixed(bandwidth: float | str) -> float | None:
    return None if isinstance(bandwidth, str) else float(bandwidth)


def _smooth(event: Event, _: Resampling, *, bandwidth: float | str) -> MeasureResult:
    value, sigma = smooth_ece(event, _fixed(bandwidth))
    return MeasureResult(value, parts={"bandwidth": sigma})


def _kde(event: Event, _: Resampling, *, form: Form, norm: int) -> MeasureResult:
    value, bandwidth = kde_ece(event, form, norm)
    return MeasureResult(value, parts={"bandwidth": bandwidth})


MEASURES = (
    Measure(
        "smooth-ece",
        "Smooth calibration error",
        _FAMILY,
        "int |(1/n) sum_i (p_i - y_i) K_s(t, p_i)| dt over [0, 1], with K_s the Gaussian of width s reflected at 0 and "
        f"1, at the fixed point where it equals s (at least {NARROWEST:g}), or at the given bandwidth",
        "Blasiok & Nakkiran (2023)",
        0.0,
        1.0,
        "O(n + grid log grid)",
        meaning="Calibration error with kernel smoothing instead of bins.",
        event=_smooth,
        options={"bandwidth": Option("fixed-point", choices=("fixed-point",), low=NARROWEST, high=1, real=True)},
        seconds=lambda n, _classes, _options: 4e-8 * n + 5e-3,
        distance=lambda event, _, *, bandwidth: smooth_distance(event, _fixed(bandwidth)),
        is_error=True,
        resample_seconds=lambda _n, _options: 5e-5,
    ),
    Measure(
        "kde-ece",
        "Calibration error by kernel densities",
        _FAMILY,
        "int |x - c(x)|^norm density(x) dx over [0, 1], or pointwise the mean of |c(p_i) - p_i|^norm, without a root; "
        "c = min(mean y x density of positives / density, 1), both with a triweight kernel of standard deviation std(p "
        "of positives) (2n)^(-1/5), mirrored at 0 and 1. Where the density vanishes, c has its last value to the left "
        "on the grid. Smoothing biases the value: it does not tend to 0 for calibrated predictions",
        "Zhang, Kailkhura & Han (2020)",
        0.0,
        1.0,
        "O(n + grid log grid)",
        needs="positives with different predictions",
        event=_kde,
        options={"form": Option("integral", choices=("integral", "pointwise")), "norm": Option(1, choices=(1, 2))},
        seconds=lambda n, _classes, _options: 2e-7 * n + 3e-3,
        distance=lambda event, _, **options: kde_distance(event, **options),
        is_error=True,
        resample_seconds=lambda _n, _options: 2.5e-4,
    ),
)
