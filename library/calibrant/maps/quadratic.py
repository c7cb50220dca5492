"""Quadratic scaling: a logistic curve on the logit of the prediction and its square; and affine scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from calibrant.core.cells import Cells, Floats
from calibrant.core.logistic import fit_logistic, gradient_of
from calibrant.maps.curves import check_outcomes, check_squares, fast_logistic, fast_logit, in_blocks, logit_of
from calibrant.maps.parameters import LogitShift, LogitSlope, Parameter, Parametric
from calibrant.maps.platt import Platt


@dataclass(frozen=True)
class Quadratic(Parametric):
    """Quadratic scaling. Differentiable.

    Probabilities are clipped at 2^-52, logits are not.
    """

    family: ClassVar[str] = "quadratic"
    formula: ClassVar[str] = "logistic(intercept + slope z + square z^2), z = logit(p)"
    intercept: LogitShift
    slope: LogitSlope
    square: Annotated[float, Parameter("factor of the squared logit")]

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n)."""
        return in_blocks(lambda q: self._logistic(fast_logit(q)), p)

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(n)."""
        return in_blocks(self._logistic, z)

    def _logistic(self, z: Floats) -> Floats:
        with np.errstate(over="ignore"):
            f = self.square * z
            f += self.slope
            f *= z
        f += self.intercept
        return fast_logistic(f, out=f)


def fit_quadratic(cells: Cells, *, squared: bool, strength: float) -> tuple[Quadratic | Platt, float]:
    """Minimise the total log loss plus strength (intercept^2 + (slope - 1)^2 + square^2) by Newton's method.

    Also returns the largest component of the gradient of the mean of that objective over the rows.
    Without ``squared`` the square is 0 (affine scaling), and the curve that of Platt scaling. Importance weights are
    scaled to the effective number of rows. O(m) per step. Raises ``OneClass`` if all labels are equal.
    """
    check_outcomes(cells)
    counted = cells.rows_per_weight
    z = check_squares(logit_of(cells))
    features = np.column_stack([np.ones_like(z), z, z * z][: 3 if squared else 2])
    variance = np.full((1, features.shape[1]), 0.5 / strength)
    w, wy = cells.w * counted, cells.wy * counted
    theta = fit_logistic(features, z, w, wy, variance, steps=200).theta
    gradient = float(np.abs(gradient_of(features, z, w, wy, variance, theta)).max() / w.sum())
    intercept, slope, *square = theta[0].tolist()
    return (Quadratic(intercept, 1.0 + slope, *square) if squared else Platt(1.0 + slope, intercept)), gradient
