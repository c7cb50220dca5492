"""The two families in torch: nodes from parameters, losses and derivatives at cells.

A curve is f(x) = sum_i H_i phi_i(x) with hat functions phi_i over nodes X_0 < ... < X_b. PL has
x = p and f itself is the probability; PL3 has x = logit p and the probability is logistic(f).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from calibrant.cells import Floats
from calibrant.maps.curves import clipped_logit
from calibrant.maps.piecewise_linear import PL3_CLIP
from calibrant.piecewise.options import Loss

Family = Literal["pl", "pl3"]

#: Probabilities in a log loss are clipped here, as in the published code.
LOSS_CLIP = 1e-16
#: Largest absolute logit of heights of PL.
HEIGHT_BOUND = 36.0


@dataclass(frozen=True)
class Terms:
    """At each cell: the loss, its derivative in f, and its curvature (Fisher information) in f; ``(M, C)`` each."""

    loss: Tensor
    slope: Tensor
    curvature: Tensor


def abscissa(family: Family, p: Floats) -> Floats:
    """Return the abscissas of cells ``p (C,)``."""
    return p if family == "pl" else clipped_logit(p, PL3_CLIP)


def ends(family: Family) -> tuple[float, float]:
    """Return the fixed outer nodes X_0 and X_b."""
    low, high = abscissa(family, np.array([0.0, 1.0]))
    return float(low), float(high)


def terms(family: Family, loss: Loss, f: Tensor, w: Tensor, wy: Tensor) -> Terms:
    """Return loss terms of curves ``f (M, C)`` for masses ``w`` and positives ``wy (M, C)``."""
    if family == "pl":
        return _brier(f, w, wy) if loss == "brier" else _log_loss_of_probabilities(f, w, wy)
    c = torch.sigmoid(f)
    if loss == "log-loss":
        residual = torch.addcmul(-wy, w, c)
        return Terms(torch.nn.functional.softplus(f).mul_(w).addcmul_(wy, f, value=-1.0), residual, w * c * (1.0 - c))
    inner = _brier(c, w, wy)
    steep = c * (1.0 - c)
    return Terms(inner.loss, inner.slope * steep, inner.curvature * steep * steep)


def probability(family: Family, f: Tensor) -> Tensor:
    """Return the probability for the value of a curve."""
    return f if family == "pl" else torch.sigmoid(f)


def _brier(c: Tensor, w: Tensor, wy: Tensor) -> Terms:
    wc = w * c
    return Terms(c * (wc - 2.0 * wy) + wy, 2.0 * (wc - wy), 2.0 * w)


def _log_loss_of_probabilities(c: Tensor, w: Tensor, wy: Tensor) -> Terms:
    c = c.clamp(LOSS_CLIP, 1.0 - LOSS_CLIP)
    negative = 1.0 - c
    inverse = 1.0 / (c * negative)
    loss = -(torch.log(c) * wy).addcmul_(torch.log1p(-c), w - wy)
    return Terms(loss, torch.addcmul(-wy, w, c) * inverse, w * inverse)


def heights_of(family: Family, raw: Tensor, *, monotone: bool) -> tuple[Tensor, Tensor]:
    """Return the heights ``(M, B+1)`` for raw parameters, and their derivatives in their logits, ``(M, B+1)``.

    Raw heights are those of PL3, and the logits of those of PL. For monotone curves they are the first one
    and the increments, which the solver keeps non-negative.
    """
    values = torch.cumsum(raw, dim=1) if monotone else raw
    if family == "pl3":
        return values, torch.ones_like(values)
    heights = torch.sigmoid(values.clamp(-HEIGHT_BOUND, HEIGHT_BOUND))
    return heights, heights * (1.0 - heights)


def raw_heights(values: Tensor, *, monotone: bool) -> Tensor:
    """Return the raw parameters for heights on the logit scale, ``(M, B+1)``; the inverse of ``heights_of``.

    For monotone curves, heights are replaced by their cumulative maximum.
    """
    if not monotone:
        return values
    rising = torch.cummax(values, dim=1).values
    return torch.cat([rising[:, :1], torch.diff(rising, dim=1)], dim=1)


def knots_of(widths: Tensor, low: float, high: float, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Return nodes ``(M, B+1)`` for the softmax widths of the paper ``(M, B)``, and the Jacobian ``(M, B+1, B)``.

    X_j = low + (high - low) sum_{i<j} softmax(a)_i (C1.1 of the published code). ``valid (M, B)``
    marks the pieces of a model; padding has width 0 and is at the upper end.
    """
    share = torch.softmax(widths.masked_fill(~valid, -torch.inf), dim=1)
    reached = torch.cat([torch.zeros_like(share[:, :1]), torch.cumsum(share, dim=1)], dim=1)
    size = widths.shape[1]
    before = torch.tril(torch.ones(size + 1, size, dtype=widths.dtype, device=widths.device), diagonal=-1)
    jacobian = share[:, None, :] * (before - reached[:, :, None])
    knots = low + (high - low) * reached
    # Sums of widths are rounded; the upper end and padding are exact.
    last = torch.cat([torch.zeros_like(valid[:, :1]), ~valid], dim=1)
    last[:, -1] = True
    last |= torch.cat([torch.zeros_like(valid[:, :1]), _is_final(valid)], dim=1)
    return torch.where(last, torch.full_like(knots, high), knots), jacobian * (high - low)


def _is_final(valid: Tensor) -> Tensor:
    """Return whether a piece is the last one of its model."""
    following = torch.cat([valid[:, 1:], torch.zeros_like(valid[:, :1])], dim=1)
    return valid & ~following
