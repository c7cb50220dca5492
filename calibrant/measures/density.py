"""Calibration error by kernel densities: the share of positives as a ratio of two smoothed histograms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.signal import fftconvolve

from calibrant.cells import Floats
from calibrant.errors import OneClass, OnePrediction
from calibrant.measures.grid import shared_by_group
from calibrant.measures.intervals import Distance, Integers, row_scale
from calibrant.reductions import Event

Form = Literal["integral", "pointwise"]
#: The grid of the published code.
_LOW, _HIGH, _POINTS = -0.6, 1.6, 1 << 14
_STEP = (_HIGH - _LOW) / (_POINTS - 1)
_GRID = np.linspace(_LOW, _HIGH, _POINTS)
#: The first and last grid points inside (0, 1), where densities are not 0.
_INSIDE = np.flatnonzero((_GRID > 0.0) & (_GRID < 1.0))
#: Below this in both densities the share of positives is carried on from the left.
_VANISHING = 1e-6
#: Points in [0, 1] at which an interval's noise is smoothed.
_COARSE = 512


@dataclass(frozen=True)
class Densities:
    """On the grid points ``x (d,)`` inside (0, 1): the density of all predictions, and the share of positives."""

    x: Floats
    density: Floats
    share: Floats
    bandwidth: float


def densities(event: Event) -> Densities:
    """Smoothed share of positives and density of the predictions, by a triweight kernel. O(n + grid log grid).

    As Zhang, Kailkhura & Han (2020) compute them: one bandwidth for both, std(predictions of positives) (2 n)^(-1/5),
    which is the kernel's standard deviation, n all rows; predictions below 1/2 mirrored at 0 and the others at 1;
    linear binning on 2^14 points of [-0.6, 1.6]; share = min(mean label x density of positives / density, 1). Where
    both densities are at most 1e-6 it is that of the last grid point on the left where they are more. Importance
    weights count (sum w)^2 / sum w^2 rows.

    Raises ``OneClass`` without positives, ``OnePrediction`` where all of theirs are equal: no bandwidth.
    """
    w = np.ones(len(event)) if event.w is None else event.w
    wy = w * event.y
    mass, positives = float(w.sum()), float(wy.sum())
    if positives == 0.0:
        raise OneClass("the bandwidth is the spread of the positives' predictions, and there are no positives")
    mean = float(wy @ event.p) / positives
    spread = float(np.sqrt(wy @ (event.p - mean) ** 2 / positives))
    if spread <= 1e-12:
        raise OnePrediction("the bandwidth is the spread of the positives' predictions, and they are all equal")
    rows = mass if event.kind == "frequency" else mass * mass / float(w @ w)
    bandwidth = spread * (2.0 * rows) ** -0.2
    own, mirrored = (event.p - _LOW) / _STEP, (np.where(event.p < 0.5, -event.p, 2.0 - event.p) - _LOW) / _STEP
    # The support of a triweight kernel is three of its standard deviations on each side.
    steps = int(3.0 * bandwidth / _STEP)
    kernel = _triweight(_STEP * np.arange(-float(steps), steps + 1.0), bandwidth)
    one = np.zeros(len(event), dtype=np.int64)
    # Densities of the mirrored sample, twice; it holds each row twice.
    all_rows, of_positives = (
        fftconvolve(
            (shared_by_group(own, v, one, 1, _POINTS) + shared_by_group(mirrored, v, one, 1, _POINTS))[0],
            kernel,
            mode="same",
        )[_INSIDE]
        / v.sum()
        for v in (w, wy)
    )
    known = np.maximum(all_rows, of_positives) > _VANISHING
    ratio = np.divide(of_positives, all_rows, out=np.zeros_like(all_rows), where=known & (all_rows > 0.0))
    shares = np.minimum(positives / mass * ratio, 1.0)
    last_known = np.maximum.accumulate(np.where(known, np.arange(len(known)), 0))
    return Densities(_GRID[_INSIDE], all_rows, shares[last_known], bandwidth)


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
    off = np.abs(found.share[_nearest(event.p, found.x)] - event.p) ** norm
    return float(off.mean() if event.w is None else np.average(off, weights=event.w)), found.bandwidth


def _nearest(p: Floats, x: Floats) -> Integers:
    place: Integers = np.clip(np.rint((p - x[0]) / _STEP), 0, len(x) - 1).astype(np.int64)
    return place


def _triweight(distance: Floats, bandwidth: float) -> Floats:
    reach = 3.0 * bandwidth
    kernel: Floats = 35.0 / (32.0 * reach) * np.clip(1.0 - (distance / reach) ** 2, 0.0, None) ** 3
    return kernel


def kde_distance(event: Event, form: Form, norm: int) -> Distance:
    """(share - x) x density at 512 points in [0, 1], the bandwidth held fixed; noise is not cut where share is."""
    found = densities(event)
    if 3.0 * found.bandwidth < 2.0 / _COARSE:
        raise OnePrediction("the grid of an interval does not resolve predictions so close to each other")
    x = (np.arange(_COARSE) + 0.5) / _COARSE
    at = _nearest(x, found.x)
    density = found.density[at]
    gap = (found.share[at] - x) * density
    w = np.ones(len(event)) if event.w is None else event.w
    if form == "integral":
        share = density / density.sum()
    else:
        share = np.bincount(np.minimum((event.p * _COARSE).astype(np.int64), _COARSE - 1), w, _COARSE) / w.sum()
    known = density > _VANISHING
    inverse = np.divide(1.0, density, out=np.zeros_like(density), where=known)

    def noise(group: Integers, groups: int) -> Floats:
        off = event.y - found.share[_nearest(event.p, found.x)]
        position = np.clip(event.p * _COARSE - 0.5, 0.0, _COARSE - 1.0)
        sums = shared_by_group(position, off * row_scale(event.w, event.kind), group, groups, _COARSE)
        kernel = sum(_triweight(x - mirror[:, None], found.bandwidth) for mirror in (x, -x, 2.0 - x))
        deviations: Floats = sums @ kernel / w.sum()
        return deviations

    def size(u: Floats) -> Floats:
        sizes: Floats = np.abs(u * inverse) ** norm @ share
        return sizes

    return Distance(gap, noise, size)
