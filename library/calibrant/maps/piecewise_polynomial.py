"""PL_DE: least squares fit of a continuous piecewise polynomial, with breaks from differential evolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from calibrant.core.cells import Cells, Floats, SortedRows, WeightsKind, cells_of
from calibrant.core.errors import OnePrediction, TooFewRows
from calibrant.core.progress import report
from calibrant.core.validation import check_fold_count, fold_of_rows, simplest
from calibrant.maps.break_search import Subsets, find_breaks
from calibrant.maps.curves import OfProbability, check_outcomes
from calibrant.maps.parameters import Parameter, Parametric, Probability

Degree = Literal[1, 2]

MOST_SEGMENTS = {1: 7, 2: 5}


@dataclass(frozen=True)
class PiecewisePolynomial(Parametric, OfProbability):
    """sum_k coefficients[j, k] (p - breaks[j])^k on segment j, from break j to j + 1; the outer segments are extended.

    ``breaks (s + 1,)`` ascend; ``coefficients`` have shape (s, degree + 1). Values may be outside [0, 1]. Continuous;
    neither monotone nor differentiable at the breaks in general.
    """

    family: ClassVar[str] = "piecewise-polynomial"
    formula: ClassVar[str] = (
        "the sum over i of coefficients[j][i] (p - breaks[j])^i, with j the number of inner breaks below p"
    )
    breaks: Annotated[
        Floats,
        Probability("ends of the segments; the outer segments extend beyond them", shape="s + 1", order="increasing"),
    ]
    coefficients: Annotated[Floats, Parameter("coefficients on each segment", shape="s rows of d")]

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n log s)."""
        segment = np.searchsorted(self.breaks[1:-1], p)
        u = p - self.breaks[segment]
        values = np.zeros(len(p))
        for column in self.coefficients.T[::-1]:
            values = values * u + column[segment]
        return values


def fit_pl_de(
    rows: SortedRows,
    kind: WeightsKind,
    *,
    degree: Degree,
    segments: int | None,
    most: int | None,
    folds: int,
    tolerance: float,
    seed: int,
) -> tuple[PiecewisePolynomial, dict[str, Any]]:
    """Fit by least squares, with breaks from differential evolution, as in Kangsepp et al. (2022), appendix C.2.

    If ``segments`` is None, cross-validation chooses from 1, ..., ``most`` (by default 7, or 5 for degree 2) by the
    mean held-out squared error, the fewest within ``tolerance`` (a fraction) of the smallest, with folds drawn over
    the sorted rows; then all rows are fitted. One segment is a polynomial regression. The search has the settings of
    pwlf (Jekel & Venter 2019) and a fixed seed; it approximates the minimum without a guarantee. Raises ``OneClass``,
    ``OnePrediction`` and ``TooFewRows``.
    O(folds most) searches, each of thousands of trials that cost O(segments log n).
    """
    cells = cells_of(rows, kind)
    check_outcomes(cells)
    if len(cells) < 2:
        raise OnePrediction.at("/predictions", "are all equal, but a fit needs at least two distinct ones")
    if segments is not None:
        if len(cells) < (least := segments * degree + 1):
            of = f"{segments} segments of degree {degree}"
            raise TooFewRows.at("/predictions", f"must have at least {least} distinct values for {of}")
        report(0, 2, "all rows")
        subsets = Subsets(cells.p, cells.w[None], cells.wy[None], degree)
        curve = _through(cells, find_breaks(subsets, segments, seed)[0], (cells.p[0], cells.p[-1]), degree)
        report(1, 1, "done")
        return curve, {"segments": segments}
    candidates = tuple(range(1, (most or MOST_SEGMENTS[degree]) + 1))
    curves, losses = _cross_validated(rows, kind, cells, degree, candidates, folds, seed)
    chosen = simplest(candidates, losses, tolerance)
    report(1, 1, "done")
    held_out = {str(s): float(loss) for s, loss in zip(candidates, losses, strict=True)}
    return curves[chosen], {"segments": candidates[chosen], "held_out_losses": held_out}


def _cross_validated(
    rows: SortedRows,
    kind: WeightsKind,
    cells: Cells,
    degree: Degree,
    candidates: tuple[int, ...],
    folds: int,
    seed: int,
) -> tuple[list[PiecewisePolynomial], Floats]:
    """Return the fit of each candidate to all rows, and its held-out mean squared error: ``(candidates,)``."""
    n = len(rows)
    check_fold_count(n, folds)
    fold, losses = fold_of_rows(n, folds, seed, rows.clusters), np.zeros(len(candidates))
    weights = np.ones(n) if rows.w is None else rows.w
    outside = [cells_of(rows.rows(fold != k), kind) for k in range(folds)]
    w, wy = np.zeros((folds + 1, len(cells))), np.zeros((folds + 1, len(cells)))
    for subset, part in enumerate([*outside, cells]):
        at = np.searchsorted(cells.p, part.p)
        w[subset, at], wy[subset, at] = part.w, part.wy
    subsets, ends, curves = Subsets(cells.p, w, wy, degree), (cells.p[0], cells.p[-1]), []
    for i, segments in enumerate(candidates):
        report(i, len(candidates), "candidates")
        breaks = find_breaks(subsets, segments, seed)
        for k, part in enumerate(outside):
            held = fold == k
            off = _through(part, breaks[k], ends, degree)(rows.p[held]) - rows.y[held]
            losses[i] += weights[held] @ off**2
        curves.append(_through(cells, breaks[-1], ends, degree))
    return curves, losses / weights.sum()


def _through(cells: Cells, inner: Floats, ends: tuple[float, float], degree: Degree) -> PiecewisePolynomial:
    """Return the least squares fit with inner breaks at these fractions of the range."""
    low, high = ends
    breaks = np.unique(np.concatenate(([low], low + (high - low) * inner, [high])))
    widths = np.diff(breaks)
    segment = np.searchsorted(breaks[1:-1], cells.p)
    u = (cells.p - breaks[segment]) / widths[segment]
    rows, root = np.arange(len(cells)), np.sqrt(cells.w / cells.w.max())
    design = np.zeros((len(cells), len(breaks) + (degree - 1) * len(widths)))
    design[rows, segment], design[rows, segment + 1] = 1.0 - u, u
    if degree == 2:
        design[rows, len(breaks) + segment] = u * (1.0 - u)
    solution = np.linalg.lstsq(design * root[:, None], cells.wy / cells.w * root, rcond=None)[0]
    heights = solution[: len(breaks)]
    bumps = solution[len(breaks) :] if degree == 2 else np.zeros(len(widths))
    columns = [heights[:-1], (np.diff(heights) + bumps) / widths, -bumps / widths**2]
    return PiecewisePolynomial(breaks, np.column_stack(columns[: degree + 1]))
