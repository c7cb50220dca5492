"""Families of curves by name, and curves in documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument
from calibrant.maps.averaged import Averaged
from calibrant.maps.baselines import Sides
from calibrant.maps.beta import Beta
from calibrant.maps.curves import Constant, Curve, Identity, OfProbability
from calibrant.maps.isotonic import Isotonic, VennAbers
from calibrant.maps.kde import Kde
from calibrant.maps.parameters import Parameter, Parametric, Smoothing, function_document, read_array, read_part
from calibrant.maps.piecewise_linear import LogitPiecewiseLinear, PiecewiseLinear
from calibrant.maps.piecewise_polynomial import PiecewisePolynomial
from calibrant.maps.platt import Platt
from calibrant.maps.quadratic import Quadratic
from calibrant.maps.segments import Segments
from calibrant.maps.spline import Spline
from calibrant.maps.steps import Roofs, ScalingBinning, Steps
from calibrant.maps.temperature import EventTemperature


@dataclass(frozen=True)
class Curves(Parameter):
    """Curves, each with its family: as many as the shape says, or for a letter other than K, from 1 to K."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:  # noqa: ARG002 - curves
        """Read the curves."""
        most = int(self.shape) if self.shape.isdigit() else sizes["K"]
        return read_curves(parameters, 1 if self.shape.isalpha() and self.shape != "K" else most, most)

    def plain(self, value: Any) -> Any:
        """Return curves as plain JSON, each with its family."""
        return curves_document(value)


@dataclass(frozen=True)
class Smoothed(Parametric, OfProbability):
    """A curve of smoothed probabilities, for predictions of exactly 0 or 1."""

    family: ClassVar[str] = "smoothed"
    formula: ClassVar[str] = "the curve at (1 - a) p + a / 2"
    smoothing: Smoothing
    curves: Annotated[tuple[Curve, ...], Curves("the curve", shape="1")]

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n) and the cost of the curve."""
        return self.curves[0]((1.0 - self.smoothing) * p + 0.5 * self.smoothing)

    def check(self) -> None:
        """Raise ``InvalidDocument`` if the curve is smoothed itself."""
        if isinstance(self.curves[0], Smoothed):
            raise InvalidDocument.at("/parameters/curves/0/family", "must not be smoothed again")


#: Family name -> curve.
CURVES: Mapping[str, type[Curve]] = MappingProxyType(
    {
        curve.family: curve
        for curve in (
            Identity,
            Constant,
            Platt,
            EventTemperature,
            Beta,
            Isotonic,
            PiecewiseLinear,
            LogitPiecewiseLinear,
            Averaged,
            Steps,
            Roofs,
            ScalingBinning,
            Kde,
            Spline,
            VennAbers,
            PiecewisePolynomial,
            Sides,
            Quadratic,
            Smoothed,
            Segments,
        )
    }
)


def curves_document(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """Return curves as plain JSON, each with its family."""
    return [function_document(curve) for curve in curves]


def read_curves(parameters: Mapping[str, Any], fewest: int, most: int) -> tuple[Curve, ...]:
    """Read and check the ``curves`` of a document, from ``fewest`` to ``most``."""
    documents = read_array(parameters, "curves")
    if not fewest <= len(documents) <= most:
        wanted = f"{most}" if fewest == most else f"from {fewest} to {most}"
        raise InvalidDocument.at("/parameters/curves", f"must contain {wanted} curves")
    return tuple(read_part(document, f"/parameters/curves/{i}", CURVES) for i, document in enumerate(documents))
