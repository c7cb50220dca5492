"""Calibration error by kernel densities: the share of positives as a ratio of two smoothed histograms."""

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
#: Points in [0, 1] at which an interval's noise is smoothed.
_COARSE = 512


def kde_ece(event: Event, form: Form, norm: int) -> tuple[float, float]:
    """Calibration error by kernel densities, and its bandwidth; smaller is better, 0 at best.

    ``integral``: int |x - share(x)|^norm density(x) dx / int density(x) dx over [0, 1]. ``pointwise``: the mean over
    rows of |share(p_i) - p_i|^norm at the grid point nearest to p_i among those inside (0, 1). No root. The published
    point-wise code lets a row for which there is no density take the share of the row before it, so that its answer
    depends on the order of the rows: here that is the business of the grid. The kernel widens and biases: calibrated
    predictions do not show 0 even without end. O(n + grid log grid).
    """
    found = densities(event)
    if form == "integral":
        off = np.abs(found.x - found.share) ** norm
        value = np.trapezoid(off * found.density, found.x) / np.trapezoid(found.density, found.x)
        return float(value), found.bandwidth
    off = np.abs(found.share[nearest(event.p, found.x)] - event.p) ** norm
    return float(off.mean() if event.w is None else np.average(off, weights=event.w)), found.bandwidth


def kde_distance(event: Event, form: Form, norm: int) -> Distance:
    """(share - x) x density at 512 points in [0, 1], the bandwidth held fixed; noise is not cut where share is."""
    found = densities(event)
    if 3.0 * found.bandwidth < 2.0 / _COARSE:
        raise OnePrediction("the grid of an interval does not resolve predictions so close to each other")
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
