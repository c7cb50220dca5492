"""An anytime-valid test of calibration (an e-process), and the alternatives that it bets on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Self

import numpy as np
from scipy.special import expit

from calibrant.core.cells import Floats
from calibrant.core.choices import ErrorShape
from calibrant.monitoring.tally import CELLS, Integers, Tally

# --- The alternatives: a fixed set of shifts of the log-odds, on fixed blocks of the grid

#: Sizes of shifts in log-odds, or in predicted standard deviations and their logarithm, in steps of a factor of 2:
#: growth is at least 0.83 of that of the exact size.
SIZES = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
_PART_SIZES = SIZES[1:]
#: Directions of (level, spread).
_DIRECTIONS = 12
#: Numbers of parts of the grid that are shifted separately, and fractions of the grid at both ends.
_COARSE, _FINE, _ENDS = (2, 4, 8), (16,), (1 / 32, 1 / 64)
#: Total weights of lines, curves, coarse parts, ends and fine parts.
_WEIGHTS = (0.5, 0.1, 0.2, 0.1, 0.1)
#: Number of blocks of equal width; those at the ends are halved repeatedly, because the logit diverges there.
_BLOCKS, _END_CUTS = 64, 4
#: The logit is clipped here.
_FARTHEST = 6.0


@dataclass(frozen=True)
class Alternative:
    """An error that the test bets on: a shift of all predictions, or of the part from ``low`` to ``high``."""

    shape: ErrorShape
    delta: float
    spread: float = 0.0
    low: float = 0.0
    high: float = 1.0

    @classmethod
    def lines(cls) -> list[Self]:
        """Return the alternatives of all directions of (level, spread) and all sizes."""
        turns = np.arange(_DIRECTIONS) * (2.0 * np.pi / _DIRECTIONS)
        return [
            cls("line", round(size * math.cos(turn), 9), round(size * math.sin(turn), 9))
            for turn in turns.tolist()
            for size in SIZES
        ]

    def message(self) -> str:
        """Return a description of the error."""
        raise NotImplementedError


@dataclass(frozen=True)
class LogitShift(Alternative):
    """An alternative to calibration: the log-odds of the outcome are those of the prediction plus a shift.

    ``line``: the shift is ``delta + spread * logit(p) / 2``, with the logit clipped at 6. ``curve``:
    ``delta * (|logit(p)| - 1) / 2``. ``part``: ``delta`` for predictions from ``low`` to ``high``.
    """

    def at(self, p: Floats) -> Floats:
        """Return the shift at each p inside (0, 1)."""
        half = np.clip(np.log(p) - np.log1p(-p), -_FARTHEST, _FARTHEST) / 2.0
        inside = (p > self.low) & (p < self.high)
        added = {"line": self.delta + self.spread * half, "curve": self.delta * (np.abs(half) - 0.5)}
        return np.asarray(added.get(self.shape, self.delta * inside), dtype=np.float64)

    def message(self) -> str:
        """Return a description of the shift.

        Examples
        --------
        >>> LogitShift("part", -0.2, low=0.75, high=0.85).message()
        'predictions between 0.75 and 0.85 are too high'
        >>> LogitShift("line", 0.0, -0.4).message()
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
    """Format a probability with enough digits to differ from 0 and 1."""
    return f"{p:.2g}" if p <= 0.5 else f"{p:.{max(2, 1 - math.floor(math.log10(1.0 - p)))}f}" if p < 1.0 else "1"


@cache
def block_of_cell() -> Integers:
    """Return the block of each cell of the grid: ``(CELLS,)``, ascending from 0."""
    return np.searchsorted(_firsts(), np.arange(CELLS), side="right") - 1


@cache
def shifts() -> tuple[LogitShift, ...]:
    """Return the J shifts."""
    return tuple(shift for family in _families() for shift in family)


@cache
def log_weights() -> Floats:
    """Return the logarithms of the weights of the shifts, which sum to 1: ``(J,)``."""
    weights = [np.full(len(family), all_of / len(family)) for family, all_of in zip(_families(), _WEIGHTS, strict=True)]
    return np.asarray(np.log(np.concatenate(weights)), dtype=np.float64)


@dataclass(frozen=True)
class Bets:
    """All pairs of a shift and a block in which it is not 0, in the order of the shifts.

    ``first (J,)`` is the first bet of each shift. The other arrays have shape ``(B,)``: the ``block``, the shift
    ``delta`` at its middle, and ``expm1`` = e^delta - 1.
    """

    first: Integers
    block: Integers
    delta: Floats
    expm1: Floats


