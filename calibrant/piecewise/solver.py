"""The solver: many fits at once, by Levenberg-Marquardt steps on heights and knots together.

A step needs, for each piece, only the sums of the derivative times (1 - t, t) and of the curvature
times ((1-t)^2, t(1-t), t^2), t being the place of a cell within its piece. Models of different piece
counts, folds and starts stand in one batch, padded to the largest count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from calibrant.piecewise.families import Family, ends, heights_of, knots_of, terms
from calibrant.piecewise.options import Loss

#: A step may change a height by at most this on the logit scale, and a piece's width by at most e^2.
_LONGEST_HEIGHT_STEP = 6.0
_LONGEST_WIDTH_STEP = 2.0
_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-2, 1e-9, 1e7
#: Curvature that is always there, so that what the data do not determine stays where it was.
_FLOOR = 1e-10


@dataclass(frozen=True)
class Data:
    """The cells of a batch of fits: ``x (C,)`` ascending; ``w`` and ``wy (F, C)`` masses that sum to 1 in each line."""

    family: Family
    loss: Loss
    monotone: bool
    x: Tensor
    w: Tensor
    wy: Tensor


@dataclass(frozen=True)
class Models:
    """A batch of M models of at most B pieces: parameters, what they are fitted to, and where the solver stands.

    ``heights (M, B+1)`` and ``widths (M, B)`` are raw parameters; ``line (M,)`` the line of the data;
    ``valid (M, B)`` marks the pieces that a model has; ``name (M,)`` is for the caller.
    """

    heights: Tensor
    widths: Tensor
    line: Tensor
    valid: Tensor
    name: Tensor

    def __len__(self) -> int:
        return len(self.line)

    def __getitem__(self, chosen: Tensor) -> Models:
        return Models(*(getattr(self, f.name)[chosen] for f in fields(self)))

    @staticmethod
    def join(parts: list[Models]) -> Models:
        """One batch of several."""
        return Models(*(torch.cat([getattr(p, f.name) for p in parts]) for f in fields(Models)))


@dataclass(frozen=True)
class _Local:
    """The loss ``(M,)`` at some parameters, its gradient ``(M, P)`` and Gauss-Newton matrix ``(M, P, P)``."""

    loss: Tensor
    gradient: Tensor
    matrix: Tensor


@dataclass(frozen=True)
class Solved:
    """Fitted models with their mean losses ``(M,)``, whether each has converged, and the steps taken."""

    models: Models
    loss: Tensor
    converged: Tensor
    steps: int


def solve(
    data: Data, models: Models, *, steps: int, tolerance: float, told: Callable[[int, int], None] | None = None
) -> Solved:
    """Minimise the mean loss of every model, from its parameters on, in at most ``steps`` steps.

    A model has converged, and leaves the batch, once a step gained less than ``tolerance`` or no
    damping finds one. Each step costs O(M (C + B^3)). ``told`` is called with the numbers of models
    done and of all, between the steps.
    """
    total = len(models)
    finished: list[tuple[Models, Tensor, Tensor]] = []
    batch = _Batch.of(data, models)
    here = _local(batch, models)
    damping = torch.full_like(here.loss, _FIRST_DAMPING)
    taken = 0
    while taken < steps:
        taken += 1
        trial = _step(models, here, damping)
        there = _local(batch, trial)
        gain = here.loss - there.loss
        better = gain > 0.0
        stuck = damping >= _MOST_DAMPING
        models, here = _pick(better, trial, models), _pick_local(better, there, here)
        damping = torch.where(better, damping * 0.2, damping * 6.0).clamp(_LEAST_DAMPING, _MOST_DAMPING)
        done = (better & (gain < tolerance)) | (~better & stuck) | (~better & (gain > -tolerance * 1e-3))
        if told is not None:
            told(total - int((~done).sum()), total)
        if bool(done.any()):
            finished.append((models[done], here.loss[done], done[done]))
            left = ~done
            models, damping = models[left], damping[left]
            here = _Local(here.loss[left], here.gradient[left], here.matrix[left])
            if len(models) == 0:
                break
            batch = _Batch.of(data, models)
    finished.append((models, here.loss, torch.zeros_like(here.loss, dtype=torch.bool)))
    joined = Models.join([part for part, _, _ in finished])
    order = torch.argsort(joined.name)
    loss = torch.cat([loss for _, loss, _ in finished])[order]
    return Solved(joined[order], loss, torch.cat([done for _, _, done in finished])[order], taken)


def _pick(better: Tensor, trial: Models, models: Models) -> Models:
    keep = better[:, None]
    return Models(
        torch.where(keep, trial.heights, models.heights),
        torch.where(keep, trial.widths, models.widths),
        models.line,
        models.valid,
        models.name,
    )


def _pick_local(better: Tensor, there: _Local, here: _Local) -> _Local:
    return _Local(
        torch.where(better, there.loss, here.loss),
        torch.where(better[:, None], there.gradient, here.gradient),
        torch.where(better[:, None, None], there.matrix, here.matrix),
    )


def _step(models: Models, here: _Local, damping: Tensor) -> Models:
    """The damped Gauss-Newton step of every model; Marquardt's scaling makes it blind to units."""
    diagonal = torch.diagonal(here.matrix, dim1=1, dim2=2)
    damped = here.matrix + torch.diag_embed(damping[:, None] * diagonal + _FLOOR)
    factor, _ = torch.linalg.cholesky_ex(damped)
    step = -torch.cholesky_solve(here.gradient[:, :, None], factor)[:, :, 0]
    step = torch.nan_to_num(step, nan=0.0, posinf=0.0, neginf=0.0)  # a factor that failed: a rejected step
    size = models.heights.shape[1]
    heights = models.heights + step[:, :size].clamp(-_LONGEST_HEIGHT_STEP, _LONGEST_HEIGHT_STEP)
    widths = models.widths + step[:, size:].clamp(-_LONGEST_WIDTH_STEP, _LONGEST_WIDTH_STEP)
    widths = widths - widths.masked_fill(~models.valid, -torch.inf).amax(dim=1, keepdim=True)
    return Models(heights, widths.clamp(min=-16.0), models.line, models.valid, models.name)


