"""Fit of the model average: a Gaussian process, and curves weighted by their out-of-fold log losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy
from scipy.special import expit, log_expit, logit

from calibrant.averaging.process import Posterior, fit_process, held_out_maps
from calibrant.core.cells import Floats, SortedRows
from calibrant.core.logistic import fit_logistic
from calibrant.core.progress import step
from calibrant.maps.averaged import Averaged, increasing, table_of, table_places
from calibrant.maps.curves import (
    Identity,
    Predicted,
    check_squares,
    interpolate,
    interpolate_logits,
    logit_of,
    logit_of_mixture,
)
from calibrant.maps.piecewise_linear import PL3_CLIP
from calibrant.piecewise.families import Family
from calibrant.piecewise.fitting import CrossFit, cross_fit
from calibrant.piecewise.folds import FoldCells, fold_cells
from calibrant.piecewise.options import AveragedOptions, PiecewiseOptions, check_rows
from calibrant.piecewise.search import weights

#: Difference of the total log losses in nats that changes the odds of the process by a factor of e.
TEMPERATURE = 4.0
#: Prior variance of unregularised coefficients.
_FREE = 1e6
_FAMILIES: tuple[Family, ...] = ("pl", "pl3")


@dataclass(frozen=True)
class _Candidate:
    """A part of the average: its number of parameters, total held-out log loss, and log-odds ``(folds, n)``."""

    name: str
    parameters: int
    loss: float
    log_odds: Callable[[Predicted], Floats]


def fit_averaged(
    rows: SortedRows, options: AveragedOptions, *, seed: int = 0, device: str = "cpu"
) -> tuple[Averaged | Identity, dict[str, Any]]:
    """Fit the model average to sorted rows: the curve, and the diagnostics of the fit.

    One part is a weighted mean of PL and PL3 for each number of pieces, of logistic curves in logit p (Platt,
    unsmoothed) and in ln p and -ln(1 - p) (beta), of isotonic regression, each averaged over its folds, and of
    the identity. Weights are proportional to exp(-L - 0.35 k), with L the total held-out log loss and k the
    number of parameters. The other part is ``process.fit_process``. If both predict equally well they have equal
    weight; a difference of 4 nats in L changes the odds by a factor of e. The curve is increasing unless
    ``keep_order`` is False, and the identity if the mean cross-fitted gain in log loss is not positive. Raises what
    ``fit_piecewise`` raises.
    """
    checked = options.piecewise()
    check_rows(rows.key, rows.y, checked)
    cells = fold_cells(rows, checked.folds, seed)
    counts = checked.piece_counts(rows.count)
    process = fit_process(cells)
    curve, diagnostics = average_cells(cells, counts, checked, process, in_order=options.rows_in_order, device=device)
    return (curve if diagnostics["held_out_gain"]["log_loss"] > 0.0 else Identity()), diagnostics


def average_cells(
    cells: FoldCells,
    counts: tuple[int, ...],
    options: PiecewiseOptions,
    process: Posterior,
    *,
    in_order: bool,
    device: str = "cpu",
) -> tuple[Averaged, dict[str, Any]]:
    """Fit the model average to cells, given the process fitted to them; ``in_order`` makes it increasing."""
    fits = []
    for part, family in enumerate(_FAMILIES):
        with step(part, len(_FAMILIES)):
            fits.append(cross_fit(family, cells, counts, options, device=device))
    curve, diagnostics = average(cells, fits, process, in_order=in_order)
    return curve, {"candidates": list(counts), "folds": cells.n_folds, "cells": len(cells.p)} | diagnostics


def average(
    cells: FoldCells, fits: Sequence[CrossFit], process: Posterior, *, in_order: bool
) -> tuple[Averaged, dict[str, Any]]:
    """Return the average of fits to the same cells: the curve, and the weights of its parts."""
    candidates = [*_logistic(cells), _isotonic(cells)]
    for fit in fits:
        candidates += _piecewise(fit, cells)
    losses = np.array([c.loss for c in candidates])
    of_curves = weights(losses, np.array([c.parameters for c in candidates], np.float64))
    coarse, outside = held_out_maps(process, cells)
    f = outside(coarse)
    by_process = _total_loss(f, coarse)
    by_curves = float(of_curves @ losses)
    share = float(expit((by_curves - by_process) / TEMPERATURE))
    knots, places = table_places(cells)
    used = np.flatnonzero(of_curves)
    parts = np.stack([candidates[i].log_odds(places) for i in used], axis=1)
    by_fold = [logit_of_mixture(of_curves[used], fold) for fold in parts]
    folds = cells.n_folds
    of_all = np.vstack([process.log_odds(places), *by_fold])
    curve = table_of(logit_of_mixture(np.append(share, np.full(folds, (1.0 - share) / folds)), of_all), knots, cells)
    # By convexity, the loss of an average is at most the average of the losses.
    gain = float(losses[0]) - share * by_process - (1.0 - share) * by_curves
    if in_order:
        both, halves = zip(outside(places), by_fold, strict=True), np.array([share, 1.0 - share])
        free = [table_of(logit_of_mixture(halves, np.vstack(pair)), knots, cells) for pair in both]
        w = cells.training()[0]
        ordered = [increasing(own, cells, w[fold]) for fold, own in enumerate(free)]
        gain += _held_out_loss(free, cells) - _held_out_loss(ordered, cells)
        curve = increasing(curve, cells, w[-1])
    shown = {c.name: round(float(w), 6) for c, w in zip(candidates, of_curves, strict=True) if w > 0.0}
    rows = float(cells.w.sum())
    held_out = {c.name: c.loss / rows for c in candidates} | {"process": by_process / rows}
    return curve, {
        "weights": shown,
        "held_out_losses": held_out,
        "process_share": share,
        "identity_probability": process.identity,
        "held_out_gain": coarse.gain(f, gain),
    }


def _held_out_loss(curves: Sequence[Averaged], cells: FoldCells) -> float:
    """Return the total log loss of a curve for each fold on the rows of this fold."""
    return _total_loss(np.array([curve.log_odds(cells) for curve in curves]), cells)


def _total_loss(f: Floats, cells: FoldCells) -> float:
    """Return the total log loss of log-odds ``f`` at the cells, ``(C,)`` or ``(folds, C)``."""
    return float((cells.w * np.logaddexp(0.0, f) - cells.wy * f).sum())


def _piecewise(fits: CrossFit, cells: FoldCells) -> list[_Candidate]:
    """Return PL or PL3 for each number of pieces."""
    return [
        _Candidate(f"{fits.family}:{pieces}", 2 * pieces, float(loss), partial(fits.log_odds, i))
        for i, (pieces, loss) in enumerate(zip(fits.counts, fits.log_losses(cells), strict=True))
    ]


def _logistic(cells: FoldCells) -> list[_Candidate]:
    """Return the identity, Platt scaling and beta calibration."""
    w, wy = (part[:-1] for part in cells.training())

    def candidate(name: str, features: Callable[[Floats], Floats]) -> _Candidate:
        basis = features(logits)
        variance = np.full((len(w), basis.shape[1]), _FREE)
        theta = fit_logistic(basis, np.zeros(len(basis)), w, wy, variance).theta
        loss = _total_loss(theta @ basis.T, cells)
        return _Candidate(name, basis.shape[1], loss, lambda of: (features(logit_of(of, PL3_CLIP)) @ theta.T).T)

    logits = check_squares(logit_of(cells, PL3_CLIP))
    return [
        _Candidate("identity", 0, _total_loss(logits, cells), lambda of: np.tile(logit_of(of, PL3_CLIP), (len(w), 1))),
        candidate("platt", lambda z: np.column_stack([z, np.ones_like(z)])),
        candidate("beta", lambda z: np.column_stack([log_expit(z), -log_expit(-z), np.ones_like(z)])),
    ]


def _isotonic(cells: FoldCells) -> _Candidate:
    """Return isotonic regression outside each fold, with half a row of each label added to every block."""
    w, wy = (part[:-1] for part in cells.training())
    joined = interpolate if cells.logit is None else interpolate_logits
    curves, sizes, loss = [], 0, 0.0
    for fold in range(cells.n_folds):
        filled = w[fold] > 0
        mass, positives = w[fold][filled], wy[fold][filled]
        ends = scipy.optimize.isotonic_regression(positives / mass, weights=mass).blocks
        share = (np.add.reduceat(positives, ends[:-1]) + 0.5) / (np.add.reduceat(mass, ends[:-1]) + 1.0)
        curves.append((cells.key[filled], np.repeat(share, np.diff(ends))))
        sizes += len(share)
        c = joined(cells.key, *curves[-1])
        loss -= float((cells.wy[fold] * np.log(c) + (cells.w[fold] - cells.wy[fold]) * np.log1p(-c)).sum())
    parameters = round(sizes / cells.n_folds)

    def log_odds(of: Predicted) -> Floats:
        at = of.p if of.logit is None else of.logit
        outside: Floats = logit(np.array([joined(at, *curve) for curve in curves]))
        return outside

    return _Candidate("isotonic", parameters, loss, log_odds)
