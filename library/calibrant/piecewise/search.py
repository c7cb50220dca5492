"""The search for fits of all numbers of pieces and lines of a batch: its starts, on coarse cells first."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, logit

from calibrant.core.cells import Floats
from calibrant.core.errors import NotConverged
from calibrant.core.progress import report, step
from calibrant.maps.curves import CurvePlaces, Predicted
from calibrant.piecewise.arrays import Bools, Ints, beside, empty, namespace, placed, ranks, take
from calibrant.piecewise.families import Family, Terms, abscissa, knots_of, terms, valid_heights
from calibrant.piecewise.options import PiecewiseOptions
from calibrant.piecewise.solver import Data, Models, Solved, curve_values, solve

# --- Starts: knots at quantiles, and from backward elimination

#: Nodes of the initial curve of the elimination, at least twice the largest model.
_NODES = 32
#: Heights of PL are clipped here.
_HEIGHT_CLIP = 1e-3
#: Smallest width of a piece of a start, as a fraction of all.
_LEAST_WIDTH = 1e-4
#: Curvature, in rows, that keeps the initial curve close to the identity in regions without rows.
_RIDGE = 1e-2
_NEWTON_STEPS = 3


def starting_models(
    family: Family,
    cells: Predicted,
    w: Floats,
    wy: Floats,
    outer: tuple[float, float],
    counts: tuple[int, ...],
    options: PiecewiseOptions,
    device: str,
) -> tuple[Models, int]:
    """Return models for each number of pieces, line of the data and start, and the number of starts.

    ``w`` and ``wy (L, C)`` are the masses of each line at the cells, in rows, and ``outer`` the outer nodes. The name
    of a model is its index in the order (number of pieces, line, start).
    """
    size, lines = max(counts), len(w)
    sources = [{count: _at_quantiles(family, cells, w, wy, outer, count) for count in counts}]
    if options.starts == "several":
        sources.append(_eliminate(family, cells, w, wy, outer, counts))
    starts = len(sources)
    batch = (len(counts), lines, starts, size + 1)
    knots, heights = np.empty(batch), np.empty(batch)
    for i, count in enumerate(counts):
        for j, source in enumerate(sources):
            x, h = source[count]
            knots[i, :, j, : count + 1], heights[i, :, j, : count + 1] = x, h
            knots[i, :, j, count:], heights[i, :, j, count:] = x[:, -1:], h[:, -1:]
    widths = np.log(np.maximum(np.diff(knots) / np.ptp(outer), _LEAST_WIDTH))
    line = np.broadcast_to(np.arange(lines)[None, :, None], batch[:-1]).reshape(-1)
    valid = np.arange(size)[None, :] < np.array(counts)[:, None]
    raw = valid_heights(family, heights.reshape(-1, size + 1), monotone=options.monotone)
    everywhere = np.repeat(valid, lines * starts, axis=0)
    parts: tuple[Any, ...] = (raw, widths.reshape(-1, size), line, everywhere, np.arange(len(line)))
    models = Models(*(placed(part, device) for part in parts))
    return models, starts


def _at_quantiles(
    family: Family, cells: Predicted, w: Floats, wy: Floats, outer: tuple[float, float], count: int
) -> tuple[Floats, Floats]:
    """Return the published start: knots at quantiles of the predictions, and the identity as curve.

    If a constant has a smaller log loss than the identity, PL3 starts from it: at logits of 40 the logistic function is
    so flat that no step would gain anything.
    """
    reached = np.cumsum(w, axis=1) - w / 2
    inner = np.arange(1, count) / count
    every = [
        abscissa(family, _interpolated(inner * total, at, cells))
        for at, total in zip(reached, w.sum(axis=1), strict=True)
    ]
    bounds = np.ones((len(w), 1))
    knots = np.hstack([bounds * outer[0], np.stack(every), bounds * outer[1]])
    if family == "pl":
        return knots, knots.clip(_HEIGHT_CLIP, 1.0 - _HEIGHT_CLIP)
    x, mass, positives = abscissa(family, cells), w.sum(axis=1), wy.sum(axis=1)
    constant = logit((positives + 0.5) / (mass + 1.0))
    as_is = w @ np.logaddexp(0.0, x) - wy @ x
    worse = as_is > mass * np.logaddexp(0.0, constant) - positives * constant
    return knots, np.where(worse[:, None], constant[:, None], knots)


def _interpolated(x: Floats, at: Floats, cells: Predicted) -> CurvePlaces:
    """Interpolate probabilities linearly between ``at (C,)``; those of logits are not rounded."""
    if cells.logit is None:
        return CurvePlaces(np.interp(x, at, cells.p))
    place = np.interp(x, at, np.arange(len(at)))
    low = place.astype(np.intp)
    high, share = np.minimum(low + 1, len(at) - 1), place - low
    with np.errstate(divide="ignore"):  # of cells themselves
        above, below = (
            np.logaddexp(np.log1p(-share) + log_expit(z[low]), np.log(share) + log_expit(z[high]))
            for z in (cells.logit, -cells.logit)
        )
    return CurvePlaces.at_logits(above - below)


def _eliminate(
    family: Family, cells: Predicted, w: Floats, wy: Floats, outer: tuple[float, float], counts: tuple[int, ...]
) -> dict[int, tuple[Floats, Floats]]:
    """Return knots and raw heights ``(L, count + 1)`` from backward elimination of the knots of an initial curve.

    Close to the initial curve the loss is quadratic in its heights, with covariance S. Removing a knot
    requires equal slopes on its two sides: a linear condition on the heights, with the cost of conditioning a
    normal vector on it. In each step the knot with the smallest cost is removed, and S and the heights get a
    rank-one update. The knots of a smaller model are a subset of those of a larger one. O(L (C K^2 + K^3)) for
    K nodes.
    """
    nodes = _nodes(family, cells, w.sum(axis=0), outer, max(_NODES, 2 * max(counts)))
    heights, covariance = _fine_curve(family, abscissa(family, cells), w, wy, nodes)
    state = _Elimination.of(nodes, heights, covariance)
    curves = {}
    for remaining in range(len(nodes) - 2, -1, -1):
        if remaining + 1 in counts:
            curves[remaining + 1] = state.curve(nodes)
        if remaining:
            state.remove_cheapest()
    if family == "pl":
        curves = {count: (x, h.clip(_HEIGHT_CLIP, 1.0 - _HEIGHT_CLIP)) for count, (x, h) in curves.items()}
    return curves


def _nodes(family: Family, cells: Predicted, mass: Floats, outer: tuple[float, float], count: int) -> Floats:
    """Return about ``count`` knots: half at quantiles, half evenly spaced in asin sqrt p; and the ends."""
    half = count // 2
    reached = (np.cumsum(mass) - mass / 2) / mass.sum()
    quantiles = _interpolated(np.arange(1, half) / half, reached, cells)
    spaced = CurvePlaces(np.sin(np.pi / 2 * np.arange(1, half + 1) / (half + 1)) ** 2)
    x = np.unique(np.concatenate([abscissa(family, places) for places in (quantiles, spaced)]))
    low, high = outer
    least = (high - low) * _LEAST_WIDTH
    apart = [low]
    for value in x:
        if value - apart[-1] > least and high - value > least:
            apart.append(float(value))
    return np.array([*apart, high])


def _fine_curve(family: Family, x: Floats, w: Floats, wy: Floats, nodes: Floats) -> tuple[Floats, Floats]:
    """Fit heights ``(L, K)`` at the nodes to each line; also return their covariance ``(L, K, K)``."""
    hats = np.empty((len(nodes), len(x)))
    for i, unit in enumerate(np.eye(len(nodes))):
        hats[i] = np.interp(x, nodes, unit)
    ridge = _RIDGE * np.eye(len(nodes))
    heights: Floats = np.tile(nodes, (len(w), 1))
    covariance: Floats = np.empty((len(w), len(nodes), len(nodes)))
    for _ in range(_NEWTON_STEPS):
        f = heights @ hats
        c = np.clip(expit(f) if family == "pl3" else f, 2e-2, 1 - 2e-2)
        variance = c * (1.0 - c)
        weight = w * variance if family == "pl3" else w / variance
        response = weight * f + (wy - w * c if family == "pl3" else (wy - w * f) / variance)
        matrix = (hats * weight[:, None, :]) @ hats.T + ridge
        covariance = np.linalg.inv(matrix).astype(np.float64, copy=False)
        moved = (covariance @ (response @ hats.T + _RIDGE * nodes)[:, :, None])[:, :, 0]
        heights = heights + np.clip(moved - heights, -4.0, 4.0)
    return heights, covariance


@dataclass
class _Elimination:
    """State of the elimination for all lines: ``bend (L, K-2)`` are the changes of slope at the inner nodes.

    ``spread (L, K-2, K-2)`` is the covariance of the bends, and ``shared (L, K, K-2)`` that of heights and bends.
    """

    heights: Floats
    bend: Floats
    spread: Floats
    shared: Floats
    kept: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, nodes: Floats, heights: Floats, covariance: Floats) -> _Elimination:
        inverse = 1.0 / np.diff(nodes)
        rows = np.arange(len(nodes) - 2)
        bends = np.zeros((len(nodes) - 2, len(nodes)))
        bends[rows, rows] = inverse[:-1]
        bends[rows, rows + 1] = -inverse[:-1] - inverse[1:]
        bends[rows, rows + 2] = inverse[1:]
        shared = covariance @ bends.T
        remaining = np.ones((len(heights), len(rows)), dtype=bool)
        return cls(heights, heights @ bends.T, bends @ shared, shared, remaining)

    def remove_cheapest(self) -> None:
        """Remove the knot with the smallest cost from each line."""
        lines = np.arange(len(self.bend))
        own = np.maximum(np.diagonal(self.spread, axis1=1, axis2=2), 1e-300)
        gone = np.where(self.kept, self.bend * self.bend / own, np.inf).argmin(axis=1)
        variance = own[lines, gone]
        column = self.spread[lines, :, gone]
        share = self.bend[lines, gone] / variance
        with_heights = self.shared[lines, :, gone]
        self.heights = self.heights - with_heights * share[:, None]
        self.bend = self.bend - column * share[:, None]
        scaled = (column / variance[:, None])[:, None, :]
        self.shared = self.shared - with_heights[:, :, None] * scaled
        self.spread = self.spread - column[:, :, None] * scaled
        self.kept[lines, gone] = False

    def curve(self, nodes: Floats) -> tuple[Floats, Floats]:
        """Return the remaining knots and their heights."""
        at = np.ones((len(self.kept), len(nodes)), dtype=bool)
        at[:, 1:-1] = self.kept
        shape = (len(at), -1)
        return np.broadcast_to(nodes, at.shape)[at].reshape(shape), self.heights[at].reshape(shape)


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
