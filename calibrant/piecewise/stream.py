"""Cells of more rows than memory holds: counted as they come by."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats
from calibrant.errors import LengthMismatch, OutOfRange, TooFewRows
from calibrant.piecewise.folds import MASS_TO_WIDTH, MOST_CELLS, FoldCells

#: Even steps of p that are counted apart.
_GRID = 2**18


class CellStream:
    """Rows reduced to the cells of a fit, chunk by chunk.

    Row i of the whole stream is in fold i mod ``folds``: shuffle a stream whose order has that period. Predictions
    are counted on a grid of 2^18 even steps, each with its own mean, so that those within 4e-6 of 0 are one; ``cells``
    then merges them as ``fold_cells`` merges rows. Memory: 2^18 x (16 folds + 8) bytes, 44 MB for ten folds, however
    many rows there are.

    >>> stream = CellStream(folds=2)
    >>> stream.add(np.array([0.1, 0.9, 0.4, 0.6]), np.array([0, 1, 0, 1]))
    >>> stream.cells().p
    array([0.1, 0.4, 0.6, 0.9])
    """

    def __init__(self, folds: int = 10) -> None:
        self._counts = np.zeros((folds, 2 * _GRID), dtype=np.int64)
        self._sums = np.zeros(_GRID)
        self._rows = 0

    def __len__(self) -> int:
        """Rows seen."""
        return self._rows

    def add(self, p: Floats, y: npt.NDArray[np.integer]) -> None:
        """Count a chunk: ``p (n,)`` in [0, 1], ``y (n,)`` 0 or 1. O(n).

        Raises ``LengthMismatch``, and ``OutOfRange`` naming the first row that is wrong; nothing is counted then.
        """
        if p.shape != y.shape or p.ndim != 1:
            raise LengthMismatch.at("/labels", f"has shape {y.shape} where /predictions has {p.shape}")
        if len(p) == 0:
            return
        if not (p.min() >= 0.0 and p.max() <= 1.0):  # NaN fails too
            raise OutOfRange.at(f"/predictions/{int(np.argmin((p >= 0.0) & (p <= 1.0)))}", "must be in [0, 1]")
        if y.min() < 0 or y.max() > 1:
            raise OutOfRange.at(f"/labels/{int(np.argmin((y >= 0) & (y <= 1)))}", "must be 0 or 1")
        place = (p * _GRID).astype(np.int32)
        np.minimum(place, _GRID - 1, out=place)
        self._sums += np.bincount(place, p, _GRID)
        place *= 2
        place += y.astype(np.int32, copy=False)
        folds = len(self._counts)
        for fold in range(folds):
            first = (fold - self._rows) % folds
            self._counts[fold] += np.bincount(place[first::folds], minlength=2 * _GRID)
        self._rows += len(p)

    def cells(self) -> FoldCells:
        """The cells of the rows seen. Raises ``TooFewRows`` where there are fewer rows than folds."""
        folds = len(self._counts)
        if self._rows < folds:
            raise TooFewRows.at(
                "/predictions",
                f"has {self._rows} row{'' if self._rows == 1 else 's'}; {folds} folds need at least {folds}",
            )
        table = self._counts.reshape(folds, _GRID, 2)
        mass = table.sum(axis=(0, 2))
        kept = np.flatnonzero(mass)
        starts = _starts(self._sums[kept] / mass[kept], mass[kept].astype(np.float64))
        w = np.add.reduceat(table.sum(axis=2)[:, kept], starts, axis=1).astype(np.float64)
        wy = np.add.reduceat(table[:, kept, 1], starts, axis=1).astype(np.float64)
        return FoldCells(np.add.reduceat(self._sums[kept], starts) / w.sum(axis=0), w, wy)


def _starts(p: Floats, mass: Floats) -> npt.NDArray[np.int64]:
    """Where merged cells begin: by mass, and by width in (2/pi) asin sqrt p."""
    if len(p) <= MOST_CELLS:
        return np.arange(len(p))
    reached = np.cumsum(mass) - mass / 2
    by_mass = (reached / mass.sum() * MOST_CELLS).astype(np.int64)
    by_width = (np.arcsin(np.sqrt(p)) / (np.pi / 2) * (MOST_CELLS // MASS_TO_WIDTH)).astype(np.int64)
    changes = (np.diff(by_mass) > 0) | (np.diff(by_width) > 0)
    return np.concatenate(([0], np.flatnonzero(changes) + 1))
