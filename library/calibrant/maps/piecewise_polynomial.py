"""PL_DE: least squares fit of a continuous piecewise polynomial, with breaks from differential evolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from calibrant.cells import Cells, Floats, SortedRows, WeightsKind, cells_of
from calibrant.errors import InvalidDocument, OnePrediction, requires
from calibrant.maps.curves import Numbers, check_outcomes, read_array
from calibrant.progress import check, report, step
from calibrant.validation import check_fold_count, fold_of_rows, simplest

Degree = Literal[1, 2]

#: Settings of the search in pwlf.
_SEARCH: dict[str, Any] = {"popsize": 50, "tol": 1e-3, "maxiter": 1000, "polish": True, "atol": 1e-4}
MOST_SEGMENTS = {1: 7, 2: 5}


@dataclass(frozen=True)
class PiecewisePolynomial(Numbers):
    """sum_k coefficients[j, k] (p - breaks[j])^k on segment j, from break j to j + 1; the outer segments are extended.

    ``breaks (s + 1,)`` ascend; ``coefficients`` have shape (s, degree + 1). Values may be outside [0, 1]. Continuous;
    neither monotone nor differentiable at the breaks in general.
    """

    family: ClassVar[str] = "piecewise-polynomial"
    breaks: Floats
    coefficients: Floats

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n log s)."""
        segment = np.searchsorted(self.breaks[1:-1], p)
        u = p - self.breaks[segment]
        found = np.zeros(len(p))
        for column in self.coefficients.T[::-1]:
            found = found * u + column[segment]
        return found

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read and check the parameters of a document."""
        breaks = read_array(parameters, "breaks", numeric=True, low=0.0, high=1.0, increasing=True)
        rows = read_array(parameters, "coefficients")
        if len(breaks) != len(rows) + 1:
            raise InvalidDocument.at("/parameters/coefficients", "must contain one row for each pair of breaks")
        where, width = "/parameters/coefficients", len(rows[0]) if isinstance(rows[0], list) else 1
        read = [read_array({str(i): r}, str(i), where=where, numeric=True, length=width) for i, r in enumerate(rows)]
        return cls(breaks, np.array(read))


def check_library() -> None:
    """Raise ``MissingExtra`` if the package pwlf is not installed."""
    with requires("pl-de", "pl-de"):
        import pwlf  # noqa: F401 - slow to import


def fit_pl_de(
    rows: SortedRows,
    kind: WeightsKind,
    *,
    degree: Degree,
    segments: int | None,
    most: int | None,
    folds: int,
    seed: int,
) -> tuple[PiecewisePolynomial, dict[str, Any]]:
    """Fit by least squares with the package pwlf (Jekel & Venter 2019), as in Kangsepp et al. (2022), appendix C.2.

    If ``segments`` is None, cross-validation chooses from 1, ..., ``most`` (by default 7, or 5 for degree 2) by the
    mean held-out squared error and the 0.1 % rule, with folds drawn over the sorted rows; then all rows are fitted. One
    segment is a polynomial regression. Differential evolution with a fixed seed approximates the minimum without a
    guarantee. Raises ``OneClass``, ``OnePrediction``, ``TooFewRows``, and ``MissingExtra`` without the package.
    O(folds most) searches of several thousand regressions, each O(n).
    """
    check_library()
    cells = cells_of(rows, kind)
    check_outcomes(cells)
    if len(cells) < 2:
        raise OnePrediction.at("/predictions", "are all equal, but a fit needs at least two distinct ones")
    diagnostics: dict[str, Any] = {}
    if segments is None:
        candidates = tuple(range(1, (most or MOST_SEGMENTS[degree]) + 1))
        with step(0, 2):
            losses = _held_out(rows, kind, degree, candidates, folds, seed)
        segments = candidates[simplest(candidates, losses)]
        diagnostics["held_out_losses"] = {str(s): float(loss) for s, loss in zip(candidates, losses, strict=True)}
    report(1, 2, "all rows")
    curve = _fit(cells, degree, segments, seed)
    report(1, 1, "done")
    return curve, {"segments": segments} | diagnostics


def _held_out(
    rows: SortedRows, kind: WeightsKind, degree: Degree, candidates: tuple[int, ...], folds: int, seed: int
) -> Floats:
    """Return the held-out mean squared error of each candidate: ``(candidates,)``."""
    n = len(rows)
    check_fold_count(n, folds)
    fold, losses = fold_of_rows(n, folds, seed, rows.groups), np.zeros(len(candidates))
    weights = np.ones(n) if rows.w is None else rows.w
    for k in range(folds):
        kept, held = fold != k, fold == k
        cells = cells_of(rows.rows(kept), kind)
        for i, segments in enumerate(candidates):
            report(k * len(candidates) + i, folds * len(candidates), "candidates outside folds")
            off = _fit(cells, degree, segments, seed)(rows.p[held]) - rows.y[held]
            losses[i] += weights[held] @ off**2
    held_out: Floats = losses / weights.sum()
    return held_out


def _fit(cells: Cells, degree: Degree, segments: int, seed: int) -> PiecewisePolynomial:
    import pwlf

    class CancellableFit(pwlf.PiecewiseLinFit):  # type: ignore[misc]  # untyped
        """The search of pwlf, which can be cancelled at every regression."""

        def fit_with_breaks_opt(self, breaks: Floats) -> float:
            check()
            found: float = super().fit_with_breaks_opt(breaks)
            return found

    model = CancellableFit(cells.p, cells.wy / cells.w, degree=degree)
    if not np.all(cells.w == cells.w[0]):
        # The method of pwlf to set weights creates an (n, n) matrix.
        model.weights = np.sqrt(cells.w / cells.w.max())
        model.y_w = model.y_data * model.weights
    if segments == 1:
        model.fit(1)
    else:
        model.fit(segments, rng=np.random.default_rng(seed), **_SEARCH)
    breaks, beta = np.asarray(model.fit_breaks), np.asarray(model.beta)
    gaps = np.maximum(breaks[:-1, None] - breaks[None, :-1], 0.0)  # distances between the starts of segments
    begun = np.tri(segments)
    slopes = beta[1 : segments + 1]
    bends = beta[segments + 1 :] if degree == 2 else np.zeros(segments)
    columns = [beta[0] + gaps @ slopes + gaps**2 @ bends, begun @ slopes + 2.0 * gaps @ bends, begun @ bends]
    kept = np.diff(breaks) > 0.0
    starts, ends = breaks[:-1][kept], breaks[1:][kept]
    return PiecewisePolynomial(np.append(starts, ends[-1]), np.column_stack(columns[: degree + 1])[kept])
