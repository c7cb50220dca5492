"""The refinement of fits, until no change of one height or one knot lowers the loss.

As a function of a knot the loss has a bend at every cell, so its minimum is often on a cell, where the steps of the
solver become short before the other parameters have arrived. Here all parameters take Newton steps; where these fail, a
knot on a cell stays, and the others move to the next cells at most. Then each knot alone is moved to its best
position, which may be on the other side of a cell or far away. Both are repeated until the gain is negligible.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from calibrant.core.cells import Floats
from calibrant.piecewise.arrays import Bools, Ints
from calibrant.piecewise.families import Terms, cell_losses, terms, valid_heights
from calibrant.piecewise.solver import Data, Expansion, at_nodes, curve_values, piece_sums, pieces_of, projected_step

#: Most rounds, and most Newton steps of one round.
_ROUNDS, _STEPS = 400, 20
#: Rounds after which the direction of the last ones is tried, and how much further.
_PATIENCE, _FACTORS = 5, (1.0, 4.0, 16.0, 64.0)
#: Smallest width of a piece, relative to the whole range: e^-16, as in the solver.
_LEAST_WIDTH = 1.2e-7
#: Share of the way to the next knot that one step may go.
_NEARER = 0.45
_LEAST_DAMPING, _MOST_DAMPING = 1e-9, 1e7
#: Shares of a Newton step that are tried one after the other: two across cells, then two between cells, of which
#: the last is damped.
_SHARES = np.array([1.0, 0.2, 1.0, 1.0])
_BETWEEN, _DAMPED = 2, 3
#: Shares of the Newton step of one knot, which are compared, and the least gain of a step worth it, by its gradient.
_SHARES_OF_KNOT, _LEAST_GAIN = (1.0, 0.25, 0.05), 1e-11
#: Places in a gap that are compared; the end of a gap is the start of the next one.
_SHARES_OF_GAP = (0.0, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.99)
#: Share of a gap on both sides of the best ones of these places that is searched, and how often it is halved.
_NEARBY, _HALVINGS = 0.15, 5
#: Changes of single heights, as logits, that are compared if the loss is not convex.
_CHANGES = tuple(sign * size for size in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0) for sign in (1.0, -1.0))
#: Gaps whose losses are computed first, and values of curves that are computed at once.
_CHOICES, _EVALUATIONS = 6, 1 << 16
#: Subtracted from an expansion that is no bound, so that no gap is left out.
_NO_BOUND = 1e3


def refine(
    data: Data, line: Ints, knots: Floats, heights: Floats, tolerance: float
) -> tuple[Floats, Floats, Floats, Bools]:
    """Return ``knots`` and ``heights (M, B+1)``, the mean losses ``(M,)``, and which models have converged.

    No change of a single height or knot lowers the loss of these by more than ``tolerance``. A knot is compared at ten
    places of each gap in which a bound allows a gain, and near the best ones; in all gaps if the loss is not convex in
    the values of the curve, the Brier score of PL3. All models have the same number of pieces, and the arrays are those
    of NumPy. O(M C) per step.
    """
    knots, heights, loss = knots.copy(), heights.copy(), np.empty(len(line))
    moving = np.arange(len(line))
    earlier = knots.copy(), heights.copy()
    for round_ in range(_ROUNDS):
        lines, k, h = line[moving], knots[moving], heights[moving]
        unfinished, loss[moving] = _newton(data, lines, k, h, tolerance / 10.0)
        at = np.flatnonzero(~unfinished)
        if len(at) and knots.shape[1] > 2:
            k[at], unfinished[at] = _moved(data, lines[at], k[at], h[at], loss[moving][at], tolerance / 2.0)
        if data.family == "pl3" and data.loss == "brier":
            at = np.flatnonzero(~unfinished)
            h[at], unfinished[at] = _with_other_height(data, lines[at], k[at], h[at], loss[moving][at], tolerance / 2.0)
        if round_ % _PATIENCE == _PATIENCE - 1 and unfinished.any():
            at = np.flatnonzero(unfinished)
            k[at], h[at] = _extrapolated(data, lines[at], k[at], h[at], earlier[0][moving[at]], earlier[1][moving[at]])
            earlier[0][moving], earlier[1][moving] = k, h
        knots[moving], heights[moving] = k, h
        moving = moving[unfinished]
        if not len(moving):
            break
    loss[moving] = piece_sums(data, line[moving], knots[moving], heights[moving])[0]
    converged = np.ones(len(line), dtype=bool)
    converged[moving] = False
    return knots, heights, loss, converged


def _newton(data: Data, line: Ints, knots: Floats, heights: Floats, tolerance: float) -> tuple[Bools, Floats]:
    """Take Newton steps of ``knots`` and ``heights``, in place; return which models are unfinished, and the losses.

    The heights follow the knots: after knots are held back, the heights take the step for the remaining change.
    """
    size = heights.shape[1]
    loss, sums, slope = piece_sums(data, line, knots, heights)
    damping = np.full(len(line), _LEAST_DAMPING)
    attempt = np.full(len(line), 0 if size > 2 else _BETWEEN)
    going = np.arange(len(line))
    for _ in range(_STEPS):
        tried, mu, k, h = attempt[going], damping[going], knots[going], heights[going]
        low, high = _reach(data, k, across=tried < _BETWEEN)
        here, step, failed = _joint_step(data, sums[:, going], slope[going], k, h, low < high, tried < _DAMPED, mu)
        moved = k.copy()
        moved[:, 1:-1] = (k[:, 1:-1] - step * _SHARES[tried][:, None]).clip(low, high)
        change = (moved - k)[:, 1:-1, None]
        gradient = here.gradient[:, :size] + (here.matrix[:, :size, size:] @ change)[:, :, 0]
        following = Expansion(here.loss, gradient, here.matrix[:, :size, :size])
        new, _, broken = projected_step(data, h, following, mu)
        trial, new_sums, new_slope = piece_sums(data, line[going], moved, new)
        gain = np.where(failed | broken, -np.inf, loss[going] - trial)
        better = gain > 0.0
        at = going[better]
        knots[at], heights[at], loss[at] = moved[better], new[better], trial[better]
        sums[:, at], slope[at] = new_sums[:, better], new_slope[better]
        small = better & (gain <= tolerance)
        worse = ~better & (tried == _DAMPED)
        # Heights that followed a knot to a cell have not had a step of their own.
        stopped = ((low < high) & ((moved[:, 1:-1] == low) | (moved[:, 1:-1] == high))).any(axis=1)
        finished = small & ~stopped & (tried >= _BETWEEN) & (mu <= 1e-3)
        done = np.where(worse, (gain > -1e-14) | (mu >= _MOST_DAMPING), finished)
        damping[going] = (mu * np.where(worse, 100.0, 0.01)).clip(_LEAST_DAMPING, _MOST_DAMPING)
        again = np.where(small | (tried >= _BETWEEN), _BETWEEN, 0)
        attempt[going] = np.where(better, again, np.minimum(tried + 1, _DAMPED))
        going = going[~done]
        if not len(going):
            break
    unfinished = np.zeros(len(line), dtype=bool)
    unfinished[going] = True
    return unfinished, loss


def _joint_step(
    data: Data, sums: Floats, slope: Floats, knots: Floats, heights: Floats, free: Bools, exact: Bools, damping: Floats
) -> tuple[Expansion, Floats, Bools]:
    """Return the expansion, the step of the inner knots, and which models failed.

    The matrix is the Hessian if that is positive definite and wanted, ``exact (M,)``, and that of Gauss and Newton
    otherwise.
    """
    here = _system(sums, slope, knots, free, exact)
    _, step, failed = projected_step(data, heights, here, damping)
    again = np.flatnonzero(failed & exact)
    if len(again):
        rest = _system(sums[:, again], slope[again], knots[again], free[again], np.zeros(len(again), dtype=bool))
        here.matrix[again] = rest.matrix
        _, step[again], failed[again] = projected_step(data, heights[again], rest, damping[again])
    return here, step, failed


def _system(sums: Floats, slope: Floats, knots: Floats, free: Bools, exact: Bools) -> Expansion:
    """Return gradient and matrix in the heights and the inner knots, of which those not ``free`` are fixed.

    The matrix is the Hessian for ``exact (M,)`` models, and that of Gauss and Newton for the others.
    """
    r, rt, k, kt, ktt = sums
    g0, g1, m00, m01, m11 = r - rt, rt, k - 2.0 * kt + ktt, kt - ktt, ktt
    s, inverse = slope, exact[:, None] * _ratio(1.0, knots[:, 1:] - knots[:, :-1])
    a, b, n01 = inverse * g0, inverse * g1, s * m01
    count, pieces = s.shape
    size, every = pieces + 1, 2 * pieces
    gradient, matrix = np.empty((count, every)), np.zeros((count, every, every))
    gradient[:, :size] = at_nodes(g0, g1)
    gradient[:, size:] = -at_nodes(s * g0, s * g1)[:, 1:-1] * free
    flat = matrix.reshape(count, -1)

    def put(row: int, column: int, values: Floats) -> None:
        """Set a diagonal of the matrix that begins in this row and column."""
        first = row * every + column
        flat[:, first : first + values.shape[1] * (every + 1) : every + 1] = values

    # Derivatives of a curve in nodes (H, X), whose second ones are those of t = (x - X_left) / width.
    put(0, 0, at_nodes(m00, m11))
    put(0, 1, m01)
    put(1, 0, m01)
    if pieces > 1:
        put(0, size, (b - n01)[:, :-1] * free)
        put(1, size, at_nodes(a - s * m00, -b - s * m11)[:, 1:-1] * free)
        put(2, size, (-a - n01)[:, 1:] * free)
        matrix[:, size:, :size] = matrix[:, :size, size:].swapaxes(1, 2)
        put(size, size, at_nodes(s * (s * m00 - 2.0 * a), s * (s * m11 + 2.0 * b))[:, 1:-1] * free)
        beside = (s * (n01 + a - b))[:, 1:-1] * free[:, 1:] * free[:, :-1]
        put(size, size + 1, beside)
        put(size + 1, size, beside)
    return Expansion(np.empty(0), gradient, matrix)


def _reach(data: Data, knots: Floats, *, across: Bools) -> tuple[Floats, Floats]:
    """Return how far each inner knot may move, ``(M, B-1)``: nearly half way to the next knots.

    Unless it may move ``across (M,)`` cells, it stops at the next cells, and stays on a cell. A knot beside a piece of
    the smallest width stays too.
    """
    x, free = knots[:, 1:-1], across[:, None]
    least = _least(knots)
    before, after, cells = _neighbours(data, x)
    below, above = x - knots[:, :-2], knots[:, 2:] - x
    # Less than half, so that neighbours that move to each other do not meet.
    low = np.maximum(np.where(free, -np.inf, cells[before]), x - _NEARER * below)
    high = np.minimum(np.where(free, np.inf, cells[after]), x + _NEARER * above)
    on_cell = after > before + 1
    stays = (on_cell & ~free) | (below < 2.0 * least) | (above < 2.0 * least)
    return np.where(stays, x, low), np.where(stays, x, high)


def _neighbours(data: Data, knots: Floats) -> tuple[Ints, Ints, Floats]:
    """Return the numbers of the cells before and after each knot, and the cells with an infinite one at both ends."""
    cells = np.concatenate([[-np.inf], data.x, [np.inf]])
    return np.searchsorted(data.x, knots, side="left"), np.searchsorted(data.x, knots, side="right") + 1, cells


def _moved(
    data: Data, line: Ints, knots: Floats, heights: Floats, loss: Floats, tolerance: float
) -> tuple[Floats, Bools]:
    """Move knots to better positions; return them, and for which models one of them gained more than ``tolerance``.

    The losses are not computed in gaps between cells and knots in which a bound excludes the gain. Of the others, the
    most promising ones come first, and the rest only if these gain nothing.
    """
    count, size = knots.shape
    gains, places = np.zeros((count, size)), knots.copy()

    def compare(model: Ints, knot: Ints, position: Floats) -> Floats:
        """Keep the best position of each knot of each model; return the gains."""
        gain: Floats = loss[model] - _losses_with(data, line[model], knots[model], heights[model], knot, position)
        for i in np.flatnonzero(gain > 0.0):
            if gain[i] > gains[model[i], knot[i]]:
                gains[model[i], knot[i]], places[model[i], knot[i]] = gain[i], position[i]
        return gain

    gaps, steps = _gaps(data, line, knots, heights)
    _, model, inner = beside = np.nonzero(steps)
    for share in _SHARES_OF_KNOT:
        compare(model, inner + 1, knots[model, inner + 1] + share * steps[beside])
    possible, lowest, bound = gaps.most_promising(tolerance)
    order = np.lexsort((bound, possible.model))
    order = order[bound[order] < -tolerance]
    model, knot, lowest = possible.model[order], possible.knot[order], lowest[order]
    first = np.arange(len(order)) - np.searchsorted(model, model) < _CHOICES
    compare(model[first], knot[first], lowest[first])
    left = gains.max(axis=1)[model] <= tolerance
    model, knot = model[left], knot[left]
    start, stop = possible.start[order][left], possible.stop[order][left]
    tried = np.stack([start + share * (stop - start) for share in _SHARES_OF_GAP])
    gain = np.stack([compare(model, knot, position) for position in tried])
    best = gain.argmax(axis=0)
    knot_of_model = model * size + knot
    order = np.lexsort((-gain.max(axis=0), knot_of_model))
    near = order[np.arange(len(order)) - np.searchsorted(knot_of_model[order], knot_of_model[order]) < _CHOICES]
    position, reach = tried[best[near], near], _NEARBY * (stop - start)[near]
    for _ in range(_HALVINGS if len(near) else 0):
        around = np.stack([(position + side * reach).clip(start[near], stop[near]) for side in (-1, -0.5, 0, 0.5, 1)])
        best = np.stack([compare(model[near], knot[near], place) for place in around]).argmax(axis=0)
        position, reach = around[best, np.arange(len(near))], reach / 2.0
    # Knots whose pieces do not overlap move together.
    odd = np.arange(size) % 2 == 1
    together = np.where((gains[:, odd].sum(axis=1) >= gains[:, ~odd].sum(axis=1))[:, None], odd, ~odd)
    return np.where(together & (gains > tolerance), places, knots), gains.max(axis=1) > tolerance


def _with_other_height(
    data: Data, line: Ints, knots: Floats, heights: Floats, loss: Floats, tolerance: float
) -> tuple[Floats, Bools]:
    """Return heights after the best change of one of them, and for which models it gained more than ``tolerance``."""
    new, least = heights.copy(), loss - tolerance
    for i in range(heights.shape[1]):
        for change in _CHANGES:
            tried = heights.copy()
            tried[:, i] += change
            tried = valid_heights(data.family, tried, monotone=data.monotone)
            there = piece_sums(data, line, knots, tried)[0]
            better = there < least
            new[better], least[better] = tried[better], there[better]
    return new, least < loss - tolerance


def _extrapolated(
    data: Data, line: Ints, knots: Floats, heights: Floats, before_knots: Floats, before_heights: Floats
) -> tuple[Floats, Floats]:
    """Return knots and heights further in the direction since an earlier round, as far as this lowers the losses."""
    least, new_knots, new_heights = piece_sums(data, line, knots, heights)[0], knots.copy(), heights.copy()
    for factor in _FACTORS:
        moved = knots + factor * (knots - before_knots)
        tried = valid_heights(data.family, heights + factor * (heights - before_heights), monotone=data.monotone)
        there = piece_sums(data, line, np.maximum.accumulate(moved, axis=1), tried)[0]
        better = (there < least) & (np.diff(moved).min(axis=1) > 2.0 * _least(knots))
        new_knots[better], new_heights[better], least[better] = moved[better], tried[better], there[better]
    return new_knots, new_heights


def _losses_with(data: Data, line: Ints, knots: Floats, heights: Floats, knot: Ints, position: Floats) -> Floats:
    """Return the losses of models ``(S,)`` with one knot ``(S,)`` at another position ``(S,)``."""
    losses, block = np.empty(len(line)), max(_EVALUATIONS // len(data.x), 1)
    for first in range(0, len(line), block):
        part = slice(first, first + block)
        moved = knots[part].copy()
        moved[np.arange(len(moved)), knot[part]] = position[part]
        f = curve_values(data.x, moved, heights[part])
        losses[part] = cell_losses(data.family, data.loss, f, data.w[line[part]], data.wy[line[part]]).sum(axis=1)
    return losses


@dataclass(frozen=True)
class _Gaps:
    """Gaps between neighbouring cells and knots, into which the knot on their left or right may move.

    All arrays have the same shape: the numbers of the ``model`` and the ``knot``, whether it moves ``down``, its
    position ``own`` and those of its neighbours ``left`` and ``right``, the changes of the height ``first`` and
    ``second`` between them and the slopes ``rise`` and ``fall``, and how far it can go: from ``start`` to ``stop``.
    ``ranges`` are the sums of r, r u, k, k u and k u^2 over the cells that are outside the move on the left, that it
    passes, and outside on the right, with u = x - own.
    """

    ranges: Floats
    convex: bool
    logistic: bool
    model: Ints
    knot: Ints
    down: Bools
    own: Floats
    left: Floats
    right: Floats
    first: Floats
    second: Floats
    rise: Floats
    fall: Floats
    start: Floats
    stop: Floats

    def __getitem__(self, at: Any) -> _Gaps:
        chosen: dict[str, Any] = {field.name: getattr(self, field.name)[at] for field in fields(self)[3:]}
        return replace(self, **chosen, ranges=self.ranges[(slice(None), slice(None), *at)])

    def bound(self, z: Floats) -> Floats:
        """Return a lower bound of the change of the loss for the knots at ``z``.

        For a change d of the curve's value, the loss of a cell changes by at least r d + k d^2 / 2, with r its
        derivative and k a lower bound of its curvature. Without such a bound it is the expansion.
        """
        new_rise, new_fall = _ratio(self.first, z - self.left), _ratio(self.second, self.right - z)
        u, a, b = z - self.own, new_rise - self.rise, new_fall - self.fall
        new, old = np.where(self.down, new_fall, new_rise), np.where(self.down, self.rise, self.fall)
        share: Floats | float = 1.0
        if self.logistic and self.convex:
            # The curvature falls by at most e^-d over a change of d (Bach 2010): its mean effect is at least this part.
            largest = np.maximum(np.abs(new * u), np.abs(old * u))
            small = largest < 1e-4
            d = np.where(small, 1.0, largest)
            share = np.where(small, 1.0 - largest / 3.0, 2.0 * (np.exp(-d) + d - 1.0) / (d * d))
        lines = (-a * (self.left - self.own), a), (-new * u, new - old), (-b * (self.right - self.own), b)
        change: Floats = np.zeros_like(z)
        for (value, slope), (r, ru, k, ku, kuu) in zip(lines, self.ranges, strict=True):
            curved = value * (value * k + 2.0 * slope * ku) + slope * slope * kuu
            change += value * r + slope * ru + 0.5 * share * curved
        return change

    def most_promising(self, tolerance: float) -> tuple[_Gaps, Floats, Floats]:
        """Return gaps in which the bound may be below -``tolerance``, where it is lowest, and its value there."""
        values = [self.bound(self.start + share * (self.stop - self.start)) for share in (0.0, 0.5, 1.0)]
        low, high = np.minimum.reduce(values), np.maximum.reduce(values)
        near = low - (high - low) < -tolerance if self.convex else np.ones_like(self.down)
        at = np.nonzero(near & (self.stop > self.start))
        chosen, (begin, middle, end) = self[at], (value[at] for value in values)
        bend = begin - 2.0 * middle + end
        shares = [np.full_like(bend, share) for share in _SHARES_OF_GAP]
        shares.append((0.5 + _ratio(begin - end, 4.0 * bend)).clip(0.0, 1.0))
        places = chosen.start + np.stack(shares) * (chosen.stop - chosen.start)
        bounds = np.stack([chosen.bound(place) for place in places])
        best = bounds.argmin(axis=0)[None]
        lowest, bound = (np.take_along_axis(part, best, 0)[0] for part in (places, bounds))
        return chosen, lowest, bound if self.convex else bound - _NO_BOUND


def _gaps(data: Data, line: Ints, knots: Floats, heights: Floats) -> tuple[_Gaps, Floats]:
    """Return all gaps ``(2, M, gaps)``, and the ``_steps`` of the inner knots to the right and left ``(2, M, B-1)``."""
    x, least = data.x, _least(knots)
    rows, last = np.arange(len(knots))[:, None], knots.shape[1] - 1
    at = _terms(data, line, knots, heights)
    curvature = _least_curvature(data, line, at)
    sums = np.zeros((5, len(knots), len(x) + 1))
    parts = (at.slope, at.slope * x, curvature, curvature * x, curvature * x * x)
    for values, reached in zip(parts, sums, strict=True):
        np.cumsum(values, axis=1, out=reached[:, 1:])
    at_knots = sums[:, rows, pieces_of(x, knots)]
    points = np.sort(np.concatenate([np.broadcast_to(x, at.slope.shape), knots], axis=1), axis=1)
    begin, end = points[:, :-1], points[:, 1:]
    middle = (begin + end) / 2.0
    at_new = sums[:, rows, np.searchsorted(x, middle, side="right")]
    piece = (middle[:, :, None] > knots[:, None, 1:-1]).sum(axis=2)
    slopes = _ratio(1.0, np.diff(knots)) * np.diff(heights)
    sides, passed, steps = [], [], []
    for down in (False, True):
        j = (piece + down).clip(1, last - 1)
        own, left, right = knots[rows, j], knots[rows, j - 1], knots[rows, j + 1]
        first, second = heights[rows, j] - heights[rows, j - 1], heights[rows, j + 1] - heights[rows, j]
        lower, upper = (at_new, at_knots[:, rows, j]) if down else (at_knots[:, rows, j], at_new)
        borders = at_knots[:, rows, j - 1], lower, upper, at_knots[:, rows, j + 1]
        ranges = np.stack([_around(own, after - before) for before, after in pairwise(borders)])
        start, stop = begin.clip(left + least, right - least), end.clip(left + least, right - least)
        stop = np.where((j == piece + down) & (right - left > 3.0 * least), stop, start)
        model, downwards = np.broadcast_to(rows, j.shape), np.full(j.shape, down)
        rise, fall = slopes[rows, j - 1], slopes[rows, j]
        sides.append((model, j, downwards, own, left, right, first, second, rise, fall, start, stop))
        passed.append(ranges)
        at_own = sums[:, rows, _rank(x, knots[:, 1:-1], down=down)]
        steps.append(_steps(x, knots, slopes, at_knots, at_own, down=down))
    arrays: list[Any] = [np.stack(part) for part in zip(*sides, strict=True)]
    logistic = data.family == "pl3"
    convex = not logistic or data.loss == "log-loss"
    return _Gaps(np.stack(passed, axis=2), convex, logistic, *arrays), np.stack(steps)


def _rank(x: Floats, knots: Floats, *, down: bool) -> Ints:
    """Return the number of cells on the left of each knot that moves; it leaves a cell behind."""
    return np.searchsorted(x, knots, side="left" if down else "right")


def _steps(x: Floats, knots: Floats, slopes: Floats, at_knots: Floats, at_own: Floats, *, down: bool) -> Floats:
    """Return Newton steps ``(M, B-1)`` of the inner knots in one direction, at most to the next cell."""
    own, least = knots[:, 1:-1], _least(knots)
    left, right = own - knots[:, :-2], knots[:, 2:] - own
    rise, fall = slopes[:, :-1], slopes[:, 1:]
    before, after = _around(own, at_own - at_knots[:, :, :-2]), _around(own, at_knots[:, :, 2:] - at_own)
    gradient = curvature = np.zeros_like(own)
    for (r, ru, k, ku, kuu), slope, width in ((before, rise, left), (after, fall, -right)):
        at = _ratio(1.0, np.abs(width)) * np.sign(width)
        gradient = gradient - slope * (r + ru * at)
        curvature = curvature + slope * slope * (k + (2.0 * ku + kuu * at) * at)
    cells = np.concatenate([[-np.inf], x, [np.inf]])
    if down:
        room = np.maximum(cells[_rank(x, own, down=True)] - own, least - left).clip(max=0.0)
    else:
        room = np.minimum(cells[_rank(x, own, down=False) + 1] - own, right - least).clip(min=0.0)
    step: Floats = (-_ratio(gradient, curvature)).clip(np.minimum(room, 0.0), np.maximum(room, 0.0))
    return step * (np.abs(gradient * step) > _LEAST_GAIN)


def _least_curvature(data: Data, line: Ints, at: Terms) -> Floats:
    """Return lower bounds of the curvatures of the cells, of PL3 those for small changes."""
    if data.family == "pl3" or data.loss == "brier":
        return at.curvature
    # The least value of a / c^2 + b / (1 - c)^2.
    bound: Floats = (np.cbrt(data.wy) + np.cbrt(data.w - data.wy)) ** 3
    return bound[line]


def _around(own: Floats, sums: Floats) -> Floats:
    """Return the sums of r, r u, k, k u and k u^2 with u = x - own, from those with powers of x."""
    r, rx, k, kx, kxx = sums
    ku = kx - own * k
    return np.stack([r, rx - own * r, k, ku, kxx - own * (kx + ku)])


def _terms(data: Data, line: Ints, knots: Floats, heights: Floats) -> Terms:
    return terms(data.family, data.loss, curve_values(data.x, knots, heights), data.w[line], data.wy[line])


def _least(knots: Floats) -> float:
    """Return the smallest width of a piece."""
    return _LEAST_WIDTH * float(knots[0, -1] - knots[0, 0])


def _ratio(numerator: Floats | float, denominator: Floats) -> Floats:
    """Return the ratio, and 0 where the denominator is not positive."""
    ratio: Floats = (denominator > 0.0) * numerator / denominator.clip(min=sys.float_info.min)
    return ratio