@cache
def bets_placed() -> Bets:
    """Return the bets of all shifts."""
    ends = np.append(_firsts(), CELLS)
    middle = _edge((ends[:-1] + ends[1:]) / (2.0 * CELLS))
    deltas = np.array([shift.at(middle) for shift in shifts()])
    shift, block = np.nonzero(deltas)
    placed = deltas[shift, block]
    return Bets(np.searchsorted(shift, np.arange(len(deltas))), block, placed, np.expm1(placed))


def _firsts() -> Integers:
    """Return the first cell of each block."""
    width = CELLS // _BLOCKS
    cuts = [width >> cut for cut in range(1, _END_CUTS + 1)]
    return np.array(sorted([*range(0, CELLS, width), *cuts, *(CELLS - cut for cut in cuts)]))


def _edge(share: Floats) -> Floats:
    """Return p at these fractions of the grid."""
    return np.asarray(np.sin(share * (np.pi / 2.0)) ** 2, dtype=np.float64)


def _families() -> tuple[list[LogitShift], ...]:
    curves = [LogitShift("curve", sign * size) for size in SIZES for sign in (1.0, -1.0)]
    coarse = [shift for pieces in _COARSE for shift in _parts(np.linspace(0.0, 1.0, pieces + 1))]
    ends = [shift for share in _ENDS for ends in ((0.0, share), (1.0 - share, 1.0)) for shift in _parts(np.array(ends))]
    fine = [shift for pieces in _FINE for shift in _parts(np.linspace(0.0, 1.0, pieces + 1))]
    return LogitShift.lines(), curves, coarse, ends, fine


def _parts(shares: Floats) -> list[LogitShift]:
    """Return shifts of both signs and all sizes on each part between these fractions of the grid."""
    between = list(pairwise(_edge(shares).round(9).tolist()))
    signed = [sign * size for size in _PART_SIZES for sign in (1.0, -1.0)]
    return [LogitShift("part", delta, low=low, high=high) for low, high in between for delta in signed]


# --- The anytime-valid test from tallies
#
# **The bet.** If predictions are calibrated, each label is Bernoulli(p) given everything known before it: the
# predictions, the labels so far, and which row is labelled next. The alternative that the log-odds are those of p plus
# delta gives the likelihood ratio exp(delta (y - p) - psi(delta, p)), with psi(delta, p) = log(1 - p + p e^delta) -
# delta p. Its mean is 1 for a calibrated row for every delta, so the product M over all labels so far is a martingale,
# in any order of the labels.
#
# **The computation.** psi(delta, .) is the logarithm of an affine function minus a linear function, and so concave: by
# Jensen's inequality, sum psi(delta, p_i) <= n psi(delta, mean p) over n rows with the same delta. The bet from a
# tally,
#
#     exp(delta (sum y - sum p) - n psi(delta, sum p / n)) for each block of the grid and time bucket,
#
# is therefore at most M, for any order, batches and counting processes. The loss of growth is about var(p in the
# block) / (p (1 - p)), 1/5000 for blocks of 1/64 of the arcsine grid.
#
# **Mixtures.** A weighted average of martingales that start at 1, with fixed weights of sum 1, is a martingale that
# starts at 1. The average is over the shifts (``shifts``) and over starting time buckets: start s bets on the rows
# predicted in bucket s or later, which is known before their labels. This detects drift after a long calibrated period.
# Future starts still have the value 1, times their weight. Half of the weight is on the first start, and the rest
# decreases as 1 / ((s + 8) log^2(s + 8)).
#
# **Ville's inequality** (1939): a nonnegative martingale that starts at 1 ever reaches 1 / alpha with probability at
# most alpha, and so does any process below it. Deleting a bucket deletes the starts in it. Their weight is lost, and
# the rest stays below the martingale.
#
# **Assumption.** Given all predictions and the labels so far, which row is labelled next does not depend on its label.
# If positives are labelled sooner than negatives, the labels received so far are not representative, and the test may
# reject for that reason; then only buckets that are old enough to have complete labels should be used. The number of
# labels in a bucket is not a valid criterion: buckets with more positives would be complete sooner.

#: The weight of the first start, and the offset of the numbers of the others.
_FIRST, _FLAT = 0.5, 8
#: The sum of 1 / (k log^2 k) over integers k >= _FLAT: that from 2 on minus the terms before.
_WHOLE = 2.1097428012368919745 - sum(1.0 / (k * math.log(k) ** 2) for k in range(2, _FLAT))


