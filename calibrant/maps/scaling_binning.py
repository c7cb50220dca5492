"""Scaling-binning: Platt scaling, then the mean of its outputs over bins of equal mass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.binning import equal_mass
from calibrant.cells import Cells, Floats
from calibrant.maps.curves import read_array, read_number
from calibrant.maps.platt import Platt, fit_platt
from calibrant.maps.steps import bin_of, midway, read_starts


@dataclass(frozen=True)
class ScalingBinning:
    """c(p) = heights[k] for starts[k] <= q < starts[k + 1], q = logistic(slope logit(p) + intercept).

    The logit clips at 2^-52; the last bin goes up to 1. ``starts (b,)`` ascend in [0, 1] from 0, ``heights (b,)`` do
    in [0, 1]: monotone for slope > 0, in steps.
    """

    family: ClassVar[str] = "scaling-binning"
    slope: float
    intercept: float
    starts: Floats
    heights: Floats

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probability of each ``p (n,)`` in [0, 1]. O(n log b)."""
        return self.heights[bin_of(self.starts, Platt(self.slope, self.intercept)(p))]

    def parameters(self) -> dict[str, Any]:
        """The numbers that make this curve."""
        numbers = {"slope": self.slope, "intercept": self.intercept}
        return numbers | {"starts": self.starts.tolist(), "heights": self.heights.tolist()}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read a document's numbers, each checked."""
        slope, intercept = read_number(parameters, "slope"), read_number(parameters, "intercept")
        starts = read_starts(parameters)
        heights = read_array(parameters, "heights", numeric=True, low=0.0, high=1.0, length=len(starts))
        return cls(slope, intercept, starts, heights)


def fit_scaling_binning(cells: Cells, *, n_bins: int, target_smoothing: bool = True) -> ScalingBinning:
    """Fit Platt scaling, and bin its outputs on the same rows (Kumar, Liang & Ma 2019). O(m).

    A bin's height is the mean output of its rows, whatever their labels. Bins hold equal mass, ties together; borders
    lie half-way between neighbouring outputs. The released code fits without ``target_smoothing``, and so then does
    this: ``NotConverged`` on separable data. Raises ``OneClass`` where all labels are equal.
    """
    platt = fit_platt(cells, target_smoothing=target_smoothing)
    outputs = _outputs(cells, platt)
    bins = equal_mass(outputs, n_bins)
    at = np.searchsorted(outputs.p, bins.start)
    return ScalingBinning(platt.slope, platt.intercept, midway(outputs.p)[at], np.clip(bins.mean_p, 0.0, 1.0))


def _outputs(cells: Cells, platt: Platt) -> Cells:
    """The cells of the curve's outputs: in descending order of predictions where it falls, of equal outputs one."""
    order = slice(None, None, -1 if platt.slope < 0.0 else 1)
    q = platt(cells.p[order])
    # The curve is monotone but for its rounding.
    np.maximum.accumulate(q, out=q)
    starts = np.flatnonzero(np.append(True, q[1:] > q[:-1]))

    def merged(values: Floats) -> Floats:
        sums: Floats = np.add.reduceat(values[order], starts)
        return sums

    rows = merged(cells.rows)
    unweighted = cells.w is cells.rows
    w = rows if unweighted else merged(cells.w)
    w2 = w if unweighted else merged(cells.w2)
    return Cells(q[starts], rows, w, w2, merged(cells.wy), merged(cells.w2y), cells.kind)
