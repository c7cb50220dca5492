"""Probability integral transforms, coverage and their tests, on levels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from calibrant.core.cells import Floats
from calibrant.core.errors import TooFewRows
from calibrant.distributions.forecasts import ForecastKind, Forecasts

#: Levels of continuous distributions: those of a calibration error, and those of tests.
LEVELS, FINE_LEVELS = np.arange(1, 20) / 20.0, np.arange(1, 100) / 100.0
#: The most levels at which outcomes are counted: simulated null distributions have as many columns.
MOST_LEVELS = 500
#: Expected rows between two levels below which the null distribution of the Wald test is simulated.
_FEW = 5.0
#: Simulated draws of the null distributions.
_DRAWS = 5_000
#: Rows of indicators that are processed at once.
_BLOCK = 1 << 12


def levels_of(forecasts: Forecasts, *, fine: bool = False) -> Floats:
    """Return the declared levels, or 0.05, ..., 0.95 (0.01, ..., 0.99) for normal distributions and samples."""
    if forecasts.kind == "quantiles":
        return forecasts.levels
    if forecasts.kind == "interval":
        return np.array([1.0 - forecasts.level, 1.0 + forecasts.level]) / 2.0
    return FINE_LEVELS if fine else LEVELS


class ForecastSize(NamedTuple):
    """Size of forecasts, for estimates: rows of ``width`` numbers each, and the levels of their calibration."""

    rows: int
    width: int
    levels: int
    kind: ForecastKind

    @classmethod
    def of(cls, forecasts: Forecasts, most: int | None = None) -> ForecastSize:
        """Return the size of forecasts, or of at most ``most`` of them."""
        n = len(forecasts) if most is None else min(len(forecasts), most)
        levels = min(forecasts.width, MOST_LEVELS) if forecasts.kind == "quantiles" else len(LEVELS)
        return cls(n, forecasts.width, levels, forecasts.kind)


def some_levels(levels: Floats) -> Floats:
    """Return at most ``MOST_LEVELS`` of ascending levels, evenly and symmetrically chosen.

    >>> len(some_levels(np.arange(1, 3000) / 3000.0)), some_levels(np.array([0.1, 0.9]))
    (500, array([0.1, 0.9]))
    """
    if len(levels) <= MOST_LEVELS:
        return levels
    low = np.linspace(0, (len(levels) - 2) // 2, MOST_LEVELS // 2).round().astype(int)
    return np.asarray(levels[np.concatenate([low, len(levels) - 1 - low[::-1]])])


def pit(forecasts: Forecasts, y: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the probability integral transform of each row: P(Y < y) and P(Y <= y).

    They differ for quantiles, which leave the distribution between them open: the ends are the declared levels around
    the outcome, 0 and 1 beyond the outermost (Czado, Gneiting & Held 2009). For S samples they are the rank of the
    outcome among them, and the next rank, over S + 1 (Hamill 2001). O(n Q).
    """
    if forecasts.kind == "normal":
        levels_reached = forecasts.cdf(y)
        return levels_reached, levels_reached
    if forecasts.kind == "samples":
        S = forecasts.samples.shape[1]
        below, up_to = ((forecasts.samples < y[:, None]).sum(axis=1), (forecasts.samples <= y[:, None]).sum(axis=1))
        return below / (S + 1.0), (up_to + 1.0) / (S + 1.0)
    levels, table = levels_of(forecasts), forecasts.quantiles
    if forecasts.kind == "interval":
        table = np.column_stack([forecasts.lower, forecasts.upper])
    ends = np.concatenate([[0.0], levels, [1.0]])
    below, up_to = (table < y[:, None]).sum(axis=1), (table <= y[:, None]).sum(axis=1)
    # An outcome that equals tied quantiles can be anywhere between the levels around them.
    return ends[below], ends[up_to + 1]


def randomised_pit(forecasts: Forecasts, y: Floats, *, seed: int = 0) -> Floats:
    """Return one number per row, drawn uniformly between the ends of ``pit``. O(n Q)."""
    low, high = pit(forecasts, y)
    return np.asarray(low + np.random.default_rng(seed).random(len(y)) * (high - low))


class Transforms(NamedTuple):
    """Randomised transforms ``u (m,)`` of the rows ``row (m,)``, with their weights or None."""

    row: npt.NDArray[np.int64]
    u: Floats
    w: Floats | None


