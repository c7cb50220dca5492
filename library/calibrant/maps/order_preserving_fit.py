"""Fits of intra order-preserving maps: a convex problem in slopes with lower bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy

from calibrant.core.batch import Integers
from calibrant.core.cells import Floats, take
from calibrant.core.errors import NotConverged, OnePrediction
from calibrant.core.progress import check, report, step
from calibrant.core.reductions import Vector
from calibrant.core.validation import check_fold_count, fold_of_rows
from calibrant.maps.order_preserving import (
    RANKS,
    OrderInvariant,
    OrderPreserving,
    OrderPreservingDiagonal,
    groups_of_ranks,
    ramp,
    ranked,
)
from calibrant.maps.temperature import logits_of, optimal_temperature
from calibrant.maps.transforms import blocks_of_rows, logits_block

# --- The rows of a fit: scores are linear in the slopes

Kind = Literal["diagonal", "oi", "op"]

#: Elements of a block of features, and the most elements that are kept between passes.
_BLOCK, _KEPT = 1 << 16, 1 << 23
#: Lower bound of slopes as a fraction of those of temperature scaling.
_LEAST = 1e-3


@dataclass(frozen=True)
class _Rows:
    """``distances (n, K)`` from the largest logit, or gaps ``(n, K - 1)``, of logits divided by the temperature.

    ``classes (n, K - 1)`` are those before the gaps, and ``own (n,)`` is the column, or rank, of the label. Slopes
    ``x (P,)`` are those of g, or of ranks and then of classes, for each piece.
    """

    kind: Kind
    distances: Floats
    classes: npt.NDArray[np.int64]
    own: Integers
    knots: Floats
    n_classes: int

    @property
    def pieces(self) -> int:
        """Number of pieces J."""
        return len(self.knots) + 1

    @property
    def groups(self) -> int:
        """Number of functions of distances or of ranks."""
        return 1 if self.kind == "diagonal" else min(self.n_classes - 1, RANKS)

    @cached_property
    def target(self) -> Floats:
        """Slopes of temperature scaling: 1, and 0 for those of classes."""
        added = self.n_classes if self.kind == "op" else 0
        return np.repeat([1.0, 0.0], [self.groups * self.pieces, added * self.pieces])

    @cached_property
    def least(self) -> Floats:
        """Lower bounds of the slopes, which keep different logits different."""
        return _LEAST * self.target

    @cached_property
    def group(self) -> npt.NDArray[np.int64]:
        """The function of each distance."""
        width = self.distances.shape[1]
        return np.zeros(width, np.int64) if self.kind == "diagonal" else groups_of_ranks(width + 1, self.groups)

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of rows with their ramps ``(h, distances, J)``, which are cached if they are small."""
        for block in self._kept if self.distances.size * self.pieces <= _KEPT else self._made():
            check()
            yield block

    @cached_property
    def _kept(self) -> list[tuple[slice, Floats]]:
        return list(self._made())

    def _made(self) -> Iterator[tuple[slice, Floats]]:
        height = max(1, _BLOCK // (self.distances.shape[1] * self.pieces))
        for start in range(0, len(self.own), height):
            rows = slice(start, start + height)
            ramps = np.empty((*self.distances[rows].shape, self.pieces))
            for j in range(self.pieces):
                ramps[:, :, j] = ramp(self.distances[rows], self.knots, j)
            yield rows, ramps

    def scores(self, rows: slice, ramps: Floats, x: Floats) -> Floats:
        """Return the scores ``(h, K)``, by class or by rank, with maximum 0."""
        slopes = x.reshape(-1, self.pieces)
        if self.kind == "diagonal":
            scores: Floats = -(ramps @ slopes[0])
            return scores
        moved = np.einsum("hij,ij->hi", ramps, slopes[self.group])
        if self.kind == "op":
            moved += np.einsum("hij,hij->hi", ramps, slopes[self.groups :][self.classes[rows]])
        scores = np.zeros((len(moved), self.n_classes))
        np.cumsum(moved, axis=1, out=scores[:, 1:])
        return np.negative(scores, out=scores)

    def adjoint(self, rows: slice, ramps: Floats, residual: Floats) -> Floats:
        """Return the gradient in the slopes for the gradient ``residual (h, K)`` in the scores."""
        if self.kind != "diagonal":  # a gap shifts all classes after it
            residual = residual[:, ::-1].cumsum(axis=1)[:, -2::-1]
        gradient = np.zeros((self.target.size // self.pieces, self.pieces))
        np.subtract.at(gradient, self.group, np.einsum("hi,hij->ij", residual, ramps))
        if self.kind == "op":
            flat, pushed = self.classes[rows].ravel(), residual[:, :, None] * ramps
            for j in range(self.pieces):
                gradient[self.groups :, j] -= np.bincount(flat, pushed[:, :, j].ravel(), self.n_classes)
        return gradient.ravel()

    def features(self, ramps: Floats, classes: npt.NDArray[np.int64]) -> Floats:
        """Return the negated derivatives of the scores in the slopes: ``(h, K, P)``."""
        if self.kind == "diagonal":
            return ramps
        h, width, J = ramps.shape
        derivatives = np.zeros((h, width + 1, self.target.size // J, J))
        for i in range(width):
            derivatives[:, i + 1, self.group[i]] = ramps[:, i]
            if self.kind == "op":
                derivatives[np.arange(h), i + 1, self.groups + classes[:, i]] = ramps[:, i]
            derivatives[:, i + 1] += derivatives[:, i]
        return derivatives.reshape(h, width + 1, -1)


# --- The fit: a convex problem in slopes with lower bounds

Transform = OrderPreservingDiagonal | OrderInvariant | OrderPreserving

#: Candidate strengths of cross-validation, in descending order.
STRENGTHS = tuple(10.0**e for e in range(1, -7, -1))
#: If a Hessian needs more multiplications than this, L-BFGS-B is used.
_WHOLE = 2e10
_MAX_STEPS = 200
#: Convergence: largest component of the projected gradient, and largest relative step.
_GRADIENT, _STEP = 1e-8, 1e-6
#: Steps with a smaller predicted decrease of the loss are not needed.
_GAIN = 1e-14
#: Largest projected gradient of L-BFGS-B at convergence.
_ROUGH = 1e-7
_PATIENCE = 8
_ROUNDING = 1e-14
_ENDLESS = (
    "the log loss has no minimum, because no prediction on some piece is wrong; use a strength above 0, or the method "
    "temperature"
)


@dataclass(frozen=True)
class FittedOrder:
    """The transform, the temperature to which it is regularised, the strength, and its log losses.

    ``held_out`` is the held-out log loss of a chosen strength, ``log_loss`` the mean on the rows of the fit, and
    ``gradient`` the largest component of the gradient that does not point below a lower bound of the slopes.
    """

    transform: Transform
    temperature: float
    strength: float
    held_out: float | None
    log_loss: float
    gradient: float


@dataclass(frozen=True)
class _Problem:
    """Mean log loss with weights ``w (n,)`` of sum 1, plus ``strength`` times the mean of (x - target)^2."""

    rows: _Rows
    w: Floats
    strength: float = 0.0

    def losses(self, x: Floats) -> Floats:
        """Return the log loss of each row."""
        losses = np.empty(len(self.w))
        for rows, ramps in self.rows.blocks():
            scores = self.rows.scores(rows, ramps, x)
            own = scores[np.arange(len(scores)), self.rows.own[rows]]
            losses[rows] = np.log(np.exp(scores, out=scores).sum(axis=1)) - own
        return losses

    def loss(self, x: Floats) -> float:
        """Return the objective."""
        return float(self.w @ self.losses(x)) + self.strength * float(np.mean((x - self.rows.target) ** 2))

    def gradient(self, x: Floats) -> Floats:
        """Return the gradient of the objective."""
        gradient = 2.0 * self.strength / len(x) * (x - self.rows.target)
        for rows, ramps in self.rows.blocks():
            p = _softmax(self.rows.scores(rows, ramps, x))
            p[np.arange(len(p)), self.rows.own[rows]] -= 1.0
            p *= self.w[rows, None]
            gradient += self.rows.adjoint(rows, ramps, p)
        return gradient

    def hessian(self, x: Floats) -> Floats:
        """Return the Hessian of the objective. O(n K P^2)."""
        size = len(x)
        hessian = np.eye(size) * (2.0 * self.strength / size)
        for rows, ramps in self.rows.blocks():
            root = _softmax(self.rows.scores(rows, ramps, x))
            np.sqrt(root, out=root)
            root *= np.sqrt(self.w[rows, None])
            height = max(1, _BLOCK // (root.shape[1] * size))
            for start in range(0, len(root), height):
                check()
                part = slice(start, start + height)
                features = self.rows.features(ramps[part], self.rows.classes[rows][part]) * root[part, :, None]
                mass = np.sqrt((root[part] ** 2).sum(axis=1))
                mean = np.einsum("hi,hip->hp", root[part] / np.where(mass > 0.0, mass, 1.0)[:, None], features)
                flat = features.reshape(-1, size)
                hessian += flat.T @ flat
                hessian -= mean.T @ mean
        return hessian

    def minimise(self, x: Floats) -> Floats:
        """Minimise from ``x`` with lower bounds by projected Newton steps (Bertsekas 1982), or by L-BFGS-B.

        Newton's method has converged if the projected gradient is at most 1e-8 (scaled to unit curvature if the penalty
        has a larger one) and no slope changes by more than 1e-6, or without a gain. L-BFGS-B, used if a Hessian is too
        expensive, must reach a projected gradient of 1e-7. Otherwise raises ``NotConverged``.
        """
        least = self.rows.least
        if float(len(self.w)) * self.rows.n_classes * len(x) ** 2 > _WHOLE:
            return self._by_lbfgs(x)
        loss, vanished = self.loss(x), 0
        scale = max(1.0, 2.0 * self.strength / len(x)) ** 0.5
        for _ in range(_MAX_STEPS):
            gradient = self.gradient(x)
            left = _projected(x - least, gradient) / scale
            held = (x - least <= min(1e-3, left)) & (gradient > 0.0)
            step = _newton(self.hessian(x), gradient, held)
            move = x - np.maximum(x - step, least)
            flat = left <= _GRADIENT
            # If slopes of ranks and of classes are redundant, steps along their difference do not change the loss.
            small = float(np.abs(move).max()) <= _STEP * (1.0 + float(x.max()))
            if flat and (small or abs(float(gradient @ move)) <= _GAIN):
                return x
            vanished = vanished + 1 if flat else 0
            if vanished == _PATIENCE:
                raise NotConverged(_ENDLESS)
            size = 1.0
            while not (trial := self.loss(np.maximum(x - size * step, least))) <= loss + _ROUNDING:
                size /= 2.0
                if size < 1e-12:
                    raise NotConverged("the slopes did not converge: no step reduces the log loss")
            x, loss = np.maximum(x - size * step, least), trial
        raise NotConverged(f"the slopes did not converge in {_MAX_STEPS} steps")

    def _by_lbfgs(self, x: Floats) -> Floats:
        before, least = self.loss(x), self.rows.least
        options = {"maxiter": 3000, "maxfun": 6000, "ftol": 0.0, "gtol": _ROUGH / 2.0, "maxcor": 30}
        bounds = np.column_stack([least, np.full(len(x), np.inf)])
        fitted = scipy.optimize.minimize(
            self.loss, x, jac=self.gradient, method="L-BFGS-B", bounds=bounds, options=options
        )
        slopes: Floats = np.maximum(fitted.x, least)
        if _projected(slopes - least, self.gradient(slopes)) > _ROUGH or self.loss(slopes) > before + _ROUNDING:
            raise NotConverged("the slopes did not converge; try a larger strength or fewer knots")
        return slopes


def fit_order_preserving(
    vector: Vector, kind: Kind, *, n_knots: int, strength: float | None = None, folds: int = 3, seed: int = 0
) -> FittedOrder:
    """Fit an order-preserving map by log loss (function classes of Rahimi et al. 2020, in a convex form).

    The slopes apply to logits divided by the optimal temperature. The penalty, ``strength`` times the mean square of
    their differences from temperature scaling, is chosen from ``STRENGTHS`` by held-out log loss if it is None. Knots
    are weighted quantiles of the positive distances of the 10 classes that follow the first, or of the first 10 gaps.
    Slopes of g, or of a rank, are at least 0.001 of those of temperature scaling, so that different logits stay
    different. Folds do not depend on the order of the rows. Raises what ``optimal_temperature`` raises,
    ``NotConverged`` and ``TooFewRows``.
    """
    parts = 1 if strength is not None else 2
    report(0, parts, "temperature")
    temperature = optimal_temperature(logits_of(vector), vector.w).value
    problem = _problem(vector, kind, n_knots, temperature)
    held_out = None
    if strength is None:
        with step(0, parts):
            strength, held_out = _chosen(problem, folds, seed, take(vector.clusters, _order(vector)))
    report(parts - 1, parts, "all rows")
    rows = problem.rows
    fitted = replace(problem, strength=float(strength))
    x = fitted.minimise(rows.target)
    slopes, knots = x.reshape(-1, rows.pieces) / temperature, rows.knots * temperature
    transform: Transform
    if kind == "diagonal":
        transform = OrderPreservingDiagonal(knots, slopes[0])
    elif kind == "oi":
        transform = OrderInvariant(knots, slopes)
    else:
        transform = OrderPreserving(knots, slopes[: rows.groups], slopes[rows.groups :])
    loss, gradient = float(problem.w @ fitted.losses(x)), _projected(x - rows.least, fitted.gradient(x))
    return FittedOrder(transform, temperature, float(strength), held_out, loss, gradient)


def _order(vector: Vector) -> Integers:
    """Return the numbers of the rows with weight in canonical order."""
    order = vector.order()
    return order if vector.w is None else order[vector.w[order] > 0.0]


def _problem(vector: Vector, kind: Kind, n_knots: int, temperature: float) -> _Problem:
    """Return the problem with rows in canonical order, without rows of weight 0."""
    order = _order(vector)
    w = np.ones(len(order)) if vector.w is None else vector.w[order]
    values = vector.p if vector.logits is None else vector.logits
    n, K = len(order), vector.n_classes
    labels, own = vector.labels[order], vector.labels[order].copy()
    distances = np.empty((n, K if kind == "diagonal" else K - 1))
    classes = np.empty((n, K - 1 if kind == "op" else 0), dtype=np.int64)
    shown = np.empty((n, min(K - 1, RANKS)))
    for rows in blocks_of_rows(values[:n]):
        check()
        z = logits_block(values[order[rows]], vector.logits is None) / temperature
        ranking, gaps = ranked(z)
        if kind == "diagonal":
            distances[rows] = z.max(axis=1, keepdims=True) - z
            shown[rows] = gaps.cumsum(axis=1)[:, :RANKS]
            continue
        distances[rows], shown[rows] = gaps, gaps[:, :RANKS]
        own[rows] = (ranking == labels[rows, None]).argmax(axis=1)
        if kind == "op":
            classes[rows] = ranking[:, :-1]
    knots = _quantiles(shown, w, n_knots)
    return _Problem(_Rows(kind, distances, classes, own, knots, K), w / w.sum())


def _quantiles(values: Floats, w: Floats, count: int) -> Floats:
    """Return distinct weighted quantiles of the positive ``values (n, c)``; ``w (n,)`` are row weights."""
    flat, mass = values.ravel(), np.repeat(w, values.shape[1])
    flat, mass = flat[flat > 0.0], mass[flat > 0.0]
    if not len(flat):
        raise OnePrediction.at("/predictions", "are the same for all classes in every row")
    order = np.argsort(flat, kind="stable")
    running = np.cumsum(mass[order])
    wanted = np.arange(1, count + 1) / (count + 1) * running[-1] * (1.0 - 1e-12)
    return np.unique(flat[order][np.searchsorted(running, wanted)])


def _chosen(problem: _Problem, folds: int, seed: int, clusters: Integers | None) -> tuple[float, float]:
    """Return the strength with the smallest held-out log loss (the strongest one of ties), and that loss."""
    n = len(problem.w)
    check_fold_count(n, folds)
    fold = fold_of_rows(n, folds, seed, clusters)
    scores = np.zeros(len(STRENGTHS))
    for k in range(folds):
        outside = np.where(fold == k, 0.0, problem.w)
        x = problem.rows.target
        for i, strength in enumerate(STRENGTHS):
            report(k * len(STRENGTHS) + i, folds * len(STRENGTHS), "strengths outside folds")
            x = replace(problem, w=outside / outside.sum(), strength=strength).minimise(x)
            scores[i] += float(problem.w[fold == k] @ problem.losses(x)[fold == k])
    best = int(scores.argmin())
    return STRENGTHS[best], float(scores[best])


def _newton(hessian: Floats, gradient: Floats, held: npt.NDArray[np.bool_]) -> Floats:
    """Return Newton's step of the free slopes, and scaled gradients of the slopes at their bounds."""
    step = gradient / np.maximum(hessian.diagonal(), 1e-12)
    free = np.flatnonzero(~held)
    if len(free):
        part = hessian[np.ix_(free, free)]
        ridge = 1e-14 * max(float(part.diagonal().max()), 1e-300)
        for _ in range(10):
            try:
                factor = scipy.linalg.cho_factor(part + ridge * np.eye(len(free)), check_finite=False)
            except scipy.linalg.LinAlgError:
                ridge *= 10.0
                continue
            step[free] = scipy.linalg.cho_solve(factor, gradient[free], check_finite=False)
            return step
        raise NotConverged("the slopes did not converge: the Hessian of the log loss is singular")
    return step


def _projected(above: Floats, gradient: Floats) -> float:
    """Return the largest component of the gradient that does not point below a lower bound."""
    return float(np.abs(np.where(above > 0.0, gradient, np.minimum(gradient, 0.0))).max())


def _softmax(scores: Floats) -> Floats:
    p: Floats = np.exp(scores)
    p /= p.sum(axis=1, keepdims=True)
    return p
