"""Beta calibration: a logistic curve in ln p and -ln(1 - p)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from scipy.special import expit, log_expit

from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import NotConverged
from calibrant.core.logistic import fit_logistic
from calibrant.core.reductions import Event
from calibrant.maps.curves import PROBABILITY_CLIP, Predicted, check_outcomes, check_squares, fast_logistic, in_blocks
from calibrant.maps.many_rows import GRADIENT, ManyRows, logarithms, logarithms_of_logits, many_rows, settle
from calibrant.maps.parameters import LogitShift, Parameter, Parametric

Parameters = Literal["abm", "am", "ab"]
#: Prior variance of the coefficients, which keeps them finite for separable data.
_VARIANCE = 1e6
_MAX_STEPS = 200
#: Increases of the loss below this are rounding errors.
_ROUNDING = 1e-14
#: Matrices that map the fitted coefficients to a, b and c.
_SHAPES: dict[Parameters, Floats] = {
    "abm": np.eye(3),
    "am": np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    "ab": np.array([[1.0, 0.0], [0.0, 1.0], [np.log(2.0), -np.log(2.0)]]),
}
#: The number of leading coefficients that must be non-negative.
_SIGNED: dict[Parameters, int] = {"abm": 2, "am": 1, "ab": 2}


@dataclass(frozen=True)
class Beta(Parametric):
    """Beta calibration with a, b >= 0: non-decreasing; p is clipped at 2^-52, logits are not."""

    family: ClassVar[str] = "beta"
    formula: ClassVar[str] = "logistic(a ln p - b ln(1 - p) + c)"
    a: Annotated[float, Parameter("factor of ln p")]
    b: Annotated[float, Parameter("factor of -ln(1 - p)")]
    c: LogitShift

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n)."""
        return in_blocks(lambda q: fast_logistic(np.array([self.a, self.b, self.c]) @ logarithms(q)), p)

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(n)."""
        with np.errstate(over="ignore"):
            return in_blocks(lambda x: fast_logistic(self.a * log_expit(x) - self.b * log_expit(-x) + self.c), z)


def fit_beta(cells: Cells, parameters: Parameters = "abm") -> Beta:
    """Fit by maximum likelihood (Kull, Silva Filho & Flach 2017) to a gradient of 1e-10. O(m) per Newton step.

    ``am`` sets a = b; ``ab`` sets c(1/2) = 1/2, that is logistic(a ln 2p - b ln 2(1 - p)). If the optimal a or b is
    negative, it is set to 0. Raises ``OneClass`` if all labels are equal, ``NotConverged``.
    """
    return _fitted(cells, parameters)[0]


def fit_beta_event(event: Event, parameters: Parameters = "abm") -> tuple[Beta, float]:
    """Fit to an event; also return the largest component of the gradient of the objective at the optimum.

    Many rows without weights are not sorted. O(n) per step, otherwise O(n log n).
    """
    rows = many_rows(event)
    if rows is not None:
        check_outcomes(rows.coarse)
        try:
            return _best(lambda columns: _settled(rows, columns), rows.coarse, parameters)
        except NotConverged:  # coarse cells are not accurate for steep curves
            pass
    return _fitted(event.cells, parameters)


def _fitted(cells: Cells, parameters: Parameters) -> tuple[Beta, float]:
    check_outcomes(cells)
    basis = _features_of(cells)
    return _best(lambda columns: _optimum(basis @ columns, cells), cells, parameters)


def features(p: Floats, clip: float = PROBABILITY_CLIP) -> Floats:
    """Return ln p, -ln(1 - p) and 1 for each ``p (n,)`` clipped to [clip, 1 - clip]: ``(n, 3)``."""
    p = np.clip(p, clip, 1.0 - clip)
    return np.column_stack([np.log(p), -np.log1p(-p), np.ones_like(p)])


def _features_of(of: Predicted) -> Floats:
    """Return ``features`` of probabilities, or without a clip of given logits."""
    return features(of.p) if of.logit is None else logarithms_of_logits(check_squares(of.logit)).T


#: The optimal coefficients of some columns, and the largest component of the gradient there.
_Optimum = tuple[Floats, float]


def _best(fit: Callable[[Floats], _Optimum], cells: Cells, parameters: Parameters) -> tuple[Beta, float]:
    """Return the curve with minimal log loss and a, b >= 0; ``fit`` gets the columns that map to a, b and c.

    The gradient is that of the coefficients that are not set to 0. The loss is convex: if the unconstrained optimum
    violates bounds, the constrained one is on one of those bounds.
    """
    shape, signed = _SHAPES[parameters], _SIGNED[parameters]
    columns = range(shape.shape[1])
    theta, gradient = fit(shape)
    broken = [k for k in columns if k < signed and theta[k] < 0.0]
    if not broken:
        return Beta(*(shape @ theta).tolist()), gradient
    optima: list[_Optimum] = []
    for left_out in broken:
        used = [k for k in columns if k != left_out]
        theta, gradient = fit(shape[:, used]) if used else (np.zeros(0), 0.0)
        if any(k < signed and value < 0.0 for k, value in zip(used, theta, strict=True)):
            used = [k for k in used if k >= signed]
            theta, gradient = fit(shape[:, used]) if used else (np.zeros(0), 0.0)
        optima.append((shape[:, used] @ theta, gradient))
    basis = _features_of(cells)
    losses = [cells.w @ np.logaddexp(0.0, basis @ abc) - cells.wy @ (basis @ abc) for abc, _ in optima]
    best, gradient = optima[int(np.argmin(losses))]
    return Beta(*best.tolist()), gradient


def _optimum(basis: Floats, cells: Cells) -> _Optimum:
    """Return the coefficients with minimal penalised log loss on ``basis (m, D)``."""
    w, wy, mass = cells.w, cells.wy, cells.mass
    size = np.sqrt(w @ basis**2 / mass)
    size[size == 0.0] = 1.0
    variance = np.full((1, basis.shape[1]), _VARIANCE)
    theta: Floats = fit_logistic(basis, np.zeros(len(basis)), w, wy, variance).theta[0]

    def loss(values: Floats) -> float:
        f = basis @ values
        return float(w @ np.logaddexp(0.0, f) - wy @ f + values @ values / (2 * _VARIANCE)) / mass

    # fit_logistic limits its steps, so that it may stop early for separable data; continue with halved Newton steps.
    before = loss(theta)
    for _ in range(_MAX_STEPS):
        c = expit(basis @ theta)
        gradient = ((w * c - wy) @ basis + theta / _VARIANCE) / mass
        if np.abs(gradient / size).max() <= GRADIENT:
            return theta, float(np.abs(gradient).max())
        hessian = (basis.T * (w * c * (1.0 - c))) @ basis / mass + np.eye(len(theta)) / (_VARIANCE * mass)
        step = np.linalg.solve(hessian, gradient)
        share = 1.0
        while (after := loss(theta - share * step)) > before + _ROUNDING and share > 1e-10:
            share /= 2
        theta, before = theta - share * step, after
    raise NotConverged.at("/labels", "do not allow beta calibration to converge to a gradient of 1e-10")


def _settled(rows: ManyRows, columns: Floats) -> _Optimum:
    """Return the same for many rows."""
    start, _ = _optimum(_features_of(rows.coarse) @ columns, rows.coarse)
    terms = logarithms if rows.coarse.logit is None else logarithms_of_logits
    optimum = settle(rows, start, lambda x: columns.T @ terms(x), precision=1.0 / _VARIANCE)
    if optimum is None:
        raise NotConverged.at("/labels", "do not allow beta calibration to converge to a gradient of 1e-10")
    return optimum