def transforms(
    forecasts: Forecasts, y: Floats, levels: Floats, counts: Floats | None = None, *, seed: int = 0
) -> Transforms:
    """Return randomised transforms to count between ``levels (L,)``, with one of its own for every copy of a row.

    ``counts (n,)`` are numbers of copies. Those of a row with ties are spread over the cells between the levels by a
    multinomial draw, as if they were rows; one number for all would make calibrated forecasts look uncalibrated.
    O(n Q + n L).
    """
    low, high = pit(forecasts, y)
    random = np.random.default_rng(seed)
    u, row = np.asarray(low + random.random(len(y)) * (high - low)), np.arange(len(y))
    several = np.flatnonzero((counts > 1.0) & (high > low)) if counts is not None else row[:0]
    if counts is None or not len(several):
        return Transforms(row, u, counts)
    edges = np.concatenate([[0.0], levels, [1.0]])
    single = np.setdiff1d(row, several, assume_unique=True)
    rows, transformed, copies = [single], [u[single]], [counts[single]]
    for start in range(0, len(several), _BLOCK):
        block = several[start : start + _BLOCK]
        ends = np.clip(edges, low[block, None], high[block, None])
        width = np.diff(ends)
        drawn = random.multinomial(counts[block].astype(np.int64), width / width.sum(axis=1, keepdims=True))
        place, cell = np.nonzero(drawn)
        rows.append(block[place])
        transformed.append(0.5 * (ends[place, cell] + ends[place, cell + 1]))
        copies.append(drawn[place, cell].astype(np.float64))
    return Transforms(np.concatenate(rows), np.concatenate(transformed), np.concatenate(copies))


@dataclass(frozen=True)
class Coverage:
    """Observed shares of outcomes at most the quantile of each of L levels, and their covariance matrix.

    ``share (L,)`` and ``covariance (L, L)``, which takes clusters into account; ``null (L, L)`` is the covariance under
    calibration. ``n`` is the sum of the weights.
    """

    levels: Floats
    share: Floats
    covariance: Floats
    null: Floats
    n: float
    clustered: bool = False

    @property
    def gap(self) -> Floats:
        """Observed share minus level: ``(L,)``."""
        return np.asarray(self.share - self.levels)


def coverage(
    forecasts: Forecasts,
    y: Floats,
    w: Floats | None = None,
    clusters: npt.NDArray[np.int64] | None = None,
    *,
    squares: Floats | None = None,
    seed: int = 0,
    levels: Floats | None = None,
) -> Coverage:
    """Count outcomes at most the quantile of each level, by default those of ``levels_of``. O(n L + n L^2 / 1000).

    Ties of outcomes with quantiles, and samples, are randomised, so that the shares of calibrated forecasts have the
    levels as expectations. Of more than ``MOST_LEVELS`` levels, ``some_levels`` are counted. With ``clusters (n,)``,
    rows of a cluster may depend on each other. ``squares`` is as for ``coverage_at``.
    """
    levels = some_levels(levels_of(forecasts) if levels is None else levels)
    if squares is not None:
        return coverage_at(randomised_pit(forecasts, y, seed=seed), levels, w, clusters, squares=squares)
    row, u, counts = transforms(forecasts, y, levels, w, seed=seed)
    return coverage_at(u, levels, counts, None if clusters is None else clusters[row])


def coverage_at(
    u: Floats,
    levels: Floats,
    w: Floats | None = None,
    clusters: npt.NDArray[np.int64] | None = None,
    *,
    squares: Floats | None = None,
) -> Coverage:
    """Count transforms ``u (n,)`` at most each of increasing ``levels (L,)``, as ``coverage`` does.

    ``squares (n,)`` give the variances, and sum to the number of rows; without them weights are frequencies.
    """
    weights = np.ones(len(u)) if w is None else w
    squares = weights if squares is None else squares
    n = float(weights.sum())
    L = len(levels)
    total, total2, gram = np.zeros(L), np.zeros(L), np.zeros((L, L))
    if clusters is None:
        for start in range(0, len(u), _BLOCK):
            rows = slice(start, start + _BLOCK)
            off = (u[rows, None] <= levels) - levels
            total += weights[rows] @ off
            total2 += squares[rows] @ off
            gram += (off * squares[rows, None]).T @ off
        null = (np.minimum(levels[:, None], levels) - np.outer(levels, levels)) / n
    else:
        sums = np.zeros((int(clusters.max()) + 1, L))
        for start in range(0, len(u), _BLOCK):
            rows = slice(start, start + _BLOCK)
            np.add.at(sums, clusters[rows], weights[rows, None] * ((u[rows, None] <= levels) - levels))
        total, gram = sums.sum(axis=0), sums.T @ sums
        null = gram / n**2
    mean = total / n
    if clusters is None:
        mixed = np.outer(mean, total2 / n)
        covariance = (gram / n - mixed - mixed.T + np.outer(mean, mean)) / max(n - 1.0, 1.0)
    else:
        covariance = gram / n**2
    return Coverage(levels, levels + mean, covariance, null, n, clusters is not None)


@lru_cache(maxsize=4)
def _multinomial_gaps(n: int, levels: tuple[float, ...], seed: int) -> Floats:
    counts = np.random.default_rng(seed).multinomial(n, np.diff((0.0, *levels, 1.0)), _DRAWS)[:, :-1]
    return np.asarray(np.cumsum(counts, axis=1) / n - np.array(levels))


def _drawn(coverage: Coverage, seed: int) -> Floats:
    """Return draws of the gaps under calibration, ``(_DRAWS, L)``: multinomial, or normal for clusters."""
    if not coverage.clustered:
        return _multinomial_gaps(max(round(coverage.n), 1), tuple(coverage.levels.tolist()), seed)
    values, axes = np.linalg.eigh(coverage.null)
    root = axes * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(np.random.default_rng(seed).standard_normal((_DRAWS, len(values))) @ root.T)


