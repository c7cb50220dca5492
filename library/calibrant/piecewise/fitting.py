"""Fits of PL and PL3: cross-validation of the number of pieces, the final curve and its uncertainty."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from calibrant.core.cells import Floats, SortedRows
from calibrant.core.progress import step
from calibrant.core.validation import simplest
from calibrant.maps.averaged import MOST_LOGIT, Averaged, table_of, table_places
from calibrant.maps.curves import Predicted, logit_of_mixture
from calibrant.maps.piecewise_linear import STRETCH, LogitPiecewiseLinear, PiecewiseLinear, Polyline
from calibrant.piecewise.arrays import Bools, on_host, placed
from calibrant.piecewise.families import Family, abscissa, bounds, cell_losses, ends, knots_of
from calibrant.piecewise.folds import FoldCells, fold_cells
from calibrant.piecewise.options import Loss, PiecewiseOptions, check_rows
from calibrant.piecewise.refinement import refine
from calibrant.piecewise.search import SMALL, Search, starting_models, weights
from calibrant.piecewise.solver import Data, curve_values

#: Number of cells for the first steps of the starts.
COARSE_CELLS = 192
#: Convergence: the gain of a step in the total loss of all rows.
TOLERANCE = 1e-2
#: Gain in the mean loss that the refined fits leave to a change of one height or knot.
TOLERANCE_PER_ROW = 1e-8
#: Outer pieces of PL3 map logits up to this distance beyond the rows, and further ones are mapped to its value there.
_FURTHEST = 1e6


@dataclass(frozen=True)
class CrossFit:
    """Curves for each number of pieces outside each fold, with ``knots`` and ``heights (lines, B+1)``.

    ``converged`` is the number of converged fits for each number of pieces. ``data`` is what was fitted, and
    ``others`` are fits from other starts. ``logits`` tells whether the predictions are logits.
    """

    family: Family
    counts: tuple[int, ...]
    knots: tuple[Floats, ...]
    heights: tuple[Floats, ...]
    converged: tuple[int, ...]
    data: Data
    logits: bool
    others: CrossFit | None

    def refined(self, candidates: Iterable[int]) -> CrossFit:
        """Return the fits with those of these candidates refined: no change of one height or knot lowers their loss.

        Fits from other starts are refined too, and each curve is the better one.
        """
        knots, heights, converged = list(self.knots), list(self.heights), list(self.converged)
        for i in candidates:
            k, h, loss, done = self._refined(i)
            if self.others is not None:
                k_other, h_other, loss_other, done_other = self.others._refined(i)
                better = loss_other < loss
                k[better], h[better], done[better] = k_other[better], h_other[better], done_other[better]
            knots[i], heights[i], converged[i] = k, h, int(done.sum())
        return replace(self, knots=tuple(knots), heights=tuple(heights), converged=tuple(converged), others=None)

    def _refined(self, candidate: int) -> tuple[Floats, Floats, Floats, Bools]:
        pieces = self.counts[candidate]
        knots, heights = self.knots[candidate][:, : pieces + 1].copy(), self.heights[candidate][:, : pieces + 1]
        knots[:, -1] = self.data.ends[1]
        return refine(self.data, np.arange(len(knots)), knots, heights, TOLERANCE_PER_ROW)

    def held_out(self, cells: FoldCells, loss: Loss) -> Floats:
        """Return the mean loss of each curve on the rows of its held-out fold: ``(counts, folds)``."""
        values = [self._values(cells, i) for i in range(len(self.counts))]
        losses = np.array([cell_losses(self.family, loss, f, cells.w, cells.wy).sum(axis=1) for f in values])
        means: Floats = losses / cells.w.sum(axis=1).clip(min=1e-300)
        return means

    def _values(self, cells: FoldCells, candidate: int) -> Floats:
        return curve_values(abscissa(self.family, cells), self.knots[candidate], self.heights[candidate])

    def _log_odds(self, values: Floats) -> Floats:
        return logit(values) if self.family == "pl" else values

    def log_losses(self, cells: FoldCells) -> Floats:
        """Return the total held-out log loss of all rows for each number of pieces: ``(counts,)``."""
        losses: Floats = (self.held_out(cells, "log-loss") * cells.w.sum(axis=1)).sum(axis=1)
        return losses

    def gain(self, cells: FoldCells, candidate: int) -> dict[str, float]:
        """Return the mean decrease of the held-out log loss by one number of pieces, and its standard error."""
        return cells.gain(self._log_odds(self._values(cells, candidate)))

    def curve(self, candidate: int) -> PiecewiseLinear | LogitPiecewiseLinear:
        """Return the mean of the curves for one number of pieces."""
        curves = self.curves(candidate)
        if self.family == "pl":
            return PiecewiseLinear(curves, STRETCH if self.logits else None)
        return LogitPiecewiseLinear(curves)

    def log_odds(self, candidate: int, of: Predicted) -> Floats:
        """Return the logit of the curve of each fold for one number of pieces at predictions: ``(folds, n)``."""
        x = abscissa(self.family, of)
        return self._log_odds(np.array([curve(x) for curve in self.curves(candidate)]))

    def weighted(self, cells: FoldCells) -> Averaged:
        """Return the mean of the curves for all numbers of pieces, weighted by ``search.weights``."""
        of_candidates = weights(self.log_losses(cells), 2.0 * np.array(self.counts))
        used = np.flatnonzero(of_candidates)
        knots, places = table_places(cells)
        f = np.concatenate([self.log_odds(int(i), places) for i in used])
        folds = len(self.knots[0])
        return table_of(logit_of_mixture(np.repeat(of_candidates[used] / folds, folds), f), knots, cells)

    def curves(self, candidate: int) -> tuple[Polyline, ...]:
        """Return the curves for one number of pieces, without padding and coincident knots."""
        pieces = self.counts[candidate]
        curves = []
        for knots, heights in zip(self.knots[candidate], self.heights[candidate], strict=True):
            x = np.append(knots[:pieces], self.data.ends[1])
            distinct = np.append(np.diff(x) > 0, True)
            curve = Polyline(x[distinct], heights[: pieces + 1][distinct])
            first, last = float(self.data.x[0]), float(self.data.x[-1])
            further = self.logits
            curves.append(guarded(curve, first, last, further=further) if self.family == "pl3" else curve)
        return tuple(curves)


def fit_piecewise(
    family: Family, rows: SortedRows, options: PiecewiseOptions, *, seed: int = 0, device: str = "cpu"
) -> tuple[PiecewiseLinear | LogitPiecewiseLinear | Averaged, dict[str, Any]]:
    """Fit PL (``pl``) or PL3 (``pl3``) to sorted rows: the curve, and the diagnostics of the fit.

    The procedure is that of Kangsepp, Valk & Kull (2022), sections 4 and C.2: each candidate number
    of pieces is fitted outside each fold and scored on the fold, the smallest number within 0.1 % of the
    best score is chosen, and the curves of its folds are averaged. The paper trains neural networks; here
    the fits use the Levenberg-Marquardt method.

    ``rows`` come from ``calibrant.core.cells.sort_rows``; weights are frequencies. Raises ``TooFewRows``,
    ``OneClass``, ``OnePrediction`` and ``NotConverged``. O(n), plus O(candidates x folds x cells) per step;
    with ``starts="several"`` for every number of pieces up to the largest. The same ``seed`` gives the same
    curve on one machine.
    """
    check_rows(rows.key, rows.y, options)
    cells = fold_cells(rows, options.folds, seed)
    return fit_cells(family, cells, options.piece_counts(rows.count), options, device=device)


def fit_cells(
    family: Family, cells: FoldCells, counts: tuple[int, ...], options: PiecewiseOptions, *, device: str = "cpu"
) -> tuple[PiecewiseLinear | LogitPiecewiseLinear | Averaged, dict[str, Any]]:
    """Fit PL or PL3 to cells, for example of a stream; ``counts`` are the candidates, ascending."""
    refits = options.final == "refit"
    with step(0, 2 if refits else 1):
        fits = cross_fit(family, cells, counts, options, device=device)
    scores = fits.held_out(cells, options.select).mean(axis=1)
    chosen = simplest(counts, scores, options.tolerance)
    fits = fits.refined(range(len(counts)) if options.final == "weighted" else [chosen])
    curve: PiecewiseLinear | LogitPiecewiseLinear | Averaged = fits.curve(chosen)
    if options.final == "weighted":
        curve = fits.weighted(cells)
    if refits:
        with step(1, 2):
            single = counts[chosen : chosen + 1]
            curve = cross_fit(family, cells, single, options, device=device, all_rows=True).refined([0]).curve(0)
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
        "tolerance": options.tolerance,
        "cells": len(cells.p),
        "converged": list(fits.converged),
        "held_out_gain": fits.gain(cells, chosen),
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
    """Fit each number of pieces outside each fold, or with ``all_rows`` one curve of each to all rows."""
    wide = options.starts == "several"
    wanted, counts = counts, tuple(range(1, max(counts) + 1)) if wide else counts
    coarse = cells.coarse(COARSE_CELLS)
    w, wy = coarse.training()
    lines = slice(-1, None) if all_rows else slice(0, -1)
    # The cost is cubic in the padded number of pieces, so small and large models are separate batches.
    groups = [
        group for group in (tuple(c for c in counts if c <= SMALL), tuple(c for c in counts if c > SMALL)) if group
    ]
    outer = ends(family, abscissa(family, cells))
    starts = [starting_models(family, coarse, w[lines], wy[lines], outer, group, options, device) for group in groups]
    search = Search(
        _data(family, options, coarse, outer, lines, device),
        _data(family, options, cells, outer, lines, device),
        TOLERANCE / float(cells.w.sum()),
    )
    by_count = dict(zip(counts, search.fit(starts, groups, wide=wide), strict=True))
    fits = [by_count[count] for count in wanted]
    knots = [on_host(knots_of(fit.models.widths, *outer, fit.models.valid)[0]) for fit in fits]
    heights = [on_host(fit.models.heights) for fit in fits]
    return CrossFit(
        family,
        wanted,
        tuple(knots),
        tuple(heights),
        tuple(int(fit.converged.sum()) for fit in fits),
        _data(family, options, cells, outer, lines, "cpu"),
        cells.logit is not None,
        cross_fit(family, cells, wanted, replace(options, starts="quantiles"), device=device, all_rows=all_rows)
        if wide
        else None,
    )


def fit_to_all(family: Family, cells: FoldCells, pieces: int) -> Polyline:
    """Fit one curve with this number of pieces to all rows."""
    fits = cross_fit(family, cells, (pieces,), PiecewiseOptions(), device="cpu", all_rows=True)
    return fits.refined([0]).curves(0)[0]


def guarded(curve: Polyline, first: float, last: float, *, further: bool = False) -> Polyline:
    """Limit the slope of a PL3 curve outside the rows, which range from ``first`` to ``last``.

    Outside, the slope is clipped to [0, s], with s the larger of 1 and the slope of the chord over the rows,
    so that straight lines do not change. Published curves continue their outer pieces up to logits of +-36.8,
    even if these have negative slopes. ``further`` continues the outer pieces to the largest heights, for logits of
    any size.
    """
    at_first, at_last = curve(np.array([first, last]))
    steepest = max(1.0, (at_last - at_first) / (last - first)) if last > first else 1.0
    knots, heights = curve.knots, curve.heights
    inner = (knots >= first) & (knots <= last)
    slopes = np.diff(heights) / np.diff(knots)
    sides = []
    pieces = np.searchsorted(knots, first, side="left"), np.searchsorted(knots, last, side="right")
    for sign, at, value, number in zip((-1.0, 1.0), (first, last), (at_first, at_last), pieces, strict=True):
        end, outer = (knots[0], 0) if sign < 0.0 else (knots[-1], len(slopes) - 1)
        piece = min(max(int(number) - 1, 0), len(slopes) - 1)
        slope = float(np.clip(slopes[piece], 0.0, steepest))
        untouched = slope == slopes[piece] and piece == outer
        if further and slope > 0.0:
            end = at + sign * max(abs(end - at), min((MOST_LOGIT - sign * value) / slope, _FURTHEST))
        outside = [(end, value + slope * (end - at))] if at != end else []
        sides.append(outside if untouched and outside else [*outside, (at, value)])
    left, right = sides[0], sides[1][::-1]
    x = np.concatenate([[k for k, _ in left], knots[inner], [k for k, _ in right]])
    h = np.concatenate([[v for _, v in left], heights[inner], [v for _, v in right]])
    distinct = np.append(True, np.diff(x) > 0)
    return Polyline(x[distinct], h[distinct].clip(*bounds("pl3")))


def _data(
    family: Family,
    options: PiecewiseOptions,
    cells: FoldCells,
    outer: tuple[float, float],
    lines: slice,
    device: str,
) -> Data:
    w, wy = (part[lines] for part in cells.training())
    mass = w.sum(axis=1, keepdims=True)
    parts = (placed(part, device) for part in (abscissa(family, cells), w / mass, wy / mass))
    return Data(family, options.loss, options.monotone, outer, *parts)


# --- Uncertainty of a fitted curve, from the Gauss-Newton matrix of its heights and knots

#: Probabilities are clipped here for the curvature.
_CLIP = 1e-6
#: Prior curvature in units of rows.
_RIDGE = 1e-3


def deviations(
    family: Family, curve: Polyline, cells: Predicted, w: Floats, random: np.random.Generator, count: int
) -> Floats:
    """Draw random deviations of the calibrated probability at each of C cells: ``(count, C)``.

    The heights H and inner knots X of the curve are normal around the fit with covariance (J' K J)^-1
    (Laplace): J holds df/dH = phi and df/dX = -(slope on that side) phi, K the Fisher information of the log
    loss, and ``w (C,)`` the masses of the cells in rows. The number of pieces is treated as known, and the
    curve as linear in its parameters. O(count C B + C B^2 + B^3).
    """
    x = abscissa(family, cells)
    knots, heights = curve.knots, curve.heights
    hats = np.array([np.interp(x, knots, unit) for unit in np.eye(len(knots))]).T
    slopes = np.diff(heights) / np.diff(knots)
    piece = np.clip(np.searchsorted(knots, x, side="left") - 1, 0, len(slopes) - 1)
    jacobian = np.hstack([hats, -slopes[piece, None] * hats[:, 1:-1]])
    f = curve(x)
    c = np.clip(f if family == "pl" else expit(f), _CLIP, 1.0 - _CLIP)
    variance = c * (1.0 - c)
    matrix = jacobian.T @ (jacobian * (w / variance if family == "pl" else w * variance)[:, None])
    # Scaling by the information of each parameter makes the ridge independent of units.
    scale = np.sqrt(np.diag(matrix) + 1e-12)
    factor = np.linalg.cholesky(matrix / np.outer(scale, scale) + _RIDGE * np.eye(len(matrix)))
    noise = np.linalg.solve(factor.T, random.standard_normal((len(factor), count))) / scale[:, None]
    return (jacobian @ noise).T * (1.0 if family == "pl" else variance)
