"""Decompositions of mean scores into miscalibration, discrimination and uncertainty.

The score is miscalibration - discrimination + uncertainty: with the score of recalibrated forecasts R and that of the
best constant forecast U, miscalibration is score - R and discrimination U - R.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy

from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption
from calibrant.distributions import scores
from calibrant.distributions.forecasts import Forecasts
from calibrant.distributions.maps.tables import normal_of
from calibrant.distributions.maps.variance import fit_platt

#: Thresholds at which the CRPS is decomposed.
THRESHOLDS = 256
#: Steps of the fit of a normal recalibration, and the relative gain at which it ends.
_STEPS, _TOLERANCE = 200, 1e-11


@dataclass(frozen=True)
class ScoreParts:
    """The parts of a mean score, which is ``miscalibration - discrimination + uncertainty``."""

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float

    @classmethod
    def of(cls, score: float, recalibrated: float, constant: float) -> ScoreParts:
        """Return the parts, given the scores of recalibrated forecasts and of the best constant forecast."""
        return cls(score, score - recalibrated, constant - recalibrated, constant)


# --- The CRPS


def crps_by_thresholds(forecasts: Forecasts, y: Floats, w: Floats) -> ScoreParts:
    """Decompose the CRPS of normal forecasts or samples as the integral of Brier scores over thresholds.

    At a threshold z, P(Y <= z) is recalibrated by isotonic regression (Arnold et al. 2024, section 2; Dimitriadis,
    Gneiting & Jordan 2021). The score and the uncertainty are exact. The discrimination is summed over at most
    ``THRESHOLDS`` intervals between outcomes, by their midpoints; beyond the outcomes it is 0. O(n log n) for each
    threshold, times S for samples.
    """
    share = w / w.sum()
    order = np.argsort(y, kind="stable")
    ordered, below = y[order], np.cumsum(share[order])
    gaps = np.diff(ordered)
    uncertainty = float(gaps @ (below[:-1] * (1.0 - below[:-1])))
    distinct = np.unique(y)
    at = np.unique(np.linspace(0, len(distinct) - 1, THRESHOLDS + 1).round().astype(int))
    ends = distinct[at]
    discrimination = 0.0
    for low, high in pairwise(ends.tolist()):
        threshold = 0.5 * low + 0.5 * high
        happened = (y <= threshold).astype(float)
        rate = float(share @ happened)
        fitted = _isotonic(forecasts.cdf(np.full(len(y), threshold)), happened, share)
        # The decrease of the Brier score from the constant rate to isotonic regression is this variance.
        discrimination += (high - low) * float(share @ (fitted - rate) ** 2)
    score = float(share @ scores.crps(forecasts, y))
    return ScoreParts.of(score, uncertainty - discrimination, uncertainty)


def _isotonic(x: Floats, y: Floats, w: Floats) -> Floats:
    """Return the isotonic regression of y on x for each row; equal x have equal values. O(n log n)."""
    distinct, place = np.unique(x, return_inverse=True)
    mass = np.bincount(place, w, len(distinct))
    means = np.bincount(place, w * y, len(distinct)) / mass
    return np.asarray(scipy.optimize.isotonic_regression(means, weights=mass).x[place])


# --- The quantile score


def by_levels(forecasts: Forecasts, y: Floats, w: Floats) -> list[ScoreParts]:
    """Decompose the pinball loss of each level by isotonic quantile regression (Gneiting et al. 2023). O(n Q log n)."""
    share = w / w.sum()
    of_levels = []
    order = np.argsort(y, kind="stable")
    below = np.cumsum(share[order])
    for level, q in zip(forecasts.levels.tolist(), forecasts.quantiles.T, strict=True):
        constant = y[order[min(int(np.searchsorted(below, level)), len(y) - 1)]]
        fitted = isotonic_quantiles(q, y, share, level)
        losses = [float(share @ _pinball(predicted, y, level)) for predicted in (q, fitted, np.full(len(y), constant))]
        of_levels.append(ScoreParts.of(*losses))
    return of_levels


def _pinball(q: Floats, y: Floats, level: float) -> Floats:
    return np.asarray(((y < q) - level) * (q - y))


def isotonic_quantiles(x: Floats, y: Floats, w: Floats, level: float) -> Floats:
    """Return the increasing function of ``x (n,)`` with the least pinball loss, at each row.

    Between two neighbouring outcomes the loss is linear, so the rows with a value above them are those from a point on,
    which the sums of slopes determine. All segments are bisected together, by outcomes. O(n log n).
    """
    order = np.lexsort((y, x))
    values, rank = np.unique(y[order], return_inverse=True)
    weights, n = w[order], len(y)
    new = np.append(True, np.diff(x[order]) > 0.0)
    low, high = np.zeros(n, np.int64), np.full(n, len(values) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        slope = weights * ((rank <= middle) - level)
        before = np.concatenate([[0.0], np.cumsum(slope)[:-1]])
        starts = np.flatnonzero(np.append(True, np.diff(low) != 0))
        segment = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n)))
        ends = np.append(starts[1:], n)
        total = np.append(before, before[-1] + slope[-1])[ends]
        # Rows from k on take the larger values, where the sum of slopes from k on is least: the sum before k greatest.
        candidates = np.where(new, before, -np.inf)
        most = np.maximum.reduceat(candidates, starts)
        places = np.where(candidates == most[segment], np.arange(n), n)
        first = np.minimum.reduceat(places, starts)
        cut = np.where(total >= most, ends, first)
        upper = np.arange(n) >= cut[segment]
        open_ = low < high
        low = np.where(open_ & upper, middle + 1, low)
        high = np.where(open_ & ~upper, middle, high)
    fitted = np.empty(n)
    fitted[order] = values[low]
    return fitted


# --- Scores of mean and variance


def normal_score(forecasts: Forecasts, y: Floats, w: Floats, name: str) -> ScoreParts:
    """Decompose the log score or the Dawid-Sebastiani score by a recalibration of mean and variance.

    Recalibrated forecasts have the mean a + b m and the variance w v + c, with b, w and c at least 0, that minimise the
    score. As these include the forecasts themselves and the best constant forecast, no part is negative. O(n) for each
    step of the fit.
    """
    share = w / w.sum()
    mean, variance = scores.moments(forecasts)
    constant = _constant(y, share)
    normal = normal_of(mean, variance)
    if not variance.all():
        raise InvalidOption.at("/samples", "has rows whose samples are all equal, so that no score is finite")
    score, least = (float(share @ scores.dawid_sebastiani(predicted, y)) for predicted in (normal, constant))
    best = min(_recalibrated(start, normal, y, share) for start in (normal, constant))
    parts = ScoreParts.of(score, min(best, score, least), least)
    if name == "dawid-sebastiani":
        return parts
    half, offset = 0.5, 0.5 * float(np.log(2.0 * np.pi))
    return ScoreParts(
        half * parts.score + offset,
        half * parts.miscalibration,
        half * parts.discrimination,
        half * parts.uncertainty + offset,
    )


def _constant(y: Floats, share: Floats) -> Forecasts:
    mean = float(share @ y)
    variance = float(share @ (y - mean) ** 2)
    if not variance > 0.0:
        raise InvalidOption.at("/observed", "are all equal, so that the best constant forecast has no finite score")
    return normal_of(np.full(len(y), mean), np.full(len(y), variance))


def _recalibrated(start: Forecasts, normal: Forecasts, y: Floats, share: Floats) -> float:
    """Return the least Dawid-Sebastiani score, fitting the line of means and that of variances in turn."""
    variance, last = start.variance, np.inf
    for _ in range(_STEPS):
        weight = share / variance
        weight = weight / weight.sum()
        x = normal.mean - weight @ normal.mean
        spread = float(weight @ (x * x))
        b = max(float(weight @ (x * y)) / spread, 0.0) if spread > 0.0 else 0.0
        mean = weight @ y + b * x
        variance = fit_platt(normal_of(mean, normal.variance), y, share)(normal_of(mean, normal.variance)).variance
        score = float(share @ scores.dawid_sebastiani(normal_of(mean, variance), y))
        if last - score <= _TOLERANCE * (1.0 + abs(score)):
            return min(score, last)
        last = score
    return last


def decomposed(forecasts: Forecasts, y: Floats, w: Floats, score: str) -> tuple[ScoreParts, dict[str, Any]]:
    """Return the parts of a mean score, and for quantiles those of each level."""
    if score in ("log-score", "dawid-sebastiani"):
        if forecasts.kind != "normal" and score == "log-score":
            raise InvalidOption.at("/measures", "log-score needs mean and variance: other forecasts have no density")
        return normal_score(forecasts, y, w, score), {}
    if forecasts.kind != "quantiles":
        if score != "crps":
            raise InvalidOption.at("/measures", "quantile-score needs quantiles")
        return crps_by_thresholds(forecasts, y, w), {}
    factor = 2.0 if score == "crps" else 1.0
    levels = by_levels(forecasts, y, w)
    names = ("score", "miscalibration", "discrimination", "uncertainty")
    of_level = {name: [factor * getattr(of_one_level, name) for of_one_level in levels] for name in names}
    parts = ScoreParts(*(float(np.mean(of_level[name])) for name in names))
    return parts, {"levels": forecasts.levels.tolist(), "of_level": of_level}
