"""A short digest of the rows of a batch, which identifies the rows that a map was fitted to."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.batch import Batch

Codes = npt.NDArray[np.uint64]

#: Numbers that are hashed at once, so that they fit in the processor cache.
_CHUNK = 1 << 17
#: Attribute of a batch that holds its digest.
_KEPT = "_digest"
#: Seeds of two independent 64-bit sums.
_SEEDS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)


def digest(batch: Batch) -> str:
    """Return the digest of the rows of a batch as a multiset: 32 hexadecimal digits.

    The digest does not depend on the order of the rows, on weights and groups, or on whether the rows are float32 or
    float64. It is not cryptographic: an adversary can construct collisions. Different batches have the same digest with
    probability about 2^-127.

    Parameters
    ----------
    batch : Batch
        Checked predictions, probabilities or logits, and labels.

    Returns
    -------
    str
        Two sums over the rows, modulo 2^64, of a hash of the numbers of the row (in single precision) and its label.

    Notes
    -----
    O(n K) on the first call; the batch keeps its digest. Each row is hashed by a random linear form (Dietzfelbinger et
    al., 1997, multiply-add) and mixed by the finaliser of SplitMix64 (Steele, Lea & Flood, 2014).

    Examples
    --------
    >>> from calibrant.batch import read_batch
    >>> one = read_batch([0.25, 0.5, 0.75], [0, 0, 1])
    >>> digest(one) == digest(read_batch([0.75, 0.25, 0.5], [1, 0, 0]))
    True
    >>> digest(one) == digest(read_batch([0.25, 0.5, 0.75], [0, 1, 0]))
    False
    """
    kept = vars(batch)
    if _KEPT not in kept:  # not a field, so that ``replace`` drops it
        kept[_KEPT] = _digest(batch)
    found: str = kept[_KEPT]
    return found


def _digest(batch: Batch) -> str:
    rows = batch.predictions.given
    return rows_digest(rows[:, None] if rows.ndim == 1 else rows, batch.labels)


def rows_digest(table: npt.NDArray[np.floating[Any]], row_labels: npt.NDArray[np.integer[Any]]) -> str:
    """Return the digest of rows of numbers ``(n, K)`` with labels ``(n,)``, as ``digest`` does for a batch."""
    sums = [0] * len(_SEEDS)
    height = max(1, _CHUNK // table.shape[1])
    for start in range(0, len(table), height):
        piece = slice(start, start + height)
        with np.errstate(over="ignore"):  # a logit beyond single precision becomes infinite
            single = table[piece].astype(np.float32)
        codes = (single + np.float32(0.0)).view(np.uint32).astype(np.uint64)  # + 0.0 turns -0.0 into 0.0
        labels = row_labels[piece].astype(np.uint64)
        for i, seed in enumerate(_SEEDS):
            sums[i] += int(np.sum(_row_hashes(codes, labels, seed), dtype=np.uint64))
    return "".join(f"{part % 2**64:016x}" for part in sums)


def _row_hashes(codes: Codes, labels: Codes, seed: int) -> Codes:
    factors = _mixed(np.arange(1, codes.shape[1] + 2, dtype=np.uint64) * np.uint64(seed)) | np.uint64(1)
    return _mixed(codes @ factors[:-1] + (labels + np.uint64(1)) * factors[-1])


def _mixed(x: Codes) -> Codes:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
