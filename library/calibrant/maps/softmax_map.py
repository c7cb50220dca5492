"""The map of softmax regressions on smoothed predictions, such as SVS and SMS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.core.batch import softmax_in_place
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument
from calibrant.maps.curves import Numbers, read_array, read_number
from calibrant.maps.transforms import Takes, blocks_of_rows, read_matrix

_LOW, _HIGH = 1e-300, 1e300
#: Tolerance of the sum of a prior in documents.
_SUM = 1e-9
#: The most hidden units in documents.
_MOST_HIDDEN = 1000


def smoothed_logits(z: Floats, temperature: float, smoothing: float, prior: Floats) -> tuple[Floats, Floats]:
    """Return u = ln q and q = (1 - smoothing) softmax(z / temperature) + smoothing prior for logits ``z (n, K)``.

    Without smoothing u = z / temperature, which is not normalised. The precision is that of ``z``.
    """
    u = z / z.dtype.type(temperature)
    q = softmax_in_place(u.copy())
    if smoothing == 0.0:
        return u, q
    q *= z.dtype.type(1.0 - smoothing)
    q += (smoothing * prior).astype(z.dtype)
    return np.log(q), q


@dataclass(frozen=True)
class SoftmaxRegression:
    """softmax(W u + Q u^2 / 4 + R q + b) of smoothed predictions q and u = ln q; see ``smoothed_logits``.

    ``weights`` W are ``(K, K)``, or ``(K,)`` for a weight of each class on its own feature. ``squares`` Q and
    ``probabilities`` R are ``(K, K)``, or None. Differentiable.
    """

    family: ClassVar[str] = "softmax-regression"
    takes: ClassVar[Takes] = "logits"
    temperature: float
    smoothing: float
    prior: Floats
    weights: Floats
    intercepts: Floats
    squares: Floats | None = None
    probabilities: Floats | None = None

    @property
    def linear(self) -> bool:
        """Whether the scores are linear in u."""
        return self.squares is None and self.probabilities is None

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K^2), or O(n K)."""
        found = np.empty(rows.shape)
        for part in blocks_of_rows(rows):
            u, q = smoothed_logits(rows[part].astype(np.float64), self.temperature, self.smoothing, self.prior)
            if self.weights.ndim == 1:
                found[part] = u * self.weights
            else:
                np.matmul(u, self.weights.T, out=found[part])
            if self.squares is not None:
                found[part] += (u * u / 4.0) @ self.squares.T
            if self.probabilities is not None:
                found[part] += q @ self.probabilities.T
            found[part] += self.intercepts
            softmax_in_place(found[part])
        return found

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain JSON."""
        found = {
            "temperature": self.temperature,
            "smoothing": self.smoothing,
            "prior": self.prior.tolist(),
            "weights": self.weights.tolist(),
            "intercepts": self.intercepts.tolist(),
        }
        if self.squares is not None:
            found["squares"] = self.squares.tolist()
        if self.probabilities is not None:
            found["probabilities"] = self.probabilities.tolist()
        return found

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:
        """Read and check the parameters of a document."""
        square = (n_classes, n_classes)
        wide = isinstance(read_array(parameters, "weights")[0], list)
        return cls(
            read_number(parameters, "temperature", low=_LOW, high=_HIGH),
            *_read_smoothing(parameters, n_classes),
            read_matrix(parameters, "weights", square)
            if wide
            else read_array(parameters, "weights", numeric=True, length=n_classes),
            read_array(parameters, "intercepts", numeric=True, length=n_classes),
            read_matrix(parameters, "squares", square) if "squares" in parameters else None,
            read_matrix(parameters, "probabilities", square) if "probabilities" in parameters else None,
        )


@dataclass(frozen=True)
class HiddenSoftmax(Numbers):
    """softmax(weights (x, tanh(hidden x + offsets)) + intercepts) of standardised logarithms x of predictions.

    x = (u - its mean over the classes - ``centre``) / ``spread``, with u of ``smoothed_logits``. ``hidden (D, K)`` and
    ``offsets (D,)`` are random numbers, ``weights`` are ``(K, K + D)``. Differentiable.
    """

    family: ClassVar[str] = "hidden-softmax"
    takes: ClassVar[Takes] = "logits"
    smoothing: float
    prior: Floats
    centre: Floats
    spread: Floats
    hidden: Floats
    offsets: Floats
    weights: Floats
    intercepts: Floats

    def features(self, z: Floats) -> Floats:
        """Return the features ``(n, K + D)`` of logits ``z (n, K)``."""
        u, _ = smoothed_logits(z.astype(np.float64), 1.0, self.smoothing, self.prior)
        x = (u - u.mean(axis=1, keepdims=True) - self.centre) / self.spread
        return np.hstack([x, np.tanh(x @ self.hidden.T + self.offsets)])

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K D)."""
        found = np.empty(rows.shape)
        for part in blocks_of_rows(rows):
            np.matmul(self.features(rows[part]), self.weights.T, out=found[part])
            found[part] += self.intercepts
            softmax_in_place(found[part])
        return found

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:
        """Read and check the parameters of a document."""
        offsets = read_array(parameters, "offsets", numeric=True)
        if len(offsets) > _MOST_HIDDEN:
            raise InvalidDocument.at("/parameters/offsets", f"must contain at most {_MOST_HIDDEN} numbers")
        return cls(
            *_read_smoothing(parameters, n_classes),
            read_array(parameters, "centre", numeric=True, length=n_classes),
            read_array(parameters, "spread", numeric=True, low=_LOW, length=n_classes),
            read_matrix(parameters, "hidden", (len(offsets), n_classes)),
            offsets,
            read_matrix(parameters, "weights", (n_classes, n_classes + len(offsets))),
            read_array(parameters, "intercepts", numeric=True, length=n_classes),
        )


def _read_smoothing(parameters: dict[str, Any], n_classes: int) -> tuple[float, Floats]:
    prior = read_array(parameters, "prior", numeric=True, low=0.0, high=1.0, length=n_classes)
    if abs(float(prior.sum()) - 1.0) > _SUM:
        raise InvalidDocument.at("/parameters/prior", "must sum to 1")
    smoothing = read_number(parameters, "smoothing", low=0.0, high=1.0)
    if smoothing > 0.0 and not prior.all():
        raise InvalidDocument.at("/parameters/prior", "must be positive if there is smoothing")
    return smoothing, prior
