"""Softmax regression on logits, for vector scaling, matrix scaling and Dirichlet calibration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from calibrant.core.batch import Integers, softmax_in_place
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, NotConverged, OutOfRange
from calibrant.core.progress import check
from calibrant.maps.temperature import VectorLogits, optimal_temperature
from calibrant.maps.transforms import logits_block

# --- Features: logits in the coordinates of the solver

#: Elements of a matrix that are processed at once, and the most that are kept in float64 between passes.
_BLOCK, _KEPT = 1 << 16, 1 << 22
#: Lower bound of the scale of a direction, relative to that of the widest direction.
_FLOOR = 1e-7
#: Features with a spread below this fraction of their mean are constant up to rounding.
_CONSTANT = 1e-10
#: The widest range of logits. The solver adds up the squares of all rows, whatever their weights.
_WIDEST = 1e150


@dataclass(frozen=True)
class SoftmaxFeatures:
    """Logits ``given (n, K)``, or probabilities whose logarithms are the features, and ``labels (n,)``.

    Scores are W z + b if ``full``, and diag(w) z + b otherwise. The coordinates of the solver are centred, uncorrelated
    and of unit variance under the weights ``w (n,)``: ``centre (K,)``, and ``basis``, (K, K) or (K,).
    """

    given: Floats
    labels: Integers
    w: Floats
    full: bool
    probabilities: bool
    centre: Floats
    basis: Floats

    @classmethod
    def of(
        cls, values: Floats, labels: Integers, w: Floats | None, *, full: bool, probabilities: bool
    ) -> SoftmaxFeatures:
        """Compute the coordinates, without rows of weight 0. O(n K^2), or O(n K) without ``full``."""
        if w is not None and not w.all():
            values, labels, w = values[w > 0.0], labels[w > 0.0], w[w > 0.0]
        weights = np.full(len(labels), 1.0 / len(labels)) if w is None else w / w.sum()
        K = values.shape[1]
        plain = cls(values, labels, weights, full, probabilities, np.zeros(K), np.ones(K))
        with np.errstate(over="ignore", invalid="ignore"):
            centre = sum((weights[rows] @ x for rows, x in plain.blocks()), np.zeros(K))
            centred = replace(plain, centre=centre)
            if full:
                parts = (x.T @ (weights[rows, None] * x) for rows, x in centred.blocks())
            else:
                parts = (weights[rows] @ (x * x) for rows, x in centred.blocks())
            spread = sum(parts, np.zeros((K, K) if full else K))
            wide = not probabilities and len(values) and values.max() - values.min() > _WIDEST
        if wide or not np.isfinite(spread).all():
            raise OutOfRange("logits are too far apart to be squared")
        rounding = (_CONSTANT * np.abs(centre)) ** 2
        if not full:
            return replace(centred, basis=1.0 / np.sqrt(np.where(spread > rounding, spread, 1.0)))
        variances, axes = np.linalg.eigh(spread)
        least = max(_FLOOR**2 * float(variances[-1]), float(rounding.max())) or 1.0
        return replace(centred, basis=axes / np.sqrt(np.maximum(variances, least)))

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.given.shape[1])

    @property
    def constant(self) -> bool:
        """Whether all rows have the same logits up to rounding. O(n K)."""
        wide = (np.abs(x).max(axis=0) > _CONSTANT * np.abs(self.centre) for _, x in self.blocks())
        return not any(x.any() for x in wide)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the parameters: for each class the weights of its features and an intercept."""
        return self.n_classes, (self.n_classes if self.full else 1) + 1

    @cached_property
    def _kept(self) -> Floats | None:
        if self.given.size > _KEPT:
            return None
        return logits_block(self.given, self.probabilities) - self.centre

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of rows with their centred features in float64."""
        height = max(1, _BLOCK // self.n_classes)
        for start in range(0, len(self.labels), height):
            check()
            rows = slice(start, start + height)
            if self._kept is not None:
                yield rows, self._kept[rows]
            else:
                yield rows, logits_block(self.given[rows], self.probabilities) - self.centre

    def scores(self, x: Floats, theta: Floats) -> Floats:
        """Return the scores ``(h, K)`` of centred features ``x (h, K)`` for parameters of the solver."""
        if self.full:
            return x @ (theta[:, :-1] @ self.basis.T).T + theta[:, -1]
        return x * (theta[:, 0] * self.basis) + theta[:, 1]

    def adjoint(self, x: Floats, residual: Floats) -> Floats:
        """Return the gradient in the parameters for the gradient ``residual (h, K)`` in the scores."""
        gradient = np.empty(self.shape)
        gradient[:, -1] = residual.sum(axis=0)
        if self.full:
            gradient[:, :-1] = (residual.T @ x) @ self.basis
        else:
            gradient[:, 0] = np.einsum("ij,ij->j", residual, x) * self.basis
        return gradient

    def expanded(self, x: Floats) -> Floats:
        """Return features of the solver with a trailing 1: ``(h, 1, K + 1)``, or ``(h, K, 2)`` for each class."""
        if self.full:
            return np.column_stack([x @ self.basis, np.ones(len(x))])[:, None, :]
        return np.stack([x * self.basis, np.ones_like(x)], axis=2)

    def original(self, theta: Floats) -> Floats:
        """Return parameters for the given logits: ``(K, K + 1)`` or ``(K, 2)``, with the intercepts last."""
        parameters = np.empty(self.shape)
        parameters[:, :-1] = theta[:, :-1] @ self.basis.T if self.full else theta[:, :1] * self.basis[:, None]
        of_centre = parameters[:, :-1] @ self.centre if self.full else parameters[:, 0] * self.centre
        parameters[:, -1] = theta[:, -1] - of_centre
        return parameters

    def coordinates(self, original: Floats) -> Floats:
        """Return the parameters of the solver; the inverse of ``original``."""
        theta = np.empty(self.shape)
        if self.full:
            theta[:, :-1] = np.linalg.solve(self.basis, original[:, :-1].T).T
            theta[:, -1] = original[:, -1] + original[:, :-1] @ self.centre
        else:
            theta[:, 0] = original[:, 0] / self.basis
            theta[:, 1] = original[:, 1] + original[:, 0] * self.centre
        return theta


# --- The regression

#: The most parameters for the whole Hessian; with more, conjugate gradients are used.
_WHOLE = 600
_MAX_STEPS = 200
#: Convergence: largest gradient of the mean loss, for features of unit variance ...
_GRADIENT = 1e-9
#: ... and largest relative step; for separable data the gradient vanishes but the steps do not.
_STEP = 1e-6
#: Number of steps with a vanishing gradient after which data are separable.
_PATIENCE = 6
#: Increases of the loss below this are rounding errors.
_ROUNDING = 1e-14
#: Fraction of the largest curvature that is added to all directions.
_RIDGE = 1e-14
_SEPARABLE = (
    "the log loss has no minimum, because some classes are perfectly separable; use a strength above 0 or of null, "
    "or dirichlet-l2"
)


@dataclass(frozen=True)
class Regression:
    """Mean log loss with weights ``w (n,)`` of sum 1, plus sum(penalty theta^2) of the original parameters."""

    features: SoftmaxFeatures
    w: Floats
    penalty: Floats | None = None

    @cached_property
    def _map(self) -> Floats:
        """Matrix from the parameters of the solver to the original ones, for each row (full scores)."""
        x = self.features
        matrix = np.eye(x.shape[1])
        matrix[:-1, :-1] = x.basis
        matrix[-1, :-1] = -x.centre @ x.basis
        return matrix

    @cached_property
    def _scale(self) -> Floats:
        """Square root of the curvature of the penalty, at least 1, in the shape of the parameters."""
        if self.penalty is None:
            return np.ones(self.features.shape)
        return np.sqrt(np.maximum(1.0, 2.0 * self.penalty @ self._map**2))

    @cached_property
    def _bounded(self) -> bool:
        """Whether every parameter is penalised, which guarantees an optimum."""
        return self.penalty is not None and float(self.penalty.min()) > 0.0

    def losses(self, theta: Floats) -> Floats:
        """Return the log loss of each row: ``(n,)``."""
        x, losses = self.features, np.empty(len(self.w))
        for rows, block in x.blocks():
            scores = x.scores(block, theta)
            scores -= scores.max(axis=1, keepdims=True)
            own = scores[np.arange(len(block)), x.labels[rows]]
            losses[rows] = np.log(np.exp(scores, out=scores).sum(axis=1)) - own
        return losses

    def loss(self, theta: Floats) -> float:
        """Return the objective."""
        objective = float(self.w @ self.losses(theta))
        if self.penalty is None:
            return objective
        return objective + float((self.penalty * self.features.original(theta) ** 2).sum())

    def gradient(self, theta: Floats) -> Floats:
        """Return the gradient in the parameters of the solver."""
        x, gradient = self.features, np.zeros(self.features.shape)
        for rows, block, p in self._probabilities(theta):
            p[np.arange(len(p)), x.labels[rows]] -= 1.0
            p *= self.w[rows, None]
            gradient += x.adjoint(block, p)
        return gradient if self.penalty is None else gradient + 2.0 * (self.penalty * x.original(theta)) @ self._map

    def curvature(self, theta: Floats, direction: Floats) -> Floats:
        """Return the Hessian times a direction. O(n K^2), or O(n K)."""
        x, product = self.features, np.zeros(self.features.shape)
        for rows, block, p in self._probabilities(theta):
            moved = x.scores(block, direction)
            moved -= np.einsum("ij,ij->i", p, moved)[:, None]
            moved *= p
            moved *= self.w[rows, None]
            product += x.adjoint(block, moved)
        return product if self.penalty is None else product + 2.0 * (self.penalty * x.original(direction)) @ self._map

    def hessian(self, theta: Floats) -> Floats:
        """Return the whole Hessian ``(P, P)``. O(n P^2)."""
        x = self.features
        K, d = x.shape
        hessian, blocks = np.zeros((K * d, K * d)), np.zeros((K, d, d))
        for rows, block, p in self._probabilities(theta):
            expanded = x.expanded(block)
            p *= np.sqrt(self.w[rows, None])
            outer = (p[:, :, None] * expanded).reshape(len(p), -1)
            hessian -= outer.T @ outer
            p *= np.sqrt(self.w[rows, None])
            if x.full:
                flat = expanded[:, 0, :]
                blocks += np.stack([(flat * p[:, [k]]).T @ flat for k in range(K)])
            else:
                blocks += np.einsum("nk,nki,nkj->kij", p, expanded, expanded)
        if self.penalty is not None:
            blocks += 2.0 * np.einsum("ai,ka,aj->kij", self._map, self.penalty, self._map, optimize=True)
        for k in range(K):
            hessian[k * d : (k + 1) * d, k * d : (k + 1) * d] += blocks[k]
        if self.penalty is None:  # a common shift of all classes does not change the loss, so it is fixed
            alike = np.eye(d) if x.full else np.diag([0.0, 1.0])
            hessian += np.kron(np.full((K, K), 1.0 / K**2), alike)
        return hessian

    def diagonal(self, theta: Floats) -> Floats:
        """Return the diagonal of the Hessian in the shape of the parameters."""
        x, diagonal = self.features, np.zeros(self.features.shape)
        for rows, block, p in self._probabilities(theta):
            squares = x.expanded(block) ** 2
            p *= (1.0 - p) * self.w[rows, None]
            diagonal += p.T @ squares[:, 0, :] if x.full else np.einsum("nk,nkj->kj", p, squares)
        return diagonal if self.penalty is None else diagonal + 2.0 * self.penalty @ self._map**2

    def _probabilities(self, theta: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
        for rows, block in self.features.blocks():
            yield rows, block, softmax_in_place(self.features.scores(block, theta))

    def start(self) -> Floats:
        """Return the start: logits divided by their optimal temperature, or scores of 0 if there is none."""
        x = self.features
        original = np.zeros(x.shape)
        try:
            counted = self.w > 0.0
            rows = VectorLogits(x.given[counted], x.labels[counted], x.probabilities)
            beta = 1.0 / optimal_temperature(rows, self.w[counted]).value
        except CalibrationError:
            beta = 0.0
        original[:, :-1] = beta * np.eye(x.n_classes) if x.full else beta
        return x.coordinates(original)

    def minimise(self, theta: Floats | None = None) -> Floats:
        """Minimise from ``theta`` by Newton's method with step halving, and one final step.

        The method has converged if no gradient of the mean loss exceeds 1e-9, for features of unit variance (scaled to
        unit curvature if the penalty has a larger one), and no parameter changes by more than 1e-6 of the largest one.
        Raises ``NotConverged``, with a message about separable data. O(n P^2 + P^3) per step for up to P = 600
        parameters; with more, O(n K^2) or O(n K) per step of conjugate gradients.
        """
        theta = self.start() if theta is None else theta
        loss, vanished = self.loss(theta), 0
        for _ in range(_MAX_STEPS):
            gradient = self.gradient(theta)
            flat = float(np.abs(gradient / self._scale).max()) <= _GRADIENT
            step = self._step(theta, gradient, flat)
            if flat and float(np.abs(step).max()) <= _STEP * (1.0 + float(np.abs(theta).max())):
                return theta - step if self.loss(theta - step) <= loss + _ROUNDING else theta
            vanished = vanished + 1 if flat else 0
            if vanished >= _PATIENCE and not self._bounded:
                raise NotConverged(_SEPARABLE)
            size = 1.0
            while not (trial := self.loss(theta - size * step)) <= loss + _ROUNDING:
                size /= 2.0
                if size < 1e-10:
                    raise NotConverged("the softmax regression did not converge: no step reduces the log loss")
            theta, loss = theta - size * step, trial
        raise NotConverged(
            f"the softmax regression did not converge in {_MAX_STEPS} steps, perhaps because some classes are "
            "perfectly separable; use a strength above 0 or of null, or dirichlet-l2"
        )

    def _step(self, theta: Floats, gradient: Floats, exact: bool) -> Floats:
        if theta.size <= _WHOLE:
            scale = self._scale.ravel()
            scaled = self.hessian(theta) / (scale[:, None] * scale)
            return (_solved(scaled, gradient.ravel() / scale) / scale).reshape(theta.shape)
        norm = float(np.linalg.norm(gradient))
        if norm == 0.0:
            return np.zeros_like(theta)
        diagonal = self.diagonal(theta).ravel()
        diagonal = np.maximum(diagonal, 1e-12 * diagonal.max())

        def product(direction: Floats) -> Floats:
            return self.curvature(theta, direction.reshape(theta.shape)).ravel()

        def divided(direction: Floats) -> Floats:
            return np.asarray(direction.ravel() / diagonal)

        size = (theta.size, theta.size)
        solved, _ = scipy.sparse.linalg.cg(
            scipy.sparse.linalg.LinearOperator(size, matvec=product, dtype=np.float64),
            gradient.ravel(),
            rtol=1e-3 if exact else min(0.1, norm**0.5),
            maxiter=1000,
            M=scipy.sparse.linalg.LinearOperator(size, matvec=divided, dtype=np.float64),
        )
        step: Floats = solved.reshape(theta.shape)
        return step


def _solved(hessian: Floats, gradient: npt.NDArray[Any]) -> Floats:
    """Return Newton's step, which is 0 in directions without curvature."""
    ridge = _RIDGE * float(hessian.diagonal().max())
    for _ in range(8):
        try:
            regular = hessian + ridge * np.eye(len(hessian))
            step: Floats = scipy.linalg.cho_solve(
                scipy.linalg.cho_factor(regular, check_finite=False), gradient, check_finite=False
            )
            return step
        except scipy.linalg.LinAlgError:
            ridge *= 10.0
    raise NotConverged("the softmax regression did not converge: the Hessian of the log loss is singular")
