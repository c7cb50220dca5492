"""An anytime-valid test of calibration by betting (an e-process), and the shifts that it bets on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.special import expit

from calibrant.cells import Floats
from calibrant.monitoring.tally import CELLS, Places, Tally

# --- The shifts of the log-odds that the test bets on: a fixed set, on fixed blocks of the grid

#: Sizes of a shift in log-odds, a factor of 2 apart: one at most a factor of sqrt(2) off grows 0.83 times as fast.
_SIZES = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
_PART_SIZES = _SIZES[1:]
#: Directions of (level, spread).
_DIRECTIONS = 12
#: How many pieces the grid is cut into, each of which is shifted alone; and the shares of it at both ends.
_COARSE, _FINE, _ENDS = (2, 4, 8), (16,), (1 / 32, 1 / 64)
#: The weight of all lines, curves, coarse parts, ends and fine parts.
_WEIGHTS = (0.5, 0.1, 0.2, 0.1, 0.1)
#: Blocks of one width; those at the ends are halved again and again, for the logit runs to infinity there.
_BLOCKS, _END_CUTS = 64, 4
#: Where the logit is cut off.
_FARTHEST = 6.0


@dataclass(frozen=True)
class Shift:
    """A way to be wrong: the log-odds of the outcome are those of the prediction and more.

    ``line``: ``delta + spread * logit(p) / 2`` more, the logit cut off at 6. ``curve``:
    ``delta * (|logit(p)| - 1) / 2`` more. ``part``: ``delta`` more for predictions from ``low`` to ``high``.
    """

    shape: Literal["line", "curve", "part"]
    delta: float
    spread: float = 0.0
    low: float = 0.0
    high: float = 1.0

    def at(self, p: Floats) -> Floats:
        """The log-odds that are added at each p inside (0, 1)."""
        half = np.clip(np.log(p) - np.log1p(-p), -_FARTHEST, _FARTHEST) / 2.0
        inside = (p > self.low) & (p < self.high)
        added = {"line": self.delta + self.spread * half, "curve": self.delta * (np.abs(half) - 0.5)}
        return np.asarray(added.get(self.shape, self.delta * inside), dtype=np.float64)

    def message(self) -> str:
        """The error as a sentence.

        Examples
        --------
        >>> Shift("part", -0.2, low=0.75, high=0.85).message()
        'predictions between 0.75 and 0.85 are too high'
        >>> Shift("line", 0.0, -0.4).message()
        'predictions below 0.5 are too low, those above too high'
        """
        if self.shape == "part":
            return f"predictions between {_short(self.low)} and {_short(self.high)} are too {_side(self.delta)}"
        if self.shape == "curve":
            ends, middle = _side(self.delta), _side(-self.delta)
            return f"predictions near 0 and near 1 are too {ends}, those between too {middle}"
        if abs(self.delta) >= abs(self.spread) * _FARTHEST / 2.0:
            return f"predictions are too {_side(self.delta)}"
        turn = float(expit(-2.0 * self.delta / self.spread))
        wider, other, side = ("below", "above", -self.spread) if turn >= 0.5 else ("above", "below", self.spread)
        return f"predictions {wider} {_short(turn)} are too {_side(side)}, those {other} too {_side(-side)}"


def _side(delta: float) -> str:
    return "low" if delta > 0.0 else "high"


def _short(p: float) -> str:
    """A probability with enough digits to differ from 0 and 1."""
    return f"{p:.2g}" if p <= 0.5 else f"{p:.{max(2, 1 - math.floor(math.log10(1.0 - p)))}f}" if p < 1.0 else "1"


@cache
def block_of_cell() -> Places:
    """The block of each cell of the grid: ``(CELLS,)``, ascending from 0."""
    return np.searchsorted(_firsts(), np.arange(CELLS), side="right") - 1


@cache
def shifts() -> tuple[Shift, ...]:
    """The shifts, J of them."""
    return tuple(shift for family in _families() for shift in family)


@cache
def log_weights() -> Floats:
    """The logarithm of the weight of each shift, of sum 1: ``(J,)``."""
    weights = [np.full(len(family), all_of / len(family)) for family, all_of in zip(_families(), _WEIGHTS, strict=True)]
    return np.asarray(np.log(np.concatenate(weights)), dtype=np.float64)


@dataclass(frozen=True)
class Bets:
    """Every pair of a shift and a block in which it adds to the log-odds, in the order of the shifts.

    ``first (J,)`` is where the bets of each shift begin. The other arrays are ``(B,)``: the number of the ``block``,
    ``delta`` that is added in its middle, and ``expm1`` e^delta - 1.
    """

    first: Places
    block: Places
    delta: Floats
    expm1: Floats


@cache
def bets_placed() -> Bets:
    """The bets of all shifts."""
    ends = np.append(_firsts(), CELLS)
    middle = _edge((ends[:-1] + ends[1:]) / (2.0 * CELLS))
    deltas = np.array([shift.at(middle) for shift in shifts()])
    shift, block = np.nonzero(deltas)
    placed = deltas[shift, block]
    return Bets(np.searchsorted(shift, np.arange(len(deltas))), block, placed, np.expm1(placed))


def _firsts() -> Places:
    """The first cell of each block."""
    width = CELLS // _BLOCKS
    cuts = [width >> cut for cut in range(1, _END_CUTS + 1)]
    return np.array(sorted([*range(0, CELLS, width), *cuts, *(CELLS - cut for cut in cuts)]))


def _edge(share: Floats) -> Floats:
    """The p at these shares of the grid."""
    return np.asarray(np.sin(share * (np.pi / 2.0)) ** 2, dtype=np.float64)


def _families() -> tuple[list[Shift], ...]:
    turns = np.arange(_DIRECTIONS) * (2.0 * np.pi / _DIRECTIONS)
    lines = [
        Shift("line", round(size * math.cos(turn), 9), round(size * math.sin(turn), 9))
        for turn in turns.tolist()
        for size in _SIZES
    ]
    curves = [Shift("curve", sign * size) for size in _SIZES for sign in (1.0, -1.0)]
    coarse = [shift for pieces in _COARSE for shift in _parts(np.linspace(0.0, 1.0, pieces + 1))]
    ends = [shift for share in _ENDS for ends in ((0.0, share), (1.0 - share, 1.0)) for shift in _parts(np.array(ends))]
    fine = [shift for pieces in _FINE for shift in _parts(np.linspace(0.0, 1.0, pieces + 1))]
    return lines, curves, coarse, ends, fine


def _parts(shares: Floats) -> list[Shift]:
    """Both signs and all sizes of a shift on each of the parts between these shares of the grid."""
    between = list(pairwise(_edge(shares).round(9).tolist()))
    signed = [sign * size for size in _PART_SIZES for sign in (1.0, -1.0)]
    return [Shift("part", delta, low=low, high=high) for low, high in between for delta in signed]


# --- The anytime-valid test, from tallies alone
#
# **What is bet.** Calibrated predictions: each label, when it comes, is Bernoulli(p) given all that is known before
# it (the predictions, the labels that came, whose label comes next). Whoever believes instead that the log-odds are
# those of p and delta more bets by the likelihood ratio exp(delta (y - p) - psi(delta, p)), where psi(delta, p) =
# log(1 - p + p e^delta) - delta p. Its mean is 1 for a calibrated row whatever delta, so that the product M over all
# labels that came is a martingale, in whatever order they come.
#
# **What is computed.** psi(delta, .) is the logarithm of an affine function less a linear one, and so concave: by
# Jensen's inequality, sum psi(delta, p_i) <= n psi(delta, mean p) over n rows that one delta is bet on. The bet from
# a tally,
#
#     exp(delta (sum y - sum p) - n psi(delta, sum p / n)) for each block of the grid and time bucket,
#
# is therefore never above M, whatever the order, the batches or the processes that counted. What it loses is about
# var(p in the block) / (p (1 - p)) of the growth, 1/5000 for blocks of 1/64 of the arcsine grid.
#
# **Mixtures.** An average of martingales that begin at 1, by fixed weights of sum 1, is one again. It is taken over
# the shifts (``shifts``), and over the time buckets since which rows are bet on: a start s bets on the rows predicted
# in bucket s or later, which is known before their labels. So a drift is found though much calibrated was counted
# before it. Starts to come still hold 1, their weight. Half of the weight is on the first start, the rest falls as 1
# / ((s + 8) log^2(s + 8)).
#
# **Ville's inequality** (1939): a nonnegative martingale that begins at 1 ever reaches 1 / alpha with a chance of at
# most alpha; what is never above it does so no more often. Buckets that are forgotten take the starts in them with
# them. Their weight is lost, and the rest stays below the martingale.
#
# **What it assumes.** That given all predictions and the labels so far, which row is labelled next says nothing of
# its label. If positives are labelled sooner than negatives, the rows labelled so far are no fair sample, and the test
# may refute that; then only buckets whose labels are complete by their age are to be looked at. That a bucket has so
# many of its labels is no such sign: those of more positives would have them sooner.

#: The weight of the first start, and what is added to the numbers of the others.
_FIRST, _FLAT = 0.5, 8
#: The sum of 1 / (k log^2 k) over whole k from _FLAT on: that from 2 on, less the terms before.
_WHOLE = 2.1097428012368919745 - sum(1.0 / (k * math.log(k) ** 2) for k in range(2, _FLAT))


@dataclass(frozen=True)
class Evidence:
    """Evidence against calibration.

    ``log_e`` is the natural logarithm of an e-process: under calibration the chance that it ever reaches log(1 / alpha)
    is at most alpha. ``start`` is the time bucket since which, and ``shift`` the error by which, the rows are strongest
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
