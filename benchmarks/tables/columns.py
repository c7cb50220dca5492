"""The results of every method on one dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.tables.binnings import Kind, cross_validated, roof, swept
from benchmarks.tables.datasets import Floats, SimulatedData, unseen_predictions, unseen_truth
from calibrant.averaging.fitting import average
from calibrant.averaging.process import Posterior, fit_process
from calibrant.core.cells import cells_of, sort_rows
from calibrant.core.validation import TOLERANCE, simplest
from calibrant.evaluation import evaluate
from calibrant.maps.beta import fit_beta
from calibrant.maps.curves import Identity
from calibrant.maps.isotonic import fit_isotonic
from calibrant.maps.piecewise_polynomial import fit_pl_de
from calibrant.maps.platt import fit_platt
from calibrant.measures.fitted import debiased, piecewise_belief, process_belief
from calibrant.piecewise.families import Family
from calibrant.piecewise.fitting import CrossFit, cross_fit
from calibrant.piecewise.folds import FoldCells, fold_cells
from calibrant.piecewise.options import Loss, PiecewiseOptions

Map = Callable[[Floats], Floats]
#: Maps that need over 50 ms for a million points are compared with the true map on every 50th point.
SLOW_STEP = 50
_KINDS: tuple[Kind, ...] = ("ES", "EW")
_PIECEWISE: tuple[tuple[Family, Loss, str, int], ...] = (
    ("pl", "log-loss", "PL CE", 1),
    ("pl", "brier", "PL MSE", 1),
    ("pl3", "log-loss", "PL3 CE", SLOW_STEP),
    ("pl3", "brier", "PL3 MSE", SLOW_STEP),
)
#: Cells of the test points, by calibrated probability, in which the true probability is averaged.
_AFTER_CELLS = 2_000


@dataclass(frozen=True)
class MethodColumn:
    """A method's map, its reported calibration errors, and the step of its test points."""

    map: Map
    errors: tuple[float, float]
    step: int = 1
    pieces: int | None = None


def answers(data: SimulatedData) -> dict[str, dict[str, Any]]:
    """For each method: distances of its map from the truth and its calibration errors; and the true errors."""
    return {"truth": _true_errors(data)} | {name: _answer(data, column) for name, column in _columns(data).items()}


def _true_errors(data: SimulatedData) -> dict[str, Any]:
    return {
        "error": float(np.abs(data.p - data.c).mean()),
        "squared": float(((data.p - data.c) ** 2).mean()),
        "oracle": float((np.sign(data.c - data.p) * (data.y - data.p)).mean()),
    }


def later_answers(data: SimulatedData) -> dict[str, dict[str, Any]]:
    """PL by differential evolution, and the squared kernel calibration error, which has no map."""
    rows, p = sort_rows(data.p, data.y), data.p
    curve, diagnostics = fit_pl_de(
        rows, "frequency", degree=1, segments=None, most=None, folds=10, tolerance=TOLERANCE, seed=0
    )
    kernel = {"name": "skce", "label_kernel": "gaussian"}
    return {
        "PL-DE": _answer(data, MethodColumn(curve, _plain(curve, p), pieces=diagnostics["segments"])),
        "KCE": {"squared": evaluate(p, data.y, measures=[kernel])["skce"].value},
    }


def _answer(data: SimulatedData, column: MethodColumn) -> dict[str, Any]:
    p, truth = (all_of[:: column.step] for all_of in (unseen_predictions(data.shape, data.derivate), unseen_truth()))
    calibrated = column.map(p)
    return {
        "distance": float(np.abs(calibrated - truth).mean()),
        "cmee": float(((calibrated - truth) ** 2).mean()),
        "ceac": error_after(calibrated, truth),
        "error": column.errors[0],
        "squared": column.errors[1],
        "pieces": column.pieces,
    }


