"""Spline calibration: the score plus the slope of a spline of the cumulative label minus score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy.special import expit

from calibrant.core.cells import Cells, Floats, SortedRows, WeightsKind, cells_of, take
from calibrant.core.errors import InvalidOption, TooFewRows
from calibrant.core.progress import report
from calibrant.core.validation import check_fold_count, fold_of_rows, simplest
from calibrant.maps.cumulative_spline import Boundary, Of, Path, accuracies, fit_cumulative, path_of
from calibrant.maps.curves import PROBABILITY_CLIP, calibrated, check_outcomes, interpolate, interpolate_logits
from calibrant.maps.parameters import AT_LOGITS, KNOTS, Parameter, Parametric

Select = Literal["brier", "log-loss"]

#: The most scores of a document.
MOST_SCORES = 4096
#: Candidate numbers of knots; the cubic boundary condition needs four.
CANDIDATES = tuple(range(3, 15))


@dataclass(frozen=True)
class Spline(Parametric):
    """Linear interpolation of ``values (t,)`` at ``scores (t,)``, ascending in [0, 1], and constant outside.

    ``at_logits (t,)`` are the logits of the scores, if the map was fitted to logits. Values may be outside [0, 1].
    Neither monotone nor differentiable in general.
    """

    family: ClassVar[str] = "spline"
    formula: ClassVar[str] = "linear between the scores"
    scores: Annotated[Floats, KNOTS]
    values: Annotated[Floats, Parameter("calibrated probabilities there, clipped to [0, 1]", "probability", "t")]
    at_logits: Annotated[Floats | None, AT_LOGITS] = None

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n log t)."""
        return interpolate(p, self.scores, self.values)

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(n log t)."""
        return self(expit(z)) if self.at_logits is None else interpolate_logits(z, self.at_logits, self.values)


def fit_spline(
    cells: Cells,
    knots: int = 6,
    boundary: Boundary = "natural",
    *,
    of: Of = "difference",
    constrained: bool = False,
) -> tuple[Spline, dict[str, Any]]:
    """Fit by least squares (Gupta et al. 2021, section 4); also return the values at the knots and the thinning error.

    With t the fractile of a score s and D the spline of the cumulative label minus score, the map is s + D'(t) at the
    scores of the fit and linear between them. (The published code swaps the two weights of that interpolation.) It is
    exact at up to 4,096 scores; with more scores it keeps 4,096 fractiles of equal mass, and ``thinning_error`` is the
    largest deviation of the interpolation from s + D'(t), about 1e-4 for dense scores. The published code fits D. The
    paper's text fits the cumulative label, whose slope is the map: ``of`` is ``label``. ``constrained`` keeps the map
    in [0, 1] at every score. O(m).

    Raises ``OneClass`` if all labels are equal, ``TooFewRows`` if there are fewer rows than knots, and
    ``InvalidOption`` if the cubic boundary condition has fewer than four knots.
    """
    check_outcomes(cells)
    if boundary == "cubic" and knots < 4:
        raise InvalidOption.at("/knots", "must be at least 4 with the boundary cubic")
    path = path_of(cells, of)
    spline = fit_cumulative(path, knots, boundary, constrained=constrained)
    values = _values(path, spline, constrained)
    curve, error = Spline(cells.p, values, cells.logit), 0.0
    if len(cells) > MOST_SCORES:
        at = _even(cells)
        curve = Spline(cells.p[at], values[at], take(cells.logit, at))
        error = float(np.abs(calibrated(curve, cells) - values).max())
    diagnostics = {"knots": knots, "knot_values": spline.values.tolist(), "thinning_error": error}
    return curve, diagnostics


def choose_knots(
    rows: SortedRows,
    kind: WeightsKind,
    boundary: Boundary,
    *,
    of: Of,
    constrained: bool,
    folds: int,
    select: Select,
    tolerance: float,
    seed: int,
) -> tuple[int, dict[str, float]]:
    """Return the number of knots chosen by cross-validation, and the mean held-out loss of each candidate.

    Candidates are 3 (cubic: 4) to 14 knots. Folds are drawn over the rows sorted by score, outcome and weight. The
    fewest knots within ``tolerance`` (a fraction) of the smallest loss are chosen. The log loss clips values to
    [2^-52, 1 - 2^-52]. Candidates with more knots than training rows are left out. O(folds candidates n).
    """
    n = len(rows)
    check_fold_count(n, folds)
    fold = fold_of_rows(n, folds, seed, rows.clusters)
    candidates = CANDIDATES[boundary == "cubic" :]
    losses = np.zeros(len(candidates))
    for k in range(folds):
        held, outside = rows.rows(fold == k), rows.rows(fold != k)
        cells = cells_of(outside, kind)
        path = path_of(cells, of)
        for i, knots in enumerate(candidates):
            report(k * len(candidates) + i, folds * len(candidates), "candidates outside folds")
            if not np.isfinite(losses[i]):
                continue
            try:
                spline = fit_cumulative(path, knots, boundary, constrained=constrained)
            except TooFewRows:
                losses[i] = np.inf
                continue
            curve = Spline(cells.p, _values(path, spline, constrained), cells.logit)
            losses[i] += _loss(calibrated(curve, held), held, select)
    if not np.isfinite(losses).any():
        raise TooFewRows.at("/predictions", f"has too few rows to fit a spline to {folds - 1} of {folds} folds")
    losses /= n if rows.w is None else rows.w.sum()
    by_knots = {str(knots): float(loss) for knots, loss in zip(candidates, losses, strict=True) if np.isfinite(loss)}
    return candidates[simplest(candidates, losses, tolerance)], by_knots


def _values(path: Path, spline: Any, constrained: bool) -> Floats:
    values = accuracies(path, spline)
    return np.clip(values, 0.0, 1.0) if constrained else values  # values are outside only by rounding


def _even(cells: Cells) -> Any:
    """Return up to 4,096 cells at equal steps of mass, including the first and the last."""
    wanted = np.linspace(0.0, cells.mass, MOST_SCORES)
    at = np.searchsorted(cells.cumulative_w[1:], wanted)
    return np.unique(np.append(np.minimum(at, len(cells) - 1), [0, len(cells) - 1]))


def _loss(predicted: Floats, held: SortedRows, select: Select) -> float:
    """Return the sum of the losses of held-out rows."""
    c = np.clip(predicted, 0.0, 1.0)
    if select == "brier":
        losses = (c - held.y) ** 2
    else:
        c = np.clip(c, PROBABILITY_CLIP, 1.0 - PROBABILITY_CLIP)
        losses = -np.where(held.y == 1, np.log(c), np.log1p(-c))
    return float(losses.sum() if held.w is None else held.w @ losses)
