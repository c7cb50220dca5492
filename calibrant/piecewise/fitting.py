"""PL and PL3: cross-validated number of pieces, fitted folds, final curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant.cells import Floats, SortedRows
from calibrant.errors import NotConverged
from calibrant.maps.piecewise_linear import LogitPiecewiseLinear, PiecewiseLinear, Polyline
from calibrant.piecewise.families import LOSS_CLIP, Family, abscissa, ends, heights_of, knots_of, probability
from calibrant.piecewise.folds import FoldCells, fold_cells
from calibrant.piecewise.options import Loss, PiecewiseOptions, check_rows
from calibrant.piecewise.selection import choose
from calibrant.piecewise.solver import Data, curve_values, solve
from calibrant.piecewise.starts import STARTS, starting_models

Progress = Callable[[int, int, str], None]
_Told = Callable[[str], Callable[[int, int], None] | None]

#: Cells on which all starts are tried, and the steps they get there.
COARSE_CELLS, COARSE_STEPS = 192, 12
#: Steps of the best start on all cells, and the gain in nats below which a fit has converged.
FINE_STEPS, TOLERANCE = 30, 1e-8

#: Models of up to this many pieces make one batch, larger ones another.
SMALL = 8


@dataclass(frozen=True)
class _Fits:
    """The best fit of each line for one number of pieces: ``knots`` and ``heights (lines, B+1)``."""

    knots: Tensor
    heights: Tensor
    converged: int
    steps: int


def fit_piecewise(
    family: Family,
    rows: SortedRows,
    options: PiecewiseOptions,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> tuple[PiecewiseLinear | LogitPiecewiseLinear, dict[str, Any]]:
    """Fit PL (``pl``) or PL3 (``pl3``) to sorted rows: the curve, and what the fit has to tell.

    The procedure is that of Kangsepp, Valk & Kull (2022), sections 4 and C.2: each candidate number
    of pieces is fitted outside each fold, scored on the fold, the smallest within 0.1 % of the best
    score is chosen, and the curves of its folds are averaged. The fits are Levenberg-Marquardt's
    from several starts where the paper trains neural networks.

    ``rows`` as ``calibrant.cells.sort_rows`` gives them; weights count as frequencies. Raises
    ``TooFewRows``, ``OneClass`` and ``NotConverged``. ``progress`` is called with (done, total,
    stage) between steps, and what it raises ends the fit. O(n) and then O(candidates x folds x
    cells) a step; the same ``seed`` gives the same curve on one machine.
    """
    check_rows(len(rows), int(np.count_nonzero(rows.y)), options)
    with _one_thread():
        return _fit(family, rows, options, _Engine(family, options, seed, device, progress))


def _fit(
    family: Family, rows: SortedRows, options: PiecewiseOptions, engine: _Engine
) -> tuple[PiecewiseLinear | LogitPiecewiseLinear, dict[str, Any]]:
    counts = options.piece_counts(len(rows))
    cells = fold_cells(rows, options.folds, engine.seed)
    fits = engine.fit(cells, counts, refit=False)
    scores = engine.scores(cells, fits)
    chosen = choose(counts, scores)
    pieces = counts[chosen]
    diagnostics = {
        "candidates": list(counts),
        "scores": scores.tolist(),
        "pieces": pieces,
        "folds": options.folds,
        "loss": options.loss,
        "select": options.select,
        "final": options.final,
        "monotone": options.monotone,
        "cells": len(cells.p),
        "steps": max(fit.steps for fit in fits.values()),
        "converged": sum(fit.converged for fit in fits.values()),
        "fits": len(counts) * options.folds,
    }
    final = engine.fit(cells, (pieces,), refit=True)[pieces] if options.final == "refit" else fits[pieces]
    models = _polylines(family, final, pieces)
    return (PiecewiseLinear(models) if family == "pl" else LogitPiecewiseLinear(models)), diagnostics


@contextmanager
def _one_thread() -> Iterator[None]:
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


@dataclass(frozen=True)
class _Engine:
    """The parts of one fit that share family, options and device."""

    family: Family
    options: PiecewiseOptions
    seed: int
    device: str
    progress: Progress | None

    def fit(self, cells: FoldCells, counts: tuple[int, ...], *, refit: bool) -> dict[int, _Fits]:
        """Fit every piece count outside every fold, or with ``refit`` to all rows: coarse to fine.

        Padding costs the cube of the pieces, so small and large models make a batch each.
        """
        coarse = cells.coarse(COARSE_CELLS)
        batches = [group for group in (_at_most(counts, SMALL), _beyond(counts, SMALL)) if group]
        fits: dict[int, _Fits] = {}
        for i, group in enumerate(batches):
            fits |= self._fit_batch(coarse, cells, group, refit=refit, told=self._share(i, len(batches)))
        return fits

    def _fit_batch(
        self, coarse: FoldCells, cells: FoldCells, counts: tuple[int, ...], *, refit: bool, told: _Told
    ) -> dict[int, _Fits]:
        lines = 1 if refit else cells.n_folds
        mass = coarse.w.sum(axis=0)
        models = starting_models(
            self.family,
            coarse.p,
            mass,
            counts,
            lines,
            monotone=self.options.monotone,
            seed=self.seed,
            device=self.device,
        )
        tried = solve(
            self._data(coarse, refit), models, steps=COARSE_STEPS, tolerance=TOLERANCE, told=told("coarse fits")
        )
        names = torch.arange(len(counts) * lines, device=models.line.device)
        best = tried.loss.view(-1, STARTS).argmin(dim=1)
        winners = replace(tried.models[names * STARTS + best], name=names)
        solved = solve(self._data(cells, refit), winners, steps=FINE_STEPS, tolerance=TOLERANCE, told=told("fine fits"))
        if not bool(torch.isfinite(solved.loss).all()):
            raise NotConverged("the fit has no finite loss")
        low, high = ends(self.family)
        knots, _ = knots_of(solved.models.widths, low, high, solved.models.valid)
        heights, _ = heights_of(self.family, solved.models.heights, monotone=self.options.monotone)
        shape = (len(counts), lines, -1)
        parts = zip(counts, knots.view(shape), heights.view(shape), solved.converged.view(shape), strict=True)
        return {count: _Fits(k, h, int(done.sum()), solved.steps) for count, k, h, done in parts}

    def scores(self, cells: FoldCells, fits: Mapping[int, _Fits]) -> Floats:
        """Mean over the folds of each candidate's loss on the fold's own rows, ``(counts,)``."""
        x = self._tensor(abscissa(self.family, cells.p))
        w, wy = self._tensor(cells.w), self._tensor(cells.wy)
        scores = []
        for fit in fits.values():
            c = probability(self.family, curve_values(x, fit.knots, fit.heights))
            scores.append(float(held_out_loss(self.options.select, c, w, wy).mean()))
        return np.array(scores)

    def _data(self, cells: FoldCells, refit: bool) -> Data:
        w, wy = cells.training()
        if refit:
            w, wy = w[-1:], wy[-1:]
        mass = w.sum(axis=1, keepdims=True)
        return Data(
            self.family,
            self.options.loss,
            self.options.monotone,
            self._tensor(abscissa(self.family, cells.p)),
            self._tensor(w / mass),
            self._tensor(wy / mass),
        )

    def _tensor(self, values: Floats) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float64, device=self.device)

    def _share(self, batch: int, batches: int) -> _Told:
        """Who is told of one batch's progress, given the stage: the batches' models count alike."""
        progress = self.progress
        if progress is None:
            return lambda _: None

        def told(stage: str) -> Callable[[int, int], None]:
            return lambda done, total: progress(batch * total + done, batches * total, stage)

        return told


def held_out_loss(select: Loss, c: Tensor, w: Tensor, wy: Tensor) -> Tensor:
    """Mean loss ``(F,)`` of probabilities ``c (F, C)`` on rows of mass ``w`` with positives ``wy (F, C)``."""
    if select == "brier":
        losses = c * (w * c - 2.0 * wy) + wy
    else:
        inside = c.clamp(LOSS_CLIP, 1.0 - LOSS_CLIP)
        losses = -(wy * torch.log(inside) + (w - wy) * torch.log1p(-inside))
    return losses.sum(dim=1) / w.sum(dim=1).clamp(min=1e-300)


def _at_most(counts: tuple[int, ...], limit: int) -> tuple[int, ...]:
    return tuple(count for count in counts if count <= limit)


def _beyond(counts: tuple[int, ...], limit: int) -> tuple[int, ...]:
    return tuple(count for count in counts if count > limit)


def _polylines(family: Family, fits: _Fits, pieces: int) -> tuple[Polyline, ...]:
    """The curves of one piece count, without padding and without knots that have run together."""
    curves = []
    for knots, heights in zip(fits.knots.cpu().numpy(), fits.heights.cpu().numpy(), strict=True):
        x = np.append(knots[:pieces], ends(family)[1])
        kept = np.append(np.diff(x) > 0, True)
        curves.append(Polyline(x[kept], heights[: pieces + 1][kept]))
    return tuple(curves)
