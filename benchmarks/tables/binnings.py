"""Calibration maps of binnings as in the paper's code: slope 1 per bin, unclipped, 0 in empty bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.tables.datasets import Floats
from calibrant.core.binning import BinnedCells
from calibrant.core.validation import fold_of_rows, simplest
from calibrant.measures.binned import expected_calibration_error

Kind = Literal["ES", "EW"]
_MOST = 40
_FOLDS = 10


@dataclass(frozen=True)
class Roof:
    """c(p) = p + offset of the bin; ``inner (b - 1,)`` edges; empty bins map to 0."""

    inner: Floats
    offset: Floats
    empty: np.ndarray[tuple[int], np.dtype[np.bool_]]
    bins: BinnedCells

    def __call__(self, p: Floats) -> Floats:
        """The map at ``p``."""
        k = np.searchsorted(self.inner, p, side="right")
        return np.where(self.empty[k], 0.0, p + self.offset[k])

    def error(self, norm: Literal[1, 2]) -> float:
        """The debiased calibration error."""
        return expected_calibration_error(self.bins, norm)[1]


def roof(kind: Kind, p: Floats, y: Floats, count: int) -> Roof:
    """Bins of sorted rows: equal numbers of rows (the first n mod b one more), or equal widths."""
    n = len(p)
    if kind == "ES":
        share, rest = divmod(n, count)
        sizes = np.full(count, share)
        sizes[:rest] += 1
        starts = np.cumsum(sizes) - sizes
        inner = p[starts[1:]]
    else:
        inner = np.arange(1, count) / count
        starts = np.concatenate(([0], np.searchsorted(p, inner, side="left")))
        sizes = np.diff(np.append(starts, n))
    bounds = np.append(starts, n)
    sum_p, sum_y = (np.concatenate(([0.0], np.cumsum(values))) for values in (p, y))
    rows = np.maximum(sizes, 1)
    mean_p = (sum_p[bounds[1:]] - sum_p[bounds[:-1]]) / rows
    mean_y = (sum_y[bounds[1:]] - sum_y[bounds[:-1]]) / rows
    full = sizes > 0
    mass = sizes[full].astype(np.float64)
    return Roof(inner, mean_y - mean_p, ~full, BinnedCells(mass, mass, mean_p[full], mean_y[full], p[starts[full]]))


def swept(kind: Kind, p: Floats, y: Floats) -> Roof:
    """The largest number of bins, from 1 on, with non-decreasing label means."""
    curve = roof(kind, p, y, 1)
    for count in range(2, len(p) + 1):
        trial = roof(kind, p, y, count)
        if np.any(np.diff(trial.bins.mean_y) < 0):
            break
        curve = trial
    return curve


def cross_validated(kind: Kind, p: Floats, y: Floats) -> Roof:
    """1 to 40 bins, ten folds (drawn by seed 1), mean squared error, the 0.1 % rule; then bins of all rows."""
    fold = fold_of_rows(len(p), _FOLDS, 1)
    scores = np.zeros(_MOST)
    for number in range(_FOLDS):
        own = fold == number
        for count in range(1, _MOST + 1):
            fitted = roof(kind, p[~own], y[~own], count)
            scores[count - 1] += np.mean((fitted(p[own]) - y[own]) ** 2) / _FOLDS
    counts = tuple(range(1, _MOST + 1))
    return roof(kind, p, y, counts[simplest(counts, scores)])
