"""Beta calibration: the curves between two Beta densities, a logistic curve on ln p and -ln(1 - p)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from calibrant.cells import Cells, Floats
from calibrant.errors import OneClass
from calibrant.logistic import fit_logistic
from calibrant.maps.curves import PROBABILITY_CLIP, read_number

#: Prior variance of the coefficients: it keeps separable data finite and is not felt elsewhere.
_VARIANCE = 1e6


@dataclass(frozen=True)
class Beta:
    """c(p) = logistic(a ln p - b ln(1 - p) + c), a and b at least 0: never decreasing; p clips at 2^-52."""

    family: ClassVar[str] = "beta"
    a: float
    b: float
    c: float

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probability of each ``p (n,)`` in [0, 1]. O(n)."""
        calibrated: Floats = expit(features(p) @ np.array([self.a, self.b, self.c]))
        return calibrated

    def parameters(self) -> dict[str, Any]:
        """The numbers that make this curve."""
        return {"a": self.a, "b": self.b, "c": self.c}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read a document's numbers, each checked."""
        return cls(*(read_number(parameters, name) for name in ("a", "b", "c")))


def fit_beta(cells: Cells) -> Beta:
    """Fit by maximum likelihood (Kull, Silva Filho & Flach 2017, "abm"), Newton's method. O(m) a step.

    As published, a negative a or b is left out and the rest fitted again. Raises ``OneClass`` where all
    labels are equal.
    """
    positives = float(cells.cumulative_wy[-1])
    if positives <= 0 or positives >= cells.mass:
        raise OneClass.at("/labels", "holds one class only, where a fit needs both")
    basis = features(cells.p)
    for used in ([0, 1, 2], [0, 2], [1, 2], [2]):
        variance = np.full((1, len(used)), _VARIANCE)
        theta = fit_logistic(basis[:, used], np.zeros(len(basis)), cells.w, cells.wy, variance).theta[0]
        if np.all(theta[:-1] >= 0.0):
            break
    full = np.zeros(3)
    full[used] = theta
    return Beta(*full.tolist())


def features(p: Floats, clip: float = PROBABILITY_CLIP) -> Floats:
    """Ln p, -ln(1 - p) and 1 of each ``p (n,)`` clipped to [clip, 1 - clip], ``(n, 3)``."""
    p = np.clip(p, clip, 1.0 - clip)
    return np.column_stack([np.log(p), -np.log1p(-p), np.ones_like(p)])
