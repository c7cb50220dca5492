"""CORP: reliability curve by isotonic regression, consistency band, and decomposition of the Brier score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from calibrant.core.binning import compressed
from calibrant.core.cells import Cells, Floats
from calibrant.core.progress import check
from calibrant.core.reductions import Event
from calibrant.diagrams.diagram import Picture, no_intervals
from calibrant.measures.intervals import Resampling
from calibrant.measures.simulated import observed_frequencies

#: The most blocks of the curve and points of the band.
_BLOCKS, _PLACES = 250, 200
#: Resamples per step.
_BATCH = 500


@dataclass(frozen=True)
class Corp(Picture):
    """Data of a CORP reliability diagram.

    Attributes
    ----------
    start, end : ndarray
        First and last prediction of each block of the curve; at most 250 blocks are kept.
    calibrated : ndarray
        Observed frequency of each block, strictly increasing; the curve is straight between blocks.
    share : ndarray
        Fraction of the mass of each block.
    blocks : int
        Number of all blocks.
    band_p, band_low, band_high : ndarray or None
        Consistency band: the range of such curves for labels drawn from the predictions. None if rows are dependent.
    brier, miscalibration, discrimination, uncertainty : float
        ``brier`` = ``miscalibration`` - ``discrimination`` + ``uncertainty``; miscalibration and discrimination are at
        least 0.
    """

    start: Floats
    end: Floats
    calibrated: Floats
    share: Floats
    blocks: int
    band_p: Floats | None
    band_low: Floats | None
    band_high: Floats | None
    brier: float
    miscalibration: float
    discrimination: float
    uncertainty: float


def corp(event: Event, resampling: Resampling, *, level: float) -> Corp:
    """Compute the CORP reliability diagram (Dimitriadis, Gneiting & Jordan 2021).

    The curve is the isotonic regression of the labels (pool adjacent violators). The band contains, pointwise at
    ``level``, the curve for labels y* ~ Bernoulli(p) with p fixed. Resamples are fitted to at most about 1,000 cells
    with the mean prediction of each, which is exact for up to as many distinct predictions. O(n log n) and the fits of
    the resamples.
    """
    cells = event.cells
    fitted = np.clip(scipy.optimize.isotonic_regression(cells.wy / cells.w, weights=cells.w).x, 0.0, 1.0)
    at = np.concatenate(([0], np.flatnonzero(fitted[1:] != fitted[:-1]) + 1, [len(cells)]))
    share = np.diff(cells.cumulative_w[at]) / cells.mass
    shown = thinned(np.append(0.0, np.cumsum(share)), _BLOCKS)
    problem = no_intervals(event)
    band_p, low, high = (None,) * 3 if problem else consistency_band(cells, resampling, level)
    brier, recalibrated = _brier(cells, cells.p), _brier(cells, fitted)
    rate = float(cells.cumulative_wy[-1]) / cells.mass
    uncertainty = rate * (1.0 - rate)
    return Corp(
        cells.p[at[:-1]][shown],
        cells.p[at[1:] - 1][shown],
        fitted[at[:-1]][shown],
        share[shown],
        len(share),
        band_p,
        low,
        high,
        brier,
        brier - recalibrated,
        uncertainty - recalibrated,
        uncertainty,
        problem=problem,
    )


def consistency_band(cells: Cells, resampling: Resampling, level: float) -> tuple[Floats, Floats, Floats]:
    """Return at most 200 predictions, and the quantiles of the curves of calibrated labels there.

    O(resamples x 1,000).
    """
    cells = compressed(cells)
    places = thinned(cells.cumulative_w, _PLACES)
    random = resampling.generator()
    curves = np.empty((resampling.resamples, len(places)))
    for start in range(0, resampling.resamples, _BATCH):
        check()
        shares = observed_frequencies(cells, cells.p, min(_BATCH, resampling.resamples - start), random)
        for i, labels in enumerate(shares, start):
            curves[i] = scipy.optimize.isotonic_regression(labels, weights=cells.w).x[places]
    low, high = np.quantile(curves, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
    return cells.p[places], np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def thinned(ends: Floats, most: int) -> npt.NDArray[np.int64]:
    """Return indices of at most ``most`` of b pieces with cumulative mass ``ends`` (b+1,), at even quantiles."""
    size = len(ends) - 1
    if size <= most:
        return np.arange(size)
    middle = np.searchsorted(ends[1:], ends[-1] * np.arange(1, most - 1) / (most - 1))
    return np.unique(np.concatenate(([0], np.minimum(middle, size - 1), [size - 1])))


def _brier(cells: Cells, p: Floats) -> float:
    return float(cells.wy @ (1.0 - p) ** 2 + (cells.w - cells.wy) @ p**2) / cells.mass
