"""Proper scores of predictive distributions, one value per row; smaller is better."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import erf, ndtr

from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption
from calibrant.distributions.forecasts import Forecasts

#: Numbers that are processed at once, so that they fit in the processor cache.
_BLOCK = 1 << 16
_ROOT_PI = float(np.sqrt(np.pi))
_ROOT_TWO_PI = float(np.sqrt(2.0 * np.pi))
_ROOT_TWO = float(np.sqrt(2.0))
#: How far two levels may be from symmetry.
_SYMMETRY = 1e-9


def _blocks(n: int, columns: int = 1) -> Iterator[slice]:
    height = max(1, _BLOCK // columns)
    for start in range(0, n, height):
        yield slice(start, start + height)


def _density(z: Floats) -> Floats:
    return np.exp(-0.5 * z * z) / _ROOT_TWO_PI


# --- Scores of the mean and the variance


def moments(forecasts: Forecasts) -> tuple[Floats, Floats]:
    """Return the mean and the variance of each row: given, or those of its samples (with S - 1)."""
    if forecasts.kind == "normal":
        return forecasts.mean, forecasts.variance
    if forecasts.kind != "samples":
        raise InvalidOption.at("/measures", "need mean and variance, or samples")
    if forecasts.samples.shape[1] < 2:
        raise InvalidOption.at("/samples", "has one sample per row, but a variance needs two")
    variance = forecasts.samples.var(axis=1, ddof=1)
    return forecasts.samples.mean(axis=1), variance


def dawid_sebastiani(forecasts: Forecasts, y: Floats) -> Floats:
    """Return (y - mean)^2 / variance + ln variance (Dawid & Sebastiani 1999); infinite for a variance of 0. O(n)."""
    mean, variance = moments(forecasts)
    scores = np.empty(len(y))
    with np.errstate(divide="ignore", invalid="ignore"):
        for rows in _blocks(len(y)):
            off = y[rows] - mean[rows]
            off *= off
            off /= variance[rows]
            np.log(variance[rows], out=scores[rows])
            scores[rows] += off
    certain = variance == 0.0
    scores[certain] = np.where(y[certain] == mean[certain], -np.inf, np.inf)
    return scores


def log_score(forecasts: Forecasts, y: Floats) -> Floats:
    """Return minus the log density of normal distributions, in nats. O(n)."""
    if forecasts.kind != "normal":
        raise InvalidOption.at("/measures", "log-score needs mean and variance: other forecasts have no density")
    scores = dawid_sebastiani(forecasts, y)
    scores += np.log(2.0 * np.pi)
    scores *= 0.5
    return scores


def point(forecasts: Forecasts, kind: str) -> Floats:
    """Return the ``mean`` or ``median`` of each row as a point forecast."""
    if kind == "mean" and forecasts.kind in ("normal", "samples"):
        return forecasts.mean if forecasts.kind == "normal" else np.asarray(forecasts.samples.mean(axis=1))
    if forecasts.kind == "interval":
        return 0.5 * (forecasts.lower + forecasts.upper)
    if forecasts.kind == "normal":
        return forecasts.mean
    return forecasts.quantile(np.array([0.5]))[:, 0]


# --- The continuous ranked probability score


def crps(forecasts: Forecasts, y: Floats, *, fair: bool = False) -> Floats:
    """Return the CRPS of each row, in the unit of the outcome.

    Of normal distributions it is in closed form (Gneiting & Raftery 2007, equation 20). Of S samples it is that of
    their empirical distribution, or with ``fair`` the unbiased estimate for the distribution that they are drawn from
    (Ferro 2014). Of quantiles it is an approximation, twice the mean pinball loss. O(n), O(n S log S) or O(n Q).
    """
    if forecasts.kind == "quantiles":
        return _twice_mean_pinball(forecasts.quantiles, forecasts.levels, y)
    if forecasts.kind == "samples":
        return _crps_of_samples(forecasts.samples, y, fair)
    if forecasts.kind == "interval":
        raise InvalidOption.at("/measures", "crps needs more than one interval")
    scores = np.empty(len(y))
    for rows in _blocks(len(y)):
        scale = np.sqrt(forecasts.variance[rows])
        z = y[rows] - forecasts.mean[rows]
        z /= scale * _ROOT_TWO
        own = erf(z)
        own *= z
        np.multiply(z, z, out=z)
        np.negative(z, out=z)
        np.exp(z, out=z)
        z -= 1.0 / _ROOT_TWO
        z /= _ROOT_PI
        own += z
        own *= scale
        own *= _ROOT_TWO
        scores[rows] = own
    return scores


def _crps_of_samples(samples: Floats, y: Floats, fair: bool) -> Floats:
    n, S = samples.shape
    if fair and S < 2:
        raise InvalidOption.at("/samples", "has one sample per row, but the fair CRPS needs two")
    rank = 2.0 * np.arange(1, S + 1) - S - 1.0
    scores = np.empty(n)
    for rows in _blocks(n, S):
        ordered = np.sort(samples[rows], axis=1)
        apart = np.abs(ordered - y[rows, None]).mean(axis=1)
        # Sum of |x_i - x_j| over pairs i < j; the middle is subtracted to avoid cancellation.
        spread = (ordered - ordered[:, [S // 2]]) @ rank
        scores[rows] = apart - spread / (S * (S - 1.0 if fair else S))
    return scores


def threshold_weighted_crps(forecasts: Forecasts, y: Floats, *, low: float = -np.inf, high: float = np.inf) -> Floats:
    """Return the CRPS integrated over thresholds from ``low`` to ``high`` alone (Gneiting & Ranjan 2011).

    It is the CRPS after forecasts and outcomes are clipped to [low, high]. O(n), O(n S log S) or O(n Q).
    """
    if not low < high:
        raise InvalidOption.at("/measures", "low must be below high")
    if forecasts.kind == "samples":
        return _crps_of_samples(np.clip(forecasts.samples, low, high), np.clip(y, low, high), False)
    if forecasts.kind == "quantiles":
        return _twice_mean_pinball(np.clip(forecasts.quantiles, low, high), forecasts.levels, np.clip(y, low, high))
    if forecasts.kind == "interval":
        raise InvalidOption.at("/measures", "threshold-weighted-crps needs more than one interval")
    scores = np.empty(len(y))
    for rows in _blocks(len(y)):
        mean, scale = forecasts.mean[rows], np.sqrt(forecasts.variance[rows])
        first, last = (low - mean) / scale, (high - mean) / scale
        z = np.clip((y[rows] - mean) / scale, first, last)
        scores[rows] = scale * (_below(z) - _below(first) + _below(-z) - _below(-last))
    return np.maximum(scores, 0.0)


def _below(z: Floats) -> Floats:
    """Return the integral of the squared standard normal distribution function up to z."""
    finite = np.where(np.isfinite(z), z, 0.0)
    p = ndtr(finite)
    integral = finite * p * p + 2.0 * _density(finite) * p - ndtr(_ROOT_TWO * finite) / _ROOT_PI
    return np.where(z == -np.inf, 0.0, integral)


# --- Quantiles and intervals


def pinball(forecasts: Forecasts, y: Floats) -> Floats:
    """Return the pinball loss (1{y < q} - tau) (q - y) of each quantile, ``(n, Q)``. O(n Q)."""
    if forecasts.kind != "quantiles":
        raise InvalidOption.at("/measures", "pinball needs quantiles")
    return _pinball(forecasts.quantiles, forecasts.levels, y)


def _pinball(quantiles: Floats, levels: Floats, y: Floats) -> Floats:
    losses = np.empty(quantiles.shape)
    for rows in _blocks(len(y), len(levels)):
        off = y[rows, None] - quantiles[rows]
        np.multiply(off, levels, out=losses[rows])
        losses[rows] -= np.minimum(off, 0.0)
    return losses


def _twice_mean_pinball(quantiles: Floats, levels: Floats, y: Floats) -> Floats:
    losses = np.empty(len(y))
    share = 2.0 / len(levels)
    size, tilt = np.full(len(levels), 0.5 * share), share * (0.5 - levels)
    for rows, off in _distances(quantiles, y):
        np.dot(off, tilt, out=losses[rows])
        losses[rows] += np.dot(np.abs(off, out=off), size)
    return losses


def _distances(quantiles: Floats, y: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of rows with quantile minus outcome."""
    for rows in _blocks(len(y), quantiles.shape[1]):
        own = quantiles[rows]
        # Faster than a difference with a column, whose inner loops have only Q numbers.
        off = np.repeat(y[rows], own.shape[1]).reshape(own.shape)
        yield rows, np.subtract(own, off, out=off)


