"""Tallies: numbers of rows by group, fold, cell and outcome, their sums, and their serialisation."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.core.arrays import Compared
from calibrant.core.cells import Floats, Outcomes
from calibrant.core.errors import EmptyBatch
from calibrant.core.reductions import Event

# --- Sums of values with equal keys

Keys = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.int64]
#: Ascending distinct keys, and the rows and sums for each key.
Gathered = tuple[Keys, Counts, Floats]

#: Keys are counted in a table if it has at most this many entries per key, plus a constant.
_PLACES, _MORE = 8, 1 << 14
#: Keys that are added up together: enough for one call, and few enough for the processor cache.
_AT_ONCE = 1 << 16
#: Rows of a table whose keys are computed together, in the processor cache; rows that wait for the next sum.
_BLOCK, _WAITING = 1 << 13, 1 << 19


def gathered(keys: Keys, rows: Counts, p_sum: Floats) -> Gathered:
    """Add up ``rows (n,)`` and ``p_sum (n,)`` by ``keys (n,)``. O(n), or O(n log n) for sparse keys.

    Values of one key are added in their given order.
    """
    if not len(keys):
        return keys, rows, p_sum
    low = keys.min()
    span = int(keys.max() - low) + 1
    if span > _PLACES * len(keys) + _MORE:
        return _sorted(keys, rows, p_sum)
    at = (keys - low).astype(np.int64)
    counts = np.bincount(at, rows, span)
    held = np.flatnonzero(counts)
    sums: Floats = np.bincount(at, p_sum, span)[held].astype(np.float64, copy=False)
    return held.astype(np.uint32) + low, counts[held].astype(np.int64), sums


def _sorted(keys: Keys, rows: Counts, p_sum: Floats) -> Gathered:
    # Sorting keys combined with their positions is several times faster than an indirect sort.
    both = np.sort((keys.astype(np.uint64) << np.uint64(32)) | np.arange(len(keys), dtype=np.uint64))
    order, ascending = (both & np.uint64(2**32 - 1)).astype(np.int64), (both >> np.uint64(32)).astype(np.uint32)
    new = np.append(True, ascending[1:] != ascending[:-1])
    at = np.cumsum(new) - 1
    sums: Floats = np.bincount(at, p_sum[order]).astype(np.float64, copy=False)
    return ascending[new], np.bincount(at, rows[order]).astype(np.int64), sums


def all_gathered(parts: Iterable[Gathered]) -> Gathered:
    """Add up several of ascending distinct keys, with only a few in memory. O(sum of their lengths)."""
    held: list[Gathered] = [(np.zeros(0, np.uint32), np.zeros(0, np.int64), np.zeros(0))]
    waiting, bound = 0, _AT_ONCE
    for part in parts:
        held.append(part)
        waiting += len(part[0])
        if waiting >= bound:
            held = [_together(held)]
            waiting, bound = 0, max(_AT_ONCE, len(held[0][0]))
    return _together(held)


def _together(parts: Sequence[Gathered]) -> Gathered:
    keys, rows, p_sum = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return gathered(keys, rows, p_sum)


# --- The fixed grid of tallies, even in arcsin(sqrt(p))

#: Cells of the grid.
CELLS = 2048

Integers = npt.NDArray[np.int64]


def place(p: npt.NDArray[np.floating[Any]], out: Integers | None = None) -> Integers:
    """Return the cell of each p in [0, 1]: ``(n,)``, 0 to ``CELLS`` - 1, also in ``out``. O(n).

    Cell k contains p from sin^2(pi k / 2m) up to sin^2(pi (k + 1) / 2m), m = ``CELLS``. The arcsine of the root
    stabilises the variance of an observed frequency (Anscombe 1948): the width of a cell, pi/m sqrt(p (1 - p)), is
    proportional to the noise of its rows. The comparison with ``borders`` decides, since the last digit of the arcsine
    differs between machines, so that the cells are the same everywhere.

    Examples
    --------
    >>> place(np.array([0.0, 0.5, 1.0])).tolist()
    [0, 1024, 2047]
    """
    # Most of the steps, multiples of a power of two, are inside one cell, which a table has.
    cells: Integers = _CELL_OF_STEP.take((p * _STEPS).astype(np.int64), out=out, mode="clip")
    odd = np.flatnonzero(cells < 0)
    if len(odd):
        cells[odd] = _placed(p[odd].astype(np.float64, copy=False))
    return cells


def _placed(p: Floats) -> Integers:
    cells: Integers = np.minimum((np.arcsin(np.sqrt(p)) * (2.0 * CELLS / math.pi)).astype(np.int64), CELLS - 1)
    cells -= p < BEGINS[cells]
    cells += p >= _END[cells]
    return cells


def borders() -> Floats:
    """Return the borders of the cells: ``(CELLS + 1,)``, ascending from 0 to 1, rounded to 15 decimals."""
    ends: Floats = np.round(np.sin(np.arange(CELLS + 1) * (math.pi / (2.0 * CELLS))) ** 2, 15)
    return ends


#: The starts of the cells.
BEGINS = borders()[:-1]
#: The ends of the cells; the last cell also contains 1.
_END = np.append(BEGINS[1:], np.inf)
#: Equal steps of p, and the cell that contains a whole step, or -1; the last entry is for p = 1.
_STEPS = 1 << 16
_CELL_OF_STEP = _placed(np.arange(_STEPS + 1) / _STEPS)
_CELL_OF_STEP[:-1][_CELL_OF_STEP[:-1] != _placed(np.nextafter(np.arange(1, _STEPS + 1) / _STEPS, 0.0))] = -1


# --- Serialisation: a header with a checksum, and columns as narrow as possible

_MAGIC = b"T1"
#: Magic number, bytes per step and per count, number of entries; then the CRC-32 of the rest; 16 bytes in all.
_HEADER, _CHECKSUM = struct.Struct("<2sBBI"), struct.Struct("<I4x")
_BODY = _HEADER.size + _CHECKSUM.size
_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}


def written(entries: Gathered) -> bytes:
    """Serialise ascending distinct keys with their rows and sums: the sums, the rows, the steps between keys.

    Rows and steps have the width of the largest one.
    """
    keys, rows, p_sum = entries
    steps = np.diff(keys, prepend=np.uint32(0))
    widths = [_width(int(column.max(initial=0))) for column in (steps, rows)]
    columns = (column.astype(_WIDTHS[width]) for column, width in zip((rows, steps), widths[::-1], strict=True))
    body = b"".join([p_sum.astype("<f8").tobytes(), *(column.tobytes() for column in columns)])
    head = _HEADER.pack(_MAGIC, *widths, len(keys))
    return head + _CHECKSUM.pack(zlib.crc32(body, zlib.crc32(head))) + body


def read(data: bytes) -> Gathered:
    """Read the result of ``written``; raise ``ValueError`` if it is invalid."""
    if len(data) < _BODY or data[:2] != _MAGIC:
        raise ValueError("the bytes are not a tally")
    _, of_step, of_rows, m = _HEADER.unpack_from(data)
    if not {of_step, of_rows} <= _WIDTHS.keys() or len(data) != _BODY + m * (8 + of_step + of_rows):
        raise ValueError("the bytes are not a complete tally")
    whole = zlib.crc32(memoryview(data)[_BODY:], zlib.crc32(data[: _HEADER.size]))
    if _CHECKSUM.unpack_from(data, _HEADER.size) != (whole,):
        raise ValueError("the checksum of the tally is wrong")
    p_sum = np.frombuffer(data, "<f8", m, _BODY)
    rows = np.frombuffer(data, _WIDTHS[of_rows], m, _BODY + 8 * m).astype(np.int64)
    steps = np.frombuffer(data, _WIDTHS[of_step], m, _BODY + (8 + of_rows) * m)
    return np.cumsum(steps, dtype=np.uint32), rows, p_sum


def _width(largest: int) -> int:
    return next(width for width in _WIDTHS if largest < 256**width)


# --- Tallies: rows and sums of predictions by group, fold, cell and outcome

#: Number of folds for cross-validation.
FOLDS = 5
#: The most groups of a tally, limited by the range of keys.
MAX_GROUPS = 2**32 // (2 * CELLS * FOLDS)


@dataclass(frozen=True, eq=False)
class Tally(Compared):
    """Counts of rows by group, fold, cell and outcome; the sum of two tallies is the tally of all their rows.

    ``keys (m,)`` are ascending and distinct, ``((group * FOLDS + fold) * CELLS + cell) * 2 + outcome``; ``rows (m,)``
    are the numbers of rows and ``p_sum (m,)`` the sums of their predictions. m is at most groups x FOLDS x CELLS x 2.
    """

    keys: Keys
    rows: Counts
    p_sum: Floats

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.rows.sum())

    def of_group(self, group: int) -> Tally:
        """Return the tally of one group."""
        first, last = np.searchsorted(self.keys, np.array([group, group + 1], dtype=np.uint64) * _PER_GROUP)
        return Tally(self.keys[first:last], self.rows[first:last], self.p_sum[first:last])

    def of_folds(self, folds: Iterable[int]) -> Tally:
        """Return the tally of some folds."""
        chosen = np.isin(self.keys // (2 * CELLS) % FOLDS, list(folds))
        return Tally(self.keys[chosen], self.rows[chosen], self.p_sum[chosen])

    def pooled(self) -> Tally:
        """Return the tally with all groups and folds pooled."""
        return _gathered(self.keys % np.uint32(2 * CELLS), self.rows, self.p_sum)

    def event(self) -> Event:
        """Return the rows as an event: one row for each cell and outcome, with its count as frequency weight.

        Both outcomes of a cell have the mean p of the cell, as a tie: with separate means, KS would show gaps within
        cells that are artefacts. Raises ``EmptyBatch`` if there are no rows.
        """
        if not len(self.rows):
            raise EmptyBatch.at("/labels", "has no rows")
        whole = self.pooled()
        cell = whole.keys >> np.uint32(1)
        at = np.cumsum(np.diff(cell, prepend=cell[:1]) > 0)
        mean = _steady(np.bincount(at, whole.p_sum) / np.bincount(at, whole.rows))
        y = (whole.keys & np.uint32(1)).astype(np.int8)
        return Event(np.clip(mean, 0.0, 1.0)[at], y, whole.rows.astype(np.float64))

    def to_bytes(self) -> bytes:
        """Serialise the tally for ``from_bytes``; usually 10 or 11 bytes per entry."""
        return written((self.keys, self.rows, self.p_sum))


_PER_GROUP = np.uint64(2 * CELLS * FOLDS)


def tally_of(
    p: Floats, y: Outcomes, groups: Integers | None = None, folds: Integers | None = None, counts: Counts | None = None
) -> Tally:
    """Count rows: ``p (n,)`` in [0, 1], ``y (n,)`` 0 or 1, ``groups`` and ``folds (n,)`` or None for 0. O(n).

    ``counts (n,)`` are the multiplicities of the rows, by default 1.

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
    return tally_of_keys(keys.astype(np.uint32), p, counts)


