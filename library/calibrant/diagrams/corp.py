"""CORP: the reliability curve by isotonic regression, its consistency band and the Brier score's decomposition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from calibrant.binning import compressed
from calibrant.cells import Cells, Floats
from calibrant.diagrams.diagram import DEPENDENT, Picture
from calibrant.measures.intervals import Resampling
from calibrant.measures.simulated import label_shares
from calibrant.progress import check
from calibrant.reductions import Event

#: The most blocks of the curve, and places of the band, that are kept.
_BLOCKS, _PLACES = 250, 200
#: Resamples drawn at once.
_BATCH = 500


@dataclass(frozen=True)
class Corp(Picture):
    """The curve: blocks of ``share`` of the mass, from their first prediction ``start`` to their last ``end``.

    ``calibrated`` is the label share of a block, strictly increasing; between blocks the curve is drawn straight. Of
    ``blocks`` in all at most 250 are kept. ``band_p``, ``band_low``, ``band_high`` are the consistency band: where such
    a curve lies of labels drawn from the predictions; None where rows hang together.

    ``brier`` = ``miscalibration`` - ``discrimination`` + ``uncertainty``, the first two at least 0.
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
    """The CORP reliability diagram (Dimitriadis, Gneiting & Jordan 2021). O(n log n) and the resamples' fits.

    The curve is the isotonic regression of the labels (pooled adjacent violators). The band holds, at each prediction
    by itself, the curve of y* ~ Bernoulli(p), p fixed, at ``level``; resamples are fitted on at most about 1,000 cells,
    with the mean prediction of each: with no more distinct predictions nothing is lost.
    """
    cells = event.cells
    fitted = np.clip(scipy.optimize.isotonic_regression(cells.wy / cells.w, weights=cells.w).x, 0.0, 1.0)
    at = np.concatenate(([0], np.flatnonzero(fitted[1:] != fitted[:-1]) + 1, [len(cells)]))
    share = np.diff(cells.cumulative_w[at]) / cells.mass
    kept = thinned(np.append(0.0, np.cumsum(share)), _BLOCKS)
    dependent = event.per_row > 1
    band_p, low, high = (None,) * 3 if dependent else consistency_band(cells, resampling, level)
    brier, recalibrated = _brier(cells, cells.p), _brier(cells, fitted)
    rate = float(cells.cumulative_wy[-1]) / cells.mass
    uncertainty = rate * (1.0 - rate)
    return Corp(
        cells.p[at[:-1]][kept],
        cells.p[at[1:] - 1][kept],
        fitted[at[:-1]][kept],
        share[kept],
        len(share),
        band_p,
        low,
        high,
        brier,
        brier - recalibrated,
        uncertainty - recalibrated,
        uncertainty,
        problem=DEPENDENT if dependent else None,
    )


def consistency_band(cells: Cells, resampling: Resampling, level: float) -> tuple[Floats, Floats, Floats]:
    """Where the curve of calibrated labels lies: at most 200 predictions, and the quantiles there.

    O(resamples x 1,000).
    """
    cells = compressed(cells)
    places = thinned(cells.cumulative_w, _PLACES)
    random = resampling.generator()
    curves = np.empty((resampling.resamples, len(places)))
    for start in range(0, resampling.resamples, _BATCH):
        check()
        shares = label_shares(cells, cells.p, min(_BATCH, resampling.resamples - start), random)
        for i, labels in enumerate(shares, start):
            curves[i] = scipy.optimize.isotonic_regression(labels, weights=cells.w).x[places]
    low, high = np.quantile(curves, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
    return cells.p[places], np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def thinned(ends: Floats, most: int) -> npt.NDArray[np.int64]:
    """Of pieces with the cumulative mass ``ends (b + 1,)``, at most ``most`` at even quantiles, and first and last."""
    size = len(ends) - 1
    if size <= most:
        return np.arange(size)
    middle = np.searchsorted(ends[1:], ends[-1] * np.arange(1, most - 1) / (most - 1))
    return np.unique(np.concatenate(([0], np.minimum(middle, size - 1), [size - 1])))


def _brier(cells: Cells, p: Floats) -> float:
    return float(cells.wy @ (1.0 - p) ** 2 + (cells.w - cells.wy) @ p**2) / cells.mass
