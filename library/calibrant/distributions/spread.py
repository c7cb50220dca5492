"""Calibration of predicted variances: by bins, and by a kernel."""

from __future__ import annotations

import numpy as np

from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption, TooFewRows
from calibrant.distributions.forecasts import Forecasts
from calibrant.distributions.scores import moments

#: The most rows of a kernel statistic, and the number of its bootstrap draws.
KERNEL_ROWS, _DRAWS = 4_000, 1_000
_BLOCK = 512


def variance_bins(forecasts: Forecasts, y: Floats, w: Floats | None, n_bins: int) -> dict[str, Floats]:
    """Return bins of about equal mass of the predicted variance: ``mass``, ``predicted`` and ``observed`` variance.

    The observed variance is the mean squared error. Equal predictions are in the same bin. O(n log n).
    """
    mean, variance = moments(forecasts)
    weights = np.ones(len(y)) if w is None else w
    order = np.argsort(variance, kind="stable")
    v, weights = variance[order], weights[order]
    error = (y - mean)[order] ** 2
    running = np.cumsum(weights) - weights
    bin_of = np.minimum((running / weights.sum() * n_bins).astype(int), n_bins - 1)
    first = np.flatnonzero(np.append(True, v[1:] > v[:-1]))
    bin_of = np.repeat(bin_of[first], np.diff(np.append(first, len(v))))  # ties share the bin of the first of them
    mass: Floats = np.bincount(bin_of, weights, n_bins).astype(np.float64)
    filled = mass > 0.0
    predicted = np.bincount(bin_of, weights * v, n_bins)[filled] / mass[filled]
    observed = np.bincount(bin_of, weights * error, n_bins)[filled] / mass[filled]
    return {"mass": mass[filled], "predicted": predicted, "observed": observed}


def expected_normalised_error(bins: dict[str, Floats]) -> float:
    """Return the ENCE (Levi et al. 2022), the mean of |sqrt(predicted) - sqrt(observed)| / sqrt(predicted)."""
    predicted, observed = np.sqrt(bins["predicted"]), np.sqrt(bins["observed"])
    if not predicted.all():
        raise InvalidOption.at("/variance", "is 0 in a whole bin, so that no relative error exists")
    return float(np.mean(np.abs(predicted - observed) / predicted))


def skce(forecasts: Forecasts, y: Floats, *, seed: int = 0) -> tuple[float, float]:
    """Return the squared kernel calibration error of normal forecasts and its p-value under calibration.

    The unbiased estimator of Widmann et al. (2021): the mean over pairs of exp(-W2 / l) times the outcome kernel
    exp(-(y - y')^2 / (2 l^2)) centred at its expectations under both forecasts, with l the median distance of outcomes
    and W2 the Wasserstein distance of the forecasts. It is about 0 for calibrated forecasts and may be negative. The
    p-value is that of a wild bootstrap of the degenerate statistic. From more than 4,000 rows, 4,000 are drawn. O(n^2).
    """
    if forecasts.kind != "normal":
        raise InvalidOption.at("/measures", "skce needs mean and variance")
    random = np.random.default_rng(seed)
    mean, variance = forecasts.mean, forecasts.variance
    if len(y) > KERNEL_ROWS:
        chosen = np.sort(random.choice(len(y), KERNEL_ROWS, replace=False))
        mean, variance, y = mean[chosen], variance[chosen], y[chosen]
    n = len(y)
    if n < 10:
        raise TooFewRows.at("/observed", "has fewer than 10 rows, which the kernel statistic needs")
    few = random.choice(n, min(n, 1000), replace=False)
    apart = np.abs(y[few, None] - y[few])
    length = float(np.median(apart[apart > 0.0])) if (apart > 0.0).any() else 1.0
    scale, square = np.sqrt(variance), length * length
    signs = random.integers(0, 2, (n, _DRAWS)) * 2.0 - 1.0
    total, drawn = 0.0, np.zeros(_DRAWS)

    def smoothed(distance: Floats, spread: Floats) -> Floats:
        return np.asarray(length / np.sqrt(square + spread) * np.exp(-0.5 * distance**2 / (square + spread)))

    for start in range(0, n, _BLOCK):
        rows = slice(start, start + _BLOCK)
        m, v, s, own = (x[rows, None] for x in (mean, variance, scale, y))
        h = np.exp(-0.5 * (own - y) ** 2 / square)
        h -= smoothed(m - y, v)
        h -= smoothed(own - mean, variance[None, :])
        h += smoothed(m - mean, v + variance)
        h *= np.exp(-np.hypot(m - mean, s - scale) / length)
        h[np.arange(len(h)), np.arange(start, start + len(h))] = 0.0
        total += float(h.sum())
        drawn += np.einsum("ib,ib->b", signs[rows], h @ signs)
    pairs = n * (n - 1.0)
    value = total / pairs
    return value, (1.0 + float(np.count_nonzero(drawn / pairs >= value))) / (1.0 + _DRAWS)
