"""Improvement of a proper score by recalibration: the score before minus the score after."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calibrant.calibrators import METHODS, fit_curve
from calibrant.core.cells import Floats, take
from calibrant.core.errors import TooFewRows
from calibrant.core.reductions import Event, Vector
from calibrant.core.validation import folds_of
from calibrant.maps.curves import calibrated
from calibrant.measures.fitted import off_the_ends
from calibrant.measures.intervals import Resampling, influence_interval
from calibrant.measures.measure import MeasureResult
from calibrant.measures.scores import centred, clipped_rows, mean_over_rows, row_scores

ImprovedScore = Literal["brier", "log-loss"]
Recalibration = Literal["platt", "beta", "isotonic"]


def improvement(before: Event | Vector, after: Event | Vector, score: ImprovedScore) -> tuple[float, Floats]:
    """Return the mean score before minus that after, and the influence ``(n,)`` of each row, weighted mean 0.

    Events or whole vectors must have the same rows in the same order. Above 0 the predictions after are better. It
    equals the change of the calibration error of the score if ``after`` is the result of an injective map and the rows
    are held out (Gruber & Buettner 2022, proposition 4.5). O(n).
    """
    # Calibrated predictions are probabilities, which the log loss clips: those before are clipped in the same way.
    gained = row_scores(before.of_probabilities(), score) - row_scores(after, score)
    return mean_over_rows(gained, before.w), centred(gained, before.w)


def improvements(before: Event | Vector, after: Event | Vector, resampling: Resampling) -> dict[str, MeasureResult]:
    """Return ``improvement`` of the Brier score and the log loss, with intervals if a level is given."""
    if isinstance(before, Event):
        keys = (after.p, before.y, before.p) if before.w is None else (before.w, after.p, before.y, before.p)
        order = np.lexsort(keys)
    else:
        order = before.order()
    if before.w is not None:
        order = order[before.w[order] > 0.0]
    before, after = before.rows(order), after.rows(order)
    scores: tuple[ImprovedScore, ImprovedScore] = ("brier", "log-loss")
    return {score: _improved(before, after, score, resampling) for score in scores}


def _improved(
    before: Event | Vector, after: Event | Vector, score: ImprovedScore, resampling: Resampling
) -> MeasureResult:
    value, influence = improvement(before, after, score)
    definition: dict[str, Any] = {"name": "improvement", "score": score}
    result = MeasureResult(value, parts=parts_of(before, after, score), definition=definition)
    if resampling.level is None:
        return result
    definition |= {"interval": resampling.level, "resamples": resampling.resamples, "seed": resampling.seed}
    try:
        return replace(result, interval=influence_interval(value, influence, before, resampling))
    except TooFewRows as error:
        return replace(result, problem=f"no interval: {error.detail}")


def parts_of(before: Event | Vector, after: Event | Vector, score: ImprovedScore) -> dict[str, Any]:
    """Return the mean scores before and after, and for the log loss the numbers of clipped rows."""
    before = before.of_probabilities()
    parts: dict[str, Any] = {
        "before": mean_over_rows(row_scores(before, score), before.w),
        "after": mean_over_rows(row_scores(after, score), after.w),
    }
    if score == "log-loss":
        parts |= {"clipped": clipped_rows(before), "clipped_after": clipped_rows(after)}
    return parts


def out_of_fold(event: Event, method: Recalibration, score: ImprovedScore, *, folds: int, seed: int) -> Event:
    """Return the event with predictions calibrated by maps fitted to the other folds.

    Folds are drawn by ``folds_of``; the events of one row are in the same fold. For the log loss, values of a map of
    exactly 0 or 1 become (k + 1/2) / (m + 1) for k positives of m training rows. Raises ``TooFewRows`` if there are
    fewer rows than folds, and what the fit raises. O(folds n log n).
    """
    fold = folds_of(event, folds, seed)
    p, fitter = event.p.copy(), METHODS[method]
    for number in range(folds):
        train, own = _part(event, (fold >= 0) & (fold != number)), fold == number
        curve, _ = fit_curve(fitter, train)
        held_out = _part(event, own)
        if score == "log-loss":
            p[own] = off_the_ends(curve, train.cells, held_out)
        else:
            p[own] = np.clip(calibrated(curve, held_out), 0.0, 1.0)
    return replace(event, p=p, logit=None)


def _part(event: Event, chosen: npt.NDArray[np.bool_]) -> Event:
    """Return some events of an event that may have several per row."""
    w, logit, clusters = take(event.w, chosen), take(event.logit, chosen), take(event.clusters, chosen)
    return replace(event, p=event.p[chosen], y=event.y[chosen], w=w, logit=logit, clusters=clusters)
