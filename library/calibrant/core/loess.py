"""Local quadratic regression on one variable, with the fits and the interpolation of R's ``loess``."""

from __future__ import annotations

import numpy as np

from calibrant.core.cells import Floats

#: The share of the rows that a local fit uses, and the share of those that a cell between two vertices holds.
SPAN, _CELL = 0.75, 0.2
#: The box of the vertices is wider than the predictions by this share at either end.
_MARGIN = 0.005
#: Distances below this share of the farthest have weight 1, and those above the other share weight 0.
_NEAR, _FAR = 0.001, 0.999
#: Singular values below this share of the largest are left out.
_RANK = 1e-10


def local_fits(x: Floats, rows: Floats, w: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Return the values and the slopes of local fits as linear maps of the mean outcomes of ``x``: both ``(m, n)``.

    Each fit at ``at (m,)`` is a quadratic polynomial by least squares, with tricube weights on the nearest ``SPAN`` of
    the rows, times ``w (n,)``; ``rows (n,)`` is the number of rows with each ``x (n,)``. O(m n log n).
    """
    nearest = max(int(float(rows.sum()) * SPAN + 1e-5), 1)
    values, slopes = np.empty((len(at), len(x))), np.empty((len(at), len(x)))
    for i, place in enumerate(at):
        away = x - place
        distance = np.abs(away)
        order = np.argsort(distance, kind="stable")
        farthest = float(distance[order[np.searchsorted(np.cumsum(rows[order]), nearest)]])
        share = np.minimum(distance / max(farthest, 1e-150), 1.0)
        root = np.sqrt(w * np.where(share < _FAR, np.where(share > _NEAR, (1.0 - share**3) ** 3, 1.0), 0.0))
        features = np.column_stack([root, root * away, root * away**2])
        size = np.maximum(np.linalg.norm(features, axis=0), 1e-150)
        inverse = np.linalg.pinv(features / size, rcond=_RANK) / size[:, None] * root
        values[i], slopes[i] = inverse[0], inverse[1]
    return values, slopes


def vertices(x: Floats, rows: Floats) -> Floats:
    """Return where R's default fits locally, ascending: the cells between them hold few rows of ascending ``x (n,)``.

    ``rows (n,)`` is the number of rows with each x. O(cells log n).
    """
    ends = np.cumsum(rows)
    count = float(ends[-1])
    most = np.floor(count * SPAN * _CELL)
    margin = _MARGIN * max(x[-1] - x[0], 1e-10 * max(abs(x[0]), abs(x[-1])) + 1e-30)
    box = float(x[0] - margin), float(x[-1] + margin)
    places, cells = list(box), [(0.0, count - 1.0, *box)]
    while cells:
        first, last, low, high = cells.pop()
        if last - first + 1.0 <= most:
            continue
        row = _cut(ends, first, last)
        place = float(x[np.searchsorted(ends, row, side="right")])
        if place not in (low, high):
            places.append(place)
            cells += [(first, row, low, place), (row + 1.0, last, place, high)]
    return np.unique(places)


def _cut(ends: Floats, first: float, last: float) -> float:
    """Return the last row of the lower half: the median, or the nearest row whose successor has another x."""
    middle = np.floor((first + last) / 2.0)
    cell = int(np.searchsorted(ends, middle, side="right"))
    up, down = ends[cell] - 1.0 - middle, middle - (ends[cell - 1] - 1.0) if cell else np.inf
    # Rows are tried alternately above and below, until one of them is outside.
    nearest, outside = min((up, 0), (down, 1)), min((last - middle, 0), (middle - first + 1.0, 1))
    if nearest >= outside:
        return float(middle)
    return float(middle - down if nearest[1] else middle + up)


def blended(places: Floats, at: Floats) -> Floats:
    """Return cubic interpolation at ``at (m,)`` as a linear map of values and slopes at V vertices: ``(m, 2 V)``."""
    low = np.clip(np.searchsorted(places, at) - 1, 0, len(places) - 2)
    width = places[low + 1] - places[low]
    u = (at - places[low]) / width
    weights, row, count = np.zeros((len(at), 2 * len(places))), np.arange(len(at)), len(places)
    weights[row, low] = (1.0 - u) ** 2 * (1.0 + 2.0 * u)
    weights[row, low + 1] = u**2 * (3.0 - 2.0 * u)
    weights[row, count + low] = width * u * (1.0 - u) ** 2
    weights[row, count + low + 1] = -width * u**2 * (1.0 - u)
    return weights
