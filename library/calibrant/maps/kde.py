"""The observed frequency from kernel densities as a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from calibrant.core.cells import Cells, Floats
from calibrant.core.density import densities_of_cells
from calibrant.maps.curves import OfProbability, check_outcomes, interpolate
from calibrant.maps.parameters import KNOTS, Parametric, Probability

#: Tolerance of the lines between the kept points; rounding adds less than 1e-8.
_NEAR = 9.9e-7
#: Decimals of the parameters. Knots need more, since the frequency can increase by 1 between two points.
_KNOT_DECIMALS, _SHARE_DECIMALS = 13, 9


@dataclass(frozen=True)
class Kde(Parametric, OfProbability):
    """Linear interpolation between ``shares (t,)`` in [0, 1] at ``knots (t,)`` ascending in [0, 1]; constant outside.

    Neither monotone nor, at the knots, differentiable.
    """

    family: ClassVar[str] = "kde"
    formula: ClassVar[str] = "linear between the knots"
    knots: Annotated[Floats, KNOTS]
    shares: Annotated[Floats, Probability("calibrated probabilities there", shape="t")]

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n log t)."""
        return interpolate(p, self.knots, self.shares)


def fit_kde(cells: Cells) -> tuple[Kde, float]:
    """Fit the observed frequency from kernel densities (Zhang, Kailkhura & Han 2020); also return the bandwidth.

    The map is linear between grid points inside (0, 1) and constant outside; the published code uses the nearest point.
    Points are left out if the lines between the others approximate them to 1e-6. O(m + grid log grid). Raises
    ``OneClass`` if all labels are equal, and ``OnePrediction`` if all positives have the same prediction.
    """
    check_outcomes(cells)
    densities = densities_of_cells(cells)
    bends = _bends(densities.share, _NEAR)
    return Kde(
        densities.x[bends].round(_KNOT_DECIMALS), densities.share[bends].round(_SHARE_DECIMALS)
    ), densities.bandwidth


def _bends(f: Floats, near: float) -> npt.NDArray[np.int64]:
    """Return points of an even grid whose connecting lines are within ``near`` of ``f (d,)``. Usually O(d).

    From each point, the next is the last one that a line reaches within the tolerance of all points between.
    """
    values, last = f.tolist(), len(f) - 1
    points = [0]
    while points[-1] < last:
        start = points[-1]
        at, low, high, reached = start + 1, -np.inf, np.inf, start + 1
        while at <= last and low <= high:
            steps, rise = at - start, values[at] - values[start]
            if low <= rise / steps <= high:
                reached = at
            low, high = max(low, (rise - near) / steps), min(high, (rise + near) / steps)
            at += 1
        points.append(reached)
    return np.array(points)
