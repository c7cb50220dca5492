"""Scales on which forecasts are shifted and widened, quantiles between and beyond the given levels, and the PIT.

Quantiles are linear in the level between the given levels. Beyond the outermost level they continue as those of a
normal distribution through the median and the outermost quantile (``normal``), or stay constant (``flat``). Levels are
passed as normal scores, so that far tails keep their precision.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import numpy as np
from scipy.special import ndtr, ndtri

from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.choices import ForecastKind
from calibrant.core.choices import ForecastScale as ForecastScale
from calibrant.core.errors import InvalidOption, OutOfRange
from calibrant.maps.parameters import ParameterChoice

Tails = Literal["normal", "flat"]
SCALES: tuple[ForecastScale, ...] = get_args(ForecastScale)
TAILS: tuple[Tails, ...] = get_args(Tails)
#: The scale as a parameter of maps.
ScaleParameter = Annotated[ForecastScale, ParameterChoice("scale g on which quantiles are moved", choices=SCALES)]
#: Levels of the predicted quantiles if none are given: the 23 of the forecast hubs of COVID-19 and influenza.
LEVELS = (0.01, 0.025, *(round(0.05 * i, 2) for i in range(1, 20)), 0.975, 0.99)


def check_scale(scale: Any, kind: ForecastKind | None = None) -> None:
    """Raise ``InvalidOption`` for what is not a scale, or not one of forecasts of this kind."""
    if scale not in SCALES:
        raise InvalidOption.at("/scale", f"must be one of: {', '.join(SCALES)}")
    if scale != "identity" and kind == "normal":
        raise InvalidOption.at("/scale", "must be identity for mean and variance")


def forward(x: Floats, scale: ForecastScale, field: str = "observed") -> Floats:
    """Return x on the scale; raise ``OutOfRange`` for ``log1p`` of numbers at or below -1."""
    if scale == "identity":
        return x
    if len(x) and float(x.min()) <= -1.0:
        row = int(np.flatnonzero((x <= -1.0).reshape(len(x), -1).any(axis=1))[0])
        raise OutOfRange.at(f"/{field}/{row}", "must be above -1 for the scale log1p")
    return np.log1p(x)


def backward(g: Floats, scale: ForecastScale) -> Floats:
    """Return the numbers whose values on the scale are ``g``."""
    if scale == "identity":
        return g
    with np.errstate(over="ignore"):
        return np.expm1(g)


def median_of(q: Floats, levels: Floats) -> Floats:
    """Return the medians ``(n,)`` of quantiles ``(n, Q)``, linear in the level; of one side only, the nearest."""
    return quantiles_at(q, levels, np.zeros(1), "flat")[:, 0]


def quantiles_at(q: Floats, levels: Floats, z: Floats, tails: Tails) -> Floats:
    """Return the quantiles ``(n, len(z))`` at the levels whose normal scores are ``z``. O(n len(z))."""
    new = ndtr(z)
    if len(levels) == 1:
        quantiles = np.repeat(q, len(new), axis=1)
    else:
        right = np.clip(np.searchsorted(levels, new), 1, len(levels) - 1)
        left = right - 1
        share = np.clip((new - levels[left]) / (levels[right] - levels[left]), 0.0, 1.0)
        quantiles = q[:, left] + share * (q[:, right] - q[:, left])
    if tails == "flat":
        return quantiles
    for end, beyond in ((0, np.flatnonzero(new < levels[0])), (-1, np.flatnonzero(new > levels[-1]))):
        if len(beyond) and (outer := float(ndtri(levels[end]))) != 0.0:
            slope = np.maximum((q[:, end] - median_of(q, levels)) / outer, 0.0)
            quantiles[:, beyond] = q[:, end, None] + slope[:, None] * (z[beyond] - outer)
    return quantiles


def scores_of(q: Floats, levels: Floats, y: Floats, tails: Tails) -> tuple[Floats, Floats]:
    """Return the normal scores of F(y-) and F(y) ``(n,)`` of quantiles; they differ where quantiles are tied. O(n Q).

    Outcomes beyond all quantiles have infinite scores.
    """
    counts = (q < y[:, None]).sum(axis=1), (q <= y[:, None]).sum(axis=1)
    return _score(q, levels, y, tails, counts[0]), _score(q, levels, y, tails, counts[1])


def _score(q: Floats, levels: Floats, y: Floats, tails: Tails, below: Integers) -> Floats:
    rows, Q = np.arange(len(y)), len(levels)
    right = np.clip(below, 1, Q - 1) if Q > 1 else np.zeros(len(y), np.intp)
    left = np.maximum(right - 1, 0)
    width = q[rows, right] - q[rows, left]
    share = np.where(width > 0.0, (y - q[rows, left]) / np.where(width > 0.0, width, 1.0), 0.0)
    scores: Floats = ndtri(levels[left] + np.clip(share, 0.0, 1.0) * (levels[right] - levels[left]))
    for end, outside, far in ((0, below == 0, -np.inf), (-1, below == Q, np.inf)):
        scores[outside] = far
        z = float(ndtri(levels[end]))
        if tails == "normal" and z != 0.0:
            slope = (q[outside, end] - median_of(q[outside], levels)) / z
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                continued = z + (y[outside] - q[outside, end]) / slope
            scores[outside] = np.where(slope > 0.0, continued, far)
    return scores
