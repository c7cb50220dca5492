"""The search for fits of all numbers of pieces and lines of a batch, on coarse cells first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from calibrant.cells import Floats
from calibrant.errors import NotConverged
from calibrant.piecewise.families import ends, heights_of, knots_of, raw_heights, terms
from calibrant.piecewise.solver import Data, Models, Solved, curve_values, solve
from calibrant.progress import report, step

# --- Warm starts: insert the knot with the largest gain, or remove the one with the smallest cost

#: Number of candidate positions of a new knot.
_POSITIONS = 32
#: Smallest distance of a new knot from the ends of its piece, as a fraction of the piece.
_LEAST_SHARE = 1e-3
_HEIGHT_CLIP = 1e-9


def with_one_more(data: Data, models: Models) -> Models:
    """Insert a knot on the curve of each model, which does not change its loss.

    The knot is where a bend would reduce the loss most: by g^2 / k, with g the slope and k the curvature of
    the loss along the hat function of the new knot between its two neighbours. Every model needs padding for
    one more piece. O(M C).
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
    """Remove from each model the knot with the smallest change of the curve, weighted by curvature."""
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
    """Return start, number and end of the piece of each candidate position ``(M, positions)``, and the positions."""
    reached = torch.cumsum(data.w.sum(dim=0), dim=0)
    wanted = (torch.arange(_POSITIONS, device=knots.device, dtype=knots.dtype) + 0.5) / _POSITIONS * reached[-1]
    places = data.x[torch.searchsorted(reached, wanted).clamp(max=len(data.x) - 1)]
    middles = (knots[:, 1:] + knots[:, :-1]) / 2  # a position in every piece, also without quantiles
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
    """Return models with the same names and these curves."""
    low, high = ends(data.family)
    share = (torch.diff(knots, dim=1) / (high - low)).clamp(min=torch.finfo(knots.dtype).tiny)
    raw = torch.logit(heights, eps=_HEIGHT_CLIP) if data.family == "pl" else heights
    return replace(models, heights=raw_heights(raw, monotone=data.monotone), widths=torch.log(share).clamp(min=-16.0))


# --- The search: starts on coarse cells, the best on all cells, then warm starts from neighbouring numbers of pieces

#: Steps of the starts on coarse cells, of the best of them on all cells, and of a warm start from a neighbour.
COARSE_STEPS, FINE_STEPS, WARM_STEPS = 12, 20, 10
#: Models with up to this many pieces are one batch, and larger ones another.
SMALL = 8


@dataclass(frozen=True)
class Fits:
    """Fits for one number of pieces: one model per line, mean losses ``(lines,)``, and whether they converged."""

    models: Models
    loss: Tensor
    converged: Tensor

    def or_better(self, found: Solved, lines: Tensor) -> Fits:
        """Return these fits, replaced at ``lines`` by better ones in ``found``."""
        better = found.loss < self.loss[lines]
        at = lines[better]
        models = Models.join([self.models, found.models[better]])
        order = torch.arange(len(self.loss), device=lines.device)
        order[at] = len(self.loss) + torch.arange(len(at), device=lines.device)
        loss, converged = self.loss.clone(), self.converged.clone()
        loss[at], converged[at] = found.loss[better], found.converged[better]
        return Fits(replace(models[order], name=self.models.name), loss, converged)


@dataclass(frozen=True)
class Search:
    """Search for the models of one family on one set of lines.

    ``coarse`` and ``fine`` are the same rows on few and on all cells; ``tolerance`` is that of a mean loss.
    """

    coarse: Data
    fine: Data
    tolerance: float

    def fit(self, starts: Sequence[tuple[Models, int]], counts: Sequence[Sequence[int]], *, wide: bool) -> list[Fits]:
        """Return fits for all numbers of pieces, ascending, from batches of ``starts`` (with the number per model).

        With ``wide``, every model is also started from the next smaller one with inserted knots, and from the
        next larger one with removed knots; a model that is worse than a smaller one is started from it again.
        The losses are then non-increasing in the number of pieces.
        """
        fits: list[Fits] = []
        for i, ((models, per_model), group) in enumerate(zip(starts, counts, strict=True)):
            fits += self._batch(models, per_model, len(group), i, len(counts))
        every = [count for group in counts for count in group]
        if wide:
            for i in range(1, len(every)):
                fits[i] = self._from_smaller(fits[i], fits[i - 1], every[i] - every[i - 1], slice(None))
            for i in range(len(every) - 2, -1, -1):
                fits[i] = self._from_larger(fits[i], fits[i + 1], every[i + 1] - every[i])
            for i in range(1, len(every)):
                beaten = torch.nonzero(fits[i].loss > fits[i - 1].loss)[:, 0]
                fits[i] = self._from_smaller(fits[i], fits[i - 1], every[i] - every[i - 1], beaten)
        report(1, 1, "done")
        return fits

    def _batch(self, models: Models, per_model: int, counts: int, batch: int, batches: int) -> list[Fits]:
        total = len(models) // per_model
        with step(2 * batch, 2 * batches, "coarse fits"):
            tried = solve(self.coarse, models, steps=COARSE_STEPS, tolerance=10.0 * self.tolerance)
        names = torch.arange(total, device=models.line.device)
        best = tried.loss.view(-1, per_model).argmin(dim=1)
        winners = replace(tried.models[names * per_model + best], name=names)
        with step(2 * batch + 1, 2 * batches, "fine fits"):
            solved = solve(self.fine, winners, steps=FINE_STEPS, tolerance=self.tolerance)
        if not bool(torch.isfinite(solved.loss).all()):
            raise NotConverged("the fit did not converge: its loss is not finite")
        lines = total // counts
        return [
            Fits(solved.models[part], solved.loss[part], solved.converged[part]) for part in names.view(counts, lines)
        ]

    def _from_smaller(self, fits: Fits, smaller: Fits, more: int, lines: Tensor | slice) -> Fits:
        at = torch.arange(len(fits.loss), device=fits.loss.device)[lines]
        models = smaller.models[at].padded(fits.models.valid.shape[1])
        for _ in range(more):
            models = with_one_more(self.fine, models)
        return self._polished(fits, models, at)

    def _from_larger(self, fits: Fits, larger: Fits, fewer: int) -> Fits:
        models = larger.models
        for _ in range(fewer):
            models = with_one_fewer(self.fine, models)
        at = torch.arange(len(fits.loss), device=fits.loss.device)
        return self._polished(fits, models.padded(fits.models.valid.shape[1]), at)

    def _polished(self, fits: Fits, models: Models, lines: Tensor) -> Fits:
        if len(lines) == 0:
            return fits
        named = replace(models, name=torch.arange(len(models), device=lines.device))
        with step(999, 1000, "neighbours"):
            solved = solve(self.fine, named, steps=WARM_STEPS, tolerance=self.tolerance)
        return fits.or_better(solved, lines)


# --- Weights of candidates by their out-of-fold losses

#: The prior weight of a candidate is exp(-PENALTY x number of parameters).
PENALTY = 0.35
#: Candidates with less weight than this are left out.
_LEAST_WEIGHT = 1e-4


def weights(losses: Floats, parameters: Floats) -> Floats:
    """Return the weights of candidates, proportional to exp(-loss - 0.35 parameters); the smallest become 0.

    ``losses (candidates,)`` are total held-out log losses of all rows.
    """
    logs = -losses - PENALTY * parameters
    given: Floats = np.exp(logs - logs.max())
    given[given <= _LEAST_WEIGHT * given.sum()] = 0.0
    return given / float(given.sum())
