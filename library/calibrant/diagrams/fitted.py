"""Curves fitted to the evaluated rows: a calibration map with its band, and CORP, by isotonic regression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from calibrant.averaging.process import fit_process
from calibrant.core.binning import compressed
from calibrant.core.cells import Cells, Floats
from calibrant.core.progress import check
from calibrant.core.reductions import Event
from calibrant.diagrams.diagram import Picture, no_intervals
from calibrant.maps.curves import CurvePlaces, calibrated, clipped_logit, interpolate
from calibrant.measures.fitted import Belief, fitted_error, plugged_error, process_belief
from calibrant.measures.intervals import Resampling
from calibrant.measures.simulated import observed_frequencies
from calibrant.piecewise.folds import fold_cells

#: Points of the curve at equal mass, and evenly spaced.
_BY_MASS = _EVEN = 101
#: Families whose parameters are just a table of the curve.
_TABLES = ("isotonic", "averaged", "kde")


@dataclass(frozen=True)
class FittedCurve(Picture):
    """Data of a fit-on-test diagram.

    Attributes
    ----------
    predictions, calibrated : ndarray
        The map, from the smallest to the largest prediction; shape (g,).
    low, high : ndarray or None
        The band; None if rows are dependent.
    identity_probability : float or None
        Posterior probability that the predictions are calibrated; the band assumes that they are not. None for rows in
        clusters.
    family : str
        Family of the curve.
    parameters : dict or None
        Parameters of the curve if they are few: for PL the knots and heights of each averaged curve, for PL3 the same
        on the logit scale.
    alpha_1, alpha_2 : float
        Mean of |c(p) - p| and of its square.
    alpha_1_debiased : float or None
        ``alpha_1`` debiased as in the measure ``ece-`` of the method. None for rows in clusters.
    """

    predictions: Floats
    calibrated: Floats
    low: Floats | None
    high: Floats | None
    identity_probability: float | None
    family: str
    parameters: dict[str, Any] | None
    alpha_1: float
    alpha_1_debiased: float | None
    alpha_2: float


def fitted_curve(
    event: Event, _: Resampling, *, method: str, folds: int, level: float, options: Mapping[str, Any]
) -> FittedCurve:
    """Compute the diagram of Kangsepp, Valk & Kull (2022), section 4.5, with a band, for a fit with its ``options``.

    The band is from the Gaussian process of ``averaged``: pointwise quantiles, at ``level``, of the deviations of its
    curves from their mean, centred on the map. Raises ``TooFewRows``, ``OneClass`` and ``OnePrediction``. O(n log n)
    and the fit.
    """
    fitted = fitted_error(event, method, norm=1, folds=folds, level=None, options=options)
    cells, curve = event.cells, fitted.curve
    belief = process_belief(fit_process(fold_cells(event.counted_rows, folds, 0)))
    by_mass = np.searchsorted(cells.cumulative_w[1:], cells.mass * np.linspace(0.0, 1.0, _BY_MASS))
    even = np.linspace(cells.p[0], cells.p[-1], _EVEN)
    at = cells.key[np.minimum(by_mass, len(cells) - 1)]
    if cells.logit is None:
        places = CurvePlaces(np.union1d(at, even))
    else:
        places = CurvePlaces.at_logits(np.union1d(at, clipped_logit(even)))
    mapped = np.clip(calibrated(curve, places), 0.0, 1.0)
    low, high = (mapped + interpolate(places.p, belief.p, off) for off in _deviations(belief, level))
    problem = no_intervals(event)
    return FittedCurve(
        places.p,
        mapped,
        None if problem else np.clip(low, 0.0, 1.0),
        None if problem else np.clip(high, 0.0, 1.0),
        None if event.clusters is not None else belief.identity,
        curve.family,
        None if curve.family in _TABLES else curve.parameters(),
        fitted.value,
        None if event.clusters is not None else fitted.debiased,
        plugged_error(cells, curve, 2),
        problem=problem,
    )


def _deviations(belief: Belief, level: float) -> tuple[Floats, Floats]:
    """Return the deviations of the curves' quantiles from their mean at each cell: at most 0, and at least 0."""
    order = np.argsort(belief.draws, axis=0)
    ranked = np.take_along_axis(belief.draws, order, axis=0)
    reached = np.cumsum(belief.weights[order], axis=0)
    tails = (1.0 - level) / 2.0, (1.0 + level) / 2.0
    at = [np.minimum((reached < tail).sum(axis=0), len(order) - 1) for tail in tails]
    low, high = (np.take_along_axis(ranked, place[None], axis=0)[0] - belief.centre for place in at)
    return np.minimum(low, 0.0), np.maximum(high, 0.0)


# --- CORP: isotonic regression, consistency band, and decomposition of the Brier score

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
