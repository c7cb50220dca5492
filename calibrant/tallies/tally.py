"""A tally: how many rows of each group, fold, cell and outcome there were, and the sum of their predictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats, Outcomes
from calibrant.errors import EmptyBatch
from calibrant.reductions import Event
from calibrant.tallies.grid import CELLS, place

#: The folds that rows are dealt to, for cross-validation.
FOLDS = 5
#: Groups that a tally may tell apart: as many as fit its keys.
MAX_GROUPS = 2**32 // (2 * CELLS * FOLDS)

Keys = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.int64]
Integers = npt.NDArray[np.int64]

#: Keys are counted by their places up to so many places for each, and sorted beyond.
_DENSE = 16

#: How a tally begins as bytes; the sizes in bytes of a step of its keys and of a count of rows follow.
_KIND = b"T1"


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
        """The rows as an event: one row for each cell and outcome at the cell's mean p, its count as frequency weight.

        Both outcomes of a cell stand at one p. At means of their own a border of bins could come between them, as if
        the labels had been known when the bins were cut: on 1e6 rows of a calibrated model the ECE errs by 1.4e-3 so,
        and by 2e-5 as it is. Raises ``EmptyBatch`` where there is no row.
        """
        if not len(self.rows):
            raise EmptyBatch.at("/labels", "has no rows")
        one = self.pooled()
        cells = one.keys >> np.uint32(1)
        rows, p_sum = (np.bincount(cells, of, CELLS) for of in (one.rows, one.p_sum))
        p = np.clip(p_sum[cells] / rows[cells], 0.0, 1.0)
        return Event(p, (one.keys & np.uint32(1)).astype(np.int8), one.rows.astype(np.float64))

    def to_bytes(self) -> bytes:
        """The tally as bytes, which ``from_bytes`` reads: 10 or 11 for each of its cells, most often."""
        steps, rows = np.diff(self.keys, prepend=np.uint32(0)), self.rows
        if rows.max(initial=0) >= 2**32:
            raise OverflowError("a tally holds at most 2^32 - 1 rows of a kind")
        sizes = _least_size(steps), _least_size(rows)
        parts = [array.astype(f"<u{size}").tobytes() for array, size in zip((steps, rows), sizes, strict=True)]
        return b"".join((_KIND, bytes(sizes), *parts, self.p_sum.astype("<f8").tobytes()))


_PER_GROUP = np.uint64(2 * CELLS * FOLDS)


def tally_of(p: Floats, y: Outcomes, groups: Integers | None = None, folds: Integers | None = None) -> Tally:
    """Count rows: ``p (n,)`` in [0, 1], ``y (n,)`` 0 or 1, ``groups`` and ``folds (n,)`` or None for 0. O(n log n).

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
    return tally_of_keys(keys.astype(np.uint32), p)


def tally_of_keys(keys: Keys, p: Floats) -> Tally:
    """Count rows whose ``keys (n,)`` are known, in any order; ``p (n,)`` are their predictions. O(n log n)."""
    return _gathered(keys, np.ones(len(p), dtype=np.int64), p)


def merged(tallies: Iterable[Tally]) -> Tally:
    """The tally of all rows of some tallies. O(sum of their cells)."""
    parts = list(tallies)
    if not parts:
        return Tally(np.zeros(0, np.uint32), np.zeros(0, np.int64), np.zeros(0))
    return _gathered(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.p_sum for part in parts]),
    )


def from_bytes(data: bytes) -> Tally:
    """Read what ``to_bytes`` wrote; raises ``ValueError`` for anything else."""
    if data[:2] != _KIND or not set(data[2:4]) <= {1, 2, 4} or len(data) < 4:
        raise ValueError("these bytes are no tally")
    of_step, of_rows = data[2:4]
    m, rest = divmod(len(data) - 4, of_step + of_rows + 8)
    if rest:
        raise ValueError("these bytes are no whole tally")
    keys = np.cumsum(np.frombuffer(data, f"<u{of_step}", m, 4), dtype=np.uint32)
    rows = np.frombuffer(data, f"<u{of_rows}", m, 4 + m * of_step).astype(np.int64)
    return Tally(keys, rows, np.frombuffer(data, "<f8", m, 4 + m * (of_step + of_rows)))


def _least_size(values: Keys | Counts) -> int:
    """The bytes that hold every value: 1, 2 or 4."""
    most = int(values.max(initial=0))
    return 1 if most < 2**8 else 2 if most < 2**16 else 4


def _gathered(keys: Keys, rows: Counts, p_sum: Floats) -> Tally:
    places = int(keys.max(initial=0)) + 1
    if places <= _DENSE * len(keys):
        counts = np.bincount(keys, rows, places).astype(np.int64)
        there = np.flatnonzero(counts)
        dense: Floats = np.bincount(keys, p_sum, places).astype(np.float64)
        return Tally(there.astype(np.uint32), counts[there], dense[there])
    distinct, at = np.unique(keys, return_inverse=True)
    counts = np.bincount(at, rows, len(distinct)).astype(np.int64)
    sums: Floats = np.bincount(at, p_sum, len(distinct)).astype(np.float64)
    return Tally(distinct, counts, sums)
