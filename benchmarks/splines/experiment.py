"""One half of one network: every calibrator fitted to it, and every measure on the other half."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import calibrant
from benchmarks.compare.data import read_file
from benchmarks.splines.nn_logits import read_logits
from calibrant.calibrators.fitting import Fitting
from calibrant.calibrators.method import FitContext
from calibrant.core.batch import Batch, Scale, read_batch
from calibrant.core.reductions import reduce

HALVES = 20
#: The events of the paper: top-1, top-2 and within-top-2 predictions.
EVENTS = ("confidence", "top:2", "within-top:2")
#: The numbers of knots of the paper's tables: 1, 2, 5 and 7; 6; 4.
KNOTS = (6, 13, 14)
#: Splines of label minus score, as in the published code, and of the label, as in the paper's text.
SPLINES = {"spline": "difference", "spline of the label": "label"}
#: The paper's other calibrators, which map whole vectors.
VECTORS = ("temperature", "vector", "matrix-odir", "dirichlet-odir")
_BINS = {"binning": "equal-width", "n_bins": 25, "closed": "right"}
MEASURES: list[Any] = [
    "ks",
    {"name": "ece", **_BINS},
    "kde-ece",
    {"name": "mce", **_BINS},
    "brier",
]

Floats = npt.NDArray[np.float64]
#: Accuracy of the class of the highest, and of the second highest score, and of either.
ACCURACIES = ("accuracy", "top-2 accuracy", "within-top-2 accuracy")
#: Calibrator (splines with their knots) -> event -> measure -> value; accuracies are under the event "accuracy".
Record = dict[str, dict[str, dict[str, float]]]


class Halves(NamedTuple):
    """Rows for the fit, and rows for the measures."""

    training: Batch
    held_out: Batch


def networks(folder: Path) -> list[Path]:
    """The files of a folder with predictions of CIFAR-10 or CIFAR-100, and the pickled logits."""
    return [*sorted(folder.glob("*cifar10*.npz")), *sorted(folder.glob("*.p"))]


def halves(path: Path, seed: int) -> Halves:
    """A random half of the rows and the other half; of pickled logits the validation and the test set."""
    if path.suffix == ".p":
        validation, test = read_logits(path)
        return Halves(*(read_batch(split.logits, split.labels, scale="logit") for split in (validation, test)))
    predictions_file = read_file(path)
    training, held_out = np.array_split(np.random.default_rng(seed).permutation(len(predictions_file.labels)), 2)
    return Halves(
        *(
            _batch(predictions_file.values[rows], predictions_file.labels[rows], predictions_file.scale)
            for rows in (training, held_out)
        )
    )


def run(path: Path, seed: int) -> Record:
    """Every value of one half. Some 2 s for ten classes of logits, 20 s otherwise, 30 s for 100 classes."""
    training, held_out = halves(path, seed)
    events = {event: reduce(held_out, event) for event in EVENTS}
    record = {"uncalibrated": _of_batch(held_out)}
    for method in VECTORS:
        fitted = _fitted(method, training, "canonical")
        record[method] = _of_batch(read_batch(fitted.apply_checked(held_out.predictions), held_out.labels))
    for name, of in SPLINES.items():
        for knots in KNOTS:
            values = {}
            for event, reduced in events.items():
                fitted = _fitted("spline", training, event, knots=knots, of=of)
                calibrated = np.clip(fitted.apply_checked(held_out.predictions), 0.0, 1.0)
                values[event] = _measured(calibrated, reduced.y)
                if knots == KNOTS[0] and of == "difference":
                    record.setdefault("perfect", {})[event] = _of_perfect(calibrated, seed)
            record[f"{name}, {knots} knots"] = values
        ranked = _fitted("spline", training, "ranks", knots=KNOTS[0], of=of).apply_checked(held_out.predictions)
        record[f"{name}, {KNOTS[0]} knots"]["accuracy"] = _accuracy(ranked, held_out.labels)
    return record


def _batch(values: npt.NDArray[Any], labels: npt.NDArray[Any], scale: Scale) -> Batch:
    return read_batch(values, labels, scale=scale)


def _fitted(method: str, training: Batch, reduction: str, **options: Any) -> calibrant.CalibrationMap:
    return Fitting.read(method, options, reduction).run(training, FitContext())


def _of_batch(batch: Batch) -> dict[str, dict[str, float]]:
    events = {event: reduce(batch, event) for event in EVENTS}
    values = {event: _measured(reduced.p, reduced.y) for event, reduced in events.items()}
    return values | {"accuracy": _accuracy(batch.predictions.values, batch.labels)}


def _measured(p: Floats, y: npt.NDArray[Any]) -> dict[str, float]:
    report = calibrant.evaluate(p, y, measures=MEASURES)
    return {name: float(result.value) for name, result in report.measures.items() if result.value is not None}


def _of_perfect(p: Floats, seed: int) -> dict[str, float]:
    """The values of a perfectly calibrated network with these predictions: labels are drawn from them."""
    return _measured(p, (np.random.default_rng(seed).random(len(p)) < p).astype(np.int8))


def _accuracy(probs: Floats, labels: npt.NDArray[np.int64]) -> dict[str, float]:
    first, second = (np.argsort(-probs, axis=1, kind="stable")[:, rank] == labels for rank in (0, 1))
    return {name: float(right.mean()) for name, right in zip(ACCURACIES, (first, second, first | second), strict=True)}
