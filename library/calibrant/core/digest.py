"""A short digest of the rows of a batch, which identifies the rows that a map was fitted to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.core.batch import Batch

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
    >>> from calibrant.core.batch import read_batch
    >>> one = read_batch([0.25, 0.5, 0.75], [0, 0, 1])
    >>> digest(one) == digest(read_batch([0.75, 0.25, 0.5], [1, 0, 0]))
    True
    >>> digest(one) == digest(read_batch([0.25, 0.5, 0.75], [0, 1, 0]))
    False
    """
    cache = vars(batch)
    if _KEPT not in cache:  # not a field, so that ``replace`` drops it
        cache[_KEPT] = _digest(batch)
    text: str = cache[_KEPT]
    return text


def _digest(batch: Batch) -> str:
    rows = batch.predictions.given
    return rows_digest(rows[:, None] if rows.ndim == 1 else rows, batch.labels)


def label_rows(batch: Batch) -> Batch:
    """Return the rows with the number that is predicted for their label alone, ``(n,)``, which identify sets. O(n).

    >>> from calibrant.core.batch import read_batch
    >>> label_rows(read_batch([[0.2, 0.8], [0.7, 0.3]], [1, 1])).predictions.given
    array([0.8, 0.3])
    """
    predicted = batch.predictions.given
    own = predicted if predicted.ndim == 1 else predicted[np.arange(len(batch)), batch.labels]
    return Batch(replace(batch.predictions, given=own, features=None), batch.labels, None)


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


# --- A sample of the rows, by which some of them are recognised

#: Decimals to which the sampled rows are rounded: the fewest with which nearly all rows differ.
_DECIMALS = (4, 5, 6)
#: Fewer or more rows have no sample: those of many rows hardly look better than new rows.
_FEWEST, _MOST = 50, 20_000
#: Hashes of the sample and the digits of each; hashes that show whether rows differ.
_KEPT_HASHES, _DIGITS, _TRIED = 128, 10, 4096
_DIFFER = 0.97
#: From this many rows of the sample, and this share of the rows that could be in it, rows count as those of the fit.
_MATCHES, _SHARE = 5, 0.25


def sample_of(batch: Batch) -> str | None:
    """Return the smallest hashes of the rows of a batch, rounded; None for few or many rows, or if many are equal.

    >>> from calibrant.core.batch import read_batch
    >>> p = np.random.default_rng(0).uniform(size=500)
    >>> sample = sample_of(read_batch(p, p > 0.5))
    >>> shares_rows(sample, read_batch(p[:200].round(5), p[:200] > 0.5))
    True
    >>> shares_rows(sample, read_batch(1 - p, p < 0.5))
    False
    """
    if not _FEWEST <= len(batch) <= _MOST:
        return None
    tried = min(len(batch), _TRIED)
    for decimals in _DECIMALS:
        hashes = _rounded_hashes(batch, decimals)
        distinct = np.unique(np.partition(hashes, tried - 1)[:tried])
        if len(distinct) >= _DIFFER * tried:
            return f"{decimals}:" + "".join(f"{int(number):0{_DIGITS}x}" for number in distinct[:_KEPT_HASHES])
    return None


def shares_rows(sample: str, batch: Batch) -> bool:
    """Return whether a quarter or more of the rows of a batch are rows of which ``sample_of`` made the sample. O(n K).

    The share is that among the rows whose hashes are at most the largest of the sample (Broder 1997).
    """
    if len(batch) > _MOST / _SHARE:
        return False
    decimals, _, digits = sample.partition(":")
    sampled = np.array([int(digits[i : i + _DIGITS], 16) for i in range(0, len(digits), _DIGITS)], dtype=np.uint64)
    distinct = np.unique(_rounded_hashes(batch, int(decimals)))
    if len(sampled) == _KEPT_HASHES:
        distinct = distinct[distinct <= sampled[-1]]
    matches = int(np.isin(distinct, sampled).sum())
    return matches >= max(_MATCHES, _SHARE * len(distinct))


def _rounded_hashes(batch: Batch, decimals: int) -> Codes:
    """Return a hash of ``_DIGITS`` hexadecimal digits of each row."""
    values = batch.predictions.given
    table = values[:, None] if values.ndim == 1 else values
    hashes = np.empty(len(table), np.uint64)
    height = max(1, _CHUNK // table.shape[1])
    for start in range(0, len(table), height):
        piece = slice(start, start + height)
        with np.errstate(over="ignore"):  # logits may be infinite here
            whole = np.clip(np.rint(table[piece].astype(np.float64) * 10.0**decimals), -(2.0**53), 2.0**53)
        codes = whole.astype(np.int64).view(np.uint64)
        hashes[piece] = _row_hashes(codes, batch.labels[piece].astype(np.uint64), _SEEDS[0])
    return hashes >> np.uint64(64 - 4 * _DIGITS)
