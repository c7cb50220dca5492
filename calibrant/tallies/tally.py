"""A tally: how many rows of each group, fold, cell and outcome there were, and the sum of their predictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats, Outcomes
from calibrant.errors import EmptyBatch
from calibrant.reductions import Event
from calibrant.tallies.gathering import Counts as Counts
from calibrant.tallies.gathering import Keys as Keys
from calibrant.tallies.gathering import all_gathered, gathered
from calibrant.tallies.grid import CELLS, place
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
        """The rows as an event: one row for each cell and outcome at its mean p, with its count as frequency weight.

        Raises ``EmptyBatch`` where there is none.
        """
        if not len(self.rows):
            raise EmptyBatch.at("/labels", "has no rows")
        one = self.pooled()
        p = np.clip(one.p_sum / one.rows, 0.0, 1.0)
        return Event(p, (one.keys & np.uint32(1)).astype(np.int8), one.rows.astype(np.float64))

    def to_bytes(self, *, packed: bool = False) -> bytes:
        """The tally as bytes, which ``from_bytes`` reads; ``packed`` ones are about 2/3 of the size."""
        return written((self.keys, self.rows, self.p_sum), packed=packed)


_PER_GROUP = np.uint64(2 * CELLS * FOLDS)


def tally_of(p: Floats, y: Outcomes, groups: Integers | None = None, folds: Integers | None = None) -> Tally:
    """Count rows: ``p (n,)`` in [0, 1], ``y (n,)`` 0 or 1, ``groups`` and ``folds (n,)`` or None for 0. O(n).

    Examples
    --------
    >>> one = tally_of(np.array([0.25, 0.25]), np.array([0, 1], dtype=np.int8))
    >>> two = merged([one, one])
    >>> len(two), two.event().w.tolist()
    (4, [2.0, 2.0])
    """
    keys = place(p) * 2 + y
    if folds is not None:
        keys += folds * (2 * CELLS)
    if groups is not None:
        keys += groups * (2 * CELLS * FOLDS)
    return _gathered(keys.astype(np.uint32), np.ones(len(p), dtype=np.int64), p)


def merged(tallies: Iterable[Tally]) -> Tally:
    """The tally of all rows of some tallies. O(sum of their cells)."""
    return Tally(*all_gathered([(part.keys, part.rows, part.p_sum) for part in tallies]))


def from_bytes(data: bytes) -> Tally:
    """Read what ``to_bytes`` wrote; raises ``ValueError`` for anything else."""
    return Tally(*read(data))


def _gathered(keys: Keys, rows: Counts, p_sum: Floats) -> Tally:
    return Tally(*gathered(keys, rows, p_sum))
