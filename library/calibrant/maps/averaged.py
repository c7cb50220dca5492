"""The model average as a table: a curve that is piecewise linear between logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from scipy.special import expit, logit

from calibrant.cells import Floats
from calibrant.maps.curves import Curve, Numbers, clipped_logit, interpolate, read_array
from calibrant.maps.piecewise_linear import PL3_CLIP

#: Knots of the table: even steps of (2/pi) asin sqrt p, and logits beyond them at both ends.
_STEPS = 1024
_TAIL = np.arange(15.0, 36.0)
#: Slope of increasing tables where values are pooled, and the share of all rows that a knot without rows counts as.
_LEAST_SLOPE, _LEAST_MASS = 1e-6, 1e-12


@cache
def table_knots() -> tuple[Floats, Floats]:
    """Return the logits of the knots of the table, ascending, and their probabilities; ``(1067,)`` each."""
    even = np.sin(np.pi / 2 * np.arange(1, _STEPS) / _STEPS) ** 2
    ends = clipped_logit(np.array([0.0, 1.0]), PL3_CLIP)
    knots: Floats = np.concatenate([ends[:1], -_TAIL[::-1], logit(even), _TAIL, ends[1:]])
    p: Floats = expit(knots)
    p[0], p[-1] = 0.0, 1.0
    return knots, p


def tabulate(values: Callable[[Floats], Floats]) -> Averaged:
    """Tabulate a function of a probability, so that one look-up replaces several hundred curves."""
    return tabulated(values(table_knots()[1]))


def tabulated(values: Floats) -> Averaged:
    """Return the table of values at the probabilities of ``table_knots``."""
    return Averaged(table_knots()[0], clipped_logit(values, PL3_CLIP))


def increasing(curve: Averaged, p: Floats, w: Floats) -> Averaged:
    """Return the increasing table that is closest to a table, for rows ``p (C,)`` of masses ``w (C,)``.

    Pooled values are means over the rows (Barlow et al. 1972: the same values minimise the mean squared distance and
    the mean relative entropy). The slope of logits is then at least 1e-6, so that distinct predictions stay distinct.
    """
    knots, t = curve.knots, len(curve.knots)
    place = np.interp(clipped_logit(p, PL3_CLIP), knots, np.arange(t))
    low = np.minimum(place.astype(np.intp), t - 2)
    mass = np.bincount(low, w * (low + 1 - place), t) + np.bincount(low + 1, w * (place - low), t)
    ordered = scipy.optimize.isotonic_regression(expit(curve.logits), weights=mass + _LEAST_MASS * w.sum()).x
    return Averaged(knots, (1.0 - _LEAST_SLOPE) * clipped_logit(ordered, PL3_CLIP) + _LEAST_SLOPE * knots)


@dataclass(frozen=True)
class Averaged(Numbers):
    """Logit c is linear in logit p between ``knots (t,)``, where it is ``logits (t,)``, and constant outside.

    Monotone if ``logits`` are; not differentiable at the knots.
    """

    family: ClassVar[str] = "averaged"
    knots: Floats
    logits: Floats

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n log t)."""
        return self.of_logits(clipped_logit(p, PL3_CLIP))

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(n log t)."""
        calibrated: Floats = expit(interpolate(z, self.knots, self.logits))
        return calibrated

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read and check the parameters of a document."""
        knots = read_array(parameters, "knots", numeric=True, increasing=True)
        logits = read_array(parameters, "logits", numeric=True, low=-800.0, high=800.0, length=len(knots))
        return cls(knots, logits)


def mirrored(curve: Curve) -> Curve:
    """Return 1 - c(1 - p) for an average or the identity."""
    if not isinstance(curve, Averaged):
        return curve
    return Averaged(-curve.knots[::-1], -curve.logits[::-1])
