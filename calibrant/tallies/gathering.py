"""Adding up what stands under equal keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats

Keys = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.int64]
#: Ascending distinct keys, and the rows and sums of each.
Gathered = tuple[Keys, Counts, Floats]

#: Keys are counted in a table of their whole range where it has at most so many places for each of them, and more.
_PLACES, _MORE = 8, 1 << 14
#: So many keys are added up together: enough to be worth a call, and few enough for the processor's cache.
_AT_ONCE = 1 << 16


def gathered(keys: Keys, rows: Counts, p_sum: Floats) -> Gathered:
    """Add up ``rows (n,)`` and ``p_sum (n,)`` by ``keys (n,)``. O(n), or O(n log n) where keys lie far apart.

    Either way what stands under one key is added in the order in which it came.
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
    # One sort of keys with their places below them is several times faster than an indirect one.
    both = np.sort((keys.astype(np.uint64) << np.uint64(32)) | np.arange(len(keys), dtype=np.uint64))
    order, ascending = (both & np.uint64(2**32 - 1)).astype(np.int64), (both >> np.uint64(32)).astype(np.uint32)
    new = np.append(True, ascending[1:] != ascending[:-1])
    at = np.cumsum(new) - 1
    sums: Floats = np.bincount(at, p_sum[order]).astype(np.float64, copy=False)
    return ascending[new], np.bincount(at, rows[order]).astype(np.int64), sums


def all_gathered(parts: Iterable[Gathered]) -> Gathered:
    """Add up several, each of ascending distinct keys. O(sum of their lengths); holds a few of them at once."""
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
