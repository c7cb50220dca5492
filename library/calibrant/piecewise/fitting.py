"""PL and PL3: cross-validated number of pieces, fitted folds, the final curve and its uncertainty."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from calibrant.cells import Floats, SortedRows
from calibrant.maps.averaged import Averaged, tabulate
from calibrant.maps.piecewise_linear import LogitPiecewiseLinear, PiecewiseLinear, Polyline
from calibrant.piecewise.families import LOSS_CLIP, Family, abscissa, ends, heights_of, knots_of, probability
from calibrant.piecewise.folds import FoldCells, fold_cells
from calibrant.piecewise.options import Loss, PiecewiseOptions, check_rows
from calibrant.piecewise.search import SMALL, Search, weights
from calibrant.piecewise.solver import Data, curve_values
from calibrant.piecewise.starts import starting_models
from calibrant.progress import step
from calibrant.validation import simplest

#: Cells on which the starts take their first steps.
COARSE_CELLS = 192
#: A fit has converged when a step gains less than this in the loss of all rows together.
TOLERANCE = 1e-2
#: Heights of PL3 in a document keep within this.
MAX_LOGIT = 800.0


@dataclass(frozen=True)
class CrossFit:
    """Curves of every number of pieces outside every fold, ``knots`` and ``heights (lines, B+1)`` of each.

    ``converged`` counts, for each number of pieces, the fits that have converged. ``seen`` are the first
    and last cells on the curves' scale: what lies beyond, no row has determined.
    """

    family: Family
    counts: tuple[int, ...]
    seen: tuple[float, float]
    knots: tuple[Tensor, ...]
    heights: tuple[Tensor, ...]
    converged: tuple[int, ...]

    def held_out(self, cells: FoldCells, loss: Loss) -> Floats:
        """Mean loss of each curve on the rows of the fold it was not shown, ``(counts, folds)``."""
        device = self.knots[0].device
        x, w, wy = (
            torch.as_tensor(part, device=device) for part in (abscissa(self.family, cells.p), cells.w, cells.wy)
        )
        return np.array(
            [
                held_out_loss(loss, probability(self.family, curve_values(x, knots, heights)), w, wy).tolist()
                for knots, heights in zip(self.knots, self.heights, strict=True)
            ]
        )

    def log_losses(self, cells: FoldCells) -> Floats:
        """Log loss of all rows together, each row's outside its fold, of every number of pieces; ``(counts,)``."""
        losses: Floats = (self.held_out(cells, "log-loss") * cells.w.sum(axis=1)).sum(axis=1)
        return losses

    def curve(self, candidate: int) -> PiecewiseLinear | LogitPiecewiseLinear:
        """The mean of the curves of one number of pieces."""
        curves = self.curves(candidate)
        return PiecewiseLinear(curves) if self.family == "pl" else LogitPiecewiseLinear(curves)

    def weighted(self, cells: FoldCells) -> Averaged:
        """The mean of the curves of all numbers of pieces, with the weights of ``selection.weights``."""
        given = weights(self.log_losses(cells), 2.0 * np.array(self.counts))
        kept = [(float(w), self.curve(i)) for i, w in enumerate(given) if w > 0.0]
        return tabulate(lambda p: np.sum([w * curve(p) for w, curve in kept], axis=0))

    def curves(self, candidate: int) -> tuple[Polyline, ...]:
        """The curves of one number of pieces, without padding and without knots that have run together."""
        pieces = self.counts[candidate]
        curves = []
        both = (self.knots[candidate].cpu().numpy(), self.heights[candidate].cpu().numpy())
        for knots, heights in zip(*both, strict=True):
            x = np.append(knots[:pieces], ends(self.family)[1])
            kept = np.append(np.diff(x) > 0, True)
            curve = Polyline(x[kept], heights[: pieces + 1][kept])
            curves.append(guarded(curve, *self.seen) if self.family == "pl3" else curve)
        return tuple(curves)


