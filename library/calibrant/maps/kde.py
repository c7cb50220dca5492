"""The share of positives by kernel densities, as a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from calibrant.cells import Cells, Floats
from calibrant.density import densities_of_cells
from calibrant.maps.curves import Numbers, check_outcomes, read_array

#: Lines between the points kept are so near to the whole grid; what rounding the numbers adds stays below 1e-8.
_NEAR = 9.9e-7
#: Decimals of the numbers kept. Knots need more, as a share can rise by 1 between two points.
_KNOT_DECIMALS, _SHARE_DECIMALS = 13, 9


@dataclass(frozen=True)
class Kde(Numbers):
    """Linear interpolation between ``shares (t,)`` in [0, 1] at ``knots (t,)`` ascending in [0, 1]; constant beyond.

    Neither monotone nor, at the knots, differentiable.
    """

    family: ClassVar[str] = "kde"
    knots: Floats
    shares: Floats

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probability of each ``p (n,)`` in [0, 1]. O(n log t)."""
        return np.interp(p, self.knots, self.shares)

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read a document's numbers, each checked."""
        knots = read_array(parameters, "knots", numeric=True, low=0.0, high=1.0, increasing=True)
        return cls(knots, read_array(parameters, "shares", numeric=True, low=0.0, high=1.0, length=len(knots)))


def fit_kde(cells: Cells) -> tuple[Kde, float]:
    """The smoothed share of positives of ``calibrant.density``, and its bandwidth (Zhang, Kailkhura & Han 2020).

    Linear between the grid's points inside (0, 1) and constant beyond them, where the published code takes the nearest
    point; of the points those are kept between which lines come within 1e-6 of the others. O(m + grid log grid).
    Raises ``OneClass`` where all labels are equal, ``OnePrediction`` where all predictions of positives are.
    """
    check_outcomes(cells)
    found = densities_of_cells(cells)
    kept = _bends(found.share, _NEAR)
    return Kde(found.x[kept].round(_KNOT_DECIMALS), found.share[kept].round(_SHARE_DECIMALS)), found.bandwidth


def _bends(f: Floats, near: float) -> npt.NDArray[np.int64]:
    """Points of an even grid between which straight lines are within ``near`` of all of ``f (d,)``. O(d), mostly.

    From each point kept the next is the last that can be seen through the gates about the points between.
    """
    values, last = f.tolist(), len(f) - 1
    kept = [0]
    while kept[-1] < last:
        start = kept[-1]
        at, low, high, reached = start + 1, -np.inf, np.inf, start + 1
        while at <= last and low <= high:
            steps, rise = at - start, values[at] - values[start]
            if low <= rise / steps <= high:
                reached = at
            low, high = max(low, (rise - near) / steps), min(high, (rise + near) / steps)
            at += 1
        kept.append(reached)
    return np.array(kept)
