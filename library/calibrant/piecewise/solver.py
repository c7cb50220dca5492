"""The solver: batched Levenberg-Marquardt steps on heights and knots.

A step needs, for each piece, only the sums of the derivative times (1 - t, t) and of the curvature
times ((1-t)^2, t(1-t), t^2), with t the position of a cell in its piece. Models with different numbers of
pieces, folds and starts are in one batch, padded to the largest number of pieces.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from calibrant.core.cells import Floats
from calibrant.core.progress import report
from calibrant.piecewise.arrays import (
    Bools,
    Ints,
    empty,
    highest_so_far,
    namespace,
    range_sums,
    ranks,
    repeat,
    solve_positive,
)
from calibrant.piecewise.families import Family, bounds, knots_of, terms, valid_heights
from calibrant.piecewise.options import Loss

#: Largest change of the logarithm of a width in one step.
_LONGEST_WIDTH_STEP = 2.0
_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-2, 1e-9, 1e7
#: Minimal curvature, which fixes parameters that the data do not determine.
_FLOOR = 1e-10
#: Rises of monotone curves up to this one are those of rounded equal heights.
_LEVEL = 1e-13
#: Values of curves that are computed at once on the processor, so that they stay in its cache.
_BLOCK = 1 << 14


@dataclass(frozen=True)
class Data:
    """Cells of a batch of fits: ``x (C,)`` ascending; ``w`` and ``wy (F, C)`` are masses; each line of w sums to 1.

    ``ends`` are the outer nodes of all curves.
    """

    family: Family
    loss: Loss
    monotone: bool
    ends: tuple[float, float]
    x: Floats
    w: Floats
    wy: Floats


@dataclass(frozen=True)
class Models:
    """A batch of M models with at most B pieces.

    ``heights (M, B+1)`` at the knots and softmax ``widths (M, B)`` are the parameters, ``line (M,)`` is the line of the
    data, ``valid (M, B)`` marks the pieces of a model, and ``name (M,)`` identifies models for the caller.
    """

    heights: Floats
    widths: Floats
    line: Ints
    valid: Bools
    name: Ints

    def __len__(self) -> int:
        return len(self.line)

    def __getitem__(self, chosen: Ints | Bools) -> Models:
        return Models(*(getattr(self, f.name)[chosen] for f in fields(self)))

    def padded(self, size: int) -> Models:
        """Return the models padded, or cut, to ``size`` pieces."""
        xp = namespace(self.heights)
        more = max(size - self.valid.shape[1], 0)

        def resized(values: Any, columns: int) -> Any:
            return xp.concatenate([values[:, :columns], *[xp.zeros_like(values[:, :1])] * more], 1)

        heights, widths, valid = resized(self.heights, size + 1), resized(self.widths, size), resized(self.valid, size)
        return Models(heights, widths, self.line, valid, self.name)

    @staticmethod
    def join(parts: list[Models]) -> Models:
        """Join several batches."""
        xp = namespace(parts[0].heights)
        return Models(*(xp.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Models)))


@dataclass(frozen=True)
class Expansion:
    """Loss ``(M,)`` at some heights and widths, its gradient ``(M, P)`` and Gauss-Newton matrix ``(M, P, P)``."""

    loss: Floats
    gradient: Floats
    matrix: Floats

    def __getitem__(self, chosen: Bools) -> Expansion:
        return Expansion(self.loss[chosen], self.gradient[chosen], self.matrix[chosen])

    def replace(self, chosen: Ints | Bools, other: Expansion) -> None:
        """Replace the chosen models by those of another batch."""
        self.loss[chosen], self.gradient[chosen], self.matrix[chosen] = other.loss, other.gradient, other.matrix


@dataclass(frozen=True)
class Solved:
    """Fitted models with their mean losses ``(M,)``, whether each converged, and the number of steps."""

    models: Models
    loss: Floats
    converged: Bools
    steps: int


@dataclass
class State:
    """Models during their fit, with the loss at their parameters and the ``damping (M,)`` of their next step."""

    models: Models
    here: Expansion
    damping: Floats

    @classmethod
    def of(cls, data: Data, models: Models) -> State:
        """Return the state before the first step."""
        here = local(data, models)
        return cls(models, here, namespace(here.loss).full_like(here.loss, _FIRST_DAMPING))

    def advance(self, data: Data, tolerance: float) -> Bools:
        """Try one step of every model, and return which models have converged.

        A step that does not reduce the loss, or whose factorisation fails, is rejected, and the damping of its model
        grows.
        """
        xp = namespace(self.damping)
        trial, failed = _step(data, self.models, self.here, self.damping)
        there = local(data, trial)
        gain = xp.where(failed, -xp.inf, self.here.loss - there.loss)
        better = gain > 0.0
        worse = ~better
        stuck = self.damping >= _MOST_DAMPING
        there.replace(worse, self.here[worse])
        trial.heights[worse], trial.widths[worse] = self.models.heights[worse], self.models.widths[worse]
        self.models, self.here = trial, there
        self.damping = (self.damping * xp.where(better, 0.2, 6.0)).clip(_LEAST_DAMPING, _MOST_DAMPING)
        converged: Bools = (better & (gain < tolerance)) | (worse & (stuck | (gain > -tolerance * 1e-3)))
        return converged

    def keep(self, chosen: Bools) -> None:
        """Keep only the chosen models."""
        self.models, self.here, self.damping = self.models[chosen], self.here[chosen], self.damping[chosen]


def solve(data: Data, models: Models, *, steps: int, tolerance: float) -> Solved:
    """Minimise the mean loss of every model from its parameters, in at most ``steps`` steps.

    A model has converged, and leaves the batch, if a step gains less than ``tolerance`` or no damping gives
    a gain. O(M (C + B^3)) per step. Reports progress between the steps.
    """
    xp = namespace(data.x)
    total = len(models)
    finished: list[tuple[Models, Floats, Bools]] = []
    state = State.of(data, models)
    taken = 0
    while taken < steps and len(state.models):
        taken += 1
        done = state.advance(data, tolerance)
        left = ~done
        report(total - int(left.sum()), total, "")
        if bool(done.any()):
            finished.append((state.models[done], state.here.loss[done], done[done]))
            state.keep(left)
    finished.append((state.models, state.here.loss, xp.zeros_like(state.models.line, dtype=bool)))
    joined = Models.join([part for part, _, _ in finished])
    order = xp.argsort(joined.name)
    loss = xp.concatenate([loss for _, loss, _ in finished])[order]
    return Solved(joined[order], loss, xp.concatenate([done for _, _, done in finished])[order], taken)


def _step(data: Data, models: Models, here: Expansion, damping: Floats) -> tuple[Models, Bools]:
    """Take the damped Gauss-Newton step of every model; also return which ones failed."""
    xp = namespace(damping)
    heights, step, failed = projected_step(data, models.heights, here, damping)
    widths = models.widths - step.clip(-_LONGEST_WIDTH_STEP, _LONGEST_WIDTH_STEP)
    widths -= xp.amax(xp.where(models.valid, widths, -xp.inf), 1)[:, None]
    return Models(heights, widths.clip(min=-16.0), models.line, models.valid, models.name), failed


def projected_step(data: Data, heights: Floats, here: Expansion, damping: Floats) -> tuple[Floats, Floats, Bools]:
    """Return heights ``(M, B+1)`` after a damped step, the step of the other parameters, and which models failed.

    The damping has Marquardt's scaling. Heights at a bound that the gradient would move beyond it are fixed, and the
    others are clipped (projected Newton steps, Bertsekas 1982). Of monotone curves this holds for the increments, which
    are at least 0.
    """
    xp = namespace(damping)
    size = heights.shape[1]
    damped, gradient = xp.asarray(here.matrix, copy=True), here.gradient
    fixed = _fixed(data, heights, gradient[:, :size])
    free = xp.ones_like(gradient, dtype=bool)
    free[:, :size] = ~fixed
    gradient = gradient * free
    if data.monotone:
        damped *= free[:, :, None] & free[:, None, :]
        gradient[:, :size] = _summed(gradient[:, :size], 1)
        damped[:, :size] = _summed(damped[:, :size], 1)
        damped[:, :, :size] = _summed(damped[:, :, :size], 2)
        level = heights[:, 1:] - heights[:, :-1] <= _LEVEL
        free[:, 1:size] &= ~level | (gradient[:, 1:size] < 0.0)
        gradient *= free
    damped *= free[:, :, None] & free[:, None, :]
    diagonal = _diagonal(damped)
    diagonal *= 1.0 + damping[:, None]
    diagonal += _FLOOR
    diagonal += ~free
    step, failed = solve_positive(damped, gradient)
    failed |= ~xp.isfinite(step).all(1)
    step[failed] = 0.0
    moved = -step[:, :size]
    if data.monotone:
        moved[:, 1:] = xp.maximum(moved[:, 1:], heights[:, :-1] - heights[:, 1:])
        moved = moved.cumsum(1)
    valid = valid_heights(data.family, heights + moved, monotone=data.monotone)
    return xp.where(fixed, heights, valid), step[:, size:], failed


def _fixed(data: Data, heights: Floats, gradient: Floats) -> Bools:
    """Return the heights ``(M, B+1)`` at a bound that the gradient holds there.

    A monotone curve leaves its lower bound by the last of the heights there, and its upper bound by the first.
    """
    low, high = bounds(data.family)
    bottom, top = heights <= low, heights >= high
    downwards, upwards = gradient * bottom, gradient * top
    if data.monotone:
        downwards = -highest_so_far(-_summed(downwards, 1))
        xp = namespace(upwards)
        upwards = xp.flip(highest_so_far(xp.flip(upwards.cumsum(1), (1,))), (1,))
    return (bottom & (downwards > 0.0)) | (top & (upwards < 0.0))


def local(data: Data, models: Models) -> Expansion:
    """Return loss, gradient and Gauss-Newton matrix in heights and widths."""
    knots, by_width = knots_of(models.widths, *data.ends, models.valid)
    return _assemble(*piece_sums(data, models.line, knots, models.heights), by_width)


def curve_values(x: Floats, knots: Floats, heights: Floats) -> Floats:
    """Return curves ``(M, B+1)`` at ascending ``x (C,)``: ``(M, C)``."""
    return _curve(x, pieces_of(x, knots), *_lines(knots, heights))[0]


def pieces_of(x: Floats, knots: Floats) -> Ints:
    """Return the first cell of each piece and the number of cells, ``(M, B+1)``.

    Cells are sorted, so a piece is a range of cells, found by bisection. A cell on a knot belongs to the
    piece on its left, so that a prediction of 1 belongs to the last piece and not to padding.
    """
    begin = ranks(x, knots, ties=True)
    begin[:, 0], begin[:, -1] = 0, len(x)
    return begin


def _lines(knots: Floats, heights: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return start, 1 / width, first height and rise of each piece, ``(M, B)``; 1 / width is 0 for width 0."""
    width = knots[:, 1:] - knots[:, :-1]
    inverse = (width > 0.0) / width.clip(min=sys.float_info.min)
    return knots[:, :-1], inverse, heights[:, :-1], heights[:, 1:] - heights[:, :-1]


