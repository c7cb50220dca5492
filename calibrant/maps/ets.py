"""Ensemble temperature scaling: a mixture of tempered, given and uniform predictions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.cells import Floats
from calibrant.errors import InvalidDocument, NotConverged
from calibrant.maps.curves import read_array, read_number
from calibrant.maps.temperature import Temperature
from calibrant.maps.tempering import logits_of, optimal_temperature
from calibrant.maps.transforms import Takes, blocks_of_rows, logits_block
from calibrant.progress import Progress, Rising
from calibrant.reductions import Vector

_MAX_STEPS = 200
#: Done when no weight's gain in the mean log likelihood exceeds the mixture's own by more.
_KKT = 1e-10
#: Parts that gain by so much less than the mixture are given no weight.
_IDLE = 1e-6
#: A step takes a weight at most this share of its way to 0.
_NEAREST = 0.995
#: A loss that grew by less grew by rounding.
_ROUNDING = 1e-15
#: Weights of documents sum to 1 within this.
_SUM = 1e-12
_LOW, _HIGH = 1e-300, 1e300


@dataclass(frozen=True)
class EnsembleTemperature:
    """w_0 softmax(z / temperature) + w_1 softmax(z) + w_2 / K: keeps the order of the classes, differentiable.

    ``weights (3,)`` are at least 0 and of sum 1.
    """

    family: ClassVar[str] = "ets"
    takes: ClassVar[Takes] = "logits"
    temperature: float
    weights: Floats

    def __call__(self, rows: Floats) -> Floats:
        """Calibrated probabilities ``(n, K)`` of logits ``(n, K)``. O(n K)."""
        tempered, given, uniform = (float(w) for w in self.weights)
        found = Temperature(self.temperature)(rows)
        found *= tempered
        for part in blocks_of_rows(rows):
            found[part] += given * Temperature(1.0)(rows[part])
        found += uniform / rows.shape[1]
        return found

    def parameters(self) -> dict[str, Any]:
        """The numbers that make this transform."""
        return {"temperature": self.temperature, "weights": self.weights.tolist()}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:  # noqa: ARG003 - they fit any number
        """Read a document's numbers, each checked."""
        temperature = read_number(parameters, "temperature", low=_LOW, high=_HIGH)
        weights = read_array(parameters, "weights", numeric=True, low=0.0, high=1.0, length=3)
        if abs(float(weights.sum()) - 1.0) > _SUM:
            raise InvalidDocument.at("/parameters/weights", "must sum to 1")
        return cls(temperature, weights)


def fit_ets(vector: Vector, progress: Progress | None = None) -> tuple[EnsembleTemperature, float]:
    """Fit by log loss (Zhang, Kailkhura & Han 2020, section 3.2), first the temperature, then the weights; the loss.

    Raises what ``optimal_temperature`` raises. O(n K) a step of the temperature, O(n) a step of the weights.
    """
    told = Rising(progress, 2, "temperature")
    logits = logits_of(vector, told)
    temperature = optimal_temperature(logits, vector.w).value
    given, n = (vector.p if vector.logits is None else vector.logits), len(vector)
    parts = np.full((n, 3), 1.0 / vector.n_classes)
    told.begin(1)
    told(0, 1, "weights")
    for rows in blocks_of_rows(given):
        told.again()
        z = logits_block(given[rows], vector.logits is None)
        own = np.arange(len(z)), vector.labels[rows]
        parts[rows, 0] = Temperature(temperature)(z)[own]
        parts[rows, 1] = Temperature(1.0)(z)[own]
    weights = np.ones(n) if vector.w is None else vector.w
    found = mixture_weights(parts, weights / weights.sum())
    return EnsembleTemperature(temperature, found), _mixture_loss(parts, weights / weights.sum(), found)


def mixture_weights(parts: Floats, w: Floats) -> Floats:
    """The weights ``(m,)`` on the simplex of least -sum w log(parts @ weights), for ``parts (n, m)``, w of sum 1.

    Newton's method: the quadratic model is minimised exactly, face by face of the simplex, and steps are halved.
    Done when the loss is within 1e-10 of the least, as its slopes say; else ``NotConverged``. O(n m^2) a step.
    """
    m = parts.shape[1]
    weights = np.full(m, 1.0 / m)
    loss = _mixture_loss(parts, w, weights)
    for _ in range(_MAX_STEPS):
        ratios = parts / (parts @ weights)[:, None]
        gradient = -(w @ ratios)  # at any weights its mean under them is -1
        if np.max(-gradient - 1.0) <= _KKT:  # the loss is convex, so that it is no further than this above the least
            return _without_idle(parts, w, weights, -gradient)
        step = _least_on_simplex(weights, gradient, ratios.T @ (w[:, None] * ratios)) - weights
        # A weight that is 0 leaves rows without a probability, and no curvature to go by.
        shrinks = step < 0.0
        size = min(1.0, float(np.min(_NEAREST * weights[shrinks] / -step[shrinks], initial=1.0)))
        while not (trial := _mixture_loss(parts, w, weights + size * step)) <= loss + _ROUNDING:
            size /= 2.0
            if size < 1e-12:
                raise NotConverged("the weights of ets did not reach their optimum: no step lowers the loss")
        weights, loss = weights + size * step, trial
        weights /= weights.sum()
    raise NotConverged(f"the weights of ets did not reach their optimum in {_MAX_STEPS} steps")


def _without_idle(parts: Floats, w: Floats, weights: Floats, gains: Floats) -> Floats:
    """The optimum with weights of exactly 0 for the parts that only lose by theirs, where it is one of all parts."""
    used = gains > 1.0 - _IDLE
    if used.all():
        return weights
    found = np.zeros(len(weights))
    found[used] = mixture_weights(parts[:, used], w)
    again = w @ (parts / (parts @ found)[:, None])
    return found if np.max(again - 1.0) <= _KKT else weights


def _least_on_simplex(weights: Floats, gradient: Floats, hessian: Floats) -> Floats:
    """Where the quadratic model about ``weights`` is least on the simplex: the best of the faces' own optima."""
    m = len(weights)
    linear = gradient - hessian @ weights
    regular = hessian + np.eye(m) * (1e-13 * float(np.trace(hessian)))
    best, least = weights, np.inf
    for size in range(1, m + 1):
        for face in combinations(range(m), size):
            chosen = np.array(face)
            system = np.ones((size + 1, size + 1))
            system[:size, :size] = regular[np.ix_(chosen, chosen)]
            system[size, size] = 0.0
            solved = np.linalg.solve(system, np.append(-linear[chosen], 1.0))[:size]
            if solved.min() < 0.0:
                continue
            point = np.zeros(m)
            point[chosen] = solved / solved.sum()
            value = float(linear @ point + point @ hessian @ point / 2.0)
            if value < least:
                best, least = point, value
    return best


def _mixture_loss(parts: Floats, w: Floats, weights: Floats) -> float:
    with np.errstate(divide="ignore"):
        return -float(w @ np.log(parts @ weights))
