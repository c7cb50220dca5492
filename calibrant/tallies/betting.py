"""A test of calibration that stays valid however often it is looked at, from tallies alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from calibrant.cells import Floats
from calibrant.tallies.grid import CELLS
from calibrant.tallies.shifts import Shift, block_of_cell, shift_matrix, shifts
from calibrant.tallies.tally import Tally

#: The sum of 1 / (k log^2 k) over k from 2 to infinity.
_WHOLE = 2.1097428012368919745


@dataclass(frozen=True)
class Evidence:
    """Evidence against calibration.

    ``log_e`` is the natural logarithm of an e-process: under calibration the chance that it ever reaches log(1 / alpha)
    is at most alpha. ``start`` is the time bucket since which, and ``shift`` the error by which, the rows speak loudest
    against the predictions; of no meaning where ``log_e`` is small.
    """

    log_e: float
    start: int
    shift: Shift

    @property
    def level(self) -> float:
        """The smallest alpha at which calibration is refuted: min(1, 1/E), a p-value valid at any time."""
        return math.exp(min(-self.log_e, 0.0))


def log_factors(tally: Tally) -> Floats:
    """The log of each shift's bet on the rows of one time bucket: ``(J,)``. O(m + J K)."""
    blocks = block_of_cell()[(tally.keys % np.uint32(2 * CELLS)) >> np.uint32(1)]
    count = shift_matrix().shape[1]
    n = np.bincount(blocks, tally.rows, count)
    positives = np.bincount(blocks, tally.rows * (tally.keys & np.uint32(1)), count)
    p_sum = np.bincount(blocks, tally.p_sum, count)
    held = n > 0
    n, positives, p_sum, deltas = n[held], positives[held], p_sum[held], shift_matrix()[:, held]
    p = np.clip(p_sum / n, 0.0, 1.0)
    price = np.maximum(np.log1p(p * np.expm1(deltas)) - deltas * p, 0.0)
    found: Floats = deltas @ (positives - p_sum) - price @ n
    return found


def evidence(factors: Floats, first: int = 0) -> Evidence:
    """The evidence of time buckets in order, by ``factors (B, J)``, a row of ``log_factors`` each. O(B J).

    ``first`` is the number of the first of them, counted from the bucket in which the monitor began: the buckets before
    it are forgotten, and the starts in them with them. A bucket without rows has a row of zeros. ``Evidence.start`` is
    counted so too.
    """
    count = shift_matrix().shape[0]
    since: Floats = np.cumsum(factors[::-1], axis=0)[::-1] - math.log(count)
    starts = np.arange(first, first + len(factors)) + 2.0
    since += -np.log(starts * np.log(starts) ** 2 * _WHOLE)[:, None]
    later = _mass_from(first + len(factors))
    if not len(factors):
        return Evidence(math.log(later), first, shifts()[0])
    start, shift = divmod(int(since.argmax()), count)
    return Evidence(float(logsumexp(np.append(since.ravel(), math.log(later)))), first + start, shifts()[shift])


def _mass_from(start: int) -> float:
    """The weight of the starts from this one on, whose bets are still 1."""
    k = np.arange(2, start + 2, dtype=np.float64)
    return max(1.0 - float((1.0 / (k * np.log(k) ** 2)).sum()) / _WHOLE, 1e-9)
