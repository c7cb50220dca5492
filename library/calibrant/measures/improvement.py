"""Improvement of a proper score by recalibration: the score before minus the score after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from calibrant.calibrators import METHODS, FitContext
from calibrant.core.cells import Floats, take
from calibrant.core.errors import InvalidOption, TooFewRows
from calibrant.core.options import Option
from calibrant.core.reductions import Event, Vector
from calibrant.core.validation import divided, folds_of
from calibrant.maps.curves import calibrated
from calibrant.maps.transforms import transformed
from calibrant.measures.fitted import curve_of, off_the_ends
from calibrant.measures.intervals import Resampling, influence_interval
from calibrant.measures.measure import PROPER, Measure, MeasureResult
from calibrant.measures.proper import PAPER, TWO_SCORES, centred, clipped_rows, mean_over_rows, row_scores
from calibrant.piecewise.options import MAX_FOLDS

ImprovedScore = Literal["brier", "log-loss"]
#: Methods of an event, and of the vector or of the two classes of an event.
OF_EVENT, OF_VECTOR = ("platt", "beta", "isotonic"), ("temperature", "ets", "iop-diagonal")


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


@overload
def out_of_fold(
    subject: Event, method: str | None, score: ImprovedScore, *, folds: int, seed: int
) -> tuple[Event, str]: ...


@overload
def out_of_fold(
    subject: Event | Vector, method: str | None, score: ImprovedScore, *, folds: int, seed: int
) -> tuple[Event | Vector, str]: ...


def out_of_fold(
    subject: Event | Vector, method: str | None, score: ImprovedScore, *, folds: int, seed: int
) -> tuple[Event | Vector, str]:
    """Return the event or vectors calibrated by maps fitted to the other folds, and the method.

    No method is Platt scaling of an event, and temperature scaling of vectors. Folds are drawn by ``folds_of``; the
    events of one row are in the same fold. For the log loss, values of a map of an event of exactly 0 or 1 become
    (k + 1/2) / (m + 1) for k positives of m training rows. Raises ``InvalidOption`` for vectors if the method is of an
    event, ``TooFewRows`` if there are fewer rows than folds, and what the fit raises. O(folds n log n).
    """
    name = method or (OF_EVENT if isinstance(subject, Event) else OF_VECTOR)[0]
    if isinstance(subject, Vector) and name in OF_EVENT:
        raise InvalidOption(f"the method {name} is of an event; for the whole vector use {', '.join(OF_VECTOR)}")
    fold, fitter = folds_of(subject, folds, seed), METHODS[name]
    options, context = fitter.read_options({}), FitContext(diagnose=False)
    p = subject.p.astype(np.float64)
    for number in range(folds):
        train, own = (fold >= 0) & (fold != number), fold == number
        if isinstance(subject, Vector):
            transform, _ = fitter.transform(subject.rows(np.flatnonzero(train)), context, options)
            p[own] = transformed(transform, subject.rows(np.flatnonzero(own)))
            continue
        event, held_out = _part(subject, train), _part(subject, own)
        curve, _ = curve_of(fitter, event, options)
        if score == "log-loss":
            p[own] = off_the_ends(curve, event.cells, held_out)
        else:
            p[own] = np.clip(calibrated(curve, held_out), 0.0, 1.0)
    if isinstance(subject, Vector):
        return replace(subject, probabilities=p, logits=None), name
    return replace(subject, p=p, logit=None), name


def _part(event: Event, chosen: npt.NDArray[np.bool_]) -> Event:
    """Return some events of an event that may have several per row."""
    w, logit, clusters = take(event.w, chosen), take(event.logit, chosen), take(event.clusters, chosen)
    return replace(event, p=event.p[chosen], y=event.y[chosen], w=w, logit=logit, clusters=clusters)


# --- The entry of the catalogue


def _improvement(
    subject: Event | Vector, resampling: Resampling, *, score: ImprovedScore, method: str | None, folds: int
) -> MeasureResult:
    after, name = out_of_fold(subject, method, score, folds=folds, seed=resampling.seed)
    value, parts = improvement(subject, after, score)[0], parts_of(subject, after, score)
    return MeasureResult(value, parts=parts, definition={"method": name})


def _improvement_influence(
    subject: Event | Vector, resampling: Resampling, *, score: ImprovedScore, method: str | None, folds: int
) -> Floats:
    rows, parts = divided(subject)
    after, _ = out_of_fold(rows, method, score, folds=folds, seed=resampling.seed)
    influence = improvement(rows, after, score)[1]
    return influence if parts is None else parts.mean(influence)


def _improvement_seconds(n: int, n_classes: int, options: Mapping[str, Any]) -> float:
    name = options["method"] or "platt"
    fit = METHODS[name].seconds(n, n_classes if name in OF_EVENT else max(n_classes, 2), METHODS[name].read_options({}))
    return float(options["folds"] * (1.5e-3 + 1.5e-7 * n * n_classes + fit))


MEASURES = (
    Measure(
        "recalibration-improvement",
        "Recalibration improvement",
        PROPER,
        "mean S(p, y) - mean S(c(p), y), with c the map that the method fits to the other folds of the rows sorted by "
        "(p, y): null is platt for an event, and temperature for the vector, which also takes "
        f"{' and '.join(OF_VECTOR[1:])}. Above 0 recalibration improves the score. It equals the change of the "
        "calibration error if c is injective (isotonic is not). For log-loss, values 0 and 1 of a map of an event "
        "become (k + 1/2) / (m + 1)",
        f"{PAPER}, proposition 4.5",
        None,
        None,
        "O(folds n log n), and O(folds n K) for the vector",
        event=_improvement,
        vector=_improvement,
        needs="both outcomes, different predictions, at least as many rows as folds",
        influence=_improvement_influence,
        options={
            "score": TWO_SCORES,
            "method": Option(None, choices=(None, *OF_EVENT, *OF_VECTOR)),
            "folds": Option(10, low=2, high=MAX_FOLDS),
        },
        seconds=_improvement_seconds,
    ),
)
