"""A test of calibration that stays valid however often it is looked at, from tallies alone.

**What is bet.** Calibrated predictions: each label, when it comes, is Bernoulli(p) given all that is known before it
(the predictions, the labels that came, whose label comes next). Whoever believes instead that the log-odds are those
of p and delta more bets by the likelihood ratio exp(delta (y - p) - psi(delta, p)), where psi(delta, p) =
log(1 - p + p e^delta) - delta p. Its mean is 1 for a calibrated row whatever delta, so that the product M over all
labels that came is a martingale, in whatever order they come.

**What is computed.** psi(delta, .) is the logarithm of an affine function less a linear one, and so concave: by
Jensen's inequality, sum psi(delta, p_i) <= n psi(delta, mean p) over n rows that one delta is bet on. The bet from a
tally,

    exp(delta (sum y - sum p) - n psi(delta, sum p / n)) for each block of the grid and time bucket,

is therefore never above M, whatever the order, the batches or the processes that counted. What it loses is about
var(p in the block) / (p (1 - p)) of the growth, 1/5000 for blocks of 1/64 of the arcsine grid.

**Mixtures.** An average of martingales that begin at 1, by fixed weights of sum 1, is one again. It is taken over the
shifts (``shifts``), and over the time buckets since which rows are bet on: a start s bets on the rows predicted in
bucket s or later, which is known before their labels. So a drift is found though much calibrated was counted before
it. Starts to come still hold 1, their weight. Half of the weight is on the first start, the rest falls as
1 / ((s + 8) log^2(s + 8)).

**Ville's inequality** (1939): a nonnegative martingale that begins at 1 ever reaches 1 / alpha with a chance of at
most alpha; what is never above it does so no more often. Buckets that are forgotten take the starts in them with
them. Their weight is lost, and the rest stays below the martingale.

**What it asks for.** That given all predictions and the labels so far, which row is labelled next says nothing of its
label. Where positives are told sooner than negatives, the rows labelled so far are no fair sample, and the test may
refute that; then only buckets whose labels are complete by their age are to be looked at. That a bucket has so many of
its labels is no such sign: those of more positives would have them sooner.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.cells import Floats
from calibrant.tallies.grid import CELLS
from calibrant.tallies.shifts import Shift, bets_placed, block_of_cell, log_weights, shifts
from calibrant.tallies.tally import Tally

#: The weight of the first start, and what is added to the numbers of the others.
_FIRST, _FLAT = 0.5, 8
#: The sum of 1 / (k log^2 k) over whole k from _FLAT on: that from 2 on, less the terms before.
_WHOLE = 2.1097428012368919745 - sum(1.0 / (k * math.log(k) ** 2) for k in range(2, _FLAT))


@dataclass(frozen=True)
class Evidence:
    """Evidence against calibration.

    ``log_e`` is the natural logarithm of an e-process: under calibration the chance that it ever reaches log(1 / alpha)
    is at most alpha. ``start`` is the time bucket since which, and ``shift`` the error by which, the rows speak loudest
    against the predictions; they mean little where ``log_e`` is small.
    """

    log_e: float
    start: int
    shift: Shift

    @property
    def level(self) -> float:
        """The smallest alpha at which calibration is refuted now, min(1, 1 / E)."""
        return math.exp(min(-self.log_e, 0.0))


def log_factors(tally: Tally) -> Floats:
    """The logarithm of the bet of each shift on the rows of one time bucket: ``(J,)``. O(m + J K).

    Of all groups and folds together; 0 where there are no rows.
    """
    blocks, count = block_of_cell()[(tally.keys % np.uint32(2 * CELLS)) >> np.uint32(1)], int(block_of_cell()[-1]) + 1
    each = (tally.rows, tally.rows * (tally.keys & np.uint32(1)), tally.p_sum)
    return log_bets(*(np.bincount(blocks, of, count).astype(np.float64, copy=False) for of in each))


def log_bets(n: Floats, y_sum: Floats, p_sum: Floats) -> Floats:
    """The same of the rows, and the sums of labels and predictions, of each block: ``(..., K)`` to ``(..., J)``.

    sum_k delta_k (sum y - sum p) - n_k psi(delta_k, sum p / n_k).
    """
    bets = bets_placed()
    surplus, p = y_sum - p_sum, np.clip(p_sum / np.maximum(n, 1.0), 0.0, 1.0)[..., bets.block]
    # psi is concave and 0 at both ends, and so at least 0; rounding could make it less there.
    psi = np.maximum(np.log1p(p * bets.expm1) - bets.delta * p, 0.0)
    gains = bets.delta * surplus[..., bets.block] - n[..., bets.block] * psi
    found: Floats = np.add.reduceat(gains, bets.first, axis=-1)
    return found


def evidence(factors: Floats, first: int = 0) -> Evidence:
    """The evidence of time buckets in order, by ``factors (B, J)``, a row of ``log_factors`` each. O(B J).

    ``first`` is the number of the first of them, counted from the bucket in which the monitor began; ``Evidence.start``
    is counted so too. It must be true: were the oldest bucket that is kept always number 0, its weight would be bet
    again and again. A bucket without rows has a row of zeros.

    Examples
    --------
    >>> evidence(np.full((3, len(shifts())), 5.0)).level < 0.01
    True
    """
    last = first + len(factors)
    yet_to_come = math.log(weight_from(last))
    if not len(factors):
        return Evidence(yet_to_come, first, shifts()[0])
    since = np.cumsum(factors[::-1], axis=0)[::-1]  # of each start, the bets on its rows
    since += _log_start_weights(first, last)[:, None]
    since += log_weights()
    start, shift = divmod(int(since.argmax()), since.shape[1])
    highest = max(float(since[start, shift]), yet_to_come)
    since -= highest
    total = float(np.exp(since, out=since).sum()) + math.exp(yet_to_come - highest)
    return Evidence(highest + math.log(total), first + start, shifts()[shift])


def weight_from(start: int) -> float:
    """The weight of all starts from this one on."""
    if start == 0:
        return 1.0
    k = np.arange(_FLAT, start + _FLAT, dtype=np.float64)
    share = 1.0 - float((1.0 / (k * np.log(k) ** 2)).sum()) / _WHOLE
    return (1.0 - _FIRST) * share


def log_start_weight(start: int) -> float:
    """The logarithm of the weight of one start."""
    return float(_log_start_weights(start, start + 1)[0])


def _log_start_weights(first: int, last: int) -> Floats:
    k = np.arange(first, last) + float(_FLAT)
    weights = (1.0 - _FIRST) / (k * np.log(k) ** 2 * _WHOLE)
    if first == 0:
        weights[0] += _FIRST
    found: Floats = np.log(weights)
    return found
