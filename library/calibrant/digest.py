"""A short digest of the rows of a batch, by which data that a map was fitted to are known again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.batch import Batch

Codes = npt.NDArray[np.uint64]

_CHUNK_ROWS = 65_536
#: Two seeds, two independent 64-bit sums.
_SEEDS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)


def digest(batch: Batch) -> str:
    """Digest of the rows of a batch as a multiset: 32 hexadecimal digits.

    Two batches of the same rows have the same digest, whatever the order of the rows, whether they came as
    float32 or as float64, and whatever their weights and groups. It is no secret and no proof: an
    adversary can make two batches of one digest, and different batches share one with probability 2^-127 or so.

    Parameters
    ----------
    batch : Batch
        Checked predictions, probabilities or logits, and labels.

    Returns
    -------
    str
        Sum over the rows, modulo 2^64 twice, of a mixed hash of the row's numbers (in single precision) and label.

    Notes
    -----
    O(n K), without a sort: each row's codes are hashed by a random linear form (Dietzfelbinger et al., 1997,
    multiply-add) and mixed by the finaliser of SplitMix64 (Steele, Lea & Flood, 2014), and the sum does not
    depend on the order.

    Examples
    --------
    >>> from calibrant.batch import read_batch
    >>> one = read_batch([0.25, 0.5, 0.75], [0, 0, 1])
    >>> digest(one) == digest(read_batch([0.75, 0.25, 0.5], [1, 0, 0]))
    True
    >>> digest(one) == digest(read_batch([0.25, 0.5, 0.75], [0, 1, 0]))
    False
    """
    rows = batch.predictions.given
    table = rows[:, None] if rows.ndim == 1 else rows
    sums = [0] * len(_SEEDS)
    for start in range(0, len(table), _CHUNK_ROWS):
        piece = slice(start, start + _CHUNK_ROWS)
        # + 0.0 makes one zero of two.
        codes = (table[piece].astype(np.float32) + np.float32(0.0)).view(np.uint32).astype(np.uint64)
        labels = batch.labels[piece].astype(np.uint64)
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
