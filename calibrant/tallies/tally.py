"""A tally: how many rows of each group, fold, cell and outcome there were, and the sum of their predictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats, Outcomes
from calibrant.errors import EmptyBatch
from calibrant.reductions import Event
from calibrant.tallies.gathering import Counts as Counts
from calibrant.tallies.gathering import Keys as Keys
from calibrant.tallies.gathering import all_gathered, gathered
from calibrant.tallies.grid import BEGINS, CELLS, place
from calibrant.tallies.wire import read, written

#: The folds that rows are dealt to, for cross-validation.
FOLDS = 5
#: Groups that a tally may tell apart: as many as fit its keys.
MAX_GROUPS = 2**32 // (2 * CELLS * FOLDS)

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Tally:
    """Rows counted by group, fold, cell and outcome; adding two tallies gives that of all their rows.

    ``keys (m,)`` are ascending and distinct, ``((group * FOLDS + fold) * CELLS + cell) * 2 + outcome``; ``rows (m,)``
    the rows of each, ``p_sum (m,)`` the sum of their predictions. m is at most groups x FOLDS x CELLS x 2, whatever the
    number of rows.
    """

    keys: Keys
    rows: Counts
    p_sum: Floats

    def __len__(self) -> int:
        """The number of rows."""
        return int(self.rows.sum())

    def of_group(self, group: int) -> Tally:
        """The rows of one group."""
        first, last = np.searchsorted(self.keys, np.array([group, group + 1], dtype=np.uint64) * _PER_GROUP)
        return Tally(self.keys[first:last], self.rows[first:last], self.p_sum[first:last])

    def of_folds(self, folds: Iterable[int]) -> Tally:
        """The rows of some folds."""
        kept = np.isin(self.keys // (2 * CELLS) % FOLDS, list(folds))
        return Tally(self.keys[kept], self.rows[kept], self.p_sum[kept])

    def pooled(self) -> Tally:
        """The same rows, of one group and one fold."""
        return _gathered(self.keys % np.uint32(2 * CELLS), self.rows, self.p_sum)

    def event(self) -> Event:
        """The rows as an event: one row for each cell and outcome, with its count as frequency weight.

        Both outcomes of a cell stand at the mean p of its rows, as a tie: rows of either outcome are spread alike over
        a cell, and a measure that reads between them, as KS does, would find a gap that is of the cells' making.
        Raises ``EmptyBatch`` where there is none.
        """
        if not len(self.rows):
            raise EmptyBatch.at("/labels", "has no rows")
        one = self.pooled()
        cell = one.keys >> np.uint32(1)
        at = np.cumsum(np.diff(cell, prepend=cell[:1]) > 0)
        mean = _steady(np.bincount(at, one.p_sum) / np.bincount(at, one.rows))
        y = (one.keys & np.uint32(1)).astype(np.int8)
        return Event(np.clip(mean, 0.0, 1.0)[at], y, one.rows.astype(np.float64))

    def to_bytes(self, *, packed: bool = False) -> bytes:
        """The tally as bytes, which ``from_bytes`` reads; ``packed`` ones are about 2/3 of the size."""
        return written((self.keys, self.rows, self.p_sum), packed=packed)


_PER_GROUP = np.uint64(2 * CELLS * FOLDS)


def tally_of(
    p: Floats,
    y: Outcomes,
    groups: Integers | None = None,
    folds: Integers | None = None,
    counts: Counts | None = None,
) -> Tally:
    """Count rows: ``p (n,)`` in [0, 1], ``y (n,)`` 0 or 1, ``groups`` and ``folds (n,)`` or None for 0. O(n).

    A row counts as so many as ``counts (n,)`` says, or once.

    Examples
    --------
    >>> one = tally_of(np.array([0.25, 0.25]), np.array([0, 1], dtype=np.int8))
    >>> two = merged([one, one])
    >>> len(two), two.event().w.tolist()
    (4, [2.0, 2.0])
    """
    cell = place(p)
    keys = cell * 2 + y
    if folds is not None:
        keys += folds * (2 * CELLS)
    if groups is not None:
        keys += groups * (2 * CELLS * FOLDS)
    rows = np.ones(len(p), dtype=np.int64) if counts is None else counts
    # Added up from where the cell begins: sums of a million like numbers are else off in the twelfth digit.
    found = _gathered(keys.astype(np.uint32), rows, rows * (p - BEGINS[cell]))
    return replace(found, p_sum=found.p_sum + found.rows * BEGINS[found.keys // 2 % CELLS])


def merged(tallies: Iterable[Tally]) -> Tally:
    """The tally of all rows of some tallies. O(sum of their cells)."""
    return Tally(*all_gathered((part.keys, part.rows, part.p_sum) for part in tallies))


def from_bytes(data: bytes) -> Tally:
    """Read what ``to_bytes`` wrote; raises ``ValueError`` for anything else."""
    return Tally(*read(data))


def _gathered(keys: Keys, rows: Counts, p_sum: Floats) -> Tally:
    return Tally(*gathered(keys, rows, p_sum))


#: 10^0 to 10^22: the powers of ten that doubles hold exactly.
_TENS = np.array([float(f"1e{k}") for k in range(23)])


def _steady(p: Floats) -> Floats:
    """Round to 12 significant digits, from 1e-10 on, and to 13 decimals above 0.9.

    A prediction that many rows share, as 0.3, is so exactly itself again, whatever the order in which it was added up:
    it ties with the rows of the other outcome, and lies on the same side of a bin's border as the rows themselves. Near
    1 a decimal more keeps 1 - p, of which the log loss is made.
    """
    tens = _TENS[11 - np.floor(np.log10(np.clip(p, 1e-10, 1.0))).astype(np.int64) + (p > 0.9)]
    return np.where(p < 1e-10, p, np.rint(p * tens) / tens)
