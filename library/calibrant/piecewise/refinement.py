"""The refinement of fits, until no change of one height or one knot lowers the loss.

As a function of a knot the loss has a bend at every cell, so its minimum is often on a cell, where the steps of the
solver become short before the other parameters have arrived. Here all parameters take Newton steps; where these fail, a
knot on a cell stays, and the others move to the next cells at most. Then each knot alone is moved to its best
position, which may be on the other side of a cell or far away. Both are repeated until the gain is negligible.
"""

from __future__ import annotations

import sys

import numpy as np

from calibrant.cells import Floats
from calibrant.piecewise.arrays import Bools, Ints, range_sums
from calibrant.piecewise.families import Terms, cell_losses, terms
from calibrant.piecewise.solver import Data, Expansion, at_nodes, curve_values, piece_sums, pieces_of, projected_step

#: Most rounds, and most Newton steps of one round.
_ROUNDS, _STEPS = 100, 20
#: Smallest width of a piece, relative to the whole range: e^-16, as in the solver.
_LEAST_WIDTH = 1.2e-7
#: Share of the way to the next knot that one step may go.
_NEARER = 0.45
_LEAST_DAMPING, _MOST_DAMPING = 1e-9, 1e7
#: Shares of a Newton step that are tried one after the other: two across cells, then two between cells, of which
#: the last is damped.
_SHARES = np.array([1.0, 0.2, 1.0, 1.0])
_BETWEEN, _DAMPED = 2, 3
#: Shares of the Newton step of one knot, which are compared.
_SHARES_OF_KNOT = (1.0, 0.25, 0.05)
#: Positions of a knot whose losses are compared, and values of a curve for further ones.
_CHOICES, _EVALUATIONS = 6, 1 << 15


def refine(
    data: Data, line: Ints, knots: Floats, heights: Floats, tolerance: float
) -> tuple[Floats, Floats, Floats, Bools]:
    """Return ``knots`` and ``heights (M, B+1)``, the mean losses ``(M,)``, and which models have converged.

    No change of a single height or knot lowers the loss of these by more than ``tolerance``. For a loss that is not
    convex in the values of the curve, the Brier score of PL3, the positions of a knot between which it was compared are
    finite. All models have the same number of pieces, and the arrays are those of NumPy. O(M C) per step.
    """
    knots, heights = knots.copy(), heights.copy()
    moving = np.arange(len(line))
    last = knots.shape[1] - 1
    # Knots whose intervals do not overlap move together.
    sets = [np.arange(first, last, 2) for first in range(1, min(last, 3))]
    for _ in range(_ROUNDS):
        lines, k, h = line[moving], knots[moving], heights[moving]
        unfinished = _newton(data, lines, k, h, tolerance / 100.0)
        for propose in (_beside, _anywhere):
            at = np.flatnonzero(~unfinished)
            for inner in sets if len(at) else ():
                proposals = propose(data, lines[at], k[at], h[at], inner)
                k[at], gain = _best(data, lines[at], k[at], h[at], inner, proposals)
                unfinished[at] |= gain > tolerance / 2.0
        knots[moving], heights[moving] = k, h
        moving = moving[unfinished]
        if not len(moving):
            break
    converged = np.ones(len(line), dtype=bool)
    converged[moving] = False
    return knots, heights, piece_sums(data, line, knots, heights)[0], converged


