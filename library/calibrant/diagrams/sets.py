"""Diagrams of prediction sets: the coverage of classes, sizes and groups, and the sizes of the sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibrant.core.cells import Floats
from calibrant.diagrams.diagram import Picture
from calibrant.sets.evaluation import MOST_SHOWN, SetEvaluation, lowest


@dataclass(frozen=True)
class SetCoverage(Picture):
    """Coverage with intervals, arrays ``(m,)``: of all rows, of sizes, of groups and of classes, in this order.

    Of many classes, sizes or groups, the ten with the lowest coverage are in it. ``nominal`` is None without alpha.
    """

    names: list[str]
    coverage: Floats
    low: Floats
    high: Floats
    n: Floats
    nominal: float | None


@dataclass(frozen=True)
class SetSizes(Picture):
    """The ``share (m,)`` of the sets that have each of ``sizes (m,)``, ascending, and the mean size."""

    sizes: Floats
    share: Floats
    mean_size: float


def set_coverage(evaluation: SetEvaluation) -> SetCoverage:
    """Return the data of the diagram ``set-coverage``. O(strata log strata)."""
    names, rows = ["all rows"], [(evaluation.coverage, evaluation.low, evaluation.high, float(evaluation.n))]
    for kind, strata in (("size", evaluation.by_size), ("group", evaluation.by_group), ("class", evaluation.by_class)):
        for row in lowest(strata, MOST_SHOWN):
            names.append(f"{kind} {row.name}")
            rows.append((row.coverage, row.low, row.high, float(row.n)))
    coverage, low, high, n = np.array(rows).T
    return SetCoverage(names, coverage, low, high, n, None if evaluation.alpha is None else 1.0 - evaluation.alpha)


def set_sizes(evaluation: SetEvaluation) -> SetSizes:
    """Return the data of the diagram ``set-sizes``; with importance weights, shares are of rows. O(sizes)."""
    n = np.array([row.n for row in evaluation.by_size], dtype=np.float64)
    return SetSizes(np.array([float(row.name) for row in evaluation.by_size]), n / n.sum(), evaluation.mean_size)


#: How the picture of each diagram is read.
SET_DIAGRAMS: Mapping[str, str] = {
    "set-coverage": "Share of the sets that have the label of their row, of all rows, by size of the set, group "
    "and class, with pointwise intervals. Sets that promise only marginal coverage may have another one in each "
    "part.",
    "set-sizes": "How many classes the sets have: fewer are more useful at the same coverage.",
}
