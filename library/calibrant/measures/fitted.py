"""Calibration errors from maps fitted to the test data: the distance of the map from the identity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from calibrant.averaging.process import Posterior, fit_process
from calibrant.calibrators import METHODS, fit_curve
from calibrant.cells import Cells, Floats
from calibrant.errors import requires
from calibrant.maps.curves import Curve
from calibrant.measures.binned import Norm
from calibrant.piecewise.folds import FoldCells, fold_cells
from calibrant.piecewise.options import PiecewiseOptions, check_rows
from calibrant.reductions import Event

PieceFamily = Literal["pl", "pl3"]
#: Number of curves drawn around a PL or PL3 fit.
_DRAWS = 200


@dataclass(frozen=True)
class Belief:
    """Posterior of the true map at cells ``p``, ``w``, ``wy (C,)``.

    ``centre (C,)`` is the fitted map and ``draws (D, C)`` with ``weights (D,)`` are curves around it, both conditional
    on the predictions not being calibrated; ``identity`` is the probability that they are.
    """

    p: Floats
    w: Floats
    wy: Floats
    centre: Floats
    draws: Floats
    weights: Floats
    identity: float


@dataclass(frozen=True)
class FittedError:
    """The plug-in and the debiased error, an interval if a level was given, the map, and the diagnostics of its fit."""

    value: float
    debiased: float
    interval: tuple[float, float] | None
    curve: Curve
    diagnostics: dict[str, Any]


def fitted_error(event: Event, name: str, *, norm: Norm, folds: int, level: float | None) -> FittedError:
    """Return the mean |c(p) - p|^norm of a map c fitted to the same rows (Kangsepp et al. 2022, section 3).

    ``value`` uses the map that ``calibrant.fit`` fits with the method ``name``. ``debiased`` is the mean of two
    estimates; the first is too low for smoothed maps and the second too high for maps that follow noise:

        norm 1:  mean |m - p|     and  mean s (y - p),       s = E sign(c - p)
        norm 2:  mean (m - p)^2   and  mean (m - p)(y - p)

    with m the fitted map and c over its posterior. It may be below 0. Alternatives: docs/explanation/debiasing.md.
    Raises ``TooFewRows``, ``OneClass`` and ``OnePrediction``.
    """
    rows, options = event.counted_rows, PiecewiseOptions(folds=folds)
    check_rows(rows.p, rows.y, options)
    cells, counts = fold_cells(rows, folds, 0), options.piece_counts(rows.count)
    posterior = fit_process(cells)
    process = process_belief(posterior)
    curve: Curve
    diagnostics: dict[str, Any]
    if name == "averaged":
        with requires("torch", name):  # imported on first use
            from calibrant.averaging.fitting import average_cells

        curve, diagnostics = average_cells(cells, counts, options, posterior)
        belief, diagnostics = process, {"identity_probability": diagnostics["identity_probability"]}
    elif name in ("pl", "pl3"):
        with requires("torch", name):
            from calibrant.piecewise.fitting import fit_cells

        family: PieceFamily = "pl" if name == "pl" else "pl3"
        curve, diagnostics = fit_cells(family, cells, counts, options)
        belief, diagnostics = (
            piecewise_belief(family, cells, curve, diagnostics["pieces"]),
            {"pieces": diagnostics["pieces"]},
        )
    else:
        curve, diagnostics = fit_curve(METHODS[name], event)
        belief, diagnostics = replace(process, centre=curve(process.p)), {}
    value, corrected = plugged_error(event.cells, curve, norm), debiased(belief, norm)
    # Curves around a single PL or PL3 fit ignore other numbers of pieces, so the spread is that of the process.
    interval = None if level is None else interval_about(process, corrected, norm, level)
    return FittedError(value, corrected, interval, curve, diagnostics)


def plugged_error(cells: Cells, curve: Curve, norm: int) -> float:
    """Return the mean |c(p) - p|^norm of a curve over cells."""
    return float(cells.w @ np.abs(curve(cells.p) - cells.p) ** norm / cells.mass)


def off_the_ends(curve: Curve, cells: Cells, p: Floats) -> Floats:
    """Return the curve at ``p (n,)`` with values of exactly 0 or 1 moved inside; ``cells`` are those of the fit.

    The outer blocks of an isotonic map are often exactly 0 or 1, for which a single contrary row has an infinite log
    loss. Fitted cells of mass m with k positives and such a value get (k + 1/2) / (m + 1).
    """
    c, fitted = np.clip(curve(p), 0.0, 1.0), np.clip(curve(cells.p), 0.0, 1.0)
    for end in (0.0, 1.0):
        here = fitted == end
        c[c == end] = (cells.wy[here].sum() + 0.5) / (cells.w[here].sum() + 1.0)
    return c


def fitted_log_loss(cells: Cells, curve: Curve) -> float:
    """Return the mean log loss of the map on the rows of the fit, in nats, with ``off_the_ends``."""
    c = off_the_ends(curve, cells, cells.p)
    return float(-(cells.wy @ np.log(c) + (cells.w - cells.wy) @ np.log1p(-c)) / cells.mass)


def debiased(belief: Belief, norm: Norm) -> float:
    """Return the debiased error: see ``fitted_error``."""
    share = belief.w / belief.w.sum()
    off = belief.centre - belief.p
    residual = (belief.wy - belief.w * belief.p) / belief.w.sum()
    if norm == 2:
        return float(share @ off**2 + off @ residual) / 2
    sign = belief.weights @ np.sign(belief.draws - belief.p)
    return float(share @ np.abs(off) + sign @ residual) / 2


def interval_about(belief: Belief, corrected: float, norm: int, level: float) -> tuple[float, float]:
    """Return quantiles of the error over the curves, shifted to have the mean ``corrected``, and clipped at 0.

    The interval starts at 0 if the probability of calibration exceeds the tail probability.
    """
    errors = np.abs(belief.draws - belief.p) ** norm @ (belief.w / belief.w.sum())
    order = np.argsort(errors)
    reached = np.cumsum(belief.weights[order])
    tails = (1.0 - level) / 2, (1.0 + level) / 2
    low, high = (errors[order[min(int(np.searchsorted(reached, q)), len(order) - 1)]] for q in tails)
    shift = corrected - float(belief.weights @ errors)
    return (0.0 if belief.identity > tails[0] else max(float(low) + shift, 0.0), max(float(high) + shift, 0.0))


def piecewise_belief(family: PieceFamily, cells: FoldCells, curve: Curve, pieces: int) -> Belief:
    """Draw curves around a PL or PL3 map, from the covariance of one curve with as many pieces fitted to all rows."""
    from calibrant.piecewise.fitting import deviations, fit_to_all

    w, wy = cells.w.sum(axis=0), cells.wy.sum(axis=0)
    centre = curve(cells.p)
    whole = fit_to_all(family, cells, pieces)
    moved = deviations(family, whole, cells.p, w, np.random.default_rng(0), _DRAWS)
    draws = np.clip(centre + moved, 0.0, 1.0)
    return Belief(cells.p, w, wy, centre, draws, np.full(_DRAWS, 1.0 / _DRAWS), 0.0)


def process_belief(process: Posterior) -> Belief:
    """Draw curves from the Gaussian process of a model average."""
    draws, weights = process.draws()
    return Belief(process.p, process.w, process.wy, weights @ draws, draws, weights, process.identity)
