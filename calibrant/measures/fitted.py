"""Calibration error by fitting on the test data: the distance of a fitted map from the diagonal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calibrant.averaging.process import Posterior, fit_process
from calibrant.cells import Cells, Floats, SortedRows
from calibrant.maps.curves import Curve
from calibrant.piecewise.folds import FoldCells, fold_cells
from calibrant.reductions import Event

#: The maps that have this error.
Map = Literal["pl", "pl3", "averaged"]
#: Curves drawn about a PL or PL3 fit.
_DRAWS = 200


@dataclass(frozen=True)
class Belief:
    """What the rows say of the true map, at cells ``p``, ``w``, ``wy (C,)``.

    ``centre (C,)`` is the fitted map and ``draws (D, C)`` with ``weights (D,)`` are curves about it, both given that
    the predictions are not calibrated already; ``identity`` is the probability that they are.
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
    """The error as it is plugged in, and debiased; an interval where one was asked for; what the fit told."""

    value: float
    debiased: float
    interval: tuple[float, float] | None
    told: dict[str, Any]


def fitted_error(event: Event, name: Map, *, norm: Literal[1, 2], folds: int, level: float | None) -> FittedError:
    """Mean |c(p) - p|^norm of a map c fitted to the same rows (Kangsepp, Valk & Kull 2022, section 3).

    ``value`` is that of the map as ``calibrant.fit`` fits it. ``debiased`` is the mean of two estimates, of which
    the first errs downwards where a map is smoothed and the second upwards where it follows noise:

        norm 1:  mean |m - p|     and  mean s (y - p),       s = E sign(c - p)
        norm 2:  mean (m - p)^2   and  mean (m - p)(y - p)

    with m the fitted map and s over the curves that chance leaves possible (docs/debiasing.md compares this with
    others). It may be below 0. Raises ``TooFewRows``, ``OneClass`` and
    ``OnePrediction``.
    """
    rows = event.counted_rows
    curve, belief, told = _averaged(rows, folds) if name == "averaged" else _piecewise(name, rows, folds)
    value = _plugged(event.cells, curve, norm)
    mended = debiased(belief, norm)
    interval = None if level is None else _interval(belief, mended, norm, level)
    return FittedError(value, mended, interval, told)


def _plugged(cells: Cells, curve: Any, norm: int) -> float:
    return float(cells.w @ np.abs(curve(cells.p) - cells.p) ** norm / cells.mass)


def debiased(belief: Belief, norm: Literal[1, 2]) -> float:
    """Half of the error of the map, half of what the labels show of it: see ``fitted_error``."""
    share = belief.w / belief.w.sum()
    off = belief.centre - belief.p
    residual = (belief.wy - belief.w * belief.p) / belief.w.sum()
    if norm == 2:
        return float(share @ off**2 + off @ residual) / 2
    sign = belief.weights @ np.sign(belief.draws - belief.p)
    return float(share @ np.abs(off) + sign @ residual) / 2


def _interval(belief: Belief, mended: float, norm: int, level: float) -> tuple[float, float]:
    """Quantiles of the error over the curves, moved so that its mean is the debiased value; the identity has none."""
    errors = np.abs(belief.draws - belief.p) ** norm @ (belief.w / belief.w.sum())
    moved = np.maximum(errors + mended - belief.weights @ errors, 0.0)
    values = np.append(moved, 0.0)
    weights = np.append((1.0 - belief.identity) * belief.weights, belief.identity)
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    low, high = (values[order[min(int(np.searchsorted(reached, q)), len(order) - 1)]] for q in _tails(level))
    return float(low), float(high)


def _tails(level: float) -> tuple[float, float]:
    return (1.0 - level) / 2, (1.0 + level) / 2


def _piecewise(family: Literal["pl", "pl3"], rows: SortedRows, folds: int) -> tuple[Any, Belief, dict[str, Any]]:
    from calibrant.piecewise.fitting import fit_piecewise  # torch is loaded where a fit needs it
    from calibrant.piecewise.options import PiecewiseOptions

    curve, told = fit_piecewise(family, rows, PiecewiseOptions(folds=folds))
    belief = piecewise_belief(family, fold_cells(rows, folds, 0), curve, told["pieces"])
    return curve, belief, {"pieces": told["pieces"]}


def piecewise_belief(family: Literal["pl", "pl3"], cells: FoldCells, curve: Curve, pieces: int) -> Belief:
    """Curves about a PL or PL3 map, from the covariance of one curve of as many pieces fitted to all rows."""
    from calibrant.piecewise.fitting import fit_to_all
    from calibrant.piecewise.uncertainty import deviations

    w, wy = cells.w.sum(axis=0), cells.wy.sum(axis=0)
    centre = curve(cells.p)
    whole = fit_to_all(family, cells, pieces)
    moved = deviations(family, whole, cells.p, w, np.random.default_rng(0), _DRAWS)
    draws = np.clip(centre + moved, 0.0, 1.0)
    return Belief(cells.p, w, wy, centre, draws, np.full(_DRAWS, 1.0 / _DRAWS), 0.0)


def _averaged(rows: SortedRows, folds: int) -> tuple[Any, Belief, dict[str, Any]]:
    from calibrant.averaging.fitting import fit_averaged
    from calibrant.averaging.options import AveragedOptions

    curve, told = fit_averaged(rows, AveragedOptions(folds=folds))
    belief = process_belief(fit_process(fold_cells(rows, folds, 0)))
    return curve, belief, {"identity_probability": told["identity_probability"]}


def process_belief(process: Posterior) -> Belief:
    """Curves drawn from the Gaussian process of a model average."""
    draws, weights = process.draws()
    return Belief(process.p, process.w, process.wy, weights @ draws, draws, weights, process.identity)
