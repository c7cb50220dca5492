"""Warm starts: a fitted model with one piece more, where that helps most, or one fewer, where it costs least."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from calibrant.piecewise.families import ends, heights_of, knots_of, raw_heights, terms
from calibrant.piecewise.solver import Data, Models, curve_values

#: Places tried for a new knot.
_PLACES = 32
#: A new knot keeps this share of its piece away from the piece's ends.
_LEAST_SHARE = 1e-3
_HEIGHT_CLIP = 1e-9


def with_one_more(data: Data, models: Models) -> Models:
    """Each model with one knot more on its own curve, so that its loss is the same.

    The knot goes where the loss would fall most if the curve could bend there: by g^2 / k, with g the slope
    and k the curvature of the loss along the hat function over the new knot and its two neighbours. Every
    model must have a piece to spare in its padding. O(M C).
    """
    knots, heights = _curve(data, models)
    begin, middle, end, at = _splits(data, knots)
    f = curve_values(data.x, knots, heights)
    local = terms(data.family, data.loss, f, data.w[models.line], data.wy[models.line])
    sums = torch.stack(
        [local.slope, local.slope * data.x]
        + [local.curvature * power for power in (torch.ones_like(data.x), data.x, data.x * data.x)]
    )
    sums = torch.cat([torch.zeros_like(sums[:, :, :1]), torch.cumsum(sums, dim=2)], dim=2)

    def between(low: Tensor, high: Tensor) -> Tensor:
        ends_at = [torch.searchsorted(data.x, x.contiguous(), right=True).expand(5, *x.shape) for x in (low, high)]
        return torch.gather(sums, 2, ends_at[1]) - torch.gather(sums, 2, ends_at[0])

    gain, stiffness = torch.zeros_like(at), torch.zeros_like(at)
    for outer, low, high in ((begin, begin, at), (end, at, end)):
        r, rx, k, kx, kxx = between(low, high)
        width = torch.where(at != outer, at - outer, torch.ones_like(at))
        gain += (rx - outer * r) / width
        stiffness += (kxx - 2.0 * outer * kx + outer * outer * k) / (width * width)
    share = (at - begin) / (end - begin).clamp(min=1e-300)
    allowed = (share > _LEAST_SHARE) & (share < 1.0 - _LEAST_SHARE)
    score = torch.where(allowed, gain * gain / (stiffness + 1e-12), torch.full_like(gain, -1.0))
    best = score.argmax(dim=1, keepdim=True)
    return _insert(data, models, knots, heights, torch.gather(middle, 1, best), torch.gather(at, 1, best))


def with_one_fewer(data: Data, models: Models) -> Models:
    """Each model of two or more pieces without the knot whose going moves the curve least, weighed by curvature."""
    knots, heights = _curve(data, models)
    f = curve_values(data.x, knots, heights)
    curvature = terms(data.family, data.loss, f, data.w[models.line], data.wy[models.line]).curvature
    cost = torch.full_like(knots, torch.inf)
    inner = torch.arange(1, knots.shape[1] - 1, device=knots.device)
    for j in inner.tolist():
        left, at, right = knots[:, j - 1], knots[:, j], knots[:, j + 1]
        span = (right - left).clamp(min=1e-300)
        off = heights[:, j] - torch.lerp(heights[:, j - 1], heights[:, j + 1], (at - left) / span)
        rising = (data.x - left[:, None]) / (at - left).clamp(min=1e-300)[:, None]
        falling = (right[:, None] - data.x) / (right - at).clamp(min=1e-300)[:, None]
        hat = torch.minimum(rising, falling).clamp(0.0, 1.0)
        cost[:, j] = torch.where(models.valid[:, j], off * off * (curvature * hat * hat).sum(dim=1), torch.inf)
    gone = cost.argmin(dim=1, keepdim=True)
    place = torch.arange(knots.shape[1], device=knots.device)[None, :]
    source = torch.where(place >= gone, place + 1, place).clamp(max=knots.shape[1] - 1)
    fewer = replace(models, valid=torch.cat([models.valid[:, 1:], torch.zeros_like(models.valid[:, :1])], dim=1))
    return _models(data, fewer, torch.gather(knots, 1, source), torch.gather(heights, 1, source))


def _curve(data: Data, models: Models) -> tuple[Tensor, Tensor]:
    low, high = ends(data.family)
    knots, _ = knots_of(models.widths, low, high, models.valid)
    return knots, heights_of(data.family, models.heights, monotone=data.monotone)[0]


def _splits(data: Data, knots: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ends of the piece that holds each place ``(M, places)``, the piece's number, and the places."""
    reached = torch.cumsum(data.w.sum(dim=0), dim=0)
    wanted = (torch.arange(_PLACES, device=knots.device, dtype=knots.dtype) + 0.5) / _PLACES * reached[-1]
    places = data.x[torch.searchsorted(reached, wanted).clamp(max=len(data.x) - 1)]
    middles = (knots[:, 1:] + knots[:, :-1]) / 2  # a place in every piece, also where the quantiles have none
    at = torch.cat([places.expand(len(knots), -1), middles], dim=1).contiguous()
    piece = (torch.searchsorted(knots, at) - 1).clamp(0, knots.shape[1] - 2)
    return torch.gather(knots, 1, piece), piece, torch.gather(knots, 1, piece + 1), at


def _insert(data: Data, models: Models, knots: Tensor, heights: Tensor, piece: Tensor, at: Tensor) -> Models:
    left, right = torch.gather(knots, 1, piece), torch.gather(knots, 1, piece + 1)
    share = (at - left) / (right - left).clamp(min=1e-300)
    value = torch.lerp(torch.gather(heights, 1, piece), torch.gather(heights, 1, piece + 1), share)
    place = torch.arange(knots.shape[1], device=knots.device)[None, :]
    source = torch.where(place > piece + 1, place - 1, place)
    new = place == piece + 1
    more = replace(models, valid=torch.cat([torch.ones_like(models.valid[:, :1]), models.valid[:, :-1]], dim=1))
    return _models(
        data,
        more,
        torch.where(new, at, torch.gather(knots, 1, source)),
        torch.where(new, value, torch.gather(heights, 1, source)),
    )


def _models(data: Data, models: Models, knots: Tensor, heights: Tensor) -> Models:
    """Models of the same names with these curves."""
    low, high = ends(data.family)
    share = (torch.diff(knots, dim=1) / (high - low)).clamp(min=torch.finfo(knots.dtype).tiny)
    raw = torch.logit(heights, eps=_HEIGHT_CLIP) if data.family == "pl" else heights
    return replace(models, heights=raw_heights(raw, monotone=data.monotone), widths=torch.log(share).clamp(min=-16.0))