def error_after(calibrated: Floats, truth: Floats) -> float:
    """Squared calibration error after calibration: the true probability is averaged over (nearly) equal map values."""
    order = np.argsort(calibrated, kind="stable")
    values, true = calibrated[order], truth[order]
    starts = np.unique(np.searchsorted(values, values[np.arange(_AFTER_CELLS) * len(values) // _AFTER_CELLS]))
    sizes = np.diff(np.append(starts, len(values)))
    gap = (np.add.reduceat(values, starts) - np.add.reduceat(true, starts)) / sizes
    return float(sizes @ gap**2 / len(values))


def _columns(data: SimulatedData) -> dict[str, MethodColumn]:
    p, y = data.p, data.y.astype(np.float64)
    columns: dict[str, MethodColumn] = {}
    for kind in _KINDS:
        curves = {"15": roof(kind, p, y, 15), "sweep": swept(kind, p, y), "CV": cross_validated(kind, p, y)}
        for name, bins in curves.items():
            columns[f"{kind}_{name}"] = MethodColumn(bins, (bins.error(1), bins.error(2)), pieces=len(bins.bins))
    rows = sort_rows(p, data.y)
    cells = cells_of(rows)
    for name, curve in (("Platt", fit_platt(cells)), ("beta", fit_beta(cells)), ("isotonic", fit_isotonic(cells))):
        columns[name] = MethodColumn(curve, _plain(curve, p))
    return columns | _fitted(data, fold_cells(rows, 10, 0))


def _plain(curve: Map, p: Floats) -> tuple[float, float]:
    off = curve(p) - p
    return float(np.abs(off).mean()), float((off * off).mean())


def _fitted(data: SimulatedData, cells: FoldCells) -> dict[str, MethodColumn]:
    """All variants of PL and PL3, and the average."""
    columns: dict[str, MethodColumn] = {}
    counts = PiecewiseOptions().piece_counts(data.n)
    fits: list[CrossFit] = []
    for family, loss, label, step in _PIECEWISE:
        fit = cross_fit(family, cells, counts, PiecewiseOptions(loss=loss), device="cpu")
        scores = fit.held_out(cells, "brier").mean(axis=1)
        chosen, freely = simplest(counts, scores), int(scores.argmin())
        refined = fit.refined(range(len(counts)) if loss == "log-loss" else [chosen])
        curve = refined.curve(chosen)
        columns[label] = MethodColumn(curve, _plain(curve, data.p), step, counts[chosen])
        if loss == "log-loss":
            fits.append(fit)
            belief = piecewise_belief(family, cells, curve, counts[chosen])
            columns[f"{label} debiased"] = MethodColumn(curve, (debiased(belief, 1), debiased(belief, 2)), step)
            free, mixed = refined.curve(freely), refined.weighted(cells)
            columns[f"{label} no rule"] = MethodColumn(free, _plain(free, data.p), step, counts[freely])
            columns[f"{label} weighted"] = MethodColumn(mixed, _plain(mixed, data.p), SLOW_STEP)
    return columns | averages(data.p, cells, fits)


def averages(p: Floats, cells: FoldCells, fits: Sequence[CrossFit]) -> dict[str, MethodColumn]:
    """The average of PL and PL3 fits in order and without order, its debiased error, and its Gaussian process."""
    columns: dict[str, MethodColumn] = {}
    process = fit_process(cells)
    belief = process_belief(process)
    for in_order, name in ((True, "averaged"), (False, "averaged free")):
        averaged, diagnostics = average(cells, fits, process, in_order=in_order)
        # As in the library: the map is the identity without a cross-fitted gain, and measures use the average itself.
        shipped = averaged if diagnostics["held_out_gain"]["log_loss"] > 0.0 else Identity()
        columns[name] = MethodColumn(shipped, _plain(averaged, p), SLOW_STEP)
    errors = debiased(belief, 1), debiased(belief, 2)
    columns["averaged debiased"] = MethodColumn(columns["averaged"].map, errors, SLOW_STEP)
    columns["process"] = MethodColumn(process.mean, _plain(process.mean, p), SLOW_STEP)
    return columns


def averaged_answers(data: SimulatedData) -> dict[str, dict[str, Any]]:
    """The answers of ``averages``, with the AUROC of the test points before and after each map; and the true errors."""
    cells = fold_cells(sort_rows(data.p, data.y), 10, 0)
    counts = PiecewiseOptions().piece_counts(data.n)
    fits = [cross_fit(family, cells, counts, PiecewiseOptions(), device="cpu") for family in ("pl", "pl3")]
    p, truth = (all_of[::SLOW_STEP] for all_of in (unseen_predictions(data.shape, data.derivate), unseen_truth()))
    before = auroc(p, truth)
    answers = {"truth": _true_errors(data)}
    for name, column in averages(data.p, cells, fits).items():
        answers[name] = _answer(data, column) | {"auroc lost": before - auroc(column.map(p), truth)}
    return answers


def auroc(predictions: Floats, truth: Floats) -> float:
    """The area under the ROC curve of predictions whose labels have these true probabilities; ties count one half."""
    place = np.unique(predictions, return_inverse=True)[1]
    positives, negatives = np.bincount(place, truth), np.bincount(place, 1.0 - truth)
    below = np.cumsum(negatives) - negatives / 2.0
    return float(positives @ below / (positives.sum() * negatives.sum()))


def process_of(data: SimulatedData) -> Posterior:
    """The Gaussian process of the average."""
    return fit_process(fold_cells(sort_rows(data.p, data.y), 10, 0))


def debiased_errors(data: SimulatedData, process: Posterior) -> dict[str, Any]:
    """The true error, the debiased errors of the average and of ES_15, and of an oracle that knows every sign."""
    return {
        "truth": float(np.abs(data.p - data.c).mean()),
        "averaged debiased": debiased(process_belief(process), 1),
        "ES_15": roof("ES", data.p, data.y.astype(np.float64), 15).error(1),
        "oracle": float((np.sign(data.c - data.p) * (data.y - data.p)).mean()),
    }
