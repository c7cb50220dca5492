"""The fit-on-test diagram: a calibration map fitted to the evaluated rows, with an uncertainty band."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.averaging.process import fit_process
from calibrant.core.cells import Floats
from calibrant.core.reductions import Event
from calibrant.diagrams.diagram import Picture, no_intervals
from calibrant.maps.curves import CurvePlaces, calibrated, clipped_logit, interpolate
from calibrant.measures.fitted import Belief, fitted_error, plugged_error, process_belief
from calibrant.measures.intervals import Resampling
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
