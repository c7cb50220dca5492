"""PL and PL3: averages of piecewise linear curves, in probability space and in logit-logit space.

The families are those of Kangsepp, Valk & Kull (2022), "On the usefulness of the fit-on-test view on
evaluating calibration of classifiers", sections 4.1 and 4.2. ``calibrant.piecewise`` has their fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from calibrant.cells import Floats
from calibrant.maps.curves import OfProbability, clipped_logit, interpolate, read_array

#: Probabilities are clipped to [PL3_CLIP, 1 - PL3_CLIP] for their logits.
PL3_CLIP = 1e-16


@dataclass(frozen=True)
class Polyline:
    """One fitted curve: ``knots (b+1,)`` strictly increasing, ``heights (b+1,)`` at them."""

    knots: Floats
    heights: Floats

    def __call__(self, x: Floats) -> Floats:
        """Interpolate linearly between the knots, constant outside them. O(n log b)."""
        return interpolate(x, self.knots, self.heights)


def _documents(polylines: tuple[Polyline, ...]) -> dict[str, Any]:
    return {"models": [{"knots": m.knots.tolist(), "heights": m.heights.tolist()} for m in polylines]}


def _polylines(parameters: dict[str, Any], low: float, high: float) -> tuple[Polyline, ...]:
    models = read_array(parameters, "models")
    read = []
    for i, model in enumerate(models):
        where = f"/parameters/models/{i}"
        knots = read_array(model, "knots", where=where, numeric=True, increasing=True)
        heights = read_array(model, "heights", where=where, numeric=True, low=low, high=high, length=len(knots))
        read.append(Polyline(knots, heights))
    return tuple(read)


@dataclass(frozen=True)
class PiecewiseLinear(OfProbability):
    """PL: the mean of curves that are piecewise linear in the probability (section 4.1, eq. of C_PL).

    Knots range from 0 to 1; heights are probabilities. The mean of such curves is evaluated as a single
    piecewise linear curve. Neither monotone nor differentiable at the knots in general.
    """

    family: ClassVar[str] = "pl"
    models: tuple[Polyline, ...]

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n log(models x b))."""
        knots = np.unique(np.concatenate([m.knots for m in self.models]))
        heights = np.mean([m(knots) for m in self.models], axis=0)
        return interpolate(p, knots, heights)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain JSON."""
        return _documents(self.models)

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read and check the parameters of a document."""
        return cls(_polylines(parameters, 0.0, 1.0))


@dataclass(frozen=True)
class LogitPiecewiseLinear:
    """PL3: the mean of logistic(f_m(logit p)), each f_m piecewise linear (section 4.2).

    Knots and heights are logits; the mean is over probabilities.
    """

    family: ClassVar[str] = "pl3"
    models: tuple[Polyline, ...]

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(models x n log b)."""
        return self.of_logits(clipped_logit(p, PL3_CLIP))

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(models x n log b)."""
        total = np.zeros_like(z)
        for model in self.models:
            total += expit(model(z))
        return total / len(self.models)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain JSON."""
        return _documents(self.models)

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read and check the parameters of a document."""
        return cls(_polylines(parameters, -800.0, 800.0))
