"""The two families: nodes from parameters, losses and derivatives at cells.

A curve is f(x) = sum_i H_i phi_i(x) with hat functions phi_i over nodes X_0 < ... < X_b. PL has
x = p and f itself is the probability; PL3 has x = logit p and the probability is logistic(f).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrant.core.cells import Floats
from calibrant.maps.curves import CurvePlaces, Predicted, logit_of
from calibrant.maps.piecewise_linear import PL3_CLIP, stretched
from calibrant.piecewise.arrays import Bools, highest_so_far, namespace
from calibrant.piecewise.options import Loss

Family = Literal["pl", "pl3"]

#: Probabilities in a log loss are clipped here, as in the published code.
LOSS_CLIP = 1e-16
#: Smallest height of PL, and smallest distance from 1: a logit of -36 and of 36. Heights of PL3 are logits, bounded
#: by the documents.
LEAST_HEIGHT = 2.3195228302435696e-16
MOST_LOGIT = 800.0


@dataclass(frozen=True)
class Terms:
    """The loss of each curve ``(M,)``, and at each cell its derivative and curvature (Fisher information) in f."""

    loss: Floats
    slope: Floats
    curvature: Floats


def abscissa(family: Family, of: Predicted) -> Floats:
    """Return the abscissas of cells or other predictions ``(C,)``, which increase with given logits of any size."""
    if family == "pl3":
        return logit_of(of, PL3_CLIP)
    return of.p if of.logit is None else stretched(of)


def ends(family: Family, x: Floats) -> tuple[float, float]:
    """Return the fixed outer nodes X_0 and X_b of fits to cells with ascending abscissas ``x (C,)``.

    They are those of 0 and 1; given logits can be further out.
    """
    low, high = abscissa(family, CurvePlaces(np.array([0.0, 1.0])))
    return min(float(low), float(x[0])), max(float(high), float(x[-1]))


def terms(family: Family, loss: Loss, f: Floats, w: Floats, wy: Floats) -> Terms:
    """Return loss terms of curves ``f (M, C)`` for masses ``w`` and positives ``wy (M, C)``."""
    if family == "pl":
        return _brier(f, w, wy) if loss == "brier" else _log_loss_of_probabilities(f, w, wy)
    xp = namespace(f)
    small, steep, c = _logistic(f)
    if loss == "log-loss":
        softplus = xp.log1p(small)
        softplus += f.clip(min=0.0)
        total = xp.linalg.vecdot(w, softplus) - xp.linalg.vecdot(wy, f)
        c *= w
        c -= wy
        steep *= w
        return Terms(total, c, steep)
    inner = _brier(c, w, wy)
    return Terms(inner.loss, inner.slope * steep, inner.curvature * steep * steep)


def cell_losses(family: Family, loss: Loss, f: Floats, w: Floats, wy: Floats) -> Floats:
    """Return the loss of curves ``f (M, C)`` at each cell, ``(M, C)``."""
    xp = namespace(f)
    if family == "pl3" and loss == "log-loss":
        softplus: Floats = xp.log1p(xp.exp(-abs(f))) + f.clip(min=0.0)
        return w * softplus - wy * f
    c = probability(family, f)
    if loss == "brier":
        return (w - wy) * c * c + wy * (1.0 - c) * (1.0 - c)
    c = c.clip(LOSS_CLIP, 1.0 - LOSS_CLIP)
    gained: Floats = wy * xp.log(c) + (w - wy) * xp.log1p(-c)
    return -gained


def probability(family: Family, f: Floats) -> Floats:
    """Return the probability for the value of a curve."""
    return f if family == "pl" else _logistic(f)[2]


def _logistic(f: Floats) -> tuple[Floats, Floats, Floats]:
    """Return exp(-abs f), and the derivative and value of the logistic function, from one exponential."""
    xp = namespace(f)
    small = xp.exp(-abs(f))
    larger = 1.0 / (1.0 + small)
    smaller = small * larger
    return small, smaller * larger, xp.where(f >= 0.0, larger, smaller)


def _brier(c: Floats, w: Floats, wy: Floats) -> Terms:
    wc = w * c
    return Terms((c * (wc - 2.0 * wy) + wy).sum(axis=1), 2.0 * (wc - wy), 2.0 * w)


def _log_loss_of_probabilities(c: Floats, w: Floats, wy: Floats) -> Terms:
    xp = namespace(c)
    c = c.clip(LOSS_CLIP, 1.0 - LOSS_CLIP)
    negative = 1.0 - c
    others = w - wy
    loss = -xp.linalg.vecdot(others, xp.log(negative)) - xp.linalg.vecdot(wy, xp.log(c))
    downwards, upwards = others / negative, wy / c
    slope = downwards - upwards
    downwards /= negative
    upwards /= c
    downwards += upwards
    return Terms(loss, slope, downwards)


def bounds(family: Family) -> tuple[float, float]:
    """Return the bounds of heights: probabilities of PL, logits of PL3."""
    return (LEAST_HEIGHT, 1.0 - LEAST_HEIGHT) if family == "pl" else (-MOST_LOGIT, MOST_LOGIT)


def valid_heights(family: Family, heights: Floats, *, monotone: bool) -> Floats:
    """Return heights ``(M, B+1)`` clipped to their bounds; for monotone curves, their cumulative maxima."""
    inside = heights.clip(*bounds(family))
    return highest_so_far(inside) if monotone else inside


def knots_of(widths: Floats, low: float, high: float, valid: Bools) -> tuple[Floats, Floats]:
    """Return nodes ``(M, B+1)`` for the softmax widths of the paper ``(M, B)``, and the Jacobian ``(M, B+1, B)``.

    X_j = low + (high - low) sum_{i<j} softmax(a)_i (C1.1 of the published code). ``valid (M, B)``
    marks the pieces of a model; padding has width 0 and is at the upper end.
    """
    xp = namespace(widths)
    masked = xp.where(valid, widths, -xp.inf)
    share = xp.exp(masked - xp.amax(masked, 1)[:, None])
    share /= share.sum(axis=1)[:, None]
    reached = xp.concatenate([xp.zeros_like(share[:, :1]), share.cumsum(1)], 1)
    below = xp.tril(xp.ones_like(reached[:1, :, None] * share[:1, None, :]), -1)
    jacobian = below - reached[:, :, None]
    share *= high - low
    jacobian *= share[:, None, :]
    knots = low + (high - low) * reached
    # Sums of widths are rounded; the upper end and padding are exact.
    knots[:, -1] = high
    knots[:, 1:-1] = xp.where(valid[:, 1:], knots[:, 1:-1], high)
    return knots, jacobian
