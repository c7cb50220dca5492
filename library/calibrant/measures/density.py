"""Calibration error by kernel densities: the observed frequency as a ratio of two densities."""

from __future__ import annotations

from typing import Literal

import numpy as np

from calibrant.cells import Floats
from calibrant.density import VANISHING, densities, nearest, triweight
from calibrant.errors import OnePrediction
from calibrant.grid import shared_by_group
from calibrant.measures.intervals import Distance, Integers, row_scale
from calibrant.reductions import Event

Form = Literal["integral", "pointwise"]
#: Number of points in [0, 1] for the noise of an interval.
_COARSE = 512


def kde_ece(event: Event, form: Form, norm: int) -> tuple[float, float]:
    """Return the calibration error by kernel densities, and its bandwidth; smaller is better.

    ``integral``: int |x - c(x)|^norm density(x) dx / int density(x) dx over [0, 1], with c the observed frequency.
    ``pointwise``: the mean over rows of |c(p_i) - p_i|^norm at the grid point nearest to p_i inside (0, 1). No root.
    The published pointwise code gives a row without density the value of the previous row, so that its result depends
    on the order of the rows; here it is that of the previous grid point. The kernel biases the estimate, which does not
    converge to 0 for calibrated predictions. O(n + grid log grid).
    """
    found = densities(event)
    if form == "integral":
        off = np.abs(found.x - found.share) ** norm
        value = np.trapezoid(off * found.density, found.x) / np.trapezoid(found.density, found.x)
        return float(value), found.bandwidth
    off = np.abs(found.share[nearest(event.p, found.x)] - event.p) ** norm
    return float(off.mean() if event.w is None else np.average(off, weights=event.w)), found.bandwidth


def kde_distance(event: Event, form: Form, norm: int) -> Distance:
    """Return (c - x) x density at 512 points in [0, 1] for a fixed bandwidth; the noise is not clipped."""
    found = densities(event)
    if 3.0 * found.bandwidth < 2.0 / _COARSE:
        raise OnePrediction("the predictions are too close to each other for the grid of the interval")
    x = (np.arange(_COARSE) + 0.5) / _COARSE
    at = nearest(x, found.x)
    density = found.density[at]
    gap = (found.share[at] - x) * density
    w = np.ones(len(event)) if event.w is None else event.w
    if form == "integral":
        share = density / density.sum()
    else:
        share = np.bincount(np.minimum((event.p * _COARSE).astype(np.int64), _COARSE - 1), w, _COARSE) / w.sum()
    known = density > VANISHING
    inverse = np.divide(1.0, density, out=np.zeros_like(density), where=known)

    def noise(group: Integers, groups: int) -> Floats:
        off = event.y - found.share[nearest(event.p, found.x)]
        position = np.clip(event.p * _COARSE - 0.5, 0.0, _COARSE - 1.0)
        sums = shared_by_group(position, off * row_scale(event.w, event.kind), group, groups, _COARSE)
        kernel = sum(triweight(x - mirror[:, None], found.bandwidth) for mirror in (x, -x, 2.0 - x))
        deviations: Floats = sums @ kernel / w.sum()
        return deviations

    def size(u: Floats) -> Floats:
        sizes: Floats = np.abs(u * inverse) ** norm @ share
        return sizes

    return Distance(gap, noise, size)