def _newton(data: Data, line: Ints, knots: Floats, heights: Floats, tolerance: float) -> Bools:
    """Take Newton steps of ``knots`` and ``heights``, in place, and return which models are unfinished.

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
        done = np.where(worse, (gain > -1e-14) | (mu >= _MOST_DAMPING), small & (tried >= _BETWEEN) & (mu <= 1e-3))
        damping[going] = (mu * np.where(worse, 100.0, 0.01)).clip(_LEAST_DAMPING, _MOST_DAMPING)
        again = np.where(small | (tried >= _BETWEEN), _BETWEEN, 0)
        attempt[going] = np.where(better, again, np.minimum(tried + 1, _DAMPED))
        going = going[~done]
        if not len(going):
            break
    unfinished = np.zeros(len(line), dtype=bool)
    unfinished[going] = True
    return unfinished


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


def _best(
    data: Data, line: Ints, knots: Floats, heights: Floats, inner: Ints, proposals: Floats
) -> tuple[Floats, Floats]:
    """Move the ``inner`` knots to the best of ``proposals (P, M, inner)``; return also the largest gains ``(M,)``."""
    tried = np.repeat(knots[None], len(proposals) + 1, axis=0)
    tried[1:, :, inner] = proposals
    count, size = knots.shape
    every = tried.reshape(-1, size)
    f = curve_values(data.x, every, np.tile(heights, (len(tried), 1)))
    w, wy = (np.tile(part[line], (len(tried), 1)) for part in (data.w, data.wy))
    cells = cell_losses(data.family, data.loss, f, w, wy)
    losses = range_sums([cells], pieces_of(data.x, every)).reshape(len(tried), count, -1)
    both = losses[:, :, inner - 1] + losses[:, :, inner]
    best = both.argmin(axis=0)[None]
    new = knots.copy()
    new[:, inner] = np.take_along_axis(tried[:, :, inner], best, 0)[0]
    return new, (both[0] - np.take_along_axis(both, best, 0)[0]).max(axis=1)


def _beside(data: Data, line: Ints, knots: Floats, heights: Floats, inner: Ints) -> Floats:
    """Return parts of a Newton step of each knot to the right and to the left, at most to the next cell."""
    at = _terms(data, line, knots, heights)
    _, (r, rt, k, kt, ktt), slope = piece_sums(data, line, knots, heights)
    mine, rise, fall = knots[:, inner], slope[:, inner - 1], slope[:, inner]
    before, after, cells = _neighbours(data, mine)
    # A cell on the knot is on its left, also after a move to the right; a move to the left leaves it on the right.
    on = np.minimum(before, len(data.x) - 1), after > before + 1
    rows = np.arange(len(knots))[:, None]
    proposals = []
    for to_right in (True, False):
        own = (part[rows, on[0]] * (on[1] & (not to_right)) for part in (at.slope, at.curvature))
        r_own, k_own = own
        gradient = rise * (rt[:, inner - 1] - r_own) + fall * ((r - rt)[:, inner] + r_own)
        lower, upper = ktt[:, inner - 1] - k_own, (k - 2.0 * kt + ktt)[:, inner] + k_own
        step = _ratio(gradient, rise * rise * lower + fall * fall * upper)
        if to_right:
            room = np.minimum(cells[after] - mine, knots[:, inner + 1] - mine - _least(knots))
            step = step.clip(0.0, room.clip(min=0.0))
        else:
            room = np.maximum(cells[before] - mine, knots[:, inner - 1] - mine + _least(knots))
            step = step.clip(room.clip(max=0.0), 0.0)
        proposals += [mine + share * step for share in _SHARES_OF_KNOT]
    return np.stack(proposals)


def _anywhere(data: Data, line: Ints, knots: Floats, heights: Floats, inner: Ints) -> Floats:
    """Return the best positions of each knot: minima of a second-order expansion of the loss in the curve's values."""
    x = data.x
    rows = np.arange(len(knots))[:, None]
    least = _least(knots)

    def knot_of(at: Floats) -> Ints:
        """Return the inner knot whose interval, between its neighbours, contains a position."""
        knot: Ints = inner[(at[:, :, None] > knots[:, None, inner[:-1] + 1]).sum(axis=2)]
        return knot

    at = _terms(data, line, knots, heights)
    every = np.broadcast_to(x, at.slope.shape)
    u = x - knots[rows, knot_of(every)]
    sums = np.zeros((5, len(knots), len(x) + 1))
    parts = (at.slope, at.slope * u, at.curvature, at.curvature * u, at.curvature * u * u)
    for part, reached in zip(parts, sums, strict=True):
        np.cumsum(part, axis=1, out=reached[:, 1:])
    reached = sums[:, rows, pieces_of(x, knots)]

    # Between neighbouring cells and knots, the loss of a position is smooth.
    points = np.sort(np.concatenate([every, knots], axis=1), axis=1)
    middle = (points[:, 1:] + points[:, :-1]) / 2.0
    j = knot_of(middle)
    own = knots[rows, j]
    left, right = knots[rows, j - 1] - own, knots[rows, j + 1] - own
    first, height, second = heights[rows, j - 1], heights[rows, j], heights[rows, j + 1]
    rise, fall = _ratio(height - first, -left), _ratio(second - height, right)
    at_left, at_own, at_right = reached[:, rows, j - 1], reached[:, rows, j], reached[:, rows, j + 1]
    at_new = sums[:, rows, np.searchsorted(x, middle, side="right")]
    down = middle < own
    lower, upper = np.where(down, at_new, at_own), np.where(down, at_own, at_new)
    outer, between, further = lower - at_left, upper - lower, at_right - upper

    def change(z: Floats) -> Floats:
        new_rise, new_fall = _ratio(height - first, z - left), _ratio(second - height, right - z)
        a, b = new_rise - rise, new_fall - fall
        c = np.where(down, new_fall - rise, new_rise - fall)
        d = -np.where(down, new_fall, new_rise) * z
        return _expanded(-a * left, a, outer) + _expanded(d, c, between) + _expanded(-b * right, b, further)

    begin = (points[:, :-1] - own).clip(left + least, right - least)
    end = (points[:, 1:] - own).clip(left + least, right - least)
    middle_of_gap = (begin + end) / 2.0
    values = [change(z) for z in (begin, middle_of_gap, end)]
    bend = values[0] - 2.0 * values[1] + values[2]
    lowest = begin + (0.5 + _ratio(values[0] - values[2], 4.0 * bend)).clip(0.0, 1.0) * (end - begin)
    values.append(change(lowest))
    positions = np.stack([begin, middle_of_gap, end, lowest]) + own
    valid = (middle - own > left) & (middle - own < right) & (right - left > 3.0 * least) & (end > begin)
    best = np.argmin(values, axis=0)[None]
    value = np.where(valid, np.take_along_axis(np.stack(values), best, 0)[0], np.inf)
    position = np.take_along_axis(positions, best, 0)[0]
    padded = np.pad(value, ((0, 0), (1, 1)), constant_values=np.inf)
    minima = np.where((value <= padded[:, :-2]) & (value <= padded[:, 2:]), value, np.inf)
    proposals = np.repeat(knots[None, :, inner], _CHOICES, axis=0)
    for column, knot in enumerate(inner):
        own_values = np.where(j == knot, minima, np.inf)
        for choice in proposals[:, :, column]:
            at = own_values.argmin(axis=1)[:, None]
            exists = np.take_along_axis(own_values, at, 1)[:, 0] < np.inf
            choice[exists] = np.take_along_axis(position, at, 1)[exists, 0]
            np.put_along_axis(own_values, at, np.inf, 1)
    if data.family == "pl" or data.loss == "log-loss":
        return proposals
    # The loss is not convex in the values, and the expansion does not see far.
    counts = pieces_of(x, knots)
    few, many = counts[:, inner - 1], counts[:, inner + 1]
    count = _EVALUATIONS // len(x)
    rank = few + (many - few) * ((np.arange(count) + 0.5) / count)[:, None, None]
    z = np.interp(rank, np.arange(len(x)), x)
    valid = (z > knots[:, inner - 1] + least) & (z < knots[:, inner + 1] - least)
    return np.concatenate([proposals, np.where(valid, z, knots[:, inner])])


def _terms(data: Data, line: Ints, knots: Floats, heights: Floats) -> Terms:
    return terms(data.family, data.loss, curve_values(data.x, knots, heights), data.w[line], data.wy[line])


def _least(knots: Floats) -> float:
    """Return the smallest width of a piece."""
    return _LEAST_WIDTH * float(knots[0, -1] - knots[0, 0])


def _expanded(a: Floats, b: Floats, sums: Floats) -> Floats:
    """Return the second-order change of the loss of cells whose value changes by a + b u."""
    r, ru, k, ku, kuu = sums
    change: Floats = a * r + b * ru + 0.5 * (a * (a * k + 2.0 * b * ku) + b * b * kuu)
    return change


def _ratio(numerator: Floats | float, denominator: Floats) -> Floats:
    """Return the ratio, and 0 where the denominator is not positive."""
    ratio: Floats = (denominator > 0.0) * numerator / denominator.clip(min=sys.float_info.min)
    return ratio
