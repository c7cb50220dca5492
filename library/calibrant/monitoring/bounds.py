"""Bounds of a measure of the rows themselves, from their tally alone.

What a tally forgets is where in its cell, of 2,048 and at most 7.7e-4 wide, a row lies. Each bound here holds for every
batch with the tally, up to the rounding of sums, and has nothing to do with chance. What is read off ``Tally.event``
lies within those of KS and ECE, up to the rounding of its p to 12 digits; log loss and Brier score lie within or near
theirs, for both outcomes of a cell stand at one p there. ``MeasureBounds.apart`` says how wrong any of them can be.

In cell k let ``a`` be the positives' sum of 1 - p over n, and ``b`` the negatives' sum of p over n: from one end of the
cell to any place in it, the cumulative difference D = sum (y - p) / n moves by a number between -b and a, for a row
moves it by (1 - p) / n up or by p / n down. At the borders of cells D is known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats
from calibrant.errors import EmptyBatch
from calibrant.monitoring.tally import CELLS, Tally, borders

#: Where log loss cuts probabilities off.
_LEAST = 2.0**-52


@dataclass(frozen=True)
class MeasureBounds:
    """A measure of the rows is at least ``low`` and at most ``high``."""

    low: float
    high: float

    def apart(self, value: float) -> float:
        """How far from this value the measure can be."""
        return max(self.high - value, value - self.low)


def ks_bounds(tally: Tally) -> MeasureBounds:
    """Of the KS error. O(m).

    It is at least the largest |D| at a border. D inside a cell lies between D - b and D + a, D at the cell's beginning,
    so that it is at most the largest of these. They are apart by the largest a or b at most: what one cell can hide.
    """
    up, down, before = _moves(tally)
    inside = np.maximum(np.abs(before + up), np.abs(before - down))
    return MeasureBounds(float(np.abs(before + up - down).max()), float(inside.max()))


def equal_width_bounds(tally: Tally, n_bins: int = 15) -> MeasureBounds:
    """Of the ECE (L1) with equal-width bins. O(m + bins).

    Only the cells in which a bin begins are in doubt: of such a cell, between -b and a belongs to the bin below, and
    the rest of a - b to that above. So each bin's difference lies between two numbers, and the ECE between the sums of
    the least and of the largest sizes that they allow, and at most the mean |y - p|.
    """
    inner = np.arange(1, n_bins) / n_bins
    return _binned(tally, np.searchsorted(borders(), inner, side="right") - 1)


def equal_mass_bounds(tally: Tally, n_bins: int = 15) -> MeasureBounds:
    """As ``equal_width_bounds``, of the ECE with equal-mass bins.

    A bin begins at an end of the tie that holds the row of its rank, and so in the cell of this row or at an end of it,
    for the rows as for the tally. The number of rows in the cells before it determines the cell.
    """
    rows = np.bincount(_cells(tally), tally.rows, CELLS).cumsum()
    share, rest = divmod(len(tally), n_bins)
    j = np.arange(1, n_bins)
    return _binned(tally, np.minimum(np.searchsorted(rows, j * share + np.minimum(j, rest)), CELLS - 1))


def log_loss_bounds(tally: Tally) -> MeasureBounds:
    """Of the log loss, in nats. O(m).

    -log p is convex: by Jensen's inequality the mean over the rows of a cell and outcome is at least its value at their
    mean p; and it is at most that of the chord over the cell, reached by rows at the two ends of the cell with this
    mean.
    """
    low, high, mean = _spans(tally)
    positive = (tally.keys & np.uint32(1)).astype(np.bool_)
    low, high, mean = (np.maximum(np.where(positive, of, 1.0 - of), _LEAST) for of in (low, high, mean))
    share = np.divide(high - mean, high - low, out=np.zeros(len(mean)), where=high != low)
    chord = -(np.clip(share, 0.0, 1.0) * np.log(low) + (1.0 - np.clip(share, 0.0, 1.0)) * np.log(high))
    least = -np.log(mean)
    return _mean(tally, least, np.maximum(chord, least))


def brier_bounds(tally: Tally) -> MeasureBounds:
    """Of the Brier score. O(m).

    It is above that of the mean p of each cell and outcome by the variance of p in it, which is between 0 and
    (high - mean) (mean - low) (Bhatia & Davis 2000): at most 1.5e-7.
    """
    low, high, mean = _spans(tally)
    least = np.square(mean - (tally.keys & np.uint32(1)))
    return _mean(tally, least, least + np.maximum(high - mean, 0.0) * np.maximum(mean - low, 0.0))


def _cells(tally: Tally) -> npt.NDArray[np.int64]:
    if not len(tally.rows):
        raise EmptyBatch.at("/labels", "has no rows")
    return ((tally.keys >> np.uint32(1)) % np.uint32(CELLS)).astype(np.int64)


def _moves(tally: Tally) -> tuple[Floats, Floats, Floats]:
    """a, b and D at its beginning, of each cell: ``(CELLS,)`` each."""
    cells, positive = _cells(tally), (tally.keys & np.uint32(1)).astype(np.bool_)
    gains = np.where(positive, np.maximum(tally.rows - tally.p_sum, 0.0), 0.0)
    losses = np.where(positive, 0.0, tally.p_sum)
    up, down = (np.bincount(cells, of, CELLS).astype(np.float64) / len(tally) for of in (gains, losses))
    return up, down, np.append(0.0, np.cumsum(up - down)[:-1])


def _binned(tally: Tally, first: npt.NDArray[np.int64]) -> MeasureBounds:
    """Of bins that begin somewhere in the cells ``first (bins - 1,)``, ascending."""
    up, down, before = _moves(tally)
    end = float(before[-1] + up[-1] - down[-1])
    least, most = (
        np.concatenate([[0.0], at, [end]]) for at in (before[first] - down[first], before[first] + up[first])
    )
    lowest, highest = least[1:] - most[:-1], most[1:] - least[:-1]
    sizes = np.maximum(np.maximum(lowest, -highest), 0.0), np.maximum(np.abs(lowest), np.abs(highest))
    return MeasureBounds(float(sizes[0].sum()), min(float(sizes[1].sum()), float((up + down).sum())))


def _spans(tally: Tally) -> tuple[Floats, Floats, Floats]:
    """Where the cell of each entry begins and ends, and the mean p in it: ``(m,)`` each."""
    cells, edges = _cells(tally), borders()
    low, high = edges[cells], edges[cells + 1]
    return low, high, np.clip(tally.p_sum / tally.rows, low, high)


def _mean(tally: Tally, least: Floats, most: Floats) -> MeasureBounds:
    return MeasureBounds(float(tally.rows @ least) / len(tally), float(tally.rows @ most) / len(tally))
