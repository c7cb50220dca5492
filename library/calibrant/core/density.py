"""Kernel densities of predictions on a grid, and the observed frequency as a ratio of two densities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import OneClass, OnePrediction
from calibrant.core.reductions import Event

# --- Binning of rows on an even grid, so that the cost of smoothing does not depend on the number of rows

Integers = npt.NDArray[np.int64]


def spread(p: Floats, values: Floats, intervals: int) -> Floats:
    """Distribute the value of each row over the four nearest grid points by cubic Lagrange interpolation. O(n).

    ``p (n,)`` is in [0, 1]. The result ``(intervals + 3,)`` is at the points -h, 0, h, ..., 1, 1 + h with
    h = 1 / intervals. For a smooth f, sum(result f(points)) differs from sum(values f(p)) by at most
    (3/128) h^4 max|f''''| sum|values|.
    """
    place, u = places(p, intervals)
    # Moments by interval need four passes over the rows; the interpolation weights then apply to the grid only.
    moments = []
    power = values
    for _ in range(4):
        moments.append(np.bincount(place, power, intervals))
        power = power * u
    m0, m1, m2, m3 = moments
    out = np.zeros(intervals + 3)
    out[:-3] += (-m3 + 3.0 * m2 - 2.0 * m1) / 6.0
    out[1:-2] += (m3 - 2.0 * m2 - m1 + 2.0 * m0) / 2.0
    out[2:-1] += (-m3 + m2 + 2.0 * m1) / 2.0
    out[3:] += (m3 - m1) / 6.0
    return out


def places(p: Floats, intervals: int) -> tuple[Integers, Floats]:
    """Return the interval of [0, 1] of each p, and its relative position in it, in [0, 1]: ``(n,)`` each."""
    scaled = p * intervals
    place = np.minimum(scaled.astype(np.int64), intervals - 1)
    return place, scaled - place


def shared_by_group(position: Floats, values: Floats, group: Integers, groups: int, points: int) -> Floats:
    """Distribute values ``(n,)`` over the two nearest grid points by group: ``(groups, points)``. O(n).

    ``position (n,)`` is in [0, points - 1], in steps of the grid. Sums and first moments are exact.
    """
    place = np.minimum(position.astype(np.int64), points - 2)
    upper = values * (position - place)
    key = group * points + place
    sums = np.zeros(groups * points)
    sums += np.bincount(key, values - upper, len(sums))
    sums += np.bincount(key + 1, upper, len(sums))
    return sums.reshape(groups, points)


# --- Kernel densities of predictions on a grid, and the observed frequency as a ratio of two densities

#: The grid of the published code.
_LOW, _HIGH, _POINTS = -0.6, 1.6, 1 << 14
_STEP = (_HIGH - _LOW) / (_POINTS - 1)
_GRID = np.linspace(_LOW, _HIGH, _POINTS)
#: The first and last grid points inside (0, 1), where densities are not 0.
_INSIDE = np.flatnonzero((_GRID > 0.0) & (_GRID < 1.0))
#: If both densities are below this, the observed frequency is the last one to the left.
VANISHING = 1e-6


@dataclass(frozen=True)
class Densities:
    """Density of the predictions and observed frequency (``share``) at the grid points ``x (d,)`` inside (0, 1)."""

    x: Floats
    density: Floats
    share: Floats
    bandwidth: float


def densities(event: Event) -> Densities:
    """Estimate the observed frequency and the density of the predictions with a triweight kernel.

    This follows Zhang, Kailkhura & Han (2020). The bandwidth of both densities, the standard deviation of the kernel,
    is std(predictions of positives) (2 n)^(-1/5) for n rows. Predictions below 1/2 are mirrored at 0 and the others at
    1, with linear binning on 2^14 points of [-0.6, 1.6]. The observed frequency is mean label x density of positives /
    density, clipped to [0, 1]; if both densities are at most 1e-6, it is the last one to the left. Importance weights
    count as (sum w)^2 / sum w^2 rows. O(n + grid log grid).

    Raises ``OneClass`` if there are no positives, ``OnePrediction`` if all positives have the same prediction.
    """
    w = np.ones(len(event)) if event.w is None else event.w
    rows = float(w.sum()) if event.kind == "frequency" else float(w.sum()) ** 2 / float(w @ w)
    return _densities(event.p, w, w * event.y, rows)


def densities_of_cells(cells: Cells) -> Densities:
    """Estimate ``densities`` from cells, so that rounding does not depend on the row order. O(m + grid log grid)."""
    rows = cells.mass if cells.kind == "frequency" else cells.mass**2 / float(cells.w2.sum())
    return _densities(cells.p, cells.w, cells.wy, rows)


def _densities(p: Floats, w: Floats, wy: Floats, rows: float) -> Densities:
    mass, positives = float(w.sum()), float(wy.sum())
    if positives == 0.0:
        raise OneClass.at("/labels", "contain no positives, whose predictions determine the bandwidth")
    mean = float(wy @ p) / positives
    spread = float(np.sqrt(wy @ (p - mean) ** 2 / positives))
    if spread <= 1e-12:
        raise OnePrediction.at("/predictions", "are equal for all positives, so that the bandwidth is 0")
    bandwidth = spread * (2.0 * rows) ** -0.2
    own, mirrored = (p - _LOW) / _STEP, (np.where(p < 0.5, -p, 2.0 - p) - _LOW) / _STEP
    # A triweight kernel extends three standard deviations to each side.
    steps = int(3.0 * bandwidth / _STEP)
    kernel = triweight(_STEP * np.arange(-float(steps), steps + 1.0), bandwidth)
    single_group = np.zeros(len(p), dtype=np.int64)
    # The mirrored sample contains each row twice.
    all_rows, of_positives = (
        convolved(
            (
                shared_by_group(own, v, single_group, 1, _POINTS)
                + shared_by_group(mirrored, v, single_group, 1, _POINTS)
            )[0],
            kernel,
        )[_INSIDE]
        / v.sum()
        for v in (w, wy)
    )
    known = np.maximum(all_rows, of_positives) > VANISHING
    ratio = np.divide(of_positives, all_rows, out=np.zeros_like(all_rows), where=known & (all_rows > 0.0))
    shares = np.clip(positives / mass * ratio, 0.0, 1.0)
    last_known = np.maximum.accumulate(np.where(known, np.arange(len(known)), 0))
    return Densities(_GRID[_INSIDE], all_rows, shares[last_known], bandwidth)


def convolved(values: Floats, kernel: Floats) -> Floats:
    """Convolve ``values (m,)`` with ``kernel``, bit for bit like ``scipy.signal.fftconvolve`` with ``mode="same"``.

    Importing ``scipy.signal`` would take a fifth of the start of a process.
    """
    if len(kernel) == 1:
        return values * kernel
    size = scipy.fft.next_fast_len(len(values) + len(kernel) - 1, real=True)
    start = (len(kernel) - 1) // 2
    smoothed: Floats = scipy.fft.irfft(scipy.fft.rfft(values, size) * scipy.fft.rfft(kernel, size), size)[
        start : start + len(values)
    ]
    return smoothed


def nearest(p: Floats, x: Floats) -> npt.NDArray[np.int64]:
    """Return the index of the grid point of ``x`` nearest to each of ``p (n,)``. O(n)."""
    place: npt.NDArray[np.int64] = np.clip(np.rint((p - x[0]) / _STEP), 0, len(x) - 1).astype(np.int64)
    return place


def triweight(distance: Floats, bandwidth: float) -> Floats:
    """Return the triweight kernel with standard deviation ``bandwidth`` at each distance."""
    reach = 3.0 * bandwidth
    return 35.0 / (32.0 * reach) * np.clip(1.0 - (distance / reach) ** 2, 0.0, None) ** 3
