"""Softmax regression on logits, to its optimum: of vector scaling, matrix scaling and Dirichlet calibration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from calibrant.batch import Integers, softmax_in_place
from calibrant.cells import Floats
from calibrant.errors import CalibrationError, NotConverged, OutOfRange
from calibrant.maps.temperature import VectorLogits, optimal_temperature
from calibrant.maps.transforms import logits_block
from calibrant.progress import check

# --- Features: logits, as given and in the coordinates of the solver

#: Numbers of a matrix that are worked on at once, and as many as are kept in float64 between passes.
_BLOCK, _KEPT = 1 << 16, 1 << 22
#: Directions of the features of less than this share of the widest one's spread are scaled as if they had it.
_FLOOR = 1e-7
#: Features of a spread below this share of their mean are constant but for rounding.
_CONSTANT = 1e-10


@dataclass(frozen=True)
class Features:
    """Logits ``given (n, K)``, or probabilities to take logarithms of, and ``labels (n,)``.

    ``full`` scores are W z + b, others diag(w) z + b. The solver works on coordinates in which features are centred,
    uncorrelated and of unit variance under the weights ``w (n,)``: ``centre (K,)``, and ``basis``, (K, K) or (K,).
    """

    given: Floats
    labels: Integers
    w: Floats
    full: bool
    probabilities: bool
    centre: Floats
    basis: Floats

    @classmethod
    def of(cls, given: Floats, labels: Integers, w: Floats | None, *, full: bool, probabilities: bool) -> Features:
        """Find the coordinates. O(n K^2), or O(n K) without ``full``. Rows of weight 0 are left out."""
        if w is not None and not w.all():
            given, labels, w = given[w > 0.0], labels[w > 0.0], w[w > 0.0]
        weights = np.full(len(labels), 1.0 / len(labels)) if w is None else w / w.sum()
        K = given.shape[1]
        plain = cls(given, labels, weights, full, probabilities, np.zeros(K), np.ones(K))
        with np.errstate(over="ignore", invalid="ignore"):
            centre = sum((weights[rows] @ x for rows, x in plain.blocks()), np.zeros(K))
            centred = replace(plain, centre=centre)
            if full:
                parts = (x.T @ (weights[rows, None] * x) for rows, x in centred.blocks())
            else:
                parts = (weights[rows] @ (x * x) for rows, x in centred.blocks())
            spread = sum(parts, np.zeros((K, K) if full else K))
        if not np.isfinite(spread).all():
            raise OutOfRange("logits are too far apart to be squared")
        rounding = (_CONSTANT * np.abs(centre)) ** 2
        if not full:
            return replace(centred, basis=1.0 / np.sqrt(np.where(spread > rounding, spread, 1.0)))
        variances, axes = np.linalg.eigh(spread)
        least = max(_FLOOR**2 * float(variances[-1]), float(rounding.max())) or 1.0
        return replace(centred, basis=axes / np.sqrt(np.maximum(variances, least)))

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.given.shape[1])

    @property
    def constant(self) -> bool:
        """Whether every row has the same logits, but for rounding. O(n K)."""
        wide = (np.abs(x).max(axis=0) > _CONSTANT * np.abs(self.centre) for _, x in self.blocks())
        return not any(x.any() for x in wide)

    @property
    def shape(self) -> tuple[int, int]:
        """Parameters: of each class the weights of its features, and an intercept."""
        return self.n_classes, (self.n_classes if self.full else 1) + 1

    @cached_property
    def _kept(self) -> Floats | None:
        if self.given.size > _KEPT:
            return None
        return logits_block(self.given, self.probabilities) - self.centre

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Blocks of rows with their centred features, float64."""
        height = max(1, _BLOCK // self.n_classes)
        for start in range(0, len(self.labels), height):
            check()
            rows = slice(start, start + height)
            if self._kept is not None:
                yield rows, self._kept[rows]
            else:
                yield rows, logits_block(self.given[rows], self.probabilities) - self.centre

    def scores(self, x: Floats, theta: Floats) -> Floats:
        """Scores ``(h, K)`` of centred features ``x (h, K)``, of parameters in the solver's coordinates."""
        if self.full:
            found: Floats = x @ (theta[:, :-1] @ self.basis.T).T + theta[:, -1]
            return found
        return x * (theta[:, 0] * self.basis) + theta[:, 1]

    def adjoint(self, x: Floats, residual: Floats) -> Floats:
        """What ``residual (h, K)`` in the scores is in the parameters."""
        found = np.empty(self.shape)
        found[:, -1] = residual.sum(axis=0)
        if self.full:
            found[:, :-1] = (residual.T @ x) @ self.basis
        else:
            found[:, 0] = np.einsum("ij,ij->j", residual, x) * self.basis
        return found

    def expanded(self, x: Floats) -> Floats:
        """Features in the solver's coordinates with a 1 behind: ``(h, 1, K + 1)``, or ``(h, K, 2)`` of each class."""
        if self.full:
            return np.column_stack([x @ self.basis, np.ones(len(x))])[:, None, :]
        return np.stack([x * self.basis, np.ones_like(x)], axis=2)

    def original(self, theta: Floats) -> Floats:
        """The parameters on the logits as they are: ``(K, K + 1)`` or ``(K, 2)``, the intercepts last."""
        found = np.empty(self.shape)
        found[:, :-1] = theta[:, :-1] @ self.basis.T if self.full else theta[:, :1] * self.basis[:, None]
        of_centre = found[:, :-1] @ self.centre if self.full else found[:, 0] * self.centre
        found[:, -1] = theta[:, -1] - of_centre
        return found

    def coordinates(self, original: Floats) -> Floats:
        """The reverse of ``original``."""
        found = np.empty(self.shape)
        if self.full:
            found[:, :-1] = np.linalg.solve(self.basis, original[:, :-1].T).T
            found[:, -1] = original[:, -1] + original[:, :-1] @ self.centre
        else:
            found[:, 0] = original[:, 0] / self.basis
            found[:, 1] = original[:, 1] + original[:, 0] * self.centre
        return found


# --- The regression, solved to its optimum

#: Fewer parameters are solved for with the whole Hessian, more by conjugate gradients.
_WHOLE = 600
_MAX_STEPS = 200
#: Done when no gradient of the mean loss, by features of unit variance, exceeds this ...
_GRADIENT = 1e-9
#: ... and no weight moves by more than this share: on separable data the gradient fades while the steps go on.
_STEP = 1e-6
#: This many steps with a vanished gradient mean separable data.
_PATIENCE = 6
#: A loss that grew by less grew by rounding.
_ROUNDING = 1e-14
#: Part of the largest curvature that is added to all, for directions without any.
_RIDGE = 1e-14
_SEPARABLE = (
    "the log loss falls without end: some weights of the classes separate labels without error; "
    "dirichlet-l2 or temperature have an optimum"
)


@dataclass(frozen=True)
class Regression:
    """The mean log loss, weighted by ``w (n,)`` of sum 1, plus sum(penalty theta^2) of the original parameters."""

    features: Features
    w: Floats
    penalty: Floats | None = None

    @cached_property
    def _map(self) -> Floats:
        """Row by row, original parameters are these times the solver's (of full scores)."""
        x = self.features
        found = np.eye(x.shape[1])
        found[:-1, :-1] = x.basis
        found[-1, :-1] = -x.centre @ x.basis
        return found

    @cached_property
    def _scale(self) -> Floats:
        """The root of the penalty's curvature where it is above 1, in the parameters' shape."""
        if self.penalty is None:
            return np.ones(self.features.shape)
        found: Floats = np.sqrt(np.maximum(1.0, 2.0 * self.penalty @ self._map**2))
        return found

    @cached_property
    def _bounded(self) -> bool:
        """Whether every parameter is penalised, so that there is an optimum whatever the labels are."""
        return self.penalty is not None and float(self.penalty.min()) > 0.0

    def losses(self, theta: Floats) -> Floats:
        """The log loss of each row, ``(n,)``."""
        x, found = self.features, np.empty(len(self.w))
        for rows, block in x.blocks():
            scores = x.scores(block, theta)
            scores -= scores.max(axis=1, keepdims=True)
            own = scores[np.arange(len(block)), x.labels[rows]]
            found[rows] = np.log(np.exp(scores, out=scores).sum(axis=1)) - own
        return found

    def loss(self, theta: Floats) -> float:
        """What is minimised."""
        found = float(self.w @ self.losses(theta))
        if self.penalty is None:
            return found
        return found + float((self.penalty * self.features.original(theta) ** 2).sum())

    def gradient(self, theta: Floats) -> Floats:
        """In the solver's coordinates."""
        x, found = self.features, np.zeros(self.features.shape)
        for rows, block, p in self._probabilities(theta):
            p[np.arange(len(p)), x.labels[rows]] -= 1.0
            p *= self.w[rows, None]
            found += x.adjoint(block, p)
        return found if self.penalty is None else found + 2.0 * (self.penalty * x.original(theta)) @ self._map

    def curvature(self, theta: Floats, direction: Floats) -> Floats:
        """The Hessian times a direction. O(n K^2), or O(n K)."""
        x, found = self.features, np.zeros(self.features.shape)
        for rows, block, p in self._probabilities(theta):
            moved = x.scores(block, direction)
            moved -= np.einsum("ij,ij->i", p, moved)[:, None]
            moved *= p
            moved *= self.w[rows, None]
            found += x.adjoint(block, moved)
        return found if self.penalty is None else found + 2.0 * (self.penalty * x.original(direction)) @ self._map

    def hessian(self, theta: Floats) -> Floats:
        """The whole of it, ``(P, P)``. O(n P^2)."""
        x = self.features
        K, d = x.shape
        found, blocks = np.zeros((K * d, K * d)), np.zeros((K, d, d))
        for rows, block, p in self._probabilities(theta):
            expanded = x.expanded(block)
            p *= np.sqrt(self.w[rows, None])
            outer = (p[:, :, None] * expanded).reshape(len(p), -1)
            found -= outer.T @ outer
            p *= np.sqrt(self.w[rows, None])
            if x.full:
                flat = expanded[:, 0, :]
                blocks += np.stack([(flat * p[:, [k]]).T @ flat for k in range(K)])
            else:
                blocks += np.einsum("nk,nki,nkj->kij", p, expanded, expanded)
        if self.penalty is not None:
            blocks += 2.0 * np.einsum("ai,ka,aj->kij", self._map, self.penalty, self._map, optimize=True)
        for k in range(K):
            found[k * d : (k + 1) * d, k * d : (k + 1) * d] += blocks[k]
        if self.penalty is None:  # what is added to every class alike changes nothing: it is held where it is
            alike = np.eye(d) if x.full else np.diag([0.0, 1.0])
            found += np.kron(np.full((K, K), 1.0 / K**2), alike)
        return found

    def diagonal(self, theta: Floats) -> Floats:
        """The Hessian's diagonal, in the parameters' shape."""
        x, found = self.features, np.zeros(self.features.shape)
        for rows, block, p in self._probabilities(theta):
            squares = x.expanded(block) ** 2
            p *= (1.0 - p) * self.w[rows, None]
            found += p.T @ squares[:, 0, :] if x.full else np.einsum("nk,nkj->kj", p, squares)
        return found if self.penalty is None else found + 2.0 * self.penalty @ self._map**2

    def _probabilities(self, theta: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
        for rows, block in self.features.blocks():
            yield rows, block, softmax_in_place(self.features.scores(block, theta))

    def start(self) -> Floats:
        """Logits divided by their optimal temperature, or, where they have none, scores of 0."""
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
        """The optimum, from ``theta`` on: Newton's method with halved steps, the last one beyond the tolerance.

        Done when no gradient of the mean loss exceeds 1e-9, by features of unit variance (and parameters of unit
        curvature, where the penalty has more), and no parameter moves by more than 1e-6 of the largest. Raises
        ``NotConverged``, of separable data saying so. O(n P^2 + P^3) a step for P parameters up to 600; more are
        solved for by conjugate gradients, O(n K^2) or O(n K) for each of theirs.
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
                    raise NotConverged("the softmax regression did not reach its optimum: no step lowers the loss")
            theta, loss = theta - size * step, trial
        raise NotConverged(
            f"the softmax regression did not reach its optimum in {_MAX_STEPS} steps, as where a class can be told "
            "without error; dirichlet-l2 or temperature have an optimum"
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
        found, _ = scipy.sparse.linalg.cg(
            scipy.sparse.linalg.LinearOperator(size, matvec=product, dtype=np.float64),
            gradient.ravel(),
            rtol=1e-3 if exact else min(0.1, norm**0.5),
            maxiter=1000,
            M=scipy.sparse.linalg.LinearOperator(size, matvec=divided, dtype=np.float64),
        )
        step: Floats = found.reshape(theta.shape)
        return step


def _solved(hessian: Floats, gradient: npt.NDArray[Any]) -> Floats:
    """Newton's step; directions without curvature get none."""
    ridge = _RIDGE * float(hessian.diagonal().max())
    for _ in range(8):
        try:
            regular = hessian + ridge * np.eye(len(hessian))
            found: Floats = scipy.linalg.cho_solve(
                scipy.linalg.cho_factor(regular, check_finite=False), gradient, check_finite=False
            )
            return found
        except scipy.linalg.LinAlgError:
            ridge *= 10.0
    raise NotConverged("the softmax regression's curvature vanishes: its optimum cannot be found")
