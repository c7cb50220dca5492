"""Quantile recalibration: a monotone map of the probability integral transform (Kuleshov, Fenner & Ermon 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import ndtr

from calibrant.cells import Floats
from calibrant.distributions.forecasts import Forecasts
from calibrant.distributions.maps.scales import (
    ForecastScale,
    Tails,
    backward,
    forward,
    quantiles_at,
    read_scale,
    read_tails,
    scores_of,
)
from calibrant.distributions.maps.tables import quantiles_of, table_of
from calibrant.errors import InvalidDocument
from calibrant.maps.curves import Numbers, read_array

Shape = Literal["isotonic", "pl"]
#: Normal scores of the knots below 1/2; those above mirror them. A score below the first knot is that of the first.
_BELOW = {
    "isotonic": (-8.0, -7.0, -6.0, -5.0, -4.5, -4.0, -3.75, *(round(-3.5 + 0.1 * i, 1) for i in range(35))),
    "pl": (-8.0, -6.0, -4.0, -3.0, -2.2, -1.5, -0.7),
}
#: The first knot for quantiles and samples, whose tails are not given.
_OUTERMOST = -4.5
#: Intervals of the PIT that are shorter than this are points.
_POINT = 1e-6


@dataclass(frozen=True)
class LevelMap(Numbers):
    """The quantile at level t becomes the given quantile at the normal score z with R(z) = t, linear between ``knots``.

    R is the distribution function of the normal scores of the PIT, ``heights (b,)`` at the ``knots (b,)``, both
    strictly increasing; levels outside the heights get the outermost knot. The result is quantiles at ``levels (Q,)``.
    Given quantiles are linear in the level on the scale, with tails beyond the outermost ones.
    """

    family: ClassVar[str] = "level-map"
    knots: Floats
    heights: Floats
    levels: Floats
    scale: ForecastScale = "identity"
    tails: Tails = "normal"

    def __call__(self, forecasts: Forecasts) -> Forecasts:
        """Return quantiles at the levels of the map. O(n Q)."""
        z = np.interp(self.levels, self.heights, self.knots)
        if forecasts.kind == "normal":
            return quantiles_of(forecasts.mean[:, None] + np.sqrt(forecasts.variance)[:, None] * z, self.levels)
        table = table_of(forecasts)
        found = quantiles_at(forward(table.q, self.scale, "quantiles"), table.levels, z, self.tails)
        return quantiles_of(backward(found, self.scale), self.levels)

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read and check the parameters of a document."""
        knots = read_array(parameters, "knots", numeric=True, increasing=True)
        heights = read_array(parameters, "heights", numeric=True, low=0.0, high=1.0, increasing=True, length=len(knots))
        levels = read_array(parameters, "levels", numeric=True, low=0.0, high=1.0, increasing=True)
        if levels[0] == 0.0 or levels[-1] == 1.0:
            raise InvalidDocument.at("/parameters/levels", "must be above 0 and below 1")
        return cls(knots, heights, levels, read_scale(parameters), read_tails(parameters))


def fit_levels(
    forecasts: Forecasts,
    y: Floats,
    weights: Floats,
    levels: Floats,
    *,
    shape: Shape,
    scale: ForecastScale,
    tails: Tails,
) -> LevelMap:
    """Fit the distribution function of the PIT at fixed knots. O(n (Q + knots)).

    A row whose quantiles are tied at the outcome spreads its weight evenly over its interval of the PIT (Czado,
    Gneiting & Held 2009). One row of a calibrated forecast is added, so that R is strictly increasing.
    """
    if forecasts.kind == "normal":
        low = high = (y - forecasts.mean) / np.sqrt(forecasts.variance)
    else:
        table = table_of(forecasts)
        low, high = scores_of(forward(table.q, scale, "quantiles"), table.levels, forward(y, scale), tails)
    below = np.array(_BELOW[shape])
    if forecasts.kind != "normal":
        below = np.append(_OUTERMOST, below[below > _OUTERMOST])
    knots = np.concatenate([below, [0.0], -below[::-1]])
    ends = ndtr(low), ndtr(high)
    wide = ends[1] - ends[0] >= _POINT
    order = np.argsort(low[~wide], kind="stable")
    ordered = low[~wide][order]
    cumulative = np.concatenate([[0.0], np.cumsum(weights[~wide][order])])
    # the mean of both limits at a knot
    places = np.searchsorted(ordered, knots, side="left"), np.searchsorted(ordered, knots, side="right")
    heights = 0.5 * (cumulative[places[0]] + cumulative[places[1]])
    inside, start, width = ndtr(knots), ends[0][wide], (ends[1] - ends[0])[wide]
    for k, level in enumerate(inside):
        heights[k] += weights[wide] @ np.clip((level - start) / width, 0.0, 1.0)
    heights = (heights + inside) / (float(weights.sum()) + 1.0)
    # far in the upper tail the added row is lost to rounding
    kept = np.append(True, np.diff(heights) > 0.0)
    return LevelMap(knots[kept], heights[kept], levels, scale, tails)
