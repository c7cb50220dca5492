"""Smoothing of predictions of exactly 0 or 1 toward uniform, by an amount that is chosen on held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.cells import Floats
from calibrant.errors import CalibrationError
from calibrant.maps.curves import PROBABILITY_CLIP, Curve
from calibrant.maps.ensemble import SmoothedVector
from calibrant.maps.families import Smoothed
from calibrant.maps.transforms import Transform, transformed
from calibrant.progress import report, step
from calibrant.reductions import Event, Vector
from calibrant.validation import folds_of

#: Candidate amounts, and folds.
AMOUNTS, FOLDS = (0.0, 0.0001, 0.001, 0.01, 0.03, 0.1, 0.3, 0.9), 3

Fitted = tuple[Any, dict[str, Any]]


def is_extreme(subject: Event | Vector) -> bool:
    """Return whether some given probability with weight is 0, or for an event 1, up to 2^-52. Never for logits."""
    if isinstance(subject, Vector):
        if subject.logits is not None:
            return False
        least = subject.p.min(axis=1)
    else:
        if subject.logit is not None:
            return False
        least = np.minimum(subject.p, 1.0 - subject.p)
    return bool((least if subject.w is None else least[subject.w > 0.0]).min(initial=1.0) < PROBABILITY_CLIP)


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
    """Fit a curve to an event, smoothed by the amount of least held-out log loss. 16 fits."""

    def losses(curve: Curve, held_out: Event) -> Floats:
        c = np.clip(curve(held_out.p), PROBABILITY_CLIP, 1.0 - PROBABILITY_CLIP)
        return -np.where(held_out.y == 1, np.log(c), np.log1p(-c))

    amount = _chosen(fit, event, smoothed_event, losses, seed)
    curve, found = fit(smoothed_event(event, amount))
    return (curve if amount == 0.0 else Smoothed(amount, curve)), found | {"smoothing": amount}


def fit_smoothed_vector(
    fit: Callable[[Vector], tuple[Transform, dict[str, Any]]], vector: Vector, seed: int, *, cross_fitted: bool
) -> Fitted:
    """Fit a transform to whole vectors, smoothed by the amount of least held-out log loss.

    If fits are ``cross_fitted``, their own held-out log losses are compared: 6 fits, otherwise 16.
    """

    def losses(transform: Transform, held_out: Vector) -> Floats:
        found = transformed(transform, held_out)[np.arange(len(held_out)), held_out.labels]
        return -np.log(np.maximum(found, PROBABILITY_CLIP))

    amount = _chosen(fit, vector, smoothed_vector, losses, seed, cross_fitted=cross_fitted)
    transform, found = fit(smoothed_vector(vector, amount))
    return (transform if amount == 0.0 else SmoothedVector(amount, transform)), found | {"smoothing": amount}


def _chosen(fit: Any, subject: Any, smoothed: Any, losses: Any, seed: int, *, cross_fitted: bool = False) -> float:
    """Return the amount of least held-out log loss, or of that in the diagnostics if fits are ``cross_fitted``.

    Fits that fail do not count.
    """
    try:
        fold = folds_of(subject, FOLDS, seed)
        fold = fold[:: subject.per_row] if isinstance(subject, Event) else fold  # rows, which may have several events
    except CalibrationError:
        return 0.0
    totals = np.full(len(AMOUNTS), np.inf)
    for i, amount in enumerate(AMOUNTS):
        report(i, len(AMOUNTS), "amounts of smoothing")
        moved = smoothed(subject, amount)
        with suppress(CalibrationError), step(i, len(AMOUNTS), "amounts of smoothing"):
            if cross_fitted:
                totals[i] = fit(moved)[1]["held_out_log_loss"]
                continue
            total = 0.0
            for held_out in range(FOLDS):
                outside, inside = (
                    np.flatnonzero(kept) for kept in ((fold >= 0) & (fold != held_out), fold == held_out)
                )
                rest = moved.rows(inside)
                own = losses(fit(moved.rows(outside))[0], rest)
                total += float(own.sum() if rest.w is None else own @ rest.w)
            totals[i] = total
    return AMOUNTS[int(totals.argmin())]