def _curve(
    x: Floats, begin: Ints, left: Floats, inverse: Floats, height: Floats, rise: Floats
) -> tuple[Floats, Floats]:
    """Return the curves at the cells ``(M, C)``, and the positions t of the cells in their pieces."""
    shape = (len(begin), len(x))
    lengths = begin[:, 1:] - begin[:, :-1]

    def at_cells(values: Floats) -> Floats:
        return repeat(values, lengths, shape[0] * shape[1]).reshape(shape)

    t = x - at_cells(left)
    t *= at_cells(inverse)
    values = t * at_cells(rise)
    values += at_cells(height)
    return values, t


def piece_sums(data: Data, line: Ints, knots: Floats, heights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the mean loss ``(M,)``, the sums of r, r t, k, k t, k t^2 by piece ``(5, M, B)``, and slopes ``(M, B)``.

    r is the derivative and k the curvature of the loss at a cell, and t = (x - X_left) / width.
    """
    begin = pieces_of(data.x, knots)
    lines = _lines(knots, heights)
    _, inverse, _, rise = lines
    loss, sums = empty((len(rise),), rise), empty((5, *rise.shape), rise)
    block = max(_BLOCK // len(data.x), 1) if isinstance(knots, np.ndarray) else len(knots)
    for first in range(0, len(knots), block):
        part = slice(first, first + block)
        f, t = _curve(data.x, begin[part], *(values[part] for values in lines))
        at = terms(data.family, data.loss, f, data.w[line[part]], data.wy[line[part]])
        moved = at.curvature * t
        loss[part] = at.loss
        sums[:, part] = range_sums([at.slope, at.slope * t, at.curvature, moved, moved * t], begin[part])
    return loss, sums, rise * inverse


def _assemble(loss: Floats, sums: Floats, slope: Floats, by_width: Floats) -> Expansion:
    """Assemble gradient and matrix of the nodes from the sums of pieces, and transform them to the widths.

    At a node, df/dH = phi and df/dX = -(slope of the piece) phi on both sides.
    """
    r, rt, k, kt, ktt = sums
    g0, g1 = r - rt, rt
    m00, m01, m11 = k - 2.0 * kt + ktt, kt - ktt, ktt
    n00, n01, n11 = slope * m00, slope * m01, slope * m11
    count, size, _ = by_width.shape
    gradient, matrix = empty((count, 2 * size - 1), slope), empty((count, 2 * size - 1, 2 * size - 1), slope)
    gradient[:, :size] = at_nodes(g0, g1)
    gradient[:, size:] = -(at_nodes(slope * g0, slope * g1)[:, None, :] @ by_width)[:, 0]
    matrix[:, :size, :size] = 0.0
    step = 2 * size
    flat = matrix.reshape(count, -1)
    _diagonal(matrix)[:, :size] = at_nodes(m00, m11)
    flat[:, 1 : (size - 1) * step : step], flat[:, step - 1 : size * step - 1 : step] = m01, m01
    cross = -_tridiagonal_times(at_nodes(n00, n11), n01, by_width)
    matrix[:, :size, size:] = cross
    matrix[:, size:, :size] = cross.swapaxes(1, 2)
    curved = _tridiagonal_times(at_nodes(slope * n00, slope * n11), slope * n01, by_width)
    matrix[:, size:, size:] = by_width.swapaxes(1, 2) @ curved
    return Expansion(loss, gradient, matrix)


def at_nodes(first: Floats, second: Floats) -> Floats:
    """Sum the contributions of pieces ``(M, B)`` to their first and second nodes: ``(M, B+1)``."""
    whole = empty((len(first), first.shape[1] + 1), first)
    whole[:, :-1] = first
    whole[:, -1] = 0.0
    whole[:, 1:] += second
    return whole


def _tridiagonal_times(diagonal: Floats, off: Floats, values: Floats) -> Floats:
    """Return the product of symmetric tridiagonal matrices and ``values (M, B+1, B)``."""
    product = diagonal[:, :, None] * values
    product[:, :-1] += off[:, :, None] * values[:, 1:]
    product[:, 1:] += off[:, :, None] * values[:, :-1]
    return product


def _diagonal(matrices: Floats) -> Floats:
    """Return a view of the diagonals ``(M, P)``."""
    count, size, _ = matrices.shape
    return matrices.reshape(count, -1)[:, :: size + 1]


def _summed(values: Floats, axis: int) -> Floats:
    """Return reverse cumulative sums: an increment affects all later heights."""
    xp = namespace(values)
    summed: Floats = xp.flip(xp.flip(values, (axis,)).cumsum(axis), (axis,))
    return summed
