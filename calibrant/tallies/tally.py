"""A tally: how many rows of each group, fold, cell and outcome there were, and the sum of their predictions."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats, Outcomes
from calibrant.errors import EmptyBatch
from calibrant.reductions import Event
from calibrant.tallies.grid import BEGINS, CELLS, place

#: The folds that rows are dealt to, for cross-validation.
FOLDS = 5
#: Groups that a tally may tell apart: as many as fit its keys.
MAX_GROUPS = 2**32 // (2 * CELLS * FOLDS)

Keys = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.int64]
Integers = npt.NDArray[np.int64]

#: How a tally begins as bytes, by whether it is packed and how many bytes count the rows of a kind.
_KINDS = {b"T1": (False, 4), b"Z1": (True, 4), b"T2": (False, 8), b"Z2": (True, 8)}
_BEGINS = {what: kind for kind, what in _KINDS.items()}


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
        p = np.clip(_steady(one.p_sum / one.rows), 0.0, 1.0)
        return Event(p, (one.keys & np.uint32(1)).astype(np.int8), one.rows.astype(np.float64))

    def to_bytes(self, *, packed: bool = False) -> bytes:
        """The tally as bytes, which ``from_bytes`` reads; ``packed`` ones are smaller and slower to make."""
        width = 4 if self.rows.max(initial=0) < 2**32 else 8
        steps = np.diff(self.keys, prepend=np.uint32(0)).astype("<u4")
        body = steps.tobytes() + self.rows.astype(f"<u{width}").tobytes() + self.p_sum.astype("<f8").tobytes()
        return _BEGINS[packed, width] + (zlib.compress(body, 1) if packed else body)


_PER_GROUP = np.uint64(2 * CELLS * FOLDS)


def tally_of(
    p: Floats,
    y: Outcomes,
    groups: Integers | None = None,
    folds: Integers | None = None,
    counts: Counts | None = None,
) -> Tally:
    """Count rows: ``p (n,)`` in [0, 1], ``y (n,)`` 0 or 1, ``groups`` and ``folds (n,)`` or None for 0. O(n log n).

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
    if data[:2] not in _KINDS:
        raise ValueError("these bytes are no tally")
    (packed, width), body = _KINDS[data[:2]], data[2:]
    if packed:
        try:
            body = zlib.decompress(body)
        except zlib.error:
            raise ValueError("these bytes are no whole tally") from None
    m, rest = divmod(len(body), 12 + width)
    if rest:
        raise ValueError("these bytes are no whole tally")
    keys = np.cumsum(np.frombuffer(body, "<u4", m), dtype=np.uint32)
    rows = np.frombuffer(body, f"<u{width}", m, 4 * m).astype(np.int64)
    return Tally(keys, rows, np.frombuffer(body, "<f8", m, (4 + width) * m))


def _gathered(keys: Keys, rows: Counts, p_sum: Floats) -> Tally:
    distinct, at = np.unique(keys, return_inverse=True)
    counts = np.bincount(at, rows, len(distinct)).astype(np.int64)
    sums: Floats = np.bincount(at, p_sum, len(distinct)).astype(np.float64)
    return Tally(distinct, counts, sums)


#: 10^0 to 10^22: the powers of ten that doubles hold exactly.
_TENS = np.array([float(f"1e{k}") for k in range(23)])


def _steady(p: Floats) -> Floats:
    """Round to 12 significant digits, from 1e-10 on.

    A prediction that many rows share, as 0.3, is so exactly itself again, whatever the order in which it was added up:
    it ties with the rows of the other outcome, and lies on the same side of a bin's border as the rows themselves.
    """
    tens = _TENS[11 - np.floor(np.log10(np.clip(p, 1e-10, 1.0))).astype(np.int64)]
    return np.where(p < 1e-10, p, np.rint(p * tens) / tens)