def fit_piecewise(
    family: Family, rows: SortedRows, options: PiecewiseOptions, *, seed: int = 0, device: str = "cpu"
) -> tuple[PiecewiseLinear | LogitPiecewiseLinear | Averaged, dict[str, Any]]:
    """Fit PL (``pl``) or PL3 (``pl3``) to sorted rows: the curve, and the diagnostics of the fit.

    The procedure is that of Kangsepp, Valk & Kull (2022), sections 4 and C.2: each candidate number
    of pieces is fitted outside each fold, scored on the fold, the smallest within 0.1 % of the best
    score is chosen, and the curves of its folds are averaged. The fits are Levenberg-Marquardt's
    where the paper trains neural networks.

    ``rows`` as ``calibrant.cells.sort_rows`` gives them; weights count as frequencies. Raises
    ``TooFewRows``, ``OneClass``, ``OnePrediction`` and ``NotConverged``. O(n) and then O(candidates x folds x
    cells) a step, with ``starts="several"`` for every number of pieces up to the largest; the same
    ``seed`` gives the same curve on one machine.
    """
    check_rows(rows.p, rows.y, options)
    cells = fold_cells(rows, options.folds, seed)
    return fit_cells(family, cells, options.piece_counts(len(rows)), options, device=device)


def fit_cells(
    family: Family, cells: FoldCells, counts: tuple[int, ...], options: PiecewiseOptions, *, device: str = "cpu"
) -> tuple[PiecewiseLinear | LogitPiecewiseLinear | Averaged, dict[str, Any]]:
    """``fit_piecewise`` to rows that are cells already, as of a stream; ``counts`` are the candidates, ascending."""
    refits = options.final == "refit"
    with one_thread():
        with step(0, 2 if refits else 1):
            fits = cross_fit(family, cells, counts, options, device=device)
        scores = fits.held_out(cells, options.select).mean(axis=1)
        chosen = simplest(counts, scores)
        curve: PiecewiseLinear | LogitPiecewiseLinear | Averaged = fits.curve(chosen)
        if options.final == "weighted":
            curve = fits.weighted(cells)
        if refits:
            with step(1, 2):
                one = counts[chosen : chosen + 1]
                curve = cross_fit(family, cells, one, options, device=device, all_rows=True).curve(0)
    diagnostics = {
        "candidates": list(counts),
        "scores": scores.tolist(),
        "held_out_losses": {str(count): float(score) for count, score in zip(counts, scores, strict=True)},
        "pieces": counts[chosen],
        "folds": cells.n_folds,
        "loss": options.loss,
        "select": options.select,
        "final": options.final,
        "monotone": options.monotone,
        "starts": options.starts,
        "cells": len(cells.p),
        "converged": list(fits.converged),
    }
    return curve, diagnostics


def cross_fit(
    family: Family,
    cells: FoldCells,
    counts: tuple[int, ...],
    options: PiecewiseOptions,
    *,
    device: str,
    all_rows: bool = False,
) -> CrossFit:
    """Fit every piece count outside every fold, or with ``all_rows`` one curve of each to all of them."""
    wide = options.starts == "several"
    wanted, counts = counts, tuple(range(1, max(counts) + 1)) if wide else counts
    coarse = cells.coarse(COARSE_CELLS)
    w, wy = coarse.training()
    lines = slice(-1, None) if all_rows else slice(0, -1)
    # Padding costs the cube of the pieces: small and large models make a batch each.
    groups = [
        group for group in (tuple(c for c in counts if c <= SMALL), tuple(c for c in counts if c > SMALL)) if group
    ]
    starts = [starting_models(family, coarse.p, w[lines], wy[lines], group, options, device) for group in groups]
    search = Search(
        _data(family, options, coarse, lines, device),
        _data(family, options, cells, lines, device),
        TOLERANCE / float(cells.w.sum()),
    )
    found = dict(zip(counts, search.fit(starts, groups, wide=wide), strict=True))
    fits = [found[count] for count in wanted]
    low, high = ends(family)
    return CrossFit(
        family,
        wanted,
        (float(search.fine.x[0]), float(search.fine.x[-1])),
        tuple(knots_of(fit.models.widths, low, high, fit.models.valid)[0] for fit in fits),
        tuple(heights_of(family, fit.models.heights, monotone=options.monotone)[0] for fit in fits),
        tuple(int(fit.converged.sum()) for fit in fits),
    )


def fit_to_all(family: Family, cells: FoldCells, pieces: int) -> Polyline:
    """One curve of that many pieces, fitted to all rows."""
    with one_thread():
        fits = cross_fit(family, cells, (pieces,), PiecewiseOptions(), device="cpu", all_rows=True)
    return fits.curves(0)[0]


