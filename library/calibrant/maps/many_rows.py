"""Logistic curves for many rows without a sort: fits on coarse cells, refined on the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_expit

from calibrant.core.cells import Cells, Floats, Outcomes
from calibrant.core.reductions import Event
from calibrant.maps.curves import PROBABILITY_CLIP, fast_logistic, fast_logit

#: With fewer rows, rows are sorted.
MANY = 1 << 16
#: Cells per unit of the logit, and a bound of the logits of clipped probabilities.
_PER_LOGIT, _FURTHEST = 256, 37
#: The fewest coarse cells that determine the curvature.
_FEWEST = 8
#: Rows that are processed at once: they fit in the processor cache, and their integer sums are exact.
_BLOCK = 1 << 13
#: Terms are rounded to multiples of 1 / _UNITS. Features are below 2^6, so sums of a block are below 2^53 units.
_UNITS = 2.0**34
_MAX_PASSES = 12
#: Largest gradient of the mean log loss at convergence, for features with mean square 1.
GRADIENT = 1e-10


@dataclass(frozen=True)
class ManyRows:
    """Unweighted rows in any order, and their cells of width 1/256 in the logit, at the midpoints.

    ``x (n,)`` are probabilities, or given logits, which the coarse cells then have too.
    """

    x: Floats
    y: Outcomes
    coarse: Cells


def many_rows(event: Event) -> ManyRows | None:
    """Return the rows of an event with at least 65,536 unweighted rows and enough distinct predictions. O(n).

    None if logits exceed those of clipped probabilities.
    """
    if len(event) < MANY or event.w is not None:
        return None
    if event.logit is not None and np.abs(event.logit).max() >= _FURTHEST:
        return None
    places = 2 * _FURTHEST * _PER_LOGIT
    counts = np.zeros(2 * places, dtype=np.int64)
    for start in range(0, len(event), MANY):
        here = slice(start, start + MANY)
        z = fast_logit(event.p[here]) if event.logit is None else event.logit[here]
        place = ((z + _FURTHEST) * _PER_LOGIT).astype(np.intp)
        place += place
        place += event.y[here]
        counts += np.bincount(place, minlength=2 * places)
    negatives, positives = counts[0::2], counts[1::2]
    used = np.flatnonzero(negatives + positives)
    if len(used) < _FEWEST:
        return None
    middle = (used + 0.5) / _PER_LOGIT - _FURTHEST
    w, wy = (negatives + positives)[used].astype(np.float64), positives[used].astype(np.float64)
    logit = None if event.logit is None else middle
    return ManyRows(event.key, event.y, Cells(fast_logistic(middle), w, w, w, wy, wy, logit=logit))


def settle(
    rows: ManyRows,
    theta: Floats,
    features: Callable[[Floats], Floats],
    *,
    targets: tuple[float, float] = (0.0, 1.0),
    precision: float = 0.0,
) -> tuple[Floats, float] | None:
    """Return ``theta (D,)`` that minimises the mean log loss of logistic(features theta) on the rows, and its gradient.

    The gradient is its largest component. Newton's method starts from the ``theta`` of the coarse cells and uses their
    curvature, until the gradient of all rows is at most 1e-10; returns None if that takes more than 12 passes.
    ``features`` maps predictions ``(n,)`` to ``(D, n)``, each below 2^6; ``targets`` replace the labels 0 and 1;
    ``precision`` theta^2 / 2 is added to the sum of the losses. Terms are summed as integer multiples of 2^-34, so that
    the result does not depend on the order of the rows. O(D n) per pass.
    """
    coarse, n = rows.coarse, len(rows.x)
    basis = features(coarse.key)
    size = np.sqrt(basis**2 @ coarse.w / n)
    for _ in range(_MAX_PASSES):
        gradient = (_slopes(rows, theta, features, targets) + precision * theta) / n
        c = fast_logistic(theta @ basis)
        hessian = (basis * (coarse.w * c * (1.0 - c))) @ basis.T / n
        hessian[np.diag_indices(len(theta))] += precision / n
        try:
            step = np.linalg.solve(hessian, gradient)
        except np.linalg.LinAlgError:
            return None
        if np.abs(gradient / size).max() <= GRADIENT and np.abs(step).max() <= 1e-6 * (1.0 + np.abs(theta).max()):
            return theta, float(np.abs(gradient).max())
        theta = theta - step
        if not np.all(np.isfinite(theta)):
            return None
    return None


def _slopes(
    rows: ManyRows, theta: Floats, features: Callable[[Floats], Floats], targets: tuple[float, float]
) -> Floats:
    """Return the sums over the rows of (c - target) times each feature: ``(D,)``."""
    low, high = targets
    totals = [0] * len(theta)
    for start in range(0, len(rows.x), _BLOCK):
        here = slice(start, start + _BLOCK)
        basis = features(rows.x[here])
        residual = fast_logistic(theta @ basis)
        residual -= low + (high - low) * rows.y[here]
        residual *= _UNITS
        for k, total in enumerate(np.rint(basis * residual).sum(axis=1)):
            totals[k] += int(total)
    return np.array([total / _UNITS for total in totals])


def logit_and_one(p: Floats) -> Floats:
    """Return the clipped logit and 1 for each ``p (n,)``: ``(2, n)``."""
    return np.stack([fast_logit(p), np.ones_like(p)])


def logarithms(p: Floats) -> Floats:
    """Return ln p, -ln(1 - p) and 1 for each ``p (n,)`` clipped at 2^-52, accurate to 1e-16: ``(3, n)``."""
    p = np.clip(p, PROBABILITY_CLIP, 1.0 - PROBABILITY_CLIP)
    return np.stack([np.log(p), -np.log(1.0 - p), np.ones_like(p)])


def logit_itself_and_one(z: Floats) -> Floats:
    """Return ``logit_and_one`` of logits ``z (n,)``: ``(2, n)``."""
    return np.stack([z, np.ones_like(z)])


def logarithms_of_logits(z: Floats) -> Floats:
    """Return ``logarithms`` of logits ``z (n,)``, without a clip: ``(3, n)``."""
    return np.stack([log_expit(z), -log_expit(-z), np.ones_like(z)])
