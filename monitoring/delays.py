"""How long labels take: delays counted in a fixed number of bins, and what is read off the counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats

#: Bins of delays: the first is below a second; each later one ends a third further than the one before, so that the
#: last begins after 650 days, which is longer than any horizon.
BINS = 64
#: The names of the bins among the counts of a time bucket.
FIELDS = tuple(f"d{k}" for k in range(BINS))
_RATIO = 4.0 / 3.0

Bins = npt.NDArray[np.int64]


def place(seconds: Floats) -> Bins:
    """The bin of each delay: ``(n,)``, 0 to ``BINS`` - 1; a label that came before its prediction waited 0 s. O(n).

    Examples
    --------
    >>> place(np.array([-3.0, 0.5, 1.0, 1.5, 60.0, 1e9])).tolist()
    [0, 0, 1, 2, 15, 63]
    """
    steps = np.log(np.maximum(seconds, 1.0)) / math.log(_RATIO)
    # A border belongs to the bin above it, whatever the rounding of its logarithm.
    found = np.where(seconds < 1.0, 0.0, 1.0 + np.floor(steps + 1e-9))
    return np.minimum(found, BINS - 1).astype(np.int64)


def counted(seconds: Floats) -> dict[str, int]:
    """The number of delays in each bin that has some, by the bin's field. O(n).

    Examples
    --------
    >>> counted(np.array([0.5, 1.5, 1.6]))
    {'d0': 1, 'd2': 2}
    """
    found = np.bincount(place(seconds), minlength=BINS)
    return {FIELDS[k]: int(found[k]) for k in np.flatnonzero(found)}


def quantiles(counts: Mapping[str, int], shares: Sequence[float]) -> list[float] | None:
    """The delays that such shares of the labels took at most, in seconds; None of no labels.

    Within a bin delays are taken to be even in their logarithm, so that a quantile is off by at most a third; one below
    a second is told as 0.

    Examples
    --------
    >>> [round(seconds, 3) for seconds in quantiles({"d1": 10}, [0.5]) or ()]
    [1.155]
    """
    rows = np.array([counts.get(field, 0) for field in FIELDS], dtype=np.float64)
    total = np.cumsum(rows)
    if total[-1] <= 0.0:
        return None
    wanted = np.asarray(shares) * total[-1]
    k = np.minimum(np.searchsorted(total, wanted), BINS - 1)
    within = np.clip((wanted - (total[k] - rows[k])) / np.maximum(rows[k], 1.0), 0.0, 1.0)
    return [float(seconds) for seconds in np.where(k == 0, 0.0, _RATIO ** (k - 1.0 + within))]
