"""Two tests of a stream: by betting, checked after every batch, and by KS on consecutive windows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from benchmarks.calibration_test import Array
from calibrant.core.reductions import Event
from calibrant.measures.cumulative import ks_error, ks_p_value
from calibrant.monitoring.evidence import block_of_cell, evidence, log_bets, log_start_weight, log_weights, weight_from
from calibrant.monitoring.tally import place

#: Rows of a batch, after each of which the test is checked, and of a time bucket.
BATCH, BUCKET = 1_000, 10_000
_BLOCKS = int(block_of_cell()[-1]) + 1


@dataclass
class Betting:
    """``calibrant.monitoring.evidence.evidence`` after every batch, without summing closed buckets again.

    ``log_e`` is the evidence after each batch; ``factors`` are those of closed buckets.
    """

    log_e: list[float] = field(default_factory=list)
    factors: list[Array] = field(default_factory=list)
    #: For each shift, the mixture over past starts of the bets on closed buckets.
    _mixed: Array = field(default_factory=lambda: np.full(len(log_weights()), log_start_weight(0)))

    def take(self, p: Array, y: Array) -> None:
        """Add the rows of a bucket."""
        key = np.repeat(np.arange(BUCKET // BATCH), BATCH) * _BLOCKS + block_of_cell()[place(p)]
        n, y_sum, p_sum = (
            np.bincount(key, of, BUCKET // BATCH * _BLOCKS).reshape(-1, _BLOCKS).cumsum(axis=0) for of in (None, y, p)
        )
        bets = log_bets(n.astype(np.float64), y_sum.astype(np.float64), p_sum.astype(np.float64))
        later = np.full((len(bets), 1), np.log(weight_from(len(self.factors) + 1)))
        looks = np.concatenate([self._mixed + bets + log_weights(), later], axis=1)
        self.log_e += logsumexp(looks, axis=1).tolist()
        self.factors.append(bets[-1])
        self._mixed = np.logaddexp(self._mixed + bets[-1], log_start_weight(len(self.factors)))

    def agrees(self) -> bool:
        """Whether the last value equals that of ``evidence``."""
        return abs(self.log_e[-1] - evidence(np.array(self.factors)).log_e) < 1e-8

    def first(self, alpha: float) -> int | None:
        """The rows until the first alarm."""
        above = np.flatnonzero(np.array(self.log_e) >= -np.log(alpha))
        return None if not len(above) else (int(above[0]) + 1) * BATCH


@dataclass
class Windows:
    """The KS test of every window of ``rows`` rows, at alpha divided by the number of windows in ``all_rows``."""

    rows: int
    all_rows: int
    p_values: list[float] = field(default_factory=list)
    _held: list[tuple[Array, Array]] = field(default_factory=list)

    def take(self, p: Array, y: Array) -> None:
        """Add rows: a part of a window, or several windows."""
        self._held.append((p, y))
        if sum(len(part) for part, _ in self._held) < self.rows:
            return
        p, y = (np.concatenate(both) for both in zip(*self._held, strict=True))
        self._held = []
        for start in range(0, len(p), self.rows):
            window = slice(start, start + self.rows)
            cells = Event(p[window], y[window].astype(np.int8)).cells
            self.p_values.append(ks_p_value(cells, ks_error(cells)))

    def first(self, alpha: float) -> int | None:
        """The rows until the first alarm."""
        below = np.flatnonzero(np.array(self.p_values) <= alpha * self.rows / self.all_rows)
        return None if not len(below) else (int(below[0]) + 1) * self.rows
