"""One curve a class: many classes calibrated as so many events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.cells import Floats
from calibrant.maps.curves import Curve
from calibrant.maps.families import curves_document, read_curves
from calibrant.maps.transforms import Takes, in_order_of, normalised, read_flag


@dataclass(frozen=True)
class OneVsRest:
    """c_k(p_k) for each class k (Zadrozny & Elkan 2002), where asked for in the classes' old order, and of sum 1.

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
        return {
            "curves": curves_document(self.curves),
            "renormalise": self.renormalise,
            "keep_order": self.keep_order,
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:
        """Read a document's numbers, each checked."""
        curves = read_curves(parameters, n_classes, n_classes)
        return cls(curves, read_flag(parameters, "renormalise"), read_flag(parameters, "keep_order"))
