"""One method on one half of one file: fitted there, scored on the rows that it has not seen."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import calibrant
from benchmarks.compare.data import read_file
from calibrant.errors import CalibrationError

HALVES = 20
#: Methods that take minutes for one curve, and hours for this comparison.
LEFT_OUT = ("pl-de",)
#: What is measured of the unseen half, by the reduction it is measured under.
SCORES: dict[str, list[Any]] = {
    "canonical": ["log-loss", "brier"],
    "confidence": [{"name": "ece", "binning": "equal-width"}, "ks", "accuracy"],
}


class Task(NamedTuple):
    """A method under a reduction, on a half of a file."""

    file: Path
    method: str
    reduction: str
    seed: int

    @property
    def key(self) -> str:
        """What its record is known by."""
        return f"{self.file.stem}/{self.method}/{self.reduction}/{self.seed}"


def tasks(files: list[Path]) -> list[Task]:
    """Every method of the vector under canonical; every method of an event under classwise, of two classes binary."""
    found = []
    for file in files:
        two = read_file(file).values.shape[1] == 2
        for name, method in calibrant.METHODS.items():
            if name in LEFT_OUT:
                continue
            of_event = "binary" if two else "classwise"
            reduction = "canonical" if method.vector is not None else of_event
            found += [Task(file, name, reduction, seed) for seed in range(HALVES)]
    # The quick halves of all come first, so that a run that is stopped has something of each.
    return sorted(found, key=lambda task: task.seed)


def run(task: Task) -> dict[str, Any]:
    """The scores on the unseen half, and the seconds of the fit; ``problem`` where there is no map."""
    given = read_file(task.file)
    order = np.random.default_rng(task.seed).permutation(len(given.labels))
    seen, unseen = np.array_split(order, 2)
    began = time.perf_counter()
    try:
        fitted = calibrant.fit(
            task.method, given.values[seen], given.labels[seen], reduction=task.reduction, scale=given.scale
        )
    except CalibrationError as error:
        return {"problem": error.code}
    seconds = time.perf_counter() - began
    q = fitted.apply(given.values[unseen])
    if q.ndim == 1:
        q = np.column_stack([1.0 - q, q])
    record: dict[str, Any] = {"seconds": seconds}
    for reduction, measures in SCORES.items():
        report = calibrant.evaluate(q, given.labels[unseen], measures=measures, reduction=reduction)
        record |= {key: result.value for key, result in report.measures.items()}
    return record
