"""One curve a class, and one curve a rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.cells import Floats
from calibrant.maps.curves import Curve
from calibrant.maps.families import curves_document, read_curves
from calibrant.maps.transforms import Takes, in_order_of, normalised, read_flag

# --- One curve for each rank


@dataclass(frozen=True)
class Ranks:
    """c_r of the r-th largest probability, R ranks, put back on its class (Gupta et al. 2021 fit such curves).

    With ``within`` c_r is of the sum of the r largest, and a rank gets c_r less the largest c before it, at least 0.
    The classes ranked behind R share what is left of 1 as they did before; rows whose ranks alone exceed 1 are divided
    by their sum. ``keep_order`` puts the row's numbers on the classes in the order of the predictions.
    """

    family: ClassVar[str] = "ranks"
    takes: ClassVar[Takes] = "probabilities"
    curves: tuple[Curve, ...]
    within: bool = False
    keep_order: bool = False

    def __call__(self, rows: Floats) -> Floats:
        """Calibrated probabilities ``(n, K)`` of probabilities ``(n, K)``. O(n K log K), R times a curve's cost."""
        p, ranks = rows.astype(np.float64), len(self.curves)
        order = np.argsort(-p, axis=1, kind="stable")
        ranked = np.take_along_axis(p, order, axis=1)
        q = ranked[:, :ranks].cumsum(axis=1).clip(0.0, 1.0) if self.within else ranked[:, :ranks]
        found = np.column_stack([np.clip(c(own), 0.0, 1.0) for c, own in zip(self.curves, q.T, strict=True)])
        if self.within:
            found = np.diff(np.maximum.accumulate(found, axis=1), axis=1, prepend=0.0)
        behind = ranked[:, ranks:]
        if behind.shape[1]:
            left = np.maximum(1.0 - found.sum(axis=1, keepdims=True), 0.0)
            found = np.hstack([found, left * normalised(behind)])
        calibrated = np.empty_like(p)
        np.put_along_axis(calibrated, order, normalised(found), axis=1)
        return in_order_of(calibrated, p) if self.keep_order else calibrated

    def parameters(self) -> dict[str, Any]:
        """The curves' numbers, rank by rank."""
        return {"curves": curves_document(self.curves), "within": self.within, "keep_order": self.keep_order}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:
        """Read a document's numbers, each checked."""
        curves = read_curves(parameters, 1, n_classes)
        return cls(curves, read_flag(parameters, "within"), read_flag(parameters, "keep_order"))


# --- One curve for each class


@dataclass(frozen=True)
class OneVsRest:
    """c_k(p_k) for each class k (Zadrozny & Elkan 2002), with ``keep_order`` in the classes' old order, and of sum 1.

    ``keep_order`` puts the calibrated numbers on the classes in the order of the predictions; ``renormalise`` divides
    by the row's sum, and gives 1/K where that is 0. Without it rows sum to what they do.
    """

    family: ClassVar[str] = "one-vs-rest"
    takes: ClassVar[Takes] = "probabilities"
    curves: tuple[Curve, ...]
    renormalise: bool = True
    keep_order: bool = False

    def __call__(self, rows: Floats) -> Floats:
        """Calibrated probabilities ``(n, K)`` of probabilities ``(n, K)``. O(n K) times a curve's cost."""
        found = np.empty(rows.shape)
        for k, curve in enumerate(self.curves):
            found[:, k] = np.clip(curve(rows[:, k].astype(np.float64)), 0.0, 1.0)
        if self.keep_order:
            found = in_order_of(found, rows)
        return normalised(found) if self.renormalise else found

    def parameters(self) -> dict[str, Any]:
        """The curves' numbers, class by class."""
        return {"curves": curves_document(self.curves), "renormalise": self.renormalise, "keep_order": self.keep_order}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:
        """Read a document's numbers, each checked."""
        curves = read_curves(parameters, n_classes, n_classes)
        return cls(curves, read_flag(parameters, "renormalise"), read_flag(parameters, "keep_order"))