def _anderson_darling(gap: Floats, levels: Floats) -> Floats:
    width = np.diff(np.concatenate([[0.0], levels, [1.0]]))
    weight = 0.5 * (width[:-1] + width[1:]) / (levels * (1.0 - levels))
    return np.asarray((gap * gap) @ weight)


def _statistic(coverage: Coverage, gap: Floats, name: str) -> Floats:
    if name == "anderson-darling":
        return coverage.n * _anderson_darling(gap, coverage.levels)
    if name == "ks":
        return np.asarray(np.abs(gap).max(axis=-1))
    return np.asarray(np.maximum(gap.max(axis=-1), 0.0) - np.minimum(gap.min(axis=-1), 0.0))  # Kuiper's


def tested(coverage: Coverage, statistic: str, *, seed: int) -> tuple[float, float]:
    """Return ``ks``, ``kuiper`` or ``anderson-darling`` of the shares, and its p-value under calibration.

    The null distribution is simulated from the covariance of the shares. ``ks`` is the largest absolute gap, ``kuiper``
    the sum of the largest gaps above and below, and ``anderson-darling`` n times the sum of squared gaps over
    tau (1 - tau), as an integral over the levels. Raises ``TooFewRows`` below 20 rows.
    """
    if coverage.n < 20:
        raise TooFewRows.at("/observed", "has fewer than 20 rows, which the test needs")
    value = float(_statistic(coverage, coverage.gap, statistic))
    return value, p_of(value, _statistic(coverage, _drawn(coverage, seed), statistic))


def p_of(value: float, drawn: Floats) -> float:
    """Return the share of draws above the value, and half of those equal to it, with the value as one draw.

    Counting all equal draws would make the tests of shares of a few hundred rows, which have few values, conservative.
    """
    above = float(np.count_nonzero(drawn > value * (1.0 + 1e-9)))
    equal = float(np.count_nonzero(drawn >= value * (1.0 - 1e-9))) - above
    return (1.0 + above + 0.5 * equal) / (1.0 + len(drawn))


def chi_square(coverage: Coverage, *, seed: int) -> float:
    """Return the p-value of all gaps together: a Wald test with the covariance under calibration.

    For independent rows the statistic is Pearson's; with few expected rows its null distribution is simulated.
    """
    values, axes = np.linalg.eigh(coverage.null)
    positive = values > 1e-12 * float(values.max(initial=0.0))
    if not positive.any():
        return 1.0
    onto = axes[:, positive] / np.sqrt(values[positive])
    statistic = float(((coverage.gap @ onto) ** 2).sum())
    least = float(np.diff(np.concatenate([[0.0], coverage.levels, [1.0]])).min())
    if not coverage.clustered and coverage.n * least < _FEW:
        drawn = ((_drawn(coverage, seed) @ onto) ** 2).sum(axis=1)
        return p_of(statistic, drawn)
    return float(chdtrc(int(positive.sum()), statistic))


def bands(coverage: Coverage, level: float, *, seed: int = 0) -> Floats:
    """Return half-widths ``(L,)`` of simultaneous bands for the shares of calibrated forecasts."""
    return _simultaneous(_drawn(coverage, seed), np.sqrt(coverage.null.diagonal()), level)


def _simultaneous(drawn: Floats, error: Floats, level: float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(error > 0.0, np.abs(drawn) / error, 0.0).max(axis=1)
    return np.asarray(float(np.quantile(size, level)) * error)


def interval_bands(
    coverage: Coverage, low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], level: float, *, seed: int = 0
) -> Floats:
    """Return half-widths of simultaneous bands for the shares between the levels ``low`` and ``high`` (indices)."""
    null = coverage.null
    variance = null[high, high] + null[low, low] - 2.0 * null[high, low]
    drawn = _drawn(coverage, seed)
    return _simultaneous(drawn[:, high] - drawn[:, low], np.sqrt(np.maximum(variance, 0.0)), level)


def bin_bands(coverage: Coverage, level: float, *, seed: int = 0) -> Floats:
    """Return half-widths ``(L + 1,)`` of simultaneous bands for the shares between consecutive levels."""
    null = np.diff(np.diff(np.pad(coverage.null, 1), axis=0), axis=1)
    drawn = np.diff(np.pad(_drawn(coverage, seed), ((0, 0), (1, 1))), axis=1)
    return _simultaneous(drawn, np.sqrt(np.maximum(null.diagonal(), 0.0)), level)


def calibration_error(coverage: Coverage, norm: float) -> tuple[float, float | None]:
    """Return the norm of the gaps over the levels, and for norm 2 the estimate corrected for the variance of shares.

    The norms 1 and 2 are (mean |gap|^norm)^(1 / norm); infinity is the largest gap.
    """
    gap = np.abs(coverage.gap)
    if np.isinf(norm):
        return float(gap.max()), None
    value = float(np.mean(gap**norm) ** (1.0 / norm))
    if norm != 2.0:
        return value, None
    corrected = float(np.mean(gap * gap - coverage.covariance.diagonal()))
    return value, float(np.sqrt(max(corrected, 0.0)))
