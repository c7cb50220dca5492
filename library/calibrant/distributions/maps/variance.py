"""Maps of the predicted variance: one factor, a line, and isotonic regression of variances or standard deviations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import scipy

from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument, OnePrediction
from calibrant.distributions.forecasts import Forecasts
from calibrant.distributions.maps.tables import normal_of
from calibrant.maps.curves import interpolate
from calibrant.maps.parameters import Parameter, ParameterChoice, Parametric

#: Rows that an isotonic map pools at least: a block of a few small errors would predict a variance near 0.
LEAST_ROWS = 20.0
#: The smallest and largest variance of a result, so that it and its inverse are finite.
_LEAST, _MOST = 1e-300, 1e300


@dataclass(frozen=True)
class VarianceLine(Parametric):
    """The variance becomes factor * variance + offset; the mean stays."""

    family: ClassVar[str] = "variance-line"
    formula: ClassVar[str] = "variance factor v + offset"
    factor: Annotated[float, Parameter("factor of the variance", low=0.0)]
    offset: Annotated[float, Parameter("added to the variance", low=0.0)] = 0.0

    def __call__(self, forecasts: Forecasts) -> Forecasts:
        """Return normal forecasts with the new variances. O(n)."""
        return with_variance(forecasts, self.factor * forecasts.variance + self.offset)

    def check(self) -> None:
        """Raise ``InvalidDocument`` if the variance is 0."""
        if self.factor == 0.0 and self.offset == 0.0:
            raise InvalidDocument.at("/parameters/offset", "must be above 0 if the factor is 0")


@dataclass(frozen=True)
class VarianceCurve(Parametric):
    """The variance, or the standard deviation, is interpolated between ``thresholds (t,)``, constant outside them."""

    family: ClassVar[str] = "variance-curve"
    formula: ClassVar[str] = (
        "linear from thresholds to heights, constant outside: the variance at v, or if of is std, the standard "
        "deviation at sqrt(v)"
    )
    of: Annotated[Literal["variance", "std"], ParameterChoice("what the curve maps", choices=("variance", "std"))]
    thresholds: Annotated[
        Floats, Parameter("predicted values between which it is linear", "", "t", 0.0, order="increasing")
    ]
    heights: Annotated[Floats, Parameter("calibrated values there", shape="t", low=0.0)]

    def __call__(self, forecasts: Forecasts) -> Forecasts:
        """Return normal forecasts with the new variances. O(n log t)."""
        variance = forecasts.variance
        if self.of == "variance":
            return with_variance(forecasts, interpolate(variance, self.thresholds, self.heights))
        return with_variance(forecasts, interpolate(np.sqrt(variance), self.thresholds, self.heights) ** 2)

    def check(self) -> None:
        """Raise ``InvalidDocument`` if the heights fall or the variance is 0."""
        if self.heights[0] <= 0.0 or np.any(np.diff(self.heights) < 0.0):
            raise InvalidDocument.at("/parameters/heights", "must be above 0 and must not decrease")


def with_variance(forecasts: Forecasts, variance: Floats) -> Forecasts:
    """Return normal forecasts with the same means."""
    return normal_of(forecasts.mean, np.clip(variance, _LEAST, _MOST))


# --- Fits


def fit_scaling(forecasts: Forecasts, y: Floats, share: Floats) -> VarianceLine:
    """Fit the factor that minimises the Dawid-Sebastiani score: the mean squared standardised error. O(n)."""
    return VarianceLine(_positive(float(share @ ((y - forecasts.mean) ** 2 / forecasts.variance))))


def fit_platt(forecasts: Forecasts, y: Floats, share: Floats) -> VarianceLine:
    """Fit factor and offset, both at least 0, by the Dawid-Sebastiani score. O(n) for each of some 80 evaluations.

    Gruber & Buettner (2022), appendix G.5, with w and b real there: negative ones can predict negative variances. With
    the part f of the offset fixed, the variance is t ((1 - f) v / mean(v) + f), and the best t is the mean of the
    squared errors over the bracket; the score that is left is minimised over f in [0, 1].
    """
    squares, scale = (y - forecasts.mean) ** 2, float(share @ forecasts.variance)
    if not 0.0 < scale < np.inf:  # the mean of the smallest or the largest doubles
        scale = float(forecasts.variance.max())
    v = forecasts.variance / scale

    def score(f: float) -> float:
        u = (1.0 - f) * v + f
        return float(np.log(share @ (squares / u)) + share @ np.log(u))

    _positive(float(share @ squares))
    tried = np.concatenate([[0.0], np.geomspace(1e-6, 0.5, 16), 1.0 - np.geomspace(1e-6, 0.5, 16)[-2::-1], [1.0]])
    scores = [score(f) for f in tried]
    best = int(np.argmin(scores))
    low, high = tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)]
    refined = scipy.optimize.minimize_scalar(score, bounds=(low, high), method="bounded", options={"xatol": 1e-12})
    f = float(refined.x) if refined.fun < scores[best] else float(tried[best])
    level = float(share @ (squares / ((1.0 - f) * v + f)))
    factor = level * (1.0 - f) / scale
    return VarianceLine(factor if factor == 0.0 else _positive(factor), level * f)


def fit_isotonic(forecasts: Forecasts, y: Floats, weights: Floats, of: Literal["variance", "std"]) -> VarianceCurve:
    """Fit isotonic regression of squared errors on variances, or of absolute errors on standard deviations.

    Squared errors: the minimiser of the Dawid-Sebastiani score among increasing maps. Absolute errors: times
    sqrt(pi / 2), the standard deviation of a normal variable over its mean absolute deviation. Rows with neighbouring
    predictions are first pooled into cells of at least ``LEAST_ROWS``. O(n log n).
    """
    error = y - forecasts.mean
    x = forecasts.variance if of == "variance" else np.sqrt(forecasts.variance)
    target = error * error if of == "variance" else np.abs(error) * np.sqrt(np.pi / 2.0)
    distinct, place = np.unique(x, return_inverse=True)
    mass, total = np.bincount(place, weights), np.bincount(place, weights * target)
    cumulative = np.cumsum(mass)
    starts = [0]
    while starts[-1] < len(distinct):
        reached = cumulative[starts[-1] - 1] if starts[-1] else 0.0
        starts.append(int(np.searchsorted(cumulative, reached + LEAST_ROWS * (1.0 - 1e-9))) + 1)
    del starts[-1]
    if len(starts) > 1 and cumulative[-1] - cumulative[starts[-1] - 1] < LEAST_ROWS * (1.0 - 1e-9):
        del starts[-1]  # the last cell is too small and joins the one before
    if len(distinct) == 1:
        raise OnePrediction.at("/variance", "are all equal: use variance-scaling")
    cells = np.add.reduceat(mass, starts)
    means = np.add.reduceat(total, starts) / cells
    centres = np.add.reduceat(mass * distinct, starts) / cells
    heights = scipy.optimize.isotonic_regression(means, weights=cells).x
    _positive(float(heights[-1]))
    heights = np.maximum(heights, heights[heights > 0.0][0] if heights[0] <= 0.0 else heights[0])
    differs = heights[1:] != heights[:-1]
    corners = np.concatenate(([True], differs)) | np.concatenate((differs, [True]))
    return VarianceCurve(of, centres[corners], heights[corners])


def _positive(value: float) -> float:
    if not _LEAST < value < _MOST:
        raise OnePrediction.at("/observed", "equal the predicted means up to rounding, or differ beyond all scale")
    return value
