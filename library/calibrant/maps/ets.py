"""Ensemble temperature scaling: a mixture of temperature-scaled, uncalibrated and uniform predictions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, ClassVar

import numpy as np

from calibrant.core.cells import Floats
from calibrant.core.errors import NotConverged
from calibrant.core.progress import check, report
from calibrant.core.reductions import Vector
from calibrant.maps.parameters import Divisor, Parameter, Parametric
from calibrant.maps.temperature import Temperature, logits_of, optimal_temperature
from calibrant.maps.transforms import Takes, blocks_of_rows, logits_block

_MAX_STEPS = 200
#: Converged if no derivative of the mean log likelihood exceeds that of the mixture by more than this.
_KKT = 1e-10
#: Parts whose derivative is this much below that of the mixture get weight 0.
_IDLE = 1e-6
#: A step reduces a weight by at most this fraction.
_NEAREST = 0.995
#: Increases of the loss below this fraction of the change of probabilities are rounding errors.
_ROUNDING = 1e-15
#: Tolerance of the sum of weights in documents.
_SUM = 1e-12
_LOW, _HIGH = 1e-300, 1e300


@dataclass(frozen=True)
class EnsembleTemperature(Parametric):
    """Ensemble temperature scaling: preserves the order of the classes, differentiable."""

    family: ClassVar[str] = "ets"
    formula: ClassVar[str] = "w0 softmax(z / temperature) + w1 softmax(z) + w2 / K"
    takes: ClassVar[Takes] = "logits"
    temperature: Divisor
    weights: Annotated[
        Floats, Parameter("w0, w1 and w2, which sum to 1", shape="3", low=0.0, high=1.0, sum_within=_SUM)
    ]

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K)."""
        tempered, unchanged, uniform = (float(w) for w in self.weights)
        calibrated = Temperature(self.temperature)(rows)
        calibrated *= tempered
        for part in blocks_of_rows(rows):
            calibrated[part] += unchanged * Temperature(1.0)(rows[part])
        calibrated += uniform / rows.shape[1]
        return calibrated


def fit_ets(vector: Vector) -> tuple[EnsembleTemperature, dict[str, float]]:
    """Fit the temperature and then the weights (Zhang, Kailkhura & Han 2020, section 3.2).

    The second value has the log loss and ``gradient``: how fast the loss falls, per weight that is moved to another
    part, at the optimum of the weights.
    Raises what ``optimal_temperature`` raises. O(n K) per step of the temperature, O(n) per step of the weights.
    """
    report(0, 2, "temperature")
    logits = logits_of(vector)
    temperature = optimal_temperature(logits, vector.w).value
    values, n = (vector.p if vector.logits is None else vector.logits), len(vector)
    parts = np.full((n, 3), 1.0 / vector.n_classes)
    report(1, 2, "weights")
    for rows in blocks_of_rows(values):
        check()
        z = logits_block(values[rows], vector.logits is None)
        own = np.arange(len(z)), vector.labels[rows]
        parts[rows, 0] = Temperature(temperature)(z)[own]
        parts[rows, 1] = Temperature(1.0)(z)[own]
    weights = np.ones(n) if vector.w is None else vector.w
    mixture = mixture_weights(parts, weights / weights.sum())
    counted = weights > 0.0
    parts, share = parts[counted], weights[counted] / weights.sum()
    mixed = parts @ mixture
    gradient = float((share @ (parts / mixed[:, None] - 1.0)).max())
    optimum = {"log_loss": -float(share @ np.log(mixed)), "gradient": max(gradient, 0.0)}
    return EnsembleTemperature(temperature, mixture), optimum


def mixture_weights(parts: Floats, w: Floats) -> Floats:
    """Return weights ``(m,)`` on the simplex that minimise -sum w log(parts @ weights), ``parts (n, m)``, sum w = 1.

    Newton's method with step halving minimises the quadratic model exactly on each face of the simplex. The loss is
    within 1e-10 of the minimum; otherwise raises ``NotConverged``. O(n m^2) per step.
    """
    if not w.all():  # a row of weight 0 may have probability 0 under all parts that are used
        parts, w = parts[w > 0.0], w[w > 0.0]
    m = parts.shape[1]
    weights = np.full(m, 1.0 / m)
    for _ in range(_MAX_STEPS):
        mixed = parts @ weights
        ratios = parts / mixed[:, None]
        gains = w @ (ratios - 1.0)  # negated derivatives minus their mean under the weights, which is 1
        if gains.max() <= _KKT:  # the loss is convex, so this bounds its distance from the minimum
            return _without_idle(parts, w, weights, gains)
        step = _step_on_simplex(weights, gains, ratios.T @ (w[:, None] * ratios))
        # A weight of 0 could give rows with probability 0 and an infinite loss.
        shrinks = step < 0.0
        size = min(1.0, float(np.min(_NEAREST * weights[shrinks] / -step[shrinks], initial=1.0)))
        moved, rounding = (parts @ step) / mixed, _ROUNDING * float(w @ (parts @ np.abs(step) / mixed))
        # Sum the changes of the rows: near the optimum the difference of two losses is less than their rounding.
        while not float(w @ np.log1p(size * moved)) >= -rounding * size:
            size /= 2.0
            if size < 1e-12:
                raise NotConverged("the weights of ets did not converge: no step reduces the log loss")
        weights = weights + size * step
        weights /= weights.sum()
    raise NotConverged(f"the weights of ets did not converge in {_MAX_STEPS} steps")


def _without_idle(parts: Floats, w: Floats, weights: Floats, gains: Floats) -> Floats:
    """Return the optimum with weights of exactly 0 for parts that do not contribute, if it is still optimal."""
    used = gains > -_IDLE
    if used.all():
        return weights
    optimum = np.zeros(len(weights))
    optimum[used] = mixture_weights(parts[:, used], w)
    again = w @ (parts / (parts @ optimum)[:, None] - 1.0)
    return optimum if again.max() <= _KKT else weights


def _step_on_simplex(weights: Floats, gains: Floats, hessian: Floats) -> Floats:
    """Return the step from ``weights`` to the minimum of the quadratic model on the simplex, over all faces.

    Solving for the step keeps its relative accuracy and its sum of 0. ``gains`` are the negated derivatives minus that
    of the mixture.
    """
    m = len(weights)
    regular = hessian + np.eye(m) * (1e-13 * float(np.trace(hessian)))
    best, least = np.zeros(m), np.inf
    for size in range(1, m + 1):
        for face in combinations(range(m), size):
            chosen = np.array(face)
            step = -weights
            step[chosen] = 0.0
            system = np.ones((size + 1, size + 1))
            system[:size, :size] = regular[np.ix_(chosen, chosen)]
            system[size, size] = 0.0
            wanted = np.append((gains - hessian @ step)[chosen], -step.sum())
            step[chosen] = np.linalg.solve(system, wanted)[:size]
            if np.any(weights + step < 0.0):
                continue
            value = float(step @ hessian @ step / 2.0 - gains @ step)
            if value < least:
                best, least = step, value
    return best
