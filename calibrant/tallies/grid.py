"""The fixed grid of tallies: even in the arcsine of the root of p."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats

#: Cells of the grid.
CELLS = 2048

Places = npt.NDArray[np.int64]


def place(p: Floats) -> Places:
    """The cell of each p in [0, 1]: ``(n,)``, 0 to ``CELLS`` - 1. O(n).

    Cell k holds the p from sin^2(pi k / 2m) up to sin^2(pi (k + 1) / 2m), m = ``CELLS``. The arcsine of the root gives
    a share of outcomes the same variance for every p (Anscombe 1948): a cell is pi/m sqrt(p (1 - p)) wide, and so as
    wide everywhere against the noise of the rows in it. What decides is the comparison with ``borders``, not the
    arcsine, whose last digit differs between machines: all that count rows put them into the same cells.

    Examples
    --------
    >>> place(np.array([0.0, 0.5, 1.0])).tolist()
    [0, 1024, 2047]
    """
    found: Places = np.minimum((np.arcsin(np.sqrt(p)) * (2.0 * CELLS / math.pi)).astype(np.int64), CELLS - 1)
    found -= p < BEGINS[found]
    found += p >= _END[found]
    return found


def borders() -> Floats:
    """Where the cells begin and end: ``(CELLS + 1,)``, ascending from 0 to 1, rounded to 15 decimals."""
    found: Floats = np.round(np.sin(np.arange(CELLS + 1) * (math.pi / (2.0 * CELLS))) ** 2, 15)
    return found


#: Where the cells begin.
BEGINS = borders()[:-1]
#: The last cell holds 1 too.
_END = np.append(BEGINS[1:], np.inf)
