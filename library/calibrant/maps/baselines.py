"""Three maps that show what measures of calibration can be fooled by (Gruber & Buettner 2022, appendices D and E)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.cells import Cells, Floats
from calibrant.errors import InvalidDocument, OutOfRange
from calibrant.maps.curves import Numbers, read_number
from calibrant.maps.transforms import Takes, read_matrix
from calibrant.reductions import Event, Vector

#: Rows of documents sum to 1 within this.
_SUM = 1e-9


@dataclass(frozen=True)
class AccuracyConstant(Numbers):
    """The largest probability becomes ``accuracy``, the others share the rest equally. Not differentiable.

    Of equal probabilities the first is the largest.
    """

    family: ClassVar[str] = "accuracy-constant"
    takes: ClassVar[Takes] = "probabilities"
    accuracy: float

    def __call__(self, rows: Floats) -> Floats:
        """Calibrated probabilities ``(n, K)`` of probabilities ``(n, K)``. O(n K)."""
        found = np.full(rows.shape, (1.0 - self.accuracy) / (rows.shape[1] - 1))
        found[np.arange(len(rows)), rows.argmax(axis=1)] = self.accuracy
        return found

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:  # noqa: ARG003 - it fits any number
        """Read a document's number."""
        return cls(read_number(parameters, "accuracy", low=0.0, high=1.0))


@dataclass(frozen=True)
class Sides(Numbers):
    """c(p) = ``below`` for p < 1/2, ``above`` for p >= 1/2. Monotone where below <= above, not differentiable."""

    family: ClassVar[str] = "sides"
    below: float
    above: float

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probability of each ``p (n,)`` in [0, 1]. O(n)."""
        return np.where(p < 0.5, self.below, self.above)

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read a document's numbers, each checked."""
        below, above = (read_number(parameters, field, low=0.0, high=1.0) for field in ("below", "above"))
        return cls(below, above)


@dataclass(frozen=True)
class PredictedClass(Numbers):
    """The k-th row of ``frequencies (K, K)`` where class k has the largest probability, of equal ones the first."""

    family: ClassVar[str] = "predicted-class"
    takes: ClassVar[Takes] = "probabilities"
    frequencies: Floats

    def __call__(self, rows: Floats) -> Floats:
        """Calibrated probabilities ``(n, K)`` of probabilities ``(n, K)``. O(n K)."""
        found: Floats = self.frequencies[rows.argmax(axis=1)]
        return found

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:
        """Read a document's numbers, each checked."""
        frequencies = read_matrix(parameters, "frequencies", (n_classes, n_classes), low=0.0, high=1.0)
        for i in np.flatnonzero(np.abs(frequencies.sum(axis=1) - 1.0) > _SUM).tolist():
            raise InvalidDocument.at(f"/parameters/frequencies/{i}", "must sum to 1")
        return cls(frequencies)


def fit_accuracy_constant(vector: Vector) -> AccuracyConstant:
    """The weighted accuracy (proposition D.2). O(n K).

    Raises ``OutOfRange`` where it is no larger than the others' share: another class would become the likeliest.
    """
    accuracy = float(np.average(vector.predicted == vector.labels, weights=vector.w))
    _check_accuracy(accuracy, vector.n_classes)
    return AccuracyConstant(accuracy)


def fit_event_accuracy(event: Event) -> Sides:
    """The accuracy of deciding for the event where p >= 1/2, on its side (proposition D.2 for one event). O(n).

    A claim that a decision is right, as under ``confidence``, becomes the accuracy wherever it stands. Raises
    ``OutOfRange`` of an accuracy of at most 1/2 of what is not such a claim.
    """
    if event.decided:
        accuracy = float(np.average(event.y, weights=event.w))
        return Sides(accuracy, accuracy)
    accuracy = float(np.average((event.p >= 0.5) == event.y, weights=event.w))
    _check_accuracy(accuracy, 2)
    return Sides(1.0 - accuracy, accuracy)


def fit_side_means(cells: Cells) -> Sides:
    """The mean outcome of p < 1/2 and of p >= 1/2 (E.1.1, equation 40); of a side without rows, of all. O(log m)."""
    border = int(np.searchsorted(cells.p, 0.5))
    mass, positives = float(cells.cumulative_w[border]), float(cells.cumulative_wy[border])
    whole = float(cells.cumulative_wy[-1])
    mean = whole / cells.mass
    below = positives / mass if border else mean
    above = (whole - positives) / (cells.mass - mass) if border < len(cells) else mean
    return Sides(min(max(below, 0.0), 1.0), min(max(above, 0.0), 1.0))


def fit_predicted_class(vector: Vector) -> PredictedClass:
    """The frequencies of the labels among the rows that predict k (E.1.2, equation 42); of a k without rows, of all.

    O(n K).
    """
    K = vector.n_classes
    counts = np.bincount(vector.predicted * K + vector.labels, weights=vector.w, minlength=K * K).reshape(K, K) * 1.0
    counts[counts.sum(axis=1) == 0.0] = counts.sum(axis=0)
    return PredictedClass(counts / counts.sum(axis=1, keepdims=True))


def _check_accuracy(accuracy: float, n_classes: int) -> None:
    if not accuracy > (1.0 - accuracy) / (n_classes - 1):
        raise OutOfRange.at(
            "/labels", f"give an accuracy of at most 1/{n_classes}: the likeliest class would not stay the likeliest"
        )
