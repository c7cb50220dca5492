"""Baseline maps that some measures of calibration cannot detect (Gruber & Buettner 2022, appendices D and E)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import OutOfRange
from calibrant.core.reductions import Event, Vector
from calibrant.maps.curves import OfProbability
from calibrant.maps.parameters import Parametric, Probability
from calibrant.maps.transforms import Takes

#: Tolerance of the sum of rows in documents.
_SUM = 1e-9


@dataclass(frozen=True)
class AccuracyConstant(Parametric):
    """One probability for the predicted class, the first one of ties. Not differentiable."""

    family: ClassVar[str] = "accuracy-constant"
    formula: ClassVar[str] = "accuracy for the class of the largest p, (1 - accuracy) / (K - 1) for each other"
    takes: ClassVar[Takes] = "either"
    accuracy: Annotated[float, Probability("of the rows of the fit")]

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for probabilities ``(n, K)``. O(n K)."""
        calibrated = np.full(rows.shape, (1.0 - self.accuracy) / (rows.shape[1] - 1))
        calibrated[np.arange(len(rows)), rows.argmax(axis=1)] = self.accuracy
        return calibrated

    of_logits = __call__  # only the order matters


@dataclass(frozen=True)
class Sides(Parametric, OfProbability):
    """One probability on each side of 1/2. Monotone if below <= above, not differentiable."""

    family: ClassVar[str] = "sides"
    formula: ClassVar[str] = "below if p < 1/2, otherwise above"
    below: Annotated[float, Probability("the probability below 1/2")]
    above: Annotated[float, Probability("the probability from 1/2")]

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n)."""
        return np.where(p < 0.5, self.below, self.above)


@dataclass(frozen=True)
class PredictedClass(Parametric):
    """Probabilities by predicted class, the first one of ties. Not differentiable."""

    family: ClassVar[str] = "predicted-class"
    formula: ClassVar[str] = "row k of the frequencies, with k the class of the largest p"
    takes: ClassVar[Takes] = "either"
    frequencies: Annotated[
        Floats,
        Probability(
            "frequencies of the classes among rows with the same predicted class", shape="K rows of K", sum_within=_SUM
        ),
    ]

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for probabilities ``(n, K)``. O(n K)."""
        calibrated: Floats = self.frequencies[rows.argmax(axis=1)]
        return calibrated

    of_logits = __call__  # only the order matters


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