@dataclass(frozen=True)
class Evidence:
    """Evidence against calibration.

    ``log_e`` is the natural logarithm of an e-process: under calibration the probability that it ever reaches
    log(1 / alpha) is at most alpha. ``start`` is the time bucket and ``shift`` the alternative with the most evidence;
    they are not informative if ``log_e`` is small.
    """

    log_e: float
    start: int
    shift: Alternative

    @property
    def level(self) -> float:
        """The smallest alpha at which calibration is rejected now, min(1, 1 / E)."""
        return math.exp(min(-self.log_e, 0.0))


def log_factors(tally: Tally) -> Floats:
    """Return the logarithm of the bet of each shift on the rows of one time bucket: ``(J,)``. O(m + J K).

    All groups and folds are pooled; the result is 0 if there are no rows.
    """
    blocks, count = block_of_cell()[(tally.keys % np.uint32(2 * CELLS)) >> np.uint32(1)], int(block_of_cell()[-1]) + 1
    sums = (tally.rows, tally.rows * (tally.keys & np.uint32(1)), tally.p_sum)
    return log_bets(*(np.bincount(blocks, of, count).astype(np.float64, copy=False) for of in sums))


def log_bets(n: Floats, y_sum: Floats, p_sum: Floats) -> Floats:
    """Return the same from the rows and the sums of labels and predictions of each block: ``(..., K)`` to ``(..., J)``.

    sum_k delta_k (sum y - sum p) - n_k psi(delta_k, sum p / n_k).
    """
    bets = bets_placed()
    surplus, p = y_sum - p_sum, np.clip(p_sum / np.maximum(n, 1.0), 0.0, 1.0)[..., bets.block]
    # psi is concave and 0 at both ends, and so non-negative, except for rounding.
    psi = np.maximum(np.log1p(p * bets.expm1) - bets.delta * p, 0.0)
    gains = bets.delta * surplus[..., bets.block] - n[..., bets.block] * psi
    return np.add.reduceat(gains, bets.first, axis=-1)


def evidence(
    factors: Floats,
    first: int = 0,
    *,
    alternatives: Sequence[Alternative] | None = None,
    log_prior: Floats | None = None,
) -> Evidence:
    """Return the evidence of consecutive time buckets from ``factors (B, J)``, rows of ``log_factors``. O(B J).

    The J alternatives are by default those of this module; other ones come with their weights, of sum 1.

    ``first`` is the number of the first bucket, counted from the start of the monitor, like ``Evidence.start``. It must
    be the true number: if the oldest kept bucket were always number 0, its weight would be used repeatedly. A bucket
    without rows has a row of zeros.

    Examples
    --------
    >>> evidence(np.full((3, len(shifts())), 5.0)).level < 0.01
    True
    """
    known = shifts() if alternatives is None else alternatives
    prior = log_weights() if log_prior is None else log_prior
    last = first + len(factors)
    future = math.log(weight_from(last))
    if not len(factors):
        return Evidence(future, first, known[0])
    since = np.cumsum(factors[::-1], axis=0)[::-1]  # for each start, the bets on its rows
    since += _log_start_weights(first, last)[:, None]
    since += prior
    start, shift = divmod(int(since.argmax()), since.shape[1])
    highest = max(float(since[start, shift]), future)
    since -= highest
    total = float(np.exp(since, out=since).sum()) + math.exp(future - highest)
    return Evidence(highest + math.log(total), first + start, known[shift])


def weight_from(start: int) -> float:
    """Return the total weight of this start and all later ones."""
    if start == 0:
        return 1.0
    k = np.arange(_FLAT, start + _FLAT, dtype=np.float64)
    share = 1.0 - float((1.0 / (k * np.log(k) ** 2)).sum()) / _WHOLE
    return (1.0 - _FIRST) * share


def log_start_weight(start: int) -> float:
    """Return the logarithm of the weight of one start."""
    return float(_log_start_weights(start, start + 1)[0])


def _log_start_weights(first: int, last: int) -> Floats:
    k = np.arange(first, last) + float(_FLAT)
    weights = (1.0 - _FIRST) / (k * np.log(k) ** 2 * _WHOLE)
    if first == 0:
        weights[0] += _FIRST
    logs: Floats = np.log(weights)
    return logs
