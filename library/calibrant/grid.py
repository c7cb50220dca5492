"""Rows gathered on an even grid, so that what smooths them costs as much as the grid, whatever the number of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats

Integers = npt.NDArray[np.int64]


def spread(p: Floats, values: Floats, intervals: int) -> Floats:
    """Share each row's value out among the four grid points around its p, by cubic Lagrange interpolation. O(n).

    ``p (n,)`` in [0, 1], ``values (n,)``; returns ``(intervals + 3,)``, the points -h, 0, h, ..., 1, 1 + h with
    h = 1 / intervals. For a smooth f the sum of result x f(points) is that of values x f(p) but for at most
    (3/128) h^4 max|f''''| sum|values|.
    """
    place, u = places(p, intervals)
    # Moments by interval first: four passes over the rows, and the interpolation's weights on the grid only.
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
    """The interval of [0, 1] that each p falls in, and how far into it, as a share in [0, 1]: ``(n,)`` each."""
    scaled = p * intervals
    place = np.minimum(scaled.astype(np.int64), intervals - 1)
    return place, scaled - place


def shared_by_group(position: Floats, values: Floats, group: Integers, groups: int, points: int) -> Floats:
    """Values ``(n,)`` shared out, by group, between the two grid points around each: ``(groups, points)``. O(n).

    ``position (n,)`` in [0, points - 1], in steps of the grid. Sums and first moments are kept exactly.
    """
    place = np.minimum(position.astype(np.int64), points - 2)
    upper = values * (position - place)
    key = group * points + place
    sums = np.zeros(groups * points)
    sums += np.bincount(key, values - upper, len(sums))
    sums += np.bincount(key + 1, upper, len(sums))
    return sums.reshape(groups, points)
