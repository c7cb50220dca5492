"""One method on one half of one file, scored on the held-out half."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import calibrant
from benchmarks.compare.data import FilePredictions, read_file
from calibrant.calibrators.fitting import Fitting
from calibrant.calibrators.method import FitContext
from calibrant.core.batch import read_batch
from calibrant.core.errors import CalibrationError

HALVES = 20
#: The most classes of a file; order-preserving maps of 100 classes take minutes.
MOST_CLASSES = 25
#: Measures of the held-out half, by reduction.
SCORES: dict[str, list[Any]] = {
    "canonical": ["log-loss", "brier"],
    "confidence": [{"name": "ece", "binning": "equal-width"}, "ks", "accuracy"],
}

#: The event of the splines' paper, top-1 predictions, and its measures.
ONE_EVENT = "confidence"
OF_ONE_EVENT: list[Any] = ["log-loss", "brier", {"name": "ece", "binning": "equal-width"}, "ks"]


class CompareTask(NamedTuple):
    """A method under a reduction, on a half of a file."""

    file: Path
    method: str
    reduction: str
    seed: int

    @property
    def key(self) -> str:
        """The key of its record."""
        return f"{self.file.stem}/{self.method}/{self.reduction}/{self.seed}"


def tasks(files: list[Path]) -> list[CompareTask]:
    """Vector methods under canonical; event methods under classwise, or binary for two classes.

    Files of more than ``MOST_CLASSES`` classes are left out.
    """
    all_tasks = []
    for file in files:
        classes = read_file(file).values.shape[1]
        if classes > MOST_CLASSES:
            continue
        of_event = "binary" if classes == 2 else "classwise"
        for name, method in calibrant.METHODS.items():
            if not method.improves and name != "identity":
                continue
            reduction = "canonical" if method.vector is not None else of_event
            all_tasks += [CompareTask(file, name, reduction, seed) for seed in range(HALVES)]
    return _by_seed(all_tasks)


def tasks_of_one_event(files: list[Path]) -> list[CompareTask]:
    """Event methods that take less than a second, fitted to the event that the predicted class is correct."""
    names = [name for name, method in calibrant.METHODS.items() if method.event is not None and method.runs == "inline"]
    return _by_seed(
        [CompareTask(file, name, ONE_EVENT, seed) for file in files for name in names for seed in range(HALVES)]
    )


def _by_seed(all_tasks: list[CompareTask]) -> list[CompareTask]:
    # Ordered by seed, so that an interrupted run has results of every method.
    return sorted(all_tasks, key=lambda task: task.seed)


def run(task: CompareTask) -> dict[str, Any]:
    """The held-out scores and the seconds of the fit; ``problem`` if there is no map."""
    predictions_file = read_file(task.file)
    order = np.random.default_rng(task.seed).permutation(len(predictions_file.labels))
    training, held_out = np.array_split(order, 2)
    if task.reduction == ONE_EVENT:
        return _of_one_event(task, predictions_file, training, held_out)
    began = time.perf_counter()
    try:
        fitted = calibrant.fit(
            task.method,
            predictions_file.values[training],
            predictions_file.labels[training],
            reduction=task.reduction,
            scale=predictions_file.scale,
        )
    except CalibrationError as error:
        return {"problem": error.code}
    seconds = time.perf_counter() - began
    q = fitted.apply(predictions_file.values[held_out])
    if q.ndim == 1:
        q = np.column_stack([1.0 - q, q])
    record: dict[str, Any] = {"seconds": seconds}
    for reduction, measures in SCORES.items():
        report = calibrant.evaluate(q, predictions_file.labels[held_out], measures=measures, reduction=reduction)
        record |= {key: result.value for key, result in report.measures.items()}
    return record


def _of_one_event(
    task: CompareTask,
    predictions_file: FilePredictions,
    training: npt.NDArray[np.integer],
    held_out: npt.NDArray[np.integer],
) -> dict[str, Any]:
    """The scores of the event, without the cross-fitted gain that ``calibrant.fit`` reports, which takes most time."""
    batch = read_batch(
        predictions_file.values[training], predictions_file.labels[training], scale=predictions_file.scale
    )
    try:
        fitted = Fitting.read(task.method, {}, task.reduction).run(batch, FitContext())
    except CalibrationError as error:
        return {"problem": error.code}
    correct = predictions_file.values[held_out].argmax(axis=1) == predictions_file.labels[held_out]
    report = calibrant.evaluate(
        fitted.apply(predictions_file.values[held_out]), correct.astype(np.int8), measures=OF_ONE_EVENT
    )
    return {key: result.value for key, result in report.measures.items()}
