"""Forecasts in time order: comparisons of two forecasters, and evidence against calibration at any time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from calibrant.core.arrays import array_of
from calibrant.core.batch import read_numbers
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption, LengthMismatch, NotFinite, TooFewRows, WrongShape
from calibrant.core.options import plain, read_seed
from calibrant.core.results import n_rows
from calibrant.distributions.forecasts import Forecasts, read_forecasts, read_observed, refuse
from calibrant.distributions.pit import levels_of, randomised_pit
from calibrant.measures.measure import MeasureResult

#: Levels between which the transforms of continuous distributions are counted, and rows that the prior counts for.
_LEVELS, _PRIOR = np.arange(1, 20) / 20.0, 10.0
#: Ends of the bins of ranks: changes of a few rows, such as outliers, show in the outermost bins first.
_RANKS = np.array([0.002, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.998])
#: The rows that bets remember, and rows of equal weight as the start of bets.
_WINDOWS, _BLOCK = np.array([40.0, 150.0, 600.0, 2500.0]), 1000
#: The largest forecast horizon.
MOST_LAGS = 10_000


def diebold_mariano(first: Any, second: Any, *, lags: int = 0, interval: float = 0.95) -> MeasureResult:
    """Test whether two forecasters have the same expected score (Diebold & Mariano 1995).

    Parameters
    ----------
    first, second : array_like, shape (n,)
        Scores of the same outcomes in time order, such as the CRPS of each row; smaller is better.
    lags : int, default 0
        Autocovariances up to this lag are counted, with Bartlett weights (Newey & West 1987). For forecasts h steps
        ahead, at least h - 1.
    interval : float, default 0.95
        Level of the confidence interval.

    Returns
    -------
    MeasureResult
        The mean of first minus second, which is below 0 if the first is better, its interval and two-sided p-value,
        with the small-sample factor and Student's distribution of Harvey, Leybourne & Newbold (1997).

    Raises
    ------
    CalibrationError
        If an argument is invalid, or there are fewer than lags + 2 rows.

    Notes
    -----
    O(n lags). The p-value is 1 if all differences are 0.

    Examples
    --------
    >>> from calibrant.distributions.streams import diebold_mariano
    >>> found = diebold_mariano([1.0, 1.2, 0.9, 1.1, 1.0], [1.3, 1.4, 1.4, 1.2, 1.5])
    >>> round(found.value, 2), round(found.p_value, 3)
    (-0.32, 0.016)
    """
    a, b = (_scores(values, name) for values, name in ((first, "first"), (second, "second")))
    if len(a) != len(b):
        raise LengthMismatch.at("/second", f"has {n_rows(len(b))}, but /first has {len(a):,}")
    lags, interval = read_lags(lags), plain(interval)
    if not isinstance(interval, float) or not 0.0 < interval < 1.0:
        raise InvalidOption.at("/interval", "must be a number above 0 and below 1")
    n = len(a)
    if n < lags + 2:
        raise TooFewRows.at("/first", f"has {n_rows(n)}, but {lags} lags need at least {lags + 2}")
    off = a - b
    mean = float(off.mean())
    centred = off - mean
    variance = float(centred @ centred) / n
    for lag in range(1, lags + 1):
        variance += 2.0 * (1.0 - lag / (lags + 1.0)) * float(centred[lag:] @ centred[:-lag]) / n
    h = lags + 1
    factor = (n + 1.0 - 2.0 * h + h * (h - 1.0) / n) / n
    error = float(np.sqrt(max(variance, 0.0) / n / max(factor, 1.0 / n)))
    if error == 0.0:
        return MeasureResult(mean, interval=(mean, mean), p_value=1.0 if mean == 0.0 else 0.0)
    half = error * float(stdtrit(n - 1, 0.5 + 0.5 * interval))
    return MeasureResult(
        mean, interval=(mean - half, mean + half), p_value=float(2.0 * stdtr(n - 1, -abs(mean) / error))
    )


def read_lags(lags: Any) -> int:
    """Check a number of lags; raises ``InvalidOption``."""
    number = plain(lags)
    if type(number) is not int or not 0 <= number <= MOST_LAGS:
        raise InvalidOption.at("/lags", f"must be an integer from 0 to {MOST_LAGS}")
    return number


def calibration_evidence(observed: Any, *, horizon: int = 1, seed: int = 0, **forecasts: Any) -> Floats:
    """Return the evidence against calibration after each row, valid at any time.

    Parameters
    ----------
    observed : array_like, shape (n,)
        Outcomes in time order.
    horizon : int, default 1
        Steps ahead of the forecasts. Rows so far apart are independent under calibration, so that the evidence is the
        mean of ``horizon`` interleaved ones (Arnold, Henzi & Ziegel 2023).
    seed : int, default 0
        Seed of the randomised transforms.
    **forecasts
        ``mean`` and ``variance``, ``quantiles`` and ``levels``, ``samples``, or ``lower``, ``upper`` and ``level``.

    Returns
    -------
    ndarray of float64, shape (n,)
        Natural logarithm of the evidence. Under calibration, with horizon 1, the probability that it ever exceeds
        ln(1 / alpha) is at most alpha. With a larger horizon h this holds at any one row, and the probability that it
        ever exceeds ln(h / alpha) is at most alpha.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    Notes
    -----
    Each row bets on the interval between two levels that the transform of the outcome falls into, by the shares seen
    so far with a prior of ten rows. O(n Q).

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.distributions.streams import calibration_evidence
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> good = calibration_evidence(y, mean=np.zeros(500), variance=np.ones(500))
    >>> bad = calibration_evidence(y, mean=np.zeros(500), variance=np.full(500, 4.0))
    >>> bool(good.max() < np.log(20)), bool(bad[-1] > np.log(1000))
    (True, True)
    """
    read_seed(seed)
    checked = read_forecasts(**forecasts)
    y = read_observed(observed, checked)
    if type(horizon) is not int or not 1 <= horizon <= MOST_LAGS:
        raise InvalidOption.at("/horizon", f"must be an integer from 1 to {MOST_LAGS}")
    return against_calibration(checked, y, horizon=horizon, seed=seed)


def against_calibration(forecasts: Forecasts, y: Floats, *, horizon: int, seed: int) -> Floats:
    """Return ``calibration_evidence`` of checked rows."""
    levels = levels_of(forecasts) if forecasts.kind in ("quantiles", "interval") else _LEVELS
    share = np.diff(np.concatenate([[0.0], levels, [1.0]]))
    cell = np.searchsorted(levels, randomised_pit(forecasts, y, seed=seed))
    log_wealth = np.full(len(y), -np.inf)
    for start in range(horizon):
        own = cell[start::horizon]
        before = _seen_before(own, len(share))
        bets = (before + _PRIOR * share[own]) / (np.arange(len(own)) + _PRIOR)
        running = np.concatenate([[0.0], np.cumsum(np.log(bets / share[own]))])
        seen = np.searchsorted(np.arange(start, len(y), horizon), np.arange(len(y)), side="right")
        log_wealth = np.logaddexp(log_wealth, running[seen])
    return np.asarray(log_wealth - np.log(horizon))


def exchangeability_evidence(observed: Any, *, seed: int = 0, **forecasts: Any) -> Floats:
    """Return the evidence after each row that the calibration of forecasts has changed, valid at any time.

    Parameters
    ----------
    observed : array_like, shape (n,)
        Outcomes in time order.
    seed : int, default 0
        Seed of the randomised transforms and ranks.
    **forecasts
        ``mean`` and ``variance``, ``quantiles`` and ``levels``, ``samples``, or ``lower``, ``upper`` and ``level``.

    Returns
    -------
    ndarray of float64, shape (n,)
        Natural logarithm of the evidence. If the transforms are exchangeable, as they are without a change also of
        forecasts that are not calibrated, the probability that it ever exceeds ln(1 / alpha) is at most alpha.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    Notes
    -----
    The rank of each transform among those up to it is uniform and independent of earlier ranks (Vovk, Nouretdinov &
    Gammerman 2003). Each row bets on the bin of its rank, of ten that are finer at the ends, by earlier counts, with
    several rates of forgetting, and a weighted mean over all rows at which the bets may start (Shin, Ramdas & Rinaldo
    2024). O(n) and sorted insertion.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.distributions.streams import exchangeability_evidence
    >>> y = np.random.default_rng(0).normal(size=800)
    >>> wrong = {"mean": np.full(800, 0.5), "variance": np.full(800, 2.0)}
    >>> y[600:] += 2.0
    >>> found = exchangeability_evidence(y, **wrong)
    >>> bool(found[:600].max() < np.log(20)), bool(found.max() > np.log(20))
    (True, True)
    """
    read_seed(seed)
    checked = read_forecasts(**forecasts)
    return against_exchangeability(checked, read_observed(observed, checked), seed=seed)


def against_exchangeability(forecasts: Forecasts, y: Floats, *, seed: int) -> Floats:
    """Return ``exchangeability_evidence`` of checked rows."""
    from scipy.signal import lfilter  # takes a third of a second to import

    width = np.diff(np.concatenate([[0.0], _RANKS, [1.0]]))
    cell = np.searchsorted(_RANKS, _ranks(randomised_pit(forecasts, y, seed=seed), seed))
    t, bins = np.arange(len(y)), np.arange(len(width))[:, None]
    block = t // _BLOCK
    # Starts at row t have the weight 1 / (t (t + 1)) in blocks of _BLOCK rows; those to come count as they are.
    weight = 1.0 / ((block + 1.0) * (block + 2.0) * _BLOCK)
    rest = 1.0 / (block + 1.0) - weight * (t % _BLOCK + 1)
    log_wealth = np.log(rest)
    for window in _WINDOWS:
        keep = 1.0 - 1.0 / window
        counts = lfilter([0.0, 1.0], [1.0, -keep], (cell == bins).astype(np.float64))
        total = (1.0 - keep**t) * window
        bets = np.log((counts[cell, t] / width[cell] + _PRIOR) / (total + _PRIOR))
        capital = np.cumsum(bets)
        started = np.logaddexp.accumulate(np.log(weight) - capital + bets) + capital
        log_wealth = np.logaddexp(log_wealth, started - np.log(len(_WINDOWS)))
    return np.asarray(log_wealth)


def _ranks(u: Floats, seed: int) -> Floats:
    """Return the rank of each number among those up to it, over their count, ties at random. O(n log n) comparisons."""
    random = np.random.default_rng([seed, 1]).random(len(u))
    ordered: list[float] = []
    ranks = np.empty(len(u))
    for t, value in enumerate(u.tolist()):
        low = bisect_left(ordered, value)
        equal = bisect_right(ordered, value, low) - low
        ranks[t] = (low + random[t] * (equal + 1.0)) / (t + 1.0)
        ordered.insert(low, value)
    return ranks


def _seen_before(cell: Any, cells: int) -> Floats:
    """Return how often the cell of each row occurs in the rows before it. O(n cells)."""
    counts = np.zeros(len(cell))
    for k in range(cells):
        own = np.flatnonzero(cell == k)
        counts[own] = np.arange(len(own))
    return counts


def _scores(values: Any, name: str) -> Floats:
    scores = read_numbers(array_of(values, name), f"/{name}")
    if scores.ndim != 1:
        raise WrongShape.at(f"/{name}", "must have shape (n,)")
    refuse(~np.isfinite(scores), f"/{name}", "must be finite", NotFinite)
    return scores
