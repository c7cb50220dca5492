"""Maps from bins, and three estimates of the true map of an event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import calibrant
from calibrant.core.binning import BinnedCells, equal_mass, equal_mass_borders
from calibrant.core.cells import Floats
from calibrant.core.reductions import Event
from calibrant.maps.curves import Curve

#: Bins of the true maps; the paper's number.
TRUE_BINS = 100
TRUTHS = ("isotonic", "flat", "slope 1")


@dataclass(frozen=True)
class BinnedMap:
    """Equal-mass bins as a map: bin k has the predictions from ``first[k]`` up to ``first[k + 1]``.

    Bins end where predictions change, as those of ``calibrant.evaluate`` do. The published code
    splits ties instead, and then sends tied queries to the last of the bins that share them.
    """

    first: Floats
    bins: BinnedCells

    @classmethod
    def fit(cls, event: Event, n_bins: int) -> BinnedMap:
        """Lay out the bins. O(n log n)."""
        cells = event.cells
        at = np.unique(equal_mass_borders(cells, np.array(n_bins), np.arange(n_bins + 1)))
        return cls(cells.p[at[:-1]], equal_mass(cells, n_bins))

    def _bin(self, p: Floats) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        return np.maximum(np.searchsorted(self.first, p, side="right") - 1, 0)

    def flat(self, p: Floats) -> Floats:
        """Share of positives in the bin of each ``p (n,)``."""
        return self.bins.mean_y[self._bin(p)]

    def tilted(self, p: Floats) -> Floats:
        """Prediction plus the gap of its bin, a roof of slope 1 (section 3 of the paper); may leave [0, 1]."""
        return p + (self.bins.mean_y - self.bins.mean_p)[self._bin(p)]


@dataclass(frozen=True)
class TrueMaps:
    """The true map of an event, estimated in each way of ``TRUTHS`` (appendix D.2 of the paper)."""

    isotonic: Curve
    binned: BinnedMap

    @classmethod
    def fit(cls, event: Event) -> TrueMaps:
        """Estimate from many rows. O(n log n)."""
        return cls(calibrant.fit("isotonic", event.p, event.y).curve, BinnedMap.fit(event, TRUE_BINS))

    def __call__(self, p: Floats) -> dict[str, Floats]:
        """Value of every estimate at each ``p (n,)``."""
        return dict(zip(TRUTHS, (self.isotonic(p), self.binned.flat(p), self.binned.tilted(p)), strict=True))
