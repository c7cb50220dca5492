"""The evaluators: maps fitted to the evaluated rows, and the calibration errors that they report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import calibrant
from calibrant import METHODS
from calibrant.calibrators import FitContext
from calibrant.core.binning import BinnedCells, equal_mass, equal_width
from calibrant.core.cells import Floats
from calibrant.core.reductions import Event
from calibrant.core.validation import simplest
from calibrant.maps.curves import Identity
from calibrant.measures.binned import expected_calibration_error
from calibrant.piecewise.families import Family
from calibrant.piecewise.fitting import cross_fit
from calibrant.piecewise.folds import fold_cells
from calibrant.piecewise.options import Loss, PiecewiseOptions

#: A map ``(n,) -> (n,)``.
Map = Callable[[Floats], Floats]

#: Columns of Tables F2 to F11, in the paper's order.
PAPER = ("ES_10", "ES_15", "ES_20", "ES_25", "ES_30", "ES_sweep", "ES_CV", "PL3 CE", "PL3 MSE", "PL CE", "PL MSE",
         "PL_DE", "Platt", "beta", "isotonic", "KDE", "Spline natural", "Spline cubic", "Spline parabolic", "IOP_OI",
         "IOP_OP")  # fmt: skip
#: The other column of Tables F12 and F13.
QUADRATIC = "PL_DE degree 2"
#: The other columns of Tables F14 and F15.
WIDTHS = ("EW_10", "EW_15", "EW_20", "EW_CV")
#: The other columns of Tables F16 and F17.
NO_RULE = ("PL CE no rule", "PL3 CE no rule", "PL_DE no rule", "ES_CV no rule")
#: Columns that the paper does not have: the predictions as given, and the average.
OURS = ("identity", "averaged")
EVALUATORS = (*PAPER, QUADRATIC, *WIDTHS, *NO_RULE, *OURS)

#: Methods of the library, with their options.
_CURVES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "Platt": ("platt", {}),
    "beta": ("beta", {}),
    "isotonic": ("isotonic", {}),
    "KDE": ("kde", {}),
    "Spline natural": ("spline", {"knots": None, "boundary": "natural"}),
    "Spline cubic": ("spline", {"knots": None, "boundary": "cubic"}),
    "Spline parabolic": ("spline", {"knots": None, "boundary": "parabolic"}),
    "averaged": ("averaged", {}),
}
_BINNED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    **{f"ES_{count}": ("histogram", {"n_bins": count, "slope": "unit"}) for count in (10, 15, 20, 25, 30)},
    **{
        f"EW_{count}": ("histogram", {"n_bins": count, "slope": "unit", "binning": "equal-width"})
        for count in (10, 15, 20)
    },
    "ES_sweep": ("es-sweep", {}),
    "ES_CV": ("es-cv", {}),
    "ES_CV no rule": ("es-cv", {"tolerance": 0.0}),
    "EW_CV": ("ew-cv", {}),
}
_PIECEWISE: Mapping[str, tuple[Family, Loss]] = {
    "PL CE": ("pl", "log-loss"),
    "PL MSE": ("pl", "brier"),
    "PL3 CE": ("pl3", "log-loss"),
    "PL3 MSE": ("pl3", "brier"),
}
_ORDER_PRESERVING = {"IOP_OI": "iop-oi", "IOP_OP": "iop-op"}
_FOLDS = 10


@dataclass(frozen=True)
class Estimate:
    """A fitted map, and the calibration errors of norm 1 and 2 that an evaluator reports."""

    map: Map
    errors: tuple[float, float]


def estimates(event: Event, names: Sequence[str], seed: int) -> dict[str, Estimate]:
    """Fit the evaluators to the rows of an event. Errors of bins are debiased, as in the paper."""
    by_name: dict[str, Estimate] = {}
    for name in names:
        if name in by_name:
            continue
        if name in _BINNED:
            by_name[name] = _binned(name, event, seed)
        elif name.startswith("PL_DE"):
            by_name |= _by_evolution(event, 2 if name == QUADRATIC else 1, seed)
        elif name.startswith(("PL ", "PL3 ")):
            by_name |= _piecewise(name.removesuffix(" no rule"), event, seed)
        elif name in _ORDER_PRESERVING:
            by_name[name] = _plain(_order_preserving(_ORDER_PRESERVING[name], event), event)
        elif name == "identity":
            by_name[name] = _plain(Identity(), event)
        else:
            by_name[name] = _plain(_curve(*_CURVES[name], event, seed)[0], event)
    return {name: by_name[name] for name in names}


def _plain(fitted: Map, event: Event) -> Estimate:
    """The mean distance of a map from the identity, which is not debiased."""
    gap = fitted(event.p) - event.p
    return Estimate(fitted, (float(np.abs(gap).mean()), float((gap * gap).mean())))


def _curve(method: str, options: Mapping[str, Any], event: Event, seed: int) -> tuple[Map, dict[str, Any]]:
    entry = METHODS[method]
    return entry.curve(event, FitContext(seed=seed), entry.read_options(options))


def _binned(name: str, event: Event, seed: int) -> Estimate:
    """A map of slope 1 within each bin, and the debiased error of the same bins."""
    method, options = _BINNED[name]
    fitted, diagnostics = _curve(method, options, event, seed)
    count = options.get("n_bins") or diagnostics["bins"]
    bins: BinnedCells = equal_width(event, count) if name.startswith("EW") else equal_mass(event.cells, count)
    return Estimate(fitted, (expected_calibration_error(bins, 1)[1], expected_calibration_error(bins, 2)[1]))


def _piecewise(name: str, event: Event, seed: int) -> dict[str, Estimate]:
    """PL or PL3 with and without the 0.1 % rule, from the same fits."""
    family, loss = _PIECEWISE[name]
    options = PiecewiseOptions(loss=loss)
    counts = options.piece_counts(len(event))
    cells = fold_cells(event.sorted_rows, _FOLDS, seed)
    fits = cross_fit(family, cells, counts, options, device="cpu")
    scores = fits.held_out(cells, options.select).mean(axis=1)
    best, smallest = int(scores.argmin()), simplest(counts, scores)
    refined = fits.refined({best, smallest})
    chosen, freely = refined.curve(smallest), refined.curve(best)
    return {name: _plain(chosen, event), f"{name} no rule": _plain(freely, event)}


def _by_evolution(event: Event, degree: int, seed: int) -> dict[str, Estimate]:
    """PL_DE with the 0.1 % rule and, for degree 1, with the number of segments of the best score.

    The segments are extended beyond the rows, steeply in some cases, so that values are clipped as those of maps are.
    """

    def curve(**options: int) -> tuple[Map, dict[str, Any]]:
        raw, diagnostics = _curve("pl-de", {"degree": degree, **options}, event, seed)
        return lambda p: np.clip(raw(p), 0.0, 1.0), diagnostics

    fitted, diagnostics = curve()
    if degree == 2:
        return {QUADRATIC: _plain(fitted, event)}
    losses = {int(count): loss for count, loss in diagnostics["held_out_losses"].items()}
    best = min(losses, key=losses.__getitem__)
    freely = fitted
    if best != diagnostics["segments"]:
        freely = curve(segments=best)[0]
    return {"PL_DE": _plain(fitted, event), "PL_DE no rule": _plain(freely, event)}


def _order_preserving(method: str, event: Event) -> Map:
    """A map of both classes of the event, of which the second is evaluated."""
    fitted = calibrant.fit(method, _both(event.p), event.y)
    return lambda p: np.asarray(fitted.apply(_both(p)))[:, 1]


def _both(p: Floats) -> Floats:
    return np.column_stack([1.0 - p, p])
