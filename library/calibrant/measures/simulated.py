"""Intervals of sizes of miscalibration that are not linear in the rows: tests inverted by simulating labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from calibrant.averaging.process import fit_process
from calibrant.binning import compressed
from calibrant.cells import Cells, Floats
from calibrant.errors import InvalidOption
from calibrant.measures.intervals import Integers, Resampling
from calibrant.piecewise.folds import FoldCells
from calibrant.progress import check

#: More cells than this are refused.
MOST_CELLS = 10_000
#: A cell of more rows than this is drawn as if it had as many.
_MOST_ROWS = 2.0**53
#: Simulated labels of each size, at most.
_SIMULATIONS = 200
#: Halvings of the bracket of each end.
_STEPS = 9
#: Paths end at so many times the way to the truth.
_LONGEST = 64.0
#: Sizes that an interval tries, in most cases; seconds of one simulation, and of each of its cells.
_TRIED, _SIMULATION, _CELL = 21, 8e-5, 2e-7


def simulated_interval(
    value: float, cells: Cells, truth: Floats, again: Callable[[Cells], float], resampling: Resampling
) -> tuple[float, float]:
    """Interval of a size of miscalibration, by inverting tests of it. O(20 x 200 computations of the measure).

    The labels of the ``cells`` are simulated along the path c_s = p + s (truth - p), within [0, 1] and s >= 0, which
    passes the likely true map, ``truth (m,)``; ``again`` computes the measure of cells with other labels. A size s is
    possible where the value that ``again`` gives of the cells lies between the tails of its values of simulated
    labels; the ends are its values of labels in the shares c_s, without noise, 0 at s = 0. The interval is
    widened to hold ``value``, which is biased upward, as that of ``distance_interval`` is. The generator of each size
    starts from the same seed, and draws at most 200 times.

    Raises ``InvalidOption`` where there are more than 10,000 cells.
    """
    if len(cells) > MOST_CELLS:
        raise InvalidOption(f"labels are simulated on at most {MOST_CELLS:,} bins")
    draws, seen = min(resampling.resamples, _SIMULATIONS), again(cells)
    found: dict[float, Floats] = {}

    def labelled(share: Floats) -> float:
        check()
        return again(replace(cells, wy=cells.w * share))

    def path(s: float) -> Floats:
        return np.clip(cells.p + s * (truth - cells.p), 0.0, 1.0)

    def short(s: float, tail: float) -> bool:
        if s not in found:
            random = np.random.default_rng([resampling.seed, 2])
            shares = label_shares(cells, path(s), draws, random)
            found[s] = np.array([labelled(share) for share in shares])
        # Of S draws and the value seen, each is as likely to be the k-th: probability k / (S + 1).
        return float(np.quantile(found[s], tail, method="weibull")) < seen

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
    """Estimated seconds of ``simulated_interval`` of so many cells."""
    draws = min(resampling.resamples, _SIMULATIONS)
    return _TRIED * draws * (_SIMULATION + _CELL * min(cells, MOST_CELLS))


def likely_truth(cells: Cells, p: Floats) -> Floats:
    """What the labels suggest that is true at ``p (k,)`` if the predictions are not calibrated. O(m + k).

    The mean of a Gaussian process: an isotonic fit follows the noise, and its way off the predictions is rough.
    """
    cells = compressed(cells)
    counted = 1.0 if cells.kind == "frequency" else cells.mass / float(cells.w2.sum())
    process = fit_process(FoldCells(cells.p, cells.w[None] * counted, cells.wy[None] * counted))
    return process.away(p)


def label_shares(cells: Cells, c: Floats, draws: int, random: np.random.Generator) -> Floats:
    """Shares of positives among labels drawn with the probabilities ``c (m,)`` of the cells: ``(draws, m)``.

    A cell has its effective rows, made whole by ``whole_rows``, so that the variance is c (1 - c) / rows.
    """
    trials = whole_rows(cells.w if cells.kind == "frequency" else cells.w * (cells.w / cells.w2), draws, random)
    shares: Floats = random.binomial(trials, c) / trials
    return shares


def whole_rows(rows: Floats, draws: int, random: np.random.Generator) -> Integers:
    """So many whole numbers of rows for each of ``rows (m,)``, at least 1: ``(draws, m)``.

    Where they are no whole number a draw takes one of the two next to it, so that the mean of 1 / it is 1 / rows.
    """
    rows = np.clip(rows, 1.0, _MOST_ROWS)
    below = np.floor(rows)
    trials = below + (random.random((draws, len(rows))) >= below * (below + 1.0 - rows) / rows)
    return trials.astype(np.int64)
