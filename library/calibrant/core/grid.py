"""Binning of rows on an even grid, so that the cost of smoothing does not depend on the number of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.core.cells import Floats

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