def guarded(curve: Polyline, first: float, last: float) -> Polyline:
    """A PL3 curve that, beyond the rows at ``first`` and ``last``, neither falls nor runs away.

    There its slope is held between 0 and the larger of 1 and that of its chord over the rows: a straight
    curve stays itself. Published curves go on as their outermost pieces do, up to logits of +-36.8, even
    where these rise towards a prediction of 0.
    """
    at_first, at_last = curve(np.array([first, last]))
    steepest = max(1.0, (at_last - at_first) / (last - first)) if last > first else 1.0
    knots, heights = curve.knots, curve.heights
    inner = (knots > first) & (knots < last)
    slopes = np.diff(heights) / np.diff(knots)
    sides = []
    for at, value, end in ((first, at_first, knots[0]), (last, at_last, knots[-1])):
        piece = min(max(int(np.searchsorted(knots, at)) - 1, 0), len(slopes) - 1)
        slope = float(np.clip(slopes[piece], 0.0, steepest))
        untouched = slope == slopes[piece] and piece == (0 if end == knots[0] else len(slopes) - 1)
        outside = [(end, value + slope * (end - at))] if at != end else []
        sides.append(outside if untouched and outside else [*outside, (at, value)])
    left, right = sides[0], sides[1][::-1]
    x = np.concatenate([[k for k, _ in left], knots[inner], [k for k, _ in right]])
    h = np.concatenate([[v for _, v in left], heights[inner], [v for _, v in right]])
    kept = np.append(True, np.diff(x) > 0)
    return Polyline(x[kept], np.clip(h[kept], -MAX_LOGIT, MAX_LOGIT))


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one thread, and give it back what it had.

    The operations are so short that a second thread saves little, and waiting for it by spinning costs
    seconds as soon as another process wants the core. Workers scale by processes.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _data(family: Family, options: PiecewiseOptions, cells: FoldCells, lines: slice, device: str) -> Data:
    w, wy = (part[lines] for part in cells.training())
    mass = w.sum(axis=1, keepdims=True)
    parts = (torch.as_tensor(part, device=device) for part in (abscissa(family, cells.p), w / mass, wy / mass))
    return Data(family, options.loss, options.monotone, *parts)


def held_out_loss(select: Loss, c: Tensor, w: Tensor, wy: Tensor) -> Tensor:
    """Mean loss ``(F,)`` of probabilities ``c (F, C)`` on rows of mass ``w`` with positives ``wy (F, C)``."""
    if select == "brier":
        losses = (w - wy) * c**2 + wy * (1.0 - c) ** 2
    else:
        inside = c.clamp(LOSS_CLIP, 1.0 - LOSS_CLIP)
        losses = -(wy * torch.log(inside) + (w - wy) * torch.log1p(-inside))
    return losses.sum(dim=1) / w.sum(dim=1).clamp(min=1e-300)


# --- Uncertainty of a fitted curve, from the Gauss-Newton matrix of its heights and knots

#: Probabilities are kept this far from 0 and 1 where curvature is taken.
_CLIP = 1e-6
#: Prior curvature, in rows, of what no row determines.
_RIDGE = 1e-3


def deviations(
    family: Family, curve: Polyline, p: Floats, w: Floats, random: np.random.Generator, count: int
) -> Floats:
    """How far chance could move the calibrated probability at each cell ``p (C,)``: ``(count, C)`` draws.

    The curve's heights H and inner knots X are normal about the fit with covariance (J' K J)^-1 (Laplace):
    J holds df/dH = phi and df/dX = -(slope on that side) phi, K the Fisher information of the log loss,
    ``w (C,)`` the cells' masses in rows. How many pieces there are is taken as known, and the curve as
    linear in its parameters. O(count C B + C B^2 + B^3).
    """
    x = abscissa(family, p)
    knots, heights = curve.knots, curve.heights
    hats = np.array([np.interp(x, knots, unit) for unit in np.eye(len(knots))]).T
    slopes = np.diff(heights) / np.diff(knots)
    piece = np.clip(np.searchsorted(knots, x, side="left") - 1, 0, len(slopes) - 1)
    jacobian = np.hstack([hats, -slopes[piece, None] * hats[:, 1:-1]])
    f = curve(x)
    c = np.clip(f if family == "pl" else expit(f), _CLIP, 1.0 - _CLIP)
    variance = c * (1.0 - c)
    matrix = jacobian.T @ (jacobian * (w / variance if family == "pl" else w * variance)[:, None])
    # In units of each parameter's own information the ridge is blind to scales.
    scale = np.sqrt(np.diag(matrix) + 1e-12)
    factor = np.linalg.cholesky(matrix / np.outer(scale, scale) + _RIDGE * np.eye(len(matrix)))
    noise = np.linalg.solve(factor.T, random.standard_normal((len(factor), count))) / scale[:, None]
    moved: Floats = (jacobian @ noise).T * (1.0 if family == "pl" else variance)
    return moved
