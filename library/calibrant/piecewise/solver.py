"""The solver: batched Levenberg-Marquardt steps on heights and knots.

A step needs, for each piece, only the sums of the derivative times (1 - t, t) and of the curvature
times ((1-t)^2, t(1-t), t^2), with t the position of a cell in its piece. Models with different numbers of
pieces, folds and starts are in one batch, padded to the largest number of pieces.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from calibrant.piecewise.families import Family, ends, heights_of, knots_of, terms
from calibrant.piecewise.options import Loss
from calibrant.progress import report

#: Largest change in one step of a height on the logit scale, and of the logarithm of a width.
_LONGEST_HEIGHT_STEP = 6.0
_LONGEST_WIDTH_STEP = 2.0
_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-2, 1e-9, 1e7
#: Minimal curvature, which fixes parameters that the data do not determine.
_FLOOR = 1e-10


@dataclass(frozen=True)
class Data:
    """Cells of a batch of fits: ``x (C,)`` ascending; ``w`` and ``wy (F, C)`` are masses; each line of w sums to 1."""

    family: Family
    loss: Loss
    monotone: bool
    x: Tensor
    w: Tensor
    wy: Tensor


@dataclass(frozen=True)
class Models:
    """A batch of M models with at most B pieces.

    ``heights (M, B+1)`` and ``widths (M, B)`` are raw parameters, ``line (M,)`` is the line of the data,
    ``valid (M, B)`` marks the pieces of a model, and ``name (M,)`` identifies models for the caller.
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

    def padded(self, size: int) -> Models:
        """Return the models padded, or cut, to ``size`` pieces."""
        more = size - self.valid.shape[1]
        if more <= 0:
            return replace(
                self, heights=self.heights[:, : size + 1], widths=self.widths[:, :size], valid=self.valid[:, :size]
            )
        pad = torch.nn.functional.pad
        return replace(
            self,
            heights=pad(self.heights, (0, more)),
            widths=pad(self.widths, (0, more)),
            valid=pad(self.valid, (0, more)),
        )

    @staticmethod
    def join(parts: list[Models]) -> Models:
        """Join several batches."""
        return Models(*(torch.cat([getattr(p, f.name) for p in parts]) for f in fields(Models)))


@dataclass(frozen=True)
class _Local:
    """Loss ``(M,)`` at some parameters, its gradient ``(M, P)`` and Gauss-Newton matrix ``(M, P, P)``."""

    loss: Tensor
    gradient: Tensor
    matrix: Tensor


@dataclass(frozen=True)
class Solved:
    """Fitted models with their mean losses ``(M,)``, whether each converged, and the number of steps."""

    models: Models
    loss: Tensor
    converged: Tensor
    steps: int


def solve(data: Data, models: Models, *, steps: int, tolerance: float) -> Solved:
    """Minimise the mean loss of every model from its parameters, in at most ``steps`` steps.

    A model has converged, and leaves the batch, if a step gains less than ``tolerance`` or no damping gives
    a gain. O(M (C + B^3)) per step. Reports progress between the steps.
    """
    total = len(models)
    finished: list[tuple[Models, Tensor, Tensor]] = []
    batch = _Batch.of(data, models)
    here = _local(batch, models)
    damping = torch.full_like(here.loss, _FIRST_DAMPING)
    taken = 0
    while taken < steps:
        taken += 1
        trial = _step(models, here, damping, monotone=data.monotone)
        there = _local(batch, trial)
        gain = here.loss - there.loss
        better = gain > 0.0
        stuck = damping >= _MOST_DAMPING
        models, here = _pick(better, trial, models), _pick_local(better, there, here)
        damping = torch.where(better, damping * 0.2, damping * 6.0).clamp(_LEAST_DAMPING, _MOST_DAMPING)
        done = (better & (gain < tolerance)) | (~better & stuck) | (~better & (gain > -tolerance * 1e-3))
        report(total - int((~done).sum()), total, "")
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


def _step(models: Models, here: _Local, damping: Tensor, *, monotone: bool) -> Models:
    """Take the damped Gauss-Newton step of every model, with Marquardt's scaling.

    Increments of monotone curves are non-negative: those at 0 that would decrease are fixed, and the others
    are clipped at 0 (projected Newton steps, Bertsekas 1982).
    """
    size = models.heights.shape[1]
    diagonal = torch.diagonal(here.matrix, dim1=1, dim2=2)
    damped = here.matrix + torch.diag_embed(damping[:, None] * diagonal + _FLOOR)
    gradient = here.gradient
    if monotone:
        free = torch.ones_like(gradient, dtype=torch.bool)
        free[:, 1:size] = (models.heights[:, 1:] > 0.0) | (gradient[:, 1:size] < 0.0)
        gradient = gradient * free
        damped = torch.where(free[:, :, None] & free[:, None, :], damped, torch.diag_embed((~free).to(damped.dtype)))
    factor, _ = torch.linalg.cholesky_ex(damped)
    step = -torch.cholesky_solve(gradient[:, :, None], factor)[:, :, 0]
    step = torch.nan_to_num(step, nan=0.0, posinf=0.0, neginf=0.0)  # a failed factorisation gives a rejected step
    heights = models.heights + step[:, :size].clamp(-_LONGEST_HEIGHT_STEP, _LONGEST_HEIGHT_STEP)
    if monotone:
        heights = torch.cat([heights[:, :1], heights[:, 1:].clamp(min=0.0)], dim=1)
    widths = models.widths + step[:, size:].clamp(-_LONGEST_WIDTH_STEP, _LONGEST_WIDTH_STEP)
    widths = widths - widths.masked_fill(~models.valid, -torch.inf).amax(dim=1, keepdim=True)
    return Models(heights, widths.clamp(min=-16.0), models.line, models.valid, models.name)