def tally_of_keys(keys: Keys, p: Floats, counts: Counts | None = None) -> Tally:
    """Count rows with ``keys (n,)`` in any order and predictions ``p (n,)``. O(n)."""
    rows = np.ones(len(p), dtype=np.int64) if counts is None else counts
    # Sum differences from the start of the cell: sums of a million similar numbers lose accuracy.
    differences = _gathered(keys, rows, rows * (p - BEGINS[keys // 2 % CELLS]))
    return replace(differences, p_sum=differences.p_sum + differences.rows * BEGINS[differences.keys // 2 % CELLS])


class CellTable:
    """Rows that are added up in a table of all groups, cells and outcomes: faster than tallies of few rows.

    It has 64 KiB for each group, as much again while rows are added, and 8 MiB.
    """

    def __init__(self) -> None:
        self._rows: Counts = np.zeros(2 * CELLS, dtype=np.int64)
        self._beyond: Floats = np.zeros(2 * CELLS)  # sums of differences from the starts of the cells
        self._keys, self._differences = np.empty(_WAITING, dtype=np.int64), np.empty(_WAITING)
        self._waiting = 0

    def add(
        self,
        p: npt.NDArray[np.floating[Any]],
        y: npt.NDArray[Any],
        codes: npt.NDArray[np.integer[Any]] | None = None,
        groups: Integers | None = None,
    ) -> None:
        """Count rows: ``p (n,)`` in [0, 1], ``y (n,)`` 0 or 1, and ``groups[codes]``, or None for 0. O(n)."""
        first = None if codes is None or groups is None else groups * (2 * CELLS)
        for start in range(0, len(p), _BLOCK):
            block = slice(start, start + _BLOCK)
            held = p[block]
            if self._waiting + len(held) > len(self._keys):
                self._flush()
            there = slice(self._waiting, self._waiting + len(held))
            keys, differences = self._keys[there], self._differences[there]
            place(held, keys)
            BEGINS.take(keys, out=differences, mode="clip")
            np.subtract(held, differences, out=differences)
            np.left_shift(keys, 1, out=keys)
            np.add(keys, y[block], out=keys)
            if first is not None and codes is not None:
                np.add(keys, first.take(codes[block]), out=keys)
            self._waiting = there.stop

    def _flush(self) -> None:
        if not self._waiting:
            return
        keys, differences = self._keys[: self._waiting], self._differences[: self._waiting]
        size = max(len(self._rows), (int(keys.max()) // (2 * CELLS) + 1) * 2 * CELLS)
        rows = np.bincount(keys, minlength=size).astype(np.int64, copy=False)
        sums: Floats = np.bincount(keys, differences, size).astype(np.float64, copy=False)
        rows[: len(self._rows)] += self._rows
        sums[: len(self._beyond)] += self._beyond
        self._rows, self._beyond, self._waiting = rows, sums, 0

    def held(self) -> list[int]:
        """Return the groups that have rows."""
        self._flush()
        return np.flatnonzero(self._rows.reshape(-1, 2 * CELLS).any(axis=1)).tolist()

    def tally(self, groups: Sequence[int]) -> Tally:
        """Return the tally of some groups, which are 0, 1, ... in it."""
        self._flush()
        rows: Counts = self._rows.reshape(-1, 2 * CELLS)[list(groups)].ravel()
        beyond: Floats = self._beyond.reshape(-1, 2 * CELLS)[list(groups)].ravel()
        held = np.flatnonzero(rows)
        keys = held + held // (2 * CELLS) * (2 * CELLS * (FOLDS - 1))
        return Tally(keys.astype(np.uint32), rows[held], beyond[held] + rows[held] * BEGINS[held // 2 % CELLS])


def merged(tallies: Iterable[Tally]) -> Tally:
    """Add up tallies. O(sum of their cells)."""
    return Tally(*all_gathered((part.keys, part.rows, part.p_sum) for part in tallies))


def from_bytes(data: bytes) -> Tally:
    """Read the result of ``to_bytes``; raise ``ValueError`` if it is invalid."""
    return Tally(*read(data))


def _gathered(keys: Keys, rows: Counts, p_sum: Floats) -> Tally:
    return Tally(*gathered(keys, rows, p_sum))


#: 10^0 to 10^22: the powers of ten that doubles represent exactly.
_TENS = np.array([float(f"1e{k}") for k in range(23)])


def _steady(p: Floats) -> Floats:
    """Round to 12 significant digits from 1e-10 on, and to 13 decimals above 0.9.

    This restores a prediction that many rows share, such as 0.3, for any order of the sum: it is on the same side of
    the borders of bins as the rows. Close to 1, an additional decimal keeps 1 - p accurate for the log loss.
    """
    tens = _TENS[11 - np.floor(np.log10(np.clip(p, 1e-10, 1.0))).astype(np.int64) + (p > 0.9)]
    return np.where(p < 1e-10, p, np.rint(p * tens) / tens)
