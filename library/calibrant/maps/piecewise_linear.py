"""PL and PL3: averages of piecewise linear curves, in probability space and in logit-logit space.

The families are those of Kangsepp, Valk & Kull (2022), "On the usefulness of the fit-on-test view on
evaluating calibration of classifiers", sections 4.1 and 4.2. ``calibrant.piecewise`` has their fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.special import expit

from calibrant.core.cells import Floats
from calibrant.maps.curves import CurvePlaces, Predicted, clipped_logit, interpolate, logit_of
from calibrant.maps.parameters import Parameter, Parametric, read_array

#: Probabilities are clipped to [PL3_CLIP, 1 - PL3_CLIP] for their logits.
PL3_CLIP = 1e-16
#: PL of logits z is linear in p + STRETCH asinh(z / STRETCHED), which rises where p rounds to 0 or 1.
STRETCH, STRETCHED = 1e-5, 36.0


@dataclass(frozen=True)
class Polyline:
    """One fitted curve: ``knots (b+1,)`` strictly increasing, ``heights (b+1,)`` at them."""

    knots: Floats
    heights: Floats

    def __call__(self, x: Floats) -> Floats:
        """Interpolate linearly between the knots, constant outside them. O(n log b)."""
        return interpolate(x, self.knots, self.heights)


def stretched(of: Predicted, stretch: float = STRETCH) -> Floats:
    """Return the abscissas of PL of logits: p + ``stretch`` asinh(z / 36). Probabilities are clipped for z."""
    return of.p + stretch * np.arcsinh(logit_of(of, PL3_CLIP) / STRETCHED)


@dataclass(frozen=True)
class _Polylines(Parameter):
    """Polylines with heights in [low, high]."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:  # noqa: ARG002 - it has none
        """Read the polylines."""
        polylines = []
        for i, model in enumerate(read_array(parameters, name)):
            where = f"/parameters/{name}/{i}"
            knots = read_array(model, "knots", where=where, numeric=True, increasing=True)
            heights = read_array(
                model, "heights", where=where, numeric=True, low=self.low, high=self.high, length=len(knots)
            )
            polylines.append(Polyline(knots, heights))
        return tuple(polylines)

    def plain(self, value: Any) -> Any:
        """Return polylines as plain JSON."""
        return [{"knots": m.knots.tolist(), "heights": m.heights.tolist()} for m in value]


_MODELS = "piecewise linear functions that are averaged, each with knots and heights"


@dataclass(frozen=True)
class PiecewiseLinear(Parametric):
    """PL: the mean of curves that are piecewise linear in the probability (section 4.1, eq. of C_PL).

    Knots range from 0 to 1; heights are probabilities. The mean of such curves is evaluated as a single
    piecewise linear curve. Neither monotone nor differentiable at the knots in general. A map that was fitted to
    logits has a ``stretch``: its curves are linear in p + stretch asinh(logit / 36).
    """

    family: ClassVar[str] = "pl"
    formula: ClassVar[str] = (
        "the mean over the models of the value linear between their knots, at p or, with stretch, at p + "
        "stretch asinh(logit(p) / 36), p clipped to [1e-16, 1 - 1e-16] for the logit"
    )
    models: Annotated[tuple[Polyline, ...], _Polylines(_MODELS, low=0.0, high=1.0)]
    stretch: Annotated[
        float | None, Parameter("share of asinh(logit / 36) that a map of logits adds to p", low=0.0, high=1.0)
    ] = None

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n log(models x b))."""
        return self._at(CurvePlaces(p))

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(n log(models x b))."""
        return self._at(CurvePlaces.at_logits(z))

    def _at(self, of: Predicted) -> Floats:
        knots = np.unique(np.concatenate([m.knots for m in self.models]))
        heights = np.mean([m(knots) for m in self.models], axis=0)
        return interpolate(of.p if self.stretch is None else stretched(of, self.stretch), knots, heights)


@dataclass(frozen=True)
class LogitPiecewiseLinear(Parametric):
    """PL3: the mean of logistic(f_m(logit p)), each f_m piecewise linear (section 4.2).

    Knots and heights are logits; the mean is over probabilities.
    """

    family: ClassVar[str] = "pl3"
    formula: ClassVar[str] = (
        "the mean over the models f of logistic(f(logit(p))), f linear between its knots, p clipped to "
        "[1e-16, 1 - 1e-16]"
    )
    models: Annotated[tuple[Polyline, ...], _Polylines(_MODELS, low=-800.0, high=800.0)]

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(models x n log b)."""
        return self.of_logits(clipped_logit(p, PL3_CLIP))

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(models x n log b)."""
        total = np.zeros_like(z)
        for model in self.models:
            total += expit(model(z))
        return total / len(self.models)
