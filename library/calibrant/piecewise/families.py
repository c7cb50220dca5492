"""The two families as formulas of torch: nodes from parameters, losses and derivatives at cells.

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

#: Probabilities inside a log loss keep this distance from 0 and 1 (spec: 1e-16 in the published code).
LOSS_CLIP = 1e-16
#: PL's heights keep this distance from 0 and 1, on the logit scale.
HEIGHT_BOUND = 36.0


@dataclass(frozen=True)
class Terms:
    """At each cell: the loss, its derivative in f, and its curvature (Fisher information) in f; ``(M, C)`` each."""

    loss: Tensor
    slope: Tensor
    curvature: Tensor


def abscissa(family: Family, p: Floats) -> Floats:
    """X of the cells ``p (C,)``."""
    return p if family == "pl" else clipped_logit(p, PL3_CLIP)


def ends(family: Family) -> tuple[float, float]:
    """The fixed outermost nodes X_0 and X_b."""
    low, high = abscissa(family, np.array([0.0, 1.0]))
    return float(low), float(high)


def terms(family: Family, loss: Loss, f: Tensor, w: Tensor, wy: Tensor) -> Terms:
    """Loss terms of curves ``f (M, C)`` for masses ``w`` and positives ``wy (M, C)``."""
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
    """The probability that a curve's value stands for."""
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
    """Heights ``(M, B+1)`` of raw parameters, and the derivative of each in its own logit, ``(M, B+1)``.

    Raw heights are those of PL3, and the logits of PL's. Monotone curves have the first one and
    then the increments, which the solver keeps from falling below 0.
    """
    values = torch.cumsum(raw, dim=1) if monotone else raw
    if family == "pl3":
        return values, torch.ones_like(values)
    heights = torch.sigmoid(values.clamp(-HEIGHT_BOUND, HEIGHT_BOUND))
    return heights, heights * (1.0 - heights)


def raw_heights(values: Tensor, *, monotone: bool) -> Tensor:
    """The raw parameters of heights on the logit scale, ``(M, B+1)``; the inverse of ``heights_of``.

    Of heights that fall somewhere, those of their running maximum.
    """
    if not monotone:
        return values
    rising = torch.cummax(values, dim=1).values
    return torch.cat([rising[:, :1], torch.diff(rising, dim=1)], dim=1)


def knots_of(widths: Tensor, low: float, high: float, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes ``(M, B+1)`` of the paper's softmax widths ``(M, B)``, and the Jacobian ``(M, B+1, B)``.

    X_j = low + (high - low) sum_{i<j} softmax(a)_i (C1.1 of the published code). ``valid (M, B)``
    marks the pieces that a model has; the others have no width and lie at the upper end.
    """
    share = torch.softmax(widths.masked_fill(~valid, -torch.inf), dim=1)
    reached = torch.cat([torch.zeros_like(share[:, :1]), torch.cumsum(share, dim=1)], dim=1)
    size = widths.shape[1]
    before = torch.tril(torch.ones(size + 1, size, dtype=widths.dtype, device=widths.device), diagonal=-1)
    jacobian = share[:, None, :] * (before - reached[:, :, None])
    knots = low + (high - low) * reached
    # The sum of shares rounds; the end does not, nor do the places of pieces that are not there.
    last = torch.cat([torch.zeros_like(valid[:, :1]), ~valid], dim=1)
    last[:, -1] = True
    last |= torch.cat([torch.zeros_like(valid[:, :1]), _is_final(valid)], dim=1)
    return torch.where(last, torch.full_like(knots, high), knots), jacobian * (high - low)


def _is_final(valid: Tensor) -> Tensor:
    """Whether a piece is the last of its model's."""
    following = torch.cat([valid[:, 1:], torch.zeros_like(valid[:, :1])], dim=1)
    return valid & ~following
