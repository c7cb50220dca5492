"""Time and peak memory of expensive measures, each in a separate process."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import calibrant
from benchmarks.peers.data import binary, load_matrix, matrix
from benchmarks.timing import medians

ROUNDS, BINS = 5, 15
#: Timed classes of a library that is slow and handles classes one by one.
TIMED = 10


class Cost(NamedTuple):
    """Seconds by part, and the peak memory of the process in MB."""

    seconds: dict[str, float]
    megabytes: float


def panels(folder: Path) -> Cost:
    """The default measures of the confidence and of every class."""
    p, labels = load_matrix(folder)
    return _cost(
        {
            reduction: lambda reduction=reduction: calibrant.evaluate(p, labels, reduction=reduction)  # type: ignore[misc]
            for reduction in ("confidence", "classwise")
        }
    )


def torchmetrics_confidence(folder: Path) -> Cost:
    """The error of the confidence over equal-width bins, by torchmetrics."""
    import torch
    from torchmetrics.classification import MulticlassCalibrationError

    p, labels = (torch.from_numpy(values) for values in load_matrix(folder))
    return _cost({"confidence": lambda: MulticlassCalibrationError(num_classes=p.shape[1], n_bins=BINS)(p, labels)})


def netcal_confidence(folder: Path) -> Cost:
    """The error of the confidence over equal-width bins, by netcal."""
    from netcal.metrics import ECE

    p, labels = load_matrix(folder)
    return _cost({"confidence": lambda: ECE(BINS).measure(p, labels)})


def uncertainty_calibration(folder: Path) -> Cost:
    """The errors of the confidence and of every class over equal-width bins, extrapolated from ten classes."""
    import calibration

    p, labels = load_matrix(folder)
    taken = _cost({"confidence": lambda: calibration.get_ece(p, labels, num_bins=BINS)})
    began = time.perf_counter()
    for k in range(TIMED):
        calibration.get_ece(p[:, k], (labels == k).astype(np.int64), num_bins=BINS)
    by_class = (time.perf_counter() - began) / TIMED * p.shape[1]
    return Cost({**taken.seconds, "classwise": by_class}, _peak())


def kernel_binary(n: int) -> Cost | None:
    """The unbiased squared kernel calibration error; None if the catalogue has none."""
    if "skce" not in calibrant.MEASURES:
        return None
    p, y = binary(n)
    return _cost({"skce": lambda: calibrant.evaluate(p, y, measures=["skce"])})


def kernel_canonical(n: int) -> Cost | None:
    """As ``kernel_binary``, of the whole vector of ten classes."""
    if "skce" not in calibrant.MEASURES:
        return None
    p, labels = matrix(n, 10)
    return _cost({"skce": lambda: calibrant.evaluate(p, labels, reduction="canonical", measures=["skce"])})


def netcal_kernel(n: int) -> Cost:
    """The closest counterpart: netcal's biased maximum mean calibration error of the confidence."""
    from netcal.metrics import MMCE

    p, labels = matrix(n, 10)
    return _cost({"mmce": lambda: MMCE().measure(p, labels)})


def _cost(contenders: dict[str, Callable[[], object]]) -> Cost:
    seconds = medians(contenders, rounds=ROUNDS)
    return Cost(seconds, _peak())


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
