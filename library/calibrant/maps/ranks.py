"""Maps of one curve per class or per rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from calibrant.core.batch import Integers, log_odds, log_odds_within, probabilities_of
from calibrant.core.cells import Floats
from calibrant.maps.curves import Curve
from calibrant.maps.families import Curves
from calibrant.maps.parameters import Flag, KeepOrder, Parametric
from calibrant.maps.transforms import Takes, in_order_of, normalised

# --- One curve for each rank


@dataclass(frozen=True)
class Ranks(Parametric):
    """Curves c_r of the r-th largest probability, for R ranks, as in Gupta et al. (2021).

    With ``within`` c_r is applied to the sum of the r largest probabilities, and rank r gets c_r minus the largest
    previous value, at least 0. The classes after rank R share the rest of 1 in their given proportions; rows whose
    ranks exceed 1 are divided by their sum. ``keep_order`` sorts the calibrated values of a row to preserve the order
    of the classes.
    """

    family: ClassVar[str] = "ranks"
    formula: ClassVar[str] = "a curve for each of the largest probabilities of a row"
    takes: ClassVar[Takes] = "either"
    curves: Annotated[tuple[Curve, ...], Curves("one curve each", shape="R")]
    within: Annotated[bool, Flag("whether a curve takes the sum of the r largest probabilities")] = False
    keep_order: KeepOrder = False

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for probabilities ``(n, K)``. O(n K log K) and R curves."""
        p, ranks = rows.astype(np.float64), len(self.curves)
        order = np.argsort(-p, axis=1, kind="stable")
        ranked = np.take_along_axis(p, order, axis=1)
        q = ranked[:, :ranks].cumsum(axis=1).clip(0.0, 1.0) if self.within else ranked[:, :ranks]
        return self._placed([c(own) for c, own in zip(self.curves, q.T, strict=True)], p, order, p)

    def of_logits(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K log K) and R curves."""
        order = np.argsort(-rows, axis=1, kind="stable")
        odds = log_odds_within(rows) if self.within else np.take_along_axis(log_odds(rows), order, axis=1)
        values = [c.of_logits(own) for c, own in zip(self.curves, odds.T, strict=False)]
        values += [c(np.ones(len(rows))) for c in self.curves[odds.shape[1] :]]  # all classes have probability 1
        return self._placed(values, probabilities_of(rows), order, rows)

    def _placed(self, values: list[Floats], p: Floats, order: Integers, rows: Floats) -> Floats:
        """Return the rows from the values of the curves; classes of ``p (n, K)`` and ``rows`` are ranked by order."""
        ranked = np.take_along_axis(p, order, axis=1)
        placed = np.clip(np.column_stack(values), 0.0, 1.0)
        if self.within:
            placed = np.diff(np.maximum.accumulate(placed, axis=1), axis=1, prepend=0.0)
        behind = ranked[:, len(values) :]
        if behind.shape[1]:
            left = np.maximum(1.0 - placed.sum(axis=1, keepdims=True), 0.0)
            placed = np.hstack([placed, left * normalised(behind)])
        calibrated = np.empty_like(p)
        np.put_along_axis(calibrated, order, normalised(placed), axis=1)
        return in_order_of(calibrated, rows) if self.keep_order else calibrated


# --- One curve for each class


@dataclass(frozen=True)
class OneVsRest(Parametric):
    """Curves c_k(p_k) for each class k (Zadrozny & Elkan 2002).

    ``keep_order`` sorts the calibrated values of a row to preserve the order of the classes. ``renormalise`` divides
    rows by their sum, with 1/K for rows of zeros; without it rows may not sum to 1.
    """

    family: ClassVar[str] = "one-vs-rest"
    formula: ClassVar[str] = "a curve for each class"
    takes: ClassVar[Takes] = "either"
    curves: Annotated[tuple[Curve, ...], Curves("one curve each", shape="K")]
    renormalise: Annotated[bool, Flag("whether a row is divided by its sum")] = True
    keep_order: KeepOrder = False

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for probabilities ``(n, K)``. O(n K) times a curve's cost."""
        return self._together([curve(rows[:, k].astype(np.float64)) for k, curve in enumerate(self.curves)], rows)

    def of_logits(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K) times a curve's cost."""
        odds = log_odds(rows)
        return self._together([curve.of_logits(odds[:, k]) for k, curve in enumerate(self.curves)], rows)

    def _together(self, values: list[Floats], rows: Floats) -> Floats:
        together = np.clip(np.column_stack(values), 0.0, 1.0)
        if self.keep_order:
            together = in_order_of(together, rows)
        return normalised(together) if self.renormalise else together
