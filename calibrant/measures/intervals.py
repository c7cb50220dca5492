"""Confidence intervals of calibration errors, by resampling sufficient statistics instead of rows.

The cost does not depend on the number of rows once the bins are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.binning import Bins
from calibrant.cells import Cells
from calibrant.errors import InvalidOption
from calibrant.measures.binned import Norm

#: Blocks on which the cumulative difference is simulated.
_BLOCKS = 512


@dataclass(frozen=True)
class Resampling:
    """``level`` in (0, 1) of the interval, how many resamples, and the seed of their generator."""

    level: float
    resamples: int
    seed: int

    @classmethod
    def read(cls, interval: object, resamples: object = 1000, seed: object = 0) -> Resampling | None:
        """Check the options of ``evaluate``; None where no interval is asked for."""
        if type(resamples) is not int or not 100 <= resamples <= 100_000:
            raise InvalidOption.at("/resamples", "must be an integer from 100 to 100000")
        if type(seed) is not int or not 0 <= seed < 2**32 - 1:
            raise InvalidOption.at("/seed", "must be an integer from 0 to 4294967294")
        if interval is None:
            return None
        if not isinstance(interval, int | float) or isinstance(interval, bool) or not 0.0 < interval < 1.0:
            raise InvalidOption.at("/interval", "must be a level above 0 and below 1, such as 0.95")
        return cls(float(interval), resamples, seed)

    def generator(self) -> np.random.Generator:
        """A fresh generator: every measure sees the same draws whatever else is asked for."""
        return np.random.default_rng(self.seed)


def binned_interval(bins: Bins, norm: Norm, resampling: Resampling) -> tuple[float, float]:
    """Interval of the calibration error over these bins, by inverting tests of its size. O(resamples x b).

    A percentile interval of resampled errors fails: each is biased upward from a value that is so
    already, and at 1,000 rows of a calibrated model it never covers the truth. Instead, an error of
    a given size is held to be possible when the plain value seen lies between the tails of the plain
    values that bins with such an error would show: gaps of that size, along the direction of the gaps
    seen, plus the normal noise that the debiasing assumes. Calibration itself, size 0, is a lower end
    like any other. The bins are held fixed, the sweep's as well.
    """
    share = bins.mass / bins.mass.sum()
    noise = np.sqrt(bins.mean_y * (1.0 - bins.mean_y) / bins.rows)
    gap = np.abs(bins.mean_p - bins.mean_y)
    direction = gap + noise
    draws = noise * resampling.generator().standard_normal((resampling.resamples, len(bins)))
    plain = float(share @ gap**norm)

    def seen(size: float, tail: float) -> float:
        return float(np.quantile(np.abs(draws + size * direction) ** norm @ share, tail))

    tail = (1.0 - resampling.level) / 2.0
    size_low = _solve(lambda size: seen(size, 1.0 - tail), plain)
    size_high = _solve(lambda size: seen(size, tail), plain)
    unit = float(share @ direction**norm)
    return min(size_low**norm * unit, 1.0), min(max(size_high**norm * unit, plain), 1.0)


def _solve(increasing: Callable[[float], float], target: float) -> float:
    """The size from 0 on at which an increasing function reaches the target; 0 if it begins above."""
    low, high = 0.0, 1.0
    if increasing(low) >= target:
        return 0.0
    while increasing(high) < target:
        low, high = high, 2.0 * high
    for _ in range(30):
        middle = (low + high) / 2.0
        low, high = (middle, high) if increasing(middle) < target else (low, middle)
    return high


def ks_interval(cells: Cells, error: float, resampling: Resampling) -> tuple[float, float]:
    """Interval of the KS error: the error give or take a quantile of sup |D* - D|. O(m + resamples x 512).

    |sup |D| - sup |D_true|| is at most sup |D - D_true|, so the interval covers at least at its
    level. D* - D is simulated as a Gaussian walk whose steps have the variance
    sum w^2 (y - p)^2 of a block of cells.
    """
    w2, w2y = (cells.w, cells.wy) if cells.kind == "frequency" else (cells.w2, cells.w2y)
    terms = w2y * (1.0 - 2.0 * cells.p) + w2 * cells.p**2
    edges = np.unique(np.linspace(0, len(cells), min(_BLOCKS, len(cells)) + 1).astype(np.int64))
    steps = np.sqrt(np.maximum(np.add.reduceat(terms, edges[:-1]), 0.0)) / cells.mass
    walks = np.cumsum(resampling.generator().standard_normal((resampling.resamples, len(steps))) * steps, axis=1)
    reach = float(np.quantile(np.abs(walks).max(axis=1), resampling.level))
    return max(0.0, error - reach), min(1.0, error + reach)
