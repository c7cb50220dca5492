"""Linear interpolation of many unsorted points: a look-up on an even grid instead of a search for each."""

from __future__ import annotations

import numpy as np

from calibrant.cells import Floats

#: Fewer points are searched one by one.
_MANY = 1 << 15
#: Intervals of the even grid.
_GRID = 1 << 16
#: Points that are worked on at once, so that they stay in the processor's cache.
_BLOCK = 1 << 14


def interpolate(x: Floats, knots: Floats, heights: Floats) -> Floats:
    """As ``np.interp``: linear between ``knots (t,)``, strictly increasing, constant outside. ``x (n,)`` is finite.

    O(n + t) where few knots share an interval of the grid, else O(n log t).
    """
    t = len(knots)
    if len(x) < _MANY or t < 2 or t > _GRID // 4:
        return np.interp(x, knots, heights)
    low, high = float(knots[0]), float(knots[-1])
    per = _GRID / (high - low)
    if not np.isfinite(per):
        return np.interp(x, knots, heights)
    place = np.minimum(((knots - low) * per).astype(np.intp), _GRID - 1)
    inside = np.bincount(place, minlength=_GRID)
    # The segment that a whole interval of the grid lies in; where a knot lies inside, the segment is searched.
    segment = np.cumsum(inside) - 1
    segment[inside > 0] = -1
    with np.errstate(over="ignore"):  # of knots next to each other, which share an interval and are searched
        slope = np.append(np.diff(heights) / np.diff(knots), 0.0)
    found = np.empty(len(x))
    for start in range(0, len(x), _BLOCK):
        part = np.minimum(np.maximum(x[start : start + _BLOCK], low), high)
        at = segment.take(((part - low) * per).astype(np.intp), mode="clip")
        values = (part - knots.take(at, mode="wrap")) * slope.take(at, mode="wrap") + heights.take(at, mode="wrap")
        searched = np.flatnonzero(at < 0)
        values[searched] = np.interp(part[searched], knots, heights)
        found[start : start + _BLOCK] = values
    return found
