"""Isotonic regression: the best non-decreasing map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import isotonic_regression

from calibrant.cells import Cells, Floats
from calibrant.errors import InvalidDocument
from calibrant.maps.curves import check_outcomes, read_array
from calibrant.maps.interpolation import interpolate


@dataclass(frozen=True)
class Isotonic:
    """Linear interpolation between the ends of the fitted blocks, constant outside them.

    ``thresholds (t,)`` ascending in [0, 1], ``heights (t,)`` non-decreasing in [0, 1].
    Interpolating between blocks is scikit-learn's convention.
    """

    family: ClassVar[str] = "isotonic"
    thresholds: Floats
    heights: Floats

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probability of each ``p (n,)`` in [0, 1]. O(n log t)."""
        return interpolate(p, self.thresholds, self.heights)

    def parameters(self) -> dict[str, Any]:
        """The numbers that make this curve."""
        return {"thresholds": self.thresholds.tolist(), "heights": self.heights.tolist()}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read a document's numbers, each checked."""
        thresholds = read_array(parameters, "thresholds", numeric=True, low=0.0, high=1.0, increasing=True)
        heights = read_array(parameters, "heights", numeric=True, low=0.0, high=1.0, length=len(thresholds))
        if np.any(np.diff(heights) < 0):
            raise InvalidDocument.at("/parameters/heights", "must not decrease")
        return cls(thresholds, heights)


def fit_isotonic(cells: Cells) -> Isotonic:
    """Fit by pooling adjacent violators (Zadrozny & Elkan 2002; Busing 2022's algorithm in SciPy). O(m).

    Raises ``OneClass`` where all labels are equal.
    """
    check_outcomes(cells)
    fitted = isotonic_regression(cells.wy / cells.w, weights=cells.w)
    # Only the first and the last prediction of a block shape the map.
    heights = np.clip(fitted.x, 0.0, 1.0)
    differs = heights[1:] != heights[:-1]
    kept = np.concatenate(([True], differs)) | np.concatenate((differs, [True]))
    return Isotonic(cells.p[kept], heights[kept])