def weighted_interval(forecasts: Forecasts, y: Floats) -> dict[str, Floats]:
    """Return the weighted interval score of each row and its parts (Bracher et al. 2021).

    With K central intervals and the median it is the sum of the pinball losses over K + 1/2, and the sum of
    ``dispersion``, ``underprediction`` (the outcome is above) and ``overprediction``. Raises ``InvalidOption`` unless
    the levels are symmetric and contain 1/2. O(n Q).
    """
    if forecasts.kind != "quantiles":
        raise InvalidOption.at("/measures", "weighted-interval-score needs quantiles")
    levels = forecasts.levels
    K = len(levels) // 2
    if len(levels) % 2 == 0 or np.abs(levels + levels[::-1] - 1.0).max() > _SYMMETRY:
        raise InvalidOption.at("/levels", "must be symmetric around 0.5 and contain it; use quantile-score")
    share = 1.0 / (K + 0.5)
    width, side, size = np.zeros(len(levels)), np.zeros(len(levels)), np.full(len(levels), 0.5 * share)
    width[:K], width[K + 1 :] = -share * levels[:K], share * levels[:K][::-1]
    side[:K], side[K + 1 :] = 0.5 * share, -0.5 * share
    score, dispersion, underprediction, overprediction = np.empty((4, len(y)))
    for rows, off in _distances(forecasts.quantiles, y):
        above = off[:, K] < 0.0
        np.dot(off, width, out=dispersion[rows])
        penalty = np.dot(off, side)
        # The positive part of x is (x + |x|) / 2, and an absolute value is faster than a maximum.
        penalty += np.dot(np.abs(off, out=off), size)
        np.maximum(penalty, 0.0, out=penalty)
        np.add(dispersion[rows], penalty, out=score[rows])
        # Quantiles ascend, so that an outcome above the median is below no quantile of a lower level.
        np.multiply(penalty, above, out=underprediction[rows])
        np.subtract(penalty, underprediction[rows], out=overprediction[rows])
    return {
        "score": score,
        "dispersion": dispersion,
        "underprediction": underprediction,
        "overprediction": overprediction,
    }