@dataclass(frozen=True)
class _Batch:
    """The data with the masses of each model's own line, ``(M, C)``: gathered again only when models leave."""

    data: Data
    w: Tensor
    wy: Tensor

    @classmethod
    def of(cls, data: Data, models: Models) -> _Batch:
        return cls(data, data.w[models.line], data.wy[models.line])


def _local(batch: _Batch, models: Models) -> _Local:
    """Loss, gradient and Gauss-Newton matrix in the raw parameters."""
    data = batch.data
    low, high = ends(data.family)
    heights, by_height = heights_of(data.family, models.heights, monotone=data.monotone)
    knots, by_width = knots_of(models.widths, low, high, models.valid)
    loss, sums, slope = _piece_sums(batch, knots, heights)
    return _assemble(loss, sums, slope, by_height, by_width)


def curve_values(x: Tensor, knots: Tensor, heights: Tensor) -> Tensor:
    """Curves ``(M, B+1)`` at ``x (C,)`` ascending: ``(M, C)``."""
    piece, _ = _pieces(x, knots)
    return _curve(x, piece, knots, heights)[0]


def _pieces(x: Tensor, knots: Tensor) -> tuple[Tensor, Tensor]:
    """The piece of each cell among all pieces of the batch, ``(M C,)``; and where pieces begin, ``(M, B+1)``.

    Cells are sorted, so a piece is a run of them: its ends are found by bisection, no cell is asked. A
    cell on a knot belongs to the piece on its left, and so a prediction of 1 to the last piece that a
    model has, not to padding beyond it.
    """
    count = len(knots)
    first, last = knots.new_zeros((count, 1), dtype=torch.int64), len(x)
    begin = torch.cat([first, torch.searchsorted(x, knots[:, 1:-1].contiguous(), right=True), first + last], dim=1)
    lengths = torch.diff(begin, dim=1).reshape(-1)
    names = torch.arange(len(lengths), device=x.device)
    return torch.repeat_interleave(names, lengths, output_size=count * last), begin


