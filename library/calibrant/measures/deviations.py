"""Deviations of a measure under resampling, paired between several contestants."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, TooFewRows
from calibrant.core.reductions import Subject
from calibrant.measures.intervals import (
    Resampling,
    distance_draws,
    influence_deviations,
    influence_draws,
    resampled_values,
)
from calibrant.measures.measure import Extent, MeasureRequest, answers, extent

#: The resamples of one measure must not be estimated to take longer than this, in seconds.
MAX_SECONDS = 600.0
#: Resamples without a value count as no deviation, up to this fraction.
_LOST = 0.1
#: Estimated seconds of one resample of a distance on a few hundred blocks, including its bias.
_RESAMPLE = 6e-5


@dataclass(frozen=True)
class Deviations:
    """Deviations ``draws (resamples,)`` of a value, with mean 0, and the lower and upper bound of its ``bias``.

    If ``mean``, the biases of two subjects on the same rows differ by at most the mean difference of their predictions;
    otherwise by at most the largest difference. Measures with an influence also have the deviation by each of ``rows``
    and the degrees of ``freedom`` of their variance.
    """

    draws: Floats
    bias: tuple[float, float] = (0.0, 0.0)
    mean: bool = True
    rows: Floats | None = None
    freedom: float = math.inf


def deviations(
    request: MeasureRequest, value: float, subject: Subject, resampling: Resampling, *, debiased: bool = False
) -> Deviations:
    """Return the deviations of a measure, or of its debiased value, under resampling.

    Subjects with the same rows in the same order have paired draws: a resample contains each row equally often.

    Parameters
    ----------
    request : MeasureRequest
        The measure.
    value : float
        Its plain value.
    subject : Event, Classes or Vector
        The rows with weight, in canonical order.
    resampling : Resampling
        Number and seed of the resamples; the level is not used.
    debiased : bool, default False
        Whether to return the deviations of the debiased value.

    Returns
    -------
    Deviations
        From ``distance_draws`` for distances such as ``ece`` and ``ks``, since a resampled distance is biased; from
        ``influence_draws`` for measures such as ``brier``; otherwise from resampled rows, with a bias between 0 and
        their mean minus the value.

    Raises
    ------
    CalibrationError
        If the measure cannot be resampled, or its resamples would take too long or have no value.

    Notes
    -----
    O(n + resamples (2,048 + d)) for d bins, or O(resamples x the measure) on resampled rows.
    """
    entry = request.measure
    if entry.distance is not None:
        subject = request.parts_of(subject)
        distance = request.distance_of(subject, resampling)
        how = {"debiased": debiased, "triangle": entry.triangle}
        draws, bias = distance_draws(distance, subject, resampling, **how)
        return Deviations(draws, bias, distance.debiased is not None or entry.triangle)
    if entry.influence is not None:
        influence = request.influence_of(subject, resampling)
        rows, freedom = influence_deviations(influence, subject, resampling, by_outcome=entry.by_outcome)
        return Deviations(influence_draws(influence, subject, resampling), rows=rows, freedom=freedom)
    if entry.own_interval or not entry.resampled:
        raise CalibrationError("the measure cannot be computed on resampled rows")
    if again_seconds(request, extent(subject), resampling) > MAX_SECONDS:
        raise CalibrationError("the resamples would take too long")
    return _computed_again(request, value, subject, resampling)


def again_seconds(request: MeasureRequest, size: Extent, resampling: Resampling) -> float:
    """Estimate the seconds of ``deviations``."""
    once = request.seconds(size, replace(resampling, level=None))
    entry = request.measure
    if entry.distance is not None or entry.influence is not None:
        return 2.0 * once + size.events * _RESAMPLE * resampling.resamples
    return once * resampling.resamples if entry.resampled and not entry.own_interval else 0.0


def _computed_again(request: MeasureRequest, value: float, subject: Subject, resampling: Resampling) -> Deviations:
    plain = replace(resampling, level=None)

    def again(rows: Subject) -> float:
        resampled = answers([request], rows, plain)[request.key].value
        return math.nan if resampled is None else resampled

    resampled = resampled_values(again, subject, resampling)
    known = np.isfinite(resampled)
    if known.sum() < (1.0 - _LOST) * len(resampled):
        raise TooFewRows("too many resamples have no value")
    mean = float(resampled[known].mean())
    ends = (min(mean - value, 0.0), max(mean - value, 0.0))
    return Deviations(np.where(known, resampled - mean, 0.0), ends, mean=False)
