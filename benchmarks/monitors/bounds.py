"""Bounds of measures of the rows, from their tally.

A tally does not store the position of a row in its cell, which is one of 2,048 and at most 7.7e-4 wide. The bounds are
deterministic: they hold, up to rounding, for every batch with this tally. KS and ECE of ``Tally.event`` are within
their bounds, up to rounding of p to 12 digits; log loss and Brier score are within or close to theirs, since both
outcomes of a cell have the same p. ``MeasureBounds.apart`` is the largest possible error.

For a cell let ``a`` be the sum of 1 - p over its positives divided by n, and ``b`` the sum of p over its negatives
divided by n. From the start of the cell to any position in it, the cumulative difference D = sum (y - p) / n changes by
a number between -b and a, since a row changes it by (1 - p) / n or by -p / n. At the borders of cells D is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibrant.core.cells import Floats
from calibrant.core.errors import EmptyBatch
from calibrant.monitoring.tally import CELLS, Tally, borders

#: The log loss clips probabilities here.
_LEAST = 2.0**-52


@dataclass(frozen=True)
class MeasureBounds:
    """The smallest and largest possible value of a measure of the rows."""

    low: float
    high: float

    def apart(self, value: float) -> float:
        """Return the largest possible distance of the measure from this value."""
        return max(self.high - value, value - self.low)


def ks_bounds(tally: Tally) -> MeasureBounds:
    """Return bounds of the KS error. O(m).

    It is at least the largest |D| at a border. Inside a cell, D is between D - b and D + a for D at its start, which
    gives the upper bound. The bounds differ by at most the largest a or b.
    """
    up, down, before = _moves(tally)
    inside = np.maximum(np.abs(before + up), np.abs(before - down))
    return MeasureBounds(float(np.abs(before + up - down).max()), float(inside.max()))


def equal_width_bounds(tally: Tally, n_bins: int = 15) -> MeasureBounds:
    """Return bounds of the ECE (norm 1) with equal-width bins. O(m + bins).

    Only cells in which a bin starts are uncertain: a contribution between -b and a belongs to the bin below, and the
    rest of a - b to the bin above. This bounds the difference of each bin, and the ECE by the sums of the smallest and
    largest absolute values. The ECE is also at most the mean |y - p|.
    """
    inner = np.arange(1, n_bins) / n_bins
    return _binned(tally, np.searchsorted(borders(), inner, side="right") - 1)


def equal_mass_bounds(tally: Tally, n_bins: int = 15) -> MeasureBounds:
    """Return bounds of the ECE with equal-mass bins, like ``equal_width_bounds``.

    A bin starts at an end of the tie with the row of its rank, and so in the cell of this row or at one of its ends.
    The numbers of rows in the cells determine this cell.
    """
    rows = np.bincount(_cells(tally), tally.rows, CELLS).cumsum()
    share, rest = divmod(len(tally), n_bins)
    j = np.arange(1, n_bins)
    return _binned(tally, np.minimum(np.searchsorted(rows, j * share + np.minimum(j, rest)), CELLS - 1))


def log_loss_bounds(tally: Tally) -> MeasureBounds:
    """Return bounds of the log loss, in nats. O(m).

    -log p is convex: by Jensen's inequality the mean over the rows of a cell and outcome is at least the value at their
    mean p. It is at most the value of the chord over the cell, for rows at the two ends of the cell with this mean.
    """
    low, high, mean = _spans(tally)
    positive = (tally.keys & np.uint32(1)).astype(np.bool_)
    low, high, mean = (np.maximum(np.where(positive, of, 1.0 - of), _LEAST) for of in (low, high, mean))
    share = np.divide(high - mean, high - low, out=np.zeros(len(mean)), where=high != low)
    chord = -(np.clip(share, 0.0, 1.0) * np.log(low) + (1.0 - np.clip(share, 0.0, 1.0)) * np.log(high))
    least = -np.log(mean)
    return _mean(tally, least, np.maximum(chord, least))


def brier_bounds(tally: Tally) -> MeasureBounds:
    """Return bounds of the Brier score. O(m).

    It exceeds the value at the mean p of each cell and outcome by the variance of p in it, which is between 0 and
    (high - mean) (mean - low) (Bhatia & Davis 2000), at most 1.5e-7.
    """
    low, high, mean = _spans(tally)
    least = np.square(mean - (tally.keys & np.uint32(1)))
    return _mean(tally, least, least + np.maximum(high - mean, 0.0) * np.maximum(mean - low, 0.0))


def _cells(tally: Tally) -> npt.NDArray[np.int64]:
    if not len(tally.rows):
        raise EmptyBatch.at("/labels", "has no rows")
    return ((tally.keys >> np.uint32(1)) % np.uint32(CELLS)).astype(np.int64)


def _moves(tally: Tally) -> tuple[Floats, Floats, Floats]:
    """Return a, b, and D at the start of each cell: ``(CELLS,)`` each."""
    cells, positive = _cells(tally), (tally.keys & np.uint32(1)).astype(np.bool_)
    gains = np.where(positive, np.maximum(tally.rows - tally.p_sum, 0.0), 0.0)
    losses = np.where(positive, 0.0, tally.p_sum)
    up, down = (np.bincount(cells, of, CELLS).astype(np.float64) / len(tally) for of in (gains, losses))
    return up, down, np.append(0.0, np.cumsum(up - down)[:-1])


def _binned(tally: Tally, first: npt.NDArray[np.int64]) -> MeasureBounds:
    """Return bounds for bins that start in the cells ``first (bins - 1,)``, ascending."""
    up, down, before = _moves(tally)
    end = float(before[-1] + up[-1] - down[-1])
    least, most = (
        np.concatenate([[0.0], at, [end]]) for at in (before[first] - down[first], before[first] + up[first])
    )
    lowest, highest = least[1:] - most[:-1], most[1:] - least[:-1]
    sizes = np.maximum(np.maximum(lowest, -highest), 0.0), np.maximum(np.abs(lowest), np.abs(highest))
    return MeasureBounds(float(sizes[0].sum()), min(float(sizes[1].sum()), float((up + down).sum())))


def _spans(tally: Tally) -> tuple[Floats, Floats, Floats]:
    """Return the start and end of the cell of each entry, and its mean p: ``(m,)`` each."""
    cells, edges = _cells(tally), borders()
    low, high = edges[cells], edges[cells + 1]
    return low, high, np.clip(tally.p_sum / tally.rows, low, high)


def _mean(tally: Tally, least: Floats, most: Floats) -> MeasureBounds:
    return MeasureBounds(float(tally.rows @ least) / len(tally), float(tally.rows @ most) / len(tally))