@dataclass(frozen=True)
class _Batch:
    """The data with the masses of the line of each model, ``(M, C)``, updated when models leave the batch."""

    data: Data
    w: Tensor
    wy: Tensor

    @classmethod
    def of(cls, data: Data, models: Models) -> _Batch:
        return cls(data, data.w[models.line], data.wy[models.line])


def _local(batch: _Batch, models: Models) -> _Local:
    """Return loss, gradient and Gauss-Newton matrix in the raw parameters."""
    data = batch.data
    low, high = ends(data.family)
    heights, scale = heights_of(data.family, models.heights, monotone=data.monotone)
    knots, by_width = knots_of(models.widths, low, high, models.valid)
    loss, sums, slope = _piece_sums(batch, knots, heights)
    return _assemble(loss, sums, slope, scale, by_width, monotone=data.monotone)


def curve_values(x: Tensor, knots: Tensor, heights: Tensor) -> Tensor:
    """Return curves ``(M, B+1)`` at ascending ``x (C,)``: ``(M, C)``."""
    piece, _ = _pieces(x, knots)
    return _curve(x, piece, knots, heights)[0]


def _pieces(x: Tensor, knots: Tensor) -> tuple[Tensor, Tensor]:
    """Return the piece of each cell among all pieces of the batch, ``(M C,)``, and the starts of pieces, ``(M, B+1)``.

    Cells are sorted, so a piece is a range of cells, found by bisection. A cell on a knot belongs to the
    piece on its left, so that a prediction of 1 belongs to the last piece and not to padding.
    """
    count = len(knots)
    first, last = knots.new_zeros((count, 1), dtype=torch.int64), len(x)
    begin = torch.cat([first, torch.searchsorted(x, knots[:, 1:-1].contiguous(), right=True), first + last], dim=1)
    lengths = torch.diff(begin, dim=1).reshape(-1)
    names = torch.arange(len(lengths), device=x.device)
    return torch.repeat_interleave(names, lengths, output_size=count * last), begin


def _curve(x: Tensor, piece: Tensor, knots: Tensor, heights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the curves at the cells ``(M, C)``, and slopes ``(M, B)``, which are 0 for pieces of width 0."""
    width = torch.diff(knots, dim=1)
    slope = torch.where(width > 0, torch.diff(heights, dim=1) / width, torch.zeros_like(width))
    offset = torch.addcmul(heights[:, :-1], slope, knots[:, :-1], value=-1.0)
    shape = (len(knots), len(x))
    at_slope = slope.reshape(-1).index_select(0, piece).view(shape)
    at_offset = offset.reshape(-1).index_select(0, piece).view(shape)
    return at_offset.addcmul_(at_slope, x), slope


def _piece_sums(batch: _Batch, knots: Tensor, heights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean loss ``(M,)``, the sums of r, r t, k, k t, k t^2 by piece ``(5, M, B)``, and slopes ``(M, B)``.

    r is the derivative and k the curvature of the loss at a cell. Sums use powers of x, which all models
    share, and are transformed to t = (x - X_left) / width for each piece.
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


def _assemble(loss: Tensor, sums: Tensor, slope: Tensor, scale: Tensor, by_width: Tensor, *, monotone: bool) -> _Local:
    """Assemble gradient and matrix of the nodes from the sums of pieces, and transform them to the parameters.

    At a node, df/dH = phi and df/dX = -(slope of the piece) phi on both sides. ``scale`` is the derivative of
    heights in their logits; the parameters of monotone curves are increments of logits.
    """
    r, rt, k, kt, ktt = sums
    g0, g1 = r - rt, rt
    m00, m01, m11 = k - 2.0 * kt + ktt, kt - ktt, ktt
    minus = -slope

    def nodes(first: Tensor, second: Tensor) -> Tensor:
        """Sum the contributions of pieces to their first and second nodes."""
        whole = torch.nn.functional.pad(first, (0, 1))
        whole[:, 1:] += second
        return whole

    def tridiagonal(first: Tensor, cross: Tensor, second: Tensor) -> Tensor:
        matrix = torch.diag_embed(nodes(first, second))
        torch.diagonal(matrix, 1, 1, 2).copy_(cross)
        torch.diagonal(matrix, -1, 1, 2).copy_(cross)
        return matrix

    gradient_h, gradient_x = nodes(g0, g1) * scale, nodes(minus * g0, minus * g1)
    hh = tridiagonal(m00, m01, m11) * scale[:, :, None] * scale[:, None, :]
    n00, n01, n11 = minus * m00, minus * m01, minus * m11
    cross = (tridiagonal(n00, n01, n11) * scale[:, :, None]) @ by_width
    xx = by_width.transpose(1, 2) @ (tridiagonal(minus * n00, minus * n01, minus * n11) @ by_width)
    if monotone:
        gradient_h, hh, cross = _summed(gradient_h, 1), _summed(_summed(hh, 1), 2), _summed(cross, 1)
    size = hh.shape[1]
    matrix = torch.empty((len(hh), size + xx.shape[1], size + xx.shape[1]), dtype=hh.dtype, device=hh.device)
    matrix[:, :size, :size], matrix[:, size:, size:] = hh, xx
    matrix[:, :size, size:], matrix[:, size:, :size] = cross, cross.transpose(1, 2)
    gradient_w = torch.bmm(gradient_x[:, None, :], by_width)[:, 0]
    return _Local(loss, torch.cat([gradient_h, gradient_w], dim=1), matrix)


def _summed(values: Tensor, dim: int) -> Tensor:
    """Return reverse cumulative sums: an increment affects all later heights."""
    return values.flip(dim).cumsum(dim).flip(dim)
