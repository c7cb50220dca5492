"""Baseline maps that some measures of calibration cannot detect (Gruber & Buettner 2022, appendices D and E)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import InvalidDocument, OutOfRange
from calibrant.core.reductions import Event, Vector
from calibrant.maps.curves import Numbers, OfProbability, read_number
from calibrant.maps.transforms import Takes, read_matrix

#: Tolerance of the sum of rows in documents.
_SUM = 1e-9


@dataclass(frozen=True)
class AccuracyConstant(Numbers):
    """The largest probability becomes ``accuracy``, and the others are equal. Not differentiable.

    Of equal probabilities the first is the largest.
    """

    family: ClassVar[str] = "accuracy-constant"
    takes: ClassVar[Takes] = "either"
    accuracy: float

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for probabilities ``(n, K)``. O(n K)."""
        found = np.full(rows.shape, (1.0 - self.accuracy) / (rows.shape[1] - 1))
        found[np.arange(len(rows)), rows.argmax(axis=1)] = self.accuracy
        return found

    of_logits = __call__  # only the order matters

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:  # noqa: ARG003 - any number is valid
        """Read and check the parameter of a document."""
        return cls(read_number(parameters, "accuracy", low=0.0, high=1.0))


@dataclass(frozen=True)
class Sides(Numbers, OfProbability):
    """c(p) = ``below`` for p < 1/2, ``above`` for p >= 1/2. Monotone if below <= above, not differentiable."""

    family: ClassVar[str] = "sides"
    below: float
    above: float

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n)."""
        return np.where(p < 0.5, self.below, self.above)

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read and check the parameters of a document."""
        below, above = (read_number(parameters, field, low=0.0, high=1.0) for field in ("below", "above"))
        return cls(below, above)


@dataclass(frozen=True)
class PredictedClass(Numbers):
    """Row k of ``frequencies (K, K)`` if class k has the largest probability (the first one of ties)."""

    family: ClassVar[str] = "predicted-class"
    takes: ClassVar[Takes] = "either"
    frequencies: Floats

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for probabilities ``(n, K)``. O(n K)."""
        found: Floats = self.frequencies[rows.argmax(axis=1)]
        return found

    of_logits = __call__  # only the order matters

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:
        """Read and check the parameters of a document."""
        frequencies = read_matrix(parameters, "frequencies", (n_classes, n_classes), low=0.0, high=1.0)
        for i in np.flatnonzero(np.abs(frequencies.sum(axis=1) - 1.0) > _SUM).tolist():
            raise InvalidDocument.at(f"/parameters/frequencies/{i}", "must sum to 1")
        return cls(frequencies)


def fit_accuracy_constant(vector: Vector) -> AccuracyConstant:
    """Fit the weighted accuracy (proposition D.2). O(n K).

    Raises ``OutOfRange`` if it is not larger than the other probabilities, which would change the predicted class.
    """
    accuracy = float(np.average(vector.predicted == vector.labels, weights=vector.w))
    _check_accuracy(accuracy, vector.n_classes)
    return AccuracyConstant(accuracy)


def fit_event_accuracy(event: Event) -> Sides:
    """Fit the accuracy of the decision p >= 1/2 (proposition D.2 for one event). O(n).

    If the event is that a decision is correct, as under ``confidence``, the map is the accuracy everywhere. Otherwise
    raises ``OutOfRange`` if the accuracy is at most 1/2.
    """
    if event.decided:
        accuracy = float(np.average(event.y, weights=event.w))
        return Sides(accuracy, accuracy)
    accuracy = float(np.average(event.likely == event.y, weights=event.w))
    _check_accuracy(accuracy, 2)
    return Sides(1.0 - accuracy, accuracy)


def fit_side_means(cells: Cells) -> Sides:
    """Fit the mean outcome of p < 1/2 and of p >= 1/2 (E.1.1, equation 40), or of all rows if empty. O(log m)."""
    border = int(np.searchsorted(cells.p, 0.5))
    mass, positives = float(cells.cumulative_w[border]), float(cells.cumulative_wy[border])
    whole = float(cells.cumulative_wy[-1])
    mean = whole / cells.mass
    below = positives / mass if border else mean
    above = (whole - positives) / (cells.mass - mass) if border < len(cells) else mean
    return Sides(min(max(below, 0.0), 1.0), min(max(above, 0.0), 1.0))


def fit_predicted_class(vector: Vector) -> PredictedClass:
    """Fit the label frequencies by predicted class (E.1.2, equation 42), or of all rows for a class without rows.

    O(n K).
    """
    K = vector.n_classes
    counts = np.bincount(vector.predicted * K + vector.labels, weights=vector.w, minlength=K * K).reshape(K, K) * 1.0
    counts[counts.sum(axis=1) == 0.0] = counts.sum(axis=0)
    return PredictedClass(counts / counts.sum(axis=1, keepdims=True))


def _check_accuracy(accuracy: float, n_classes: int) -> None:
    if not accuracy > (1.0 - accuracy) / (n_classes - 1):
        raise OutOfRange.at(
            "/labels", f"give an accuracy of at most 1/{n_classes}, so that the map would change the predicted class"
        )
