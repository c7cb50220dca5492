"""How long labels take: counts of delays in half-octave bins of seconds, and what is read off them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats

#: Bin k holds delays from 2^(k/2) up to 2^((k+1)/2) seconds, the first all below, the last all above: 136 years.
BINS = 64
#: The names of the bins among the counts of a time bucket.
FIELDS = tuple(f"d{k}" for k in range(BINS))

Bins = npt.NDArray[np.int64]


def place(seconds: Floats) -> Bins:
    """The bin of each delay: ``(n,)``, 0 to ``BINS`` - 1; a label that came before its prediction waited 0 s. O(n).

    Examples
    --------
    >>> place(np.array([-5.0, 0.5, 1.0, 2.0, 3600.0])).tolist()
    [0, 0, 0, 2, 23]
    """
    return np.minimum(2.0 * np.log2(np.maximum(seconds, 1.0)), BINS - 1).astype(np.int64)


def counted(seconds: Floats) -> dict[str, int]:
    """The number of delays in each bin that has some, by the bin's field. O(n).

    Examples
    --------
    >>> counted(np.array([0.5, 2.0, 2.5]))
    {'d0': 1, 'd2': 2}
    """
    found = np.bincount(place(seconds), minlength=BINS)
    return {FIELDS[k]: int(found[k]) for k in np.flatnonzero(found)}


def quantiles(counts: Mapping[str, int], shares: Sequence[float]) -> list[float] | None:
    """The delays that such shares of the labels took at most, in seconds; None of no labels.

    Within a bin delays are taken to be even in their logarithm (in the first: even), so that a quantile is off by
    at most a factor of the root of 2.

    Examples
    --------
    >>> quantiles({"d2": 10}, [0.5])
    [2.378414230005442]
    """
    rows = np.array([counts.get(field, 0) for field in FIELDS], dtype=np.float64)
    total = np.cumsum(rows)
    if total[-1] <= 0.0:
        return None
    wanted = np.asarray(shares) * total[-1]
    k = np.minimum(np.searchsorted(total, wanted), BINS - 1)
    within = np.clip((wanted - (total[k] - rows[k])) / np.maximum(rows[k], 1.0), 0.0, 1.0)
    found = np.where(k == 0, within * 2.0**0.5, 2.0 ** ((k + within) / 2.0))
    return [float(seconds) for seconds in found]
