"""A shift of the median and a factor of the width, on a declared scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import scipy
from scipy.special import ndtr

from calibrant.core.cells import Floats
from calibrant.distributions.forecasts import Forecasts
from calibrant.distributions.maps.scales import ForecastScale, ScaleParameter, backward, forward, median_of
from calibrant.distributions.maps.tables import QuantileTable, normal_of, table_of
from calibrant.distributions.maps.variance import with_variance
from calibrant.maps.parameters import Parameter, Parametric

# --- Losses of forecasts row by row, with the derivatives that the average of maps needs

_INV_SQRT_PI = 1.0 / np.sqrt(np.pi)


def crps_normal(mean: Floats, sd: Floats, y: Floats) -> Floats:
    """Return the CRPS of normal forecasts ``(n,)``; smaller is better (Gneiting et al. 2005, eq. 5)."""
    z = (y - mean) / sd
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    scores: Floats = sd * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - _INV_SQRT_PI)
    return scores


def crps_normal_slopes(mean: Floats, sd: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the derivatives ``(n,)`` of the CRPS by the mean and by the standard deviation."""
    z = (y - mean) / sd
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return 1.0 - 2.0 * ndtr(z), 2.0 * density - _INV_SQRT_PI


def quantile_score(q: Floats, levels: Floats, y: Floats) -> Floats:
    """Return twice the mean pinball loss over the levels ``(n,)``: the WIS if levels are symmetric with a median."""
    error = y[:, None] - q
    scores: Floats = 2.0 * np.maximum(levels * error, (levels - 1.0) * error).mean(axis=1)
    return scores


def dawid_sebastiani(mean: Floats, variance: Floats, y: Floats) -> Floats:
    """Return the Dawid-Sebastiani score ``(n,)``: squared error over variance, plus log variance."""
    return (y - mean) ** 2 / variance + np.log(variance)


# --- A shift of the median and a factor of the width, on a declared scale

#: Bounds of the logarithm of the factor.
_LOG_FACTOR = 6.0
#: The largest factor of a document, whose square is finite.
_MOST = 1e150


@dataclass(frozen=True)
class LocationScale(Parametric):
    """On the scale g, a quantile q becomes the one at g(median) + shift + factor (g(q) - g(median))."""

    family: ClassVar[str] = "location-scale"
    formula: ClassVar[str] = (
        "g(m) + shift + factor (g(q_t) - g(m)) on the scale; for a mean and variance, mean + shift and factor^2 v"
    )
    shift: Annotated[float, Parameter("added to the median, on the scale")]
    factor: Annotated[float, Parameter("factor of the distances from the median", low=0.0, high=_MOST)]
    scale: ScaleParameter = "identity"

    def __call__(self, forecasts: Forecasts) -> Forecasts:
        """Return forecasts of the same kind, or quantiles if samples were given. O(n Q)."""
        if forecasts.kind == "normal":
            shifted = normal_of(forecasts.mean + self.shift, forecasts.variance)
            return with_variance(shifted, self.factor * self.factor * forecasts.variance)
        table = table_of(forecasts)
        g = forward(table.q, self.scale, "quantiles")
        centre = median_of(g, table.levels)[:, None]
        return table.with_values(backward(centre + self.shift + self.factor * (g - centre), self.scale)).forecasts()


def fit_location_scale(forecasts: Forecasts, y: Floats, share: Floats, scale: ForecastScale) -> LocationScale:
    """Minimise the mean CRPS of normal forecasts, or else the mean quantile score, by shift and log factor.

    A grid of starts, then Nelder and Mead's method. O(n Q) for each of some 150 evaluations.
    """
    if forecasts.kind == "normal":
        sd, error = np.sqrt(forecasts.variance), y - forecasts.mean
        unit = _spread(error, share)

        def loss(shift: float, factor: float) -> float:
            return float(share @ crps_normal(np.full(len(y), shift), factor * sd, error))
    else:
        table: QuantileTable = table_of(forecasts)
        g, levels = forward(table.q, scale, "quantiles"), table.levels
        centre = median_of(g, levels)
        apart, unit = g - centre[:, None], _spread(forward(y, scale) - centre, share)
        centre = centre[:, None]

        def loss(shift: float, factor: float) -> float:
            return float(share @ quantile_score(backward(centre + shift + factor * apart, scale), levels, y))

    shift, factor = _minimised(loss, unit)
    return LocationScale(shift, factor, scale)


def _spread(error: Floats, share: Floats) -> float:
    """Return a unit for the shift: the mean absolute error, or 1 if it is 0."""
    return float(share @ np.abs(error)) or 1.0


def _minimised(loss: Callable[[float, float], float], unit: float) -> tuple[float, float]:
    def objective(x: Floats) -> float:
        value = loss(unit * x[0], float(np.exp(np.clip(x[1], -_LOG_FACTOR, _LOG_FACTOR))))
        return value if np.isfinite(value) else np.inf

    starts = [np.array([a, s]) for s in (-0.7, 0.0, 0.7) for a in (-0.5, 0.0, 0.5)]
    start = min(starts, key=objective)
    simplex = start + np.array([[0.0, 0.0], [0.2, 0.0], [0.0, 0.2]])
    options = {"xatol": 1e-5, "fatol": np.inf, "initial_simplex": simplex, "maxfev": 400}
    x = scipy.optimize.minimize(objective, start, method="Nelder-Mead", options=options).x
    return unit * float(x[0]), float(np.exp(np.clip(x[1], -_LOG_FACTOR, _LOG_FACTOR)))
