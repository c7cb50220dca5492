"""Quantile recalibration: a monotone map of the probability integral transform (Kuleshov, Fenner & Ermon 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument
from calibrant.distributions.forecasts import Forecasts
from calibrant.distributions.maps.scales import (
    TAILS,
    ForecastScale,
    ScaleParameter,
    Tails,
    backward,
    forward,
    quantiles_at,
    scores_of,
)
from calibrant.distributions.maps.tables import quantiles_of, table_of
from calibrant.maps.curves import interpolate
from calibrant.maps.parameters import Parameter, ParameterChoice, Parametric, Probability

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
class LevelMap(Parametric):
    """The quantile at level t becomes the given quantile at the normal score z with R(z) = t, linear between ``knots``.

    R is the distribution function of the normal scores of the PIT, ``heights (b,)`` at the ``knots (b,)``, both
    strictly increasing; levels outside the heights get the outermost knot. The result is quantiles at ``levels (Q,)``.
    Given quantiles are linear in the level on the scale, with tails beyond the outermost ones.
    """

    family: ClassVar[str] = "level-map"
    formula: ClassVar[str] = (
        "quantiles at levels: for level t, that of the forecast at level Phi(z), or mean + z sqrt(v); z is at t, "
        "linear from heights to knots, constant outside"
    )
    knots: Annotated[Floats, Parameter("normal scores of levels of the forecast", shape="b", order="increasing")]
    heights: Annotated[Floats, Probability("frequencies of outcomes below them", shape="b", order="increasing")]
    levels: Annotated[Floats, Probability("levels of the quantiles of the result", shape="Q", order="increasing")]
    scale: ScaleParameter = "identity"
    tails: Annotated[Tails, ParameterChoice("quantiles beyond the outermost levels", choices=TAILS)] = "normal"

    def __call__(self, forecasts: Forecasts) -> Forecasts:
        """Return quantiles at the levels of the map. O(n Q)."""
        z = interpolate(self.levels, self.heights, self.knots)
        if forecasts.kind == "normal":
            return quantiles_of(forecasts.mean[:, None] + np.sqrt(forecasts.variance)[:, None] * z, self.levels)
        table = table_of(forecasts)
        quantiles = quantiles_at(forward(table.q, self.scale, "quantiles"), table.levels, z, self.tails)
        return quantiles_of(backward(quantiles, self.scale), self.levels)

    def check(self) -> None:
        """Raise ``InvalidDocument`` if a level is 0 or 1."""
        if self.levels[0] == 0.0 or self.levels[-1] == 1.0:
            raise InvalidDocument.at("/parameters/levels", "must be above 0 and below 1")

    def heights_at(self, levels: Floats) -> Floats:
        """Return R at the normal scores of ``levels (m,)``, in proportion to the level beyond the outermost knots."""
        ends = ndtr(self.knots[[0, -1]])
        between = interpolate(ndtri(levels), self.knots, self.heights)
        below = self.heights[0] * np.minimum(levels / ends[0], 1.0)
        above = (1.0 - self.heights[-1]) * np.minimum((1.0 - levels) / (1.0 - ends[1]), 1.0)
        return np.where(levels < ends[0], below, np.where(levels > ends[1], 1.0 - above, between))


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
    normal = forecasts.kind == "normal"
    if normal:
        low = high = (y - forecasts.mean) / np.sqrt(forecasts.variance)
    else:
        table = table_of(forecasts)
        low, high = scores_of(forward(table.q, scale, "quantiles"), table.levels, forward(y, scale), tails)
    knots = _knots(shape, normal)
    ends = ndtr(low), ndtr(high)
    wide = ends[1] - ends[0] >= _POINT
    order = np.argsort(low[~wide], kind="stable")
    ordered = low[~wide][order]
    cumulative = np.concatenate([[0.0], np.cumsum(weights[~wide][order])])
    # the mean of both limits at a knot
    places = np.searchsorted(ordered, knots, side="left"), np.searchsorted(ordered, knots, side="right")
    heights = 0.5 * (cumulative[places[0]] + cumulative[places[1]])
    start, width = ends[0][wide], (ends[1] - ends[0])[wide]
    for k, level in enumerate(ndtr(knots)):
        heights[k] += weights[wide] @ np.clip((level - start) / width, 0.0, 1.0)
    return _level_map(knots, heights, float(weights.sum()), levels, scale, tails)


def fit_counts(
    counts: Floats, edges: Floats, levels: Floats, *, normal: bool, shape: Shape, scale: ForecastScale, tails: Tails
) -> LevelMap:
    """Fit R to ``counts (b,)`` of outcomes between normal scores ``edges (b + 1,)``. O(b + knots).

    Within a bin, outcomes are as in the normal distribution of normal scores that the counts make most likely: if they
    were spread evenly over its levels, forecasts that are too narrow would stay so beyond their outermost quantiles.
    One row of a calibrated forecast is added.
    """
    knots = _knots(shape, normal)
    mean, spread = _likely_normal(counts, edges)
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    heights = interpolate(ndtr((knots - mean) / spread), ndtr((edges - mean) / spread), sums)
    return _level_map(knots, heights, float(counts.sum()), levels, scale, tails)


def _likely_normal(counts: Floats, edges: Floats) -> tuple[float, float]:
    """Return the mean and the standard deviation; a weak prior keeps both near 0 and 1 if counts are few."""

    def loss(at: Floats) -> float:
        expected = np.maximum(np.diff(ndtr((edges - at[0]) * np.exp(-at[1]))), 1e-300)
        return float(0.5 * at @ at - counts @ np.log(expected))

    from scipy.optimize import minimize  # takes a tenth of a second to import

    optimum = minimize(loss, np.zeros(2), method="L-BFGS-B", bounds=[(-8.0, 8.0), (-4.0, 4.0)]).x
    return float(optimum[0]), float(np.exp(optimum[1]))


def _knots(shape: Shape, normal: bool) -> Floats:
    below = np.array(_BELOW[shape])
    if not normal:
        below = np.append(_OUTERMOST, below[below > _OUTERMOST])
    return np.concatenate([below, [0.0], -below[::-1]])


def _level_map(
    knots: Floats, heights: Floats, rows: float, levels: Floats, scale: ForecastScale, tails: Tails
) -> LevelMap:
    """Return the map with one row of a calibrated forecast added to the ``heights``, which are sums of weights."""
    heights = (heights + ndtr(knots)) / (rows + 1.0)
    # far in the upper tail the added row is lost to rounding
    rises = np.append(True, np.diff(heights) > 0.0)
    return LevelMap(knots[rises], heights[rises], levels, scale, tails)