def _curve(x: Tensor, piece: Tensor, knots: Tensor, heights: Tensor) -> tuple[Tensor, Tensor]:
    """The curves at the cells ``(M, C)``, and the slopes of their pieces ``(M, B)``; a piece without width has none."""
    width = torch.diff(knots, dim=1)
    slope = torch.where(width > 0, torch.diff(heights, dim=1) / width, torch.zeros_like(width))
    offset = torch.addcmul(heights[:, :-1], slope, knots[:, :-1], value=-1.0)
    shape = (len(knots), len(x))
    at_slope = slope.reshape(-1).index_select(0, piece).view(shape)
    at_offset = offset.reshape(-1).index_select(0, piece).view(shape)
    return at_offset.addcmul_(at_slope, x), slope


def _piece_sums(batch: _Batch, knots: Tensor, heights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mean loss ``(M,)``; per piece the sums of r, r t, k, k t, k t^2 ``(5, M, B)``; the slopes ``(M, B)``.

    r is the derivative and k the curvature of the loss at a cell. The sums are taken with powers of
    x, which all models share, and carried over to t = (x - X_left) / width a piece at a time.
    """
    data = batch.data
    piece, begin = _pieces(data.x, knots)
    f, slope = _curve(data.x, piece, knots, heights)
    at = terms(data.family, data.loss, f, batch.w, batch.wy)
    stacked = torch.empty((5, *f.shape), dtype=f.dtype, device=f.device)
    stacked[0], stacked[2] = at.slope, at.curvature
    torch.mul(at.slope, data.x, out=stacked[1])
    torch.mul(at.curvature, data.x, out=stacked[3])
    torch.mul(stacked[3], data.x, out=stacked[4])
    torch.cumsum(stacked, dim=2, out=stacked)
    ends_at = torch.gather(stacked, 2, (begin - 1).clamp(min=0).expand(5, *begin.shape))
    r, rx, k, kx, kxx = torch.diff(torch.where(begin > 0, ends_at, torch.zeros_like(ends_at)), dim=2)
    width, left = torch.diff(knots, dim=1), knots[:, :-1]
    inverse = torch.where(width > 0, 1.0 / width, torch.zeros_like(width))
    rt = (rx - left * r) * inverse
    kt = (kx - left * k) * inverse
    ktt = (kxx - left * (2.0 * kx - left * k)) * inverse * inverse
    return at.loss.sum(dim=1), torch.stack([r, rt, k, kt, ktt]), slope


def _assemble(loss: Tensor, sums: Tensor, slope: Tensor, by_height: Tensor, by_width: Tensor) -> _Local:
    """Gather the pieces' sums into gradient and matrix of the nodes, and carry them over to the parameters.

    At a node, df/dH = phi and df/dX = -(slope of the piece) phi on either side of it.
    """
    r, rt, k, kt, ktt = sums
    g0, g1 = r - rt, rt
    m00, m01, m11 = k - 2.0 * kt + ktt, kt - ktt, ktt
    minus = -slope

    def nodes(first: Tensor, second: Tensor) -> Tensor:
        """Sum what a piece gives to its first and to its second node."""
        zero = torch.zeros_like(first[:, :1])
        return torch.cat([first, zero], dim=1) + torch.cat([zero, second], dim=1)

    def tridiagonal(first: Tensor, cross: Tensor, second: Tensor) -> Tensor:
        matrix = torch.diag_embed(nodes(first, second))
        return matrix + torch.diag_embed(cross, offset=1) + torch.diag_embed(cross, offset=-1)

    gradient_h, gradient_x = nodes(g0, g1), nodes(minus * g0, minus * g1)
    hh = tridiagonal(m00, m01, m11)
    hx = tridiagonal(minus * m00, minus * m01, minus * m11)
    xx = tridiagonal(slope * slope * m00, slope * slope * m01, slope * slope * m11)
    to_h, to_x = by_height.transpose(1, 2), by_width.transpose(1, 2)
    cross = to_h @ hx @ by_width
    top = torch.cat([to_h @ hh @ by_height, cross], dim=2)
    bottom = torch.cat([cross.transpose(1, 2), to_x @ xx @ by_width], dim=2)
    gradient = torch.cat([to_h @ gradient_h[:, :, None], to_x @ gradient_x[:, :, None]], dim=1)[:, :, 0]
    return _Local(loss, gradient, torch.cat([top, bottom], dim=1))
