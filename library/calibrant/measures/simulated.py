"""Intervals of measures that are not linear in the rows, by inverting tests with simulated labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from calibrant.averaging.process import fit_process
from calibrant.core.binning import compressed
from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import InvalidOption
from calibrant.core.progress import check
from calibrant.measures.intervals import Integers, Resampling
from calibrant.piecewise.folds import FoldCells

#: The most cells.
MOST_CELLS = 10_000
#: The most rows of a cell; larger cells are drawn with this many.
_MOST_ROWS = 2.0**53
#: The most simulations of each size.
_SIMULATIONS = 200
#: Bisection steps for each end of the interval.
_STEPS = 9
#: The largest multiple of the distance to the likely truth.
_LONGEST = 64.0
#: Typical number of sizes that are tried; estimated seconds of one simulation, and per cell.
_TRIED, _SIMULATION, _CELL = 21, 8e-5, 2e-7


def simulated_interval(
    value: float, cells: Cells, truth: Floats, again: Callable[[Cells], float], resampling: Resampling
) -> tuple[float, float]:
    """Return the interval of a miscalibration by inverting tests. O(20 x 200 computations of the measure).

    Labels of the ``cells`` are simulated on the path c_s = p + s (truth - p) with s >= 0, clipped to [0, 1], through
    the likely true map ``truth (m,)``; ``again`` computes the measure for other labels. A size s is in the interval if
    the observed value lies between the tails of the simulated values. The ends are the values for observed frequencies
    of exactly c_s, and 0 for s = 0. Like that of ``distance_interval``, the interval is extended to include ``value``,
    which is biased upward. Every size uses the same seed and at most 200 draws.

    Raises ``InvalidOption`` if there are more than 10,000 cells.
    """
    if len(cells) > MOST_CELLS:
        raise InvalidOption(f"labels can be simulated for at most {MOST_CELLS:,} bins")
    draws, observed = min(resampling.resamples, _SIMULATIONS), again(cells)
    simulated: dict[float, Floats] = {}

    def labelled(share: Floats) -> float:
        check()
        return again(replace(cells, wy=cells.w * share))

    def path(s: float) -> Floats:
        return np.clip(cells.p + s * (truth - cells.p), 0.0, 1.0)

    def short(s: float, tail: float) -> bool:
        if s not in simulated:
            random = np.random.default_rng([resampling.seed, 2])
            shares = observed_frequencies(cells, path(s), draws, random)
            simulated[s] = np.array([labelled(share) for share in shares])
        # The observed value is equally likely to have any rank among S draws: probability k / (S + 1).
        return float(np.quantile(simulated[s], tail, method="weibull")) < observed

    def end(tail: float) -> float:
        if not short(0.0, tail):
            return 0.0
        low, high = 0.0, 1.0
        while high < _LONGEST and short(high, tail):
            low, high = high, 2.0 * high
        for _ in range(_STEPS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if short(middle, tail) else (low, middle)
        return high

    low_tail, high_tail = resampling.tails
    low, high = (labelled(path(s)) if s > 0.0 else 0.0 for s in (end(high_tail), end(low_tail)))
    return min(low, value), max(high, value)


def simulation_seconds(cells: int, resampling: Resampling) -> float:
    """Estimate the seconds of ``simulated_interval`` for this number of cells."""
    draws = min(resampling.resamples, _SIMULATIONS)
    return _TRIED * draws * (_SIMULATION + _CELL * min(cells, MOST_CELLS))


def likely_truth(cells: Cells, p: Floats) -> Floats:
    """Estimate the true map at ``p (k,)``, given that the predictions are not calibrated. O(m + k).

    It is the mean of a Gaussian process, since an isotonic fit follows the noise.
    """
    cells = compressed(cells)
    w, wy = cells.w * cells.rows_per_weight, cells.wy * cells.rows_per_weight
    process = fit_process(FoldCells(cells.p, w[None], wy[None], cells.logit))
    return process.away(p)


def observed_frequencies(cells: Cells, c: Floats, draws: int, random: np.random.Generator) -> Floats:
    """Draw labels with the probabilities ``c (m,)`` of the cells; return observed frequencies ``(draws, m)``.

    The number of draws of a cell is its effective number of rows, rounded by ``whole_rows`` so that the variance is
    c (1 - c) / rows.
    """
    trials = whole_rows(cells.w if cells.kind == "frequency" else cells.w * (cells.w / cells.w2), draws, random)
    return random.binomial(trials, c) / trials


def whole_rows(rows: Floats, draws: int, random: np.random.Generator) -> Integers:
    """Round numbers of rows ``(m,)`` to integers of at least 1: ``(draws, m)``.

    They are rounded up or down at random, so that the mean of 1 / integer is 1 / rows.
    """
    rows = np.clip(rows, 1.0, _MOST_ROWS)
    below = np.floor(rows)
    trials = below + (random.random((draws, len(rows))) >= below * (below + 1.0 - rows) / rows)
    return trials.astype(np.int64)
