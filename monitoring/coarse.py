"""An event on fewer points, for intervals: their ends need no fine grid, and their cost grows with it."""

from __future__ import annotations

import numpy as np

from calibrant.cells import Floats
from calibrant.reductions import Event

#: Blocks of equal mass.
BLOCKS = 256


def coarse(event: Event) -> Event:
    """The rows of an event that has weights, its cells gathered into at most ``BLOCKS`` of about equal mass.

    All of a block stand at its mean p, as the rows of a cell do. A cumulative difference is read at their ends, where
    it is exact: its supremum is at most what is between two of them larger, 1/256 of the rows times a gap. O(cells).
    """
    if event.w is None or len(event) <= 2 * BLOCKS:
        return event
    order = np.argsort(event.p, kind="stable")
    p, y, w = event.p[order], event.y[order], event.w[order]
    cells = np.cumsum(np.diff(p, prepend=-1.0) > 0.0) - 1
    mass = np.bincount(cells, w)
    middle = np.cumsum(mass) - mass / 2.0
    block = np.minimum(middle / mass.sum() * BLOCKS, BLOCKS - 1).astype(np.int64)[cells]
    p_mean = np.bincount(block, w * p, BLOCKS) / np.maximum(np.bincount(block, w, BLOCKS), 1.0)
    rows: Floats = np.bincount(2 * block + y, w, 2 * BLOCKS).astype(np.float64)
    there = np.flatnonzero(rows)
    return Event(p_mean[there // 2], (there % 2).astype(np.int8), rows[there], event.kind, event.decided)
