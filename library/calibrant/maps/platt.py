"""Platt scaling: a logistic curve on the logit of the prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, logit

from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import NotConverged
from calibrant.core.reductions import Event
from calibrant.maps.curves import check_outcomes, check_squares, fast_logistic, fast_logit, in_blocks, logit_of
from calibrant.maps.many_rows import logit_and_one, logit_itself_and_one, many_rows, settle
from calibrant.maps.parameters import LogitShift, LogitSlope, Parametric

_MAX_STEPS = 100
#: Largest gradient of the mean log loss at convergence.
_GRADIENT = 1e-10
#: Increases of the loss below this are rounding errors.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class Platt(Parametric):
    """Platt scaling. Monotone for slope > 0, differentiable.

    Probabilities are clipped at 2^-52, logits are not.
    """

    family: ClassVar[str] = "platt"
    formula: ClassVar[str] = "logistic(slope logit(p) + intercept)"
    slope: LogitSlope
    intercept: LogitShift

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n)."""
        return in_blocks(lambda q: self._logistic(fast_logit(q)), p)

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(n)."""
        return in_blocks(self._logistic, z)

    def _logistic(self, z: Floats) -> Floats:
        f = self.line(z)
        return fast_logistic(f, out=f)

    def line(self, z: Floats) -> Floats:
        """Return slope z + intercept, the calibrated logits."""
        with np.errstate(over="ignore"):
            f: Floats = z * self.slope
        f += self.intercept
        return f


def fit_platt_event(event: Event, *, target_smoothing: bool = True) -> tuple[Platt, float]:
    """Fit to an event; also return the largest component of the gradient of the mean log loss.

    Many rows without weights are not sorted. O(n) per step, otherwise O(n log n).
    """
    rows = many_rows(event)
    if rows is not None:
        coarse = rows.coarse
        try:
            start = fit_platt(coarse, target_smoothing=target_smoothing)
        except NotConverged:  # the coarse cells are separable, the rows may not be
            return _fitted(event.cells, target_smoothing=target_smoothing)
        positives = float(coarse.wy.sum())
        targets = _targets(positives, coarse.mass - positives) if target_smoothing else (0.0, 1.0)
        terms = logit_and_one if coarse.logit is None else logit_itself_and_one
        settled = settle(rows, np.array([start.slope, start.intercept]), terms, targets=targets)
        if settled is not None:
            return Platt(*settled[0].tolist()), settled[1]
    return _fitted(event.cells, target_smoothing=target_smoothing)


def _targets(positives: float, negatives: float) -> tuple[float, float]:
    """Return Platt's targets for the labels 0 and 1."""
    return 1.0 / (negatives + 2), (positives + 1) / (positives + 2)


def fit_platt(cells: Cells, *, target_smoothing: bool = True) -> Platt:
    """Fit by maximum likelihood (Platt 1999) with Newton's method and step halving. O(m) per step.

    With ``target_smoothing`` the labels 1 and 0 become (n1 + 1) / (n1 + 2) and 1 / (n0 + 2), which
    gives a finite optimum for separable data; importance weights are scaled to the effective number of rows.
    Without it separable data raise ``NotConverged``. Raises ``OneClass`` if all labels are equal.
    """
    return _fitted(cells, target_smoothing=target_smoothing)[0]


def _fitted(cells: Cells, *, target_smoothing: bool) -> tuple[Platt, float]:
    positives = check_outcomes(cells)
    negatives = cells.mass - positives
    target = cells.wy
    if target_smoothing:
        low, high = _targets(positives * cells.rows_per_weight, negatives * cells.rows_per_weight)
        target = cells.wy * high + (cells.w - cells.wy) * low
    logits = check_squares(logit_of(cells))
    # Centring and scaling makes the Hessian well conditioned, also for constant predictions.
    centre = float(cells.w @ logits) / cells.mass
    spread = float(np.sqrt(cells.w @ (logits - centre) ** 2 / cells.mass))
    scale = spread if spread > 1e-9 else np.inf
    z = (logits - centre) / scale
    # Start from the best constant, like Platt: at the identity, extreme predictions have no curvature.
    theta, (by_slope, by_intercept) = _newton(
        z, cells.w, target, np.array([0.0, float(logit(target.sum() / cells.mass))])
    )
    slope = float(theta[0] / scale)
    gradient = max(abs(by_slope * spread + by_intercept * centre), abs(by_intercept))
    return Platt(slope, float(theta[1] - slope * centre)), gradient


def _newton(z: Floats, w: Floats, target: Floats, theta: Floats) -> tuple[Floats, Floats]:
    """Minimise the log loss of theta[0] z + theta[1] from ``theta``; also return its gradient.

    Raises ``NotConverged``.
    """
    mass = float(w.sum())
    loss = _loss(z, w, target, theta)
    for _ in range(_MAX_STEPS):
        c = expit(theta[0] * z + theta[1])
        residual = w * c - target
        gradient = np.array([residual @ z, residual.sum()]) / mass
        curvature = w * c * (1.0 - c)
        cross = curvature @ z
        hessian = np.array([[curvature @ (z * z), cross], [cross, curvature.sum()]]) / mass
        # For constant predictions one direction is flat; the ridge makes the Hessian regular.
        step = np.linalg.solve(hessian + np.eye(2) * (1e-13 * (1e-13 + np.trace(hessian))), gradient)
        # For separable data the gradient vanishes but the steps do not, so convergence needs both.
        if np.abs(gradient).max() <= _GRADIENT and np.abs(step).max() <= 1e-6 * (1.0 + np.abs(theta).max()):
            return theta, gradient
        size = 1.0
        while (trial := _loss(z, w, target, theta - size * step)) > loss + _ROUNDING and size > 1e-10:
            size /= 2
        theta, loss = theta - size * step, trial
        if not np.all(np.isfinite(theta)):
            break
    raise NotConverged.at("/labels", "are separable, so that Platt scaling has no finite optimum; use target_smoothing")


def _loss(z: Floats, w: Floats, target: Floats, theta: Floats) -> float:
    """Return the mean log loss, in nats, of the line ``theta`` in ``z``."""
    f = theta[0] * z + theta[1]
    return float(w @ np.logaddexp(0.0, f) - target @ f) / float(w.sum())
