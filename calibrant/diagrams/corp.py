"""CORP: the reliability curve by isotonic regression, its consistency band and the Brier score's decomposition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from calibrant.binning import equal_mass_borders
from calibrant.cells import Cells, Floats
from calibrant.diagrams.diagram import DEPENDENT, Picture
from calibrant.measures.intervals import Resampling
from calibrant.reductions import Event

#: Labels are resampled on so many cells of equal mass and, for sparse ends, of equal width in asin sqrt p.
_BY_MASS, _BY_WIDTH = 750, 250
#: Blocks of the curve, and places of the band, that are told.
_BLOCKS, _PLACES = 250, 200
#: Resamples drawn at once.
_BATCH = 500
#: A cell of more rows than this is drawn as if it had as many.
_MOST_ROWS = 2.0**53


@dataclass(frozen=True)
class Corp(Picture):
    """The curve: blocks of ``share`` of the mass, from their first prediction ``start`` to their last ``end``.

    ``calibrated`` is the label share of a block, strictly increasing; between blocks the curve is drawn straight. Of
    ``blocks`` in all at most 250 are told. ``band_p``, ``band_low``, ``band_high`` are the consistency band: where such
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
    fitted = np.clip(isotonic_regression(cells.wy / cells.w, weights=cells.w).x, 0.0, 1.0)
    at = np.concatenate(([0], np.flatnonzero(fitted[1:] != fitted[:-1]) + 1, [len(cells)]))
    share = np.diff(cells.cumulative_w[at]) / cells.mass
    told = thinned(np.append(0.0, np.cumsum(share)), _BLOCKS)
    dependent = event.per_row > 1
    band_p, low, high = (None,) * 3 if dependent else consistency_band(cells, resampling, level)
    brier, recalibrated = _brier(cells, cells.p), _brier(cells, fitted)
    rate = float(cells.cumulative_wy[-1]) / cells.mass
    uncertainty = rate * (1.0 - rate)
    return Corp(
        cells.p[at[:-1]][told],
        cells.p[at[1:] - 1][told],
        fitted[at[:-1]][told],
        share[told],
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
    p, w, rows = _compressed(cells)
    places = thinned(np.append(0.0, np.cumsum(w)), _PLACES)
    random = resampling.generator()
    curves = np.empty((resampling.resamples, len(places)))
    for start in range(0, resampling.resamples, _BATCH):
        size = (min(_BATCH, resampling.resamples - start), len(p))
        # Rows that are no whole number take one of the two next to it, so that the variance is p (1 - p) / rows.
        below = np.floor(rows)
        trials = below + (random.random(size) >= below * (below + 1.0 - rows) / rows)
        shares = random.binomial(trials.astype(np.int64), p) / trials
        for i, labels in enumerate(shares, start):
            curves[i] = isotonic_regression(labels, weights=w).x[places]
    low, high = np.quantile(curves, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
    return p[places], np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def thinned(ends: Floats, most: int) -> npt.NDArray[np.int64]:
    """Of pieces with the cumulative mass ``ends (b + 1,)``, at most ``most`` at even quantiles, and first and last."""
    size = len(ends) - 1
    if size <= most:
        return np.arange(size)
    middle = np.searchsorted(ends[1:], ends[-1] * np.arange(1, most - 1) / (most - 1))
    return np.unique(np.concatenate(([0], np.minimum(middle, size - 1), [size - 1])))


def _compressed(cells: Cells) -> tuple[Floats, Floats, Floats]:
    """Mean prediction, mass and effective rows, at least 1, of at most about 1,000 cells."""
    at = np.arange(len(cells))
    if len(cells) > _BY_MASS + _BY_WIDTH:
        by_mass = equal_mass_borders(cells, np.array(_BY_MASS), np.arange(_BY_MASS))
        by_width = np.searchsorted(cells.p, np.sin(np.pi / 2 * np.arange(1, _BY_WIDTH) / _BY_WIDTH) ** 2)
        at = np.union1d(by_mass, by_width)
        at = at[at < len(cells)]
    w = np.add.reduceat(cells.w, at)
    first, last = cells.p[at], cells.p[np.append(at[1:], len(cells)) - 1]
    p = np.clip(np.add.reduceat(cells.w * cells.p, at) / w, first, last)
    rows = w if cells.kind == "frequency" else w * (w / np.add.reduceat(cells.w2, at))
    return p, w, np.clip(rows, 1.0, _MOST_ROWS)


def _brier(cells: Cells, p: Floats) -> float:
    return float(cells.wy @ (1.0 - p) ** 2 + (cells.w - cells.wy) @ p**2) / cells.mass
