"""The reliability diagram of bins that were kept when their rows were not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.binning import Bins
from calibrant.cells import Floats
from calibrant.diagrams.reliability import Histogram, Reliability, wilson
from calibrant.measures.binned import expected_calibration_error

#: So many bins are drawn: a divisor of those that a map's record keeps, so that each holds as many of them.
DRAWN_BINS = 20
_LEVEL, _BARS = 0.95, 20


@dataclass(frozen=True)
class KeptBins:
    """Bins of equal mass in ascending order, all ``(b,)``: where each begins, and what is known of its rows.

    ``count`` rows, ``rows`` effective ones, ``share`` of the mass; means in [0, 1].
    """

    start: Sequence[float]
    count: Sequence[float]
    rows: Sequence[float]
    share: Sequence[float]
    mean_prediction: Sequence[float]
    label_share: Sequence[float]


def diagram_of_bins(kept: KeptBins, n_bins: int = DRAWN_BINS) -> dict[str, Any]:
    """The reliability diagram of bins as plain JSON: ``data``, ``definition`` and ``problem``, as evaluations have it.

    Neighbours are joined to at most ``n_bins``, whose sums are exact. The histogram is not: a kept bin counts where its
    mean prediction lies, so that a bar may be off by the bins at its ends. O(b).
    """
    definition = {
        "name": "reliability",
        "binning": "equal-mass",
        "count": "fixed",
        "n_bins": n_bins,
        "closed": "left",
        "level": _LEVEL,
        "histogram": _BARS,
    }
    return {"data": _reliability(kept, n_bins).to_document(), "definition": definition, "problem": None}


def _reliability(kept: KeptBins, n_bins: int) -> Reliability:
    share = np.asarray(kept.share, dtype=np.float64)
    share = share / share.sum()
    first = _firsts(share, n_bins)
    mass, count = np.add.reduceat(share, first), np.add.reduceat(np.asarray(kept.count, dtype=np.float64), first)
    # Of weights w a bin's effective rows are (sum w)^2 / sum w^2.
    squares = np.add.reduceat(share**2 / np.asarray(kept.rows), first)
    bins = Bins(
        mass,
        mass**2 / squares,
        np.add.reduceat(share * np.asarray(kept.mean_prediction), first) / mass,
        np.add.reduceat(share * np.asarray(kept.label_share), first) / mass,
        np.asarray(kept.start, dtype=np.float64)[first],
    )
    start, end = np.append(0.0, bins.start[1:]), np.append(bins.start[1:], 1.0)
    gap = bins.mean_y - bins.mean_p
    low, high = wilson(bins.mean_y, bins.rows, _LEVEL)
    plain, debiased = expected_calibration_error(bins, 1)
    return Reliability(
        start,
        end,
        count,
        bins.rows,
        mass,
        bins.mean_p,
        bins.mean_y,
        gap,
        low,
        high,
        start + gap,
        end + gap,
        plain,
        None if float(bins.rows.min()) < 1.0 else debiased,
        _histogram(kept, share),
    )


def _firsts(share: Floats, n_bins: int) -> Any:
    """The first of each run of bins that are joined: those with which another n_bins-th of the mass begins."""
    if len(share) <= n_bins:
        return np.arange(len(share))
    # The middle of a bin says where it belongs, whatever the rounding of the borders.
    place = np.floor((np.cumsum(share) - share / 2.0) * n_bins)
    return np.flatnonzero(np.diff(place, prepend=-1.0) > 0)


def _histogram(kept: KeptBins, share: Floats) -> Histogram:
    mean = np.asarray(kept.mean_prediction, dtype=np.float64)
    place = np.clip((mean * _BARS).astype(np.int64), 0, _BARS - 1)
    count, of_mass = np.zeros(_BARS), np.zeros(_BARS)
    np.add.at(count, place, np.asarray(kept.count, dtype=np.float64))
    np.add.at(of_mass, place, share)
    return Histogram(np.arange(_BARS + 1) / _BARS, count, of_mass)
