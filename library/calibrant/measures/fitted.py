"""Calibration errors from maps fitted to the test data: the distance of the map from the identity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from calibrant.averaging.process import Posterior, fit_process
from calibrant.calibrators import METHODS, FitContext, Method
from calibrant.core.cells import Cells, Floats, take
from calibrant.core.options import Option
from calibrant.core.reductions import Event, Vector
from calibrant.core.validation import divided
from calibrant.maps.curves import Curve, CurvePlaces, Predicted, calibrated, clipped_logit, logit_of
from calibrant.maps.ensemble import SecondClass
from calibrant.maps.order_preserving import OrderInvariant, OrderPreserving, stretched
from calibrant.maps.piecewise_linear import PL3_CLIP, LogitPiecewiseLinear, Polyline
from calibrant.maps.transforms import transformed
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import Measure, MeasureResult
from calibrant.measures.proper import mean_over_rows, mean_score
from calibrant.piecewise.folds import FoldCells, fold_cells
from calibrant.piecewise.options import CHOICES, AveragedOptions, PiecewiseOptions, check_rows

PieceFamily = Literal["pl", "pl3"]
#: The methods whose maps are measures; those of the vector are of the two classes of an event too.
EVALUATORS = tuple(name for name, method in METHODS.items() if method.evaluates)
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


def fitted_error(
    event: Event,
    name: str,
    *,
    norm: float,
    folds: int,
    level: float | None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> FittedError:
    """Return the mean |c(p) - p|^norm of a map c fitted to the same rows (Kangsepp et al. 2022, section 3).

    ``value`` uses the map that ``calibrant.fit`` fits with the method ``name`` and its ``options``; ``folds`` are those
    of the posterior, and of the fit if the method has that option. ``norm`` is at least 1. ``debiased`` is the mean of
    two estimates; the first is too low for smoothed maps and the second too high for maps that follow noise:

        norm 1:  mean |m - p|     and  mean s (y - p),       s = E sign(c - p)
        norm 2:  mean (m - p)^2   and  mean (m - p)(y - p)
        norm q:  mean |m - p|^q   and  mean |m - p|^(q - 1) sign(m - p) (y - p)

    with m the fitted map and c over its posterior. It may be below 0. Alternatives: docs/explanation/debiasing.md.
    Raises ``TooFewRows``, ``OneClass`` and ``OnePrediction``.
    """
    method = METHODS[name]
    chosen = _read_options(method, folds, options)
    piecewise = chosen.get("options", PiecewiseOptions(folds=folds))
    in_order = isinstance(piecewise, AveragedOptions) and piecewise.rows_in_order
    if isinstance(piecewise, AveragedOptions):
        piecewise = piecewise.piecewise()
    event, _ = divided(event)
    rows = event.counted_rows
    check_rows(rows.key, rows.y, piecewise)
    cells, counts = fold_cells(rows, folds, 0), piecewise.piece_counts(rows.count)
    posterior = fit_process(cells)
    process = process_belief(posterior)
    curve: Curve
    diagnostics: dict[str, Any]
    if name == "averaged":
        from calibrant.averaging.fitting import average_cells  # imported on first use

        curve, diagnostics = average_cells(cells, counts, piecewise, posterior, in_order=in_order)
        belief, diagnostics = process, {"identity_probability": diagnostics["identity_probability"]}
    elif name in ("pl", "pl3"):
        from calibrant.piecewise.fitting import fit_cells

        family: PieceFamily = "pl" if name == "pl" else "pl3"
        curve, diagnostics = fit_cells(family, cells, counts, piecewise)
        belief, diagnostics = (
            piecewise_belief(family, cells, curve, diagnostics["pieces"]),
            {"pieces": diagnostics["pieces"]},
        )
    else:
        curve, diagnostics = curve_of(method, event, chosen)
        belief, diagnostics = replace(process, centre=calibrated(curve, posterior)), {}
    value, corrected = plugged_error(event.cells, curve, norm), debiased(belief, norm)
    # Curves around a single PL or PL3 fit ignore other numbers of pieces, so the spread is that of the process.
    interval = None if level is None else interval_about(process, corrected, norm, level)
    return FittedError(value, corrected, interval, curve, diagnostics)


def fit_options(name: str) -> Mapping[str, Option]:
    """Return the options of the fit of a method of ``EVALUATORS`` to an event, and ``folds``."""
    own = dict(METHODS[name].options)
    if name == "averaged":  # whose default depends on whether it fits an event
        own["folds"] = CHOICES["folds"]
    return {"folds": CHOICES["folds"], **own}


def _read_options(method: Method, folds: int, options: Mapping[str, Any]) -> dict[str, Any]:
    return method.read_options({**options, "folds": folds} if "folds" in method.known_options() else options)


def curve_of(method: Method, event: Event, options: Mapping[str, Any]) -> tuple[Curve, dict[str, Any]]:
    """Fit a curve; maps of the vector are fitted to both classes of the event. By rank they are PL3 curves."""
    if method.event is not None:
        return method.curve(event, FitContext(), options)
    both = np.column_stack([1.0 - event.p, event.p])
    logits = None if event.logit is None else np.column_stack([np.zeros(len(event)), event.logit])
    vector = Vector(both, event.y.astype(np.int64), event.w, event.kind, logits, event.clusters)
    transform, diagnostics = method.transform(vector, FitContext(), options)
    if not isinstance(transform, OrderInvariant | OrderPreserving):
        return SecondClass((transform,)), diagnostics
    # With two classes the only gap is |logit p|, stretched by the slopes of the first rank and of the class there.
    end = float(np.abs(logit_of(event, PL3_CLIP)).max(initial=clipped_logit(np.ones(1), PL3_CLIP)[0]))
    gaps = np.unique(np.concatenate([[0.0], transform.knots[transform.knots < end], [end]]))
    slopes = np.broadcast_to(transform.rank_slopes[0], (2, transform.rank_slopes.shape[1]))
    if isinstance(transform, OrderPreserving):
        slopes = slopes + transform.class_slopes
    below, above = (stretched(gaps, transform.knots, of_class) for of_class in slopes)
    knots, heights = np.append(-gaps[:0:-1], gaps), np.append(-below[:0:-1], above)
    return LogitPiecewiseLinear((Polyline(knots, heights),)), diagnostics


def vector_error(
    vector: Vector, name: str, *, norm: float, folds: int, options: Mapping[str, Any]
) -> tuple[float, dict[str, Any]]:
    """Return the mean over the rows of sum_k |c_k(p) - p_k|^norm for a map c fitted to the same vectors, and its parts.

    The power is that of the canonical calibration error CE_norm (Gruber & Buettner 2022, definition 2) with c in place
    of P(Y | p). It is at most 2. Raises what the fit raises. O(n K) and a fit.
    """
    method = METHODS[name]
    transform, _ = method.transform(vector, FitContext(), _read_options(method, folds, options))
    after = replace(vector, probabilities=transformed(transform, vector), logits=None)
    off = np.abs(after.p - vector.p)

    def error(power: float) -> float:
        return mean_over_rows((off**power).sum(axis=1), vector.w)

    return error(norm), {"alpha_1": error(1), "alpha_2": error(2), "log_loss": mean_score(after, "log-loss")}


def plugged_error(cells: Cells, curve: Curve, norm: float) -> float:
    """Return the mean |c(p) - p|^norm of a curve over cells."""
    return float(cells.w @ np.abs(calibrated(curve, cells) - cells.p) ** norm / cells.mass)


def off_the_ends(curve: Curve, cells: Cells, of: Predicted) -> Floats:
    """Return calibrated predictions ``(n,)``, with values of exactly 0 or 1 moved inside; ``cells`` are of the fit.

    The outer blocks of an isotonic map are often exactly 0 or 1, for which a single contrary row has an infinite log
    loss. Fitted cells of mass m with k positives and such a value get (k + 1/2) / (m + 1). If no cell has the value, as
    below a curve that reaches it only by rounding, it stays.
    """
    c, fitted = (np.clip(calibrated(curve, rows), 0.0, 1.0) for rows in (of, cells))
    for end in (0.0, 1.0):
        here = fitted == end
        if here.any():
            c[c == end] = (cells.wy[here].sum() + 0.5) / (cells.w[here].sum() + 1.0)
    return c


def fitted_log_loss(cells: Cells, curve: Curve) -> float:
    """Return the mean log loss of the map on the rows of the fit, in nats, with ``off_the_ends``."""
    c = off_the_ends(curve, cells, cells)
    return float(-(cells.wy @ np.log(c) + (cells.w - cells.wy) @ np.log1p(-c)) / cells.mass)


def debiased(belief: Belief, norm: float) -> float:
    """Return the debiased error: see ``fitted_error``."""
    share = belief.w / belief.w.sum()
    off = belief.centre - belief.p
    residual = (belief.wy - belief.w * belief.p) / belief.w.sum()
    if norm > 1:
        size = np.abs(off)
        return float(share @ size**norm + (size ** (norm - 1.0) * np.sign(off)) @ residual) / 2
    sign = belief.weights @ np.sign(belief.draws - belief.p)
    return float(share @ np.abs(off) + sign @ residual) / 2


def interval_about(belief: Belief, corrected: float, norm: float, level: float) -> tuple[float, float]:
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
    centre = calibrated(curve, cells)
    whole = fit_to_all(family, cells, pieces)
    moved = deviations(family, whole, cells, w, np.random.default_rng(0), _DRAWS)
    draws = np.clip(centre + moved, 0.0, 1.0)
    return Belief(cells.p, w, wy, centre, draws, np.full(_DRAWS, 1.0 / _DRAWS), 0.0)


def process_belief(process: Posterior) -> Belief:
    """Draw curves from the Gaussian process of a model average."""
    draws, weights = process.draws()
    return Belief(process.p, process.w, process.wy, weights @ draws, draws, weights, process.identity)


# --- Entries of the catalogue


_FAMILY = "Fit on the test data"
#: The report contains the fitted map at this many quantiles of the predictions.
_PLACES = 101


def _compute(name: str) -> Callable[..., MeasureResult]:
    def compute(event: Event, resampling: Resampling, *, norm: float, folds: int, **options: Any) -> MeasureResult:
        # The posterior assumes independent rows, which those of a pooled event and of clusters are not.
        level = resampling.level if event.independent else None
        fitted = fitted_error(event, name, norm=norm, folds=folds, level=level, options=options)
        cells = event.cells
        at = np.unique(np.searchsorted(cells.cumulative_w[1:], cells.mass * np.arange(_PLACES) / (_PLACES - 1)))
        at = np.minimum(at, len(cells) - 1)
        places = CurvePlaces(cells.p[at], take(cells.logit, at))
        parts = {
            "alpha_1": plugged_error(cells, fitted.curve, 1),
            "alpha_2": plugged_error(cells, fitted.curve, 2),
            "log_loss": fitted_log_loss(cells, fitted.curve),
            "map": {"predictions": places.p.tolist(), "calibrated": calibrated(fitted.curve, places).tolist()},
        }
        return MeasureResult(fitted.value, fitted.debiased, fitted.interval, parts=parts, definition=fitted.diagnostics)

    return compute


def _compute_vector(name: str) -> Callable[..., MeasureResult]:
    def compute(vector: Vector, resampling: Resampling, *, norm: float, folds: int, **options: Any) -> MeasureResult:
        value, parts = vector_error(vector, name, norm=norm, folds=folds, options=options)
        problem = None if resampling.level is None else "no interval: it is defined for one event"
        return MeasureResult(value, parts=parts, problem=problem)

    return compute


def _seconds(method: Method) -> Callable[[int, int, Mapping[str, Any]], float]:
    known = method.known_options()

    def seconds(n: int, n_classes: int, options: Mapping[str, Any]) -> float:
        chosen = method.read_options({name: value for name, value in options.items() if name in known})
        return 0.03 + method.seconds(n, n_classes if method.event is not None else max(n_classes, 2), chosen)

    return seconds


_DEBIASED = (
    "No root. Debiased: the average of mean |m - p|^norm and of mean s (y - p) (norm 1, with s the expected sign of "
    "c - p) or mean |m - p|^(norm - 1) sign(m - p) (y - p) (norm above 1), with m the fitted map and c over the curves "
    "of a Gaussian process"
)
_OF_VECTORS = "; for the vector mean sum_k |c_k(p) - p_k|^norm, at most 2, neither debiased nor with an interval"
_OF_TWO = ". For an event the map is that of the vector (1 - p, p)"

MEASURES = tuple(
    Measure(
        f"ece-{name}",
        f"Calibration error by fitting: {method.title}",
        _FAMILY,
        f"mean |c(p) - p|^norm, with c the map that the method {name} fits to the same rows, not clipped to [0, 1]. "
        f"{_DEBIASED}{_OF_VECTORS if method.vector else ''}{'' if method.event else _OF_TWO}",
        f"Kangsepp, Valk & Kull (2022), section 3; {method.source}; docs/explanation/debiasing.md",
        0.0,
        1.0 if method.vector is None else 2.0,
        "O(n log n) and a fit to a few hundred cells" if method.vector is None else "O(n K + n log n) and a fit",
        meaning=f"Mean absolute difference between the predictions and a map fitted to the same rows ({method.title}).",
        event=_compute(name),
        vector=None if method.vector is None else _compute_vector(name),
        needs="both outcomes, different predictions, at least as many rows as folds",
        options={"norm": Option(1, low=1.0, high=1e9, real=True), **fit_options(name)},
        runs=method.runs,
        is_error=True,
        seconds=_seconds(method),
        own_interval=True,
        needs_vectors=name == "temperature",  # which scales all logits of a row
    )
    for name, method in ((name, METHODS[name]) for name in EVALUATORS)
)
