"""The map of softmax regressions on smoothed predictions, such as SVS and SMS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from calibrant.core.batch import softmax_in_place
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument
from calibrant.maps.parameters import Divisor, Intercepts, Parameter, Parametric, Probability, Smoothing
from calibrant.maps.transforms import Takes, blocks_of_rows

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


class _OfSmoothed(Parametric):
    """A map of smoothed predictions."""

    smoothing: float
    prior: Floats

    def check(self) -> None:
        """Raise ``InvalidDocument`` if predictions are smoothed toward a probability of 0."""
        if self.smoothing > 0.0 and not self.prior.all():
            raise InvalidDocument.at("/parameters/prior", "must be positive if there is smoothing")


_Prior = Annotated[
    Floats, Probability("frequencies of the classes toward which they are smoothed", shape="K", sum_within=1e-9)
]


@dataclass(frozen=True)
class SoftmaxRegression(_OfSmoothed):
    """A softmax regression on smoothed predictions q and u = ln q; see ``smoothed_logits``. Differentiable."""

    family: ClassVar[str] = "softmax-regression"
    formula: ClassVar[str] = (
        "softmax(W u + Q u^2 / 4 + R q + b), q = (1 - a) softmax(z / temperature) + a prior, u = ln q"
    )
    takes: ClassVar[Takes] = "logits"
    temperature: Divisor
    smoothing: Smoothing
    prior: _Prior
    weights: Annotated[Floats, Parameter("matrix W, or its diagonal", shape="K, or K rows of K")]
    intercepts: Intercepts
    squares: Annotated[Floats | None, Parameter("matrix Q", shape="K rows of K")] = None
    probabilities: Annotated[Floats | None, Parameter("matrix R", shape="K rows of K")] = None

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


@dataclass(frozen=True)
class HiddenSoftmax(_OfSmoothed):
    """A softmax regression on standardised logarithms x of predictions and a layer of random features of them.

    x = (u - its mean over the classes - ``centre``) / ``spread``, with u of ``smoothed_logits``. Differentiable.
    """

    family: ClassVar[str] = "hidden-softmax"
    formula: ClassVar[str] = "softmax(W (x, tanh(H x + c)) + b), x the standardised logarithms of (1 - a) p + a prior"
    takes: ClassVar[Takes] = "logits"
    smoothing: Smoothing
    prior: _Prior
    centre: Annotated[Floats, Parameter("means of the logarithms", "logit", "K")]
    spread: Annotated[Floats, Parameter("standard deviations of the logarithms", "logit", "K", low=1e-300)]
    hidden: Annotated[Floats, Parameter("matrix H of random numbers", shape="D rows of K")]
    offsets: Annotated[Floats, Parameter("vector c of random numbers", shape="D")]
    weights: Annotated[Floats, Parameter("matrix W, with a row for each class", shape="K rows of K + D")]
    intercepts: Intercepts

    def check(self) -> None:
        """Raise ``InvalidDocument`` if predictions are smoothed toward 0, or there are too many hidden units."""
        super().check()
        if len(self.offsets) > _MOST_HIDDEN:
            raise InvalidDocument.at("/parameters/offsets", f"must contain at most {_MOST_HIDDEN} numbers")

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