def interval_score(forecasts: Forecasts, y: Floats, *, level: float) -> Floats:
    """Return the interval score of the central interval of this level (Winkler 1972; Gneiting & Raftery 2007).

    It is the width plus 2 / (1 - level) times the distance of the outcome from the interval. O(n).
    """
    low, high = central(forecasts, level)
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return high - low + 2.0 / (1.0 - level) * outside


def level_of(forecasts: Forecasts) -> float:
    """Return the level of intervals, 0.9, or of quantiles without these levels that of the widest central interval."""
    if forecasts.kind != "quantiles":
        return forecasts.level if forecasts.kind == "interval" else 0.9
    levels = forecasts.levels
    known = [
        float(high - low) for low in levels for high in levels if abs(low + high - 1.0) <= _SYMMETRY and low < high
    ]
    if not known:
        raise InvalidOption.at("/levels", "have no two that are symmetric around 0.5")
    return next((level for level in known if abs(level - 0.9) <= 2.0 * _SYMMETRY), max(known))


def central(forecasts: Forecasts, level: float) -> tuple[Floats, Floats]:
    """Return the ends of the central interval of this level; raise ``InvalidOption`` if they are not declared."""
    if forecasts.kind == "interval":
        if abs(forecasts.level - level) > _SYMMETRY:
            raise InvalidOption.at("/measures", f"the level of the intervals is {forecasts.level:g}, not {level:g}")
        return forecasts.lower, forecasts.upper
    ends = np.array([1.0 - level, 1.0 + level]) / 2.0
    if forecasts.kind == "quantiles":
        at = [int(np.abs(forecasts.levels - end).argmin()) for end in ends]
        if np.abs(forecasts.levels[at] - ends).max() > _SYMMETRY:
            raise InvalidOption.at("/measures", f"the levels do not contain {ends[0]:g} and {ends[1]:g}")
        return forecasts.quantiles[:, at[0]], forecasts.quantiles[:, at[1]]
    table = forecasts.quantile(ends)
    return table[:, 0], table[:, 1]
