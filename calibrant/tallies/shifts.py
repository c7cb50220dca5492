"""The shifts of the log-odds that the test of calibration bets on: a fixed set, on fixed blocks of the grid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np

from calibrant.cells import Floats
from calibrant.tallies.grid import CELLS, Places, borders

#: Sizes of a shift, in log-odds where it is largest.
AMPLITUDES = (0.05, 0.1, 0.2, 0.4, 0.8)
#: How many pieces the grid is cut into, each of which is shifted alone.
PIECES = (2, 4, 8)
#: Blocks of one width; those at the ends are cut again, for the logit runs to infinity there.
_BLOCKS, _END_CUTS = 64, 4

Shape = Literal["level", "spread", "curve", "part"]


@dataclass(frozen=True)
class Shift:
    """A way to be wrong: the log-odds of the outcome are those of the prediction and more.

    ``level``: by ``delta`` everywhere. ``spread``: by ``delta`` x logit(p) / 2 (cut at +-6), so that predictions are
    too timid where delta is above 0 and too extreme below. ``curve``: more at both ends than in the middle. ``part``:
    by ``delta`` for predictions from ``low`` to ``high``.
    """

    shape: Shape
    delta: float
    low: float = 0.0
    high: float = 1.0

    def told(self) -> str:
        """The error in words."""
        if self.shape == "spread":
            return f"predictions are too {'timid' if self.delta > 0.0 else 'extreme'}"
        which = "low" if self.delta > 0.0 else "high"
        if self.shape == "curve":
            return f"predictions near 0 and near 1 are too {which}"
        place = f" between {self.low:.3g} and {self.high:.3g}" if self.shape == "part" else ""
        return f"predictions{place} are too {which}"


@cache
def block_of_cell() -> Places:
    """The block of each cell of the grid: ``(CELLS,)``, ascending from 0."""
    width = CELLS // _BLOCKS
    starts = {*range(0, CELLS, width)}
    for cut in range(1, _END_CUTS + 1):
        starts |= {width >> cut, CELLS - (width >> cut)}
    return np.searchsorted(np.array(sorted(starts)), np.arange(CELLS), side="right") - 1


@cache
def shifts() -> tuple[Shift, ...]:
    """The shifts, J of them."""
    signed = [sign * size for size in AMPLITUDES for sign in (1.0, -1.0)]
    edges = borders()
    found = [Shift(shape, delta) for shape in ("level", "spread", "curve") for delta in signed]
    for pieces in PIECES:
        ends = edges[:: CELLS // pieces].tolist()
        found += [Shift("part", delta, low, high) for low, high in pairwise(ends) for delta in signed]
    return tuple(found)


@cache
def shift_matrix() -> Floats:
    """The log-odds that each shift adds in each block: ``(J, K)``."""
    blocks, edges = block_of_cell(), borders()
    count = int(blocks[-1]) + 1
    first = np.searchsorted(blocks, np.arange(count + 1))
    middle = np.sin((np.arcsin(np.sqrt(edges[first[:-1]])) + np.arcsin(np.sqrt(edges[first[1:]]))) / 2.0) ** 2
    logit = np.clip(np.log(middle) - np.log1p(-middle), -6.0, 6.0) / 2.0
    patterns = {"level": np.ones(count), "spread": logit, "curve": np.abs(logit) - 0.5}
    rows = [
        patterns[s.shape] if s.shape != "part" else ((middle > s.low) & (middle < s.high)).astype(np.float64)
        for s in shifts()
    ]
    found: Floats = np.array(rows) * np.array([s.delta for s in shifts()])[:, None]
    return found
