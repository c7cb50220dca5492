"""Cells: a batch reduced to sorted weighted points, the input of every measure and binary map.

A *cell* is one distinct prediction with the sums of the rows that share it. Whatever is
computed from cells cannot depend on the order of the rows, nor on the order inside ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Outcomes = npt.NDArray[np.int8]
WeightsKind = Literal["frequency", "importance"]


#: Doubles count by ones below this.
_LARGEST_COUNT = 2.0**53


@dataclass(frozen=True)
class SortedRows:
    """Rows in ascending order of (prediction, outcome).

    ``p (n,)`` is P(Y=1) in [0, 1], ``y (n,)`` is 0 or 1, ``w (n,)`` is at least 0 or None
    where every row counts once.
    """

    p: Floats
    y: Outcomes
    w: Floats | None

    def __len__(self) -> int:
        return len(self.p)


def sort_rows(p: Floats, y: Outcomes, w: Floats | None = None) -> SortedRows:
    """Sort rows by (prediction, outcome, weight). O(n log n).

    Doubles in [0, 1] keep their order when their bits are read as integers, and their two top
    bits are 0. Without weights the outcome therefore fits below the prediction in one 64-bit
    key, which sorts faster than an index does. Rows of weight 0 vanish: they can neither make a
    cell, nor move a bin's border, nor fill a fold.
    """
    p = p + 0.0  # -0.0 has its sign bit set and would sort last
    if w is None:
        keys = (p.view(np.uint64) << np.uint64(1)) | y.view(np.uint8)
        keys.sort()
        return SortedRows((keys >> np.uint64(1)).view(np.float64), (keys & np.uint64(1)).astype(np.int8), None)
    if not w.all():
        kept = w > 0
        p, y, w = p[kept], y[kept], w[kept]
    order = np.lexsort((w, y, p))
    return SortedRows(p[order], y[order], w[order])


@dataclass(frozen=True)
class Cells:
    """Distinct predictions in ascending order, and the sums over the rows of each.

    All arrays are ``(m,)``: ``p`` the prediction; ``rows`` how many rows; ``w``, ``w2`` the sums
    of w and w^2; ``wy``, ``w2y`` the sums of w y and w^2 y. Without weights w = w2 = rows.

    ``kind`` says what a weight means. ``frequency``: weight 2 is the row twice, and the effective
    number of rows of a set is the sum of w. ``importance``: only ratios of weights matter, and it
    is (sum w)^2 / sum w^2 (Kish 1965).
    """

    p: Floats
    rows: Floats
    w: Floats
    w2: Floats
    wy: Floats
    w2y: Floats
    kind: WeightsKind = "frequency"

    def __len__(self) -> int:
        return len(self.p)

    @cached_property
    def cumulative_w(self) -> Floats:
        """Mass up to and including each cell, with a leading 0: ``(m + 1,)``."""
        return _cumulative(self.w)

    @cached_property
    def cumulative_w2(self) -> Floats:
        """Sum of squared weights up to each cell, with a leading 0: ``(m + 1,)``."""
        return self.cumulative_w if self.w2 is self.w else _cumulative(self.w2)

    @cached_property
    def cumulative_wy(self) -> Floats:
        """Mass of positives up to each cell, with a leading 0: ``(m + 1,)``."""
        return _cumulative(self.wy)

    @cached_property
    def cumulative_wp(self) -> Floats:
        """Sum of w p up to each cell, with a leading 0: ``(m + 1,)``."""
        return _cumulative(self.w * self.p)

    @property
    def mass(self) -> float:
        """Sum of the weights."""
        return float(self.cumulative_w[-1])

    @cached_property
    def counts_rows(self) -> bool:
        """Whether the weights are whole numbers of rows, so that bins can be cut by rows."""
        whole = self.w is self.rows or bool(np.all(self.w == np.floor(self.w)))
        return self.kind == "frequency" and whole and self.mass < _LARGEST_COUNT


def cells_of(rows: SortedRows, kind: WeightsKind = "frequency") -> Cells:
    """Merge the ties of sorted rows into cells. O(n)."""
    p, y, w = rows.p, rows.y, rows.w
    y64 = y.astype(np.float64)
    starts = np.concatenate(([0], np.flatnonzero(p[1:] != p[:-1]) + 1))
    tied = len(starts) < len(p)

    def merged(values: Floats) -> Floats:
        return np.add.reduceat(values, starts) if tied else values

    if tied:
        counts = np.diff(np.append(starts, len(p))).astype(np.float64)
        p = p[starts]
    else:
        counts = np.ones(len(p))
    if w is None:
        positives = merged(y64)
        return Cells(p, counts, counts, counts, positives, positives, kind)
    w2 = w * w
    return Cells(p, counts, merged(w), merged(w2), merged(w * y64), merged(w2 * y64), kind)


def _cumulative(values: Floats) -> Floats:
    out = np.empty(len(values) + 1)
    out[0] = 0.0
    np.cumsum(values, out=out[1:])
    return out
