"""The shifts of the log-odds that the test of calibration bets on: a fixed set, on fixed blocks of the grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.special import expit

from calibrant.cells import Floats
from calibrant.tallies.grid import CELLS, Places

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

    def told(self) -> str:
        """The error in words.

        Examples
        --------
        >>> Shift("part", -0.2, low=0.75, high=0.85).told()
        'predictions between 0.75 and 0.85 are too high'
        >>> Shift("line", 0.0, -0.4).told()
        'predictions are too high above 0.5 and too low below'
        """
        if self.shape == "part":
            return f"predictions between {_short(self.low)} and {_short(self.high)} are too {_side(self.delta)}"
        if self.shape == "curve":
            ends, middle = _side(self.delta), _side(-self.delta)
            return f"predictions near 0 and near 1 are too {ends}, those between too {middle}"
        if abs(self.delta) >= abs(self.spread) * _FARTHEST / 2.0:
            return f"predictions are too {_side(self.delta)}"
        turn = float(expit(-2.0 * self.delta / self.spread))
        return f"predictions are too {_side(self.spread)} above {_short(turn)} and too {_side(-self.spread)} below"


def _side(delta: float) -> str:
    return "low" if delta > 0.0 else "high"


def _short(p: float) -> str:
    """A probability with the digits that tell it from 0 and 1."""
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
