"""The search for fits of all numbers of pieces and lines of a batch, on coarse cells first."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibrant.core.cells import Floats
from calibrant.core.errors import NotConverged
from calibrant.core.progress import report, step
from calibrant.piecewise.arrays import Bools, Ints, beside, empty, namespace, ranks, take
from calibrant.piecewise.families import Terms, knots_of, terms, valid_heights
from calibrant.piecewise.solver import Data, Models, Solved, curve_values, solve

# --- Warm starts: insert the knot with the largest gain, or remove the one with the smallest cost

#: Number of candidate positions of a new knot.
_POSITIONS = 32
#: Smallest distance of a new knot from the ends of its piece, as a fraction of the piece.
_LEAST_SHARE = 1e-3


def with_one_more(data: Data, models: Models) -> Models:
    """Insert a knot on the curve of each model, which does not change its loss.

    The knot is where a bend would reduce the loss most: by g^2 / k, with g the slope and k the curvature of
    the loss along the hat function of the new knot between its two neighbours. Every model needs padding for
    one more piece. O(M C).
    """
    xp = namespace(models.heights)
    knots, heights = _curve(data, models)
    begin, middle, end, at = _splits(data, knots)
    at_cells = _terms(data, models, knots, heights)
    sums = empty((5, len(models), len(data.x) + 1), knots)
    sums[0, :, 1:], sums[1, :, 1:] = at_cells.slope, at_cells.slope * data.x
    for power in range(3):
        sums[2 + power, :, 1:] = at_cells.curvature * data.x**power
    sums[:, :, 0] = 0.0
    sums = sums.cumsum(2)
    gain, stiffness = xp.zeros_like(at), xp.zeros_like(at)
    for outer, low, high in ((begin, begin, at), (end, at, end)):
        reached = [take(sums, ranks(data.x, x, ties=True)[None]) for x in (low, high)]
        r, rx, k, kx, kxx = reached[1] - reached[0]
        width = xp.where(at != outer, at - outer, 1.0)
        gain += (rx - outer * r) / width
        stiffness += (kxx - 2.0 * outer * kx + outer * outer * k) / (width * width)
    share = (at - begin) / (end - begin).clip(min=1e-300)
    allowed = (share > _LEAST_SHARE) & (share < 1.0 - _LEAST_SHARE)
    score = xp.where(allowed, gain * gain / (stiffness + 1e-12), -1.0)
    best = score.argmax(1)[:, None]
    return _insert(data, models, knots, heights, take(middle, best), take(at, best))


def with_one_fewer(data: Data, models: Models) -> Models:
    """Remove from each model the knot with the smallest change of the curve, weighted by curvature."""
    xp = namespace(models.heights)
    knots, heights = _curve(data, models)
    curvature = _terms(data, models, knots, heights).curvature
    cost = xp.full_like(knots, xp.inf)
    for j in range(1, knots.shape[1] - 1):
        left, at, right = knots[:, j - 1], knots[:, j], knots[:, j + 1]
        span = (right - left).clip(min=1e-300)
        off = heights[:, j] - _between(heights[:, j - 1], heights[:, j + 1], (at - left) / span)
        rising = (data.x - left[:, None]) / (at - left).clip(min=1e-300)[:, None]
        falling = (right[:, None] - data.x) / (right - at).clip(min=1e-300)[:, None]
        hat = xp.minimum(rising, falling).clip(0.0, 1.0)
        cost[:, j] = xp.where(models.valid[:, j], off * off * (curvature * hat * hat).sum(axis=1), xp.inf)
    place = _places(knots)
    source = xp.where(place >= cost.argmin(1)[:, None], place + 1, place).clip(max=knots.shape[1] - 1)
    fewer = xp.concatenate([models.valid[:, 1:], xp.zeros_like(models.valid[:, :1])], 1)
    return _models(data, replace(models, valid=fewer), take(knots, source), take(heights, source))


def _curve(data: Data, models: Models) -> tuple[Floats, Floats]:
    knots, _ = knots_of(models.widths, *data.ends, models.valid)
    return knots, models.heights


def _terms(data: Data, models: Models, knots: Floats, heights: Floats) -> Terms:
    f = curve_values(data.x, knots, heights)
    return terms(data.family, data.loss, f, data.w[models.line], data.wy[models.line])


def _between(first: Floats, second: Floats, share: Floats) -> Floats:
    return first + share * (second - first)


def _places(knots: Floats) -> Ints:
    """Return the numbers of the nodes, ``(1, B+1)``."""
    return beside(np.arange(knots.shape[1])[None], knots)


def _splits(data: Data, knots: Floats) -> tuple[Floats, Ints, Floats, Floats]:
    """Return start, number and end of the piece of each candidate position ``(M, positions)``, and the positions."""
    xp = namespace(knots)
    reached = data.w.sum(axis=0).cumsum(0)
    wanted = beside((np.arange(_POSITIONS) + 0.5) / _POSITIONS, knots) * reached[-1]
    places = data.x[ranks(reached, wanted, ties=False).clip(max=len(data.x) - 1)]
    middles = (knots[:, 1:] + knots[:, :-1]) / 2  # a position in every piece, also without quantiles
    at = xp.concatenate([places + xp.zeros_like(knots[:, :1]), middles], 1)
    piece = ((knots[:, None, :] < at[:, :, None]).sum(axis=2) - 1).clip(0, knots.shape[1] - 2)
    return take(knots, piece), piece, take(knots, piece + 1), at


def _insert(data: Data, models: Models, knots: Floats, heights: Floats, piece: Ints, at: Floats) -> Models:
    xp = namespace(knots)
    left, right = take(knots, piece), take(knots, piece + 1)
    share = (at - left) / (right - left).clip(min=1e-300)
    value = _between(take(heights, piece), take(heights, piece + 1), share)
    place = _places(knots)
    source = xp.where(place > piece + 1, place - 1, place)
    new = place == piece + 1
    more = xp.concatenate([xp.ones_like(models.valid[:, :1]), models.valid[:, :-1]], 1)
    return _models(
        data,
        replace(models, valid=more),
        xp.where(new, at, take(knots, source)),
        xp.where(new, value, take(heights, source)),
    )


def _models(data: Data, models: Models, knots: Floats, heights: Floats) -> Models:
    """Return models with the same names and these curves."""
    xp = namespace(knots)
    low, high = data.ends
    share = ((knots[:, 1:] - knots[:, :-1]) / (high - low)).clip(min=sys.float_info.min)
    inside = valid_heights(data.family, heights, monotone=data.monotone)
    return replace(models, heights=inside, widths=xp.log(share).clip(min=-16.0))


# --- The search: starts on coarse cells, the best on all cells, then warm starts from neighbouring numbers of pieces

#: Steps of the starts on coarse cells, of the best of them on all cells, and of a warm start from a neighbour.
COARSE_STEPS, FINE_STEPS, WARM_STEPS = 12, 14, 10
#: Models with up to this many pieces are one batch, and larger ones another.
SMALL = 8


@dataclass(frozen=True)
class Fits:
    """Fits for one number of pieces: one model per line, mean losses ``(lines,)``, and whether they converged."""

    models: Models
    loss: Floats
    converged: Bools

    def or_better(self, solved: Solved, lines: Ints) -> Fits:
        """Return these fits, replaced at ``lines`` by better ones in ``solved``."""
        xp = namespace(self.loss)
        better = solved.loss < self.loss[lines]
        at = lines[better]
        models = Models.join([self.models, solved.models[better]])
        order = _numbers(len(self.loss), self.loss)
        order[at] = len(self.loss) + _numbers(len(at), self.loss)
        loss, converged = xp.asarray(self.loss, copy=True), xp.asarray(self.converged, copy=True)
        loss[at], converged[at] = solved.loss[better], solved.converged[better]
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
                beaten = namespace(fits[i].loss).argwhere(fits[i].loss > fits[i - 1].loss)[:, 0]
                fits[i] = self._from_smaller(fits[i], fits[i - 1], every[i] - every[i - 1], beaten)
        report(1, 1, "done")
        return fits

    def _batch(self, models: Models, per_model: int, counts: int, batch: int, batches: int) -> list[Fits]:
        total = len(models) // per_model
        names = _numbers(total, self.fine.x)
        if per_model > 1 or len(self.coarse.x) < len(self.fine.x) / 2:
            with step(2 * batch, 2 * batches, "coarse fits"):
                tried = solve(self.coarse, models, steps=COARSE_STEPS, tolerance=10.0 * self.tolerance)
            models = tried.models[names * per_model + tried.loss.reshape(-1, per_model).argmin(1)]
        winners = replace(models, name=names)
        with step(2 * batch + 1, 2 * batches, "fine fits"):
            solved = solve(self.fine, winners, steps=FINE_STEPS, tolerance=self.tolerance)
        if not bool(namespace(solved.loss).isfinite(solved.loss).all()):
            raise NotConverged("the fit did not converge: its loss is not finite")
        lines = total // counts
        return [
            Fits(solved.models[part], solved.loss[part], solved.converged[part])
            for part in names.reshape(counts, lines)
        ]

    def _from_smaller(self, fits: Fits, smaller: Fits, more: int, lines: Ints | slice) -> Fits:
        at = _numbers(len(fits.loss), fits.loss)[lines]
        models = smaller.models[at].padded(fits.models.valid.shape[1])
        for _ in range(more):
            models = with_one_more(self.fine, models)
        return self._polished(fits, models, at)

    def _from_larger(self, fits: Fits, larger: Fits, fewer: int) -> Fits:
        models = larger.models
        for _ in range(fewer):
            models = with_one_fewer(self.fine, models)
        at = _numbers(len(fits.loss), fits.loss)
        return self._polished(fits, models.padded(fits.models.valid.shape[1]), at)

    def _polished(self, fits: Fits, models: Models, lines: Ints) -> Fits:
        if len(lines) == 0:
            return fits
        named = replace(models, name=_numbers(len(models), fits.loss))
        with step(999, 1000, "neighbours"):
            solved = solve(self.fine, named, steps=WARM_STEPS, tolerance=self.tolerance)
        return fits.or_better(solved, lines)


def _numbers(count: int, like: Floats) -> Ints:
    return beside(np.arange(count), like)


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
    shares: Floats = np.exp(logs - logs.max())
    shares[shares <= _LEAST_WEIGHT * shares.sum()] = 0.0
    return shares / float(shares.sum())
