"""How a measure's value may err, resample by resample, so that the errors of several can be paired."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from calibrant.cells import Floats
from calibrant.errors import CalibrationError, TooFewRows
from calibrant.measures.intervals import Resampling, distance_draws, influence_draws, resampled_values
from calibrant.measures.measure import Extent, MeasureRequest, answers, extent
from calibrant.reductions import Subject

#: More seconds than this the resamples of one measure may not be estimated to take.
MAX_SECONDS = 600.0
#: Resamples without a value count as no deviation, up to this share.
_LOST = 0.1
#: Seconds of one resample of a distance on a few hundred blocks, its bias solved for.
_RESAMPLE = 6e-5


@dataclass(frozen=True)
class Deviations:
    """By how much resamples move a value, ``draws (resamples,)`` of mean 0, and the ends of what its ``bias`` may be.

    ``mean`` says that of two subjects on the same rows the biases differ by no more than the predictions do on the mean
    of the rows; else by no more than they do on any row.
    """

    draws: Floats
    bias: tuple[float, float] = (0.0, 0.0)
    mean: bool = True


def deviations(
    request: MeasureRequest, value: float, subject: Subject, resampling: Resampling, *, debiased: bool = False
) -> Deviations:
    """The deviations of a measure whose plain ``value`` on the subject is known, or of its debiased value.

    Subjects with the same rows in the same order have paired draws: a resample counts each row as often in all of them.

    Parameters
    ----------
    request : the measure
    value : its plain value on the subject
    subject : the rows, in an order that does not depend on the one they came in; none of weight 0
    resampling : how many resamples, and their seed; the level is not used
    debiased : whether the debiased value is meant

    Returns
    -------
    Deviations
        of a distance, such as ``ece`` and ``ks``, by ``distance_draws``, since a resampled distance is biased; of what
        each row moves, such as ``brier``, by ``influence_draws``; of any other measure by computing it again on
        resampled rows, its bias between 0 and their mean less the value

    Raises
    ------
    CalibrationError
        where the measure has none: its fit is not repeated, its resamples would take too long or have no value

    Notes
    -----
    O(n + resamples (2,048 + d)) for d bins; of measures computed again O(resamples x the measure).
    """
    entry = request.measure
    if entry.distance is not None:
        distance = request.distance_of(subject, resampling)
        how = {"debiased": debiased, "triangle": entry.triangle}
        draws, bias = distance_draws(distance, subject, resampling, **how)
        return Deviations(draws, bias, distance.debiased is not None or entry.triangle)
    if entry.influence is not None:
        return Deviations(influence_draws(request.influence_of(subject, resampling), subject, resampling))
    if entry.own_interval or not entry.resampled:
        raise CalibrationError("the measure is not computed again on resampled rows")
    if again_seconds(request, extent(subject), resampling) > MAX_SECONDS:
        raise CalibrationError("the resamples would take too long")
    return _computed_again(request, value, subject, resampling)


def again_seconds(request: MeasureRequest, size: Extent, resampling: Resampling) -> float:
    """Estimated seconds of ``deviations``."""
    once = request.seconds(size, replace(resampling, level=None))
    entry = request.measure
    if entry.distance is not None or entry.influence is not None:
        return 2.0 * once + size.events * _RESAMPLE * resampling.resamples
    return once * resampling.resamples if entry.resampled and not entry.own_interval else 0.0


def _computed_again(request: MeasureRequest, value: float, subject: Subject, resampling: Resampling) -> Deviations:
    plain = replace(resampling, level=None)

    def again(rows: Subject) -> float:
        found = answers([request], rows, plain)[request.key].value
        return math.nan if found is None else found

    found = resampled_values(again, subject, resampling)
    known = np.isfinite(found)
    if known.sum() < (1.0 - _LOST) * len(found):
        raise TooFewRows("too many resamples have no value")
    mean = float(found[known].mean())
    ends = (min(mean - value, 0.0), max(mean - value, 0.0))
    return Deviations(np.where(known, found - mean, 0.0), ends, mean=False)
