"""Forecasts as a table of quantiles, whatever they were given as."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibrant.core.cells import Floats
from calibrant.distributions.forecasts import Forecasts
from calibrant.distributions.maps.scales import LEVELS


@dataclass(frozen=True)
class QuantileTable:
    """Quantiles ``q (n, Q)`` at ascending ``levels (Q,)``; ``interval`` if they are the ends of one interval."""

    q: Floats
    levels: Floats
    interval: bool = False

    def with_values(self, q: Floats) -> QuantileTable:
        """Return the table with other values at the same levels."""
        return replace(self, q=q)

    def forecasts(self) -> Forecasts:
        """Return the table as quantiles, or as an interval if it was one."""
        if self.interval:
            return interval_of(self.q[:, 0], self.q[:, 1], round(float(self.levels[1] - self.levels[0]), 12))
        return quantiles_of(self.q, self.levels)


def table_of(forecasts: Forecasts, levels: Floats | None = None) -> QuantileTable:
    """Return quantiles and intervals as they are, and normal forecasts and samples at ``levels``. O(n Q).

    ``levels`` are by default those of the forecast hubs.
    """
    if forecasts.kind == "quantiles":
        return QuantileTable(forecasts.quantiles, forecasts.levels)
    if forecasts.kind == "interval":
        tail = (1.0 - forecasts.level) / 2.0
        return QuantileTable(np.column_stack([forecasts.lower, forecasts.upper]), np.array([tail, 1.0 - tail]), True)
    levels = np.array(LEVELS) if levels is None else levels
    return QuantileTable(forecasts.quantile(levels), levels)


def normal_of(mean: Floats, variance: Floats) -> Forecasts:
    """Return normal forecasts, which are not checked again."""
    return Forecasts("normal", mean=mean, variance=variance)


def quantiles_of(quantiles: Floats, levels: Floats) -> Forecasts:
    """Return forecasts as quantiles, which are not checked again: bounds of conformal intervals may be infinite."""
    return Forecasts("quantiles", quantiles=quantiles, levels=levels)


def interval_of(lower: Floats, upper: Floats, level: float) -> Forecasts:
    """Return forecasts as intervals, which are not checked again."""
    return Forecasts("interval", lower=lower, upper=upper, level=level)
