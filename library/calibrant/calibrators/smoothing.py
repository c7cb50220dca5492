"""Smoothing of predictions of exactly 0 or 1 toward uniform, by an amount that is chosen on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, NotConverged
from calibrant.core.progress import report, step
from calibrant.core.reductions import Event, Vector
from calibrant.core.validation import folds_of
from calibrant.maps.curves import PROBABILITY_CLIP, Curve
from calibrant.maps.ensemble import SmoothedVector
from calibrant.maps.families import Smoothed
from calibrant.maps.linear_softmax import Outdone
from calibrant.maps.transforms import Transform, transformed

#: Candidate amounts, and folds.
AMOUNTS, FOLDS = (0.0, 0.0001, 0.001, 0.01, 0.03, 0.1, 0.3, 0.9), 3

#: Classes above which a fit takes long, and amounts in a row that are no better after which its search ends.
MANY, _WORSE = 25, 2
#: Losses that differ by less, relative to their size, differ by rounding; of such amounts the least is chosen.
_TIED = 1e-9

Fitted = tuple[Any, dict[str, Any]]
FittedTransform = tuple[Transform, dict[str, Any]]


def is_extreme(subject: Event | Vector) -> bool:
    """Return whether some given probability with weight is 0, or up to 2^-52 that of an event 0 or 1.

    Never for logits, nor for vectors with positive probabilities below 2^-52: these are of a softmax, whose zeros
    underflow, and smoothing would make them equal.
    """
    if isinstance(subject, Vector):
        if subject.logits is not None or subject.p.min() > 0.0:
            return False
        p = subject.p if subject.w is None else subject.p[subject.w > 0.0]
        return not p.all() and not ((p > 0.0) & (p < PROBABILITY_CLIP)).any()
    if subject.logit is not None:
        return False
    least = np.minimum(subject.p, 1.0 - subject.p)
    return bool((least if subject.w is None else least[subject.w > 0.0]).min(initial=1.0) < PROBABILITY_CLIP)


def smoothed_fits(*, chooses: bool, options: Mapping[str, Any]) -> float:
    """Return how many times the estimated time of a fit the choice of an amount of smoothing takes, about.

    ``chooses`` is that of the method. Fits whose penalty is chosen if labels are separable, as they often are with
    exact zeros, take ten times their estimate.
    """
    if chooses:
        return float(len(AMOUNTS))
    separable = 10.0 if "strength" in options and options["strength"] is None else 1.0
    return separable * (1.0 + len(AMOUNTS) * (FOLDS - 1))


def smoothed_event(event: Event, amount: float) -> Event:
    """Return the event with smoothed probabilities."""
    return event if amount == 0.0 else replace(event, p=(1.0 - amount) * event.p + 0.5 * amount, whole=None)


def smoothed_vector(vector: Vector, amount: float) -> Vector:
    """Return the vector with smoothed probabilities."""
    if amount == 0.0:
        return vector
    p = (1.0 - amount) * vector.p.astype(np.float64) + amount / vector.n_classes
    return replace(vector, probabilities=p)


def fit_smoothed_curve(fit: Callable[[Event], tuple[Curve, dict[str, Any]]], event: Event, seed: int) -> Fitted:
    """Fit a curve to an event, smoothed by the amount of least held-out log loss. 25 fits."""

    def losses(curve: Curve, held_out: Event) -> Floats:
        c = np.clip(curve(held_out.p), PROBABILITY_CLIP, 1.0 - PROBABILITY_CLIP)
        return -np.where(held_out.y == 1, np.log(c), np.log1p(-c))

    return fit_curve_with(fit, event, _chosen(fit, event, smoothed_event, losses, seed))


def fit_curve_with(fit: Callable[[Event], tuple[Curve, dict[str, Any]]], event: Event, amount: float) -> Fitted:
    """Fit a curve to an event that is smoothed by an amount."""
    curve, diagnostics = fit(smoothed_event(event, amount))
    return (curve if amount == 0.0 else Smoothed(amount, (curve,))), diagnostics | {"smoothing": amount}


def fit_smoothed_vector(fit: Callable[[Vector], FittedTransform], vector: Vector, seed: int) -> Fitted:
    """Fit a transform to whole vectors, smoothed by the amount of least held-out log loss. 25 fits."""

    def losses(transform: Transform, held_out: Vector) -> Floats:
        own = transformed(transform, held_out)[np.arange(len(held_out)), held_out.labels]
        return -np.log(np.maximum(own, PROBABILITY_CLIP))

    return fit_vector_with(fit, vector, _chosen(fit, vector, smoothed_vector, losses, seed))


def fit_vector_with(fit: Callable[[Vector], FittedTransform], vector: Vector, amount: float) -> Fitted:
    """Fit a transform to whole vectors that are smoothed by an amount."""
    return _smoothed(amount, *fit(smoothed_vector(vector, amount)))


def fit_cross_fitted(fit: Callable[[Vector, float], FittedTransform], vector: Vector) -> Fitted:
    """Fit a transform to whole vectors, smoothed by the amount of least ``held_out_log_loss`` in the diagnostics.

    A fit gets the least loss so far, and may raise ``Outdone`` if its own is higher. At most 8 fits; of many classes,
    those until two amounts in a row are no better. Raises the error without smoothing if every fit fails.
    """
    best: tuple[float, Transform, dict[str, Any]] | None = None
    failed: CalibrationError | None = None
    least, worse = np.inf, 0
    for i, amount in enumerate(AMOUNTS):
        report(i, len(AMOUNTS), "amounts of smoothing")
        worse += best is not None
        try:
            with step(i, len(AMOUNTS), "amounts of smoothing"):
                transform, diagnostics = fit(smoothed_vector(vector, amount), least)
        except Outdone:
            pass
        except CalibrationError as error:
            failed = failed or error
        else:
            if best is None or diagnostics["held_out_log_loss"] < least - _TIED * abs(least):
                best, least, worse = (amount, transform, diagnostics), diagnostics["held_out_log_loss"], 0
        if worse == _WORSE and vector.n_classes > MANY:
            break
    if best is None:
        raise failed or NotConverged("no amount of smoothing gives an optimum")
    return _smoothed(*best)


def _smoothed(amount: float, transform: Transform, diagnostics: dict[str, Any]) -> Fitted:
    return (transform if amount == 0.0 else SmoothedVector(amount, (transform,))), diagnostics | {"smoothing": amount}


def _chosen(fit: Any, subject: Any, smoothed: Any, losses: Any, seed: int) -> float:
    """Return the amount of least held-out log loss. Fits that fail do not count."""
    try:
        fold = folds_of(subject, FOLDS, seed)
        fold = fold[:: subject.per_row]  # rows, which may have several events
    except CalibrationError:
        return 0.0
    totals = np.full(len(AMOUNTS), np.inf)
    for i, amount in enumerate(AMOUNTS):
        report(i, len(AMOUNTS), "amounts of smoothing")
        moved = smoothed(subject, amount)
        with suppress(CalibrationError), step(i, len(AMOUNTS), "amounts of smoothing"):
            total = 0.0
            for held_out in range(FOLDS):
                outside, inside = (
                    np.flatnonzero(mask) for mask in ((fold >= 0) & (fold != held_out), fold == held_out)
                )
                rest = moved.rows(inside)
                own = losses(fit(moved.rows(outside))[0], rest)
                total += float(own.sum() if rest.w is None else own @ rest.w)
            totals[i] = total
    least = float(totals.min())
    return AMOUNTS[int((totals <= least + _TIED * abs(least)).argmax())]
