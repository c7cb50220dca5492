"""The maps of softmax regressions on smoothed predictions, such as SVS and SMS, and of layers of hidden units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from calibrant.core.batch import softmax_in_place
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument
from calibrant.maps.parameters import Divisor, Intercepts, Parameter, Parametric, Probability, Smoothing
from calibrant.maps.transforms import Takes, blocks_of_rows

#: The most hidden units and knots of a class in documents.
_MOST_HIDDEN, _MOST_KNOTS = 1000, 1000


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
        calibrated = np.empty(rows.shape)
        for part in blocks_of_rows(rows):
            u, q = smoothed_logits(rows[part].astype(np.float64), self.temperature, self.smoothing, self.prior)
            if self.weights.ndim == 1:
                calibrated[part] = u * self.weights
            else:
                np.matmul(u, self.weights.T, out=calibrated[part])
            if self.squares is not None:
                calibrated[part] += (u * u / 4.0) @ self.squares.T
            if self.probabilities is not None:
                calibrated[part] += q @ self.probabilities.T
            calibrated[part] += self.intercepts
            softmax_in_place(calibrated[part])
        return calibrated


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
        calibrated = np.empty(rows.shape)
        for part in blocks_of_rows(rows):
            np.matmul(self.features(rows[part]), self.weights.T, out=calibrated[part])
            calibrated[part] += self.intercepts
            softmax_in_place(calibrated[part])
        return calibrated


@dataclass(frozen=True)
class NetworkSoftmax(_OfSmoothed):
    """A softmax regression on features of predictions, and on a layer of rectified sums of these.

    The features are v = (u - its mean over the classes, positions of each u_k between its knots), with u of
    ``smoothed_logits``; see ``features``. Continuous, differentiable except at the knots and where a sum is 0.
    """

    family: ClassVar[str] = "network-softmax"
    formula: ClassVar[str] = (
        "softmax(W (v, max(H v + c, 0)) + b), v the centred logarithms of (1 - a) p + a prior and their positions "
        "between the knots"
    )
    takes: ClassVar[Takes] = "logits"
    smoothing: Smoothing
    prior: _Prior
    knots: Annotated[Floats, Parameter("knots of each class", "logit", "K rows of t", order="not decreasing")]
    hidden: Annotated[Floats, Parameter("matrix H, with a row for each hidden unit", shape="D rows of K t")]
    offsets: Annotated[Floats, Parameter("vector c", shape="D")]
    weights: Annotated[Floats, Parameter("matrix W, with a row for each class", shape="K rows of K t + D")]
    intercepts: Intercepts

    def check(self) -> None:
        """Raise ``InvalidDocument`` if smoothed toward 0, or for too many hidden units or knots."""
        super().check()
        for name, size, most in (
            ("offsets", len(self.offsets), _MOST_HIDDEN),
            ("knots", self.knots.shape[1], _MOST_KNOTS),
        ):
            if size > most:
                raise InvalidDocument.at(f"/parameters/{name}", f"must contain at most {most} numbers")

    def features(self, z: Floats) -> Floats:
        """Return the features ``(n, K t)`` of logits ``z (n, K)``.

        The first K are u minus its mean over the classes. Then, class by class, t - 1 positions: that of u_k between
        two consecutive knots is 0 up to the first, 1 from the second on, and linear between; 0 if the knots are equal.
        """
        u, _ = smoothed_logits(z.astype(np.float64), 1.0, self.smoothing, self.prior)
        low, width = self.knots[:, :-1], np.diff(self.knots, axis=1)
        with np.errstate(over="ignore"):
            position = (u[:, :, None] - low) / np.where(width > 0.0, width, np.inf)
        np.clip(position, 0.0, 1.0, out=position)
        return np.hstack([u - u.mean(axis=1, keepdims=True), position.reshape(len(u), low.size)])

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K t D)."""
        calibrated = np.empty(rows.shape)
        direct = self.knots.size
        for part in blocks_of_rows(rows):
            v = self.features(rows[part])
            units = v @ self.hidden.T
            units += self.offsets
            np.maximum(units, 0.0, out=units)
            np.matmul(v, self.weights[:, :direct].T, out=calibrated[part])
            calibrated[part] += units @ self.weights[:, direct:].T
            calibrated[part] += self.intercepts
            softmax_in_place(calibrated[part])
        return calibrated
