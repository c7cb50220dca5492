"""Penalised softmax regressions: many fits to the same rows at once, by a preconditioned quasi-Newton method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import scipy

from calibrant.core.cells import Floats
from calibrant.core.errors import NotConverged
from calibrant.maps.softmax_design import Design
from calibrant.maps.softmax_device import placed

Flags = npt.NDArray[np.bool_]

#: The most parameters for the whole Hessian, and rows per parameter from which it is computed.
_WHOLE, _ROWS_PER_PARAMETER = 750, 8
#: Steps after which the preconditioner is computed again, which are remembered, and the most steps in total.
_STEPS, _MOST_STEPS = 12, 600
#: Shortened steps after which it is computed again, and steps after which several fits are finished one by one.
_SHORT, _TOGETHER = 2, 40
#: Expected relative decrease below which a step that fails is due to rounding errors.
_STUCK = 1e-7
#: Increases of the objective below this fraction are rounding errors.
_ROUNDING = 4e-15
#: Fraction of the largest curvature that is added to all directions of the preconditioner.
_RIDGE = 1e-12


@dataclass(frozen=True)
class Penalty:
    """sum(strength (theta - centre)^2), with arrays that broadcast to ``(S, K, d + 1)``."""

    strength: Floats
    centre: Floats

    def value(self, theta: Floats) -> Floats:
        """Return the penalty of each fit ``(S,)``."""
        moved = theta - self.centre
        values: Floats = (self.strength * moved * moved).sum(axis=(1, 2))
        return values

    def gradient(self, theta: Floats) -> Floats:
        """Return its gradient."""
        return 2.0 * self.strength * (theta - self.centre)


# --- Preconditioners


class Preconditioner(Protocol):
    """An approximate inverse Hessian."""

    def __call__(self, gradient: Floats) -> Floats:
        """Return the product with gradients ``(S, K, d + 1)``."""
        ...


@dataclass(frozen=True)
class WholeInverse:
    """The inverse of a whole Hessian, by its Cholesky factor."""

    factor: tuple[Floats, bool]

    @classmethod
    def of(cls, hessian: Floats, curvature: Floats) -> WholeInverse:
        """Return the inverse of the Hessian of the loss plus the curvature ``(P,)`` of the penalty."""
        penalised = hessian + np.diag(curvature)
        ridge = _RIDGE * float(penalised.diagonal().max())
        for _ in range(12):
            try:
                return cls(scipy.linalg.cho_factor(penalised + ridge * np.eye(len(penalised)), check_finite=False))
            except scipy.linalg.LinAlgError:
                ridge *= 10.0
        raise NotConverged("the softmax regression did not converge: the Hessian of the log loss is singular")

    def __call__(self, gradient: Floats) -> Floats:
        """Return the product with gradients ``(S, K, d + 1)``."""
        flat = gradient.reshape(len(gradient), -1).T
        products: Floats = scipy.linalg.cho_solve(self.factor, flat, check_finite=False).T.reshape(gradient.shape)
        return products


@dataclass(frozen=True)
class Pairs:
    """The inverse of the Hessian in the weight of each class on its own feature and in its intercept, alone."""

    inverse: Floats

    @classmethod
    def of(cls, design: Design, theta: Floats, w: Floats, curvature: Floats) -> Pairs:
        """Return the inverses ``(K, 2, 2)`` for the curvature ``(K, 2)`` of the penalty."""
        sums = np.zeros((3, design.n_classes))
        for rows, x in design.blocks():
            p, total, _ = design.exponentials(x, design.labels[rows], theta[None])
            p = p[0] / total
            p *= (1.0 - p) * w[rows].astype(x.dtype)
            z = x[: design.n_classes]
            for power, of_class in enumerate((p, p * z, p * z * z)):
                sums[power] += of_class.sum(axis=1, dtype=np.float64)
        ridge = _RIDGE * float(sums.max()) + 1e-300
        a, b, c = sums[2] + curvature[:, 0] + ridge, sums[1], sums[0] + curvature[:, 1] + ridge
        inverse = np.stack([np.stack([c, -b], axis=1), np.stack([-b, a], axis=1)], axis=1)
        return cls(inverse / np.maximum(a * c - b * b, ridge * ridge)[:, None, None])

    def __call__(self, gradient: Floats) -> Floats:
        """Return the product with gradients ``(S, K, 2)``."""
        products: Floats = np.einsum("kij,skj->ski", self.inverse, gradient)
        return products


@dataclass(frozen=True)
class Kronecker:
    """The inverse of A kron B plus a penalty by column; weights on the own feature and intercepts have ``own``."""

    left: Floats
    right: Floats
    values: Floats
    root: Floats
    own: Pairs | None

    @classmethod
    def of(cls, A: Floats, B: Floats, curvature: Floats, own: Pairs | None) -> Kronecker:
        """Return the inverse for the curvature ``(K, d + 1)`` of the penalty, by its median in each column."""
        ridge = _RIDGE * float(np.trace(A)) * float(np.trace(B))
        root = np.sqrt(np.median(curvature, axis=0) + max(ridge, 1e-300))
        a, left = np.linalg.eigh(A)
        b, right = np.linalg.eigh(B / (root[:, None] * root))
        values = np.maximum(a, 0.0)[:, None] * np.maximum(b, 0.0) + 1.0
        return cls(left, right, values, root, own)

    def __call__(self, gradient: Floats) -> Floats:
        """Return the product with gradients ``(S, K, d + 1)``."""
        inner = self.left.T @ (gradient / self.root) @ self.right
        products: Floats = (self.left @ (inner / self.values) @ self.right.T) / self.root
        if self.own is not None:
            k = np.arange(products.shape[1])
            solved = self.own(np.stack([gradient[:, k, k], gradient[:, :, -1]], axis=2))
            products[:, k, k], products[:, :, -1] = solved[:, :, 0], solved[:, :, 1]
        return products


def preconditioner(design: Design, theta: Floats, w: Floats, penalty: Floats) -> Preconditioner:
    """Return an approximate inverse Hessian at ``theta (K, d + 1)`` from some of the rows, for one penalty."""
    K, width = theta.shape
    whole = theta.size <= _WHOLE
    most = max(2000, _ROWS_PER_PARAMETER * theta.size) if whole else 5000
    few, weights = design, w
    if len(w) > most:
        step = len(w) // most
        few, weights = design.rows(slice(None, None, step)), w[::step]
        weights = weights * (w.sum() / max(float(weights.sum()), 1e-300))
    curvature = 2.0 * np.broadcast_to(penalty, theta.shape)
    if whole:
        return WholeInverse.of(few.hessian(theta, weights), curvature.ravel())
    if design.diagonal:
        return Pairs.of(few, theta, weights, curvature)
    own, k = None, np.arange(K)
    if width == K + 1:
        own = Pairs.of(few, theta, weights, np.stack([curvature[k, k], curvature[:, -1]], axis=1))
    return Kronecker.of(*few.factors(theta, weights), curvature, own)


# --- The quasi-Newton method


@dataclass(frozen=True)
class Solution:
    """Parameters ``theta (S, K, d + 1)``, ``objective (S,)``, largest absolute ``gradient (S,)``, and steps."""

    theta: Floats
    objective: Floats
    gradient: Floats
    steps: int


def minimise(
    design: Design,
    w: Floats,
    penalty: Penalty,
    start: Floats,
    *,
    tolerance: float = 1e-12,
    steps: int = _MOST_STEPS,
    stop: Callable[[Floats], bool] | None = None,
) -> Solution:
    """Minimise the log loss with weights ``w (S, n)`` plus the penalty, from ``start (S, K, d + 1)``.

    L-BFGS with a preconditioner, which is computed again after some steps, and step halving. It has converged if the
    expected decrease of each fit, half the squared gradient in the metric of the inverse Hessian, is at most
    ``tolerance`` times (1 + objective), or if rounding errors prevent a decrease. ``stop`` gets the parameters of all
    fits now and then, and ends them earlier if it is true. O(S n K d) per step. Raises ``NotConverged``. Large passes
    over the rows run on the device of ``softmax_device.passes_on``.
    """
    design = placed(design, len(start))
    search = _Search(design, w, penalty, start.copy())
    while search.taken < steps:
        if search.round(tolerance) or (stop is not None and stop(search.theta)):
            break
        if search.taken >= _TOGETHER and len(start) > 1:
            return _apart(design, w, penalty, search, tolerance, steps)
    else:
        raise NotConverged(f"the softmax regression did not converge in {steps} steps")
    return Solution(search.theta, search.value, np.abs(search.gradient).max(axis=(1, 2)), search.taken)


def _apart(design: Design, w: Floats, penalty: Penalty, search: _Search, tolerance: float, steps: int) -> Solution:
    """Finish the fits one by one, each with a preconditioner of its own."""
    strength, centre = (np.broadcast_to(x, search.theta.shape) for x in (penalty.strength, penalty.centre))
    solutions = []
    for s in range(len(search.theta)):
        single = slice(s, s + 1)
        alone = Penalty(strength[single], centre[single])
        solutions.append(minimise(design, w[single], alone, search.theta[single], tolerance=tolerance, steps=steps))
    return Solution(
        np.concatenate([x.theta for x in solutions]),
        np.concatenate([x.objective for x in solutions]),
        np.concatenate([x.gradient for x in solutions]),
        search.taken + max(x.steps for x in solutions),
    )


class _Search:
    """The state of a minimisation; a round uses one preconditioner."""

    def __init__(self, design: Design, w: Floats, penalty: Penalty, theta: Floats) -> None:
        self.design, self.w, self.penalty, self.theta, self.taken = design, w, penalty, theta, 0
        self.middle = w.mean(axis=0)
        self.strength = np.broadcast_to(penalty.strength, theta.shape).mean(axis=0)
        self.value, self.gradient = self.at(theta)

    def at(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the objective and its gradient."""
        value, gradient = self.design.value_and_gradient(theta, self.w)
        return value + self.penalty.value(theta), gradient + self.penalty.gradient(theta)

    def round(self, tolerance: float) -> bool:
        """Take up to ``_STEPS`` steps; return whether every fit has converged."""
        inverse = preconditioner(self.design, self.theta.mean(axis=0), self.middle, self.strength)
        memory: list[tuple[Floats, Floats, Floats]] = []
        short = 0
        while len(memory) < _STEPS and short < _SHORT:
            direction = _direction(self.gradient, memory, inverse)
            decrease = _products(self.gradient, direction)
            done = decrease <= 2.0 * tolerance * (1.0 + np.abs(self.value))
            if done.all():
                return True
            self.taken += 1
            step = self._step(direction, decrease, done)
            if step is None:
                if memory:
                    return False
                if float((decrease / (1.0 + np.abs(self.value)))[~done].max()) <= _STUCK:
                    return True
                raise NotConverged("the softmax regression did not converge: no step reduces the log loss")
            size, theta, value, gradient = step
            moved, bent = theta - self.theta, gradient - self.gradient
            memory.append((moved, bent, _products(moved, bent)))
            short += float(size[~done].min()) < 1.0
            self.theta, self.value, self.gradient = theta, value, gradient
        return False

    def _step(self, direction: Floats, decrease: Floats, done: Flags) -> tuple[Floats, Floats, Floats, Floats] | None:
        """Return sizes, parameters, objectives and gradients after a step that reduces each objective, or None."""
        size = np.where(done, 0.0, 1.0)
        rounding = _ROUNDING * (1.0 + np.abs(self.value))
        for _ in range(40):
            theta = self.theta - size[:, None, None] * direction
            value, gradient = self.at(theta)
            worse = ~(value <= self.value - 1e-4 * size * decrease + rounding) & ~done
            if not worse.any():
                return size, theta, value, gradient
            size = np.where(worse, size / 4.0, size)
        return None


def _products(a: Floats, b: Floats) -> Floats:
    products: Floats = np.einsum("skd,skd->s", a, b)
    return products


def _direction(gradient: Floats, memory: list[tuple[Floats, Floats, Floats]], inverse: Preconditioner) -> Floats:
    """Return the product of the inverse Hessian and the gradients, by the two loops of L-BFGS."""
    direction, shares = gradient.copy(), []
    for moved, bent, curvature in reversed(memory):
        safe = np.where(curvature > 0.0, curvature, np.inf)
        share = _products(moved, direction) / safe
        direction -= share[:, None, None] * bent
        shares.append(share)
    direction = inverse(direction)
    for (moved, bent, curvature), share in zip(memory, reversed(shares), strict=True):
        safe = np.where(curvature > 0.0, curvature, np.inf)
        direction += (share - _products(bent, direction) / safe)[:, None, None] * moved
    return direction
